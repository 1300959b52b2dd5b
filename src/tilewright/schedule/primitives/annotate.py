"""vectorize, unroll, parallel, bind, pragma, prefetch, storage_align, tensorize: said of one axis.

for i in range(n):        ->       for i in T.vectorized(n):  (unroll, parallel alike)
"""

from __future__ import annotations

from typing import Any

from ...base.dtype import parse
from ...base.errors import TilewrightError
from ...loopir.expr import IntImm, PrimExpr, StringImm, convert
from ...loopir.iter import IterVar
from ...tensor.op import ComputeOp
from ...tensor.tensor import Tensor
from ..relations import derived_from_both
from ..state import Illegal, StageState
from .arguments import whole_number
from .split import CODE_PRAGMAS

_COUNTS = ("auto_unroll_max_step", "unroll_explicit", "parallel_rows")
_FAR = 1 << 31  # beyond any index of a loop


def set_kind(stage: StageState, axis: IterVar, kind: int) -> None:
    stage.leaf_position(axis)
    stage.attrs[axis] = stage.attr(axis).with_(iter_type=kind)


def vectorize(stage: StageState, var: IterVar) -> None:
    """Run the iterations of a data axis as the lanes of vectors. Raises ScheduleError where `var`
    is no loop of the stage, bound to a thread, or of a reduction."""
    stage.leaf_position(var)
    if var.iter_type not in (IterVar.DataPar, IterVar.Opaque):
        raise Illegal(
            f"Cannot vectorize on {IterVar.KINDS[var.iter_type]}: axis {var.var.name}",
            var,
            "vectorize a data axis; a reduction becomes one with rfactor",
        )
    _check_free(stage, var, "vectorize")
    set_kind(stage, var, IterVar.Vectorized)


def unroll(stage: StageState, var: IterVar) -> None:
    """Repeat the body of the loop instead of looping; a loop of more than 8192 steps (stores, with
    those of the loops unrolled inside it) stays one. Raises ScheduleError where `var` is no loop of
    the stage, or is bound to a thread."""
    stage.leaf_position(var)
    _check_free(stage, var, "unroll")
    set_kind(stage, var, IterVar.Unrolled)


def parallel(stage: StageState, var: IterVar) -> None:
    """Run the iterations of the loop on several threads. Raises ScheduleError where `var` is no
    loop of the stage, bound to a thread, or of a reduction."""
    stage.leaf_position(var)
    if var.iter_type == IterVar.CommReduce:
        raise Illegal(
            f"Cannot parallelize the reduction axis {var.var.name}: its iterations depend on "
            "each other",
            var,
            "parallel on a data axis, or rfactor the reduction first",
        )
    _check_free(stage, var, "parallel")
    set_kind(stage, var, IterVar.Parallelized)


def _check_free(stage: StageState, axis: IterVar, verb: str) -> None:
    thread = stage.attr(axis).bind_thread
    if thread is not None:
        name = axis.var.name
        raise Illegal(f"Cannot {verb} axis {name}: it is bound to {thread.thread_tag}", axis)


def bind(stage: StageState, ivar: IterVar, thread_ivar: IterVar) -> None:
    """Run the iterations of the loop on the threads of `thread_ivar`, made by te.thread_axis.
    Raises ScheduleError where `ivar` is no loop of the stage, is bound already or fused of data and
    reduction axes, or where `thread_ivar` is no axis of threads or is bound to another loop of the
    stage."""
    stage.leaf_position(ivar)
    if not isinstance(thread_ivar, IterVar) or thread_ivar.iter_type != IterVar.ThreadIndex:
        raise Illegal(
            f"Cannot rebase by {thread_ivar}, only thread axis is allowed so far",
            ivar,
            'a thread axis, e.g. te.thread_axis("threadIdx.x")',
        )
    if ivar in derived_from_both(stage.relations, stage.op):
        raise Illegal(
            f"axis {ivar.var.name} is fused of data and reduction axes: its iterations depend on "
            "each other",
            ivar,
            "bind an axis that comes from data or from reduction axes alone",
        )
    bound = stage.attr(ivar).bind_thread
    if bound is not None:
        raise Illegal(
            f"axis {ivar.var.name} is bound twice: to {bound.thread_tag} and now to "
            f"{thread_ivar.thread_tag}",
            ivar,
            "split the axis and bind each part once",
        )
    for other in stage.leaf_iter_vars:
        thread = stage.attr(other).bind_thread
        if thread is not None and thread.thread_tag == thread_ivar.thread_tag != "vthread":
            raise Illegal(
                f"{thread_ivar.thread_tag} is bound twice in one stage: to {other.var.name} and "
                f"now to {ivar.var.name}",
                ivar,
                "fuse the two axes before binding, or use another thread axis",
            )
    stage.attrs[ivar] = stage.attr(ivar).with_(bind_thread=thread_ivar)


