"""Which shared memory of a CUDA kernel is dynamic: a launch asks for it by its size."""

from __future__ import annotations

from ..loopir.expr import Var
from ..loopir.stmt import PrimFunc
from ..lowering.verify_gpu_code import gpu_usage

STATIC_BYTES = 48 * 1024
"""Of arrays that a kernel declares with their sizes, no architecture takes more."""

PART_BYTES = 32
"""Every array starts at a multiple of this, which loads of matrix fragments need."""


def part_bytes(nbytes: int) -> int:
    """What an array takes of a kernel's dynamic shared memory."""
    return -(-nbytes // PART_BYTES) * PART_BYTES


def dynamic_shared(kernel: PrimFunc) -> tuple[frozenset[Var], int]:
    """The arrays in a kernel's dynamic shared memory, by their data, and its bytes: those of scope
    "shared.dyn", and those of scope "shared" where together they are too large for static ones."""
    usage = gpu_usage(kernel)
    shared = usage[0].shared if usage else {}
    static = sum(n for b, n in shared.items() if b.scope() == "shared")
    chosen = {
        b.data: n
        for b, n in shared.items()
        if b.scope() == "shared.dyn" or (b.scope() == "shared" and static > STATIC_BYTES)
    }
    return frozenset(chosen), sum(map(part_bytes, chosen.values()))
