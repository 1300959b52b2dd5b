"""Tables of benchmarks.mali as Markdown, and which bars its results miss."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.mali_layer import ARTICLE, BARS, FLOP, STEPS

LEAST_POINTS = 50
TUNERS = ("random", "ga", "xgb")


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines]


def report(results: dict[str, Any], profile: bool) -> str:
    """All tables."""
    lines = [f"# Convolution and networks on OpenCL, {time.strftime('%Y-%m-%d')}", ""]
    device = results.get("device")
    if device:
        lines += [
            f"Device: {device['name']}; the layer is built for `{device['target']}`.",
            f"Machine: {platform.machine()}, {os.cpu_count()} processors, {platform.system()}.",
            "",
        ]
    for part, show in (
        ("schedules", _schedules),
        ("grid", _grid),
        ("tuners", _tuners),
        ("networks", _networks),
        ("cuda", _cuda),
    ):
        if part in results:
            lines += [*show(results[part]), ""]
    if profile and "networks" in results:
        lines += _layers(results["networks"])
    return "\n".join(lines).rstrip() + "\n"


def _schedules(rows: list[dict[str, Any]]) -> list[str]:
    article = dict(zip(STEPS, ARTICLE))
    body = [
        (
            r["dtype"],
            r["schedule"],
            f"{r['seconds']:.4f}",
            f"{r['gflops']:.2f}",
            f"{FLOP / article[r['schedule']] / 1e9:.2f}" if r["dtype"] == "float32" else "",
            f"{r['error']:.1e}",
        )
        for r in rows
    ]
    head = ("dtype", "schedule", "seconds", "GFLOP/s", "article (Mali-T860)", "error")
    return ["## The 56x56 256 to 256 3x3 layer", "", *table(head, body)]


def _grid(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["## Grid search", ""]
    for r in rows:
        found = ", ".join(f"`{k}` {v}" for k, v in r.get("config", {}).items())
        lines.append(
            f"{r['dtype']}: {r['points']} points, {r['failed']} of them failed. Best in the "
            f"search {r['searched']:.2f} GFLOP/s; again on its own {r.get('gflops', 0):.2f} "
            f"GFLOP/s, error {r.get('error', float('nan')):.1e}: {found}."
        )
        lines += [f"- {n} failed: {why}" for why, n in r.get("reasons", {}).items()]
    return lines


def _tuners(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["## Tuners on the space of the template", ""]
    for r in rows:
        base = r["random"]["median"]
        body = [
            (
                name,
                f"{r[name]['median']:.2f}",
                f"{r[name]['median'] / base:.3f}",
                " ".join(f"{b:.2f}" for b in r[name]["best"]),
            )
            for name in TUNERS
        ]
        lines += [f"{r['space']}: {r['size']} configurations, {r['trials']} trials each.", ""]
        lines += [*table(("tuner", "median GFLOP/s", "of random's", "best of each seed"), body), ""]
    return lines


def _networks(rows: list[dict[str, Any]]) -> list[str]:
    body = [
        (
            r["network"],
            r["target"],
            r["dtype"],
            f"{r['latency_ms']:.1f}",
            f"{r['onnxruntime_ms']:.1f}",
            f"{r['error']:.1e}",
            f"{r['compile_s']:.1f}",
            f"{r['first_run_s']:.1f}",
        )
        for r in rows
    ]
    times = ("latency ms", "ONNX Runtime CPU ms", "error", "compile s", "first run s")
    head = ("network", "target", "dtype", *times)
    return ["## Networks, 224x224, batch 1", "", *table(head, body)]


def _cuda(rows: list[dict[str, Any]]) -> list[str]:
    body = [
        (r["network"], r["dtype"], r["kernels"], f"{r['seconds']:.1f}", r["log"] or "none")
        for r in rows
    ]
    head = ("network", "dtype", "kernels", "seconds", "warnings")
    return ["## The same networks as CUDA, compiled for sm_80", "", *table(head, body)]


def _layers(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for r in rows:
        lines += [f"## {r['network']}, {r['target']}, {r['dtype']}: milliseconds of each layer", ""]
        lines += [*table(("layer", "ms"), [(n, f"{ms:.2f}") for n, ms in r["layers"]]), ""]
    return lines


def missed(results: dict[str, Any]) -> list[str]:
    """Which bars are missed, in words."""
    found = []
    for part in ("schedules", "grid", "networks"):
        for r in results.get(part, ()):
            error = r.get("error", float("inf"))
            if not error <= BARS[r["dtype"]]:
                name = r.get("schedule") or r.get("network") or "best of the grid"
                found.append(f"{part}: {name} in {r['dtype']} has error {error:.1e}")
    for r in results.get("grid", ()):
        if r["points"] < LEAST_POINTS:
            found.append(f"grid: {r['points']} points are fewer than {LEAST_POINTS}")
    for r in sorted(results.get("tuners", ()), key=lambda r: int(r["trials"]))[-1:]:
        base = r["random"]["median"]
        found += [
            f"tuners: the median of {n} is {r[n]['median']:.2f}, of random {base:.2f} GFLOP/s"
            for n in TUNERS[1:]
            if not r[n]["median"] > base
        ]
    found += [f"cuda: {r['network']}: {r['log']}" for r in results.get("cuda", ()) if r["log"]]
    return found
