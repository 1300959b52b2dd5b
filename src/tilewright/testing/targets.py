"""The targets that tests run on."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..rt.device import Device, device, enabled
from ..target.kinds import KINDS
from ..target.target import Target

_WORKING = ("llvm", "cuda", "opencl")


def kind_of(target: Any) -> str:
    """The name of a target's kind; of text that names no kind we know, its first word."""
    if isinstance(target, str) and not target.lstrip().startswith("{"):
        return target.split()[0] if "/" not in target else Target(target).kind.name
    return Target(target).kind.name


def device_enabled(target: Any) -> bool:
    """Whether code for a target can be built and run here. Raises TargetError where `target` is no
    target, as text, dict or Target."""
    name = kind_of(target)
    return name in KINDS and KINDS[name].generates and enabled(name)


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets that work here, each with its first device; of those that $TVM_TEST_TARGETS
    names, text with semicolons between them, if it is set."""
    asked = os.environ.get("TVM_TEST_TARGETS", "").split(";")
    names = [text.strip() for text in asked if text.strip()] or list(_WORKING)
    return [(name, device(kind_of(name))) for name in names if device_enabled(name)]


def get_dtype_range(dtype: str) -> tuple[Any, Any]:
    """The least and the greatest value of a type of numbers: (-128, 127) of int8. Raises ValueError
    where dtype has no range of numbers."""
    kind = parse(dtype)
    if kind.is_bool or kind.is_handle:
        raise ValueError(f"{dtype} has no range of numbers")
    if kind.is_integer:
        return int(kind.min_value), int(kind.max_value)
    return np.float64(kind.min_value), np.float64(kind.max_value)


def multi_gpu_exists() -> bool:
    """Whether there are two CUDA devices."""
    return device("cuda", 1).exist
