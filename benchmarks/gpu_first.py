"""What is to be done on the first NVIDIA GPU, in one command of less than 25 minutes.

    python -m benchmarks.gpu_first [--minutes 24] [--out FOLDER] [--records FOLDER] [--small]

Needs NumPy, ml_dtypes and cuda-bindings with NVRTC; where PyTorch is there, too, it is compared
with. Each part is a process of its own, so that a fault of the device in one leaves the others:

    driver   what the device is, and a kernel in each type beside NumPy
    right    the default schedules of gpu_code_cases.py at small sizes, run and compared with NumPy
    speed    the same at full size, timed: GFLOP/s of products, GB/s of the others
    kernels  benchmarks.gpu: kernels by hand beside a device copy and cuBLAS, with its bars
    tuned    benchmarks.ops_gpu: operators tuned with 200 trials beside PyTorch, as many as there is
             time for

A part that has had its share of the time ends between two kernels and says how many it left.
Writes gpu-first-<device>-<date>.json, after every part, and beside it the pages of the last two.
--small takes small sizes throughout: it tries the command, not the device.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks import gpu, gpu_blas, ops_gpu
from benchmarks.gpu_cases import CASES
from benchmarks.gpu_code_cases import CODE_CASES, CodeCase
from benchmarks.ops_suite import small_cases
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.topi.schedules.default import default_schedule

RESULTS = Path(__file__).parent / "results"
PARTS = {"driver": 0.04, "right": 0.22, "speed": 0.22, "kernels": 0.16, "tuned": 0.36}
"""Shares of the time, in the order of what is learned first."""
_TYPES = ("float32", "float16", "bfloat16", "int8", "int32")
_ROUNDS, _SMALL_ROUNDS = 5, 1
Found = dict[str, Any]


class Budget:
    """The time of a part."""

    def __init__(self, seconds: float) -> None:
        self.end = time.perf_counter() + seconds

    @property
    def left(self) -> float:
        return self.end - time.perf_counter()

    def each(self, cases: Any) -> Iterator[Any]:
        """The cases, while there is time for one more as long as the longest before."""
        longest = 0.0
        for case in cases:
            if self.left < longest:
                return
            start = time.perf_counter()
            yield case
            longest = max(longest, time.perf_counter() - start)


def driver(dev: Any, budget: Budget, small: bool) -> Found:
    """The device, and x + y in each type."""
    target = tw.Target.from_device(dev)
    rows = []
    for dtype in _TYPES:
        x, y = (te.placeholder((1000,), dtype, name) for name in "xy")
        out = topi.add(x, y)
        f = tw.build(default_schedule(out, target), [x, y, out], target, name="add")
        a, b = (np.arange(k, 1000 + k).astype(np.int8).astype(parse(dtype).numpy) for k in (0, 7))
        given = tw.nd.empty((1000,), dtype, dev)
        f(tw.nd.array(a, dev), tw.nd.array(b, dev), given)
        rows.append({"type": dtype, "right": bool(np.array_equal(given.numpy(), a + b))})
    about = {
        "device": dev.device_name, "compute": dev.compute_version,
        "driver": str(dev.driver_version), "target": str(target), "torch": ops_gpu.Torch().version,
        "cublas": getattr(gpu_blas.find(dev.runtime.stream), "name", "none"),
    }  # fmt: skip
    return {"about": about, "rows": rows}


def _built(case: CodeCase, size: tuple[int, ...], target: Any) -> tuple[Any, list[Any]]:
    schedule, args = case.program(target, *size)
    return tw.build(schedule, args, target, name="f"), args


def _arrays(case: CodeCase, args: list[Any], dev: Any) -> tuple[list[Any], list[Any]]:
    """Inputs on the host, and all arguments on the device."""
    inputs = case.inputs(args)
    out = tw.nd.empty([int(d) for d in args[-1].shape], args[-1].dtype, dev)
    return inputs, [*(tw.nd.array(x, dev) for x in inputs), out]


def right(dev: Any, budget: Budget, small: bool) -> Found:
    """Default schedules against NumPy."""
    target, rows = tw.Target.from_device(dev), []
    for case in budget.each(CODE_CASES[::9] if small else CODE_CASES):
        row: Found = {"kernel": case.name, "right": True}
        try:
            built, args = _built(case, case.small, target)
            inputs, arrays = _arrays(case, args, dev)
            built(*arrays)
            case.check(arrays[-1].numpy(), inputs)
        except (tw.TilewrightError, ValueError) as error:
            row.update(right=False, why=str(error).splitlines()[0])
        rows.append(row)
    return {"rows": rows, "of": len(CODE_CASES)}


def _work(case: CodeCase, args: list[Any]) -> tuple[float, str]:
    """What a kernel does: operations of a product, else bytes."""
    shapes = [tuple(int(d) for d in a.shape) for a in args]
    if not case.product:
        return float(sum(prod(s) * parse(a.dtype).nbytes for s, a in zip(shapes, args))), "GB/s"
    if "conv" in case.name or "depthwise" in case.name:
        return 2.0 * prod(shapes[-1]) * prod(shapes[1][1:]), "GFLOP/s"
    return 2.0 * prod(shapes[-1]) * (prod(shapes[0]) // prod(shapes[-1][:-1])), "GFLOP/s"


def speed(dev: Any, budget: Budget, small: bool) -> Found:
    """Default schedules timed."""
    target, rows = tw.Target.from_device(dev), []
    runtime = dev.runtime
    before = runtime.set_stream(runtime.create_timing_stream())
    clock = gpu.Clock(runtime)
    try:
        for case in budget.each(CODE_CASES[::9] if small else CODE_CASES):
            row: Found = {"kernel": case.name}
            try:
                built, args = _built(case, case.small if small else case.size, target)
                _, arrays = _arrays(case, args, dev)
                run = built.prepare(*arrays)
                times = 1 if small else clock.burst(run)
                best = min(clock.seconds(run, times) for _ in range(_SMALL_ROUNDS if small else 3))
                work, unit = _work(case, args)
                row.update(seconds=best, rate=work / max(best, 1e-12) / 1e9, unit=unit)
            except (tw.TilewrightError, ValueError) as error:
                row["why"] = str(error).splitlines()[0]
            rows.append(row)
    finally:
        runtime.set_stream(before)
    return {"rows": rows, "of": len(CODE_CASES)}


def kernels(dev: Any, budget: Budget, small: bool) -> Found:
    """benchmarks.gpu, a case at a time."""
    arch = str(tw.Target.from_device(dev).attrs["arch"])
    blas = None if small else gpu_blas.find(dev.runtime.stream)
    cases = [c for c in CASES if c.runs_on(arch)]
    if small:
        cases = [replace(c, size=c.small) for c in cases if c.beside != "copy"][:2]
    rounds = _SMALL_ROUNDS if small else _ROUNDS
    return {
        "rows": [gpu.measure(c, dev, blas, rounds) for c in budget.each(cases)],
        "of": len(CASES),
    }


def tuned(dev: Any, budget: Budget, small: bool, records: Path = Path("ops-gpu-records")) -> Found:
    """benchmarks.ops_gpu, a case at a time."""
    target, torch, rows = tw.Target.from_device(dev), ops_gpu.Torch(), []
    cases = ops_gpu.chosen()
    if small:
        cases = [c for c in small_cases() if c.name == "NRM 5,7"]
    records.mkdir(parents=True, exist_ok=True)
    for case in budget.each(cases):
        file = records / f"{re.sub(r'[ ,]+', '-', case.name)}.json"
        built = ops_gpu.tune(case, target, 2 if small else 200, file, verbose=0)
        rows.append(ops_gpu.measure(case, built, dev, torch, _SMALL_ROUNDS if small else 9))
    return {"rows": rows, "of": len(cases), "mean": ops_gpu.mean_ratio(rows)}


_RUN: dict[str, Callable[..., Found]] = {
    "driver": driver, "right": right, "speed": speed, "kernels": kernels, "tuned": tuned,
}  # fmt: skip


def _part(name: str, options: argparse.Namespace) -> int:
    """In a process of its own: print what a part found, as one line of JSON."""
    more = {"records": options.records} if name == "tuned" else {}
    found = _RUN[name](tw.cuda(0), Budget(options.seconds), options.small, **more)
    print(json.dumps(found), flush=True)
    return 0


def _said(name: str, found: Found) -> str:
    """A part in a line."""
    rows = found.get("rows", [])
    if "error" in found:
        return f"{name}: {found['error']}"
    text = f"{name}: {len(rows)} of {found.get('of', len(rows))}"
    wrong = [r.get("kernel", r.get("type")) for r in rows if r.get("right") is False or "why" in r]
    missed = [r["name"] for r in rows if r.get("met") is False]
    text += f", wrong or refused: {', '.join(map(str, wrong))}" if wrong else ""
    text += f", below their bars: {', '.join(missed)}" if missed else ""
    return text + (f", {found['mean']:.2f} of PyTorch" if found.get("mean") else "")


def _run_part(name: str, seconds: float, options: argparse.Namespace) -> Found:
    """A part's findings, or how it ended."""
    command = [sys.executable, "-m", "benchmarks.gpu_first", "--part", name]
    command += ["--seconds", str(seconds), "--records", str(options.records)]
    command += ["--small"] if options.small else []
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=1.3 * seconds + 60, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {1.3 * seconds + 60:.0f} s, and ended"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
        return {"error": f"exit {done.returncode}: {last}"}
    found: Found = json.loads(lines[-1])
    return found


