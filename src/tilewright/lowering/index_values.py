"""Integer expressions on NumPy: the values of an index for every thread and iteration at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..loopir import expr as E

Values = Any  # a NumPy array of int64 or bool, or a Python number
Env = Mapping[E.Var, Values]


class Unknown(Exception):
    """The expression has a variable without values, or reads memory."""


def values_of(e: Any, env: Env) -> Values:
    """What an expression evaluates to where each variable has the (broadcast) values of `env`.

    Ramps give the value of their first lane. Raises Unknown.
    """
    rule = _RULES.get(type(e))
    if rule is None:
        raise Unknown
    return rule(e, env)


def _var(e: E.Var, env: Env) -> Values:
    found = env.get(e)
    if found is None:
        raise Unknown
    return found


def _pair(op: Callable[[Any, Any], Any]) -> Callable[[Any, Env], Values]:
    def rule(e: Any, env: Env) -> Values:
        return op(values_of(e.a, env), values_of(e.b, env))

    return rule


def _divided(op: Callable[[Any, Any], Any]) -> Callable[[Any, Env], Values]:
    def rule(e: Any, env: Env) -> Values:
        b = values_of(e.b, env)
        if np.any(np.equal(b, 0)):
            raise Unknown
        return op(values_of(e.a, env), b)

    return rule


def _trunc_div(a: Any, b: Any) -> Any:
    q = np.abs(a) // np.abs(b)
    return np.where(np.less(a, 0) == np.less(b, 0), q, -q)


def _trunc_mod(a: Any, b: Any) -> Any:
    return a - _trunc_div(a, b) * b


def _select(c: Any, t: Any, f: Any, env: Env) -> Values:
    return np.where(values_of(c, env), values_of(t, env), values_of(f, env))


_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "tir.shift_left": np.left_shift,
    "tir.shift_right": np.right_shift,
    "tir.bitwise_and": np.bitwise_and,
    "tir.bitwise_or": np.bitwise_or,
    "tir.bitwise_xor": np.bitwise_xor,
}


def _call(e: E.Call, env: Env) -> Values:
    name = e.op.name
    if name == "tir.likely":
        return values_of(e.args[0], env)
    if name == "tir.if_then_else":
        return _select(e.args[0], e.args[1], e.args[2], env)
    op = _CALLS.get(name)
    if op is None:
        raise Unknown
    return op(values_of(e.args[0], env), values_of(e.args[1], env))


def _cast(e: E.Cast, env: Env) -> Values:
    if "int" not in e.dtype or "int" not in e.value.dtype:
        raise Unknown
    return values_of(e.value, env)


_RULES: dict[type, Callable[[Any, Env], Values]] = {
    E.IntImm: lambda e, env: e.value,
    E.Var: _var,
    E.SizeVar: _var,
    E.Add: _pair(np.add),
    E.Sub: _pair(np.subtract),
    E.Mul: _pair(np.multiply),
    E.FloorDiv: _divided(np.floor_divide),
    E.FloorMod: _divided(np.mod),
    E.Div: _divided(_trunc_div),
    E.Mod: _divided(_trunc_mod),
    E.Min: _pair(np.minimum),
    E.Max: _pair(np.maximum),
    E.EQ: _pair(np.equal),
    E.NE: _pair(np.not_equal),
    E.LT: _pair(np.less),
    E.LE: _pair(np.less_equal),
    E.GT: _pair(np.greater),
    E.GE: _pair(np.greater_equal),
    E.And: _pair(np.logical_and),
    E.Or: _pair(np.logical_or),
    E.Not: lambda e, env: np.logical_not(values_of(e.a, env)),
    E.Select: lambda e, env: _select(e.condition, e.true_value, e.false_value, env),
    E.Cast: _cast,
    E.Ramp: lambda e, env: values_of(e.base, env),
    E.Broadcast: lambda e, env: values_of(e.value, env),
    E.Call: _call,
}
