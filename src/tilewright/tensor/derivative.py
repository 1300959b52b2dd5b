"""Derivatives of expressions, in reverse: from the value down to the tensor elements it reads.

Every node passes the adjoint of its value (how much the output changes with it, times the head) on
to its operands. Where a function has a kink, one of the one-sided derivatives is taken.
"""

from __future__ import annotations

import math
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
    return a + b  # type: ignore[no-any-return]


def mul(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if E.is_const(a, 1) or E.is_const(b, 0):
        return b
    if E.is_const(b, 1) or E.is_const(a, 0):
        return a
    return a * b  # type: ignore[no-any-return]


def where(condition: PrimExpr, value: PrimExpr) -> PrimExpr:
    """`value` if the condition holds, else zero; `value` is not evaluated then."""
    if E.is_const(value, 0):
        return value
    return tir.if_then_else(condition, value, const(0, value.dtype))


def _like(x: PrimExpr, value: float) -> PrimExpr:
    return const(value, x.dtype)


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
    name = e.op.name.removeprefix("tir.")
    if name == "if_then_else":
        return _choice(e.args[0], e.args[1], e.args[2], g)
    slope = _SLOPES.get(name)
    if slope is not None:
        return ((e.args[0], mul(g, slope(e.args[0], e))),)
    pair = _PAIRS.get(name)
    if pair is not None:
        return [(x, mul(g, s)) for x, s in zip(e.args, pair(*e.args, e))]
    raise TilewrightError(f"Derivative of this intrinsic is not implemented: {e.op.name}")


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

# derivative of f at x, where y is f(x)
_SLOPES: dict[str, Callable[[PrimExpr, PrimExpr], Any]] = {
    "exp": lambda x, y: y,
    "exp2": lambda x, y: y * _like(x, math.log(2)),
    "exp10": lambda x, y: y * _like(x, math.log(10)),
    "log": lambda x, y: 1.0 / x,
    "log2": lambda x, y: 1.0 / (x * _like(x, math.log(2))),
    "log10": lambda x, y: 1.0 / (x * _like(x, math.log(10))),
    "log1p": lambda x, y: 1.0 / (x + 1.0),
    "sigmoid": lambda x, y: y * (1.0 - y),
    "tanh": lambda x, y: 1.0 - y * y,
    "erf": lambda x, y: _like(x, 2 / math.sqrt(math.pi)) * tir.exp(-x * x),
    "sqrt": lambda x, y: 0.5 / y,
    "rsqrt": lambda x, y: -0.5 * y / x,
    "sin": lambda x, y: tir.cos(x),
    "cos": lambda x, y: -tir.sin(x),
    "tan": lambda x, y: 1.0 + y * y,
    "sinh": lambda x, y: tir.cosh(x),
    "cosh": lambda x, y: tir.sinh(x),
    "asin": lambda x, y: tir.rsqrt(1.0 - x * x),
    "acos": lambda x, y: -tir.rsqrt(1.0 - x * x),
    "atan": lambda x, y: 1.0 / (1.0 + x * x),
    "asinh": lambda x, y: tir.rsqrt(x * x + 1.0),
    "acosh": lambda x, y: tir.rsqrt(x * x - 1.0),
    "atanh": lambda x, y: 1.0 / (1.0 - x * x),
    "fabs": lambda x, y: tir.select(x >= 0, _like(x, 1), _like(x, -1)),
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "nearbyint"), lambda x, y: _like(x, 0)),
    "likely": lambda x, y: _like(x, 1),
}


def _pow(x: PrimExpr, n: PrimExpr, y: PrimExpr) -> Any:
    return n * tir.power(x, n - 1.0), y * tir.log(x)


def _atan2(y: PrimExpr, x: PrimExpr, _: PrimExpr) -> Any:
    square = x * x + y * y
    return x / square, -y / square


def _copysign(x: PrimExpr, s: PrimExpr, y: PrimExpr) -> Any:
    return tir.select((x >= 0).equal(y >= 0), _like(x, 1), _like(x, -1)), _like(s, 0)


# derivatives by each argument of functions of several; the last parameter is the value
_PAIRS: dict[str, Callable[..., Any]] = {
    "pow": _pow,
    "atan2": _atan2,
    "hypot": lambda a, b, y: (a / y, b / y),
    "copysign": _copysign,
    "fmod": lambda a, b, y: (_like(a, 1), -tir.trunc(a / b)),
    "fma": lambda a, b, c, y: (b, a, _like(a, 1)),
    "ldexp": lambda x, n, y: (tir.ldexp(_like(x, 1), n),),
}
