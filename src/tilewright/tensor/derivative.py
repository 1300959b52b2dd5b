"""Derivatives of expressions, in reverse: from the value down to the tensor elements it reads.

Every node passes the adjoint of its value (how much the output changes with it, times the head) on
to its operands. Where a function has a kink, one of the one-sided derivatives is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir import iter as I
from ..loopir import op as tir
from ..loopir import operators as O
from ..loopir.expr import PrimExpr, const
from ..loopir.visit import children
from .shared import inline_lets

Adjoint = Any  # PrimExpr; None stands for zero


def adjoints(
    e: PrimExpr, head: PrimExpr, leaves: Callable[[Any], bool]
) -> list[tuple[Any, PrimExpr]]:
    """(leaf, adjoint) for each leaf node below `e` that changes its value, given that of `e`.

    `leaves(node)` says which loads and variables count. A node used in several places gets the sum.
    """
    e = inline_lets(e)
    order = _topological(e)
    grads: dict[int, PrimExpr] = {id(e): head}
    found: list[tuple[Any, PrimExpr]] = []
    for node in order:
        adjoint = grads.get(id(node))
        if adjoint is None or not parse(node.dtype).is_float:
            continue
        if leaves(node):
            found.append((node, adjoint))
            continue
        for operand, part in _parts(node, adjoint):
            if part is None or not parse(operand.dtype).is_float:
                continue
            known = grads.get(id(operand))
            grads[id(operand)] = part if known is None else add(known, part)
    return found


def _topological(e: PrimExpr) -> list[Any]:
    """Every node below `e` once, parents before children."""
    order: list[Any] = []
    seen: set[int] = set()
    stack: list[tuple[Any, bool]] = [(e, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((c, False) for c in children(node))
    order.reverse()
    return order


def _parts(node: Any, g: PrimExpr) -> Iterable[tuple[Any, Adjoint]]:
    rule = _RULES.get(type(node))
    if rule is None:
        if any(parse(c.dtype).is_float for c in children(node)):
            raise TilewrightError(
                f"Derivative of this expr is not implemented: {node} ({type(node).__name__})"
            )
        return ()
    parts: Iterable[tuple[Any, Adjoint]] = rule(node, g)
    return parts


# --- arithmetic that drops zeros and ones


def add(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if E.is_const(a, 0):
        return b
    if E.is_const(b, 0):
        return a
    if a is b:
        return mul(a, const(2, a.dtype))
    return a + b


def mul(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if E.is_const(a, 1) or E.is_const(b, 0):
        return b
    if E.is_const(b, 1) or E.is_const(a, 0):
        return a
    return a * b


def where(condition: PrimExpr, value: PrimExpr) -> PrimExpr:
    """`value` if the condition holds, else zero; `value` is not evaluated then."""
    if E.is_const(value, 0):
        return value
    return tir.if_then_else(condition, value, const(0, value.dtype))


# --- rules: the adjoints of a node's operands


def _add(e: Any, g: PrimExpr) -> Any:
    return (e.a, g), (e.b, g)


def _sub(e: Any, g: PrimExpr) -> Any:
    return (e.a, g), (e.b, -g)


def _mul(e: Any, g: PrimExpr) -> Any:
    return (e.a, mul(g, e.b)), (e.b, mul(g, e.a))


def _div(e: Any, g: PrimExpr) -> Any:
    return (e.a, g / e.b), (e.b, -g * e.a / (e.b * e.b))


def _mod(e: Any, g: PrimExpr) -> Any:
    return (e.a, g), (e.b, -g * tir.trunc(e.a / e.b))


def _floormod(e: Any, g: PrimExpr) -> Any:
    return (e.a, g), (e.b, -g * tir.floor(e.a / e.b))


def _min(e: Any, g: PrimExpr) -> Any:
    first = e.a <= e.b
    return (e.a, where(first, g)), (e.b, where(O.logical_not(first), g))


def _max(e: Any, g: PrimExpr) -> Any:
    first = e.a >= e.b
    return (e.a, where(first, g)), (e.b, where(O.logical_not(first), g))


def _choice(condition: PrimExpr, a: PrimExpr, b: PrimExpr, g: PrimExpr) -> Any:
    return (a, where(condition, g)), (b, where(O.logical_not(condition), g))


def _select(e: Any, g: PrimExpr) -> Any:
    return _choice(e.condition, e.true_value, e.false_value, g)


def _cast(e: Any, g: PrimExpr) -> Any:
    return ((e.value, E.cast(e.value.dtype, g)),)


def _nothing(e: Any, g: PrimExpr) -> Any:
    return ()


def _call(e: Any, g: PrimExpr) -> Any:
    if e.op.name == "tir.if_then_else":
        return _choice(e.args[0], e.args[1], e.args[2], g)
    if e.op.row.slope is None:
        raise TilewrightError(f"Derivative of this intrinsic is not implemented: {e.op.name}")
    slopes = e.op.row.slope(*e.args, e)
    if not isinstance(slopes, tuple):
        slopes = (slopes,)
    return [(x, mul(g, slope)) for x, slope in zip(e.args, slopes)]


_RULES: dict[type, Callable[[Any, PrimExpr], Any]] = {
    E.Add: _add,
    E.Sub: _sub,
    E.Mul: _mul,
    E.Div: _div,
    E.Mod: _mod,
    E.FloorMod: _floormod,
    E.FloorDiv: _nothing,
    E.Min: _min,
    E.Max: _max,
    E.Select: _select,
    E.Cast: _cast,
    E.Call: _call,
    **dict.fromkeys(
        (E.Var, E.SizeVar, E.IntImm, E.FloatImm, I.ProducerLoad, E.EQ, E.NE, E.LT, E.LE, E.GT)
        + (E.GE, E.And, E.Or, E.Not),
        _nothing,
    ),
}
