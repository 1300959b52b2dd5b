"""te_eval against plain NumPy, on many programs and hostile shapes."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from tilewright import te
from tilewright.base.errors import TilewrightError
from tilewright.interp import te_reduce
from tilewright.interp.te_eval import te_eval
from tilewright.loopir import ir_builder
from tilewright.loopir.expr import Let, Select, Var
from tilewright.loopir.op import (
    call_extern,
    call_packed,
    call_pure_extern,
    copysign,
    fma,
    hypot,
    ldexp,
    nextafter,
    q_multiply_shift,
    reinterpret,
)

RNG = np.random.default_rng(7)


def ints(*shape, dtype="float32", low=-8, high=9):
    return RNG.integers(low, high, shape).astype(dtype)


def one(tensor, feeds, **kwargs):
    (result,) = te_eval(tensor, feeds, **kwargs)
    return result


SIZES = [0, 1, 2, 7, 13]


@pytest.mark.parametrize(("n", "m", "l"), list(itertools.product([0, 1, 5], [0, 1, 3], SIZES)))
def test_matmul_of_every_extent(n, m, l):
    a, b = te.placeholder((n, l), name="a"), te.placeholder((l, m), name="b")
    k = te.reduce_axis((0, l), "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))
    x, y = ints(n, l), ints(l, m)
    np.testing.assert_array_equal(one(c, {a: x, b: y}), x @ y)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint32", "uint64"])
def test_integers_wrap(dtype):
    a = te.placeholder((50,), dtype, name="a")
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, 50, dtype=dtype, endpoint=True)
    k = te.reduce_axis((0, 50), "k")
    with np.errstate(all="ignore"):
        for t, expected in [
            (te.compute((50,), lambda i: a[i] + a[i] * a[i]), x + x * x),
            (te.compute((50,), lambda i: a[i] - a[49 - i]), x - x[::-1]),
            (te.compute((), lambda: te.sum(a[k], axis=k)), x.sum(dtype=dtype)),
            (te.compute((), lambda: te.prod(a[k], axis=k)), x.prod(dtype=dtype)),
            (te.compute((), lambda: te.max(a[k], axis=k)), x.max()),
            (te.compute((), lambda: te.min(a[k], axis=k)), x.min()),
            (te.compute((50,), lambda i: a[i].astype("int8")), x.astype("int8")),
            (te.compute((50,), lambda i: a[i] & a[49 - i]), x & x[::-1]),
        ]:
            result = one(t, {a: x})
            assert result.dtype == expected.dtype
            np.testing.assert_array_equal(result, expected)


def test_the_four_divisions():
    p = np.array([7, -7, 7, -7, 0, 6, -6, 2**31 - 1], dtype="int32")
    q = np.array([2, 2, -2, -2, 5, 3, 3, 7], dtype="int32")
    a, b = te.placeholder((8,), "int32", name="a"), te.placeholder((8,), "int32", name="b")
    exact = [(int(x), int(y)) for x, y in zip(p, q)]
    trunc = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in exact]
    cases = [
        (te.floordiv, [x // y for x, y in exact]),
        (te.floormod, [x % y for x, y in exact]),
        (te.truncdiv, trunc),
        (te.truncmod, [x - t * y for (x, y), t in zip(exact, trunc)]),
        (te.div, trunc),
    ]
    for f, expected in cases:
        np.testing.assert_array_equal(
            one(te.compute((8,), lambda i, f=f: f(a[i], b[i])), {a: p, b: q}), expected
        )


def test_padded_strided_dilated_convolution():
    x, w = ints(2, 3, 9, 8), ints(4, 3, 3, 2)
    a, f = te.placeholder(x.shape, name="a"), te.placeholder(w.shape, name="f")
    p = te.compute(
        (2, 3, 11, 10),
        lambda n, c, i, j: te.if_then_else(
            te.all(i >= 1, i < 10, j >= 1, j < 9), a[n, c, i - 1, j - 1], 0.0
        ),
    )
    axes = [te.reduce_axis((0, e), s) for e, s in ((3, "c"), (3, "r"), (2, "s"))]
    c, r, s = axes
    y = te.compute(
        (2, 4, 4, 7),
        lambda n, o, i, j: te.sum(p[n, c, i * 2 + r * 2, j + s * 3] * f[o, c, r, s], axis=axes),
    )
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.zeros((2, 4, 4, 7), "float32")
    for i, j, u, v in np.ndindex(4, 7, 3, 2):
        patch = padded[:, :, i * 2 + u * 2, j + v * 3]
        expected[:, :, i, j] += patch @ w[:, :, u, v].T
    np.testing.assert_array_equal(one(y, {a: x, f: w}), expected)


def test_reductions_in_blocks_agree(monkeypatch):
    """With a tiny block size every path cuts its axes."""
    a = te.placeholder((5, 6, 7), name="a")
    x = ints(5, 6, 7)
    i, j = te.reduce_axis((0, 6), "i"), te.reduce_axis((0, 7), "j")
    programs = [
        (te.compute((5,), lambda n: te.sum(a[n, i, j], axis=[i, j])), x.sum((1, 2))),
        (te.compute((5,), lambda n: te.max(a[n, i, j], axis=[i, j])), x.max((1, 2))),
        (
            te.compute((5, 5), lambda n, m: te.sum(a[n, i, j] * a[m, i, j], axis=[j, i])),
            np.einsum("nij,mij->nm", x, x),
        ),
        (
            te.compute((5,), lambda n: te.sum(a[n, i, j], axis=[i, j], where=i + j < 6)),
            np.where(np.add.outer(range(6), range(7)) < 6, x, 0).sum((1, 2)),
        ),
    ]
    for block in (1, 3, 8, 100):
        monkeypatch.setattr(te_reduce, "BLOCK", block)
        for t, expected in programs:
            np.testing.assert_array_equal(one(t, {a: x}), expected)


def test_any_and_all():
    a, x = te.placeholder((6, 4), "bool", name="a"), RNG.random((6, 4)) < 0.5
    x[0], x[1] = True, False
    k, none = te.reduce_axis((0, 4), "k"), te.reduce_axis((0, 0), "z")
    for reducer, expected in ((te.any, np.any), (te.all, np.all)):
        t = te.compute((6,), lambda i, r=reducer: r(a[i, k], axis=k))
        np.testing.assert_array_equal(one(t, {a: x}), expected(x, 1))
        t = te.compute((6,), lambda i, r=reducer: r(a[i, k], axis=k, where=k > 1))
        np.testing.assert_array_equal(one(t, {a: x}), expected(x[:, 2:], 1))
        t = te.compute((), lambda r=reducer: r(a[none, 0], axis=none))
        assert one(t, {a: x}) == (reducer is te.all)
        t = te.compute(
            (6,), lambda i, r=reducer: (te.max if r is te.any else te.min)(a[i, k], axis=k)
        )
        np.testing.assert_array_equal(one(t, {a: x}), expected(x, 1))


def arg_reducer(largest):
    def combine(x, y):
        first = x[1] >= y[1] if largest else x[1] <= y[1]
        return Select(first, x[0], y[0]), Select(first, x[1], y[1])

    worst = te.min_value if largest else te.max_value
    return te.comm_reducer(combine, lambda t, u: (te.const(-1, t), worst(u)), "arg")


@pytest.mark.parametrize("extent", [1, 2, 3, 8, 31])
@pytest.mark.parametrize("block", [1, 5, 1 << 20])
def test_argmax_takes_the_first(extent, block, monkeypatch):
    monkeypatch.setattr(te_reduce, "BLOCK", block)
    a = te.placeholder((4, extent), name="a")
    k = te.reduce_axis((0, extent), "k")
    x = ints(4, extent, low=0, high=3)
    most = te.compute((4,), lambda i: arg_reducer(True)((k.var, a[i, k]), axis=k))
    np.testing.assert_array_equal(te_eval(most, {a: x}), [x.argmax(1), x.max(1)])
    least = te.compute((4,), lambda i: arg_reducer(False)((k.var, a[i, k]), axis=k))
    np.testing.assert_array_equal(te_eval(least, {a: x}), [x.argmin(1), x.min(1)])
    odd = te.compute(
        (4,), lambda i: arg_reducer(True)((k.var, a[i, k]), axis=k, where=te.floormod(k, 2) == 1)
    )
    index, _ = te_eval(odd, {a: x})
    masked = np.where(np.arange(extent) % 2 == 1, x, -1)
    np.testing.assert_array_equal(index, masked.argmax(1) if extent > 1 else [-1] * 4)


def test_user_reducers_keep_the_order_of_elements():
    """An associative but not commutative combiner shows the order in which elements meet."""
    last = te.comm_reducer(lambda x, y: Select(y >= 0, y, x), lambda t: te.const(-1, t), "last")
    a = te.placeholder((3, 4), "int32", name="a")
    i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 4), "j")
    x = np.arange(12, dtype="int32").reshape(3, 4)
    assert one(te.compute((), lambda: last(a[i, j], axis=[i, j])), {a: x}) == 11
    assert one(te.compute((), lambda: last(a[i, j], axis=[i, j], where=a[i, j] < 9)), {a: x}) == 8


def test_start_values():
    a, b = te.placeholder((4, 5), name="a"), te.placeholder((4,), name="b")
    x, y = ints(4, 5), ints(4)
    k = te.reduce_axis((0, 5), "k")
    t = te.compute((4,), lambda i: te.sum(a[i, k], axis=k, init=b[i]))
    np.testing.assert_array_equal(one(t, {a: x, b: y}), x.sum(1) + y)
    t = te.compute((4,), lambda i: te.max(a[i, k], axis=k, init=3))
    np.testing.assert_array_equal(one(t, {a: x}), np.maximum(x.max(1), 3))


def test_empty_reductions_give_the_identity():
    a = te.placeholder((3, 0), name="a")
    k = te.reduce_axis((0, 0), "k")
    feeds = {a: np.zeros((3, 0), "float32")}
    assert one(te.compute((3,), lambda i: te.sum(a[i, k], axis=k)), feeds).tolist() == [0] * 3
    assert one(te.compute((3,), lambda i: te.max(a[i, k], axis=k)), feeds).tolist() == [-np.inf] * 3
    index, _ = te_eval(
        te.compute((3,), lambda i: arg_reducer(True)((k.var, a[i, k]), axis=k)), feeds
    )
    assert index.tolist() == [-1] * 3


def test_reduce_axes_need_not_start_at_zero_or_be_used():
    a = te.placeholder((9,), name="a")
    x = ints(9)
    k, unused = te.reduce_axis((2, 7), "k"), te.reduce_axis((0, 3), "u")
    assert one(te.compute((), lambda: te.sum(a[k], axis=k)), {a: x}) == x[2:7].sum()
    t = te.compute((), lambda: te.sum(a[k] * a[k], axis=[k, unused]))
    assert one(t, {a: x}) == 3 * (x[2:7] ** 2).sum()


def test_guards_protect_reads_and_divisions():
    a = te.placeholder((5,), "int32", name="a")
    x = np.array([0, 3, 0, -2, 5], dtype="int32")
    t = te.compute((8,), lambda i: te.if_then_else(te.all(i >= 2, i < 7), a[i - 2], -1))
    assert one(t, {a: x}).tolist() == [-1, -1, 0, 3, 0, -2, 5, -1]
    t = te.compute((5,), lambda i: Select(a[i] != 0, te.truncdiv(7, a[i]), 0))
    assert one(t, {a: x}).tolist() == [0, 2, 0, -3, 1]
    k = te.reduce_axis((0, 9), "k")
    t = te.compute((), lambda: te.sum(a[k - 2], axis=k, where=te.all(k >= 2, k < 7)))
    assert one(t, {a: x}) == 6
    empty = te.placeholder((0,), "int32", name="e")
    t = te.compute((3,), lambda i: te.if_then_else(i > 5, empty[i], i))
    assert one(t, {empty: np.zeros(0, "int32")}).tolist() == [0, 1, 2]


def test_gathers_and_scatter_like_reads():
    a, ix = te.placeholder((6, 4), name="a"), te.placeholder((9,), "int32", name="ix")
    x, y = ints(6, 4), RNG.integers(0, 6, 9).astype("int32")
    t = te.compute((9, 4), lambda i, j: a[ix[i], te.floormod(j + ix[0], 4)])
    np.testing.assert_array_equal(one(t, {a: x, ix: y}), x[y][:, (np.arange(4) + y[0]) % 4])
    t = te.compute((4, 6), lambda i, j: a[j, i] + a[5 - j, 3 - i] + a[0, 0])
    np.testing.assert_array_equal(one(t, {a: x}), x.T + x[::-1, ::-1].T + x[0, 0])
    t = te.compute((4,), lambda i: a[i, i])
    np.testing.assert_array_equal(one(t, {a: x}), np.diag(x))


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


def test_lets_and_shared_expressions():
    a = te.placeholder((5,), name="a")
    v = Var("v", "float32")

    def body(i):
        e = Let(v, a[i] * 2.0, v * v + v)
        for _ in range(40):
            e = e + e  # 2^40 nodes, were sharing lost
        return e

    x = ints(5)
    np.testing.assert_array_equal(
        one(te.compute((5,), body), {a: x}), (4 * x * x + 2 * x) * np.float32(2.0**40)
    )


def test_deep_chains():
    a = te.placeholder((2,), "int32", name="a")

    def body(i):
        e = a[i]
        for k in range(5000):
            e = e + te.var("one") if k == 0 else e + a[i]
        return e

    t = te.compute((2,), body)
    (free,) = [v for v in _vars(t) if v.name == "one"]
    result = one(t, {a: np.array([1, 2], "int32")}, symbols={free: 7})
    assert result.tolist() == [1 + 7 + 4999, 2 + 7 + 2 * 4999]


def _vars(t):
    from tilewright.loopir.visit import free_vars

    return free_vars(t.op.body[0])


def test_cumulative_sum_by_scan():
    m, n = te.var("m"), te.var("n")
    x = te.placeholder((m, n), name="x")
    state = te.placeholder((m, n), name="s")
    init = te.compute((1, n), lambda _, i: x[0, i])
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i])
    total = te.scan(init, update, state, inputs=[x])
    for shape in ((1, 3), (5, 4), (7, 1), (4, 0)):
        v = ints(*shape)
        np.testing.assert_array_equal(one(total, {x: v}), v.cumsum(0))


def test_scan_with_two_rows_of_start_and_two_states():
    s1, s2 = te.placeholder((8, 3), name="s1"), te.placeholder((8,), "int32", name="s2")
    a = te.placeholder((3,), name="a")
    i1 = te.compute((2, 3), lambda t, i: a[i] + t.astype("float32"))
    i2 = te.compute((2,), lambda t: t)
    u1 = te.compute((8, 3), lambda t, i: s1[t - 1, i] + s1[t - 2, 2 - i])
    u2 = te.compute((8,), lambda t: s2[t - 1] + s2[t - 2])
    p, q = te.scan([i1, i2], [u1, u2], [s1, s2])
    x = ints(3)
    expected, fib = np.zeros((8, 3), "float32"), [0, 1]
    expected[:2] = [x, x + 1]
    for t in range(2, 8):
        expected[t] = expected[t - 1] + expected[t - 2][::-1]
        fib.append(fib[-1] + fib[-2])
    got = te_eval([p, q], {a: x})
    np.testing.assert_array_equal(got[0], expected)
    assert got[1].tolist() == fib


def test_scan_that_looks_back_over_all_rows():
    """An intermediate of the step is read at rows that vary: it is found element by element."""
    s = te.placeholder((5, 3), name="s")
    twice = te.compute((5, 3), lambda t, i: s[t, i] * 2.0)
    k = te.reduce_axis((0, 5), "k")
    init = te.compute((1, 3), lambda t, i: i.astype("float32") + 1.0)
    update = te.compute((5, 3), lambda t, i: te.sum(twice[k, i], axis=k, where=k < t))
    # and once more through a reduction within the intermediate
    j = te.reduce_axis((0, 3), "j")
    rows = te.compute((5,), lambda t: te.sum(twice[t, j], axis=j))
    state = te.placeholder((5,), name="r")
    other = te.compute((5,), lambda t: te.max(rows[k], axis=k, where=k < t))
    a, b = te.scan([init, te.compute((1,), lambda t: 0.0)], [update, other], [s, state])
    x = np.zeros((5, 3), "float32")
    x[0] = [1, 2, 3]
    for t in range(1, 5):
        x[t] = 2 * x[:t].sum(0)
    got = te_eval([a, b], {})
    np.testing.assert_array_equal(got[0], x)
    assert got[1].tolist() == [0, *(2 * x[t - 1].sum() for t in range(1, 5))]


def test_scan_updates_that_cannot_be_evaluated_say_so():
    s = te.placeholder((4, 3), name="s")
    init = te.compute((1, 3), lambda t, i: 1.0)
    sorted_rows = te.extern((4, 3), [s], lambda ins, outs: call_packed("f", ins[0], outs[0]))
    fails(["scan", "updated by"], lambda: te_eval(te.scan(init, sorted_rows, s), {}))
    update = te.compute((4, 3), lambda t, i: sorted_rows[t - 1, i])
    fails(["inside a scan"], lambda: te_eval(te.scan(init, update, s), {}))


def test_recurrent_cell():
    steps, batch, hidden = 5, 2, 4
    x = te.placeholder((steps, batch, hidden), name="x")
    w = te.placeholder((hidden, hidden), name="w")
    state = te.placeholder((steps, batch, hidden), name="h")
    init = te.compute((1, batch, hidden), lambda _, b, i: 0.0)
    k = te.reduce_axis((0, hidden), "k")
    product = te.compute(
        (steps, batch, hidden), lambda t, b, i: te.sum(state[t - 1, b, k] * w[k, i], axis=k)
    )
    update = te.compute(
        (steps, batch, hidden), lambda t, b, i: te.max(product[t, b, i] + x[t, b, i], 0.0)
    )
    out = te.scan(init, update, state)
    last = te.compute((batch, hidden), lambda b, i: out[steps - 1, b, i] * 2)
    v, m = ints(steps, batch, hidden), ints(hidden, hidden, low=-1, high=2)
    h = np.zeros((batch, hidden), "float32")
    for t in range(1, steps):
        h = np.maximum(h @ m + v[t], 0)
    np.testing.assert_array_equal(one(last, {x: v, w: m}), h * 2)


def test_extern_with_loops():
    n = te.var("n")
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")

    def body(ins, outs):
        ib = ir_builder.create()
        x, y, z = (ib.buffer_ptr(t) for t in (*ins, outs[0]))
        with ib.for_range(0, n, name="i") as i:
            z[i] = x[i] * 2.0 + y[n - 1 - i]
        return ib.get()

    c = te.extern((n,), [a, b], body, name="c")
    d = te.compute((n,), lambda i: c[i] + 1)
    for size in (1, 6, 0):
        x, y = ints(size), ints(size)
        np.testing.assert_array_equal(one(d, {a: x, b: y}), x * 2 + y[::-1] + 1)


def test_extern_with_a_callback():
    a = te.placeholder((3, 4), name="a")

    def sort_rows(x, out):
        np.asarray(out).reshape(3, 4)[:] = np.sort(np.asarray(x).reshape(3, 4), axis=1)

    b = te.extern((3, 4), [a], lambda ins, outs: call_packed("sort_rows", ins[0], outs[0]))
    x = ints(3, 4)
    result = one(b, {a: x}, extern={"sort_rows": sort_rows})
    np.testing.assert_array_equal(result, np.sort(x, axis=1))
    with pytest.raises(TilewrightError, match="sort_rows"):
        te_eval(b, {a: x})


def test_extern_with_several_outputs_of_other_types():
    a = te.placeholder((4,), "int32", name="a")

    def body(ins, outs):
        ib = ir_builder.create()
        x, y, z = (ib.buffer_ptr(t) for t in (*ins, *outs))
        with ib.for_range(0, 4, name="i") as i:
            y[i] = x[i].astype("float32")
            z[i] = x[i] + 1
        return ib.get()

    y, z = te.extern([(4,), (4,)], [a], body, dtype=["float32", "int32"])
    got = te_eval([z, y], {a: np.arange(4, dtype="int32")})
    assert got[0].tolist() == [1, 2, 3, 4] and got[1].dtype == np.float32


def test_external_functions_in_expressions():
    a = te.placeholder((3,), name="a")
    t = te.compute((3,), lambda i: call_pure_extern("float32", "mylog", a[i]) + 1.0)
    x = np.array([1, 2, 3], "float32")
    np.testing.assert_array_equal(one(t, {a: x}, extern={"mylog": np.log}), np.log(x) + 1)
    with pytest.raises(TilewrightError, match="mylog"):
        te_eval(t, {a: x})


def test_trace_shows_values_and_may_change_them():
    a = te.placeholder((3,), name="a")
    seen = []

    def look(i, x):
        seen.extend(np.broadcast_arrays(i, x))
        return x * 10

    t = te.compute((3,), lambda i: te.trace([i, a[i] + 1.0], "look") - 1.0)
    x = np.array([1, 2, 3], "float32")
    assert one(t, {a: x}, extern={"look": look}).tolist() == [19, 29, 39]
    assert seen[0].tolist() == [0, 1, 2] and seen[1].tolist() == [2, 3, 4]
    fails(["list"], lambda: te.trace(a[0]))


def gemv(m, l):
    a, b = te.placeholder((m, l), name="a"), te.placeholder((l,), name="b")
    k = te.reduce_axis((0, l), "k")
    c = te.compute((m,), lambda i: te.sum(a[i, k] * b[k], axis=k), name="c")

    def body(ins, outs):
        def call(name):
            return call_extern("int32", name, outs[0].access_ptr("w"))

        return call("gemv"), call("reset"), call("update")

    return te.decl_tensor_intrin(
        c.op, body, name="gemv", default_buffer_params={"offset_factor": 1}
    )


def test_tensor_intrinsics():
    a, b = te.placeholder((12, 8), name="a"), te.placeholder((8,), name="b")
    k = te.reduce_axis((0, 2), "k")
    intrin = gemv(4, 4)
    c = te.compute(
        (3, 4),
        lambda i: intrin(
            a[i * 4 : (i + 1) * 4, k * 4 : (k + 1) * 4], b[k * 4 : (k + 1) * 4], reduce_axis=k
        ),
    )
    assert [x.var.name for x in c.op.axis] == ["i", "ax0"] and c.op.schedulable_ndim == 1
    x, y = ints(12, 8), ints(8)
    np.testing.assert_array_equal(one(c, {a: x, b: y}), (x @ y).reshape(3, 4))
    whole = te.compute((3, 4), lambda i: gemv(4, 8)(a[i * 4 : (i + 1) * 4, 0:8], b[0:8]))
    np.testing.assert_array_equal(one(whole, {a: x, b: y}), (x @ y).reshape(3, 4))


def test_tensor_intrinsic_with_a_scalar():
    s = Var("s", "float32")
    p = te.placeholder((4,), name="p")
    q = te.compute((4,), lambda i: p[i] * s)
    scale = te.decl_tensor_intrin(
        q.op, lambda ins, outs, scalars: call_extern("int32", "f", scalars[0]), scalar_params=[s]
    )
    a, f = te.placeholder((8,), name="a"), te.placeholder((2,), name="f")
    t = te.compute((2, 4), lambda i: scale(a[i * 4 : i * 4 + 4], f[i].asexpr()))
    x, y = ints(8), ints(2)
    np.testing.assert_array_equal(one(t, {a: x, f: y}), x.reshape(2, 4) * y[:, None])


def test_symbols_are_bound_from_shapes_and_given():
    n, scale = te.var("n"), te.var("scale", "float32")
    a = te.placeholder((n, n * 2), name="a")
    t = te.compute((n,), lambda i: a[i, i * 2] * scale + n.astype("float32"))
    x = ints(3, 6)
    result = one(t, {a: x}, symbols={scale: 1.5})
    np.testing.assert_array_equal(result, x[range(3), range(0, 6, 2)] * np.float32(1.5) + 3)


def test_intermediate_tensors_can_be_fed():
    a = te.placeholder((3,), name="a")
    b = te.compute((3,), lambda i: a[i] * 100)
    c = te.compute((3,), lambda i: b[i] + 1)
    assert one(c, {b: np.zeros(3, "float32")}).tolist() == [1, 1, 1]
    assert one(b, {b: np.zeros(3, "float32")}).tolist() == [0, 0, 0]


def test_large_grids_are_cut(monkeypatch):
    from tilewright.interp import te_eval as module

    monkeypatch.setattr(module, "BLOCK", 10)
    a = te.placeholder((13, 7), name="a")
    x = ints(13, 7)
    t = te.compute((13, 7), lambda i, j: a[12 - i, j] * 2 + i.astype("float32"))
    np.testing.assert_array_equal(one(t, {a: x}), x[::-1] * 2 + np.arange(13)[:, None])


def fails(words, run):
    with pytest.raises(TilewrightError) as caught:
        run()
    for word in words:
        assert word in str(caught.value)


def test_misuse():
    n = te.var("n")
    a = te.placeholder((n, 4), name="a")
    t = te.compute((n,), lambda i: a[i, 0])
    x = np.zeros((2, 4), "float32")
    fails(["no array was fed", "a"], lambda: te_eval(t, {}, symbols={n: 2}))
    fails(["dimensions"], lambda: te_eval(t, {a: np.zeros(2, "float32")}))
    fails(["dimension 1", "4"], lambda: te_eval(t, {a: np.zeros((2, 5), "float32")}))
    fails(["float32", "float64"], lambda: te_eval(t, {a: x.astype("float64")}))
    fails(["dtype_mode"], lambda: te_eval(t, {a: x}, dtype_mode="fast"))
    v = te.var("v")
    fails(["v has no value"], lambda: te_eval(te.compute((2,), lambda i: i + v), {}))
    out = te.compute((n,), lambda i: a[i + 1, 0])
    fails(["read of a out of bounds", "index 2", "[0, 2)"], lambda: te_eval(out, {a: x}))
    low = te.compute((n,), lambda i: a[i - 1, 0])
    fails(["read of a out of bounds", "index -1"], lambda: te_eval(low, {a: x}))
    zero = te.compute((3,), lambda i: te.floordiv(5, i))
    fails(["division by zero"], lambda: te_eval(zero, {}))
    vector = te.placeholder((2,), "float32x4", name="q")
    fails(["scalar types only"], lambda: te_eval(vector, {vector: x[0, :2]}))
