"""`tilewright doctor`: what works on this machine, and why the rest does not."""

from __future__ import annotations

import json
import platform
from importlib import metadata
from typing import Any

from .. import __version__
from ..base.errors import TilewrightError
from ..driver.peak import fma_peak
from ..rt import threads
from ..rt.device import device
from ..target.target import Target
from . import show

_PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "onnx", "onnxruntime", "torch", "xgboost-cpu")


def facts() -> dict[str, Any]:
    """All that the command reports."""
    target = Target("llvm")
    runtime = threads.runtime()
    count = threads.num_threads()
    return {
        "tilewright": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": {name: _version(name) for name in _PACKAGES},
        "cpu": target.cpu,
        "cpu_features": sorted(target.active_features),
        "vector_bytes": target.vector_bytes,
        "threads": count,
        "threads_runtime": str(runtime.path or "none: parallel loops run serially"),
        "peak_gflops": fma_peak(target, count) / 1e9,
        "targets": {name: _state(name) for name in ("llvm", "cuda", "opencl")},
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


def doctor(as_json: bool) -> None:
    """Print the facts."""
    rows = facts()
    if as_json:
        print(json.dumps(rows))
        return
    flat: dict[str, Any] = {}
    for name, value in rows.items():
        if name in ("packages", "targets"):
            flat.update((f"{name[:-1]} {key}", text) for key, text in value.items())
        elif name == "cpu_features":
            flat["cpu features"] = " ".join(value)
        elif name == "peak_gflops":
            flat["FMA peak"] = f"{value:.0f} GFLOP/s on {rows['threads']} threads (measured)"
        else:
            flat[name.replace("_", " ")] = value
    show.facts(flat)
