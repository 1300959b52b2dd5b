"""What default schedules ask of a target."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from ...base.dtype import parse
from ...loopir.expr import const_int
from ...loopir.iter import IterVar
from ...schedule.api import Stage
from ...target.target import Target
from ...tensor.tensor import Tensor


@dataclass(frozen=True)
class Machine:
    """Vector width in bytes, number of vector registers and bytes of the caches of one core, and
    the number of cores."""

    vector_bytes: int
    registers: int
    l1_bytes: int = 32 << 10
    l2_bytes: int = 256 << 10
    cores: int = 4

    def lanes(self, dtype: str) -> int:
        """Elements of a full vector."""
        return max(1, self.vector_bytes // parse(dtype).nbytes)

    @staticmethod
    def of(target: Target | None) -> Machine:
        if target is None or target.kind.name not in ("llvm", "c"):
            return Machine(16, 16)
        return Machine(
            target.vector_bytes,
            target.num_vector_registers,
            target.l1_cache_bytes,
            target.l2_cache_bytes,
            target.num_cores,
        )


def extent_of(axis: Any) -> int:
    """The extent of a root axis, 0 where it is not known."""
    return const_int(axis.dom.extent) or 0


FMA_CHAINS = 8  # latency (4) times FMAs a cycle (2)
WAY, LINE = 4096, 64  # bytes of a way of the first-level cache, and of a line
PIECES = 2  # for each core, that threads share evenly
PARALLEL_PRODUCTS = 1 << 18  # multiplications; fewer take less time than waking threads
PARALLEL_STEPS = 1 << 15  # elements read


def work_of(t: Tensor) -> int:
    """Elements of a tensor times steps of its reduction; 0 where that is not known."""
    work = 1
    for axis in (*getattr(t.op, "axis", ()), *getattr(t.op, "reduce_axis", ())):
        work *= extent_of(axis)
    return work


def parallel_if(stage: Stage, axis: IterVar, work: int, least: int) -> None:
    """Run a loop on all threads where there is work for them, or where it is not known."""
    if not work or work >= least:
        stage.parallel(axis)


def bytes_of(t: Tensor) -> int:
    """The bytes of a tensor; 0 where a size is not known."""
    return prod(const_int(d) or 0 for d in t.shape) * parse(t.dtype).nbytes


def even(n: int, most: int) -> int:
    """The size of equal parts (but for the last) of n, at most `most`."""
    return -(-n // -(-n // most))


def largest_divisor(n: int, limit: int) -> int:
    """The largest divisor of n that is at most `limit` (1 for n = 0)."""
    return next((d for d in range(min(n, limit), 0, -1) if n % d == 0), 1)
