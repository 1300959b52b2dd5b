"""Indices of reads as sums: a constant, axes with factors, and quotients and remainders of sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...loopir.expr import (
    Add,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
    PrimExpr,
    SizeVar,
    Sub,
    Var,
)


class Sum:
    """const + sum of factor * axis + sum of factor * (inner // divisor or inner % divisor)."""

    __slots__ = ("axes", "const", "parts")

    def __init__(
        self,
        const: int = 0,
        axes: dict[Var, int] | None = None,
        parts: tuple[tuple[int, str, Sum, int], ...] = (),
    ) -> None:
        self.const = const
        self.axes = axes or {}
        self.parts = parts

    def key(self) -> Any:
        """Equal for equal sums."""
        axes = tuple(sorted((id(v), c) for v, c in self.axes.items()))
        return (self.const, axes, tuple((c, k, s.key(), d) for c, k, s, d in self.parts))

    def is_constant(self) -> bool:
        return not self.axes and not self.parts

    def scaled(self, factor: int) -> Sum:
        if factor == 0:
            return Sum()
        axes = {v: c * factor for v, c in self.axes.items()}
        parts = tuple((c * factor, k, s, d) for c, k, s, d in self.parts)
        return Sum(self.const * factor, axes, parts)

    def plus(self, other: Sum) -> Sum:
        axes = dict(self.axes)
        for v, c in other.axes.items():
            total = axes.get(v, 0) + c
            if total:
                axes[v] = total
            else:
                axes.pop(v, None)
        return Sum(self.const + other.const, axes, self.parts + other.parts)


class Opaque(Exception):
    """An index that is no sum of axes, as one that is read from a tensor."""


def parse_index(e: Any) -> Sum | None:
    """The sum that an index is, None where it is of another form."""
    try:
        return _parse(e)
    except Opaque:
        return None


def _parse(e: PrimExpr) -> Sum:
    rule = _RULES.get(type(e))
    if rule is None:
        raise Opaque
    return rule(e)


def _mul(e: Any) -> Sum:
    a, b = _parse(e.a), _parse(e.b)
    if b.is_constant():
        return a.scaled(b.const)
    if a.is_constant():
        return b.scaled(a.const)
    raise Opaque


def _divided(kind: str) -> Callable[[Any], Sum]:
    def rule(e: Any) -> Sum:
        a, b = _parse(e.a), _parse(e.b)
        if not b.is_constant() or b.const <= 0:
            raise Opaque
        if a.is_constant():
            return Sum(a.const // b.const if kind == "div" else a.const % b.const)
        return Sum(0, {}, ((1, kind, a, b.const),))

    return rule


_RULES: dict[type, Callable[[Any], Sum]] = {
    Var: lambda e: Sum(0, {e: 1}),
    SizeVar: lambda e: Sum(0, {e: 1}),
    IntImm: lambda e: Sum(e.value),
    Cast: lambda e: _parse(e.value),
    Add: lambda e: _parse(e.a).plus(_parse(e.b)),
    Sub: lambda e: _parse(e.a).plus(_parse(e.b).scaled(-1)),
    Mul: _mul,
    FloorDiv: _divided("div"),
    Div: _divided("div"),
    FloorMod: _divided("mod"),
    Mod: _divided("mod"),
}
