"""README's matrix product over sizes that nobody chose: how far the slowest is from the fastest.

    python -m benchmarks.matmul_sizes [--sizes 500:530,990:1010] [--rounds 3] [--seconds 0.1]
        [--out FILE]

For each n (both ends included) what the auto-scheduler chooses without a measurement, in GFLOP/s
on two threads: the median over rounds in which all sizes run once, since the machine's rate drifts.
The machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ERROR = 1e-4  # of the largest number


def sizes_of(text: str) -> list[int]:
    """The sizes that "500:530,990" names."""
    sizes: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition(":")
        sizes += range(int(first), int(last or first) + 1)
    return sizes


def matmul(n: int) -> list[Any]:
    """The product of two n x n matrices, as README has it."""
    from tilewright import te

    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


def product(n: int) -> Callable[[], Any]:
    """A call of the product of two n x n matrices, checked against NumPy."""
    import tilewright as tvm
    from tilewright import auto_scheduler

    auto_scheduler.register_workload(matmul, override=True)
    task = auto_scheduler.SearchTask(func=matmul, args=(n,), target="llvm")
    built = tvm.build(*auto_scheduler.auto_schedule(task), "llvm")
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n), np.float32) for _ in range(2))
    out = tvm.nd.array(np.zeros((n, n), np.float32))
    call: Callable[[], Any] = built.prepare(tvm.nd.array(a), tvm.nd.array(b), out)
    call()
    want = a @ b
    wrong = np.max(np.abs(out.numpy() - want)) / np.max(np.abs(want))
    if wrong > ERROR:
        raise ValueError(f"n = {n}: wrong by {wrong:.1e} of the largest number")
    return call


def seconds_of(call: Callable[[], Any], seconds: float) -> float:
    """Seconds a call, over as many as last so long."""
    count, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        call()
        count += 1
    return spent / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="500:530,990:1010")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.1, help="of a turn")
    parser.add_argument("--out", help="the rates as JSON")
    given = parser.parse_args()
    from tilewright.rt.threads import set_num_threads

    set_num_threads(2)
    calls = {n: product(n) for n in sizes_of(given.sizes)}
    turns: dict[int, list[float]] = {n: [] for n in calls}
    for _ in range(given.rounds):
        for n, call in calls.items():
            turns[n].append(seconds_of(call, given.seconds))
    rates = {n: 2e-9 * n**3 / median(own) for n, own in turns.items()}
    for n, rate in rates.items():
        print(f"{n:6d} {rate:8.1f} GFLOP/s")
    fastest, slowest = max(rates, key=rates.__getitem__), min(rates, key=rates.__getitem__)
    share = rates[slowest] / rates[fastest]
    print(f"slowest {slowest}, fastest {fastest}: {share:.2f}")
    if given.out:
        report = {"gflops": rates, "slowest": slowest, "fastest": fastest, "share": share}
        Path(given.out).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
