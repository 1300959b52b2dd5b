"""Choose a default schedule for any group of operations that ends in one output.

The group's *anchor* is its one expensive operation (a convolution, product, pooling or other
reduction). Element-wise operations before it are inlined, those behind it are computed on its
tiles. What does not fit that pattern falls back to stages one after another, each with its own
default. The operators of topi say by tags what they are; of others, sums of products and
element-wise operations are known by their structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...loopir.visit import walk
from ...schedule.api import Schedule, create_schedule
from ...schedule.auto_inline import is_injective, loads_of
from ...target.target import Target
from ...tensor.op import ComputeOp, PlaceholderOp
from ...tensor.tensor import Tensor
from ..nn.recurrent_layer import LAYER
from .attention import schedule_attention
from .constants import Constants
from .contraction import contraction_of, is_product, kept_inputs
from .conv2d import schedule_conv2d_nchw, schedule_conv_nchwc, schedule_depthwise_nchwc
from .decisions import Decisions
from .injective import arrange
from .machine import Machine, extent_of
from .matmul import schedule_contraction, schedule_dense_packed, schedule_matmul
from .recurrent import schedule_recurrent
from .reduce import schedule_global_pool, schedule_pool, schedule_reduce
from .rules import M, Rules
from .softmax import schedule_softmax
from .winograd import (
    HALVES,
    schedule_winograd_input,
    schedule_winograd_output,
    schedule_winograd_product,
)

CPU_RULES: Rules[Machine] = Rules(
    anchors={
        "conv_nchwc": schedule_conv_nchwc,
        "depthwise_nchwc": schedule_depthwise_nchwc,
        "conv2d_nchw": schedule_conv2d_nchw,
        "group_conv2d_nchw": schedule_conv2d_nchw,
        "matmul": schedule_matmul,
        "batch_matmul": schedule_matmul,
        "contraction": schedule_contraction,
        "dense_packed": schedule_dense_packed,
        "pool_max": schedule_pool,
        "pool_avg": schedule_pool,
        "global_pool_avg": schedule_global_pool,
        "global_pool_max": schedule_global_pool,
        "comm_reduce": schedule_reduce,
        "winograd_input": schedule_winograd_input,
        "winograd_filter": schedule_winograd_input,
        "winograd_product": schedule_winograd_product,
        "winograd_output": schedule_winograd_output,
    },
    reduction=schedule_reduce,
    arrange=arrange,
    whole={
        "softmax_output": schedule_softmax,
        "attention_output": schedule_attention,
        LAYER: schedule_recurrent,
    },
    padded=("conv", "group_conv", "depthwise", "pool"),
)


def default_schedule(
    outs: Tensor | Sequence[Tensor],
    target: Target | str | None = None,
    decisions: Decisions | None = None,
    constants: Constants | None = None,
) -> Schedule:
    """A schedule for the computation of `outs` that needs no tuning. `decisions`: answers to what
    the rules leave open, which otherwise decide themselves; there stands then what they asked.
    `constants`: inputs that are known before any call; there stands then what arguments are read in
    their place.
    Raises TargetError where `target` is no target, as text, dict or Target, where `target` has no
    kind of target, or no attributes by name."""
    outputs = [outs] if isinstance(outs, Tensor) else list(outs)
    chosen = Target(target) if isinstance(target, str) else target
    chosen = chosen if chosen is not None else Target.current(allow_none=True)
    s = create_schedule([t.op for t in outputs])
    if chosen is not None and "gpu" in chosen.keys:
        from .gpu import GPU_RULES  # who compiles for CPUs loads none of it
        from .gpu.machine import GpuMachine

        _schedule(s, outputs, GPU_RULES, GpuMachine.of(chosen, decisions, constants))
    else:
        _schedule(s, outputs, CPU_RULES, Machine.of(chosen, decisions))
    return s


def _schedule(s: Schedule, outputs: Sequence[Tensor], rules: Rules[M], machine: M) -> None:
    heavy = [x for x in s.stages if getattr(x.op, "reduce_axis", ()) or _kind(x.op, rules)]
    out = outputs[0]
    whole = rules.whole.get(out.op.tag)
    rows = len(out.shape) > 1  # of one dimension there are none to compute together
    known = len(outputs) == 1 and whole and rows and (_all_computed(s) or out.op.tag == LAYER)
    if known and whole is not None and whole(s, out, machine) is not False:
        return
    if len(outputs) == 1 and len(heavy) == 1 and _kind(heavy[0].op, rules):
        anchor = heavy[0]
        if _follows(s, anchor, out):
            _inline_others(s, anchor, out, rules.padded)
            end = s[out].op.output(0)
            rules.anchors[_kind(anchor.op, rules)](s, anchor.op.output(0), end, machine)
            return
    _stage_by_stage(s, rules, machine)


def _kind(op: Any, rules: Rules[M]) -> str:
    """What an operation is, by its tag or by what it computes; empty for what no anchor is."""
    if op.tag in rules.anchors:
        return str(op.tag)
    if "matmul" in rules.anchors and is_product(op):
        return "matmul"
    return "contraction" if "contraction" in rules.anchors and contraction_of(op) else ""


def _all_computed(s: Schedule) -> bool:
    return all(isinstance(x.op, (ComputeOp, PlaceholderOp)) for x in s.stages)


def _follows(s: Schedule, anchor: Any, out: Tensor) -> bool:
    """Whether the output is the anchor, or element-wise on it with the same shape."""
    if anchor.op is out.op:
        return True
    result = anchor.op.output(0)
    if len(out.shape) != len(result.shape):
        return False
    same = all(
        getattr(a, "value", a) == getattr(b, "value", b) for a, b in zip(out.shape, result.shape)
    )
    if not same:
        return False
    behind = {id(anchor)}
    for stage in s.stages:
        if any(id(s[t]) in behind for t in stage.op.input_tensors):
            tagged = stage.op.tag.split(",")[0] in ("elemwise", "broadcast")
            if not tagged and not _element_wise(s, stage, behind):
                return False
            behind.add(id(stage))
    return True


def _element_wise(s: Schedule, stage: Any, behind: set[int]) -> bool:
    """Whether an element of a stage reads the same element, and no other, of stages before."""
    if not is_injective(stage.op):
        return False
    axes = [a.var for a in stage.op.axis]
    return all(
        len(e.indices) == len(axes) and all(x is v for x, v in zip(e.indices, axes))
        for e in loads_of(stage.op)
        if id(s[e.producer]) in behind
    )


def _inline_others(s: Schedule, anchor: Any, out: Tensor, padded: tuple[str, ...]) -> None:
    """Inline all element-wise stages but the output and what anchors read padding from."""
    kept = [] if anchor.op.tag else kept_inputs(s, anchor.op)
    if anchor.op.tag.startswith(padded):
        kept = [s[t] for t in anchor.op.input_tensors if t.op.tag.endswith("pad")]
    for stage in s.stages:
        op = stage.op
        if stage in kept:
            continue
        if stage is anchor or stage.is_output or not isinstance(op, ComputeOp) or op.reduce_axis:
            continue
        if op.tag in HALVES:
            continue
        stage.compute_inline()


def _stage_by_stage(s: Schedule, rules: Rules[M], machine: M) -> None:
    """Cheap stages inlined, the others one after another, each with the element-wise stages that
    follow it alone."""
    _share_padding(s)
    readers = s.consumers()
    kinds = {id(x): _kind(x.op, rules) for x in s.stages}
    by_structure = [x for x in s.stages if kinds[id(x)] in ("matmul", "contraction")]
    kept = [x for stage in by_structure for x in kept_inputs(s, stage.op)]
    done: set[int] = set()
    for stage in list(s.stages):  # rules may add stages of their own
        op = stage.op
        if not isinstance(op, ComputeOp) or id(stage) in done or op.tag in HALVES:
            continue
        if kinds[id(stage)] and op.num_outputs == 1 and rules.anchors:
            end = _end_of(s, stage, kinds, readers, done)
            done.update(id(x) for x in end)
            for between in end[:-1]:
                if between is not stage:
                    between.compute_inline()
            out = end[-1].op.output(0)
            rules.anchors[kinds[id(stage)]](s, op.output(0), out, machine)
        elif op.reduce_axis:
            several = rules.ends_several and op.num_outputs > 1
            end = _end_of(s, stage, kinds, readers, done) if several else [stage]
            done.update(id(x) for x in end)
            for between in end[1:-1]:
                between.compute_inline()
            rules.reduction(s, op.output(0), end[-1].op.output(0), machine)
        elif stage not in kept:
            found = [r for t in op.outputs for r in readers.get(t, ())]
            inlined = all(isinstance(r.op, ComputeOp) for r in found) and len(found) == 1
            inlined = inlined and not _grows(s, stage, found[0])
            if not stage.is_output and inlined and op.num_outputs == 1:
                stage.compute_inline()
            else:
                rules.arrange(stage, list(op.axis), machine)


def _share_padding(s: Schedule) -> None:
    """Let who reads padding that is stored anyway, or that several read, read an array as others
    are: rules take what is called padding for that of their anchor alone."""
    for stage in list(s.stages):
        if not isinstance(stage.op, ComputeOp) or not stage.op.tag.endswith("pad"):
            continue
        t = stage.op.output(0)
        found = {id(r): r.op for r in s.consumers().get(t, ())}
        if found and (stage.is_output or len(found) > 1):
            s.cache_read(t, "global", list(found.values()))


_GROWN = 1500  # nodes of an expression in which another is written out several times


def _grows(s: Schedule, stage: Any, reader: Any) -> bool:
    """Whether a stage's expression is long and its reader has it many times."""
    reads = sum(s[e.producer] is stage for e in loads_of(reader.op))
    if reads <= 2:
        return False
    return reads * sum(1 for body in stage.op.body for _ in walk(body)) > _GROWN


def _end_of(s: Schedule, anchor: Any, kinds: Any, readers: Any, done: set[int]) -> list[Any]:
    """An anchor and the element-wise stages behind it, each the only reader of the one before, but
    for those that are `done`: they are behind another anchor, too."""
    found = [anchor]
    while not found[-1].is_output:
        next_ones = {id(r): r for t in found[-1].op.outputs for r in readers.get(t, ())}
        (reader, *more) = next_ones.values() or (None,)
        behind = {id(x) for x in found}
        if more or reader is None or not isinstance(reader.op, ComputeOp) or kinds[id(reader)]:
            break
        if id(reader) in done:
            break
        same = [extent_of(a) for a in reader.op.axis] == [extent_of(a) for a in anchor.op.axis]
        if not same or not _element_wise(s, reader, behind) or reader.op.num_outputs != 1:
            break
        found.append(reader)
    return found
