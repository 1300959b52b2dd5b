"""Curves of real searches, for benchmarks.task_scheduler to replay.

    python -m benchmarks.scheduler_curves FILE [--rounds 12] [--per-round 8]

Searches some cases of benchmarks.ops, each alone, as networks are tuned: the operator library's
schedule is the first measurement. FILE (JSON) gets the least seconds after each round. A case that
is in FILE already is not searched again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.ops_ours import task_of
from benchmarks.ops_suite import cases
from tilewright.auto_scheduler import LocalRunner, ProgramMeasurer, SketchPolicy

CASES = (
    "C1D 64,256,256,5,1,2",
    "C2D 56,56,64,64,1,1,0",
    "C2D 14,14,256,256,3,1,1",
    "GMM 128,128,128",
    "GMM 512,32,512",
    "GRP 14,14,256,256,3,1,1",
    "DEP 14,14,512,3,2,1",
    "T2D 8,8,256,128,4,2,1",
    "NRM 512,512",
    "ConvLayer 28,28,128,256,1,2,0",
    "CAP 8,8,16,16,3,1,1",
    "TBS 64,12,128",
)


def curve(task: Any, rounds: int, per_round: int, measurer: Any) -> list[float]:
    """The least seconds after each round of a search."""
    policy = SketchPolicy(task, None, params={"default_schedule_first": 1}, seed=0, verbose=0)
    found = []
    for _ in range(rounds):
        if not policy.continue_search_one_round(per_round, measurer)[0]:
            break
        found.append(float(policy.best_cost))
    return found


def main() -> None:
    """Record the curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--per-round", type=int, default=8)
    options = parser.parse_args()
    report = {"per_round": options.per_round, "tasks": []}
    if options.file.exists():
        report = json.loads(options.file.read_text())
    done = {row["name"] for row in report["tasks"]}
    with ProgramMeasurer(
        runner=LocalRunner(min_repeat_ms=20, adaptive=True), verbose=0
    ) as measurer:
        for case in cases():
            if case.name in CASES and case.name not in done:
                found = curve(task_of(case), options.rounds, options.per_round, measurer)
                row = {"name": case.name, "flop": case.flop, "seconds": found}
                report["tasks"].append(row)
                options.file.write_text(json.dumps(report, indent=1) + "\n")
                print(case.name, [f"{1e6 * s:.0f} us" for s in found], flush=True)


if __name__ == "__main__":
    main()
