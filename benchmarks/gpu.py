"""Kernels on an NVIDIA GPU beside a device copy and cuBLAS; or, without one, what they compile to.

    python -m benchmarks.gpu [--only NAME ...] [--rounds N] [--out FOLDER]
    python -m benchmarks.gpu --static [--arch sm_80 ...] [--out FOLDER]

The first builds, checks each result against NumPy, times, and writes
gpu-<device>-<date>.json and .md to benchmarks/results. A kernel and what it is compared with run in
turns, short ones by twenties in a graph; a share is the median over rounds of the two rates of one
round. Where there is no cuBLAS it is of what the device says that it has. The bar of a kernel whose
units are not the device's fastest is lower by as much. The second needs a CUDA compiler and a
disassembler and writes gpu-static-<date>.md. Both run without LLVM.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks import gpu_blas
from benchmarks.gpu_cases import BY_NAME, CASES, Case
from benchmarks.gpu_clock import Clock, Runs, prepared, repeated
from benchmarks.gpu_rates import REACHED, rates
from benchmarks.gpu_static import row, table
from tilewright.report.sass import compiled

RESULTS = Path(__file__).parent / "results"
ARCHS = ("sm_75", "sm_80", "sm_90")
_COPY_BYTES = 1 << 29


def build(case: Case, target: Any, size: tuple[int, ...] | None = None) -> tuple[Any, list[Any]]:
    """The compiled case and its arguments, at its own size or another."""
    schedule, args = case.program(*(case.size if size is None else size))
    return tw.build(schedule, args, target, name=case.name), args


def check_in_simt(case: Case, arch: str = "sm_80") -> Any:
    """Run the schedule at its small size without a GPU; reports of the kernels."""
    built, args = build(case, tw.Target(f"cuda -arch={case.only or arch}"), case.small)
    inputs = case.inputs(args)
    out = np.zeros([int(d) for d in args[-1].shape], args[-1].dtype)
    reports = built.run_simt(*inputs, out)
    case.check(out, inputs)
    return reports


# -- on a device


def _copy(runtime: Any) -> tuple[Runs, float]:
    """A device copy and the bytes that it reads and writes."""
    source, target = runtime.alloc(_COPY_BYTES), runtime.alloc(_COPY_BYTES)
    runtime.write(source, 0, np.zeros(_COPY_BYTES, np.uint8), runtime.stream, True)

    def work(stream: Any) -> None:
        runtime.copy(target, 0, source, 0, _COPY_BYTES, stream)

    return repeated(runtime, work), 2.0 * _COPY_BYTES


def measure(case: Case, dev: Any, blas: Any, rounds: int) -> dict[str, Any]:
    """Check and time one case on any device with timing; rates in GB/s or GFLOP/s."""
    runtime = dev.runtime
    before = runtime.set_stream(runtime.create_timing_stream())
    try:
        return _measure(case, dev, blas, rounds)
    finally:
        runtime.set_stream(before)


def _measure(case: Case, dev: Any, blas: Any, rounds: int) -> dict[str, Any]:
    runtime = dev.runtime
    built, args = build(case, tw.Target.from_device(dev))
    inputs = case.inputs(args)
    out = tw.nd.empty([int(d) for d in args[-1].shape], args[-1].dtype, dev)
    arrays = [*(tw.nd.array(x, dev) for x in inputs), out]
    kernel = prepared(built, arrays)
    kernel(1)()
    case.check(out.numpy(), inputs)
    amount = case.work(*case.size)
    peer: Runs | None = None
    if case.beside == "copy":
        peer, peer_amount = _copy(runtime)
    else:
        peer_amount = amount
        peer = None if blas is None else blas.product(case.beside, *arrays)
    clock = Clock(runtime)
    ours, theirs = clock.timer(kernel), clock.timer(peer) if peer else None
    own, other = [], []
    for _ in range(rounds):
        own.append(amount / ours() / 1e9)
        if theirs:
            other.append(peer_amount / theirs() / 1e9)
    most = rates(runtime)
    bar, estimate = case.bar_on(most), case.estimate(most)
    share: float | None = None
    beside = "nothing"
    if other:
        share = median(100.0 * a / b for a, b in zip(own, other))
        beside = "device copy" if case.beside == "copy" else str(blas.name)
    elif estimate:
        share = 100.0 * median(own) / estimate
        beside = f"{REACHED:.0%} of what the device has at most"
    return {
        "name": case.name,
        "size": list(case.size),
        "unit": "GB/s" if case.beside == "copy" else "GFLOP/s",
        "rate": median(own),
        "beside": beside,
        "peer_rate": median(other) if other else None,
        "share": share,
        "bar": bar,
        "met": None if share is None else share >= bar,
        "rounds": own,
        "peer_rounds": other,
    }


def run(cases: Sequence[Case], rounds: int, out: Path) -> int:
    """Measure on cuda(0) and write the results; 1 where a bar is missed."""
    dev = tw.cuda(0)
    if not dev.exist:
        print(f"no GPU to measure on: {dev.why_missing()}; --static needs none", file=sys.stderr)
        return 2
    blas = gpu_blas.find(dev.runtime.stream)
    rows = []
    arch = str(tw.Target.from_device(dev).attrs["arch"])
    for case in (c for c in cases if c.runs_on(arch)):
        rows.append(measure(case, dev, blas, rounds))
        print(_line(rows[-1]), flush=True)
    about = {
        "device": dev.device_name,
        "compute": dev.compute_version,
        "driver": str(dev.driver_version),
        "date": f"{date.today()}",
        "python": platform.python_version(),
        "tilewright": tw.__version__,
    }
    name = re.sub(r"[^a-z0-9]+", "-", str(dev.device_name).lower()).strip("-")
    out.mkdir(parents=True, exist_ok=True)
    stem = out / f"gpu-{name}-{date.today()}"
    text = json.dumps({"about": about, "results": rows}, indent=2)
    stem.with_name(f"{stem.name}.json").write_text(f"{text}\n", encoding="utf-8")
    stem.with_name(f"{stem.name}.md").write_text(_markdown(about, rows), encoding="utf-8")
    print(f"written: {stem}.json, {stem.name}.md")
    return 1 if any(r["met"] is False for r in rows) else 0


def _line(r: dict[str, Any]) -> str:
    text = f"{r['name']:16} {r['rate']:10.1f} {r['unit']:8}"
    if r["share"] is None:
        return f"{text} ({r['beside']} to compare with)"
    verdict = "met" if r["met"] else "MISSED"
    return f"{text} {r['share']:6.1f} % of {r['beside']} (bar {r['bar']:.0f} %): {verdict}"


def _markdown(about: Mapping[str, str | None], rows: list[dict[str, Any]]) -> str:
    lines = [f"# Kernels on {about['device']}, {about['date']}", ""]
    lines += [f"{k}: {v}  " for k, v in about.items()]
    lines += ["", "| kernel | size | rate | beside | its rate | share | bar |", "|" + " --- |" * 7]
    for r in rows:
        size, unit = " x ".join(map(str, r["size"])), r["unit"]
        peer = "" if r["peer_rate"] is None else f"{r['peer_rate']:.1f} {unit}"
        share = "" if r["share"] is None else f"{r['share']:.1f} %"
        cells = [r["name"], size, f"{r['rate']:.1f} {unit}", r["beside"], peer, share]
        lines.append("| " + " | ".join([*cells, f"{r['bar']:.0f} %"]) + " |")
    return "\n".join(lines) + "\n"


# -- without one


_STATIC_HEAD = """\
# What the benchmarks' kernels compile to, {date}

