"""Compute indices in as few bits as they fit in."""

from __future__ import annotations

from typing import Any

from ..base.dtype import parse
from ..base.errors import UsageError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.expr import cast
from ..loopir.iter import THREAD_KEYS, IterVar, Range
from ..loopir.rewrite import ARITH, COMPARE, handles
from ..loopir.visit import children, walk
from .bounded import BoundedRewriter
from .options import LowerOptions

_PAIRS = frozenset((*ARITH, *COMPARE))


def narrow_types(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """int64 loop variables, indices, extents and conditions become int32 where every value on the
    way is proved to fit.

    Needs the ranges of loops (variables without one, such as symbolic shapes of type int64, stay
    wide). A loop or thread variable stays wide where anything computed from it might not fit.
    Values that are stored keep their type. Stands before simplify_statements, so that indices of
    both widths come to one normal form, and early, since vectors of int32 are half as wide.
    """
    return narrow_to(func, 32)


def narrow_to(func: S.PrimFunc, bits: int) -> S.PrimFunc:
    """`narrow_types` for another width than 32 bits: 8, 16 or 32. UsageError for other numbers."""
    if bits not in (8, 16, 32):
        raise UsageError(f"integers are narrowed to 8, 16 or 32 bits, got {bits!r}")
    if not any(isinstance(x, E.PrimExpr) and _wider(x.dtype, bits) for x in walk(func.body)):
        return func
    survey = _Survey(func, bits)
    survey.stmt(func.body)
    return func.with_body(_Narrower(func, bits, survey.wide).stmt(func.body))


def _wider(dtype: str, bits: int) -> bool:
    """Whether a type is a scalar of signed integers of more bits."""
    if not dtype.startswith("int"):
        return False
    t = parse(dtype)
    return t.lanes == 1 and t.bits > bits


class _Bounds(BoundedRewriter):
    def __init__(self, func: S.PrimFunc, bits: int) -> None:
        super().__init__(func)
        self.bits, self.dtype = bits, f"int{bits}"
        self.low, self.high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def fits(self, e: Any) -> bool:
        """Whether the value of an expression is proved to be one of the narrow type."""
        bound = self.analyzer.const_int_bound(e)
        return bool(bound.min_value >= self.low and bound.max_value <= self.high)


class _Survey(_Bounds):
    """Which variables are part of something that might not fit: `wide`. Rewrites nothing."""

    def __init__(self, func: S.PrimFunc, bits: int) -> None:
        super().__init__(func, bits)
        self.wide: set[E.Var] = set()

    def expr(self, e: Any) -> Any:
        stack = [(e, False)]
        seen: set[tuple[int, bool]] = set()
        while stack:
            node, wide = stack.pop()
            if (id(node), wide) in seen:
                continue
            seen.add((id(node), wide))
            if isinstance(node, E.BufferLoad):
                wide = False  # what an index is does not depend on what is done with the element
            elif isinstance(node, E.Var):
                if wide:
                    self.wide.add(node)
                continue
            elif isinstance(node, E.PrimExpr) and _wider(node.dtype, self.bits):
                wide = wide or not self.fits(node)
            stack.extend((c, wide) for c in children(node))
        return e

    def exprs(self, items: Any) -> Any:
        for e in items:
            self.expr(e)
        return items


class _Narrower(_Bounds):
    recursive = ("_short",)

    def __init__(self, func: S.PrimFunc, bits: int, wide: set[E.Var]) -> None:
        super().__init__(func, bits)
        self.wide = wide
        self.values: dict[E.Var, Any] = {}

    @handles(E.Var, E.SizeVar)
    def _var(self, e: E.Var) -> Any:
        return self.values.get(e, e)

    def _renamed(self, old: E.Var, low: Any, extent: Any) -> E.Var:
        var = E.Var(old.name, self.dtype)
        self.analyzer.bind(var, Range.from_min_extent(low, extent))
        self.values[old] = E.Cast(old.dtype, var)
        return var

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        low, extent = self.expr(s.min), self.expr(s.extent)
        if _wider(s.loop_var.dtype, self.bits) and s.loop_var not in self.wide:
            short = self._short(low), self._short(extent)
            if short[0] is not None and short[1] is not None and self.fits(low + extent):
                var = self._renamed(s.loop_var, *short)
                body = self.stmt(s.body)
                return S.For(var, *short, s.kind, body, s.thread_binding, s.annotations)
        self.analyzer.bind(s.loop_var, Range.from_min_extent(low, extent))
        body = self.stmt(s.body)
        return s.with_parts(min=low, extent=extent, body=body)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        short = self._short(s.value) if s.attr_key in THREAD_KEYS else None
        if short is None or not _wider(s.node.var.dtype, self.bits) or s.node.var in self.wide:
            return super()._attr(s)
        zero = E.const(0, self.dtype)
        var = self._renamed(s.node.var, zero, short)
        dom = None if s.node.dom is None else Range.from_min_extent(zero, short)
        axis = IterVar(dom, var, s.node.iter_type, s.node.thread_tag)
        return S.AttrStmt(axis, s.attr_key, short, self.stmt(s.body))

    def _short(self, e: Any) -> Any:
        """`e` computed in the narrow type, or None where that is not proved to be the same."""
        kind = type(e)
        if e.dtype == self.dtype:
            return e
        if kind is E.IntImm:
            return cast(self.dtype, e) if self.low <= e.value <= self.high else None
        if kind is E.Cast and e.value.dtype == self.dtype:
            return e.value
        if kind not in _PAIRS or not _wider(e.a.dtype, self.bits):
            return None
        if e.dtype == e.a.dtype and not self.fits(e):
            return None
        a = self._short(e.a)
        b = None if a is None else self._short(e.b)
        return None if b is None else kind(a, b)

    def _index(self, e: Any) -> Any:
        new = self.expr(e)
        if not _wider(new.dtype, self.bits):
            return new
        short = self._short(new)
        return new if short is None else short

    @handles(*COMPARE)
    def _compare(self, e: Any) -> Any:
        new = super()._pair(e)
        if not _wider(new.a.dtype, self.bits):
            return new
        short = self._short(new)
        return new if short is None else short

    @handles(E.Cast)
    def _cast(self, e: E.Cast) -> Any:
        value = self.expr(e.value)
        if e.dtype == self.dtype and _wider(value.dtype, self.bits):
            short = self._short(value)
            if short is not None:
                return short
        return e if value is e.value else E.Cast(e.dtype, value)

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        indices = tuple(self._index(i) for i in e.indices)
        if all(a is b for a, b in zip(indices, e.indices)) and e.predicate is None:
            return e
        predicate = None if e.predicate is None else self.expr(e.predicate)
        return E.BufferLoad(e.buffer, indices, predicate)

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        indices = tuple(self._index(i) for i in s.indices)
        value = self.expr(s.value)
        predicate = None if s.predicate is None else self.expr(s.predicate)
        same = value is s.value and all(a is b for a, b in zip(indices, s.indices))
        if same and predicate is s.predicate:
            return s
        return S.BufferStore(s.buffer, value, indices, predicate)
