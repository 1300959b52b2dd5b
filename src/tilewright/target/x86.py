"""`tvm.target.x86`: what vectors x86 CPUs have."""

from __future__ import annotations

from typing import Any

from .target import Target


def get_simd_32bit_lanes() -> int:
    """How many 32-bit numbers a vector register of the current target (else this CPU) holds."""
    target: Any = Target.current(allow_none=True) or Target("llvm")
    return int(target.vector_bytes) // 4
