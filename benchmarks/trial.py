"""Where the time of a measured trial goes.

    python -m benchmarks.trial [--rounds 3] [--trials 64] [--json]

Searches schedules of conv2d 14,14,256,256,3,1,1 and prints, per trial and round: `search`
(evolution), `states` (rows applied to schedules), `build` (until the last candidate is built; in
the workers), `run`, `learn` (training), `total`, all in seconds; `early`, the share of candidates
that were stopped early; `noise`, the median over the others; `best_ms`. In the end, the seconds of
processors that the search and the workers took for a trial. The machine should have nothing else to
do.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from itertools import pairwise
from typing import Any

from benchmarks.ops_workloads import conv2d
from tilewright.auto_scheduler import (
    MeasureCallback,
    MeasureInput,
    ProgramMeasurer,
    SearchTask,
    SketchPolicy,
)
from tilewright.auto_scheduler.dag import ComputeDAG


class First(MeasureCallback):
    """When the first measurement was done, and what that had taken to run."""

    def __init__(self) -> None:
        self.moment = 0.0

    def callback(self, policy: Any, inputs: Any, results: Any) -> None:
        self.moment = self.moment or time.perf_counter()


def one_round(policy: SketchPolicy, measurer: ProgramMeasurer, trials: int) -> dict[str, float]:
    """Seconds per trial by part."""
    first = First()
    measurer.callbacks = [first]
    moments = [time.perf_counter()]
    chosen = policy.propose(trials)
    moments.append(time.perf_counter())
    inputs = [MeasureInput(policy.task, policy.state_of(c)) for c in chosen]
    moments.append(time.perf_counter())
    results = measurer.measure(policy.task, policy, inputs)
    moments += [first.moment, time.perf_counter()]
    policy.learn(inputs, results)
    moments.append(time.perf_counter())
    parts = [(b - a) / len(inputs) for a, b in pairwise(moments)]
    row = dict(zip(("search", "states", "build", "run", "learn"), parts))
    good = [r for r in results if r.ok]
    noises = [r.noise for r in good if not r.early]
    return {
        **row,
        "total": sum(parts),
        "failed": float(len(results) - len(good)),
        "early": sum(r.early for r in good) / max(1, len(good)),
        "noise": statistics.median(noises) if noises else 0.0,
        "best_ms": min((r.cost for r in good), default=float("inf")) * 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Where the time of a measured trial goes.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=64, help="a round")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    task = SearchTask(compute_dag=ComputeDAG(conv2d(1, 14, 14, 256, 256, 3, 1, 1)), target="llvm")
    policy = SketchPolicy(task, None, verbose=0)
    rows = []
    with ProgramMeasurer(verbose=0) as measurer:
        measurer.warm()
        for _ in range(args.rounds):
            rows.append(one_round(policy, measurer, args.trials))
            if not args.json:
                print(", ".join(f"{k} {v:.3f}" for k, v in rows[-1].items()), flush=True)
    trials = args.rounds * args.trials
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processors = {
        "search_cpu": time.process_time() / trials,
        "workers_cpu": (used.ru_utime + used.ru_stime) / trials,
    }
    if args.json:
        print(json.dumps({"rows": rows, **processors}))
    else:
        print(", ".join(f"{k} {v:.3f}" for k, v in processors.items()))


if __name__ == "__main__":
    main()
