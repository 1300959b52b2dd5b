"""Evaluate only the chosen side of a Select where the other might fail."""

from __future__ import annotations

from typing import Any

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.effects import CallEffectKind, effect_of
from ..loopir.operators import logical_not
from ..loopir.rewrite import handles
from ..loopir.visit import CHILDREN, walk
from .bounded import BoundedRewriter
from .options import LowerOptions

_DIVISIONS = frozenset((E.Div, E.Mod, E.FloorDiv, E.FloorMod))


def rewrite_unsafe_select(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """`Select(c, a, b)` becomes `if_then_else(c, a, b)` where a or b might read out of bounds,
    divide by zero or have an effect.

    A read is safe if its indices are proved to lie in the buffer's shape. Vector conditions stay.

    Needs buffers with all their dimensions, which say more than one flat extent does. Stands before
    the first simplify_statements: from here on Selects may be evaluated on both sides by all
    passes.
    """
    if not any(type(x) is E.Select for x in walk(func.body)):
        return func
    return func.with_body(_Safe(func).stmt(func.body))


class _Safe(BoundedRewriter):
    """`safe` holds the Selects of the present statement whose sides were found to be safe."""

    def __init__(self, func: S.PrimFunc) -> None:
        super().__init__(func)
        self.safe: dict[int, Any] = {}

    def stmt(self, s: Any) -> Any:
        self.safe.clear()  # other conditions hold
        return super().stmt(s)

    @handles(E.Select)
    def _select(self, e: E.Select) -> Any:
        new = super()._select(e)
        if parse(new.condition.dtype).lanes > 1:
            return new
        if self._safe(new.true_value) and self._safe(new.false_value):
            self.safe[id(new)] = new
            return new
        parts = (new.condition, new.true_value, new.false_value)
        return E.Call(new.dtype, "tir.if_then_else", parts)

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        if e.op.name != "tir.if_then_else":
            return super()._call(e)
        condition = self.expr(e.args[0])
        with self.analyzer.enter_constraint(condition):
            t = self.expr(e.args[1])
        with self.analyzer.enter_constraint(logical_not(condition)):
            f = self.expr(e.args[2])
        if condition is e.args[0] and t is e.args[1] and f is e.args[2]:
            return e
        return E.Call(e.dtype, e.op, (condition, t, f))

    def _safe(self, e: Any) -> bool:
        """Whether `e` can be evaluated here whatever the condition is."""
        stack = [e]
        while stack:
            x = stack.pop()
            kind = type(x)
            if id(x) in self.safe:
                stack.append(x.condition)
                continue
            if kind is E.BufferLoad and not self._in_bounds(x):
                return False
            if kind in _DIVISIONS and not parse(x.dtype).is_float:
                if not (type(x.b) is E.IntImm and x.b.value):
                    return False
            elif kind is E.Call:
                if x.op.name == "tir.if_then_else":
                    stack.append(x.args[0])
                    continue
                if effect_of(x.op) > CallEffectKind.Pure:
                    return False
            stack.extend(CHILDREN[kind](x))
        return True

    def _in_bounds(self, e: E.BufferLoad) -> bool:
        prove = self.analyzer.can_prove
        for i, n in zip(e.indices, e.buffer.shape):
            if parse(i.dtype).lanes > 1 or not prove(i >= 0) or not prove(i < n):
                return False
        return True
