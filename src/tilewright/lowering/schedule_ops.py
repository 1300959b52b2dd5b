"""The two steps of lowering a schedule that TVM's users call one by one: `te.schedule.ScheduleOps`
gives the loops, `te.schedule.SchedulePostProcToPrimFunc` the function of chosen arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ..base.errors import CompileError
from ..loopir.buffer import Buffer
from ..loopir.expr import Var
from ..loopir.iter import IterVar
from ..loopir.rewrite import Rewriter, handles
from ..loopir.stmt import Allocate, AttrStmt, PrimFunc, Stmt
from ..loopir.visit import walk
from ..schedule.bounds import infer_bounds
from ..schedule.placement import attach_path
from ..tensor.op import Operation, PlaceholderOp
from ..tensor.tensor import Tensor
from .loop_nest import NestBuilder
from .on_tensors import on_buffers, on_tensors
from .stage_memory import Place, plan_memory

_TENSOR_OF: WeakKeyDictionary[Var, Tensor] = WeakKeyDictionary()


def schedule_ops(schedule: Any, bounds: Any = None, debug_keep_trivial_loop: bool = False) -> Stmt:
    """The loops of a schedule, on tensors: ProducerStore, ProducerLoad and ProducerRealize; what is
    more than an array of a tensor's elements (on_tensors.py) is a buffer.

    `bounds`, as InferBound gives them, is accepted for TVM's sake. `debug_keep_trivial_loop`: loops
    of one iteration are loops too.
    """
    del bounds
    normal = schedule.normalize()
    inferred = infer_bounds(normal)
    args = [
        tensor
        for stage in normal.stages
        if stage.op is not None and (isinstance(stage.op, PlaceholderOp) or stage.is_output)
        for tensor in stage.origin_op.outputs
        if not _is_state(normal, tensor)
    ]
    memory, _, _ = plan_memory(normal, inferred, args, {})
    body = NestBuilder(normal, inferred, memory, debug_keep_trivial_loop).root()
    homes: dict[Var, tuple[Tensor, Place]] = {}
    for stage in normal.stages:
        for made, known in zip(stage.op.outputs, stage.origin_op.outputs):
            place = memory.places.get(memory.owner(made))
            if place is not None:
                _TENSOR_OF[place.buffer.data] = known
                homes[place.buffer.data] = known, place
    outputs = [t for t in args if not isinstance(t.op, PlaceholderOp)]
    return on_tensors(body, homes, outputs)


def _is_state(schedule: Any, tensor: Tensor) -> bool:
    return any(
        tensor is state
        for stage in schedule.stages
        for state in getattr(stage.op, "state_placeholder", ())
    )


def schedule_to_prim_func(
    arg_list: Sequence[Any], body: Stmt, extern_buffer: Mapping[Tensor, Buffer] | None = None
) -> PrimFunc:
    """The function that runs `body` (of `schedule_ops`, maybe rewritten) on tensors, buffers and
    variables. `extern_buffer`: buffers to use for tensors; others are compact. Raises CompileError
    where an argument is no Tensor, Buffer or Var."""
    chosen = dict(extern_buffer or {})
    tensors = [t for t in arg_list if isinstance(t, Tensor) and t not in chosen]
    found = {t: Buffer(t.shape, t.dtype, t.name) for t in tensors}
    body = on_buffers(body, {**found, **chosen})
    found |= {t: b for b in _buffers(body) if (t := _TENSOR_OF.get(b.data)) is not None}
    params: list[Var | Buffer] = []
    for arg in arg_list:
        if isinstance(arg, (Var, Buffer)):
            params.append(arg)
        elif isinstance(arg, Tensor):
            known = found.get(arg)
            if arg not in chosen and known is not None and known.strides:
                chosen[arg] = known.with_(strides=None, buffer_type="")
            buffer = chosen.get(arg, known)
            params.append(buffer if buffer is not None else Buffer(arg.shape, arg.dtype, arg.name))
        else:
            raise CompileError(f"an argument is a Tensor, Buffer or Var, got {arg!r}")
    outside = {p.data for p in params if isinstance(p, Buffer)}
    change = {found[t].data: b for t, b in chosen.items() if t in found}
    body = _Arguments(change, outside).stmt(body)
    attrs = {"from_legacy_te_schedule": True, "global_symbol": "main", "tir.noalias": True}
    return PrimFunc(params, body, attrs=attrs)


def _buffers(body: Stmt) -> list[Buffer]:
    return [n.buffer for n in walk(body) if isinstance(getattr(n, "buffer", None), Buffer)]


class _Arguments(Rewriter):
    """Puts buffers in the place of others; arguments are not allocated."""

    def __init__(self, change: Mapping[Var, Buffer], outside: set[Var]) -> None:
        self.change, self.outside = change, outside

    def buffer(self, b: Buffer) -> Buffer:
        return self.change.get(b.data, b)

    @handles(Allocate)
    def _allocate(self, s: Allocate) -> Any:
        body = self.stmt(s.body)
        if s.buffer.data in self.outside or s.buffer.data in self.change:
            return body
        return s.with_parts(body=body)


def verify_compact_buffer(stmt: Stmt) -> bool:
    """Whether an AttrStmt "buffer_bind_scope" of a statement binds a buffer without strides."""
    for x in walk(stmt):
        if type(x) is AttrStmt and x.attr_key == "buffer_bind_scope":
            pair = x.node if isinstance(x.node, (list, tuple)) else (x.node,)
            if any(isinstance(b, Buffer) and not b.strides for b in pair):
                return True
    return False


def create_attach_path(schedule: Any) -> dict[Operation, list[IterVar]]:
    """For each operation the loops of others that it is computed in, innermost first."""
    normal = schedule.normalize()
    return {stage.op: [axis for _, axis in attach_path(stage)] for stage in normal.stages}
