"""Random integer expressions and their values, for the fuzz tests of arith."""

from __future__ import annotations

import itertools
import random
from typing import Any

from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir.fold import trunc_div, wrap_int

Point = dict[E.Var, int]
SMALL = ("int8", "uint8", "uint32")

_EVAL: dict[type, Any] = {
    E.Add: lambda a, b: a + b,
    E.Sub: lambda a, b: a - b,
    E.Mul: lambda a, b: a * b,
    E.FloorDiv: lambda a, b: a // b,
    E.FloorMod: lambda a, b: a % b,
    E.Div: trunc_div,
    E.Mod: lambda a, b: a - b * trunc_div(a, b),
    E.Min: min,
    E.Max: max,
    E.EQ: lambda a, b: a == b,
    E.NE: lambda a, b: a != b,
    E.LT: lambda a, b: a < b,
    E.LE: lambda a, b: a <= b,
    E.GT: lambda a, b: a > b,
    E.GE: lambda a, b: a >= b,
    E.And: lambda a, b: bool(a) and bool(b),
    E.Or: lambda a, b: bool(a) or bool(b),
}


def value(e: Any, point: Point) -> Any:
    """The value of an expression at a point; lists for vectors."""
    t = type(e)
    if t in _EVAL:
        a, b = value(e.a, point), value(e.b, point)
        if isinstance(a, list):
            return [_EVAL[t](x, y) for x, y in zip(a, b, strict=True)]
        result = _EVAL[t](a, b)
        return wrap_int(e.dtype, result) if e.dtype in SMALL else result
    if isinstance(e, E.Var):
        return point[e]
    if t is E.IntImm:
        return e.value
    if t is E.Not:
        return not value(e.a, point)
    if t is E.Cast:
        return wrap_int(e.dtype, int(value(e.value, point)))
    if t is E.Select and isinstance(e.condition, E.PrimExpr) and "x" in e.condition.dtype:
        lanes = zip(*(value(part, point) for part in (e.condition, e.true_value, e.false_value)))
        return [yes if c else no for c, yes, no in lanes]
    if t is E.Select:
        return value(e.true_value if value(e.condition, point) else e.false_value, point)
    if t is E.Call and e.op.name == "tir.likely":
        return value(e.args[0], point)
    if t is E.Call and e.op.name == "tir.if_then_else":
        return value(e.args[1 if value(e.args[0], point) else 2], point)
    if t is E.Ramp:
        base, stride = value(e.base, point), value(e.stride, point)
        return [base + stride * i for i in range(e.lanes)]
    if t is E.Broadcast:
        return [value(e.value, point)] * e.lanes
    raise TypeError(f"no value of {t.__name__}")


def text(e: Any) -> str:
    """A readable form, for failing cases."""
    if isinstance(e, E.Var):
        return e.name
    if isinstance(e, E.IntImm):
        return str(e.value)
    parts = [text(getattr(e, f)) for f in e._fields if isinstance(getattr(e, f), E.PrimExpr)]
    if isinstance(e, E.Call):
        parts = [e.op.name, *(text(a) for a in e.args)]
    return f"{type(e).__name__}({', '.join(parts)})"


