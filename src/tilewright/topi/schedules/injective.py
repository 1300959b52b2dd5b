"""Element-wise work: parallel over the outer part, vectors along the last dimension."""

from __future__ import annotations

from ...loopir.iter import IterVar
from ...schedule.api import Schedule, Stage
from ...tensor.tensor import Tensor
from .machine import Machine, extent_of
from .turned import arrange_turned, run_across

PARALLEL_ELEMENTS = 1 << 14


def schedule_injective(s: Schedule, out: Tensor, machine: Machine) -> None:
    """Schedule the stage of `out` by itself."""
    arrange(s[out], list(s[out].op.axis), machine)


def arrange(stage: Stage, axes: list[IterVar], machine: Machine) -> None:
    """Fuse, parallelise and vectorise the data axes of an element-wise stage.

    Vectors run along the last dimension, or along the last ones fused where it is shorter than a
    vector. Fewer than PARALLEL_ELEMENTS elements are not worth waking threads for.
    """
    if not axes:
        return
    lanes = machine.lanes(stage.op.output_dtype(0))
    outer, inner = axes[:-1], axes[-1]
    size = extent_of(inner)
    while outer and 0 < size < lanes:
        size *= extent_of(outer[-1])
        inner = stage.fuse(outer.pop(), inner)
    total = size
    for axis in outer:
        total *= extent_of(axis)
    run = run_across(stage, axes) if len(outer) == len(axes) - 1 else (0, 0)
    if run != (0, 0):
        tiles = arrange_turned(stage, axes, run, machine)
        if total >= PARALLEL_ELEMENTS:
            stage.parallel(tiles)
        return
    chunk: IterVar | None = None
    if size == 0 or size > lanes > 1:
        chunk, inner = stage.split(inner, factor=lanes)
    if lanes > 1 and size != 1:
        stage.vectorize(inner)
    if total and total < PARALLEL_ELEMENTS:
        return
    if outer:
        stage.parallel(stage.fuse(*outer) if len(outer) > 1 else outer[0])
    elif chunk is not None:
        stage.parallel(chunk)
