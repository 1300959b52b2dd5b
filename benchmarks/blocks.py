"""Small networks of the kinds that larger ones are made of, beside ONNX Runtime.

    python -m benchmarks.blocks [--names PART ...] [--rounds 5] [--seconds 0.03] [--threads 2]
        [--profile] [--out FILE] [--json]

Each (benchmarks/blocks_models.py) is compiled from ONNX with nothing measured before, and runs for
some rounds, of which the median counts; then ONNX Runtime does. They take no turns, since its
threads wait awake for longer than a turn lasts, on the other's cores. Outputs are compared. The
machine should have nothing else to do. `--profile` prints the slowest kernels.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
import onnx

import tilewright
from benchmarks import where
from benchmarks.blocks_models import BLOCKS, names
from benchmarks.networks_systems import load_onnxruntime
from tilewright.rt.busy import watched
from tilewright.rt.threads import set_num_threads

Row = dict[str, Any]


def spent(call: Callable[[], Any], seconds: float) -> float:
    """Seconds of a call, the mean over a while."""
    count, start = 0, time.perf_counter()
    while (now := time.perf_counter() - start) < seconds or not count:
        call()
        count += 1
    return now / count


def rounds(call: Callable[[], Any], given: argparse.Namespace) -> float:
    """Seconds of a call, the median of some rounds behind one that does not count."""
    times = [spent(call, given.seconds) for _ in range(given.rounds + 1)]
    return median(times[1:])


def runtime(path: Path, x: Any, given: argparse.Namespace) -> tuple[float, Any]:
    """ONNX Runtime's seconds, and its output."""
    _, run, _ = load_onnxruntime(str(path), {"x": x}, given.threads, "float32", None)
    return rounds(run, given), run()[0]  # as ours is called: outputs are new each time


def measure(name: str, folder: Path, given: argparse.Namespace) -> Row:
    """One network."""
    path, model = folder / f"{name}.onnx", BLOCKS[name]()
    onnx.save(model, str(path))
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype("float32")
    net = tilewright.compile(path)
    row: Row = {"name": name, "ours_us": rounds(lambda: net.run({"x": x}), given) * 1e6}
    got = net.run({"x": x})["y"].astype("float64")
    if given.profile:
        kernels = sorted(net.profile({"x": x}), key=lambda k: -k[1])[:6]
        row["slowest_us"] = {kernel: seconds * 1e6 for kernel, seconds in kernels}
    theirs, wanted = runtime(path, x, given)
    row["onnxruntime_us"] = theirs * 1e6
    row["error"] = float(np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-30))
    row["ratio"] = row["onnxruntime_us"] / row["ours_us"]
    return row


def summary(rows: list[Row]) -> Row:
    ratios = [row["ratio"] for row in rows]
    slower = {row["name"]: row["ratio"] for row in rows if row["ratio"] < 1}
    return {"geomean": geometric_mean(ratios), "worst": min(ratios), "slower": slower}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--names", nargs="+", default=[], help="parts of names; all by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.03, help="of a turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--profile", action="store_true", help="the slowest kernels")
    parser.add_argument("--out", type=Path, help="JSON")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    chosen = names(given.names)
    if not chosen:
        parser.error(f"no name contains {given.names}; names: {', '.join(BLOCKS)}")
    set_num_threads(given.threads)
    rows: list[Row] = []
    with watched(), tempfile.TemporaryDirectory(prefix="tilewright-blocks-") as folder:
        for name in chosen:
            row = measure(name, Path(folder), given)
            rows.append(row)
            ours, theirs = row["ours_us"], row["onnxruntime_us"]
            told = f"{name:24} ours {ours:8.1f} us, ONNX Runtime {theirs:8.1f}, {row['ratio']:.2f}"
            print(f"{told}, error {row['error']:.0e}", file=sys.stderr, flush=True)
            for kernel, us in row.get("slowest_us", {}).items():
                print(f"    {us:8.1f} us {kernel[:90]}", file=sys.stderr)
    result = {"where": where.facts(), "summary": summary(rows), "rows": rows}
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result if given.json else result["summary"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
