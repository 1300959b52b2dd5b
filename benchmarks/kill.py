"""Does a search that is killed lose anything it had finished?

    python -m benchmarks.kill [--kills 20] [--records FILE] [--seconds 6] [--seed 0] [--json]

Starts a search of a small conv2d that keeps its measurements in FILE, kills it with SIGKILL after
a random time, looks at the file, and goes on: the next search resumes from it. A measurement counts
as finished when the search has reported it, here on its standard output, behind the callback that
keeps it. Each of these has to be in the file, in order and as it was reported, every record has to
be whole, and none may be there that was neither reported nor the last. Candidates that are in the
file must not be measured again. Exit status 1 where one of these fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_TRIALS = 100_000  # more than there is time for


def search(records: str, seed: int) -> None:
    """The search that is killed. Reports each finished measurement as a line."""
    from benchmarks.ops_workloads import conv2d
    from tilewright.auto_scheduler import (
        LocalRunner,
        MeasureCallback,
        PreloadMeasuredStates,
        ProgramMeasurer,
        RecordToFile,
        SearchTask,
        SketchPolicy,
    )
    from tilewright.auto_scheduler.dag import ComputeDAG

    class Report(MeasureCallback):
        def callback(self, policy: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
            for item, result in zip(inputs, results):
                text = digest(item.state.rows, result.costs, result.error_no)
                os.write(1, f"{text}\n".encode())

    task = SearchTask(compute_dag=ComputeDAG(conv2d(1, 14, 14, 32, 32, 3, 1, 1)), target="llvm")
    known = [PreloadMeasuredStates(records)] if Path(records).exists() else []
    policy = SketchPolicy(task, None, seed=seed, verbose=0, init_search_callbacks=known)
    runner = LocalRunner(min_repeat_ms=10, adaptive=True)
    with ProgramMeasurer("local", runner, [RecordToFile(records), Report()], 0) as measurer:
        policy.search(_TRIALS, None, 8, measurer)


def digest(rows: Any, costs: Any, error: int) -> str:
    """A measurement as a line of text."""
    plain = json.dumps([rows, [] if error else list(costs), int(error)])
    return hashlib.sha256(plain.encode()).hexdigest()


def contents(records: str) -> tuple[list[str], list[str], list[str]]:
    """Digests of the records in the file, their candidates, and what cannot be read."""
    from tilewright.auto_scheduler.record_file import read_records

    if not Path(records).exists():
        return [], [], []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = list(read_records(records))
    texts = [digest(r.rows, r.costs, r.error_no) for r in found]
    return texts, [json.dumps(r.rows) for r in found], [str(w.message) for w in caught]


def one_life(records: str, seed: int, count: int, seconds: float) -> list[str]:
    """What a search reported until it was killed, `seconds` after its measurement number
    `count`."""
    command = [sys.executable, "-m", "benchmarks.kill", "--search", records, "--seed", str(seed)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    with child:
        assert child.stdout is not None
        first = b"".join(child.stdout.readline() for _ in range(count))
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read()
    if child.returncode != -signal.SIGKILL:
        raise SystemExit(f"the search ended by itself, with status {child.returncode}")
    return (first + rest).decode().splitlines()


def report(records: str, kills: int, longest: float, seed: int) -> dict[str, Any]:
    """Kill as often as asked; what was lost, torn or done twice."""
    rng = random.Random(seed)
    row: dict[str, Any] = {
        "records": records, "kills": 0, "reported": 0, "kept": 0, "lost": 0, "torn": 0,
        "unreported": 0, "twice": 0,
    }  # fmt: skip
    before, _, _ = contents(records)
    for life in range(kills):
        # in the middle of measuring, or anywhere in what comes after it
        delay = rng.uniform(0.0, 0.05 if life % 2 else longest)
        told = one_life(records, seed + life, rng.randint(1, 8), delay)
        after, candidates, torn = contents(records)
        fresh = after[len(before) :]
        row["kills"] += 1
        row["reported"] += len(told)
        row["kept"] = len(after)
        row["lost"] += sum(a != b for a, b in zip(told, fresh)) + max(0, len(told) - len(fresh))
        row["lost"] += sum(a != b for a, b in zip(before, after)) + max(0, len(before) - len(after))
        row["unreported"] += max(0, len(fresh) - len(told) - 1)
        row["torn"] = len(torn)
        row["twice"] = len(candidates) - len(set(candidates))
        before = after
    row["ok"] = not any(row[name] for name in ("lost", "torn", "unreported", "twice"))
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--records", help="default: a store, and lines of JSON, each on its own")
    parser.add_argument(
        "--seconds", type=float, default=6.0, help="a search lives no longer after a measurement"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--search", metavar="FILE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.search:
        search(args.search, args.seed)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        names = [args.records] if args.records else [f"{folder}/r.db", f"{folder}/r.json"]
        rows = [report(name, args.kills, args.seconds, args.seed) for name in names]
    for row in rows:
        if not args.json:
            print(", ".join(f"{name} {value}" for name, value in row.items()))
    if args.json:
        print(json.dumps({"rows": rows}))
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
