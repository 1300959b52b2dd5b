"""Default schedules by TVM's names: one rule for all operators, which the target chooses from.

Each takes outputs and returns a schedule for the target in scope; those for devices take CUDA
where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import TilewrightError
from ...schedule.api import Schedule, create_schedule
from ...target.target import Target
from ...tensor.op import ComputeOp
from ...tensor.tensor import Tensor
from .default import default_schedule
from .injective import schedule_injective
from .machine import Machine

Outputs = Tensor | Sequence[Tensor]


def renamed(names: str, own: str) -> str:
    """Names of a face that all mean one function, but for those that say which one they mean."""
    return " ".join(name if "=" in name else f"{name}={own}" for name in names.split())


def schedule(outs: Outputs) -> Schedule:
    """A schedule for any operators of this library, for the target in scope."""
    return default_schedule(outs)


def schedule_in_layout(outs: Outputs, layout: str) -> Schedule:
    """As `schedule`; the layout, of which the operators know, has to be one of theirs. Raises
    TilewrightError where layout has no dimension W."""
    _check_layout(layout)
    return default_schedule(outs)


def schedule_inlined(outs: Outputs, auto_inline: bool) -> Schedule:
    """As `schedule`; without `auto_inline` stages as they are written."""
    if auto_inline:
        return default_schedule(outs)
    return create_schedule([t.op for t in _listed(outs)])


def schedule_extern(outs: Outputs) -> Schedule:
    """Default loops: an external function brings its own."""
    return create_schedule([t.op for t in _listed(outs)])


def from_existing(sch: Schedule, out: Tensor) -> Schedule:
    """Vectorise and parallelise the element-wise stage of a tensor in a schedule that is given.
    Raises TilewrightError where out is not computed."""
    if not isinstance(sch[out].op, ComputeOp):
        raise TilewrightError(f"schedule_injective_from_existing: {out!r} is not computed")
    target = Target.current(allow_none=True)
    if target is not None and "gpu" in target.keys:
        return from_existing_on_device(sch, out)
    schedule_injective(sch, out, Machine.of(target))
    return sch


def on_device(outs: Outputs) -> Schedule:
    """As `schedule`, with axes bound to threads: for the target in scope, else for CUDA."""
    return default_schedule(outs, Target.current(allow_none=True) or Target("cuda"))


def on_device_in_layout(outs: Outputs, layout: str) -> Schedule:
    """As `on_device`; the layout, of which the operators know, has to be one of theirs. Raises
    TilewrightError where layout has no dimension W."""
    _check_layout(layout)
    return on_device(outs)


def on_device_in_some_layout(outs: Outputs, layout: str = "NCHW") -> Schedule:
    """As `on_device_in_layout`, of pools in NCHW by default. Raises TilewrightError where layout
    has no dimension W."""
    return on_device_in_layout(outs, layout)


def from_existing_on_device(sch: Schedule, out: Tensor) -> Schedule:
    """Bind the axes of the element-wise stage of a tensor to threads, in a schedule that is
    given."""
    from .gpu.injective import arrange
    from .gpu.machine import GpuMachine

    target = Target.current(allow_none=True) or Target("cuda")
    stage = sch[out]
    arrange(stage, list(stage.op.axis), GpuMachine.of(target))
    return sch


def _listed(outs: Outputs) -> list[Any]:
    return [outs] if isinstance(outs, Tensor) else list(outs)


def _check_layout(layout: str) -> None:
    if "W" not in layout:
        raise TilewrightError(f"layout {layout!r} of pooling has no dimension W")
