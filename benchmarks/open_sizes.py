"""A network compiled once for all sizes against the same network compiled for each.

    python -m benchmarks.open_sizes MODEL.onnx --size batch=1:8 --size seq=8:384 [--count 20]
        [--seed 0] [--most 1024] [--seconds 1.5] [--out FILE] [--json]

MODEL has inputs of whole numbers or floats with dimensions of these names; sizes are drawn by the
seed, those whose product is above --most with a smaller first one. Both take turns at each size.
Outputs are compared with ONNX Runtime's where it is installed, else with those of the network for
fixed sizes. Bar: one compilation, a geometric mean of the ratios of at most 1.15.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

import tilewright
from benchmarks import where
from tilewright.graph.open import OpenExecutable

Row = dict[str, Any]
RATIO_BAR = 1.15


def drawn(ranges: Mapping[str, tuple[int, int]], count: int, seed: int, most: int) -> list[Row]:
    """Sizes by name."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        sizes = {name: int(rng.integers(a, b + 1)) for name, (a, b) in ranges.items()}
        first = next(iter(sizes))
        rest = prod(n for name, n in sizes.items() if name != first)
        sizes[first] = max(ranges[first][0], min(sizes[first], most // rest))
        found.append(sizes)
    return found


def arrays(net: OpenExecutable, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """Inputs of these sizes; whole numbers are 0 and 1, which are indices of anything."""
    rng, found = np.random.default_rng(seed), {}
    for v in net.inputs:
        shape = [sizes[d] if isinstance(d, str) else d for d in v.shape]
        made = rng.standard_normal(shape) if "float" in v.dtype else rng.integers(0, 2, shape)
        found[v.name] = made.astype(v.dtype)
    return found


def error(got: Mapping[str, Any], want: Mapping[str, Any]) -> float:
    """The largest difference over the largest output."""
    return max(float(np.abs(got[k] - want[k]).max() / np.abs(want[k]).max()) for k in want)


def runtime(path: Path) -> Callable[[Mapping[str, Any]], dict[str, Any]] | None:
    """ONNX Runtime's outputs."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, dict(inputs))))


def turns(calls: Sequence[Callable[[], None]], seconds: float) -> list[float]:
    """Median seconds of each, in turns."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    end = time.perf_counter() + seconds
    while len(times[0]) < 3 or time.perf_counter() < end:
        for call, spent in zip(calls, times):
            start = time.perf_counter()
            call()
            spent.append(time.perf_counter() - start)
    return [median(spent) for spent in times]


def measure(path: Path, net: OpenExecutable, sizes: Row, seconds: float, seed: int) -> Row:
    """One size."""
    inputs = arrays(net, sizes, seed)
    start = time.perf_counter()
    fixed = tilewright.compile(path, shapes={k: a.shape for k, a in inputs.items()})
    row: Row = {"sizes": sizes, "fixed_compile_s": time.perf_counter() - start}
    outputs = net.run(inputs)
    reference = runtime(path)
    wanted = fixed.run(inputs) if reference is None else reference(inputs)
    row |= {"error": error(outputs, wanted), "once": net.at(inputs) is net.whole}
    mine, theirs = turns([net.prepare(inputs), fixed.prepare(inputs)], seconds)
    return row | {"open_ms": mine * 1e3, "fixed_ms": theirs * 1e3, "ratio": mine / theirs}


def _range(text: str) -> tuple[str, tuple[int, int]]:
    name, _, ends = text.partition("=")
    low, _, high = ends.partition(":")
    return name, (int(low), int(high))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--size", action="append", type=_range, required=True, metavar="NAME=A:B")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=1024, help="of all sizes multiplied")
    parser.add_argument("--seconds", type=float, default=1.5, help="of turns at each size")
    parser.add_argument("--out", type=Path, help="JSON, after each size")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    start = time.perf_counter()
    net = tilewright.compile(given.model)
    if not isinstance(net, OpenExecutable) or net.whole is None:
        print(f"{given.model} is not compiled once for all sizes", file=sys.stderr)
        return 1
    result: Row = {"model": given.model.name, "compile_s": time.perf_counter() - start, "rows": []}
    result |= {"seed": given.seed, "where": where.facts()}
    for k, sizes in enumerate(drawn(dict(given.size), given.count, given.seed, given.most)):
        row = measure(given.model, net, sizes, given.seconds, given.seed + k)
        gc.collect()
        result["rows"].append(row)
        ratios = [r["ratio"] for r in result["rows"]]
        result |= {"geomean": geometric_mean(ratios), "worst": max(ratios)}
        told = ", ".join(f"{name} {n}" for name, n in sizes.items())
        print(
            f"{told:22} open {row['open_ms']:9.2f} ms, fixed {row['fixed_ms']:9.2f} ms, "
            f"ratio {row['ratio']:.3f}, error {row['error']:.1e}",
            file=sys.stderr,
            flush=True,
        )
        if given.out:
            given.out.write_text(json.dumps(result, indent=1) + "\n")
    if given.json:
        print(json.dumps(result))
    else:
        print(f"geometric mean {result['geomean']:.3f} (bar {RATIO_BAR}), worst {max(ratios):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
