"""Networks of full size as kernels of devices: built, compiled by the devices' compilers, run.

    python -m benchmarks.device_networks DIR [--network NAME ...] [--dtype D ...] [--target T ...]
        [--upto STEP] [--limit 900] [--out FILE.json]

Networks are those of networks_models.py, made in DIR unless they are there. float16 is what
`precision="float16"` makes of them; "float16 file" an ONNX file in half precision, whose inputs and
outputs are half as well. Each case has a process of its own and an empty cache. CUDA source goes
through NVRTC or nvcc to a cubin, OpenCL source through the driver at hand (PoCL compiles a part of
it when kernels are first launched), where it also runs, and is compared with ONNX Runtime on the
float32 file. No GPU is needed.

Bars: every case builds and compiles without a warning; results within 1e-3 of the largest output
in float32, 2e-2 in float16. Results are added to FILE.json as they come, with a table beside it
(.md); what is in it is not measured again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import where
from benchmarks.mali_report import table
from benchmarks.networks_models import MODELS, paths
from tilewright.rt.plan import symbol_of

TARGETS = ("opencl", "opencl -device=mali", "cuda -arch=sm_80", "cuda -arch=sm_90")
BARS = {"float32": 1e-3, "float16": 2e-2, "float16 file": 2e-2}
Row = dict[str, Any]
Arrays = dict[str, np.ndarray[Any, Any]]


def half_file(path: Path) -> Path:
    """The model in half precision, inputs and outputs included; made once."""
    made = path.with_name(f"{path.stem}.half.onnx")
    if not made.exists():
        import onnx
        from onnxruntime.transformers.float16 import convert_float_to_float16

        model = convert_float_to_float16(onnx.load(str(path)), disable_shape_infer=True)
        onnx.save(model, str(made))
    return made


def reference(path: Path, data: Arrays) -> list[np.ndarray[Any, Any]]:
    """ONNX Runtime's results in float32, on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, data))


def spent(start: tuple[float, float]) -> tuple[float, float]:
    """Seconds by the clock and of the processors since `start`, which is of this function, too."""
    return round(time.perf_counter() - start[0], 2), round(time.process_time() - start[1], 2)


STEPS = ("build", "compile", "run")


def measure(case: Sequence[str], folder: Path, upto: str, seen: Sequence[str]) -> Row:
    """One case up to one of STEPS, in a process that has done nothing else. Source for OpenCL whose
    digest is in `seen` is not compiled again."""
    import tilewright
    from tilewright.graph.device import DeviceExecutable

    name, dtype, target = case
    path, inputs = paths(folder, name)
    row: Row = {"network": name, "dtype": dtype, "target": target}
    file = half_file(path) if dtype == "float16 file" else path
    precision = "float32" if dtype == "float16 file" else dtype
    start = time.perf_counter(), time.process_time()
    net = tilewright.compile(file, target, precision=precision)
    row["build_s"], row["build_cpu_s"] = spent(start)
    assert isinstance(net, DeviceExecutable)
    module = net.module.imported_modules[0]
    code = module.device_code
    assert code is not None
    row["kernels"], row["calls"] = len(code.kernels), _launches(net)
    row["source_kb"] = round(len(code.source) / 1024)
    row["workspace_mb"] = round(net.workspace_bytes / 2**20, 1)
    row["digest"] = hashlib.sha256(code.source.encode()).hexdigest()[:16]
    if upto == "build":
        return row
    if target.startswith("cuda"):
        return row | _through_nvrtc(code.source, target.partition("=")[2])
    if row["digest"] in seen:
        return row
    row |= _through_opencl(code)
    return row | (_ran(net, path, inputs, BARS[dtype]) if upto == "run" else {})


def _launches(net: Any) -> int:
    """Kernels that one run launches: a function may have several."""
    each = {name: text.count("launch(") for name, text in _host_texts(net).items()}
    return sum(each[symbol_of(c.kernel)] for c in net.calls)


def _host_texts(net: Any) -> dict[str, str]:
    return {name: net.module[name].text for name in net.module.function_names}


def _through_nvrtc(source: str, arch: str) -> Row:
    from tilewright.rt.drivers import nvrtc

    start = time.perf_counter(), time.process_time()
    image, log = nvrtc.compile_cuda(source, arch, "cubin")
    row: Row = dict(zip(("compile_s", "compile_cpu_s"), spent(start)))
    usage = nvrtc.resource_usage(image, log)
    row["warnings"] = [line for line in log.splitlines() if "warning" in line.lower()]
    row["registers"] = max(u.registers for u in usage.values())
    row["spilling"] = {
        kernel: u.spill_stores + u.spill_loads
        for kernel, u in usage.items()
        if u.spill_stores + u.spill_loads
    }
    row["stacks"] = {kernel: u.stack for kernel, u in usage.items() if u.stack}
    return row


def _through_opencl(code: Any) -> Row:
    import tilewright
    from tilewright.rt.drivers.opencl_build import build_program

    device = tilewright.opencl(0)
    if not device.exist:
        return {"not_compiled": device.why_missing()}
    runtime: Any = device.runtime
    start = time.perf_counter(), time.process_time()
    program = build_program(runtime, code)
    row: Row = dict(zip(("compile_s", "compile_cpu_s"), spent(start)))
    log = program.get_build_info(runtime.device, runtime.cl.program_build_info.LOG)
    row["warnings"] = re.findall(r".*warning:.*", log)
    row["device"] = str(device.device_name)
    row["device_half"] = bool(runtime.limits.has_fp16)
    return row


