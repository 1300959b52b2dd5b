"""Networks on an OpenCL device against ONNX Runtime, and as CUDA source through its compiler."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import graph
from tilewright.graph.device import DeviceExecutable
from tilewright.rt.drivers import nvrtc
from tools.make_networks import make

NETWORKS = ("vgg16", "mobilenet", "resnet18")
SEED = 0
MALI = "opencl -device=mali"
CASES = ((MALI, "float32"), (MALI, "float16"), ("opencl", "float32"))
CUDA = "cuda -arch=sm_80"
BARS = {"float32": 1e-3, "float16": 2e-2}
RUNS = 5
Array = np.ndarray[Any, Any]


def model_file(name: str, folder: Path) -> Path:
    """The network with seeded weights, made once."""
    path = folder / f"{name}-{SEED}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(make(name, SEED).SerializeToString())
        part.replace(path)
    return path


def median_of(call: Callable[[], Any], runs: int) -> float:
    """Seconds of a call: the median of some, after one that is not counted."""
    call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def reference(path: Path, image: Array) -> tuple[Array, float]:
    """ONNX Runtime's logits on the CPU, and its seconds."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: image}
    return session.run(None, feed)[0], median_of(lambda: session.run(None, feed), RUNS)


def run_network(name: str, folder: Path, cases: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """A row for each target and dtype; with the time of each layer."""
    path = model_file(name, folder)
    image = np.random.default_rng(1).standard_normal((1, 3, 224, 224)).astype(np.float32)
    expected, reference_s = reference(path, image)
    model = graph.load_onnx(path)
    rows = []
    for target, dtype in cases:
        print(f"{name}: {target}, {dtype}", file=sys.stderr, flush=True)
        start = time.perf_counter()
        net = graph.compile(model, target, dtype=dtype)
        compile_s = time.perf_counter() - start
        feed = {net.inputs[0].name: image}
        start = time.perf_counter()
        logits = net.run(feed)[net.output_names[0]]
        first_s = time.perf_counter() - start
        rows.append(
            {
                "network": name,
                "target": target,
                "dtype": dtype,
                "error": float(np.abs(logits - expected).max() / np.abs(expected).max()),
                "latency_ms": median_of(net.prepare(feed), RUNS) * 1e3,
                "onnxruntime_ms": reference_s * 1e3,
                "compile_s": compile_s,
                "first_run_s": first_s,
                "layers": [(nodes, s * 1e3) for nodes, s in net.profile(feed, repeat=3)],
            }
        )
    return rows


def compile_cuda(name: str, folder: Path) -> list[dict[str, Any]]:
    """The network's kernels as CUDA source, through NVRTC or nvcc; `log` has its warnings."""
    model = graph.load_onnx(model_file(name, folder))
    rows = []
    for dtype in BARS:
        print(f"{name}: {CUDA}, {dtype}", file=sys.stderr, flush=True)
        net = graph.compile(model, CUDA, dtype=dtype)
        assert isinstance(net, DeviceExecutable)
        source = net.module.imported_modules[0].get_source()
        start = time.perf_counter()
        ptx, log = nvrtc.compile_cuda(source, "sm_80")
        rows.append(
            {
                "network": name,
                "dtype": dtype,
                "kernels": source.count("__global__"),
                "ptx_bytes": len(ptx),
                "seconds": time.perf_counter() - start,
                "log": log.strip(),
            }
        )
    return rows
