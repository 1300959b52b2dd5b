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
from ..loopir.visit import nodes
from .bounded import THREAD_KEYS

_LAST = (1 << 31) - 1
_UNKNOWN = float(1 << 62)


def all_small(func: S.PrimFunc) -> bool:
    """Whether no node of arithmetic on loop variables, threads and constants can reach 2^31."""
    sizes = _Sizes()
    for node in nodes(func.body):  # parents first: variables before they are used
        kind = type(node)
        if kind is S.For:
            sizes.known[node.loop_var] = sizes.of(node.min) + sizes.of(node.extent)
        elif kind is S.LetStmt:
            sizes.known[node.var] = sizes.of(node.value)
        elif kind is S.AttrStmt and node.attr_key in THREAD_KEYS:
            sizes.known[node.node.var] = sizes.of(node.value)
        elif kind in _RULES and sizes.of(node) > _LAST:
            return False
    return all(size <= _LAST for size in sizes.known.values())


class _Sizes:
    """The largest absolute value that expressions can have; 0 for data, which is not judged."""

    def __init__(self) -> None:
        self.known: dict[E.Var, float] = {}
        self.memo: dict[int, float] = {}

    def of(self, e: Any) -> float:
        size = self.memo.get(id(e))
        if size is None:
            rule = _RULES.get(type(e))
            size = self.memo[id(e)] = 0.0 if rule is None else rule(self, e)
        return size


def _of_var(s: _Sizes, e: E.Var) -> float:
    return s.known.get(e, _UNKNOWN) if parse(e.dtype).is_integer else 0.0


def _sum(s: _Sizes, e: Any) -> float:
    return s.of(e.a) + s.of(e.b)


def _first(s: _Sizes, e: Any) -> float:
    return s.of(e.a)  # a divisor of 0 gives 0, any other no more


_RULES: dict[type, Any] = {
    E.IntImm: lambda s, e: abs(e.value),
    **dict.fromkeys((E.Var, E.SizeVar), _of_var),
    **dict.fromkeys((E.Add, E.Sub), _sum),
    E.Mul: lambda s, e: s.of(e.a) * s.of(e.b),
    **dict.fromkeys((E.FloorDiv, E.Div), _first),
    **dict.fromkeys((E.FloorMod, E.Mod), lambda s, e: max(s.of(e.a), s.of(e.b))),
    **dict.fromkeys((E.Min, E.Max), lambda s, e: max(s.of(e.a), s.of(e.b))),
    E.Ramp: lambda s, e: s.of(e.base) + s.of(e.stride) * e.lanes,
    E.Broadcast: lambda s, e: s.of(e.value),
    E.Select: lambda s, e: max(s.of(e.true_value), s.of(e.false_value)),
    E.Cast: lambda s, e: s.of(e.value),
}
