"""ResNet-50 and SqueezeNet against ONNX Runtime, and the time that compiling takes.

    python -m benchmarks.networks [--json] [--rounds 5] [--runs 20] [--threads 2]

Both systems run in processes of their own, one after the other in each round, so that neither
disturbs the other and a change of the machine's clock hits both. Networks are made by
tools/make_networks.py; nothing is tuned. Bars: ResNet-50 latency at most 2.5 times ONNX Runtime's,
cold compile 20 s, compile from the cache 1 s, logits within 1e-3 of the largest.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

NETWORKS = ("resnet50", "squeezenet")
SEED = 0
RATIO_BAR, COLD_BAR, CACHED_BAR, ERROR_BAR = 2.5, 20.0, 1.0, 1e-3
SETTLE_S = 1.0


def image(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Seeded input data."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _time(call: Any, runs: int) -> list[float]:
    """Seconds of each run, after a second of warming up."""
    end = time.perf_counter() + SETTLE_S
    while time.perf_counter() < end:
        call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def run_ours(path: str, threads: int, runs: int) -> dict[str, Any]:
    """Compile (from whatever the cache has), run, time."""
    from tilewright import graph
    from tilewright.rt.threads import set_num_threads

    set_num_threads(threads)
    start = time.perf_counter()
    model = graph.load_onnx(path)
    load_s = time.perf_counter() - start
    start = time.perf_counter()
    net = graph.compile(model)
    compile_s = time.perf_counter() - start
    inputs = [image(net.inputs[0].shape, seed) for seed in (1, 2)]
    logits = [net.run({net.inputs[0].name: x})[net.output_names[0]].tolist() for x in inputs]
    times = _time(net.prepare({net.inputs[0].name: inputs[0]}), runs) if runs else []
    return {"times": times, "load_s": load_s, "compile_s": compile_s, "logits": logits}


def run_onnxruntime(path: str, threads: int, runs: int) -> dict[str, Any]:
    """The same with ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    compile_s = time.perf_counter() - start
    item = session.get_inputs()[0]
    inputs = [image(tuple(item.shape), seed) for seed in (1, 2)]
    logits = [session.run(None, {item.name: x})[0].tolist() for x in inputs]
    times = _time(lambda: session.run(None, {item.name: inputs[0]}), runs)
    return {"times": times, "compile_s": compile_s, "logits": logits}


CHILDREN = {"ours": run_ours, "onnxruntime": run_onnxruntime}


def _child(who: str, path: str, threads: int, runs: int, cache: str) -> dict[str, Any]:
    env = {**os.environ, "TILEWRIGHT_CACHE_DIR": cache}
    command = [sys.executable, "-m", "benchmarks.networks", "--child", who, path]
    command += ["--threads", str(threads), "--runs", str(runs)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def measure(name: str, folder: Path, threads: int, rounds: int, runs: int) -> dict[str, Any]:
    """One row of the table."""
    path, cache = str(folder / f"{name}.onnx"), str(folder / f"cache-{name}")
    command = [sys.executable, "-m", "tools.make_networks", name, path, "--seed", str(SEED)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    cold = _child("ours", path, threads, 0, cache)["compile_s"]
    rows: dict[str, list[dict[str, Any]]] = {who: [] for who in CHILDREN}
    for _ in range(rounds):
        for who in CHILDREN:
            rows[who].append(_child(who, path, threads, runs, cache))
    ours, theirs = (np.asarray(rows[who][0]["logits"]) for who in CHILDREN)
    ms = {who: [t * 1e3 for r in rows[who] for t in r["times"]] for who in CHILDREN}
    medians = {who: float(np.median(ms[who])) for who in CHILDREN}
    minima = {who: min(ms[who]) for who in CHILDREN}
    return {
        "network": name,
        "threads": threads,
        "ours_ms": medians["ours"],
        "onnxruntime_ms": medians["onnxruntime"],
        "ratio": medians["ours"] / medians["onnxruntime"],
        "ratio_of_minima": minima["ours"] / minima["onnxruntime"],
        "compile_cold_s": cold,
        "compile_cached_s": float(np.median([r["compile_s"] for r in rows["ours"]])),
        "worst_error": float(np.abs(ours - theirs).max() / np.abs(theirs).max()),
        "inputs_differ": float(np.abs(ours[0] - ours[1]).max() / np.abs(ours).max()),
    }


def missed(row: dict[str, Any]) -> list[str]:
    """Which bars a row misses."""
    bars = {"compile_cold_s": COLD_BAR, "compile_cached_s": CACHED_BAR, "worst_error": ERROR_BAR}
    if row["network"] == "resnet50":
        bars["ratio"] = RATIO_BAR
    return [key for key, bar in bars.items() if row[key] > bar]


def main() -> int:
    """Print the table; the exit status says whether a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each system")
    parser.add_argument("--runs", type=int, default=20, help="timed runs in each process")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--child", nargs=2, metavar=("WHO", "MODEL"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        who, path = args.child
        print(json.dumps(CHILDREN[who](path, args.threads, args.runs)))
        return 0
    with tempfile.TemporaryDirectory(prefix="tilewright-networks-") as folder:
        rows = [
            measure(name, Path(folder), args.threads, args.rounds, args.runs) for name in NETWORKS
        ]
    if args.json:
        print(json.dumps([{**row, "missed": missed(row)} for row in rows], indent=1))
    else:
        for row in rows:
            print(
                f"{row['network']:12} ours {row['ours_ms']:7.2f} ms  onnxruntime "
                f"{row['onnxruntime_ms']:7.2f} ms  ratio {row['ratio']:.2f} (minima "
                f"{row['ratio_of_minima']:.2f})  compile cold {row['compile_cold_s']:.2f} s, "
                f"cached {row['compile_cached_s']:.2f} s  error {row['worst_error']:.1e}"
                + "".join(f"  MISSED {key}" for key in missed(row))
            )
    return 1 if any(map(missed, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
