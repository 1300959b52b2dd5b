"""Whether two expressions are the same text: the same nodes over the same variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..loopir import expr as E
from ..loopir.iter import ProducerLoad
from ..loopir.visit import CHILDREN

_PAIRS = frozenset(
    (
        E.Add, E.Sub, E.Mul, E.FloorDiv, E.FloorMod, E.Div, E.Mod, E.Min, E.Max,
        E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE, E.And, E.Or,
    )
)  # fmt: skip


def _attrs(e: Any) -> Any:
    """What a node says besides its type, dtype and children."""
    t = type(e)
    if t in (E.IntImm, E.StringImm):
        return e.value
    if t is E.FloatImm:
        return repr(e.number)
    if t is E.Call:
        return e.op
    if t is E.BufferLoad:
        return id(e.buffer), e.predicate is None
    if t is ProducerLoad:
        return id(e.producer)
    if t is E.Shuffle:
        return e.indices
    return None


def same_expr(a: Any, b: Any, known: Mapping[int, tuple[Any, Any]] | None = None) -> bool:
    """Cheap structural comparison; reductions and lets are the same only if they are one object.

    `known` has, by identity, what takes the place of parts of `b`: themselves if it is the same.
    """
    stack = [(a, b)]
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        t = type(a)
        if t is not type(b):
            return False
        if known is not None and id(b) in known and known[id(b)][1] is a:
            return False
        if t in _PAIRS:
            stack.append((a.b, b.b))
            stack.append((a.a, b.a))
            continue
        if isinstance(a, (E.Var, E.Let)) or a.dtype != b.dtype or _attrs(a) != _attrs(b):
            return False
        x, y = CHILDREN[t](a), CHILDREN[t](b)
        if len(x) != len(y) or t.__name__ == "Reduce":
            return False
        # the first is looked at first: a condition is short where what it chooses from is long
        stack.extend(zip(reversed(x), reversed(y)))
    return True
