"""What a CUDA device can do at most, by what it says of itself: the bars of benchmarks/gpu.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REACHED = 0.85
"""Of what a device can do at its highest clock, what copies and products of its maker reach: they
are what a share is of where neither is there to compare with."""


@dataclass(frozen=True)
class Units:
    """Operations that a multiprocessor of an architecture does in a cycle, two for a product that
    is added: in float32, and of float16 with sums in float32 on tensor cores, by instructions of a
    warp (mma) and by the fastest there are. CUDA C++ Programming Guide, "Arithmetic Instructions",
    and the architectures' white papers."""

    float32: int
    mma: int
    tensor: int


# mma of sm_90 was measured to reach 62 % of wgmma (Luo et al., "Benchmarking and Dissecting the
# Nvidia Hopper GPU Architecture", 2024); of sm_100 it is taken to do what sm_80's does
_UNITS = {
    75: Units(128, 1024, 1024),
    80: Units(128, 2048, 2048),
    86: Units(256, 1024, 1024),
    87: Units(256, 2048, 2048),
    89: Units(256, 1024, 1024),
    90: Units(256, 2540, 4096),
    100: Units(256, 2048, 8192),
    103: Units(256, 2048, 8192),
    120: Units(256, 1024, 1024),
}


def units_of(compute_version: str) -> Units:
    """Of a compute capability such as "9.0"; of the newest before it where it is not known."""
    number = int(compute_version.replace(".", ""))
    known = [n for n in _UNITS if n <= number]
    return _UNITS[max(known, default=min(_UNITS))]


def rates(runtime: Any) -> Mapping[str, float]:
    """Bytes ("memory") and operations ("float32", "mma", "tensor") that a CUDA device does in a
    second; 0 for what it does not say, nothing of other devices."""
    limits = runtime.limits
    if runtime.kind != "cuda":
        return {}
    cycles = limits.multi_processor_count * limits.max_clock_rate * 1e3
    units = units_of(limits.compute_version)
    return {
        "memory": float(limits.memory_bandwidth),
        "float32": units.float32 * cycles,
        "mma": units.mma * cycles,
        "tensor": units.tensor * cycles,
    }
