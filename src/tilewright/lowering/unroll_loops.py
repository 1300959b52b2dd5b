"""Unroll loops: those that are marked, and short ones where a pragma or option asks for it."""

from __future__ import annotations

from typing import Any

from ..arith.analyzer import Analyzer
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.copies import fold_pair, fresh_copy
from ..loopir.expr import const_int
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import nodes, uses_var, walk
from .options import LowerOptions

MAX_STEPS = 8192
REGISTER_BYTES = 2048
REGISTER_STEPS = 64


def unroll_loops(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Replace loops by their bodies, one copy a step.

    Loops of kind UNROLLED are unrolled. A serial loop is unrolled by itself if no loop inside it
    stays a loop, at most `unroll_max_depth` nested loops were unrolled in it, and the steps (stores
    and calls) of all its copies are at most `auto_unroll_max_step` or its extent is at most
    `unroll_max_extent`; with `unroll_local_access` also if it indexes memory of scope "local".
    AttrStmt "pragma_auto_unroll_max_step" and "pragma_unroll_explicit" set these options for their
    body and are removed. Without `unroll_explicit` a loop of more than one step is only marked
    UNROLLED, as a hint to the compiler behind this one. Loops that would become more than 8192
    steps are marked, too. A marked loop of symbolic extent runs serially.

    In the pipeline by rules of this compiler's own: loops of more than 8192 steps stay loops, since
    the compilers behind this one do as they are told, for minutes; short loops that index memory of
    the size of registers are unrolled, and so are marked ones where a condition reads their
    variable: this compiler decides conditions of copies, where others leave them to be computed.

    Stands after vectorize_loops (a vector is one step) and
    after hoist_conditions (a condition outside is not copied), before the last simplify_statements,
    which folds the indices.
    """
    return func.with_body(_Unroller(options, True).stmt(func.body))


def unroll_as_asked(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """`unroll_loops` without the rules of this compiler's own: what options and marks ask for."""
    return func.with_body(_Unroller(options, False).stmt(func.body))


class _Unroller(Rewriter):
    def __init__(self, options: LowerOptions, own_rules: bool) -> None:
        self.options, self.own_rules = options, own_rules
        self.max_step = options.unroll_max_step
        self.explicit = options.unroll_explicit
        self.steps = 0
        self.depth = 0
        self.loops = 0
        self.small: set[E.Var] = set()
        self.device = options.simple_mode

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        t = parse(s.buffer.dtype)
        size = const_int(s.buffer.shape[0]) if len(s.buffer.shape) == 1 else None
        if size is not None and size * t.nbytes * t.lanes <= REGISTER_BYTES:
            self.small.add(s.buffer.data)
        body = self.stmt(s.body)
        return s.with_parts(body=body)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key == "thread_extent":
            outer, self.device = self.device, True
            result = super()._attr(s)
            self.device = outer
            return result
        value = const_int(s.value)
        if s.attr_key == "pragma_auto_unroll_max_step" and value is not None:
            kept, self.max_step = self.max_step, value
            body = self.stmt(s.body)
            self.max_step = kept
            return body
        if s.attr_key == "pragma_unroll_explicit" and value is not None:
            was, self.explicit = self.explicit, bool(value)
            body = self.stmt(s.body)
            self.explicit = was
            return body
        return super()._attr(s)

    @handles(S.BufferStore, S.Evaluate)
    def _step(self, s: Any) -> Any:
        self.steps += 1
        return s

    @handles(S.SeqStmt)
    def _seq(self, s: S.SeqStmt) -> Any:
        steps = depth = loops = 0
        new = []
        for part in s.seq:
            self.steps = self.depth = self.loops = 0
            new.append(self.stmt(part))
            steps += self.steps
            depth = max(depth, self.depth)
            loops = max(loops, self.loops)
        self.steps, self.depth, self.loops = steps, depth, loops
        return s if all(a is b for a, b in zip(new, s.seq)) else S.seq(new)

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        body = self.stmt(s.body)
        extent = _steps(s.extent)
        chosen = extent is not None and (
            self._chosen(s.kind, extent)
            or (self.options.unroll_local_access and _indexes_local(s))
            or (self.own_rules and self._indexes_registers(s, extent))
        )
        marked = s.kind == S.ForKind.UNROLLED
        if not chosen:
            self.loops += 1
            if marked:
                return S.For(s.loop_var, s.min, s.extent, S.ForKind.SERIAL, body)
            return s.with_parts(body=body)
        assert extent is not None
        self.depth += 1
        small = self.steps * extent <= MAX_STEPS
        self.steps *= extent
        if not small and self.own_rules:
            self.loops += 1
            return S.For(s.loop_var, s.min, s.extent, S.ForKind.SERIAL, body)
        if small and (self.explicit or extent == 1 or (self.own_rules and _decides(s))):
            return _copies(s, extent, body)
        self.loops += not small
        if marked and body is s.body:
            return s
        return S.For(
            s.loop_var, s.min, s.extent, S.ForKind.UNROLLED, body, annotations=s.annotations
        )

    def _chosen(self, kind: int, extent: int) -> bool:
        if kind == S.ForKind.UNROLLED:
            return True
        if extent == 1 and self.options.unroll_max_extent == 1:
            return True
        if kind != S.ForKind.SERIAL or self.loops or self.depth > self.options.unroll_max_depth:
            return False
        within = extent * self.steps <= self.max_step
        return within or extent <= self.options.unroll_max_extent

    def _indexes_registers(self, s: S.For, extent: int) -> bool:
        if s.kind != S.ForKind.SERIAL or self.loops or self.device or not self.small:
            return False
        if not 0 < extent * self.steps <= REGISTER_STEPS:
            return False
        for x in walk(s.body):
            if type(x) is E.BufferLoad or type(x) is S.BufferStore:
                index = x.indices[-1]
                if x.buffer.data in self.small and any(v is s.loop_var for v in walk(index)):
                    return True
        return False


def _indexes_local(s: S.For) -> bool:
    """Whether a serial loop's variable stands in an index of memory of scope "local"."""
    return s.kind == S.ForKind.SERIAL and any(
        type(x) in (E.BufferLoad, S.BufferStore)
        and x.buffer.scope() == "local"
        and any(uses_var(i, s.loop_var.same_as) for i in x.indices)
        for x in nodes(s.body)
    )


def _decides(s: S.For) -> bool:
    """Whether a condition in a loop reads its variable."""
    for x in nodes(s.body):
        if type(x) in (S.IfThenElse, E.Select):
            condition = x.condition
        elif type(x) is E.Call and x.op.name == "tir.if_then_else":
            condition = x.args[0]
        else:
            continue
        if uses_var(condition, lambda v: v is s.loop_var):
            return True
    return False


def _steps(extent: E.PrimExpr) -> int | None:
    """The number that an extent is; users' programs come here before any simplification."""
    if isinstance(extent, (E.IntImm, E.Var)):
        return const_int(extent)
    return const_int(Analyzer().simplify(extent))


def _copies(s: S.For, extent: int, body: S.Stmt) -> S.Stmt:
    parts = []
    for i in range(max(extent, 0)):
        at = fold_pair(E.Add, s.min, E.IntImm(s.min.dtype, i))
        parts.append(fresh_copy(body, {s.loop_var: at}))
    return S.seq(parts)
