"""Random typed expressions, scalar and vector, against NumPy: mixed types, conversions, choices
that guard reads, on data for which every operation has one right answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.base.dtype import parse
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S

SIZE = 48
INTS = ["int8", "uint8", "int16", "int32", "int64", "uint32"]
TYPES = [*INTS, "float16", "bfloat16", "float32", "float64"]
COMPARE = [(E.LT, np.less), (E.GE, np.greater_equal), (E.EQ, np.equal)]
INPUTS = ["int8", "int32", "float32", "float16", "uint8"]
Value = tuple[Callable[[int], Any], np.ndarray]  # an expression for some lanes, and its values


def convert(x: np.ndarray, dtype: str) -> np.ndarray:
    """As tilewright converts: float to integer saturates, NaN gives 0."""
    t = parse(dtype)
    if x.dtype.kind in "iub" or t.is_float:
        return x.astype(t.numpy)
    wide = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e300, neginf=-1e300)
    exact = [min(max(int(v), int(t.min_value)), int(t.max_value)) for v in np.trunc(wide)]
    return np.array(exact, t.numpy)


def spread(number: int, lanes: int) -> Any:
    return E.const(number) if lanes == 1 else E.Broadcast(E.const(number), lanes)


class Generator:
    def __init__(self, seed: int, buffers: list[Any], arrays: list[np.ndarray]) -> None:
        self.rng = random.Random(seed)
        self.buffers = buffers
        self.arrays = arrays
        self.i = E.Var("i", "int32")

    def at(self, lanes: int) -> Any:
        return self.i if lanes == 1 else E.Ramp(self.i * lanes, 1, lanes)

    def leaf(self, dtype: str) -> Value:
        if self.rng.random() < 0.25:
            number = self.rng.randrange(0, 12)
            return (
                lambda n: E.const(number, parse(dtype).with_lanes(n)),
                np.full(SIZE, number, parse(dtype).numpy),
            )
        k = self.rng.randrange(len(self.buffers))
        b = self.buffers[k]
        return (
            lambda n: E.cast(parse(dtype).with_lanes(n), E.BufferLoad(b, [self.at(n)])),
            convert(self.arrays[k], dtype),
        )

    def condition(self, depth: int) -> Value:
        dtype = self.rng.choice(TYPES)
        (a, x), (b, y) = self.value(dtype, depth), self.value(dtype, depth)
        node, oracle = self.rng.choice(COMPARE)
        return lambda n: node(a(n), b(n)), oracle(x, y)

    def value(self, dtype: str, depth: int) -> Value:
        if depth == 0:
            return self.leaf(dtype)
        a, x = self.value(dtype, depth - 1)
        b, y = self.value(dtype, self.rng.randrange(depth))
        kind = self.rng.randrange(9)
        if kind <= 1:
            node, oracle = self.rng.choice([(E.Add, np.add), (E.Sub, np.subtract)])
            return lambda n: node(a(n), b(n)), oracle(x, y)
        if kind == 2:
            return lambda n: E.Mul(a(n), b(n)), x * y
        if kind == 3:
            node, oracle = self.rng.choice([(E.Min, np.minimum), (E.Max, np.maximum)])
            return lambda n: node(a(n), b(n)), oracle(x, y)
        if kind == 4:
            c, z = self.condition(depth - 1)
            return lambda n: E.Select(c(n), a(n), b(n)), np.where(z, x, y)
        if kind == 5:
            return self.guarded(dtype, a, x)
        if kind == 6 and parse(dtype).is_integer:
            return lambda n: op.bitwise_xor(a(n), b(n)), x ^ y
        if kind == 7 and parse(dtype).is_integer:
            shift = self.rng.randrange(1, 8)
            divided = x // x.dtype.type(shift)
            return lambda n: E.FloorDiv(a(n), E.cast(a(n).dtype, E.const(shift, dtype))), divided
        other = self.rng.choice(TYPES)
        c, z = self.value(other, depth - 1)
        return lambda n: E.cast(parse(dtype).with_lanes(n), c(n)), convert(z, dtype)

    def guarded(self, dtype: str, a: Callable[[int], Any], x: np.ndarray) -> Value:
        """A read far outside of its buffer, except where a condition holds."""
        k = self.rng.randrange(len(self.buffers))
        limit = self.rng.randrange(1, SIZE)

        def build(n: int) -> Any:
            at = self.at(n)
            inside = E.LT(at, spread(limit, n))
            place = at + E.Cast(at.dtype, E.Not(inside)) * spread(1 << 28, n)
            read = E.cast(parse(dtype).with_lanes(n), E.BufferLoad(self.buffers[k], [place]))
            return op.if_then_else(inside, read, a(n))

        return build, np.where(np.arange(SIZE) < limit, convert(self.arrays[k], dtype), x)


@pytest.mark.parametrize("seed", range(40))
def test_random_expressions(program: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(0, 9, SIZE).astype(parse(t).numpy) for t in INPUTS]
    out_type = random.Random(seed).choice(TYPES)
    p = program(*((t, SIZE) for t in INPUTS), (out_type, SIZE))
    generator = Generator(seed, p.buffers[:-1], arrays)
    with np.errstate(all="ignore"):
        build, want = generator.value(out_type, 4)
    for lanes in (1, 4, 16):
        body = S.BufferStore(p.buffers[-1], build(lanes), [generator.at(lanes)])
        out = np.zeros(SIZE, parse(out_type).numpy)
        p.compile(S.For(generator.i, 0, SIZE // lanes, 0, body))(*arrays, out)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(out.astype(np.float64), want.astype(np.float64))
