"""Data wraps, indices do not: what the simplifier may and may not do with each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir
from tilewright.arith import Analyzer
from tilewright.loopir import expr as E
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.iter import Range

A = E.BufferLoad(decl_buffer((9,), "int32", "A"), (E.const(0),))
B = E.BufferLoad(decl_buffer((9,), "int32", "B"), (E.const(0),))
BYTE = E.BufferLoad(decl_buffer((9,), "int8", "C"), (E.const(0),))
i = E.Var("i")


def simplified(e: Any) -> str:
    analyzer = Analyzer()
    analyzer.bind(i, Range(0, 100))
    return str(analyzer.simplify(e))


@pytest.mark.parametrize(
    "e",
    [
        tir.min(A * 2, -2),
        A * 2 // 2,
        E.LT(A, A + 1),
        A // -8,
        A % -7,
        A - tir.max(A, -8),
        E.LT(A + 1, B + 1),
        A // B,
        E.FloorDiv(A * B, B),
        (A + 8) // 8,
    ],
)
def test_what_may_wrap_stays(e: Any) -> None:
    assert simplified(e) == str(e)


@pytest.mark.parametrize(
    ("e", "want"),
    [
        (A + 1 - A, "1"),  # a ring modulo 2^32
        (A * 3 + i * 4 - A * 2 - A, "i * 4"),
        ((A // 4) * 4 + A % 4, "A[0]"),
        (E.LT(E.FloorMod(A, 16) + 1, 18), "T.bool(True)"),  # bounded, so it does not wrap
        ((E.Cast("int32", BYTE) * 4 + 4) // 4, 'T.Cast("int32", C[0]) + 1'),
        (E.LT(E.Cast("int32", BYTE) + 1, E.Cast("int32", BYTE) + i + 1), "0 < i"),
        (E.EQ(E.FloorMod(A * 4 + 1, 2), 1), "T.bool(True)"),
        (A // 8 // 4, "A[0] // 32"),
        (E.FloorMod(A * 4, 2), "0"),
    ],
)
def test_what_does_not_wrap_is_simplified(e: Any, want: str) -> None:
    assert simplified(e) == want


@pytest.mark.parametrize("dtype", ("int32", "int64"))
def test_lets_of_data_wrap(dtype: str) -> None:
    """On every way from a program to code."""
    limits = np.iinfo(dtype)

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 3, name="n") as n:
            v = ib.let("v", x[n] + tir.const(1, dtype))
            y[n] = tir.Select(v > x[n], v // 2, v * 2)
        return ib.get()

    x = te.placeholder((3,), dtype, name="x")
    y = te.extern((3,), [x], body, dtype=dtype, name="y")
    a, b = np.array([limits.max, limits.min, 5], dtype), np.zeros(3, dtype)
    tw.build(te.create_schedule(y.op), [x, y], "llvm")(a, b)
    with np.errstate(over="ignore"):
        v = a + a.dtype.type(1)
        np.testing.assert_array_equal(b, np.where(v > a, v // 2, v * 2))


def test_gathers_add_data_and_indices() -> None:
    """An index made of data is computed in its own type, a sum of data and an index in 64 bits."""
    x = te.placeholder((64,), "int32", name="x")
    table = te.placeholder((16, 8), "int32", name="table")
    y = te.compute((64, 8), lambda n, j: table[(x[n] * 40503) >> 28 & 15, j], name="y")
    s = te.create_schedule(y.op)
    s[y].vectorize(y.op.axis[1])
    a = np.random.default_rng(0).integers(-(2**31), 2**31, 64).astype("int32")
    t, out = np.arange(128, dtype="int32").reshape(16, 8), np.zeros((64, 8), "int32")
    tw.build(s, [x, table, y], "llvm")(a, t, out)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out, t[(a * np.int32(40503)) >> 28 & 15])