def run(options: argparse.Namespace) -> int:
    """All parts; 1 where one failed, a result was wrong or a bar is missed, 2 without a device."""
    dev = tw.cuda(0)
    if not dev.exist:
        print(f"no NVIDIA GPU: {dev.why_missing()}", file=sys.stderr)
        return 2
    name = re.sub(r"[^a-z0-9]+", "-", str(dev.device_name).lower()).strip("-")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"gpu-first-{name}-{date.today()}.json"
    about = {"python": platform.python_version(), "tilewright": tw.__version__}
    report: Found = {"about": about, "parts": {}}
    budget, good = Budget(60.0 * options.minutes), True
    left = dict(PARTS)
    for part, share in PARTS.items():
        seconds = max(20.0, budget.left) * share / sum(left.values())
        del left[part]
        start = time.perf_counter()
        found = _run_part(part, seconds, options)
        found["took"] = time.perf_counter() - start
        report["parts"][part] = found
        path.write_text(f"{json.dumps(report, indent=1)}\n", encoding="utf-8")
        said = _said(part, found)
        good = good and "error" not in found and "wrong" not in said and "below" not in said
        print(f"{said} ({found['took']:.0f} s)", flush=True)
    print(f"written: {path}")
    return 0 if good else 1


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_first")
    parser.add_argument("--minutes", type=float, default=24.0, help="for everything")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--records", type=Path, default=Path("ops-gpu-records"))
    parser.add_argument("--small", action="store_true", help="small sizes: tries the command")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0.0, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    return _part(options.part, options) if options.part else run(options)


if __name__ == "__main__":
    sys.exit(main())
