"""Programs of the fuzzer, printed and read back: `python -m tests.fuzz.script --cases N --seed S`.

Of each program under a random schedule: the loops as they are made, after all passes with and
without partitioning, and for schedules of kernels the functions of host and device. What is read
from the text must be the same program; so must what Python makes of the text of that.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.fuzz.check import REFUSALS, drawn
from tests.fuzz.progress import Progress
from tilewright import lower
from tilewright.driver.lower import schedule_to_func
from tilewright.ir import assert_structural_equal
from tilewright.loopir.module import IRModule
from tilewright.lowering.device_pipeline import run_device_pipeline
from tilewright.script import from_source
from tilewright.target.target import Target


def round_trip(program: Any) -> None:
    """Raise ValueError unless the text of a function or module reads back as the same program."""
    text = program.script()
    again = from_source(text, check_well_formed=False)
    assert_structural_equal(program, again, map_free_vars=True)
    if again.script() != text:
        assert_structural_equal(again, from_source(again.script(), check_well_formed=False), True)


def forms(seed: int, device: str) -> Iterator[tuple[str, Any]]:
    """The forms of a case's program, by name."""
    _, built, s, _ = drawn(seed, device)
    args = [*built.used(), *built.outputs]
    yield "loops", schedule_to_func(s, args, "main", None)
    if device == "llvm":
        yield "simple", lower(s, args, simple_mode=True)
        yield "lowered", lower(s, args)
        return
    with Target("cuda" if seed % 4 else "opencl") as target:
        module = lower(s, args)
        yield "lowered", module
        program = run_device_pipeline(module["main"], target, check=False)
    yield "split", IRModule({"main": program.host, **program.kernels})


def one(seed: int, stats: Counter[str]) -> str | None:
    """What is wrong with a case; None if nothing is."""
    device = "simt" if seed % 3 == 0 else "llvm"
    try:
        for name, program in forms(seed, device):
            stats[name] += 1
            try:
                round_trip(program)
            except Exception as error:
                text = str(error).split("\nleft:")[0]
                return f"seed {seed}, {name}: {type(error).__name__}: {text}"
    except REFUSALS:
        stats["refused"] += 1
    return None


def run(
    cases: int, seed: int, stop: int = 12, quiet: bool = True
) -> tuple[Counter[str], list[str]]:
    """What was read back, and the reports of cases that failed (at most `stop`)."""
    stats: Counter[str] = Counter()
    failures: list[str] = []
    progress = Progress(cases, quiet)
    for i in range(cases):
        progress.tell(i, len(failures))
        report = one(seed * 1_000_003 + i, stats)
        if report is not None:
            failures.append(report)
            if len(failures) >= stop:
                break
    return stats, failures


def main() -> int:
    parser = argparse.ArgumentParser(description="Print programs, read them back, compare.")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--one", type=int, help="run the case of this seed alone")
    args = parser.parse_args()
    if args.one is not None:
        print(one(args.one, Counter()) or "passes")
        return 0
    seed = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    start = time.perf_counter()
    stats, failures = run(args.cases, seed, quiet=False)
    print("\n".join(failures))
    counts = ", ".join(f"{n} {name}" for name, n in sorted(stats.items()))
    print(f"seed {seed}: {counts}; {len(failures)} failures, {time.perf_counter() - start:.0f} s")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
