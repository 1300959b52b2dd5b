"""Statements as LLVM code: loops, branches, memory, checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.aligned import ALIGNMENT
from ...base.dtype import parse
from ...base.errors import CompileError
from ...loopir import expr as E
from ...loopir import stmt as S
from ...loopir.calls import prefetch
from ..pragmas import meant
from . import workspace
from .emitter import Emitter
from .index import add64, index, index_like
from .memory import store
from .parallel import parallel_loop

_LIKELY, _UNLIKELY = "likely", "unlikely"
_LINE_BYTES = 64

# what has done its work before code generation, or says something about other targets
_SPENT = """
    pragma_auto_unroll_max_step pragma_unroll_explicit pragma_loop_partition_hint
    pragma_parallel_launch_point pragma_parallel_barrier_when_finish pragma_scope storage_alignment
    storage_scope buffer_dim_align double_buffer_scope double_buffer_write volatile_scope
    pragma_layout_transform pragma_tensor_core hand_threaded warp_execution realize_scope
    compute_scope extern_scope target device_id device_type device_scope
"""
_IGNORED = frozenset(_SPENT.split())
_GPU = frozenset(("thread_extent", "virtual_thread", "cooperative_thread"))


def _for(f: Emitter, s: S.For) -> None:
    cyclic, rows, f.strided, f.rows = f.strided, f.rows, False, None
    if s.kind == S.ForKind.THREAD_BINDING:
        raise _bound_to_thread(s.loop_var.name)
    if workspace.runs_parallel(s) and not f.in_parallel:
        parallel_loop(f, s, bool(cyclic), rows)
        return
    low = index(f, s.min)
    if isinstance(s.extent, E.IntImm) and s.extent.value <= 1:
        if s.extent.value == 1:
            with f.scope(straight=True):
                _bind_loop(f, s.loop_var, low)
                f.stmt(s.body)
        return
    range_loop(f, s, low, add64(f, low, index(f, s.extent)), "1")


def _bind_loop(f: Emitter, var: E.Var, operand: str) -> None:
    f.env.pop(var, None)
    f.wide[var] = operand


def range_loop(f: Emitter, s: S.For, low: str, high: str, step: str, turned: str = "") -> None:
    """Run the body of a loop for low, low + step, ... below high (i64 operands). `turned`: an
    operand that is -1 where a loop of step 1 is to run from its end, 0 otherwise."""
    head, after = f.label("loop"), f.label("done")
    before = f.current
    if low[0] != "%" and high[0] != "%":
        if int(low) >= int(high):
            return
        f.branch(head)
    else:
        f.branch_if(f.op(f"icmp slt i64 {low}, {high}"), head, after)
    f.block(head)
    counter = f.fresh("%i")
    place = len(f.lines)
    f.lines.append("")
    around, f.around = f.around, s.loop_var
    with f.scope():
        _bind_loop(f, s.loop_var, _from_end(f, counter, low, high, turned))
        f.stmt(s.body)
    f.around = around
    wrap = "nuw nsw" if low[0] not in "%-" else "nsw"
    following = f.effect(f"add {wrap} i64 {counter}, {step}")
    f.lines[place] = f"  {counter} = phi i64 [ {low}, %{before} ], [ {following}, %{f.current} ]"
    again = f.effect(f"icmp slt i64 {following}, {high}")
    f.branch_if(again, head, after, f.module.loop_note(s))
    f.block(after)
    f.wide.pop(s.loop_var, None)


def _from_end(f: Emitter, counter: str, low: str, high: str, turned: str) -> str:
    """A counter, or low + high - 1 - counter where `turned` is -1."""
    if not turned:
        return counter
    both = f.op(f"add i64 {low}, {high}")
    base = f.op(f"and i64 {both}, {turned}")
    return f.op(f"add nsw i64 {base}, {f.op(f'xor i64 {counter}, {turned}')}")


def _while(f: Emitter, s: S.While) -> None:
    head, body, after = f.label("while"), f.label("do"), f.label("done")
    f.branch(head)
    f.block(head)
    f.loads = {}
    with f.scope():
        f.branch_if(f.expr(s.condition), body, after)
        f.block(body)
        f.stmt(s.body)
        f.branch(head)
    f.block(after)


def _if(f: Emitter, s: S.IfThenElse) -> None:
    if isinstance(s.condition, E.IntImm):
        chosen = s.then_case if s.condition.value else s.else_case
        if chosen is not None:
            f.stmt(chosen)
        return
    test = f.expr(s.condition)
    then, after = f.label("then"), f.label("join")
    other = after if s.else_case is None else f.label("else")
    note = f.module.weights(_LIKELY) if _is_likely(s.condition) else ""
    f.branch_if(test, then, other, note)
    f.block(then)
    with f.scope(straight=True):
        f.stmt(s.then_case)
    f.branch(after)
    if s.else_case is not None:
        f.block(other)
        with f.scope():
            f.stmt(s.else_case)
        f.branch(after)
    f.block(after)


def _is_likely(e: E.PrimExpr) -> bool:
    while isinstance(e, E.And):
        e = e.a
    return isinstance(e, E.Call) and e.op.name == "tir.likely"


def _let(f: Emitter, s: S.LetStmt) -> None:
    with f.scope(straight=True):
        t = parse(s.var.dtype)
        if t.lanes == 1 and t.is_int and t.bits >= 32 and index_like(f, s.value):
            _bind_loop(f, s.var, index(f, s.value))
        else:
            f.bind(s.var, f.expr(s.value))
            if t.is_handle and s.var not in f.align:
                f.align[s.var] = 1
        f.stmt(s.body)


def _assert(f: Emitter, s: S.AssertStmt) -> None:
    message = s.message.value if isinstance(s.message, E.StringImm) else str(s.message)
    if not (isinstance(s.condition, E.IntImm) and s.condition.value):
        test = f.expr(s.condition)
        failed, fine = f.label("failed"), f.label("checked")
        f.branch_if(test, fine, failed, f.module.weights(_LIKELY))
        f.block(failed)
        f.leave(str(f.module.message(message) + 1))
        f.block(fine)
    f.stmt(s.body)


def _sequence(f: Emitter, s: S.SeqStmt) -> None:
    for part in s.seq:
        f.stmt(part)


def _evaluate(f: Emitter, s: S.Evaluate) -> None:
    f.expr(s.value)


def _allocate(f: Emitter, s: S.Allocate) -> None:
    data, plan = s.buffer.data, f.workspace
    if data in f.env and data not in plan.stack:
        f.stmt(s.body)
        return
    f.align[data] = ALIGNMENT
    f.module.pointer_notes[data] = f" noalias align {ALIGNMENT}"
    if data in plan.stack:
        size = max(workspace.constant_bytes(s) or 0, 1)
        t = parse(s.buffer.dtype)
        count = max(size // t.nbytes, 1)
        with f.scope(straight=True):
            element = f.memory(t.element)
            f.env[data] = f.alloca(f"[{count} x {element}], align {ALIGNMENT}")
            f.stmt(s.body)
        del f.env[data]
        return
    block = workspace.take(f, workspace.emit_bytes(f, s))
    f.live_heap.append(block)
    with f.scope(straight=True):
        f.env[data] = block
        f.stmt(s.body)
    f.live_heap.pop()
    f.free(block)
    del f.env[data]


def _attr(f: Emitter, s: S.AttrStmt) -> None:
    key = s.attr_key
    if key == "pragma_debug_skip_region":
        return
    if key in _GPU:
        raise _bound_to_thread(getattr(getattr(s.node, "var", s.node), "name", str(s.node)))
    turning = f.turning
    if key == "pragma_parallel_stride_pattern":
        f.strided = True
    elif key == "pragma_parallel_rows":
        f.rows = s.value
    elif key == "pragma_parallel_there_and_back":
        f.turning = True
    elif key in ("pragma_import_llvm", "pragma_import_c"):
        f.module.import_code(key, s.value)
    elif key not in _IGNORED:
        raise CompileError(
            f"the CPU code generator does not know the attribute {key!r}{meant(key)}"
        )
    f.stmt(s.body)
    f.strided, f.rows, f.turning = False, None, turning


def _bound_to_thread(name: str) -> CompileError:
    return CompileError(
        f"loop {name} is bound to a GPU thread, but the target is a CPU; "
        "use s[...].parallel(axis) there, or build for a GPU target"
    )


def _prefetch(f: Emitter, s: S.Prefetch) -> None:
    """Touch each cache line of the box once."""
    if not s.bounds:
        return
    t = parse(s.buffer.dtype)
    per_line = max(_LINE_BYTES // (t.nbytes * t.lanes), 1)
    variables = [E.Var(f"p{i}", "int32") for i in range(len(s.bounds))]
    steps = [1] * (len(s.bounds) - 1) + [per_line]
    at = [r.min + v * step for r, v, step in zip(s.bounds, variables, steps)]
    place = E.BufferLoad(
        s.buffer.with_(shape=[1], strides=None, elem_offset=0), [s.buffer.element_offset(at)]
    )
    body: S.Stmt = S.Evaluate(prefetch(place))
    for r, v, step in reversed(list(zip(s.bounds, variables, steps))):
        count = E.const(1) * r.extent if step == 1 else (r.extent + (step - 1)) // step
        body = S.For(v, 0, count, S.ForKind.SERIAL, body)
    f.stmt(body)


STMTS: dict[type, Callable[[Emitter, Any], None]] = {
    S.For: _for,
    S.While: _while,
    S.IfThenElse: _if,
    S.LetStmt: _let,
    S.AssertStmt: _assert,
    S.SeqStmt: _sequence,
    S.Evaluate: _evaluate,
    S.Allocate: _allocate,
    S.AttrStmt: _attr,
    S.BufferStore: store,
    S.Prefetch: _prefetch,
}
