"""Integer expressions on NumPy: the values of an index for every thread and iteration at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..arith.analyzer import Analyzer
from ..arith.linear import detect_linear_equation
from ..base.deep import recursive
from ..loopir import expr as E
from ..loopir.expr import const_int
from ..loopir.visit import nodes

Values = Any  # a NumPy array of int64 or bool, or a Python number
Env = Mapping[E.Var, Values]

_DIVISIONS = (E.FloorMod, E.FloorDiv, E.Mod, E.Div)


class Unknown(Exception):
    """The expression has a variable without values, or reads memory."""


@recursive
def values_of(e: Any, env: Env) -> Values:
    """What an expression evaluates to where each variable has the (broadcast) values of `env`.

    Ramps give the value of their first lane. Raises Unknown.
    """
    rule = _RULES.get(type(e))
    if rule is None:
        raise Unknown
    return rule(e, env)


class Seen:
    """What is known of expressions that many ask about, by identity: conditions around accesses
    are long, and all accesses under one share it."""

    def __init__(self, threads: Env) -> None:
        """`threads`: variables that have several values, the same in all questions."""
        self.threads = threads
        self.used: dict[int, tuple[Any, dict[E.Var, None]]] = {}
        self.values: dict[tuple[int, ...], tuple[Any, Values]] = {}
        self.divided: dict[int, tuple[Any, list[tuple[int, list[E.Var]]]]] = {}
        self.linear: dict[int, tuple[Any, list[E.PrimExpr]]] = {}
        self.analyzer = Analyzer()  # is told nothing, so that its answers depend on no order
        self.differences: dict[tuple[int, int], tuple[Any, Any, Any]] = {}

    def variables(self, e: Any) -> dict[E.Var, None]:
        """The variables of an expression, as keys."""
        found = self.used.get(id(e))
        if found is None:
            used = dict.fromkeys(v for v in nodes(e) if isinstance(v, E.Var))
            found = self.used[id(e)] = (e, used)
        return found[1]

    def value(self, e: Any, known: Mapping[E.Var, int]) -> Values:
        """`values_of` for all threads, where other variables are numbers."""
        numbers = {v: known[v] for v in self.variables(e) if v in known}
        key = (id(e), *(x for v, n in numbers.items() for x in (id(v), n)))
        found = self.values.get(key)
        if found is None:
            try:
                value = values_of(e, {**self.threads, **numbers})
            except Unknown:
                value = None
            found = self.values[key] = (e, value)
        if found[1] is None:
            raise Unknown
        return found[1]

    def divisions(self, e: Any) -> list[tuple[int, list[E.Var]]]:
        """The constants by which something in an expression is divided, each with the variables of
        what is."""
        found = self.divided.get(id(e))
        if found is None:
            made = []
            for x in nodes(e):
                divisor = const_int(x.b) if type(x) in _DIVISIONS else None
                if divisor:
                    made.append((abs(divisor), list(self.variables(x.a))))
            found = self.divided[id(e)] = (e, made)
        return found[1]

    def coefficients(self, e: Any) -> list[E.PrimExpr]:
        """`detect_linear_equation` in the variables of the threads."""
        found = self.linear.get(id(e))
        if found is None:
            parts = detect_linear_equation(e, list(self.threads))
            found = self.linear[id(e)] = (e, parts)
        return found[1]

    def difference(self, x: Any, y: Any) -> Any:
        """x - y, simplified."""
        key = (id(x), id(y))
        found = self.differences.get(key)
        if found is None:
            found = self.differences[key] = (x, y, self.analyzer.simplify(x - y))
        return found[2]


def terms(e: Any, factor: int = 1) -> list[tuple[int, Any]]:
    """e as a sum of factor * term."""
    out: list[tuple[int, Any]] = []
    stack = [(factor, e)]
    while stack:
        k, x = stack.pop()
        kind = type(x)
        if kind is E.Add:
            stack += [(k, x.b), (k, x.a)]
        elif kind is E.Sub:
            stack += [(-k, x.b), (k, x.a)]
        elif kind is E.Mul and isinstance(x.b, E.IntImm):
            stack.append((k * x.b.value, x.a))
        elif kind is E.Mul and isinstance(x.a, E.IntImm):
            stack.append((k * x.a.value, x.b))
        else:
            out.append((k, x))
    return out


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
        if (b == 0) if type(b) is int else np.any(np.equal(b, 0)):
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


def _call(e: E.Call, env: Env) -> Values:
    name = e.op.name
    if name == "tir.likely":
        return values_of(e.args[0], env)
    if name == "tir.if_then_else":
        return _select(e.args[0], e.args[1], e.args[2], env)
    row = e.op.row
    if row.numpy is None or row.wide:
        raise Unknown
    return row.numpy(*[values_of(a, env) for a in e.args])


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
