"""`tilewright doctor`: what works on this machine, and why the rest does not."""

from __future__ import annotations

import json
import platform
from importlib import metadata
from typing import Any

from .. import __version__
from ..base.errors import TilewrightError
from ..driver.handing import round_trip
from ..driver.peak import fma_peak
from ..rt import threads
from ..rt.device import Device, device
from ..rt.drivers import base, nvrtc
from ..target.target import Target
from . import show

_PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "onnx", "onnxruntime", "torch", "xgboost-cpu")
_GPU_PACKAGES = ("pyopencl", "cuda-bindings", "nvidia-cuda-nvrtc")


def facts() -> dict[str, Any]:
    """All that the command reports."""
    target = Target("llvm")
    count = threads.num_threads()
    return {
        "tilewright": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": {name: _version(name) for name in (*_PACKAGES, *_GPU_PACKAGES)},
        "cpu": target.cpu,
        "cpu_features": sorted(target.active_features),
        "vector_bytes": target.vector_bytes,
        "threads": count,
        "peak_gflops": fma_peak(target, count) / 1e9,
        "round_trip_ns": None if (trip := round_trip()) is None else trip * 1e9,
        "targets": {name: _state(name) for name in ("llvm", "cuda", "opencl")},
        "cuda_compiler": nvrtc.find_compiler() or f"none: {nvrtc.why_missing()}",
        "devices": {str(d): _device(d) for kind in ("cuda", "opencl", "simt") for d in _all(kind)},
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _state(kind: str) -> str:
    if kind == "llvm":
        try:
            Target("llvm")
        except TilewrightError as error:
            return f"no: {error}"
        return "works"
    try:
        device(kind, 0).require()
    except TilewrightError as error:
        return f"no: {error}"
    return "works"


def _all(kind: str) -> list[Device]:
    """The devices of a kind that are there."""
    driver = base.find(kind)
    return [device(kind, i) for i in range(driver.count() if driver else 0)]


def _device(dev: Device) -> str:
    """The device in a line."""
    limits = dev.limits
    if limits is None:
        return "the CPU"
    facts = [
        limits.device_name,
        f"version {limits.compute_version}" if limits.compute_version else "",
        f"{limits.multi_processor_count} units" if limits.multi_processor_count else "",
        f"{limits.max_threads_per_block} threads a block, warps of {limits.warp_size}",
        f"{limits.max_shared_memory_per_block >> 10} KiB shared memory",
        f"{limits.total_global_memory >> 20} MiB" if limits.total_global_memory else "",
        "float16" if limits.has_fp16 else "no float16",
        "sub-groups" if limits.has_subgroups else "no sub-groups",
    ]
    return ", ".join(filter(None, facts))


def doctor(as_json: bool) -> None:
    """Print the facts."""
    rows = facts()
    if as_json:
        print(json.dumps(rows))
        return
    flat: dict[str, Any] = {}
    for name, value in rows.items():
        if name == "devices":
            flat.update((f"device {key}", text) for key, text in value.items())
        elif name in ("packages", "targets"):
            flat.update((f"{name[:-1]} {key}", text) for key, text in value.items())
        elif name == "cpu_features":
            flat["cpu features"] = " ".join(value)
        elif name == "peak_gflops":
            flat["FMA peak"] = f"{value:.0f} GFLOP/s on {rows['threads']} threads (measured)"
        elif name == "round_trip_ns":
            flat["core to core"] = (
                "not measured: one core, or no say in which"
                if value is None
                else f"{value:.0f} ns there and back (measured)"
            )
        else:
            flat[name.replace("_", " ")] = value
    show.facts(flat)
