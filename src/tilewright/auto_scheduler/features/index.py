"""Indices of reads as sums: a constant, axes with factors, and quotients and remainders of sums.

Constants, factors and divisors are slots, for the indices that rfactor makes hold lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from .program import ONE, ZERO, Program, Slot


class Sum:
    """const + sum of factor * axis + sum of factor * (inner // divisor or inner % divisor)."""

    __slots__ = ("axes", "const", "parts")

    def __init__(
        self,
        const: Slot = ZERO,
        axes: dict[Var, Slot] | None = None,
        parts: tuple[tuple[Slot, str, Sum, Slot], ...] = (),
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


class _Opaque(Exception):
    """An index that is no sum of axes, as one that is read from a tensor."""


class IndexParser:
    """Makes sums of expressions; `lengths` are the variables that are no axes."""

    def __init__(self, program: Program, lengths: Mapping[Var, Slot]) -> None:
        self.program, self.lengths = program, lengths

    def parse(self, e: Any) -> Sum | None:
        """The sum that an index is, None where it is of another form."""
        try:
            return self._sum(e)
        except _Opaque:
            return None

    def _sum(self, e: PrimExpr) -> Sum:
        rule = _RULES.get(type(e))
        if rule is None:
            raise _Opaque
        return rule(self, e)

    def var(self, e: Any) -> Sum:
        length = self.lengths.get(e)
        return Sum(ZERO, {e: ONE}) if length is None else Sum(length)

    def cast(self, e: Any) -> Sum:
        return self._sum(e.value)

    def const(self, e: Any) -> Sum:
        return Sum(self.program.const(e.value))

    def add(self, e: Any) -> Sum:
        return self._plus(self._sum(e.a), self._sum(e.b))

    def sub(self, e: Any) -> Sum:
        return self._plus(self._sum(e.a), self._scaled(self._sum(e.b), self.program.const(-1)))

    def mul(self, e: Any) -> Sum:
        a, b = self._sum(e.a), self._sum(e.b)
        if b.is_constant():
            return self._scaled(a, b.const)
        if a.is_constant():
            return self._scaled(b, a.const)
        raise _Opaque

    def div(self, e: Any) -> Sum:
        return self._quotient("div", e)

    def mod(self, e: Any) -> Sum:
        return self._quotient("mod", e)

    def _quotient(self, kind: str, e: Any) -> Sum:
        p, a, b = self.program, self._sum(e.a), self._sum(e.b)
        known = p.value(b.const)
        if not b.is_constant() or (known is not None and known <= 0):
            raise _Opaque
        if not a.is_constant():
            return Sum(ZERO, {}, ((ONE, kind, a, b.const),))
        whole = p.floordiv(a.const, b.const)
        return Sum(whole if kind == "div" else p.sub(a.const, p.mul(whole, b.const)))

    def _scaled(self, s: Sum, factor: Slot) -> Sum:
        if factor == ZERO:
            return Sum()
        mul = self.program.mul
        axes = {v: mul(c, factor) for v, c in s.axes.items()}
        parts = tuple((mul(c, factor), k, x, d) for c, k, x, d in s.parts)
        return Sum(mul(s.const, factor), axes, parts)

    def _plus(self, a: Sum, b: Sum) -> Sum:
        add = self.program.add
        axes = dict(a.axes)
        for v, c in b.axes.items():
            total = add(axes.get(v, ZERO), c)
            axes[v] = total
            if total == ZERO:
                del axes[v]
        return Sum(add(a.const, b.const), axes, a.parts + b.parts)


_RULES: dict[type, Callable[[IndexParser, Any], Sum]] = {
    Var: IndexParser.var,
    SizeVar: IndexParser.var,
    IntImm: IndexParser.const,
    Cast: IndexParser.cast,
    Add: IndexParser.add,
    Sub: IndexParser.sub,
    Mul: IndexParser.mul,
    FloorDiv: IndexParser.div,
    Div: IndexParser.div,
    FloorMod: IndexParser.mod,
    Mod: IndexParser.mod,
}
