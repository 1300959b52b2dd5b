"""What integer expressions are worth, by unbounded integers: SEMANTICS.md once more, in few lines.

Shares no code with the compiler but the nodes and the width of types. Values are computed for many
points at once, with the places where they are defined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tilewright.base.dtype import parse
from tilewright.loopir import expr as E

Array = np.ndarray[Any, Any]
Env = dict[Any, Any]  # the values of variables and of the buffers of loads


class Values(NamedTuple):
    """Values at all points, and where they are defined."""

    values: Array
    defined: Array


_DIVISIONS = ("FloorDiv", "FloorMod", "Div", "Mod")
_WRAPS, _WIDE, _ASK = "wraps", "wide", "depends"


class _Data(NamedTuple):
    values: Array
    defined: Array
    data: bool


def evaluate(
    e: Any, env: Env, indices: str = "fit", depends: Callable[[Any], bool] = lambda e: True
) -> Values:
    """The values of an expression.

    Indices that do not fit their type are undefined ("fit"), or computed with as if all types were
    wide enough ("wide"), or wrap like data ("wrap"). What reads data is an index where `depends`
    says that its value does not depend on it.
    """
    size = len(next(iter(env.values())))
    found = _value(
        e, {**env, _WRAPS: indices == "wrap", _WIDE: indices == "wide", _ASK: depends}, size
    )
    return Values(found.values, found.defined)


def _wrap(dtype: str, x: Array) -> Array:
    t = parse(dtype)
    if t.is_bool:
        return (x != 0).astype(object) * 1
    modulus = 1 << t.bits
    least = -(modulus >> 1) if t.is_int else 0
    return (x - least) % modulus + least


def _value(e: Any, env: Env, size: int) -> _Data:
    everywhere = np.ones(size, bool)
    if isinstance(e, E.IntImm):
        return _Data(np.full(size, int(e.value), object), everywhere, env[_WRAPS])
    if isinstance(e, E.Var):
        return _Data(env[e], everywhere, env[_WRAPS])
    if isinstance(e, E.BufferLoad):
        return _Data(env[e.buffer], everywhere, True)
    if isinstance(e, (E.Select,)):
        return _choice(e.condition, e.true_value, e.false_value, env, size, True)
    if isinstance(e, E.Call) and e.op.name == "tir.if_then_else":
        condition, true_value, false_value = e.args
        return _choice(condition, true_value, false_value, env, size, False)
    if isinstance(e, E.Call) and e.op.name == "tir.likely":
        return _value(e.args[0], env, size)
    if isinstance(e, E.Not):
        a = _value(e.a, env, size)
        return a._replace(values=1 - a.values)
    if isinstance(e, E.Cast):
        a = _value(e.value, env, size)
        return a._replace(values=_wrap(e.dtype, a.values))
    if isinstance(e, E.Call):
        parts = [_value(x, env, size) for x in e.args]
        name = e.op.name.removeprefix("tir.")
    else:
        parts = [_value(e.a, env, size), _value(e.b, env, size)]
        name = type(e).__name__
        if e.dtype in ("int32", "int64"):
            parts = [p._replace(data=p.data and env[_ASK](x)) for p, x in zip(parts, (e.a, e.b))]
        if name in _DIVISIONS and isinstance(e.b, E.IntImm) and not e.b.value:
            return _Data(parts[1].values, parts[0].defined, parts[0].data)  # a written zero
    return _operation(name, e.dtype, parts, env[_WIDE])


def _choice(c: Any, t: Any, f: Any, env: Env, size: int, both: bool) -> _Data:
    test, yes, no = (_value(x, env, size) for x in (c, t, f))
    holds = test.values.astype(bool)
    taken = yes.defined & no.defined if both else np.where(holds, yes.defined, no.defined)
    values = np.where(holds, yes.values, no.values)
    return _Data(values, test.defined & taken, yes.data or no.data)


def _operation(name: str, dtype: str, parts: list[_Data], wide: bool) -> _Data:
    a = parts[0].values
    b = parts[-1].values
    defined = parts[0].defined & parts[-1].defined
    data = parts[0].data or parts[-1].data
    t = parse(dtype)
    if name in _DIVISIONS:
        zero = b == 0
        if not parts[1].data:
            defined = defined & ~zero.astype(bool)
        exact = _divided(name, a, np.where(zero, 1, b))
        exact = np.where(zero, 0, exact)
    elif name in ("shift_left", "shift_right"):
        inside = ((b >= 0) & (b < t.bits)).astype(bool)
        defined = defined & inside
        b = np.where(inside, b, 0)
        exact = a << b if name == "shift_left" else a >> b
    else:
        exact = _PLAIN[name](a, b)
    values = _wrap(dtype, exact)
    if not data and dtype in ("int32", "int64"):
        if wide:
            return _Data(exact, defined, data)
        defined = defined & (values == exact).astype(bool)  # indices must not overflow
    return _Data(values, defined, data)


def _divided(name: str, a: Array, b: Array) -> Array:
    down = a // b
    if name == "FloorDiv":
        return down
    if name == "FloorMod":
        return a - down * b
    quotient = np.where((a < 0) == (b < 0), abs(a) // abs(b), -(abs(a) // abs(b)))
    return quotient if name == "Div" else a - quotient * b


def _number(x: Array) -> Array:
    return x.astype(bool).astype(object) * 1


_PLAIN: dict[str, Any] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Min": lambda a, b: np.where(a < b, a, b),
    "Max": lambda a, b: np.where(a < b, b, a),
    "EQ": lambda a, b: _number(a == b),
    "NE": lambda a, b: _number(a != b),
    "LT": lambda a, b: _number(a < b),
    "LE": lambda a, b: _number(a <= b),
    "GT": lambda a, b: _number(a > b),
    "GE": lambda a, b: _number(a >= b),
    "And": lambda a, b: a & b,
    "Or": lambda a, b: a | b,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_not": lambda a, b: -a - 1,
}
