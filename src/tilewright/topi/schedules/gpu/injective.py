"""Element-wise work on a GPU: a few neighbouring elements a thread, threads along memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....base.dtype import parse
from ....loopir.equal import structural_equal
from ....loopir.iter import IterVar, ProducerLoad
from ....schedule.api import Stage
from ....schedule.auto_inline import is_injective, loads_of
from ....tensor.axes import thread_axis
from ....tensor.op import ComputeOp, PlaceholderOp, domain
from ..machine import extent_of, known_extent, whole_vectors
from .banks import WORD, turns
from .machine import GpuMachine, bind, bind_rows, fused, planned

SIDE = 8  # threads side by side that share a line of memory when they turn a tensor
TILE = 32  # words of a row of a tile in shared memory: banks, and threads of a warp
_FEW = 4  # elements of a side for which a tile in shared memory pays


def arrange(stage: Stage, axes: list[IterVar], machine: GpuMachine) -> None:
    """Fuse all axes, split off a vector where it divides the last dimension, or the array where
    each element is made of those at its place, bind the rest. A
    tensor that is turned is read and written in vectors, a square of them a thread, where both its
    sides have whole ones, else through a tile in shared memory."""
    lanes = machine.lanes(stage.op.output_dtype(0))
    sizes = [known_extent(a) for a in axes]
    last = sizes[-1] or 0 if axes else 0
    turned = _turned(stage) if machine.shared else None
    if turned is not None:
        read, at = turned
        sides = [stage.op.axis[n] for n in (at, -1)]
        whole = [whole_vectors(known_extent(a) or 1, lanes) for a in sides]
        if lanes > 1 and whole == [lanes, lanes]:
            _turn(stage, read, at, lanes, machine)
            return
        # what is read together is written near each other where the two sides are neighbours
        near = at == len(stage.op.axis) - 2
        if min(map(planned, sides)) >= (TILE if near else _FEW):
            _turn_shared(stage, read, at, whole, machine)
            return
    every = prod(1 if n is None else n for n in sizes)  # of all there are as many times that many
    if last % lanes and _is_flat(stage, axes) and every % lanes == 0:
        flat, vector = stage.split(fused(stage, axes), factor=lanes)
        stage.vectorize(vector)
        bind_rows(stage, flat, machine.threads)
        return
    if lanes > 1 and last and last % lanes == 0:
        chunk, vector = stage.split(axes[-1], factor=lanes)
        stage.vectorize(vector)
        axes = [*axes[:-1], chunk]
    bind_rows(stage, fused(stage, axes), machine.threads)


def _is_flat(stage: Stage, axes: list[IterVar]) -> bool:
    """Whether a stage reads each time the element that it makes, of arrays of its own shape: then
    rows need no whole vectors where all of the array has. Where sizes are not known, nothing that
    is read may be computed in its loops: of how many rows a vector needs elements nobody could
    say."""
    op = stage.op
    if not isinstance(op, ComputeOp) or not is_injective(op) or axes != list(op.axis):
        return False
    own = [domain(a).extent for a in op.axis]
    known = None not in map(known_extent, op.axis)
    return bool(loads_of(op)) and all(
        len(e.indices) == len(axes)
        and all(i is a.var for i, a in zip(e.indices, axes))
        and all(map(structural_equal, e.producer.shape, own))
        and (known or isinstance(e.producer.op, PlaceholderOp))
        for e in loads_of(op)
    )


def _turned(stage: Stage) -> tuple[ProducerLoad, int] | None:
    """The one read of a stage, where neighbours in it are no neighbours in the result, and the
    number of the axis along which they are."""
    op = stage.op
    loops = list(stage.leaf_iter_vars)
    if not isinstance(op, ComputeOp) or not is_injective(op) or loops != list(op.axis):
        return None
    reads = loads_of(op)
    if not loops or len(reads) != 1 or reads[0].dtype != op.output_dtype(0) or op.num_outputs != 1:
        return None
    variables = [a.var for a in op.axis]
    places = [next((n for n, v in enumerate(variables) if v is i), -1) for i in reads[0].indices]
    if -1 in places or len(set(places)) < len(variables) or places[-1] == len(variables) - 1:
        return None
    return (reads[0], places[-1]) if all(map(planned, op.axis)) else None


def _turn_shared(
    stage: Stage, read: ProducerLoad, at: int, lanes: list[int], machine: GpuMachine
) -> None:
    """Through a tile in shared memory: a warp reads rows of it and writes columns, each in vectors
    of as many `lanes` as their side has. What is beside each other in a column is so far apart that
    it lies in different banks: an odd number of words where a warp has a column."""
    s = stage.schedule
    tile = s.cache_read(read.producer, "shared", [stage.op])
    packed = max(1, WORD // parse(stage.op.output_dtype(0)).nbytes)
    side = TILE * packed
    axes = list(stage.op.axis)
    down, along = axes[at], axes[-1]
    # powers of two, which threads share evenly
    rows, columns = (
        min(most, 1 << (planned(a) - 1).bit_length()) for a, most in ((down, side), (along, TILE))
    )
    down, y = stage.split(down, factor=rows)
    along, x = stage.split(along, factor=columns)
    others = [a for n, a in enumerate(axes[:-1]) if n != at]
    stage.reorder(*others, down, along, y, x)
    block = fused(stage, [*others, down, along])
    bind(stage, block, "blockIdx.x")
    _share(stage, stage.fuse(y, x), lanes[1], machine)
    copy = s[tile]
    copy.compute_at(stage, block)
    element = parse(stage.op.output_dtype(0)).nbytes
    pad = _pad(rows, columns, lanes, element)
    copy.storage_align(copy.op.axis[-2], rows, pad)
    _share(copy, fused(copy, list(copy.op.axis)), lanes[0], machine)


def _pad(rows: int, columns: int, lanes: Sequence[int], nbytes: int) -> int:
    """Elements of so many bytes between the rows of a tile, to which threads write vectors of
    `lanes[0]` along its rows and of which they read vectors of `lanes[1]` down its columns, an
    element or a word at a time: the fewest with which they share no bank, or share it least."""
    step = max(1, WORD // nbytes)

    def shared(pad: int) -> float:
        stride = rows + pad
        written = [divmod(t * lanes[0], rows) for t in range(TILE)]
        read = [divmod(t * lanes[1], columns) for t in range(TILE)]
        writes = [
            turns([(y * stride + x + n) * nbytes for y, x in written], nbytes)
            for n in range(0, lanes[0], step)
        ]
        reads = [
            turns([((y + n) * stride + x) * nbytes for x, y in read], nbytes)
            for n in range(lanes[1])
        ]
        return sum(writes) / len(writes) + sum(reads) / len(reads)

    return min(range(step, (TILE + 1) * step, step), key=shared)


def _share(stage: Stage, flat: IterVar, lanes: int, machine: GpuMachine) -> None:
    """Share a tile out among a block's threads, in vectors."""
    if lanes > 1:
        flat, vector = stage.split(flat, factor=lanes)
        stage.vectorize(vector)
    rest, thread = stage.split(flat, factor=machine.threads)
    stage.bind(thread, thread_axis((0, machine.threads), "threadIdx.x"))
    machine.unroll(stage, rest)


def _turn(stage: Stage, read: ProducerLoad, at: int, lanes: int, machine: GpuMachine) -> None:
    s = stage.schedule
    local = s.cache_read(read.producer, "local", [stage.op])
    axes = list(stage.op.axis)
    across, along = axes[at], axes[-1]
    shape = [extent_of(a) // lanes for a in (across, along)]
    across, column = stage.split(across, factor=lanes)
    along, row = stage.split(along, factor=lanes)
    across, x = stage.split(across, factor=min(SIDE, shape[0]))
    along, y = stage.split(along, factor=min(machine.threads // SIDE, shape[1]))
    others = [a for n, a in enumerate(axes[:-1]) if n != at]
    stage.reorder(*others, along, across, y, x, column, row)
    bind(stage, fused(stage, [*others, along, across]), "blockIdx.x")
    bind(stage, y, "threadIdx.y")
    bind(stage, x, "threadIdx.x")
    stage.unroll(column)
    stage.vectorize(row)
    copy = s[local]
    copy.compute_at(stage, x)
    *rows, vector = copy.op.axis
    for axis in rows:
        copy.unroll(axis)
    copy.vectorize(vector)
