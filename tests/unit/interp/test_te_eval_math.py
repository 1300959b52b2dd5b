"""te_eval on rounding, mathematical functions, bits and casts."""

import ml_dtypes
import numpy as np
import pytest

from tests.unit.interp.te_kit import RNG, one
from tilewright import te
from tilewright.loopir.op import (
    copysign,
    fma,
    hypot,
    ldexp,
    nextafter,
    q_multiply_shift,
    reinterpret,
)


def test_float16_and_bfloat16_round_after_every_operation():
    x = RNG.standard_normal(200)
    for dtype, kind in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
        a = te.placeholder((200,), dtype, name="a")
        v = x.astype(kind)
        t = te.compute((200,), lambda i, a=a: a[i] * a[i] + a[i])
        result = one(t, {a: v})
        assert result.dtype == kind
        np.testing.assert_array_equal(result, v * v + v)
        wide = one(t, {a: v}, dtype_mode="wide")
        assert wide.dtype == np.float64
        np.testing.assert_array_equal(wide, v.astype("float64") ** 2 + v.astype("float64"))


def test_float64_to_bfloat16_rounds_once():
    # just above half way between two bfloat16 values, by less than float32 can see
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, 1 + 3 * 2.0**-8, -(1 + 2.0**-8 + 2.0**-40)])
    a = te.placeholder((4,), "float64", name="a")
    t = te.compute((4,), lambda i: a[i].astype("bfloat16"))
    expected = [1 + 2.0**-7, 1.0, 1 + 2.0**-6, -(1 + 2.0**-7)]
    assert one(t, {a: x}).astype("float64").tolist() == expected


MATH = {
    "exp": np.exp, "exp2": np.exp2, "tanh": np.tanh, "log": np.log, "log2": np.log2,
    "log10": np.log10, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "atan": np.arctan, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "nearbyint": np.rint, "abs": np.abs, "asinh": np.arcsinh,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(MATH))
def test_functions_are_rounded_once(name):
    a = te.placeholder((64,), name="a")
    x = (RNG.random(64) * 5 + 0.1).astype("float32")
    t = te.compute((64,), lambda i: getattr(te, name)(a[i]))
    expected = MATH[name](x.astype("float64"))
    np.testing.assert_array_equal(one(t, {a: x}), expected.astype("float32"))
    np.testing.assert_array_equal(one(t, {a: x}, dtype_mode="wide"), expected)


def test_more_functions():
    a, x = te.placeholder((7,), name="a"), np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0], "float32")
    f = {
        te.round: [-3, -2, -1, 1, 2, 3, 0],
        te.sigmoid: 1 / (1 + np.exp(-x.astype("float64"))),
        te.erf: [-0.999593, -0.966105, -0.520500, 0.520500, 0.966105, 0.999593, 0],
    }
    for function, expected in f.items():
        t = te.compute((7,), lambda i, g=function: g(a[i]))
        np.testing.assert_allclose(one(t, {a: x}), expected, rtol=1e-5)
    t = te.compute((7,), lambda i: te.power(te.abs(a[i]), 3.0) + te.fmod(a[i], 2.0))
    np.testing.assert_allclose(one(t, {a: x}), np.abs(x) ** 3 + np.fmod(x, 2))
    special = np.array([np.nan, np.inf, -np.inf, 1.0, -0.0, 2.0, 3.0], "float32")
    for function, expected in (
        (te.isnan, np.isnan),
        (te.isinf, np.isinf),
        (te.isfinite, np.isfinite),
    ):
        t = te.compute((7,), lambda i, g=function: g(a[i]))
        np.testing.assert_array_equal(one(t, {a: special}), expected(special))
    t = te.compute((7,), lambda i: te.max(a[i], 0.0))
    np.testing.assert_array_equal(one(t, {a: special}), np.maximum(special, 0))


