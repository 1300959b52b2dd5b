"""What each part of the search adds: the best after equal trials without it.

    python -m benchmarks.ablation [--set suite|layers|odd:SEED] [--cases TEXT;TEXT] [--arms A,B]
        [--seeds 5] [--trials 64] [--rounds 5] [--without-library] [--pairs] [--json]
        [--out FILE [--resume]]

An arm is the search with one switch set (benchmarks/search_arms.py). It runs on the cases in which
that changes what is searched, or how: sketches, their open columns, layouts of constants, the
library's schedules, the model, the evolution; `--pairs` prints which these are, and ends. With the
default cases, each switch must have at least two. When a case has been searched by all its arms
with all seeds, all winners are measured again in turns. A share below 1 says how much slower
the winner without the part is: medians over seeds, the geometric mean and the worst case over those
cases alone, and the geometric mean of each seed: where these lie on both sides of 1, nothing is
shown. `--without-library` leaves the library's schedules out of every arm, since what they find
hides what becomes of the sketches. FILE is whole after each case. The machine should have nothing
else to do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from math import exp, inf, isfinite, log
from pathlib import Path
from typing import Any

from benchmarks.ops import select
from benchmarks.ops_ours import task_of
from benchmarks.ops_suite import Case, cases_of
from benchmarks.search_arms import (
    ARMS,
    SWITCHES,
    WHOLE,
    Arm,
    Kept,
    again,
    arms_of,
    differences,
    search,
)
from tilewright.auto_scheduler import ProgramMeasurer
from tilewright.rt.busy import watched

DEFAULT_CASES = (
    "C2D 14,14,256,256,3;C2D 56,56,64,64,1;C2D 7,7,512;ConvLayer 56,56;T2D 8,8;DEP 14,14;"
    "GMM 128,128,128;GMM 512,512,512;NRM 256,256;NRM 1024,1024;TBS 64,12,128"
)
LEAST_CASES, LEAST_SEEDS = 2, 5
Row = dict[str, Any]


def pairs(
    chosen: Sequence[Case], arms: Mapping[str, Arm], **params: Any
) -> dict[str, dict[str, list[str]]]:
    """By case, the arms that change something, and what."""
    return {case.name: differences(task_of(case), arms, **params) for case in chosen}


def one_case(
    case: Case, arms: Mapping[str, Arm], given: argparse.Namespace, params: Mapping[str, Any]
) -> Row:
    """A row: seconds of the winners of all arms, by seed, measured in turns."""
    task, found = task_of(case), {}
    with ProgramMeasurer(verbose=0) as measurer:
        for seed in range(given.seeds):
            for name, arm in arms.items():  # in turn: a slow phase of the machine meets all
                one = search(task, arm, given.trials, seed, measurer, **params)
                found[name, seed] = one
                best = min(one.costs, default=inf) * 1e6
                print(
                    f"{case.name}: {name}, seed {seed}: {best:.1f} us, {one.seconds:.0f} s"
                    f"{' ' + one.ended if one.ended else ''}",
                    file=sys.stderr,
                    flush=True,
                )
    seconds = again(found, given.rounds)
    report: Row = {}
    for name in arms:
        runs = [found[name, seed] for seed in range(given.seeds)]
        values = [seconds[name, seed] for seed in range(given.seeds)]
        report[name] = {
            "again_s": [v if isfinite(v) else None for v in values],
            "runs": [r.report() for r in runs],
        }
    return {"case": case.name, "arms": report}


def summary(rows: Sequence[Row]) -> dict[str, Row]:
    """By arm: the geometric mean of its shares, the worst, those of the seeds, and failures."""
    names = {name: None for row in rows for name in row["arms"] if name != WHOLE}
    return {name: _of_arm(name, [r for r in rows if name in r["arms"]]) for name in names}


def _of_arm(name: str, rows: Sequence[Row]) -> Row:
    shares: dict[str, float] = {}
    by_seed: dict[int, list[float]] = {}
    failed: list[str] = []
    spreads: list[float] = []
    for row in rows:
        whole, own = (row["arms"][n]["again_s"] for n in (WHOLE, name))
        both = [(a, b) for a, b in zip(whole, own) if a and b]
        for kind in (WHOLE, name):
            lost = row["arms"][kind]["again_s"].count(None)
            failed += [f"{row['case']}: {lost} searches of {kind} found nothing"] * bool(lost)
        ends = {run["ended"] for run in row["arms"][name]["runs"] if run["ended"]}
        failed += [f"{row['case']}: {end}" for end in sorted(ends)]
        if not both:
            continue
        shares[row["case"]] = _middle([a for a, _ in both]) / _middle([b for _, b in both])
        spreads.append(max(b for _, b in both) / min(b for _, b in both))
        for seed, (a, b) in enumerate(zip(whole, own)):
            if a and b:
                by_seed.setdefault(seed, []).append(a / b)
    seeds = [_geomean(found) for found in by_seed.values()]
    worst = min(shares, key=shares.__getitem__) if shares else None
    return {
        "cases": shares,
        "geomean": _geomean(list(shares.values())),
        "worst": worst,
        "worst_share": shares[worst] if worst else None,
        "seeds": seeds,
        "spread": _geomean(spreads),
        "shown": _shown(seeds),
        "failed": failed,
    }


def _middle(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def _geomean(values: Sequence[float]) -> float | None:
    return exp(sum(map(log, values)) / len(values)) if values else None


def _shown(seeds: Sequence[float | None]) -> str:
    """What all seeds agree on, if they are enough not to agree by chance."""
    known = [s for s in seeds if s is not None]
    if len(known) < LEAST_SEEDS or min(known) <= 1 <= max(known):
        return "nothing"
    return "helps" if max(known) < 1 else "harms"


def table(rows: Sequence[Row]) -> str:
    """The summary as text: a share of 0.80 says that without the part the winner needs 1 / 0.80 of
    the time."""
    lines = [
        f"{'without / instead':20}{'cases':>6}{'mean':>7}{'seeds':>14}{'spread':>8}"
        f"{'worst':>7}  {'case':30}the part"
    ]
    for name, one in summary(rows).items():
        if one["geomean"] is None:
            lines.append(f"{name:20}{0:6}")
        else:
            low, high = min(one["seeds"]), max(one["seeds"])
            lines.append(
                f"{name:20}{len(one['cases']):6}{one['geomean']:7.2f}"
                f"{low:8.2f}-{high:.2f} {one['spread']:7.2f}"
                f"{one['worst_share']:7.2f}  {one['worst']:30}{one['shown']}"
            )
        lines += [f"    {why}" for why in one["failed"]]
    return "\n".join(lines)


def parsed() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--set", default="suite", help="suite, layers or odd:SEED")
    parser.add_argument("--cases", default=DEFAULT_CASES, help="parts of names, ; between them")
    parser.add_argument("--arms", default=",".join(SWITCHES), help="of benchmarks/search_arms.py")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5, help="in which winners are measured again")
    parser.add_argument("--without-library", action="store_true", help="in every arm")
    parser.add_argument("--pairs", action="store_true", help="print what changes, search nothing")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="JSON, written after each case")
    parser.add_argument("--resume", action="store_true", help="go on with what FILE has")
    return parser, parser.parse_args()


@watched()
def main() -> int:
    """Search, print the table."""
    parser, given = parsed()
    names = ("set", "arms", "seeds", "trials", "rounds", "without_library")
    how = {k: getattr(given, k) for k in names}
    params = {"default_schedule_first": 0} if given.without_library else {}
    try:
        arms = {n: a for n, a in arms_of(given.arms).items() if n != WHOLE}
        kept = Kept(None if given.pairs else given.out, how, given.resume)
    except (ValueError, FileExistsError) as problem:
        parser.error(str(problem))
    if given.without_library:
        arms = {n: a for n, a in arms.items() if n not in ("limited", "sketches")}
    chosen = select(cases_of(given.set), given.cases)
    changed = pairs(chosen, arms, **params)
    counts = {n: sum(n in found for found in changed.values()) for n in arms}
    few = [n for n, count in counts.items() if count < LEAST_CASES]
    if given.pairs:
        for name, found in changed.items():
            print(name, *(f"    {n}: {', '.join(what)}" for n, what in found.items()), sep="\n")
        return int(bool(few))
    if few and given.cases == DEFAULT_CASES:
        parser.error(f"fewer than {LEAST_CASES} cases in which these change anything: {few}")
    for case in chosen:
        if case.name not in kept.rows:
            own = {WHOLE: ARMS[WHOLE], **{n: arms[n] for n in changed[case.name]}}
            row = one_case(case, own, given, params)
            kept.add(case.name, {**row, "changed": changed[case.name]})
    rows = list(kept.rows.values())
    result = {"summary": summary(rows), "changes_nothing": [n for n in arms if not counts[n]]}
    kept.write(**result)
    print(json.dumps(kept.result(**result), indent=1) if given.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
