"""Rewriting expressions whose parts are shared: each node once, however often it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..base.deep import deep_call
from ..loopir import expr as E
from ..loopir.rewrite import Rewriter, handles


def _once(handler: Callable[..., Any]) -> Callable[..., Any]:
    def remembered(self: SharedRewriter, e: Any) -> Any:
        known = self.memo.get(id(e))
        if known is None:
            known = self.memo[id(e)] = (handler(self, e), e)  # e is kept: its identity is the key
        return known[0]

    return remembered


class SharedRewriter(Rewriter):
    """A Rewriter that keeps the sharing of subexpressions (the results of derivatives need it)."""

    def __init__(self) -> None:
        self.memo: dict[int, tuple[Any, Any]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.table = {t: _once(h) for t, h in cls.table.items()}


class _Substitute(SharedRewriter):
    def __init__(self, values: Mapping[Any, Any]) -> None:
        super().__init__()
        self.values = values

    @handles(E.Var, E.SizeVar)
    def _var(self, e: E.Var) -> Any:
        return self.values.get(e, e)


def substitute(e: Any, values: Mapping[Any, Any]) -> Any:
    """`e` with variables replaced; shared parts stay shared."""
    return deep_call(lambda: _Substitute(values).expr(e))


class _InlineLets(SharedRewriter):
    """`values` has what takes the place of variables met so far: themselves, or of lets."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[E.Var, Any] = {}

    @handles(E.Var, E.SizeVar)
    def _var(self, e: E.Var) -> Any:
        return self.values.setdefault(e, e)

    @handles(E.Let)
    def _inline(self, e: E.Let) -> Any:
        value = self.expr(e.value)
        if e.var in self.values:  # another let has given it a value, or it is free elsewhere
            return self.expr(substitute(e.body, {e.var: value}))
        self.values[e.var] = value
        return self.expr(e.body)


def inline_lets(e: Any) -> Any:
    """`e` with the values of its lets in the places of their variables."""
    return deep_call(lambda: _InlineLets().expr(e))
