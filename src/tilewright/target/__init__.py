"""Targets: what code is generated for, and what it can do."""

from __future__ import annotations

from typing import Any

from . import codegen
from .capability import Capabilities
from .kinds import Attribute, TargetKind
from .target import Target

__all__ = ["Attribute", "Capabilities", "Target", "TargetKind", "codegen", "cuda"]
__all__ += ["mali", "opencl"]


def cuda(model: str = "unknown", arch: str | None = None, **attributes: Any) -> Target:
    """A CUDA target; `arch` as "sm_90"."""
    return Target({"kind": "cuda", "model": model, "arch": arch, **attributes})


def opencl(model: str = "unknown", **attributes: Any) -> Target:
    """An OpenCL target."""
    return Target({"kind": "opencl", "model": model, **attributes})


def mali(model: str = "unknown", **attributes: Any) -> Target:
    """An OpenCL target for Arm's Mali GPUs."""
    return opencl(model, device="mali", **attributes)
