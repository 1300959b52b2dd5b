"""Statements in C, CUDA and OpenCL: loops, branches, declarations, attributes."""

from __future__ import annotations

from typing import Any

from ..base.dtype import parse
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.data import is_data
from ..loopir.expr import const_int
from .c_family import Printer, StmtRule, bare
from .pragmas import meant

# what has done its work before code generation, or says something about other targets
_SPENT = """
    pragma_auto_unroll_max_step pragma_unroll_explicit pragma_loop_partition_hint
    pragma_parallel_launch_point pragma_parallel_barrier_when_finish pragma_scope storage_alignment
    pragma_parallel_stride_pattern pragma_debug_skip_region buffer_dim_align double_buffer_scope
    double_buffer_write volatile_scope pragma_layout_transform pragma_tensor_core hand_threaded
    warp_execution realize_scope compute_scope extern_scope target device_id device_type
    storage_scope fragment_shape fragment_layout async_scope async_commit_queue_scope
    async_wait_queue_scope async_wait_inflight_count pragma_import_llvm thread_warp_size
    pragma_launch_bounds_min_blocks pragma_cluster_dims warp_specialized
    pragma_parallel_there_and_back pragma_parallel_rows
"""
SPENT = frozenset(_SPENT.split())


def _for(p: Any, s: S.For) -> S.Stmt | None:
    extent, low = const_int(s.extent), const_int(s.min)
    if extent is not None and extent <= 0:
        return None
    if extent == 1:
        p.statement(s.min)
        p.env[s.loop_var] = p.atom(s.min)
        p.divisors[s.loop_var] = p.divisor(s.min)
        return s.body
    p.statement(s.min, s.extent)
    start = p.expr(s.min)
    if low is not None and extent is not None:
        end = str(low + extent)
        if parse(s.loop_var.dtype).bits == 64:
            end += p.long_suffix
    else:
        # bounds are evaluated once: what reads memory gets a name
        end = p.expr(s.extent if low == 0 else E.convert(s.min + s.extent))
        if is_data(s.extent, p.lets) or is_data(s.min, p.lets):
            end = p.temp(s.loop_var.dtype, end, "end")
    outer = p.written_out
    if s.kind == S.ForKind.UNROLLED and p.unroll_pragma:
        p.line(p.unroll_pragma)
    elif S.UNROLL_BY in s.annotations and p.unroll_pragma:
        p.line(f"{p.unroll_pragma} {const_int(s.annotations[S.UNROLL_BY])}")
        p.written_out = True
    else:
        p.written_out = False
    name = p.names.define(s.loop_var, s.loop_var.name)
    p.env[s.loop_var] = name
    kind = p.type(s.loop_var.dtype)
    with p.block(f"for ({kind} {name} = {bare(start)}; {name} < {end}; ++{name}) {{"):
        p.stmt(s.body)
    p.written_out = outer
    return None


def _while(p: Any, s: S.While) -> None:
    p.statement(s.condition)
    lines, test = p.captured(s.condition)
    if not lines:
        with p.block(f"while ({bare(test)}) {{"):
            p.stmt(s.body)
        return
    with p.block("while (1) {"):
        p.paste(lines)
        p.line(f"if (!{test}) break;")
        p.stmt(s.body)


def _if(p: Any, s: S.IfThenElse) -> S.Stmt | None:
    if isinstance(s.condition, E.IntImm):
        return s.then_case if s.condition.value else s.else_case
    p.statement(s.condition)
    with p.block(f"if ({bare(p.expr(s.condition))}) {{"):
        p.stmt(s.then_case)
    if s.else_case is not None:
        p.lines[-1] = p.lines[-1][:-1] + "} else {"
        with p.scope():
            p.depth += 1
            p.stmt(s.else_case)
            p.depth -= 1
        p.line("}")
    return None


def _let(p: Any, s: S.LetStmt) -> S.Stmt:
    p.statement(s.value)
    if parse(s.var.dtype).is_handle:
        p.bind_handle(s.var, s.value)
    else:
        p.env[s.var] = p.temp(s.var.dtype, p.expr(s.value), s.var.name)
        p.divisors[s.var] = p.divisor(s.value)
    return s.body


def _assert(p: Any, s: S.AssertStmt) -> S.Stmt:
    if isinstance(s.condition, E.IntImm) and s.condition.value:
        return s.body
    message = s.message.value if isinstance(s.message, E.StringImm) else str(s.message)
    p.statement(s.condition)
    p.check(p.expr(s.condition), message)
    return s.body


def _sequence(p: Printer, s: S.SeqStmt) -> S.Stmt | None:
    if not s.seq:
        return None
    for part in s.seq[:-1]:
        with p.scope():
            p.stmt(part)
    return s.seq[-1]


def _evaluate(p: Any, s: S.Evaluate) -> None:
    if isinstance(s.value, (E.IntImm, E.Var, E.StringImm)):
        return
    p.statement(s.value)
    text = bare(p.expr(s.value))
    if text not in ("", "0"):
        p.line(f"{text};" if isinstance(s.value, E.Call) else f"(void)({text});")


def _allocate(p: Any, s: S.Allocate) -> S.Stmt:
    size = 1
    for d in s.buffer.shape:
        extent = const_int(d)
        if extent is None:
            raise CompileError(
                f"buffer {s.buffer.name} in {s.buffer.scope()} memory of kernel {p.func.name} "
                f"needs a constant size, got {d}; compute it inside of a loop of constant extent "
                "(compute_at behind a split by a factor), so that each step needs a part of known "
                "size, or keep it in global memory"
            )
        size *= extent
    p.declare_array(s.buffer, max(size, 1))
    return s.body


def _attr(p: Any, s: S.AttrStmt) -> S.Stmt:
    key = s.attr_key
    if key in ("thread_extent", "virtual_thread"):
        p.bind_thread(s.node, s.value)
    elif key == "pragma_import_c":
        p.import_c(s.value)
    elif key == "pragma_import_llvm":
        raise CompileError(
            f"pragma import_llvm is for the target 'llvm'; bring {p.language} code along with "
            "import_c"
        )
    elif key == "pragma_unroll_factor":
        p.line(f"#pragma unroll {const_int(s.value)}")
    elif key not in SPENT:
        raise CompileError(
            f"the {p.language} code generator does not know the attribute {key!r}{meant(key)}"
        )
    return s.body


STMTS: dict[type, StmtRule] = {
    S.For: _for,
    S.While: _while,
    S.IfThenElse: _if,
    S.LetStmt: _let,
    S.AssertStmt: _assert,
    S.SeqStmt: _sequence,
    S.Evaluate: _evaluate,
    S.Allocate: _allocate,
    S.AttrStmt: _attr,
    S.Prefetch: lambda p, s: None,
}