def pragma(stage: StageState, var: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
    """Attach `pragma_<type>` to a loop; "unroll", "vectorize" and "parallel" are those
    primitives. Raises ScheduleError where `var` is no loop of the stage, `pragma_type` is not text,
    or a pragma that is known takes another value.
    """
    stage.leaf_position(var)
    if not isinstance(pragma_type, str) or not pragma_type:
        raise Illegal(f"a pragma has a name, got {pragma_type!r}", var)
    if pragma_type in ("unroll", "vectorize", "parallel"):
        {"unroll": unroll, "vectorize": vectorize, "parallel": parallel}[pragma_type](stage, var)
        return
    value = _expression(1 if pragma_value is None else pragma_value, "the value of a pragma", var)
    if pragma_type in _COUNTS and not (isinstance(value, IntImm) and value.value >= 0):
        raise Illegal(f"pragma {pragma_type} takes a whole number, got {pragma_value!r}", var)
    if pragma_type in CODE_PRAGMAS and not isinstance(value, StringImm):
        raise Illegal(f"pragma {pragma_type} takes text, got {pragma_value!r}", var)
    old = stage.attr(var)
    stage.attrs[var] = old.with_(pragmas=(*old.pragmas, (pragma_type, value)))


def prefetch(stage: StageState, tensor: Any, var: IterVar, offset: Any) -> None:
    """In each iteration of `var`, fetch what the iteration `offset` later reads of `tensor`: in the
    stage or in those computed inside the loop. Raises ScheduleError where `tensor` is no tensor,
    `var` no loop of the stage, or `offset` no integer of 32 bits."""
    stage.leaf_position(var)
    if not isinstance(tensor, Tensor):
        raise Illegal(f"expected a tensor, got {tensor!r}", var)
    ahead = _expression(offset, "the offset of a prefetch", var)
    if not parse(ahead.dtype).is_integer:
        raise Illegal(f"the offset of a prefetch must be an integer, got {offset!r}", var)
    if isinstance(ahead, IntImm) and not -_FAR <= ahead.value < _FAR:
        raise Illegal(f"the offset of a prefetch must fit 32 bits, got {ahead.value}", var)
    old = stage.attr(var)
    stage.attrs[var] = old.with_(prefetch=(*old.prefetch, (tensor, ahead)))


def _expression(value: Any, what: str, axis: IterVar) -> PrimExpr:
    try:
        return convert(value)
    except TilewrightError as problem:
        raise Illegal(f"{what}: {problem}", axis) from None


def storage_align(stage: StageState, axis: IterVar, factor: int, offset: int) -> None:
    """Let the stride of a dimension in memory be k * factor + offset elements for some k. Raises
    ScheduleError where `axis` is none of the stage's own, `factor` no integer from 1 to 2^31 - 1,
    or `offset` none of 32 bits."""
    if not any(axis is a for a in getattr(stage.op, "axis", ())):
        raise Illegal(
            f"storage_align speaks of a dimension of the stage's own tensor, not of {axis!r}",
            axis,
            f"an axis of s[{stage.name}].op.axis",
        )
    factor, offset = whole_number(factor, "factor", axis), whole_number(offset, "offset", axis)
    if not 0 < factor < _FAR:
        raise Illegal(f"factor must be positive and fit 32 bits, got {factor}", axis)
    if not -_FAR <= offset < _FAR:
        raise Illegal(f"offset must fit 32 bits, got {offset}", axis)
    stage.attrs[axis] = stage.attr(axis).with_(align=(factor, offset))


def tensorize(stage: StageState, var: IterVar, tensor_intrin: Any) -> None:
    """Replace the loops from `var` inwards by a tensor intrinsic that computes the same. Raises
    ScheduleError where `var` is no loop of the stage, the stage no te.compute, or `tensor_intrin`
    none of te.decl_tensor_intrin."""
    stage.leaf_position(var)
    if not isinstance(stage.op, ComputeOp):
        raise Illegal("Can only tensorize a compute operation", var)
    if not hasattr(tensor_intrin, "reduce_update"):
        raise Illegal(
            f"expected a tensor intrinsic, got {type(tensor_intrin).__name__}",
            var,
            "what te.decl_tensor_intrin returns",
        )
    old = stage.attr(var)
    stage.attrs[var] = old.with_(iter_type=IterVar.Tensorized, tensor_intrin=tensor_intrin)
