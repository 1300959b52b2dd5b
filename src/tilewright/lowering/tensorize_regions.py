"""The buffers that a tensor intrinsic declares, bound to regions: data, offset, strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arith import Analyzer, detect_linear_equation
from ..base.errors import ScheduleError
from ..loopir.buffer import Buffer
from ..loopir.expr import PrimExpr, Var, const, is_const
from ..loopir.iter import Range
from ..schedule.state import StageState
from ..tensor.tensor import Tensor
from .stage_body import strides_of
from .stage_memory import Memory

Box = list[tuple[PrimExpr, PrimExpr]]  # (min, extent) a dimension


def failed(stage: StageState, text: str) -> ScheduleError:
    return ScheduleError(f"tensorize on stage {stage.name}: {text}")


def buffers_by_tensor(intrin: Any) -> dict[Tensor, Buffer]:
    """The declared buffer of each input and output of an intrinsic."""
    outputs = [intrin.op.output(i) for i in range(intrin.op.num_outputs)]
    return dict(zip([*intrin.inputs, *outputs], intrin.buffers))


def bind_region(
    stage: StageState,
    analyzer: Analyzer,
    memory: Memory,
    declared: Buffer,
    tensor: Tensor,
    region: Box,
    values: dict[Var, Any],
) -> Buffer:
    """The part of a tensor's buffer that stands for a declared one; fills its variables' values."""
    actual, indices = memory.locate(tensor, [low for low, _ in region])
    offset = analyzer.simplify(actual.element_offset(indices))
    rank = len(declared.shape)
    strides = _region_strides(stage, analyzer, memory, tensor, region)[len(region) - rank :]
    values[declared.data] = actual.data
    if isinstance(declared.elem_offset, Var):
        values[declared.elem_offset] = offset
        factor = declared.offset_factor
        if factor > 1 and not analyzer.can_prove_equal(offset % factor, const(0, offset.dtype)):
            raise failed(
                stage,
                f"Tensorize failed, the offset {offset} of {tensor.op.name} is not a multiple of "
                f"{factor}, which the intrinsic's buffer {declared.name} asks for",
            )
    expected = strides_of(declared)
    for d, (want, have) in enumerate(zip(expected, strides)):
        if isinstance(want, Var):
            values.setdefault(want, have)
        elif not is_const(declared.shape[d], 1) and not analyzer.can_prove_equal(want, have):
            raise failed(
                stage,
                f"Tensorize failed, stride {d} of {tensor.op.name} is {have}, the intrinsic's "
                f"buffer {declared.name} has {want}; declare it with a stride variable",
            )
    return actual.with_(
        shape=declared.shape,
        strides=strides,
        elem_offset=offset,
        name=declared.name,
        offset_factor=declared.offset_factor,
    )


def check_starts(
    stage: StageState, memory: Memory, intrinsic: str, tensors: Sequence[Tensor]
) -> None:
    """What an intrinsic that clips reads begins where its pointer points: it takes a place of the
    array by its offset, apart into rows and columns, of which an offset of the array itself would
    become a part."""
    for tensor in tensors:
        if not is_const(memory.buffer(tensor).elem_offset, 0):
            raise failed(
                stage,
                f"{intrinsic} reads {tensor.op.name} from the start of its array, and the buffer "
                "that it was bound to has an elem_offset; declare that without elem_offset, and "
                "pass an array that begins there",
            )


def steps_of_view(
    stage: StageState,
    analyzer: Analyzer,
    tensor: Tensor,
    array: Buffer,
    given: Sequence[Var] | None,
) -> dict[Var, PrimExpr]:
    """The values of the variables that an intrinsic has for the strides of an array that a view
    lies in; where it has none, the array may have no gaps."""
    steps = strides_of(array)
    if given is not None:
        if len(given) != len(steps) - 1:
            raise failed(
                stage,
                f"{tensor.op.name} lies in an array of {len(steps)} dimensions, the intrinsic has "
                f"variables for {len(given)} strides, one less than that of another",
            )
        return dict(zip(given, steps))
    dense = strides_of(array.with_(strides=()))
    if not all(analyzer.can_prove_equal(a, b) for a, b in zip(steps, dense)):
        raise failed(
            stage,
            f"{tensor.op.name} lies in {array.name}, which has gaps, of which the intrinsic knows "
            "nothing; leave out strides and storage_align",
        )
    return {}


def _region_strides(
    stage: StageState, analyzer: Analyzer, memory: Memory, tensor: Tensor, region: Box
) -> list[PrimExpr]:
    """How far apart in memory neighbours of the region are, a dimension of the tensor each."""
    if memory.place(tensor).layout is None:
        return strides_of(memory.buffer(tensor))
    steps = [Var(f"x{d}", low.dtype) for d, (low, _) in enumerate(region)]
    for step, (_, extent) in zip(steps, region):
        analyzer.bind(step, Range.from_min_extent(const(0, step.dtype), extent))
    actual, indices = memory.locate(tensor, [low + x for x, (low, _) in zip(steps, region)])
    linear = detect_linear_equation(actual.element_offset(indices), steps, analyzer)
    if not linear:
        raise failed(
            stage,
            f"Tensorize failed, the region of {tensor.op.name} is not evenly spaced in the layout "
            "that transform_layout gave it",
        )
    return linear[:-1]
