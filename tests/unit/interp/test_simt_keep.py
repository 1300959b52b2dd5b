"""Values of expressions that simt keeps until a variable of them changes."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.unit.interp.simt_kernels import make_kernel, zeros
from tilewright import tir
from tilewright.interp import np_ops
from tilewright.interp.simt import run_kernel
from tilewright.loopir import expr as E

I32 = ("int32", 32)


@pytest.fixture
def counted(monkeypatch):
    """How often each kind of division is computed."""
    count: Counter[Any] = Counter()
    for kind in (E.FloorDiv, E.FloorMod):
        f = np_ops.BINARY[kind]

        def counting(a, b, kind=kind, f=f):
            count[kind] += 1
            return f(a, b)

        monkeypatch.setitem(np_ops.BINARY, kind, counting)
    return count


def test_conditions_of_loops_outside(counted):
    def write(ib, k):
        with (
            ib.for_range(0, 3, name="i") as i,
            ib.for_range(0, 5, name="j"),
            ib.for_range(0, 7, name="l"),
            ib.if_scope(tir.floordiv(k.tx * 3 + i * 2 + 1, 5) < 6),
        ):
            k.A[k.tx] = k.A[k.tx] + 1

    a = zeros(32, "int32")
    run_kernel(make_kernel(write, {"A": I32}), None, [a])
    t = np.arange(32)
    np.testing.assert_array_equal(a, sum(35 * ((t * 3 + i * 2 + 1) // 5 < 6) for i in range(3)))
    assert counted[E.FloorDiv] == 3


def test_expressions_alike_are_computed_once(counted):
    def write(ib, k):
        with ib.for_range(0, 4, name="i") as i:
            for c in range(6):
                at = tir.floormod((k.tx * 3 + i * 5 + 7) * 11 + k.tx * 2 + i * 4 + 1, 29)
                k.A[k.tx] = k.A[k.tx] + at * (c + 1)

    a = zeros(32, "int32")
    run_kernel(make_kernel(write, {"A": I32}), None, [a])
    t = np.arange(32)
    part = sum(((t * 3 + i * 5 + 7) * 11 + t * 2 + i * 4 + 1) % 29 for i in range(4))
    np.testing.assert_array_equal(a, part * 21)
    assert counted[E.FloorMod] == 4


def test_loops_one_after_another_and_lets(counted):
    """Variables change: again from the start, by a let in a loop, by steps that differ."""

    def write(ib, k):
        with ib.for_range(0, 2, name="r") as r, ib.for_range(0, k.tx % 3 + 1, name="i") as i:
            v = ib.let("v", k.A[k.tx] * 2 + i)
            with ib.for_range(0, 2, name="j"):
                k.A[k.tx] = k.A[k.tx] + tir.floormod(v * 3 + r * 5 + i * 7 + k.tx, 13)

    a = zeros(32, "int32")
    run_kernel(make_kernel(write, {"A": I32}), None, [a])
    expected = []
    for t in range(32):
        x = 0
        for r in range(2):
            for i in range(t % 3 + 1):
                v = x * 2 + i
                x += 2 * ((v * 3 + r * 5 + i * 7 + t) % 13)
        expected.append(x)
    np.testing.assert_array_equal(a, expected)
    assert counted[E.FloorMod] <= 2 * 3 + 1  # one for k.tx % 3
