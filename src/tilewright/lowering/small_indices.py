"""Whether all index arithmetic of a function fits 32 bits by a wide margin.

Most functions are far from the limit, and unrolled ones have thousands of indices: here each node
costs one bound on how large it is, whatever its sign. Where that does not decide, widen_indices
looks closely.
"""

from __future__ import annotations

from typing import Any

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.iter import THREAD_KEYS
from ..loopir.visit import children, post_order_visit

_LAST = (1 << 31) - 1
_UNKNOWN = float(1 << 62)


def all_small(func: S.PrimFunc) -> bool:
    """Whether no node of arithmetic on loop variables, threads and constants can reach 2^31."""
    sizes = _Sizes()
    todo: list[Any] = [func.body]
    while todo:  # statements, outer ones first: variables before they are used
        s = todo.pop()
        below = children(s)
        for e in below:
            if isinstance(e, S.Stmt):
                todo.append(e)
            else:
                post_order_visit(e, sizes.judge)
        kind = type(s)
        if kind is S.For:
            sizes.define(s.loop_var, sizes.of[id(s.min)] + sizes.of[id(s.extent)])
        elif kind is S.LetStmt:
            sizes.define(s.var, sizes.of[id(s.value)])
        elif kind is S.AttrStmt and s.attr_key in THREAD_KEYS:
            sizes.define(s.node.var, sizes.of[id(s.value)])
        if sizes.largest > _LAST:
            return False
    return True


class _Sizes:
    """The largest absolute value that expressions can have; 0 for data, which is not judged."""

    def __init__(self) -> None:
        self.known: dict[E.Var, float] = {}
        self.of: dict[int, float] = {}  # by identity of the expression
        self.largest = 0.0

    def define(self, var: E.Var, size: float) -> None:
        self.known[var] = size
        self.largest = max(self.largest, size)

    def judge(self, e: Any) -> None:
        """Of an expression whose parts are known."""
        rule = _RULES.get(type(e))
        size = self.of[id(e)] = 0.0 if rule is None else rule(self, e)
        if size > self.largest:
            self.largest = size


def _of_var(s: _Sizes, e: E.Var) -> float:
    return s.known.get(e, _UNKNOWN) if parse(e.dtype).is_integer else 0.0


def _sum(s: _Sizes, e: Any) -> float:
    return s.of[id(e.a)] + s.of[id(e.b)]


def _first(s: _Sizes, e: Any) -> float:
    return s.of[id(e.a)]  # a divisor of 0 gives 0, any other no more


_RULES: dict[type, Any] = {
    E.IntImm: lambda s, e: abs(e.value),
    **dict.fromkeys((E.Var, E.SizeVar), _of_var),
    **dict.fromkeys((E.Add, E.Sub), _sum),
    E.Mul: lambda s, e: s.of[id(e.a)] * s.of[id(e.b)],
    **dict.fromkeys((E.FloorDiv, E.Div), _first),
    **dict.fromkeys((E.FloorMod, E.Mod), lambda s, e: max(s.of[id(e.a)], s.of[id(e.b)])),
    **dict.fromkeys((E.Min, E.Max), lambda s, e: max(s.of[id(e.a)], s.of[id(e.b)])),
    E.Ramp: lambda s, e: s.of[id(e.base)] + s.of[id(e.stride)] * e.lanes,
    E.Broadcast: lambda s, e: s.of[id(e.value)],
    E.Select: lambda s, e: max(s.of[id(e.true_value)], s.of[id(e.false_value)]),
    E.Cast: lambda s, e: s.of[id(e.value)],
}
