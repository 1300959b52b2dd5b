"""Tolerances hold for programs in their own types, and are tight enough to tell."""

import numpy as np
import pytest

from tilewright import te
from tilewright.interp.te_bound import te_eval_bound, unit
from tilewright.interp.te_eval import te_eval
from tilewright.loopir import ir_builder
from tilewright.loopir.op import call_pure_extern

RNG = np.random.default_rng(11)


def check(tensor, feeds, tightness):
    """The program in its types lies within the tolerance, which is below `tightness` * scale."""
    (value, tolerance), (exact,) = te_eval_bound(tensor, feeds)[0], te_eval(tensor, feeds)
    assert value.dtype == np.float64 and tolerance.shape == value.shape
    np.testing.assert_array_equal(value, te_eval(tensor, feeds, dtype_mode="wide")[0])
    off = np.abs(exact.astype("float64") - value)
    assert (off <= tolerance).all(), (off / tolerance).max()
    assert (tolerance <= tightness * np.abs(value).max()).all()
    return off, tolerance


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "tightness"), [("float32", 1e-4), ("float64", 1e-13), ("float16", 0.5)]
)
def test_matmul(dtype, tightness):
    a, b = te.placeholder((17, 40), dtype, "a"), te.placeholder((40, 9), dtype, "b")
    k = te.reduce_axis((0, 40), "k")
    c = te.compute((17, 9), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))
    d = te.compute((17, 9), lambda i, j: c[i, j] * c[i, j] - c[16 - i, j] / 3.0)
    check(d, {a: normal(17, 40, dtype=dtype), b: normal(40, 9, dtype=dtype)}, tightness)


def test_every_order_of_summation_is_covered():
    a, k = te.placeholder((1000,), name="a"), te.reduce_axis((0, 1000), "k")
    t = te.compute((), lambda: te.sum(a[k], axis=k))
    for _ in range(20):
        x = (normal(1000) * 10.0 ** RNG.integers(-3, 4, 1000)).astype("float32")
        value, tolerance = te_eval_bound(t, {a: x})[0]
        total = np.float32(0)
        for v in RNG.permutation(x):
            total += v
        assert abs(float(total) - value) <= tolerance <= 1e-3 * np.abs(x).sum()


def test_softmax_and_functions():
    a = te.placeholder((6, 30), name="a")
    k, q = te.reduce_axis((0, 30), "k"), te.reduce_axis((0, 30), "q")
    top = te.compute((6,), lambda i: te.max(a[i, k], axis=k))
    e = te.compute((6, 30), lambda i, j: te.exp(a[i, j] - top[i]))
    s = te.compute((6,), lambda i: te.sum(e[i, q], axis=q))
    check(te.compute((6, 30), lambda i, j: e[i, j] / s[i]), {a: normal(6, 30) * 3}, 1e-4)
    t = te.compute(
        (6, 30),
        lambda i, j: te.tanh(a[i, j] * 2.0) + te.sigmoid(a[i, j]) * te.sqrt(te.abs(a[i, j]) + 1.0)
        - te.power(te.abs(a[i, j]) + 0.1, 2.5) + te.erf(a[i, j]),
    )  # fmt: skip
    check(t, {a: normal(6, 30)}, 1e-4)


def test_products_extrema_and_tuples():
    a, k = te.placeholder((5, 12), name="a"), te.reduce_axis((0, 12), "k")
    x = normal(5, 12)
    check(te.compute((5,), lambda i: te.prod(a[i, k] * 1.1, axis=k)), {a: x}, 1e-3)
    check(te.compute((5,), lambda i: te.min(a[i, k] * 1.1, axis=k)), {a: x}, 1e-5)
    pair = te.comm_reducer(
        lambda p, q: (p[0] + q[0], te.max(p[1], q[1])), lambda t, u: (0.0, te.min_value(u)), "pair"
    )
    total, _ = te.compute((5,), lambda i: pair((a[i, k], a[i, k] * 3.0), axis=k))
    check(total, {a: x}, 1e-4)


