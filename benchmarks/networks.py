"""ResNet-50, SqueezeNet and others against ONNX Runtime, and the time that compiling takes.

    python -m benchmarks.networks [--json] [--rounds 5] [--runs 20] [--threads 2]
        [--records FILE [--trials N]] [--network NAME ...]

The systems run in processes of their own, one after the other in each round, so that none disturbs
another and a change of the machine's clock hits all. Networks are made by tools/make_networks.py.
Bars: ResNet-50 latency at most 2.5 times ONNX Runtime's, cold compile 20 s, compile from the cache
1 s, logits within 1e-3 of the largest.

With `--records`, ours stands there a second time, compiled with the schedules in FILE; `--trials`
first measures until FILE has N measurements of each network. Bar: ResNet-50 with 1,000 trials is at
least as fast as ONNX Runtime.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

NETWORKS = ("resnet50", "squeezenet")
OTHERS = ("resnet18", "mobilenet", "vgg16")
SEED = 0
RATIO_BAR, COLD_BAR, CACHED_BAR, ERROR_BAR = 2.5, 20.0, 1.0, 1e-3
TUNED_BAR = 1.0
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


def run_ours(path: str, threads: int, runs: int, records: str | None = None) -> dict[str, Any]:
    """Compile (from whatever the cache has), run, time."""
    from tilewright import graph
    from tilewright.rt.threads import set_num_threads

    set_num_threads(threads)
    start = time.perf_counter()
    model = graph.load_onnx(path)
    load_s = time.perf_counter() - start
    start = time.perf_counter()
    net = graph.compile(model, records=records)
    compile_s = time.perf_counter() - start
    inputs = [image(net.inputs[0].shape, seed) for seed in (1, 2)]
    logits = [net.run({net.inputs[0].name: x})[net.output_names[0]].tolist() for x in inputs]
    times = _time(net.prepare({net.inputs[0].name: inputs[0]}), runs) if runs else []
    return {"times": times, "load_s": load_s, "compile_s": compile_s, "logits": logits}


def run_onnxruntime(path: str, threads: int, runs: int, _: str | None) -> dict[str, Any]:
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


CHILDREN: dict[str, Callable[..., dict[str, Any]]] = {
    "ours": run_ours,
    "tuned": run_ours,
    "onnxruntime": run_onnxruntime,
}


def _child(
    who: str, path: str, threads: int, runs: int, cache: str, records: str | None
) -> dict[str, Any]:
    env = {**os.environ, "TILEWRIGHT_CACHE_DIR": cache}
    command = [sys.executable, "-m", "benchmarks.networks", "--child", who, path]
    command += ["--threads", str(threads), "--runs", str(runs)]
    command += ["--records", records] if records is not None and who == "tuned" else []
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def tune(path: str, threads: int, trials: int, records: str) -> None:
    """Measure until the records have `trials` measurements of a network."""
    command = [sys.executable, "-m", "tilewright.cli.main", "tune", path, "--records", records]
    command += ["--trials", str(trials), "--threads", str(threads)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measure(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One row of the table; the network is made unless its file is there."""
    path, cache = str(folder / f"{name}.onnx"), str(folder / f"cache-{name}")
    threads, runs, records = options.threads, options.runs, options.records
    if not Path(path).exists():
        command = [sys.executable, "-m", "tools.make_networks", name, path, "--seed", str(SEED)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    if options.trials:
        tune(path, threads, options.trials, records)
    systems = [who for who in CHILDREN if who != "tuned" or records is not None]
    cold = _child("ours", path, threads, 0, cache, records)["compile_s"]
    rows: dict[str, list[dict[str, Any]]] = {who: [] for who in systems}
    for _ in range(options.rounds):
        for who in systems:
            rows[who].append(_child(who, path, threads, runs, cache, records))
    ms = {who: [t * 1e3 for r in rows[who] for t in r["times"]] for who in systems}
    row = _row(name, threads, rows, ms)
    row["compile_cold_s"] = cold
    if records is not None:
        row |= _tuned(rows, ms)
    return row


def _tuned(rows: dict[str, list[dict[str, Any]]], ms: dict[str, list[float]]) -> dict[str, Any]:
    """What records change. The first compile with them is a cold one."""
    tuned, theirs = (np.asarray(rows[who][0]["logits"]) for who in ("tuned", "onnxruntime"))
    median = float(np.median(ms["tuned"]))
    return {
        "tuned_ms": median,
        "tuned_ratio": median / float(np.median(ms["onnxruntime"])),
        "tuned_ratio_of_minima": min(ms["tuned"]) / min(ms["onnxruntime"]),
        "tuned_compile_cold_s": rows["tuned"][0]["compile_s"],
        "tuned_compile_cached_s": min(r["compile_s"] for r in rows["tuned"]),
        "tuned_worst_error": float(np.abs(tuned - theirs).max() / np.abs(theirs).max()),
    }


def _row(
    name: str, threads: int, rows: dict[str, list[dict[str, Any]]], ms: dict[str, list[float]]
) -> dict[str, Any]:
    ours, theirs = (np.asarray(rows[who][0]["logits"]) for who in ("ours", "onnxruntime"))
    medians = {who: float(np.median(times)) for who, times in ms.items()}
    minima = {who: min(times) for who, times in ms.items()}
    return {
        "network": name,
        "threads": threads,
        "ours_ms": medians["ours"],
        "onnxruntime_ms": medians["onnxruntime"],
        "ratio": medians["ours"] / medians["onnxruntime"],
        "ratio_of_minima": minima["ours"] / minima["onnxruntime"],
        "compile_cached_s": float(np.median([r["compile_s"] for r in rows["ours"]])),
        "worst_error": float(np.abs(ours - theirs).max() / np.abs(theirs).max()),
        "inputs_differ": float(np.abs(ours[0] - ours[1]).max() / np.abs(ours).max()),
    }


def missed(row: dict[str, Any]) -> list[str]:
    """Which bars a row misses."""
    bars = {"compile_cold_s": COLD_BAR, "worst_error": ERROR_BAR}
    if row["network"] in NETWORKS:
        bars["compile_cached_s"] = CACHED_BAR
    if row["network"] == "resnet50":
        bars |= {"ratio": RATIO_BAR, "tuned_ratio": TUNED_BAR}
    bars["tuned_worst_error"] = ERROR_BAR
    return [key for key, bar in bars.items() if row.get(key, 0.0) > bar]


def main() -> int:
    """Print the table; the exit status says whether a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each system")
    parser.add_argument("--runs", type=int, default=20, help="timed runs in each process")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--records", help="compile with these records as well")
    parser.add_argument("--trials", type=int, default=0, help="measurements to have first")
    parser.add_argument(
        "--network",
        choices=(*NETWORKS, *OTHERS),
        nargs="+",
        default=NETWORKS,
        help=f"which (default: {' '.join(NETWORKS)})",
    )
    parser.add_argument("--child", nargs=2, metavar=("WHO", "MODEL"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        who, path = args.child
        print(json.dumps(CHILDREN[who](path, args.threads, args.runs, args.records)))
        return 0
    if args.trials and args.records is None:
        parser.error("--trials needs --records")
    from tilewright.rt.busy import watched

    with watched(), tempfile.TemporaryDirectory(prefix="tilewright-networks-") as folder:
        rows = [measure(name, Path(folder), args) for name in args.network]
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
            if "tuned_ms" in row:
                print(
                    f"{'  tuned':12} ours {row['tuned_ms']:7.2f} ms  ratio "
                    f"{row['tuned_ratio']:.2f} (minima {row['tuned_ratio_of_minima']:.2f})  "
                    f"compile cold {row['tuned_compile_cold_s']:.2f} s, cached "
                    f"{row['tuned_compile_cached_s']:.2f} s  error {row['tuned_worst_error']:.1e}"
                )
    return 1 if any(map(missed, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
