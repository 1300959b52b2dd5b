"""te_eval against plain NumPy, on many programs and hostile shapes."""

import itertools
from typing import Any

import numpy as np
import pytest

from tests.unit.interp.te_kit import RNG, fails, ints, one
from tilewright import te
from tilewright.interp import te_reduce
from tilewright.interp.te_eval import te_eval
from tilewright.loopir.expr import Let, PrimExpr, Select, Var

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


def test_lets_and_shared_expressions():
    a = te.placeholder((5,), name="a")
    v = Var("v", "float32")

    def body(i):
        e: PrimExpr = Let(v, a[i] * 2.0, v * v + v)
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
        e: Any = a[i]
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
