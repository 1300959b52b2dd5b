"""Networks against ONNX Runtime and OpenVINO, in float32: latency, results, time to compile.

    python -m benchmarks.networks [--models DIR] [--network NAME ...] [--rounds 3] [--seconds 1]
        [--threads 2] [--precision float32] [--records FILE [--trials N]] [--profile] [--prepare]
        [--out FILE] [--json]

Each system has a process of its own for each network; they take turns in every round, and sleep
meanwhile. A network's time is the median over all its rounds, its speed-up that of the better of
the peers over ours; the spread says between what the speed-ups of single rounds lie, and "least"
compares the fastest runs of each, which neighbours on the machine disturb least. Networks are
those of networks_models.py; an ONNX file that lies in DIR already is taken as it is, with seeded
inputs. DIR also keeps what is compiled: with `--prepare` nothing is timed, so that a machine that
is not quiet can do that part. Bars: a geometric mean of 1.15 and no network below 0.90; ResNet-50
compiled in 2 s, and in 0.4 s from the cache; outputs within 1e-3 of the largest.

With `--precision bfloat16`, ours and OpenVINO's compute in that; NAMEs that end in `_int8` and
`_dynamic` (networks_models.QUANTIZED) are networks quantised by ONNX Runtime's tools, for all three
to run in bytes. Errors are those against ONNX Runtime's float32, or its bytes. Bar: 0.9 of the best
peer.

With `--records`, ours stands there a second time, compiled with the schedules in FILE; `--trials`
first measures until FILE has N measurements of each network. Bars: 1.30, and none below 1.0.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

from benchmarks import networks_models, where
from benchmarks.networks_models import QUANTIZED
from benchmarks.networks_systems import LOADERS, Row, serve_system
from benchmarks.ops_channel import Competitor, Failure

PEERS = {
    "float32": ("onnxruntime", "openvino"),
    "bfloat16": ("openvino",),
    "float16": ("openvino",),
}
ERROR_BAR, TIMES_OPENVINO = 1e-3, 1.5
"""Of outputs, over the largest; in narrower types as many times OpenVINO's error, where it is."""
COLD_BAR, CACHED_BAR = 2.0, 0.4
BARS = {"ours": (1.15, 0.90), "tuned": (1.30, 1.0)}
"""Geometric mean of the speed-ups, and the least of them (which also holds in other precisions)."""
PAUSE_S = 0.1
"""Between turns: the pools of threads of other libraries stop to spin."""
SLOWEST = 4


