"""The least time that the code of CUDA kernels could take on a named GPU (roofline).

A function reads and writes its arrays once, at the memory's rate, or does its operations at the
rate of the units that its machine code uses, times the share of those among the arithmetic of its
hottest loop and the share of the multiprocessors that its blocks fill; whichever takes longer
(S. Williams, A. Waterman, D. Patterson, Roofline: an insightful visual performance model for
multicore architectures, CACM 2009). A launch for each kernel is added. It is what the code could
reach, and no prediction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..rt.plan import Work
from ..target.kinds import PROCESSORS
from .sass import Static, arithmetic_share, tensor_instructions

_LAUNCH = 2e-6  # seconds from kernel to kernel of a stream
_GRID = re.compile(r"launch\('(\w+)', \((\d+), (\d+), (\d+)\)")


@dataclass(frozen=True)
class Gpu:
    """Rates of a device at its boost clock, from its data sheet: bytes and operations a second."""

    name: str
    processors: int
    memory: float
    float32: float
    float16: float  # in registers
    tensor: float  # float16 and bfloat16


# data sheets of NVIDIA; tensor cores with sums in float32
GPUS = {
    "sm_75": Gpu("T4", PROCESSORS["75"], 0.32e12, 8.1e12, 16.2e12, 65e12),
    "sm_80": Gpu("A100 SXM 40 GB", PROCESSORS["80"], 1.555e12, 19.5e12, 78e12, 312e12),
    "sm_86": Gpu("GeForce RTX 3090", PROCESSORS["86"], 0.936e12, 35.6e12, 35.6e12, 71e12),
    "sm_89": Gpu("GeForce RTX 4090", PROCESSORS["89"], 1.008e12, 82.6e12, 82.6e12, 165.2e12),
    "sm_90": Gpu("H100 SXM", PROCESSORS["90"], 3.35e12, 66.9e12, 133.8e12, 989e12),
}


def gpu_of(arch: str) -> Gpu | None:
    """The GPU that an architecture such as "sm_90a" is judged by, where one is known."""
    return GPUS.get(arch.rstrip("af"))


def grids_of(host: str) -> list[tuple[str, int]]:
    """The kernels that host code launches on known grids, and of how many blocks."""
    return [(name, int(x) * int(y) * int(z)) for name, x, y, z in _GRID.findall(host)]


def estimate(
    work: Work, grids: Sequence[tuple[str, int]], code: Mapping[str, Static], g: Gpu
) -> dict[str, Any]:
    """The least time of a function that launches kernels on so many blocks each."""
    counts = dict(grids)

    def done(s: Static) -> tuple[bool, int, int]:
        threads = s.threads * counts[s.name]
        products = s.count("FFMA") + s.count("HFMA2")
        return tensor_instructions(s) > 0, products * threads, s.everything.total() * threads

    main = max((code[name] for name in counts), key=done)
    blocks = counts[main.name]
    waves = -(-blocks // g.processors)
    filled = blocks / (waves * g.processors)
    on_cores = tensor_instructions(main) > 0
    halves = main.count("HFMA2") > main.count("FFMA")
    rate = g.tensor if on_cores else g.float16 if halves else g.float32
    share = max(arithmetic_share(main), 1.0) / 100
    moving, computing = work.bytes / g.memory, work.flops / (rate * share * filled)
    return {
        "kernel": main.name, "launches": len(grids), "blocks": blocks,
        "registers": main.registers, "spills": main.spills, "tensor": on_cores,
        "share": round(100 * share, 1), "gflop": work.flops / 1e9, "mb": work.bytes / 1e6,
        "us": 1e6 * (max(moving, computing) + _LAUNCH * len(grids)),
        "binds": "arithmetic" if computing > moving else "memory",
    }  # fmt: skip
