"""Speed of the vector math functions against the C library's scalar functions, in one run.

    python -m benchmarks.mathspeed [--function NAME] [--dtype float32] [--lanes N] [--cpu NAME]

Both run over the same array of 2048 elements (which stays in the L1 cache) of moderate values; the
best of many rounds counts, taken in turns. A row gives nanoseconds an element and the ratio;
sigmoid and rsqrt, which the C library lacks, are compared with formulas of exp and sqrt.
"""

from __future__ import annotations

import argparse
import ctypes.util
import json
import time
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from benchmarks.mathjit import Compiled, compile_scalar, compile_vector, numpy_type
from tilewright.base.mapped import compact
from tilewright.codegen.llvm import math as vector_math
from tilewright.rt.busy import watched

_SIZE = 2048
_RANGES = {
    "log": (1e-3, 1e3),
    "log2": (1e-3, 1e3),
    "log10": (1e-3, 1e3),
    "log1p": (-0.9, 100),
    "sqrt": (0, 100),
    "rsqrt": (0.01, 100),
    "acosh": (1, 100),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atanh": (-0.99, 0.99),
    "erf": (-4, 4),
    "tanh": (-5, 5),
    "pow": (0.1, 10),
}


def inputs(name: str, dtype: str) -> list[np.ndarray[Any, Any]]:
    """Arguments in the range where the function is neither trivial nor special."""
    rng = np.random.default_rng(1)
    low, high = _RANGES.get(name, (-10, 10))
    count = vector_math.arity(name)
    kind = numpy_type(dtype)
    return [compact(rng.uniform(low, high, _SIZE).astype(kind)) for _ in range(count)]


def best_time(
    runs: list[tuple[Compiled, list[np.ndarray[Any, Any]]]], rounds: int = 40, repeat: int = 50
) -> list[float]:
    """Least seconds of one pass over the arrays, for each function, measured in turns."""
    best = [float("inf")] * len(runs)
    for _ in range(rounds):
        for i, (function, arrays) in enumerate(runs):
            start = time.perf_counter()
            function(*arrays, times=repeat)
            best[i] = min(best[i], (time.perf_counter() - start) / repeat)
    return best


def measure(name: str, element: str, lanes: int, cpu: str | None = None) -> dict[str, Any]:
    """One row: nanoseconds an element of the vector and the scalar code, and their ratio."""
    arguments = inputs(name, element)
    arrays = [*arguments, compact(arguments[0])]
    dtype = element if lanes == 1 else f"{element}x{lanes}"
    vector = compile_vector(name, dtype, cpu)
    scalar = compile_scalar(name, element)
    fast, slow = best_time([(vector, arrays), (scalar, arrays)])
    return {
        "function": name,
        "dtype": dtype,
        "vector_ns": fast / _SIZE * 1e9,
        "scalar_ns": slow / _SIZE * 1e9,
        "ratio": slow / fast,
    }


@watched()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--function", choices=vector_math.names(), action="append")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    parser.add_argument("--lanes", type=int, default=0, help="0: a vector of 64 bytes")
    parser.add_argument("--cpu", help="an LLVM CPU name, such as haswell (default: the host's)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    llvm.load_library_permanently(ctypes.util.find_library("m") or "libm.so.6")
    lanes = options.lanes or 64 // numpy_type(options.dtype).itemsize
    names = options.function or vector_math.names()
    rows = [measure(n, options.dtype, lanes, options.cpu) for n in names]
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'function':10} {'vector':>9} {'scalar':>9} {'ratio':>7}   ({rows[0]['dtype']})")
    for row in rows:
        print(
            f"{row['function']:10} {row['vector_ns']:6.3f} ns {row['scalar_ns']:6.2f} ns "
            f"{row['ratio']:6.1f}x"
        )


if __name__ == "__main__":
    main()