def test_an_uncertain_comparison_spreads():
    a = te.placeholder((2,), name="a")
    third = te.compute((2,), lambda i: a[i] / 3.0)
    t = te.compute((2,), lambda i: te.if_then_else(third[i] * 3.0 <= 1.0, 0.0, 100.0))
    (_, tolerance) = te_eval_bound(t, {a: np.array([1.0, 2.0], "float32")})[0]
    assert tolerance[0] >= 100 and tolerance[1] < 1e-3


def test_an_uncertain_index_says_nothing():
    a, x = te.placeholder((3,), name="a"), np.array([2.9999998, 0.5, 1.5], "float32")
    b = te.placeholder((8,), name="b")
    t = te.compute((3,), lambda i: b[(a[i] * 1.0000001).astype("int32")])
    (_, tolerance) = te_eval_bound(t, {a: x, b: normal(8)})[0]
    assert tolerance[0] == np.inf and tolerance[1] == 0


def test_exact_parts_stay_exact():
    a = te.placeholder((4,), "int32", name="a")
    t = te.compute((4,), lambda i: te.floordiv(a[i] * 7 + 3, 2))
    value, tolerance = te_eval_bound(t, {a: np.arange(4, dtype="int32")})[0]
    assert value.tolist() == [1, 5, 8, 12] and not tolerance.any()
    b = te.placeholder((4,), name="b")
    t = te.compute((4,), lambda i: te.max(b[3 - i], 0.0))
    assert not te_eval_bound(t, {b: normal(4)})[0][1].any()


def test_overflow_is_unbounded():
    a = te.placeholder((2,), name="a")
    t = te.compute((2,), lambda i: a[i] * a[i])
    (_, tolerance) = te_eval_bound(t, {a: np.array([1e30, 1.0], "float32")})[0]
    assert tolerance[0] == np.inf and tolerance[1] < 1e-6


def test_scans_and_externs():
    x, s = te.placeholder((20, 3), name="x"), te.placeholder((20, 3), name="s")
    init = te.compute((1, 3), lambda _, i: x[0, i])
    update = te.compute((20, 3), lambda t, i: s[t - 1, i] * 0.9 + x[t, i])
    check(te.scan(init, update, s), {x: normal(20, 3)}, 1e-4)

    def body(ins, outs):
        ib = ir_builder.create()
        p, q = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 4, name="i") as i:
            q[i] = p[i] * 2.0
        return ib.get()

    a = te.placeholder((4,), name="a")
    assert te_eval_bound(te.extern((4,), [a], body), {a: normal(4)})[0][1].tolist() == [np.inf] * 4


def test_more_operations_keep_their_bounds():
    a, b = te.placeholder((40,), name="a"), te.placeholder((40,), name="b")
    x, y = normal(40), normal(40)
    t = te.compute(
        (40,),
        lambda i: te.power(te.abs(a[i] / 3.0) + 0.5, b[i] / 7.0) - te.round(a[i] * 1000.0)
        + te.floor(b[i]) * 0.1,
    )  # fmt: skip
    (exact,), (value, tolerance) = te_eval(t, {a: x, b: y}), te_eval_bound(t, {a: x, b: y})[0]
    assert (np.abs(exact - value) <= tolerance).all()
    k = te.reduce_axis((0, 40), "k")
    doubtful = te.compute((40,), lambda i: (a[i] / 3.0 * 3.0).astype("int32"))
    t = te.compute((), lambda: te.sum(doubtful[k] * 2 - doubtful[k], axis=k))
    whole = {a: np.arange(40, dtype="float32")}
    value, tolerance = te_eval_bound(t, whole)[0]
    assert abs(int(te_eval(t, whole)[0]) - int(value)) <= tolerance and tolerance > 0
    t = te.compute((40,), lambda i: te.floordiv(doubtful[i], 7))
    assert np.isinf(te_eval_bound(t, whole)[0][1][1:]).all()


def test_casts_keep_their_bounds():
    a = te.placeholder((64,), "float64", name="a")
    for dtype in ("float32", "float16", "bfloat16"):
        t = te.compute((64,), lambda i, d=dtype: a[i].astype(d).astype("float64"))
        x = normal(64, dtype="float64")
        (exact,), (value, tolerance) = te_eval(t, {a: x}), te_eval_bound(t, {a: x})[0]
        assert (np.abs(exact - value) <= tolerance).all() and (exact != value).any()
    n = te.compute((64,), lambda i: i.astype("float32") * 16777217)
    value, tolerance = te_eval_bound(n, {})[0]
    assert (np.abs(te_eval(n, {})[0].astype("float64") - value) <= tolerance).all()


