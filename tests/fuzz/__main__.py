"""`python -m tests.fuzz --cases N --seed S`: random programs under random schedules against
te_eval.
"""

from __future__ import annotations

import argparse
import os
import selectors
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

from . import isolated
from .check import LEGAL, Failure, Statistics, run_case, run_chunk
from .legality import UNDECIDED
from .mutant_kit import only_touched
from .mutants import MUTANTS, device_of
from .progress import Progress
from .schedules import ACTIONS
from .shrink import text_of

CHUNK = 25
HANG_S = 120.0
CAUGHT = 3  # the exit code of a hunt that has found a case


def run_cases(
    cases: int,
    seed: int,
    jobs: int,
    stop_after: int,
    quiet: bool = False,
    device: str = "llvm",
) -> tuple[Statistics, list[Failure]]:
    """Many cases on several processes; stops early after some failures."""
    total = Statistics()
    failures: list[Failure] = []
    chunks = [(seed + k, min(CHUNK, cases - k), device) for k in range(0, cases, CHUNK)]
    progress = Progress(cases, quiet)
    if device in isolated.DEVICES:
        results = isolated.run_chunks(chunks, jobs)
        _collect(results, total, failures, progress, stop_after, device)
        results.close()
        return total, failures
    if jobs <= 1:
        mine = (run_chunk(*c) for c in chunks)
        _collect(mine, total, failures, progress, stop_after, device)
        return total, failures
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        jobs_running = [pool.submit(run_chunk, *c) for c in chunks]
        theirs = (j.result() for j in jobs_running)
        _collect(theirs, total, failures, progress, stop_after, device)
        for j in jobs_running:
            j.cancel()
    return total, failures


def _collect(results, total, failures, progress, stop_after, device) -> None:
    for stats, bad in results:
        total.merge(stats)
        failures.extend(isolated.made_again(seed, problem, device) for seed, problem in bad)
        for seed, problem in bad if not progress.quiet else ():
            print(f"\rfailed: seed {seed}: {problem.splitlines()[0][:150]}", flush=True)
        progress.tell(total.cases, len(failures))
        if len(failures) >= stop_after:
            break


def histogram(stats: Statistics) -> str:
    """What was drawn: programs by mode, type and kind, sizes, primitives; and what was refused."""
    count = max(stats.used["schedules"], 1)
    executed = max(stats.cases - stats.rejected, 1)
    sizes = sorted(stats.sizes.elements()) or [0]
    lines = [
        f"{stats.cases} cases, {stats.rejected} schedules refused when lowered, "
        f"{stats.cases - stats.rejected} executed, "
        f"{stats.used['primitives'] / count:.1f} primitives a schedule, "
        f"median output of {sizes[len(sizes) // 2]} elements",
    ]
    for name, share in sorted(stats.drawn.items()):
        lines.append(f"  {name:20} {share:6} executed ({share / executed:5.1%})")
    names = ACTIONS.keys() | stats.used.keys() - {"schedules", "primitives"}
    for name in sorted(names, key=lambda n: (-stats.used[n], n)):
        part = stats.used[name] / count
        bar = "#" * round(part * 40)
        lines.append(f"  {name:20} {part:6.1%} {bar}  ({stats.refused[name]} draws refused)")
    lines += [f"  {n:6} refused: {why}" for why, n in stats.reasons.most_common(20)]
    lines.append(shares(stats))
    lines += [f"  {n:6} {rule}" for rule, n in sorted(stats.verdicts.items())]
    lines += [f"  {LEGAL}: {text}" for text in stats.legal]
    lines += [f"  late: {text}" for text in stats.slow]
    return "\n".join(lines)


def shares(stats: Statistics) -> str:
    """How many legal schedules, and legal calls of primitives, are refused (legality.py)."""
    schedules = stats.verdicts[f"schedule: {LEGAL}"]
    undecided = sum(n for rule, n in stats.verdicts.items() if UNDECIDED in rule)
    calls = sum(n for rule, n in stats.verdicts.items() if rule.endswith(LEGAL)) - schedules
    executed = stats.cases - stats.rejected
    return (
        f"legal schedules that are refused: {schedules / max(executed + schedules, 1):.2%} "
        f"({schedules} of {executed + schedules}; {undecided} undecided); legal calls: "
        f"{calls / max(stats.used['primitives'] + calls, 1):.2%} ({calls})"
    )


def first_caught(name: str, cases: int, seed: int) -> int | None:
    """How many cases it takes to notice a mutant; None if `cases` do not.

    Runs in a process of its own, since wrong code may also crash or hang: that is noticed too.
    """
    command = [sys.executable, "-m", "tests.fuzz", "--hunt", name]
    command += ["--cases", str(cases), "--seed", str(seed)]
    last, deadline = 0, time.monotonic() + HANG_S
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        selectors.DefaultSelector() as ready,
    ):
        assert process.stdout is not None
        ready.register(process.stdout, selectors.EVENT_READ)
        while ready.select(max(0.0, deadline - time.monotonic())):
            line = process.stdout.readline()
            if not line:
                status = process.wait()
                if status > 0 and status != CAUGHT:
                    raise RuntimeError(f"the hunt for {name} failed by itself: exit code {status}")
                return last + 1 if status else None
            last, deadline = int(line), time.monotonic() + HANG_S
        process.kill()
        return last + 1  # it hangs


def hunt(name: str, cases: int, seed: int) -> int:
    """Run cases on a mutant, a line for each that passes; CAUGHT at the first that fails."""
    device = device_of(name)
    for k in range(cases):
        # the check inside of the mistake: a changed text is seen first
        with only_touched(), MUTANTS[name]():
            failure = run_case(seed + k, Statistics(), device)
        # a case that fails anyway shows nothing
        if failure is not None and run_case(seed + k, Statistics(), device) is None:
            print(failure.problem.splitlines()[0], file=sys.stderr)
            return CAUGHT
        print(k + 1, flush=True)
    return 0


def run_mutants(cases: int, seed: int, names: list[str], jobs: int) -> int:
    """Report on each mutant; the exit status."""
    missed = 0
    with ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda name: first_caught(name, cases, seed), names)
        for name, found in zip(names, results):
            missed += found is None
            what = "NOT CAUGHT" if found is None else f"caught by case {found}"
            print(f"{name:36} {what}", flush=True)
    print(f"{missed} mutants not caught within {cases} cases")
    return 1 if missed else 0


def main() -> int:
    os.environ.setdefault("TILEWRIGHT_CACHE", "0")
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=300, help="how many (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first case (default 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--device", choices=("llvm", "simt", "opencl"), default="llvm")
    parser.add_argument("--stop-after", type=int, default=5, help="failures (default 5)")
    parser.add_argument("--no-shrink", action="store_true", help="report failures as they are")
    parser.add_argument(
        "--mutants", action="store_true", help="check that seeded mistakes are caught"
    )
    parser.add_argument("names", nargs="*", help="of mutants (default: all)")
    parser.add_argument("--hunt", metavar="MUTANT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hunt:
        return hunt(options.hunt, options.cases, options.seed)
    if options.mutants:
        return run_mutants(
            options.cases, options.seed, options.names or list(MUTANTS), options.jobs
        )
    stats, failures = run_cases(
        options.cases, options.seed, options.jobs, options.stop_after, device=options.device
    )
    print(histogram(stats))
    for failure in failures[: options.stop_after]:
        print(text_of(failure) if options.no_shrink else isolated.report(failure))
    print(f"{len(failures)} failures in {stats.cases} cases")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
