"""Index arithmetic: random expressions as indices, values and conditions, against Python's
integers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S

I, J, N = E.Var("i", "int32"), E.Var("j", "int32"), E.SizeVar("n", "int32")
W = E.Var("w", "int64")
Evaluate = Any


def random_index(rng: random.Random, depth: int) -> tuple[Any, Evaluate]:
    """An int32 expression in i, j, n and the function that computes it."""
    if depth == 0:
        kind = rng.randrange(4)
        if kind == 3:
            value = rng.randrange(-6, 20)
            return E.const(value), lambda v, value=value: value
        var = (I, J, N)[kind]
        return var, lambda v, var=var: v[var]
    a, fa = random_index(rng, depth - 1)
    b, fb = random_index(rng, rng.randrange(depth))
    c = rng.choice([1, 2, 3, 4, 7, 8])
    k = E.const(c)
    table: list[tuple[Any, Evaluate]] = [
        (E.Add(a, b), lambda v: fa(v) + fb(v)),
        (E.Sub(a, b), lambda v: fa(v) - fb(v)),
        (E.Mul(a, k), lambda v: fa(v) * c),
        (E.Min(a, b), lambda v: min(fa(v), fb(v))),
        (E.Max(a, b), lambda v: max(fa(v), fb(v))),
        (E.FloorDiv(a, k), lambda v: fa(v) // c),
        (E.FloorMod(a, k), lambda v: fa(v) % c),
        (E.Select(E.LT(a, b), a, b), lambda v: min(fa(v), fb(v))),
        (E.Call("int32", "tir.shift_right", (a, E.const(2))), lambda v: fa(v) >> 2),
        (E.Call("int32", "tir.bitwise_and", (a, E.const(15))), lambda v: fa(v) & 15),
        (E.Cast("int32", E.Cast("int64", a) + 1), lambda v: fa(v) + 1),
        (op.if_then_else(E.GE(a, b), a, b), lambda v: max(fa(v), fb(v))),
        (E.Call("int32", "tir.likely", (a,)), fa),
    ]
    return rng.choice(table)


@pytest.mark.parametrize("seed", range(12))
def test_random_expressions(program: Any, seed: int) -> None:
    """Five at once: each is stored at a place computed from itself, and counted where positive."""
    rng = random.Random(seed)
    listed = [random_index(rng, 4) for _ in range(5)]
    size = 64
    p = program(("int32", size), ("int32", 6 * 7), ("int64", 1))
    places, values, count = p.buffers
    body = []
    for k, (e, _) in enumerate(listed):
        at = E.FloorMod(e, E.const(size))
        add = S.BufferStore(count, E.BufferLoad(count, [0]) + E.Cast("int64", e), [0])
        body += [
            S.BufferStore(places, E.BufferLoad(places, [at]) + (k + 1), [at]),
            S.BufferStore(values, e * (k + 1) + E.BufferLoad(values, [I * 7 + J]), [I * 7 + J]),
            S.IfThenElse(E.GT(e, E.const(3)), add),
        ]
    loop = S.For(I, 0, 6, 0, S.For(J, 0, 7, 0, S.seq(body)))
    got: list[Any] = [np.zeros(size, np.int32), np.zeros(42, np.int32), np.zeros(1, np.int64)]
    p.compile(loop, N)(*got, 11)
    want_places, want_values, total = [0] * size, [0] * 42, 0
    for i in range(6):
        for j in range(7):
            for k, (_, f) in enumerate(listed):
                value = f({I: i, J: j, N: 11})
                want_places[value % size] += k + 1
                want_values[i * 7 + j] += value * (k + 1)
                total += value if value > 3 else 0
    np.testing.assert_array_equal(got[0], want_places)
    np.testing.assert_array_equal(got[1], want_values)
    assert got[2][0] == total


def test_wide_and_unsigned_indices(program: Any) -> None:
    p = program(("int32", 32))
    u = E.Var("u", "uint32")
    value = E.Cast("int32", u) + E.Cast("int32", W)
    at = E.Cast("int64", u) * E.const(4, "int64") + W
    inner = S.For(
        W, E.const(0, "int64"), E.const(4, "int64"), 0, S.BufferStore(p.buffers[0], value, [at])
    )
    p.compile(S.For(u, E.const(0, "uint32"), E.const(8, "uint32"), 0, inner))(
        out := np.zeros(32, "i4")
    )
    np.testing.assert_array_equal(out, [u + w for u in range(8) for w in range(4)])


def test_small_unsigned_indices_are_not_negative(program: Any) -> None:
    p = program(("uint8", 1), ("int32", 256))
    at = E.BufferLoad(p.buffers[0], [0])
    out = np.zeros(256, np.int32)
    p.compile(S.BufferStore(p.buffers[1], 5, [at]))(np.array([200], np.uint8), out)
    assert out[200] == 5


def test_vector_of_indices_modulo(program: Any) -> None:
    p = program(("int32", 16), ("int32", 16))
    at = E.FloorMod(E.Ramp(I * 4, 3, 4), E.Broadcast(E.const(16), 4))
    value = E.BufferLoad(p.buffers[0], [at])
    body = S.For(I, 0, 4, 0, S.BufferStore(p.buffers[1], value, [E.Ramp(I * 4, 1, 4)]))
    x, out = np.arange(16, dtype=np.int32) * 7, np.zeros(16, np.int32)
    p.compile(body)(x, out)
    np.testing.assert_array_equal(
        out, [x[(4 * i + 3 * k) % 16] for i in range(4) for k in range(4)]
    )


def test_differences_and_scaled_ramps(program: Any) -> None:
    p = program(("int32", 64), ("int32", 8))
    ramp, step = E.Ramp(0, 1, 8), E.Broadcast(N, 8)
    at = E.Sub(E.Add(E.Mul(step, ramp), E.Broadcast(E.const(9), 8)), ramp)
    wide = E.Cast("int64x8", at)
    body = S.BufferStore(p.buffers[1], E.BufferLoad(p.buffers[0], [wide]), [ramp])
    x, out = np.arange(64, dtype=np.int32) * 3, np.zeros(8, np.int32)
    module = p.compile(body, N)
    assert "gather" not in module.get_source("ll")
    for n in (1, 2, 5):
        module(x, out, n)
        np.testing.assert_array_equal(out, x[9 + (n - 1) * np.arange(8)])
