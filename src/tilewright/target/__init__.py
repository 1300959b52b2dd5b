"""Targets: what code is generated for, and what it can do."""

from __future__ import annotations

from . import codegen, tag
from .capability import Capabilities
from .generic_func import (
    GenericFunc,
    generic_func,
    get_native_generic_func,
    override_native_generic_func,
)
from .kinds import Attribute, TargetKind
from .models import (
    adreno,
    arm_cpu,
    bifrost,
    create,
    cuda,
    detect_target,
    hexagon,
    intel_graphics,
    mali,
    opencl,
    rasp,
    riscv_cpu,
    rocm,
    stm32,
    vta,
)
from .tag import list_tags, register_tag
from .target import Target
from .virtual_device import VirtualDevice

__all__ = [
    "Attribute",
    "Capabilities",
    "GenericFunc",
    "Target",
    "TargetKind",
    "VirtualDevice",
    "adreno",
    "arm_cpu",
    "bifrost",
    "codegen",
    "create",
    "cuda",
    "detect_target",
    "generic_func",
    "get_native_generic_func",
    "hexagon",
    "intel_graphics",
    "list_tags",
    "mali",
    "opencl",
    "override_native_generic_func",
    "rasp",
    "register_tag",
    "riscv_cpu",
    "rocm",
    "stm32",
    "tag",
    "vta",
]
