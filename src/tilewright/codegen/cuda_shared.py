"""Which shared memory of a CUDA kernel is dynamic: a launch asks for it by its size."""

from __future__ import annotations

from ..loopir.buffer import Buffer
from ..loopir.expr import Var
from ..loopir.stmt import PrimFunc
from ..lowering.verify_gpu_code import gpu_usage

STATIC_BYTES = 48 * 1024
"""Of arrays that a kernel declares with their sizes, no architecture takes more."""

PART_BYTES = 32
"""Every array starts at a multiple of this, which loads of matrix fragments need."""

_DECLARED = 64  # what buffers say of their alignment that say nothing


def alignment(buffer: Buffer) -> int:
    """Bytes at whose multiple an array in shared memory has to start: more than usual where a tile
    is swizzled."""
    return buffer.data_alignment if buffer.data_alignment > _DECLARED else PART_BYTES


class SharedLayout:
    """The arrays in a kernel's dynamic shared memory: where each starts, by its data, the bytes of
    all, and what the start of all has to be a multiple of."""

    def __init__(self, chosen: dict[Buffer, int]) -> None:
        self.places: dict[Var, int] = {}
        self.nbytes = 0
        self.align = max([PART_BYTES, *map(alignment, chosen)])
        for b in sorted(chosen, key=lambda b: -alignment(b)):
            at = -(-self.nbytes // alignment(b)) * alignment(b)
            self.places[b.data] = at
            self.nbytes = -(-(at + chosen[b]) // PART_BYTES) * PART_BYTES


def dynamic_shared(kernel: PrimFunc) -> SharedLayout:
    """The arrays in a kernel's dynamic shared memory: those of scope "shared.dyn", and those of
    scope "shared" where together they are too large for static ones."""
    usage = gpu_usage(kernel)
    shared = usage[0].shared if usage else {}
    static = sum(n for b, n in shared.items() if b.scope() == "shared")
    return SharedLayout(
        {
            b: n
            for b, n in shared.items()
            if b.scope() == "shared.dyn" or (b.scope() == "shared" and static > STATIC_BYTES)
        }
    )