class Maker:
    """Random expressions over given variables."""

    def __init__(
        self, rng: random.Random, variables: list[E.Var], divisors: list[E.Var] | None = None
    ) -> None:
        self.rng = rng
        self.variables = variables
        self.divisors = divisors or []  # variables that are never zero

    def constant(self) -> int:
        return self.rng.choice((1, 2, 3, 4, 5, 6, 8, 12, 16, 32, -1, -2, -3, 0, 7))

    def divisor(self) -> int:
        return self.rng.choice((2, 3, 4, 4, 8, 8, 16, 6, 12, 5, 32, -3, -4))

    def integer(self, depth: int) -> Any:
        rng = self.rng
        if depth == 0 or rng.random() < 0.08:
            if rng.random() < 0.8:
                return rng.choice(self.variables)
            return E.const(self.constant())
        if rng.random() < 0.12:
            return self.digits(depth - 1)
        if rng.random() < 0.1:
            return self.strided(depth - 1)
        if self.divisors and rng.random() < 0.15:
            return self.by_variable(depth - 1)
        kind = rng.random()
        a = self.integer(depth - 1)
        if kind < 0.30:
            return a + self.integer(depth - 1)
        if kind < 0.42:
            return a - self.integer(depth - 1)
        if kind < 0.56:
            return a * self.constant()
        if kind < 0.59:
            return a * self.integer(min(depth - 1, 1))
        if kind < 0.70:
            return E.FloorDiv(a, E.const(self.divisor()))
        if kind < 0.81:
            return E.FloorMod(a, E.const(self.divisor()))
        if kind < 0.85:
            cls = rng.choice((E.Div, E.Mod))
            return cls(a, E.const(self.divisor()))
        if kind < 0.88:
            return self.narrow(depth - 1) if rng.random() < 0.5 else self.wide(depth - 1)
        if kind < 0.94:
            return rng.choice((op.min, op.max))(a, self.integer(depth - 1))
        build = rng.choice((op.select, op.if_then_else))
        return build(self.condition(depth - 1), a, self.integer(depth - 1))

    def digits(self, depth: int) -> Any:
        """A sum of digits of one number, which may fit together or just fail to."""
        rng = self.rng
        x = self.integer(min(depth, 1))
        places = rng.choice(((1, 4, 16), (1, 2, 8), (1, 3, 6), (1, 4, 12), (1, 6, 8)))
        total: Any = E.const(0)
        for _ in range(rng.randint(2, 3)):
            low, high = rng.choice(((0, 1), (1, 2), (0, 2), (0, None), (1, None), (2, None)))
            digit = x if high is None else x % places[high]
            digit = digit // places[low]
            k = places[low] if rng.random() < 0.8 else rng.choice(places)
            total = total + digit * (k * rng.choice((1, 1, 1, -1)))
        return total

    def strided(self, depth: int) -> Any:
        """A quotient or remainder of terms with strides that nearly fit the divisor."""
        rng = self.rng
        c = rng.choice((4, 6, 8, 12, 16))
        total: Any = E.const(rng.randint(-9, 20))
        for _ in range(rng.randint(1, 3)):
            total = total + self.integer(min(depth, 1)) * rng.choice(
                (1, 2, 4, c // 2, c, c * 2, -1)
            )
        return rng.choice((total // c, total % c))

    def by_variable(self, depth: int) -> Any:
        """Products with, and quotients and remainders by, a variable."""
        rng = self.rng
        d = rng.choice(self.divisors)
        a, b = self.integer(min(depth, 1)), self.integer(min(depth, 1))
        number = rng.choice((a * d + b, a * d * self.constant() + d, a, a + d * 2, (a + d) * d + b))
        by = rng.choice((d, d, d, d * 2, d + 1, d * d))
        return rng.choice((number, number // by, number % by, d * (number // d) + number % d))

    def narrow(self, depth: int) -> Any:
        """Arithmetic that wraps, seen as int32."""
        dtype = self.rng.choice(SMALL)
        a = E.cast(dtype, self.integer(depth))
        b = E.cast(dtype, self.integer(min(depth, 1)))
        e = self.rng.choice((a + b, a - b, a * b, op.min(a, b), op.max(a, b), a))
        return E.cast("int32", e) if dtype != "uint32" else op.select(e > b, 1, 0)

    def wide(self, depth: int) -> Any:
        """Arithmetic in int64, back in int32."""
        a = E.cast("int64", self.integer(depth))
        b = E.cast("int64", self.integer(min(depth, 1)))
        e = self.rng.choice((a + b, a - b, a * 3, a // 4, a % 8, op.min(a, b), op.max(a, b)))
        return E.cast("int32", e)

    def vector(self, depth: int, lanes: int) -> Any:
        """A vector of int32."""
        rng = self.rng
        if depth == 0:
            if rng.random() < 0.5:
                return E.Broadcast(self.integer(1), lanes)
            return E.Ramp(self.integer(1), rng.choice((1, 1, 2, 4, -1, 0)), lanes)
        a, b = self.vector(depth - 1, lanes), self.vector(depth - 1, lanes)
        kind = rng.random()
        if kind < 0.5:
            return rng.choice((a + b, a - b, a * self.constant(), op.min(a, b)))
        if kind < 0.8:
            cls = rng.choice((E.FloorDiv, E.FloorMod))
            return cls(a, E.Broadcast(E.const(abs(self.divisor())), lanes))
        return E.Select(self.lane_condition(a, b), a, b)

    def lane_condition(self, a: Any, b: Any) -> Any:
        cls = self.rng.choice((E.LT, E.LE, E.GT, E.GE, E.EQ, E.NE))
        return cls(a, b)

    def condition(self, depth: int) -> Any:
        rng = self.rng
        if depth > 0 and rng.random() < 0.25:
            kind = rng.random()
            if kind < 0.4:
                return op.all(self.condition(depth - 1), self.condition(depth - 1))
            if kind < 0.8:
                return op.any(self.condition(depth - 1), self.condition(depth - 1))
            return E.Not(self.condition(depth - 1))
        cls = rng.choice((E.LT, E.LE, E.GT, E.GE, E.EQ, E.NE, E.LT, E.LT))
        a = self.integer(depth)
        return cls(a, self.integer(depth) if rng.random() < 0.6 else E.const(self.constant()))


def points_of(ranges: dict[E.Var, tuple[int, int]], rng: random.Random, limit: int) -> list[Point]:
    """Points of a box, all of them if they are few."""
    sizes = 1
    for low, high in ranges.values():
        sizes *= high - low + 1
    if sizes <= limit:
        spans = [range(low, high + 1) for low, high in ranges.values()]
        return [dict(zip(ranges, p, strict=True)) for p in itertools.product(*spans)]
    return [{v: rng.randint(low, high) for v, (low, high) in ranges.items()} for _ in range(limit)]
