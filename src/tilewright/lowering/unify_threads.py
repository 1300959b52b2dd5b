"""One launch a kernel: every thread axis once, around the whole kernel."""

from __future__ import annotations

from typing import Any

from ..arith.analyzer import Analyzer
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.equal import structural_equal
from ..loopir.expr import const_int
from ..loopir.operators import logical_and
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import free_vars, uses_var, walk
from .thread_loops import launch_thread_loops

THREAD_TAGS = tuple(f"{kind}.{d}" for kind in ("blockIdx", "threadIdx") for d in "xyz")


def unify_threads(func: S.PrimFunc) -> S.PrimFunc:
    """Bring the thread axes of each kernel together at its start, one variable a tag.

    A kernel is what stands in an outermost "thread_extent". Stages that were scheduled apart, and
    the parts that loop partitioning made, launch the same threads by axes of their own, inside of
    conditions: all of them become one launch, since a kernel has but one.

    Needs the result of `lower`, or a function whose loops are bound to threads. Guarantees: a
    kernel's body starts with its "thread_extent"
    statements, in the order in which they first stood, and has no other. What stood outside of
    some of the launches ran once for all their threads: its stores to memory that threads share
    are now made by the first of them; what has a launch of fewer threads than others is done by as
    many. CompileError where threads would have to meet in such a part, where it is not known which
    extent is larger, or an extent is not known when the kernel is launched. Stands first of
    the device passes: all others see which threads run.
    """
    func = launch_thread_loops(func)
    return func.with_body(_Kernels().stmt(func.body))


def is_launch(s: Any) -> bool:
    """Whether a statement starts (a part of) a kernel."""
    return type(s) is S.AttrStmt and s.attr_key == "thread_extent"


class _Kernels(Rewriter):
    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        return _launch_once(s) if is_launch(s) else super()._attr(s)


def _launch_once(kernel: S.AttrStmt) -> S.Stmt:
    first: dict[str, S.AttrStmt] = {}
    values: dict[E.Var, E.Var] = {}
    inside: dict[E.Var, str] = {}
    launches: list[S.AttrStmt] = []
    for s in walk(kernel):
        if not (isinstance(s, S.AttrStmt) and is_launch(s)):
            for var in _defined(s):
                inside[var] = var.name
            continue
        launches.append(s)
        known = first.setdefault(s.node.thread_tag, s)
        inside[s.node.var] = s.node.thread_tag
        if s.node.var is not known.node.var:
            values[s.node.var] = known.node.var
    extents = _extents(launches)
    for tag, extent in extents.items():
        for var in free_vars(extent):
            if var in inside:
                raise CompileError(
                    f"the extent {extent} of {tag} depends on {inside[var]}, which is only known "
                    "inside the kernel; bind an axis whose extent is known when it is launched"
                )
    body: S.Stmt = _Strip(values, {t: s.node.var for t, s in first.items()}, extents).stmt(kernel)
    for tag, s in reversed(first.items()):
        body = S.AttrStmt(s.node, s.attr_key, extents[tag], body)
    return body


def _extents(launches: list[S.AttrStmt]) -> dict[str, Any]:
    """How many threads of each axis a kernel has: the most that any part of it launches."""
    found: dict[str, Any] = {}
    prove = Analyzer().can_prove
    for s in launches:
        tag, extent = s.node.thread_tag, s.value
        if tag not in THREAD_TAGS:
            raise CompileError(
                f"a thread axis cannot have the tag {tag!r}; it is one of {', '.join(THREAD_TAGS)}"
            )
        known = found.setdefault(tag, extent)
        if _same(extent, known) or prove(extent <= known):
            continue
        if not prove(extent >= known):
            raise _unequal(tag, known, extent)
        found[tag] = extent
    for s in launches:
        most = found[s.node.thread_tag]
        if not (_same(s.value, most) or _is_single(s)) and _meets(s):
            raise _unequal(s.node.thread_tag, s.value, most)
    return found


def _same(a: Any, b: Any) -> bool:
    return a is b or bool(structural_equal(a, b))


