"""Errors of the vector math functions in units in the last place, over all float32 numbers.

    python -m benchmarks.ulp [--function NAME] [--dtype float32] [--samples N] [--json]

Functions of one argument run over all 2^32 float32 numbers (2^16 of the 16-bit types) unless
--samples asks for fewer, taken at random; those of two over a grid of special values and sampled
pairs. NumPy's float64 functions (SciPy's erf) are the reference, for float64 long double ones.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.mathjit import compile_vector, numpy_type
from benchmarks.mathref import Array, errors, reference
from tilewright.base.dtype import parse
from tilewright.codegen.llvm import math as vector_math

_CHUNK = 1 << 16
_DEFAULT_PAIRS = {"pow": 10**9}
_SPECIALS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 100.0, 101.0, 1e-3, 1e5, 1e30, 1e-30)


def special_values(dtype: str) -> Array:
    """Zeros, infinities, NaN, the ends of each range, integers, halves, and their neighbours."""
    kind = numpy_type(dtype)
    unsigned = np.dtype(f"u{kind.itemsize}")
    bits = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[parse(dtype).element]
    infinity = int(np.array(np.inf, kind).view(unsigned))
    raw = [0, 1, 2, (1 << bits) - 1, 1 << bits, (1 << bits) + 1, infinity - 1, infinity]
    raw += [infinity | 1 << (bits - 1)]
    with np.errstate(over="ignore"):
        near = np.array([*_SPECIALS, 2.0**bits - 1, 2.0**bits, 2.0 ** (bits + 1) + 2], kind)
    base = [*raw, *(int(v) + d for v in near.view(unsigned) for d in (-1, 0, 1) if v or d >= 0)]
    sign = 1 << (8 * kind.itemsize - 1)
    return np.array([b | s for b in base for s in (0, sign)], unsigned).view(kind)


def all_values(dtype: str, part: int, parts: int) -> Iterator[list[Array]]:
    """Every number of the type once, in chunks; each `part` of `parts` gets its share."""
    kind = numpy_type(dtype)
    unsigned = np.dtype(f"u{kind.itemsize}")
    total = 1 << (8 * kind.itemsize)
    for start in range(part * _CHUNK, total, parts * _CHUNK):
        yield [np.arange(start, start + _CHUNK, dtype=np.uint64).astype(unsigned).view(kind)]


def random_values(name: str, dtype: str, samples: int, seed: int) -> Iterator[list[Array]]:
    """Random bit patterns and moderate numbers in turns; pairs for pow that stay in range."""
    kind = numpy_type(dtype)
    unsigned = np.dtype(f"u{kind.itemsize}")
    rng = np.random.default_rng(seed)
    count = vector_math.arity(name)
    if count == 2:
        grid = special_values(dtype)
        pairs = [a.ravel() for a in np.meshgrid(grid, grid)]
        fill = -pairs[0].size % _CHUNK
        yield [np.concatenate([p, np.resize(p, fill)]) for p in pairs]
    top = np.iinfo(unsigned).max
    for turn in range(-(-samples // _CHUNK)):
        if turn % 2 == 0 and not (name == "pow" and turn % 8):
            bits = [rng.integers(0, top, _CHUNK, unsigned, endpoint=True) for _ in range(count)]
            yield [b.view(kind) for b in bits]
        elif name == "pow":
            yield _pow_pairs(rng, kind, turn)
        else:
            yield [(rng.standard_normal(_CHUNK) * 4).astype(kind) for _ in range(count)]


def _pow_pairs(rng: np.random.Generator, kind: Any, turn: int) -> list[Array]:
    """Pairs whose power is spread evenly over all exponents, a little beyond both ends."""
    exponents = np.finfo(np.float64 if kind.itemsize == 8 else np.float32).maxexp
    spread = exponents if turn % 3 else 1.0
    x = np.exp2(rng.uniform(-spread, 0.999 * spread, _CHUNK)).astype(kind)
    wanted = rng.uniform(-1.2 * exponents, 1.1 * exponents, _CHUNK)
    with np.errstate(all="ignore"):
        y = (wanted / np.log2(x.astype(np.float64))).astype(kind)
    return [x, y]


def worst(task: tuple[str, str, int, int, int]) -> dict[str, Any]:
    """The largest error of one share of the inputs, and where it is."""
    name, dtype, samples, part, parts = task
    element = parse(dtype).element
    function = compile_vector(name, dtype)
    exhaustive = samples == 0
    chunks = (
        all_values(element, part, parts)
        if exhaustive
        else random_values(name, element, samples // parts, part)
    )
    wide = np.longdouble if element == "float64" else np.float64
    found: dict[str, Any] = {"ulp": -1.0, "count": 0}
    for arguments in chunks:
        out = np.empty_like(arguments[0])
        function(*arguments, out)
        with np.errstate(invalid="ignore"):  # a signalling NaN
            wanted = reference(name, *(a.astype(wide) for a in arguments))
        error = errors(out, wanted, element)
        i = int(error.argmax())
        found["count"] += error.size
        if error[i] > found["ulp"]:
            at = [float(a[i]) for a in arguments]
            found.update(ulp=float(error[i]), at=at, got=float(out[i]), wanted=float(wanted[i]))
    return found


def measure(name: str, dtype: str, samples: int, processes: int) -> dict[str, Any]:
    """The largest error of a function over all its inputs, or over samples of them."""
    start = time.perf_counter()
    element = parse(dtype).element
    if vector_math.arity(name) == 2 or element == "float64":
        default = 10**6 if element == "float64" else _DEFAULT_PAIRS.get(name, 10**8)
        samples = samples or default
    tasks = [(name, dtype, samples, i, processes) for i in range(processes)]
    if processes == 1:
        parts = [worst(tasks[0])]
    else:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            parts = pool.map(worst, tasks)
    best = max(parts, key=lambda p: p["ulp"])
    count = sum(p["count"] for p in parts)
    seconds = time.perf_counter() - start
    return {"function": name, "dtype": dtype, **best, "count": count, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--function", choices=vector_math.names(), action="append")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--samples", type=int, default=0, help="0: every number")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    dtype = options.dtype if options.lanes == 1 else f"{options.dtype}x{options.lanes}"
    rows = []
    for name in options.function or vector_math.names():
        row = measure(name, dtype, options.samples, options.processes)
        rows.append(row)
        if not options.json:
            at = ", ".join(f"{v!r}" for v in row["at"])
            print(
                f"{name:8} {row['ulp']:7.3f} ulp of {row['count']:,} at {at}: {row['got']!r} for "
                f"{row['wanted']!r}  ({row['seconds']:.1f} s)",
                flush=True,
            )
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