def test_bits():
    a = te.placeholder((5,), "int32", name="a")
    x = np.array([0, 1, -1, 0x0F0F, -(2**31)], dtype="int32")
    assert one(te.compute((5,), lambda i: te.popcount(a[i])), {a: x}).tolist() == [0, 1, 32, 8, 1]
    assert one(te.compute((5,), lambda i: te.clz(a[i])), {a: x}).tolist() == [32, 31, 0, 20, 0]
    t = te.compute((5,), lambda i: reinterpret("float32", a[i]))
    np.testing.assert_array_equal(one(t, {a: x}), x.view("float32"))
    t = te.compute((5,), lambda i: (a[i] >> 2) ^ (a[i] << 1) | ~a[i])
    np.testing.assert_array_equal(one(t, {a: x}), (x >> 2) ^ (x << 1) | ~x)


def test_rarer_functions():
    a, b = te.placeholder((5,), "int32", name="a"), te.placeholder((5,), name="b")
    x = np.array([100, -7, 3, 0, 2**20], dtype="int32")
    y = np.array([1.5, -2.0, 0.0, 8.0, 0.25], dtype="float32")
    t = te.compute((5,), lambda i: q_multiply_shift(a[i], te.const(3 << 27), 31, 3))
    exact = [(int(v) * (3 << 27) + (1 << 27)) >> 28 for v in x]
    assert one(t, {a: x}).tolist() == exact
    t = te.compute((5,), lambda i: ldexp(b[i], 3) + fma(b[i], b[i], b[i]))
    np.testing.assert_array_equal(one(t, {b: y}), y * 8 + (y * y + y))
    t = te.compute((5,), lambda i: nextafter(b[i], te.const(9.0, "float32")))
    np.testing.assert_array_equal(one(t, {b: y}), np.nextafter(y, np.float32(9)))
    t = te.compute((5,), lambda i: hypot(b[i], b[i]) + copysign(b[i], -b[i]) + te.exp10(b[i] * 0.5))
    wide = y.astype("float64")
    np.testing.assert_allclose(
        one(t, {b: y}), np.hypot(wide, wide) - wide + 10 ** (wide / 2), rtol=1e-6
    )
    large = np.array([0, 1.5, 2.0**63, 2.0**63 + 4096, 1e19], "float64")
    c = te.placeholder((5,), "float64", name="c")
    t = te.compute((5,), lambda i: c[i].astype("uint64"))
    assert one(t, {c: large}).tolist() == [0, 1, 2**63, 2**63 + 4096, 10**19]
    t = te.compute((5,), lambda i: te.likely(b[i] > 0))
    np.testing.assert_array_equal(one(t, {b: y}), y > 0)


def test_bfloat16_neighbours():
    a = te.placeholder((6,), "bfloat16", name="a")
    x = np.array([1.0, -1.0, 0.0, 2.0, -0.5, np.nan]).astype(ml_dtypes.bfloat16)
    up = te.compute((6,), lambda i: nextafter(a[i], te.const(9.0, "bfloat16")))
    expected = [1 + 2.0**-7, -1 + 2.0**-8, 2.0**-133, 2 + 2.0**-6, -0.5 + 2.0**-9]
    got = one(up, {a: x}).astype("float64")
    assert got[:5].tolist() == expected and np.isnan(got[5])
    t = te.compute((6,), lambda i: te.max(a[i], te.const(0.0, "bfloat16")))
    assert one(t, {a: x}).astype("float64")[:5].tolist() == [1, 0, 0, 2, 0]


def test_casts():
    a = te.placeholder((6,), name="a")
    x = np.array([1.9, -1.9, 0.0, 300.0, -0.5, 2.5], "float32")
    assert one(te.compute((6,), lambda i: a[i].astype("int32")), {a: x}).tolist() == [
        1,
        -1,
        0,
        300,
        0,
        2,
    ]
    assert one(te.compute((6,), lambda i: a[i].astype("bool")), {a: x}).tolist() == [
        True, True, False, True, True, True,
    ]  # fmt: skip
    assert one(te.compute((6,), lambda i: (a[i] > 0).astype("float32")), {a: x}).tolist() == [
        1, 0, 0, 1, 0, 1,
    ]  # fmt: skip
