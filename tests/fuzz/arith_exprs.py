"""Expressions for the arithmetic fuzzer: data and indices of all integer types, at the extremes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.base.dtype import parse
from tilewright.loopir import expr as E
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.fold import wrap_int
from tilewright.loopir.visit import nodes

TYPES = ("int32", "int32", "int32", "int64", "int64", "int8", "uint8", "int16", "uint32", "uint64")
NARROW_TYPES = tuple(t for t in TYPES if t != "int16")
COMPARE = (E.LT, E.LE, E.GT, E.GE, E.EQ, E.NE, E.LT, E.LE)
DIVIDE = (E.FloorDiv, E.FloorMod, E.Div, E.Mod, E.FloorDiv, E.FloorMod)
_MOST, _FEW = 1024, 160  # points: all of them, or some


@dataclass
class Drawn:
    """One case: an expression, the ranges of its indices, conditions that are known."""

    expr: Any = None
    ranges: dict[E.Var, tuple[int, int]] = field(default_factory=dict)
    constraints: list[Any] = field(default_factory=list)


def draw(rng: random.Random, narrow: bool) -> Drawn:
    """A case; `narrow` where types have few bits."""
    case = Drawn()
    for name, dtype in (("i", "int32"), ("j", "int32"), ("k", "int64")):
        low = rng.choice((0, 0, 0, 1, -1)) if narrow else rng.choice((0, 0, 0, 1, -3, 7))
        size = rng.choice((2, 3)) if narrow else rng.choice((2, 3, 8, 16, 17))
        case.ranges[E.Var(name, dtype)] = (low, size)
    maker = Maker(rng, case, narrow)
    if rng.random() < 0.2:
        case.constraints = [maker.condition(1) for _ in range(rng.randint(1, 2))]
    case.expr = maker.any(rng.randint(2, 4))
    return case


class Maker:
    """Draws expressions."""

    def __init__(self, rng: random.Random, case: Drawn, narrow: bool) -> None:
        self.rng = rng
        self.narrow = narrow
        self.types = NARROW_TYPES if narrow else TYPES
        self.variables = list(case.ranges)
        self.reads: dict[tuple[str, int], Any] = {}
        self.constants = rng.choice((0.1, 0.1, 0.5))  # of leaves that are constants
        self.share = rng.choice((0.0, 0.3, 0.6, 0.9))  # of leaves that are indices

    def any(self, depth: int) -> Any:
        if self.rng.random() < 0.25:
            return self.condition(depth - 1)
        return self.number(self.rng.choice(self.types), depth)

    def read(self, dtype: str) -> Any:
        key = dtype, self.rng.randint(0, 1)
        if key not in self.reads:
            buffer = decl_buffer((1,), dtype, f"{dtype}_{key[1]}")
            self.reads[key] = E.BufferLoad(buffer, (E.const(0),))
        return self.reads[key]

    def constant(self, dtype: str) -> Any:
        t, rng = parse(dtype), self.rng
        kind = rng.random()
        if kind < 0.6:
            value: Any = rng.choice((0, 1, 2, 3, 4, 8, -1, -2, -3, -7, -8, 5))
        elif kind < 0.8:
            value = (1 << rng.randrange(t.bits)) * rng.choice((1, -1)) + rng.choice((-1, 0, 1))
        else:
            value = rng.choice((t.min_value, t.max_value)) + rng.choice((-1, 0, 1))
        span = 1 << t.bits
        value = (int(value) - int(t.min_value)) % span + int(t.min_value)
        return E.IntImm(dtype, value)

    def leaf(self, dtype: str) -> Any:
        rng = self.rng
        if rng.random() < self.constants:
            return self.constant(dtype)
        own = [v for v in self.variables if v.dtype == dtype]
        if own and rng.random() < self.share:
            return rng.choice(own)
        return self.read(dtype)

    def number(self, dtype: str, depth: int) -> Any:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.08:
            return self.leaf(dtype)
        if rng.random() < 0.3:
            return self.shaped(dtype, depth - 1)
        kind = rng.random()
        a = self.number(dtype, depth - 1)
        if kind < 0.40:
            cls = rng.choice((E.Add, E.Add, E.Sub, E.Mul, E.Min, E.Max))
            return cls(a, self.number(dtype, depth - 1))
        if kind < 0.48:
            return E.Mul(a, self.constant(dtype))
        if kind < 0.66:
            by = self.constant(dtype) if rng.random() < 0.7 else self.number(dtype, depth - 1)
            return rng.choice(DIVIDE)(a, by)
        if kind < 0.74:
            return self.bits(dtype, a, depth - 1)
        if kind < 0.86:
            source = rng.choice((*self.types, "bool"))
            if source == dtype:
                return a
            return E.Cast(dtype, self.of(source, depth - 1))
        c, b = self.condition(depth - 1), self.number(dtype, depth - 1)
        if rng.random() < 0.5:
            return E.Select(c, a, b)
        return E.Call(dtype, "tir.if_then_else", (c, a, b))

    def of(self, dtype: str, depth: int) -> Any:
        return self.condition(depth) if dtype == "bool" else self.number(dtype, depth)

    def bits(self, dtype: str, a: Any, depth: int) -> Any:
        rng, width = self.rng, parse(dtype).bits
        name = rng.choice(("and", "or", "xor", "not", "left", "right"))
        if name in ("left", "right"):
            by = E.IntImm(dtype, rng.choice((0, 1, 2, width - 1, rng.randrange(width))))
            return E.Call(dtype, f"tir.shift_{name}", (a, by))
        if name == "not":
            return E.Call(dtype, "tir.bitwise_not", (a,))
        b = self.constant(dtype) if rng.random() < 0.6 else self.number(dtype, depth)
        return E.Call(dtype, f"tir.bitwise_{name}", (a, b))

    def shaped(self, dtype: str, depth: int) -> Any:
        """Expressions as the rules of the simplifier look for them."""
        rng = self.rng
        x, y = self.number(dtype, min(depth, 1)), self.number(dtype, min(depth, 1))
        c, d = self.constant(dtype), self.constant(dtype)
        kind = rng.randrange(16)
        extreme, division = rng.choice((E.Min, E.Max)), rng.choice(DIVIDE)
        if kind == 0:
            return division(E.Add(E.Mul(x, c), y), rng.choice((c, d)))
        if kind == 1:
            return E.Add(E.Mul(E.FloorDiv(x, c), c), E.FloorMod(x, rng.choice((c, c, d))))
        if kind == 2:
            return E.Sub(E.FloorDiv(E.Add(x, d), c), E.FloorDiv(x, c))
        if kind == 3:
            return E.Add(E.Mul(E.FloorDiv(x, y), y), E.FloorMod(x, y))
        if kind == 4:
            return E.Sub(x, extreme(E.Add(x, c), rng.choice((d, y, E.Add(x, d)))))
        if kind == 5:
            return extreme(E.Add(x, c), rng.choice((E.Add(x, d), E.Add(x, y), E.Mul(x, d))))
        if kind == 6:
            return extreme(E.Mul(x, c), rng.choice((E.Mul(y, c), d, E.Mul(x, d))))
        if kind == 7:
            return division(division(x, c), d)
        if kind == 8:
            return E.FloorDiv(E.FloorMod(x, c), d)
        if kind == 9:
            return E.Sub(E.Add(x, y), rng.choice((x, y, E.Add(x, c))))
        if kind == 10:
            return division(E.Mul(x, y), rng.choice((x, y)))
        if kind == 11:
            return extreme(extreme(x, y), rng.choice((x, E.Add(y, c))))
        if kind == 13:
            low = E.IntImm(dtype, rng.choice((0, 1, 2)))
            total = rng.choice((E.Add, E.Mul))(E.Max(x, low), E.Max(y, low))
            return rng.choice((E.FloorDiv, E.FloorMod))(total, rng.choice((c, E.IntImm(dtype, 3))))
        if kind == 14:
            return self.small(dtype, x, y)
        if kind == 12:
            return E.Add(E.Mul(E.FloorMod(x, c), d), E.Mul(E.FloorDiv(x, c), E.Mul(c, d)))
        return division(E.Sub(c, x), d)

    def small(self, dtype: str, x: Any, y: Any) -> Any:
        """Sums of numbers that a wider type holds, or that are small for their own."""
        rng = self.rng
        cls = rng.choice((E.Add, E.Sub, E.Mul, E.Min))
        if dtype == "int32" and rng.random() < 0.5:
            return E.Cast(dtype, cls(E.Cast("int64", x), E.Cast("int64", y)))
        a, b = (E.Cast(dtype, self.leaf(rng.choice(("int8", "uint8")))) for _ in range(2))
        if parse(dtype).bits <= 8:
            return cls(x, y)
        half = 1 << parse(dtype).bits - 2
        large = E.IntImm(dtype, wrap_int(dtype, rng.choice((half, half + 1, 1 - half))))
        return cls(a, rng.choice((self.constant(dtype), large, b, x)))

    def shared(self, dtype: str) -> list[Any]:
        """Two sums with the same number, added to the one and taken from the other: both fit, what
        stands on one side when they meet need not."""
        rng, bits = self.rng, parse(dtype).bits
        y, z = (E.Cast(dtype, self.leaf(rng.choice(("int8", "uint8")))) for _ in range(2))
        x: Any = E.Cast(dtype, self.leaf(rng.choice(("int8", "uint8"))))
        if bits > 2 * parse("int8").bits:
            x = E.Mul(x, E.IntImm(dtype, 1 << bits - 1 - parse("int8").bits))
        sides = [rng.choice((x, E.Add(x, y))), E.Sub(rng.choice((z, self.constant(dtype))), x)]
        rng.shuffle(sides)
        return sides

    def condition(self, depth: int) -> Any:
        rng = self.rng
        if depth > 0 and rng.random() < 0.25:
            kind = rng.random()
            a = self.condition(depth - 1)
            if kind < 0.25:
                return E.Not(a)
            return (E.And if kind < 0.6 else E.Or)(a, self.condition(depth - 1))
        if rng.random() < 0.05:
            return self.read("bool")
        dtype = rng.choice(self.types)
        a, cls = self.number(dtype, depth), rng.choice(COMPARE)
        kind = rng.random()
        if kind < 0.3:
            return cls(E.Add(a, self.constant(dtype)), E.Add(a, self.constant(dtype)))
        if kind < 0.45:
            c = self.constant(dtype)
            return cls(E.Mul(a, c), rng.choice((E.Mul(self.leaf(dtype), c), self.constant(dtype))))
        if kind < 0.6:
            small = self.small(dtype, a, a)
            sides = [small, rng.choice((self.leaf(dtype), a, self.small(dtype, a, small)))]
            rng.shuffle(sides)
            return cls(*sides)
        if kind < 0.67:
            return cls(*self.shared(dtype))
        if kind < 0.75:
            return cls(a, self.constant(dtype))
        return cls(a, self.number(dtype, depth))


def _values(dtype: str, rng: random.Random, count: int) -> list[int]:
    """Values of a type: all, if they are few; else its extremes and some between."""
    t = parse(dtype)
    low, high = int(t.min_value), int(t.max_value)
    if high - low < count:
        return list(range(low, high + 1))
    near = [low, low + 1, high - 1, high, 0, 1, 2, low // 2, high // 2]
    near += [-1, -2, -8] if low else [128, 255]
    near += [(1 << rng.randrange(t.bits - 1)) * rng.choice((1, -1 if low else 1)) for _ in range(4)]
    near += [rng.randint(low, high) for _ in range(4)] + [rng.randint(0, 40) for _ in range(3)]
    return [v for v in near if low <= v <= high]


def points(case: Drawn, e: Any, rng: random.Random) -> dict[Any, Any]:
    """Values of all variables and buffers: every combination, or some of them."""
    axes: dict[Any, Any] = {}
    for root in (e, *case.constraints):
        for x in nodes(root):
            if isinstance(x, E.BufferLoad):
                axes[x.buffer] = _values(x.buffer.dtype, rng, 16 if len(axes) < 3 else 8)
            elif isinstance(x, E.Var):
                low, size = case.ranges[x]
                axes[x] = list(range(low, low + size))
    choices = [np.array(v, dtype=object) for v in axes.values()] or [np.zeros(1, object)]
    total = int(np.prod([len(c) for c in choices], dtype=object))
    if total <= _MOST:
        picks = np.indices([len(c) for c in choices]).reshape(len(choices), -1)
    else:
        draws = np.random.default_rng(rng.getrandbits(32))
        picks = np.array([draws.integers(len(c), size=_FEW) for c in choices])
    return {k: c[p] for k, c, p in zip(axes or {"": 0}, choices, picks, strict=True)}


def text(e: Any) -> str:
    """A readable form that shows types."""
    if isinstance(e, E.Var):
        return e.name
    if isinstance(e, E.IntImm):
        return f"{e.value}" if e.dtype == "int32" else f"{e.dtype}({e.value})"
    if isinstance(e, E.BufferLoad):
        return str(e.buffer.name)
    if isinstance(e, E.Cast):
        return f"{e.dtype}({text(e.value)})"
    if isinstance(e, E.Call):
        return f"{e.op.name.removeprefix('tir.')}({', '.join(text(a) for a in e.args)})"
    if isinstance(e, E.Select):
        return f"Select({text(e.condition)}, {text(e.true_value)}, {text(e.false_value)})"
    if isinstance(e, E.Not):
        return f"Not({text(e.a)})"
    return f"{type(e).__name__}({text(e.a)}, {text(e.b)})"