`python -m benchmarks.gpu --static`, at the sizes that benchmarks/gpu.py times; small sizes of the
same schedules ran in simt against NumPy, without a report. `shared`, `stack` and `spills` are in
bytes; `blocks`: those that a multiprocessor holds at once; `occupancy`: the share of its threads.
Counts are instructions of the kernel up to `LDGSTS.128` (cp.async of 16 bytes), then of the loop
with the most arithmetic, `loop` instructions long; `LDSM`: loads of matrix fragments. Nothing was
timed.

"""


def static(cases: Sequence[Case], archs: Sequence[str], out: Path) -> int:
    """Compile for architectures, print and write the table."""
    rows = []
    for case in cases:
        check_in_simt(case)
        for arch in (a for a in archs if case.runs_on(a)):
            built, _ = build(case, tw.Target(f"cuda -arch={arch}"))
            rows += [row(case.name, found) for found in compiled(built, arch)]
    text = table(rows)
    print(text)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"gpu-static-{date.today()}.md"
    head = _STATIC_HEAD.format(date=date.today())
    path.write_text(f"{head}{text}\n", encoding="utf-8")
    print(f"written: {path}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(BY_NAME), help="kernels (default: all)")
    parser.add_argument("--rounds", type=int, default=11, help="measurements of each")
    parser.add_argument("--static", action="store_true", help="compile and count, run nothing")
    parser.add_argument("--arch", nargs="+", default=list(ARCHS), help="for --static")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(argv)
    cases = [BY_NAME[name] for name in options.only] if options.only else list(CASES)
    if options.static:
        return static(cases, options.arch, options.out)
    return run(cases, options.rounds, options.out)


if __name__ == "__main__":
    sys.exit(main())
