"""Operands of products on a GPU: how they lie in memory, and their tiles in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....base.dtype import parse
from ....loopir.expr import Cast, Mul, const_int
from ....loopir.iter import IterVar, ProducerLoad, Reduce
from ....schedule.api import Schedule, Stage
from ....tensor.tensor import Tensor
from ..contraction import contraction_of
from .machine import VECTOR_BYTES, GpuMachine, bind, fused
from .tile_plan import BANKS

DEPTH = 2  # fragments along the reduction in a tile of tensor cores: half the barriers of one
LEAST_COPY = 4  # bytes of an asynchronous copy


@dataclass(frozen=True)
class Operand:
    """One side of a product. `along`: whether the reduction runs along its rows in memory. `of`:
    the tensor whose rows its own are parts of, if it is not read itself."""

    tensor: Tensor
    along: bool
    of: Tensor | None = None

    @property
    def widest(self) -> int:
        """Elements of the widest access."""
        return max(1, VECTOR_BYTES // parse(self.tensor.dtype).nbytes)

    @property
    def lanes(self) -> int:
        """Elements of the widest access that every row in memory has room for, wherever a tile of
        whole vectors starts in it."""
        lanes = self.widest
        row = const_int((self.of or self.tensor).shape[-1])
        while lanes > 1 and (row is None or row % lanes):
            lanes //= 2
        return lanes

    def copied_late(self, machine: GpuMachine) -> bool:
        """Whether there is an asynchronous copy of so few bytes, if there are any."""
        enough = self.lanes * parse(self.tensor.dtype).nbytes >= LEAST_COPY
        return enough or not machine.asynchronous


def steps_of_tile(extent: int, fragment: int) -> int:
    """Steps of a reduction of that extent in a tile."""
    return fragment * (DEPTH if extent > DEPTH * fragment else 1)  # two tiles or more


def operands_of(op: Any) -> tuple[Operand, Operand] | None:
    """The sides of a product whose last two indices are i and k, and j and k, in some order."""
    form = contraction_of(op)
    if form is None or form.row_side is None or form.vector_side is None:
        return None
    (k,) = (a.var for a in op.reduce_axis)
    found = []
    for side, axis in ((form.row_side, op.axis[-2]), (form.vector_side, op.axis[-1])):
        *_, first, last = (None, *side.indices)
        if first is axis.var and last is k:
            found.append(Operand(side.producer, True))
        elif first is k and last is axis.var:
            found.append(Operand(side.producer, False))
        else:
            return None
    same = found[0].tensor.op is found[1].tensor.op
    return None if same else (found[0], found[1])


def read_widened(op: Any, sides: tuple[Operand, Operand]) -> bool:
    """Whether a product is a sum of a * b of what is read, in this order, each made as wide as the
    sum: what intrinsics of tensor cores do."""
    body = op.body[0]
    product = body.source[0] if type(body) is Reduce else None
    if type(product) is not Mul:
        return False
    for factor, side in zip((product.a, product.b), sides):
        if side.tensor.dtype != product.dtype:
            if type(factor) is not Cast:
                return False
            factor = factor.value
        if type(factor) is not ProducerLoad or factor.producer is not side.tensor:
            return False
    return True


def pitch_of(row: int) -> int:
    """Bytes from row to row of a tile: an odd number of 16, so that rows lie in other banks."""
    return (row // VECTOR_BYTES | 1) * VECTOR_BYTES


def spread(load: Stage, row: int) -> None:
    """Order the copy of a tile whose rows of so many bytes are padded: what is stored at once, 128
    bytes, is to lie in different banks.

    Two rows of 64 bytes follow each other 80 bytes apart, so that the second's last 16 lie in the
    banks of the first's; those of four rows further, 64 bytes on. Of rows of 32 bytes 48 apart,
    every other one of eight.
    """
    inner = {pitch_of(BANKS // 2): 4, pitch_of(BANKS // 4): 2}.get(pitch_of(row))
    if inner is None:
        along_lines(load, row)
        return
    *_, axis, column = load.op.axis
    rows, axis = load.split(axis, factor=8)
    far, near = load.split(axis, factor=inner)
    load.reorder(rows, near, far, column)


def along_lines(load: Stage, row: int) -> None:
    """Order the copy of a tile whose rows have several lines of 128 bytes: a thread has all of a
    row in turn. An asynchronous copy has 12 bits for a constant beside an address in global memory,
    which lead along a row and not to others."""
    if row > BANKS and row % BANKS == 0:
        *_, axis, column = load.op.axis
        line, column = load.split(column, factor=BANKS // parse(load.op.output_dtype(0)).nbytes)
        load.reorder(line, axis, column)


def share(stage: Stage, lanes: int, threads: Sequence[int], machine: GpuMachine) -> IterVar:
    """Share what is left of a stage's loops out among the threads (z, y, x) of a block, in vectors;
    the loop that is left to each."""
    flat = fused(stage, list(stage.leaf_iter_vars))
    if lanes > 1:
        flat, vector = stage.split(flat, factor=lanes)
        stage.vectorize(vector)
    for extent, tag in zip(reversed(threads), ("x", "y", "z")):
        flat, thread = stage.split(flat, factor=extent)
        bind(stage, thread, f"threadIdx.{tag}")
    stage.unroll(flat)
    return flat


def fill(
    stage: Stage, operand: Operand, threads: Sequence[int], machine: GpuMachine, stages: int
) -> None:
    """Share the copy of a tile out among the threads of a block; one of `stages` that are under
    way."""
    flat = share(stage, operand.lanes, threads, machine)
    if stages > 1:
        stage.double_buffer()
        stage.pragma(flat, "async_scope")


def pipeline(stage: Stage, loop: Any, stages: int) -> None:
    """Have several tiles under way in a loop."""
    if stages > 1:
        stage.pragma(loop, "software_pipeline_stages", stages)


def copies_of(s: Schedule, sides: Sequence[Operand], product: Tensor) -> list[Tensor]:
    """Copies of both sides in shared memory."""
    return [s.cache_read(x.tensor, "shared", [product.op]) for x in sides]
