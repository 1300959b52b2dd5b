"""One launch a kernel: every thread axis once, around the whole kernel."""

from __future__ import annotations

from typing import Any

from ..arith.analyzer import Analyzer
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.equal import structural_equal
from ..loopir.iter import IterVar
from ..loopir.operators import logical_and
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import free_vars, walk

THREAD_TAGS = tuple(f"{kind}.{d}" for kind in ("blockIdx", "threadIdx") for d in "xyz")


def unify_threads(func: S.PrimFunc) -> S.PrimFunc:
    """Bring the thread axes of each kernel together at its start, one variable a tag.

    A kernel is what stands in an outermost "thread_extent". Stages that were scheduled apart, and
    the parts that loop partitioning made, launch the same threads by axes of their own, inside of
    conditions: all of them become one launch, since a kernel has but one.

    Needs the result of `lower`. Guarantees: a kernel's body starts with its "thread_extent"
    statements, in the order in which they first stood, and has no other. What stood outside of
    some of the launches ran once for all their threads: its stores to memory that threads share
    are now made by the first of them. CompileError where an
    axis has two extents, or one that is not known when the kernel is launched. Stands first of
    the device passes: all others see which threads run.
    """
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
    for s in walk(kernel):
        if not (isinstance(s, S.AttrStmt) and is_launch(s)):
            for var in _defined(s):
                inside[var] = var.name
            continue
        axis: IterVar = s.node
        known = first.setdefault(axis.thread_tag, s)
        _check_axis(axis, s.value, known)
        inside[axis.var] = axis.thread_tag
        if axis.var is not known.node.var:
            values[axis.var] = known.node.var
    for tag, s in first.items():
        for var in free_vars(s.value):
            if var in inside:
                raise CompileError(
                    f"the extent {s.value} of {tag} depends on {inside[var]}, which is only known "
                    "inside the kernel; bind an axis whose extent is known when it is launched"
                )
    threads = {
        tag: s.node.var
        for tag, s in first.items()
        if tag.startswith("threadIdx") and not E.is_const(s.value, 1)
    }
    body: S.Stmt = _Strip(values, threads).stmt(kernel)
    for s in reversed(first.values()):
        body = S.AttrStmt(s.node, s.attr_key, s.value, body)
    return body


def _defined(s: Any) -> tuple[E.Var, ...]:
    if type(s) is S.For:
        return (s.loop_var,)
    return (s.var,) if type(s) is S.LetStmt else ()


def _check_axis(axis: IterVar, extent: Any, known: S.AttrStmt) -> None:
    tag = axis.thread_tag
    if tag not in THREAD_TAGS:
        raise CompileError(
            f"a thread axis cannot have the tag {tag!r}; it is one of {', '.join(THREAD_TAGS)}"
        )
    if extent is known.value or structural_equal(extent, known.value):
        return
    if not Analyzer().can_prove(E.EQ(extent, known.value)):
        raise CompileError(
            f"{tag} has {known.value} threads in one place of a kernel and {extent} in another; "
            "split the axes so that both have the same extent, or schedule the stages as kernels "
            "of their own"
        )


class _Strip(Rewriter):
    """Drops launches and gives their variables other names."""

    def __init__(self, values: dict[E.Var, E.Var], threads: dict[str, E.Var]) -> None:
        self.values = values
        self.threads = threads
        self.missing = dict(threads)  # those whose launch is not around the present place

    @handles(E.Var, E.SizeVar)
    def _var(self, e: E.Var) -> Any:
        return self.values.get(e, e)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if not is_launch(s):
            return super()._attr(s)
        kept = self.missing
        self.missing = {tag: v for tag, v in kept.items() if tag != s.node.thread_tag}
        body = self.stmt(s.body)
        self.missing = kept
        return body

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        store = super()._store(s)
        if not self.missing or s.buffer.scope_name.split(".")[0] not in ("global", "shared"):
            return store
        first: Any = None
        for v in self.missing.values():
            own = v.equal(0)
            first = own if first is None else logical_and(first, own)
        return S.IfThenElse(first, store)
