"""Element-wise work on a GPU: a few neighbouring elements a thread, threads along memory."""

from __future__ import annotations

from ....loopir.iter import IterVar
from ....schedule.api import Stage
from ..machine import extent_of
from .machine import GpuMachine, bind_rows, fused


def arrange(stage: Stage, axes: list[IterVar], machine: GpuMachine) -> None:
    """Fuse all axes, split off a vector where it divides the last dimension, bind the rest."""
    lanes = machine.lanes(stage.op.output_dtype(0))
    last = extent_of(axes[-1]) if axes else 0
    if lanes > 1 and last and last % lanes == 0:
        chunk, vector = stage.split(axes[-1], factor=lanes)
        stage.vectorize(vector)
        axes = [*axes[:-1], chunk]
    bind_rows(stage, fused(stage, axes), machine.threads)
