"""te_eval on scans, external operations and tensor intrinsics."""

from typing import Any

import numpy as np
import pytest

from tests.unit.interp.te_kit import fails, ints, one
from tilewright import te
from tilewright.base.errors import TilewrightError
from tilewright.interp.te_eval import te_eval
from tilewright.loopir import ir_builder
from tilewright.loopir.expr import Var
from tilewright.loopir.op import (
    call_extern,
    call_packed,
    call_pure_extern,
)


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
    seen: list[Any] = []

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
