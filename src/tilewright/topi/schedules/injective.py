"""Element-wise work: parallel over the outer part, vectors along the last dimension."""

from __future__ import annotations

from math import lcm, prod

from ...loopir.iter import IterVar
from ...schedule.api import Schedule, Stage
from ...tensor.tensor import Tensor
from .machine import PIECES, ROW_PARTS, Machine
from .memory_order import in_squares, runs_of, side_of
from .shares import blocks_of_image, share_rows

PARALLEL_ELEMENTS = 1 << 14
EVEN_PIECES = 8  # for each core: threads share so many pieces evenly, whatever their number
MOST_TOGETHER = 7  # vectors, that are whole rows which are shorter than one


def schedule_injective(s: Schedule, out: Tensor, machine: Machine) -> None:
    """Schedule the stage of `out` by itself."""
    arrange(s[out], list(s[out].op.axis), machine)


def _even_parts(rows: int, machine: Machine) -> int:
    """Into how many parts so many rows are cut that threads share evenly; 0 where they cannot."""
    least, most = PIECES * machine.cores, max(ROW_PARTS, PIECES * machine.cores)
    counts = range(most - most % machine.cores, least - 1, -machine.cores)
    return next((n for n in counts if rows and rows % n == 0), 0)


def arrange(stage: Stage, axes: list[IterVar], machine: Machine) -> None:
    """Fuse, parallelise and vectorise the data axes of an element-wise stage.

    Vectors run along the last dimension, or along the last ones fused where it is shorter than a
    vector. Fewer than PARALLEL_ELEMENTS elements are not worth waking threads for.
    """
    if not axes:
        return
    lanes = machine.lanes(stage.op.output_dtype(0))
    runs, across = runs_of(stage, axes)
    axes = [stage.fuse(*r.axes) if len(r.axes) > 1 else r.axes[0] for r in runs]
    sizes = [r.size for r in runs]
    total = prod(sizes)
    small = 0 < total < PARALLEL_ELEMENTS
    side = 0 if across is None else side_of(sizes[-1], stage.op.output_dtype(0), machine)
    if across is not None and side:
        loops = in_squares(stage, axes, sizes, across, side, machine)
        if not small:
            stage.parallel(stage.fuse(*loops) if len(loops) > 1 else loops[0])
        return
    outer, inner = axes[:-1], axes[-1]
    size = period = sizes.pop()
    while outer and 0 < size < lanes:
        size *= sizes.pop()
        inner = stage.fuse(outer.pop(), inner)
    chunk: IterVar | None = None
    together = lcm(lanes, period) if 1 < period < lanes else lanes
    if together > lanes and 2 * together <= size and together <= MOST_TOGETHER * lanes:
        # whole vectors of whole rows: lane by lane, places within a row are the same each time
        chunk, inner = stage.split(inner, factor=together)
        several, inner = stage.split(inner, factor=lanes)
        stage.unroll(several)
    elif size == 0 or size > lanes > 1:
        chunk, inner = stage.split(inner, factor=lanes)
    if lanes > 1 and size != 1:
        stage.vectorize(inner)
    if small:
        return
    image = blocks_of_image(stage.op.output(0), machine)
    if image and not outer and chunk is not None and size % (image * together) == 0:
        stage.parallel(chunk)
        share_rows(stage, chunk, (1, image, size // (image * together)), machine)
        return
    parts = _even_parts(sizes[-1], machine) if len(outer) > 1 else 0
    if parts and prod(sizes[:-1]) == image:
        # parts of the rows of all blocks, block by block
        part, rows = stage.split(outer.pop(), nparts=parts)
        stage.reorder(part, *outer, rows)
        stage.parallel(part)
        return
    if chunk is not None and prod(sizes) < PIECES * machine.cores:
        if not outer:
            stage.parallel(chunk)
            return
        # few rows: each thread takes a part of them all, or of each
        part, chunk = stage.split(chunk, nparts=PIECES * machine.cores)
        outer.append(part)
    if len(outer) > 1 and prod(sizes[:-1]) >= EVEN_PIECES * machine.cores:
        outer.pop()  # a loop of its own: no vector asks which steps of the others it is in
    if outer:
        stage.parallel(stage.fuse(*outer) if len(outer) > 1 else outer[0])
    elif chunk is not None:
        stage.parallel(chunk)