def _ran(net: Any, path: Path, inputs: Path, bar: float) -> Row:
    with np.load(inputs) as stored:
        data = dict(stored)
    wanted = reference(path, data)
    feed = {v.name: data[v.name].astype(v.dtype) for v in net.inputs}
    row: Row = {}
    for key in ("first_run_s", "run_s"):
        start = time.perf_counter()
        found = list(net.run(feed).values())
        row[key] = round(time.perf_counter() - start, 3)
    errors = []
    for got, want in zip(found, wanted, strict=True):
        if got.shape != want.shape:
            raise ValueError(f"an output of shape {got.shape}, not {want.shape}")
        away = np.abs(got.astype(np.float64) - want).max() / np.abs(want).max()
        errors.append(float(away) if np.isfinite(away) else float("inf"))
    row["error"] = max(errors)
    row["right"] = max(errors) <= bar
    return row


def measured(
    case: tuple[str, str, str], folder: Path, upto: str, limit: int, before: Sequence[Row]
) -> Row:
    """`measure` in a process of its own, with caches of its own, which ends after `limit` seconds
    of processors' time. What rows `before` know of the same source is taken from there."""
    alike = [r for r in before if r["network"] == case[0] and r["target"].startswith("opencl")]
    seen = {r["digest"]: r for r in alike if "warnings" in r}
    row: Row = dict(zip(("network", "dtype", "target"), case))
    command = [sys.executable, "-m", "benchmarks.device_networks", str(folder), "--one", *case]
    command += ["--upto", upto, "--limit", str(limit), "--seen", *seen]
    with tempfile.TemporaryDirectory(prefix="tilewright-devices-") as caches:
        keep = {"TILEWRIGHT_CACHE_DIR": f"{caches}/ours", "POCL_CACHE_DIR": f"{caches}/pocl"}
        done = subprocess.run(
            command, env={**os.environ, **keep}, capture_output=True, text=True, check=False
        )
    if done.returncode == -signal.SIGXCPU:
        return row | {"failed": f"not done after {limit} s of the processors"}
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
        return row | {"failed": lines[-1][:300]}
    found: Row = json.loads(done.stdout.splitlines()[-1])
    if "warnings" not in found and found["digest"] in seen:
        same = seen[found["digest"]]
        return {**same, **found, "same_source_as": same["target"]}
    return found


def faults(row: Row) -> list[str]:
    """What a row falls short of, in words."""
    found = [row[key] for key in ("failed", "not_compiled") if key in row]
    found += [f"{len(row['warnings'])} warnings"] if row.get("warnings") else []
    if not row.get("right", True):
        found.append(f"off by {row['error']:.1e}")
    return found


HEAD = (
    "network", "dtype", "target", "build s (CPU)", "kernels", "launches", "source KB",
    "compile s (CPU)", "registers", "spilling", "first run s", "run s", "error", "faults",
)  # fmt: skip


def report(rows: Sequence[Row]) -> str:
    """The rows as Markdown, what is not right first."""
    order = {name: k for k, name in enumerate(MODELS)}
    rows = sorted(rows, key=lambda r: (r["target"], r["dtype"], order.get(r["network"], 99)))
    wrong = [r for r in rows if faults(r)]
    about = where.facts()
    lines = [
        f"# Networks as kernels of devices, {about['date'].split()[0]}",
        "",
        f"Commit {about['commit']}; {about['processor']}, {about['system']}. "
        f"{len(rows)} cases, {len(wrong)} with faults; {sum('error' in r for r in rows)} ran.",
        "",
        *table(HEAD, [_cells(r) for r in rows]),
    ]
    return "\n".join(lines) + "\n"


def _seconds(row: Row, what: str) -> str:
    return f"{row[f'{what}_s']} ({row[f'{what}_cpu_s']})" if f"{what}_s" in row else ""


def _cells(row: Row) -> list[Any]:
    spilling = row.get("spilling")
    most = "" if not spilling else f", {max(spilling.values())} B at most"
    said = "; ".join(faults(row)).replace("|", "/").replace("\n", " ")
    return [
        row["network"],
        row["dtype"],
        row["target"],
        _seconds(row, "build"),
        *(row.get(key, "") for key in ("kernels", "calls", "source_kb")),
        _seconds(row, "compile"),
        row.get("registers", ""),
        "" if spilling is None else f"{len(spilling)}{most}",
        *(row.get(key, "") for key in ("first_run_s", "run_s")),
        f"{row['error']:.1e}" if "error" in row else "",
        said,
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--network", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--dtype", nargs="+", choices=list(BARS), default=["float32", "float16"])
    parser.add_argument("--target", nargs="+", default=list(TARGETS))
    parser.add_argument("--upto", choices=STEPS, default="run", help="the last step")
    parser.add_argument("--limit", type=int, default=900, help="seconds of processors for a case")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--seen", nargs="*", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit + 5))
        row = measure(options.one, options.folder, options.upto, options.seen)
        print(json.dumps(row))
        return 0
    path = options.out
    rows: list[Row] = json.loads(path.read_text()) if path and path.exists() else []
    known = {(r["network"], r["dtype"], r["target"]) for r in rows}
    for name in options.network:
        for case in ((name, d, t) for d in options.dtype for t in options.target):
            if case in known:
                continue
            rows.append(measured(case, options.folder, options.upto, options.limit, rows))
            print("FAULT" if faults(rows[-1]) else "good ", json.dumps(rows[-1]), flush=True)
            if path:
                path.write_text(json.dumps(rows, indent=1) + "\n")
                path.with_suffix(".md").write_text(report(rows))
    return 1 if any(map(faults, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