def image(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Seeded input data."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def files_of(name: str, folder: Path) -> tuple[Path, Path]:
    """Model and inputs, which are drawn where there are none."""
    model, inputs = folder / f"{name}.onnx", folder / f"{name}.npz"
    if not model.exists():
        return networks_models.paths(folder, name)
    if not inputs.exists():
        from tilewright import graph

        drawn = {v.name: image(v.shape, 1) for v in graph.load_onnx(str(model)).signature[0]}
        np.savez(inputs, **drawn)  # type: ignore[arg-type]
    return model, inputs


def tune(path: Path, options: argparse.Namespace) -> None:
    """Measure until the records have `trials` measurements of a network."""
    command = [sys.executable, "-m", "tilewright", "tune", str(path), "--records", options.records]
    command += ["--trials", str(options.trials), "--threads", str(options.threads)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measure(name: str, folder: Path, options: argparse.Namespace) -> Row:
    """One row of the table, or with `prepare` what compiling took; the network is made unless its
    file is there."""
    model, inputs = files_of(name, folder)
    if options.trials:
        tune(model, options)
    systems = [who for who in LOADERS if who != "tuned" or options.records is not None]
    request = {
        "model": str(model), "inputs": str(inputs), "threads": options.threads,
        "precision": options.precision, "records": options.records, "outputs": "",
    }  # fmt: skip
    cache = folder / f"cache-{name}"
    row: Row = {"network": name, "threads": options.threads, "precision": options.precision}
    with ExitStack() as stack, tempfile.TemporaryDirectory() as scratch:
        started = {who: stack.enter_context(closing(_process(who, cache))) for who in systems}
        if not cache.exists():
            with closing(_process("ours", cache)) as cold:
                row["compile_cold_s"] = cold.ask("load", **request)["compile_s"]
        if options.prepare:
            return row
        facts = {}
        for who, process in started.items():
            try:
                facts[who] = process.ask("load", **request | {"outputs": f"{scratch}/{who}.npz"})
            except Failure as problem:
                row.setdefault("failed", {})[who] = str(problem).splitlines()[-1]
        row |= _compared(facts, {who: _outputs(f"{scratch}/{who}.npz") for who in facts})
        turns: list[dict[str, list[float]]] = []
        for _ in range(options.rounds if "ours" in facts else 0):
            turns.append({})
            for who in facts:
                time.sleep(PAUSE_S)
                times = started[who].ask("time", seconds=options.seconds)["times"]
                turns[-1][who] = [t * 1e3 for t in times]
        if turns:
            row |= _latencies(turns, options.precision)
            if options.profile:
                row["slowest"] = _slowest(started["ours"].ask("profile")["rows"])
    return row


def _process(who: str, cache: Path) -> Competitor:
    command = ["-m", "benchmarks.networks", "--serve", who]
    return Competitor(who, command, {"TILEWRIGHT_CACHE_DIR": str(cache)})


def _outputs(path: str) -> list[np.ndarray[Any, Any]]:
    with np.load(path) as file:
        return [file[key].astype(np.float64) for key in file.files]


def _compared(facts: dict[str, Row], outputs: dict[str, list[Any]]) -> Row:
    """How far outputs are from ONNX Runtime's, over the largest of each; what loading took."""
    row: Row = {"staged": facts.get("ours", {}).get("staged", False)}
    row["load_s"] = {who: told["compile_s"] for who, told in facts.items()}
    row["compile_cached_s"] = row["load_s"].get("ours")
    reference = outputs.get("onnxruntime")
    if reference is not None:
        row["errors"] = {
            who: max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(mine, reference))
            for who, mine in outputs.items()
            if who != "onnxruntime"
        }
    return row


def _latencies(turns: Sequence[dict[str, list[float]]], precision: str) -> Row:
    """Medians, and speed-ups over the better of the peers that compute in that precision."""
    ms = {who: median([t for turn in turns for t in turn[who]]) for who in turns[0]}
    least = {who: min(t for turn in turns for t in turn[who]) for who in turns[0]}
    row: Row = {f"{who}_ms": value for who, value in ms.items()}
    row["least_ms"] = least
    row["turns_ms"] = [{who: median(times) for who, times in turn.items()} for turn in turns]
    peers = [who for who in PEERS[precision] if who in ms]
    for who in (who for who in BARS if who in ms):
        each = [min(turn[p] for p in peers) / turn[who] for turn in row["turns_ms"]]
        row[f"{who}_speedup"] = min(ms[p] for p in peers) / ms[who]
        row[f"{who}_speedup_of_least"] = min(least[p] for p in peers) / least[who]
        row[f"{who}_spread"] = [min(each), max(each)]
    return row


def _slowest(rows: Sequence[Row]) -> Row:
    """The kernels that take the most time, all calls of each together."""
    each: dict[int, Row] = {}
    for row in rows:
        known = each.setdefault(row["kernel"], {**row, "count": 0, "ms": 0.0, "gflop": 0, "mb": 0})
        known["count"] += 1
        for key in ("ms", "gflop", "mb"):
            known[key] += row[key]
    best = sorted(each.values(), key=lambda row: -row["ms"])[:SLOWEST]
    return {"sum_ms": sum(row["ms"] for row in rows), "kernels": len(rows), "rows": best}


def missed(row: Row) -> list[str]:
    """Which bars a row misses."""
    found = [f"{who} failed" for who in row.get("failed", {})]
    errors, bar = row.get("errors", {}), ERROR_BAR
    if row["network"] in QUANTIZED or row.get("precision", "float32") != "float32":
        bar = max(bar, TIMES_OPENVINO * errors.get("openvino", np.inf))
    found += [f"{who} error" for who, e in errors.items() if not e <= bar]
    found += [who for who, (_, least) in BARS.items() if row.get(f"{who}_speedup", least) < least]
    if row["network"] == "resnet50":
        times = (("compile_cold_s", COLD_BAR), ("compile_cached_s", CACHED_BAR))
        found += [key for key, bar in times if (row.get(key) or 0.0) > bar]
    return found


def summary(rows: Sequence[Row]) -> Row:
    """Geometric means of speed-ups over the better peer and over each; the worst network."""
    found: Row = {}
    for who in BARS:
        mine = [row for row in rows if f"{who}_speedup" in row]
        if not mine:
            continue
        worst = min(mine, key=lambda row: float(row[f"{who}_speedup"]))
        found[who] = {
            "mean": geometric_mean(row[f"{who}_speedup"] for row in mine),
            "worst": [worst["network"], worst[f"{who}_speedup"]],
            "mean of least times": geometric_mean(row[f"{who}_speedup_of_least"] for row in mine),
            "networks": len(mine),
        }
        for peer in PEERS["float32"]:
            both = [row[f"{peer}_ms"] / row[f"{who}_ms"] for row in mine if f"{peer}_ms" in row]
            if both:
                found[who][f"mean over {peer}"] = geometric_mean(both)
    return found


def line(row: Row) -> str:
    """A row as text."""
    text = f"{row['network']:16}"
    for who in LOADERS:
        if f"{who}_ms" in row:
            text += f" {who} {row[f'{who}_ms']:8.2f} ms"
    for who in BARS:
        if f"{who}_speedup" in row:
            low, high = row[f"{who}_spread"]
            text += f"  {who} x{row[f'{who}_speedup']:.2f} ({low:.2f} to {high:.2f}"
            text += f"; least {row[f'{who}_speedup_of_least']:.2f})"
    for key, title in (("compile_cold_s", "cold"), ("compile_cached_s", "cached")):
        if row.get(key) is not None:
            text += f"  {title} {row[key]:.2f} s"
    text += "".join(f"  error {who} {e:.0e}" for who, e in row.get("errors", {}).items())
    text += "".join(f"\n    {who} FAILED: {why}" for who, why in row.get("failed", {}).items())
    text += "".join(f"  MISSED {key}" for key in missed(row))
    for one in row.get("slowest", {}).get("rows", ()):
        rate, moved = one["gflop"] / one["ms"] * 1e3, one["mb"] / one["ms"]
        text += f"\n    {one['ms']:8.3f} ms {rate:7.0f} GFLOP/s {moved:6.1f} GB/s "
        text += " + ".join(one["nodes"])[:140]
    return text


def arguments() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, help="where networks are made, and stay")
    parser.add_argument("--network", nargs="+", default=list(networks_models.MODELS))
    parser.add_argument("--rounds", type=int, default=3, help="turns of each system")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=PEERS, default="float32")
    parser.add_argument("--records", help="compile with these records as well")
    parser.add_argument("--trials", type=int, default=0, help="measurements to have first")
    parser.add_argument("--profile", action="store_true", help="show the slowest kernels")
    parser.add_argument("--prepare", action="store_true", help="make and compile, time nothing")
    parser.add_argument("--out", type=Path, help="JSON, to which later runs add their networks")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--serve", choices=LOADERS, help=argparse.SUPPRESS)
    return parser


def main() -> int:
    """Print the table; the exit status says whether a bar was missed."""
    parser = arguments()
    args = parser.parse_args()
    if args.serve:
        serve_system(args.serve)
        return 0
    if args.trials and args.records is None:
        parser.error("--trials needs --records")
    from tilewright.rt.busy import watched

    rows: list[Row] = []
    with watched(), ExitStack() as stack:
        folder = args.models or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in args.network:
            rows.append(measure(name, folder, args))
            if not args.json:
                print(line(rows[-1]), flush=True)
    for row in rows:
        row["missed"] = missed(row)
    if args.out is not None:
        known = json.loads(args.out.read_text())["rows"] if args.out.exists() else []
        names = {row["network"] for row in rows}
        rows = [row for row in known if row["network"] not in names] + rows
        made = {"where": where.facts(), "summary": summary(rows), "rows": rows}
        args.out.write_text(json.dumps(made, indent=1) + "\n")
    print(json.dumps(rows) if args.json else json.dumps(summary(rows)))
    return 1 if any(map(missed, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