def test_external_functions_and_booleans():
    a = te.placeholder((8,), name="a")
    t = te.compute((8,), lambda i: call_pure_extern("float32", "f", a[i] * 1.1))
    assert np.isinf(te_eval_bound(t, {a: normal(8)}, extern={"f": np.sin})[0][1]).all()
    t = te.compute((8,), lambda i: call_pure_extern("float32", "f", a[i]))
    assert (te_eval_bound(t, {a: normal(8)}, extern={"f": np.sin})[0][1] < 1e-5).all()
    k = te.reduce_axis((0, 8), "k")
    u = te.compute((), lambda: te.all(te.any(a[k] > -100, te.isnan(a[k] / 3.0)), axis=k))
    value, tolerance = te_eval_bound(u, {a: normal(8)})[0]
    assert value == 1 and tolerance == 0


def test_units():
    assert [unit(t) for t in ("float64", "float32", "float16", "bfloat16", "int32")] == [
        2.0**-53, 2.0**-24, 2.0**-11, 2.0**-8, 0.0,
    ]  # fmt: skip


def test_the_reference_itself_is_rounded():
    """Of a float64 program, two roundings of the same sum may lie on either side of the truth."""
    a, b = te.placeholder((200_000,), "float64", "a"), te.placeholder((200_000,), "float64", "b")
    t = te.compute((200_000,), lambda i: a[i] * a[i] + b[i])
    x, y = normal(200_000, dtype="float64"), normal(200_000, dtype="float64")
    value, tolerance = te_eval_bound(t, {a: x, b: y})[0]
    wide = x.astype(np.longdouble)
    fused = (wide * wide + y).astype(np.float64)
    assert (np.abs(fused - value) <= tolerance).all()
    assert (tolerance <= 4 * 2.0**-53 * (x * x + np.abs(y))).all()


@pytest.mark.parametrize(
    ("values", "op"), [([65504, 65504, -65504], te.sum), ([300, 300, 0.001], te.prod)]
)
def test_partial_results_beyond_the_range_leave_all_open(values, op) -> None:
    """65504 + 65504 - 65504 is 65504 or infinite in float16, by the order; so are products."""
    a, k = te.placeholder((3,), "float16", name="A"), te.reduce_axis((0, 3), "k")
    b = te.compute((), lambda: op(a[k], axis=k), name="B")
    ((value, limit),) = te_eval_bound(b, {a: np.array(values, "float16")})
    assert np.isfinite(value) and np.isinf(limit)


def test_a_start_beyond_the_range_leaves_all_open() -> None:
    a, k = te.placeholder((4,), "float16", name="A"), te.reduce_axis((1, 4), "k")
    b = te.compute((1,), lambda i: te.sum(a[k], axis=k, init=a[i]), name="B")
    for numbers, known in (([-65504, -3e4, 3e4, 6e4], False), ([-300, 2, 200, 100], True)):
        ((_, limit),) = te_eval_bound(b, {a: np.array(numbers, "float16")})
        assert np.isfinite(limit).all() == known


def test_subnormal_numbers_round_too() -> None:
    """x / 2 + x: of three units 5 with two roundings (1.5 is 2), 4 with a fused multiply-add."""
    a = te.placeholder((1,), "float64", name="A")
    b = te.compute((1,), lambda i: a[i] * 0.5 + a[i], name="B")
    tiny = np.array([1], "int64").view("float64")[0]
    ((value, limit),) = te_eval_bound(b, {a: np.array([3 * tiny])})
    assert abs(value[0] - 4 * tiny) <= limit[0] <= 8 * tiny


def test_whether_a_number_is_zero_is_open_where_it_may_be() -> None:
    a = te.placeholder((2,), name="a")
    square = te.compute((2,), lambda i: a[i] * a[i])
    t = te.compute((2,), lambda i: square[i].astype("bool"))
    value, tolerance = te_eval_bound(t, {a: np.array([1e-30, 0.5], np.float32)})[0]
    assert value.tolist() == [1, 1]  # 1e-60 is 0 in float32
    assert (tolerance > 0).tolist() == [True, False]