def _meets(launch: S.AttrStmt) -> bool:
    """Whether the user's program has the threads of a launch wait or exchange values."""
    return any(type(x) is E.Call and x.op.name in _MEETING for x in walk(launch))


_MEETING = frozenset(
    (
        "tir.tvm_storage_sync",
        "tir.tvm_warp_shuffle",
        "tir.tvm_warp_shuffle_up",
        "tir.tvm_warp_shuffle_down",
        "tir.tvm_warp_activemask",
    )
)


def _is_single(launch: S.AttrStmt) -> bool:
    """Whether a launch is of one thread, which nothing in it asks for."""
    return E.is_const(launch.value, 1) and not uses_var(launch.body, launch.node.var.same_as)


def _unequal(tag: str, a: Any, b: Any) -> CompileError:
    return CompileError(
        f"{tag} has {a} threads in one place of a kernel and {b} in another; split the axes so "
        "that both have the same extent, or schedule the stages as kernels of their own"
    )


def _defined(s: Any) -> tuple[E.Var, ...]:
    if type(s) is S.For:
        return (s.loop_var,)
    return (s.var,) if type(s) is S.LetStmt else ()


class _Strip(Rewriter):
    """Drops launches and gives their variables other names."""

    def __init__(
        self, values: dict[E.Var, E.Var], axes: dict[str, E.Var], extents: dict[str, Any]
    ) -> None:
        self.values = values
        self.axes = axes
        self.extents = extents
        # of threads that have no launch around the present place: that they are the first
        self.missing = {
            tag: v.equal(0)
            for tag, v in axes.items()
            if tag.startswith("threadIdx") and not E.is_const(extents[tag], 1)
        }
        # of launches of fewer threads than the kernel has: that a thread is among these
        self.fewer: dict[str, Any] = {}

    @handles(E.Var, E.SizeVar)
    def _var(self, e: E.Var) -> Any:
        return self.values.get(e, e)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if not is_launch(s):
            return super()._attr(s)
        tag = s.node.thread_tag
        missing, fewer = self.missing, self.fewer
        if _same(s.value, self.extents[tag]):
            self.missing = {t: c for t, c in missing.items() if t != tag}
        elif not (_is_single(s) and tag in missing):
            self.missing = {t: c for t, c in missing.items() if t != tag}
            self.fewer = {**fewer, tag: self.axes[tag] < s.value}
        body = self.stmt(s.body)
        self.missing, self.fewer = missing, fewer
        return body

    def _by_few(self, s: S.Stmt) -> S.Stmt:
        for condition in self.fewer.values():
            s = S.IfThenElse(condition, s)
        return s

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        store = super()._store(s)
        if self.missing and s.buffer.scope_name.split(".")[0] in ("global", "shared"):
            first: Any = None
            for own in self.missing.values():
                first = own if first is None else logical_and(first, own)
            store = S.IfThenElse(first, store)
        return self._by_few(store)

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        new = super()._evaluate(s)
        call = new.value
        if self.fewer and type(call) is E.Call and call.op.name == "tir.tvm_thread_allreduce":
            return S.Evaluate(self._reduced_by_few(call))
        return self._by_few(new)

    def _reduced_by_few(self, call: E.Call) -> E.Call:
        """A reduction to which all threads come, but only some bring a value."""
        place = 1 + (const_int(call.args[0]) or 0)
        condition: Any = call.args[place]
        for few in self.fewer.values():
            condition = logical_and(few, condition)
        args = (*call.args[:place], condition, *call.args[place + 1 :])
        return E.Call(call.dtype, call.op, args)

    @handles(S.LetStmt)
    def _let_stmt(self, s: S.LetStmt) -> Any:
        kept, self.fewer = self.fewer, {}
        let = super()._let_stmt(s)
        self.fewer = kept
        return self._by_few(let)

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        if not self.fewer or not any(type(x) is E.BufferLoad for x in walk(s.condition)):
            return super()._if(s)
        kept, self.fewer = self.fewer, {}
        branch = super()._if(s)
        self.fewer = kept
        return self._by_few(branch)
