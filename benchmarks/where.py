"""What a figure was measured on and with: kept beside it."""

from __future__ import annotations

import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import tilewright
from tilewright.driver.handing import round_trip
from tilewright.target.target import Target

# Round trips between two cores that differ by so much are of two kinds: near, and apart.
TWICE = 1.8
PACKAGES = ("numpy", "llvmlite", "onnx", "onnxruntime", "openvino", "torch")


def facts() -> dict[str, Any]:
    """Date, commit (with "+" where files differ from it), processor, target, nanoseconds from one
    core to the other and back (driver/handing.py), versions."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "commit": _commit(),
        "processor": _processor(),
        "target": str(Target("llvm").cpu),
        "round_trip_ns": None if (trip := round_trip()) is None else round(trip * 1e9),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "tilewright": tilewright.__version__,
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
    }


def moved(before: float, behind: float) -> bool:
    """Whether the round trips before and behind something tell of cores that were moved nearer to
    each other or apart meanwhile, as a virtual machine's are."""
    return max(before, behind) > TWICE * min(before, behind)


def _commit() -> str:
    folder = Path(__file__).resolve().parent
    found = []
    for command in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "-uno"]):
        try:
            done = subprocess.run(
                ["git", *command], cwd=folder, capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            return "not known"
        found.append(done.stdout.strip())
    return found[0] + ("+" if found[1] else "")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
