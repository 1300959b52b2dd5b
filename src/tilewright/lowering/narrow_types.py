"""Compute indices in 32 bits where they fit."""

from __future__ import annotations

from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.expr import cast
from ..loopir.iter import Range
from ..loopir.rewrite import ARITH, COMPARE, handles
from ..loopir.visit import walk
from .bounded import BoundedRewriter
from .options import LowerOptions

_LIMIT = (1 << 31) - 1
_PAIRS = frozenset((*ARITH, *COMPARE))


def narrow_types(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """int64 loop variables, indices, extents and conditions become int32 where every value on the
    way is proved to fit.

    Needs the ranges of loops (variables without one, such as symbolic shapes of type int64, stay
    wide). Values that are stored keep their type. Stands before simplify_statements, so that
    indices of both widths come to one normal form, and early, since vectors of int32 are half as
    wide.
    """
    if not any(isinstance(x, E.PrimExpr) and x.dtype == "int64" for x in walk(func.body)):
        return func
    return func.with_body(_Narrower(func).stmt(func.body))


class _Narrower(BoundedRewriter):
    recursive = ("_short",)

    def __init__(self, func: S.PrimFunc) -> None:
        super().__init__(func)
        self.values: dict[E.Var, Any] = {}
        self.narrow_vars: dict[E.Var, E.Var] = {}

    @handles(E.Var, E.SizeVar)
    def _var(self, e: E.Var) -> Any:
        return self.values.get(e, e)

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        low, extent = self.expr(s.min), self.expr(s.extent)
        if s.loop_var.dtype == "int64" and self._fits(low) and self._fits(extent):
            last = self.analyzer.const_int_bound(low + extent).max_value
            short = self._short(low), self._short(extent)
            if last <= _LIMIT and short[0] is not None and short[1] is not None:
                return self._narrow_loop(s, *short)
        self.analyzer.bind(s.loop_var, Range.from_min_extent(low, extent))
        body = self.stmt(s.body)
        if low is s.min and extent is s.extent and body is s.body:
            return s
        return S.For(s.loop_var, low, extent, s.kind, body, s.thread_binding, s.annotations)

    def _narrow_loop(self, s: S.For, low: Any, extent: Any) -> S.For:
        var = E.Var(s.loop_var.name, "int32")
        self.analyzer.bind(var, Range.from_min_extent(low, extent))
        self.values[s.loop_var] = E.Cast("int64", var)
        body = self.stmt(s.body)
        return S.For(var, low, extent, s.kind, body, s.thread_binding, s.annotations)

    def _fits(self, e: Any) -> bool:
        bound = self.analyzer.const_int_bound(e)
        return bool(bound.min_value >= -_LIMIT - 1 and bound.max_value <= _LIMIT)

    def _short(self, e: Any) -> Any:
        """`e` computed in int32, or None where that is not proved to be the same."""
        kind = type(e)
        if e.dtype == "int32":
            return e
        if kind is E.IntImm:
            return cast("int32", e) if -_LIMIT - 1 <= e.value <= _LIMIT else None
        if kind is E.Cast and e.value.dtype == "int32":
            return e.value
        if kind not in _PAIRS or e.a.dtype != "int64":
            return None
        if e.dtype == "int64" and not self._fits(e):
            return None
        a = self._short(e.a)
        b = None if a is None else self._short(e.b)
        return None if b is None else kind(a, b)

    def _index(self, e: Any) -> Any:
        new = self.expr(e)
        if new.dtype != "int64":
            return new
        short = self._short(new)
        return new if short is None else short

    @handles(*COMPARE)
    def _compare(self, e: Any) -> Any:
        new = super()._pair(e)
        if new.a.dtype != "int64":
            return new
        short = self._short(new)
        return new if short is None else short

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
