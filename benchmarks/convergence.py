"""How many trials a search needs: its best after 100 beside the best of searches of 1,000.

    python -m benchmarks.convergence [--set suite|layers|odd:SEED] [--case TEXT] [--trials 1000]
        [--early 100] [--seeds 5] [--json]

Searches one case of benchmarks.ops (C2D 14,14,256,256,3,1,1) once for each seed. In the end the
best programs of each search, after `--early` trials and after all, are measured again in turn,
since the smallest of thousands of measurements is partly luck; `share` is the time of the best
program of all searches over that of a search's best after `--early` trials. `seconds_per_trial` is
the whole of the first 200: building, running, searching, training. The machine should have nothing
else to do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

from benchmarks.ops_ours import task_of
from benchmarks.ops_suite import cases_of
from tilewright.auto_scheduler import MeasureInput, ProgramMeasurer, SketchPolicy

COST_TRIALS = 200


def one_search(task: Any, seed: int, trials: int, early: int, per_round: int) -> dict[str, Any]:
    """The best states of one search, early and at the end, and the seconds a trial took."""
    policy = SketchPolicy(task, None, seed=seed, verbose=0)
    found: dict[str, Any] = {}
    begin = time.perf_counter()
    with ProgramMeasurer(verbose=0) as measurer:
        measurer.warm()
        while policy.trials < trials:
            marks = [m for m in (early, COST_TRIALS, trials) if m > policy.trials]
            count = min(per_round, min(marks) - policy.trials)
            if not policy.continue_search_one_round(count, measurer)[0]:
                break
            if policy.trials >= early and "early" not in found:
                found["early"] = policy.best_state
            if policy.trials >= COST_TRIALS and "seconds_per_trial" not in found:
                found["seconds_per_trial"] = (time.perf_counter() - begin) / policy.trials
    found.setdefault("early", policy.best_state)
    found.setdefault("seconds_per_trial", (time.perf_counter() - begin) / max(policy.trials, 1))
    return {**found, "final": policy.best_state, "measured_s": policy.best_cost}


def measured_again(task: Any, states: list[Any], rounds: int) -> list[float]:
    """Median seconds of each state over some rounds, all of them once a round."""
    seconds: list[list[float]] = [[] for _ in states]
    for _ in range(rounds):
        with ProgramMeasurer(verbose=0) as measurer:
            inputs = [MeasureInput(task, state) for state in states]
            for own, result in zip(seconds, measurer.measure(task, None, inputs)):
                own.append(result.cost)
    return [statistics.median(own) for own in seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="suite", help="suite, layers or odd:SEED")
    parser.add_argument("--case", default="C2D 14,14,256,256", help="part of a name")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--early", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--per-round", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=7, help="of the measurement in the end")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        found = cases_of(given.set)
    except ValueError as problem:
        parser.error(str(problem))
    case = next((c for c in found if given.case in c.name), None)
    if case is None:
        parser.error(f"no case is named like {given.case!r}")
    task = task_of(case)
    rows = []
    for seed in range(given.seeds):
        rows.append(one_search(task, seed, given.trials, given.early, given.per_round))
        print(
            f"seed {seed}: {rows[-1]['measured_s'] * 1e6:.1f} us, "
            f"{rows[-1]['seconds_per_trial']:.3f} s a trial",
            file=sys.stderr,
        )
    states = [row[which] for which in ("early", "final") for row in rows]
    seconds = measured_again(task, states, given.rounds)
    early, final = seconds[: len(rows)], seconds[len(rows) :]
    best = min(seconds)
    shares = [best / one for one in early]
    report = {
        "case": case.name,
        "early_s": early,
        "final_s": final,
        "shares": shares,
        "median_share": statistics.median(shares),
        "seconds_per_trial": statistics.fmean(row["seconds_per_trial"] for row in rows),
    }
    if given.json:
        print(json.dumps(report, indent=1))
        return
    for seed, (a, b, share) in enumerate(zip(early, final, shares)):
        print(
            f"seed {seed}: {a * 1e6:8.1f} us after {given.early} trials, {b * 1e6:8.1f} us after "
            f"{given.trials}; share {share:.3f}"
        )
    print(f"median share {report['median_share']:.3f}, {report['seconds_per_trial']:.3f} s a trial")


if __name__ == "__main__":
    main()
