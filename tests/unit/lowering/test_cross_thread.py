"""Reductions bound to threads: the loop nest, its guards, its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.lowering.kernels import kernel_of, row_reduction, run_schedule, small_integers
from tilewright import te, tir
from tilewright.base.errors import ScheduleError
from tilewright.driver.lower import lower


def row_sum(n: Any = 8, m: Any = 64, **options: Any) -> tuple[Any, Any, Any]:
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k, **options), name="B")
    return te.create_schedule(b.op), a, b


def factored() -> tuple[Any, list[Any]]:
    """The schedule of the tutorial on reductions."""
    s, a, b = row_sum(te.var("n"), te.var("m"))
    _, ki = s[b].split(b.op.reduce_axis[0], factor=16)
    parts = s.rfactor(b, ki)
    outer, inner = s[b].split(s[b].op.axis[0], factor=32)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], tx)
    s[parts].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(tx.var.equal(0))
    return s, [a, b]


@pytest.mark.parametrize(
    ("n", "m"), [(128, 128), (33, 16), (64, 17), (1, 1), (31, 100), (70, 3), (32, 32), (0, 5)]
)
def test_factored_of_any_shape(n: int, m: int) -> None:
    s, args = factored()
    a, b = small_integers((n, m), "float32"), np.zeros(n, "float32")
    sizes = {"n": n, "m": m, "stride": m, "stride_1": 1, "stride_2": 1}
    report = run_schedule(
        s, args, {"A": a, "B": b}, grid={"blockIdx.x": -(-n // 32)}, scalars=sizes
    )
    np.testing.assert_array_equal(b, a.sum(1))
    assert report.barriers == 0


def test_uniform_loops() -> None:
    # all threads of a block make the same number of steps, the guard is in the last one
    text = str(kernel_of(*factored()))
    assert "range(m // 16)" in text
    assert "range((m % 16 + 15) // 16)" in text


def test_whole_axis_on_threads() -> None:
    s, a, b = row_sum(8, 32)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    s[b].bind(b.op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    text = str(lower(s, [a, b])["main"])
    assert "normal_reduce_temp" not in text
    data, result = small_integers((8, 32), "float32"), np.zeros(8, "float32")
    run_schedule(s, [a, b], {"A": data, "B": result})
    np.testing.assert_array_equal(result, data.sum(1))


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_thread_axis_inside_or_outside_of_the_serial_one(order: list[int]) -> None:
    s, a, b = row_sum(4, 100)
    axes = s[b].split(b.op.reduce_axis[0], factor=32)
    s[b].reorder(*(axes[i] for i in order))
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    s[b].bind(axes[1], te.thread_axis("threadIdx.x"))
    data, result = small_integers((4, 100), "float32"), np.zeros(4, "float32")
    run_schedule(s, [a, b], {"A": data, "B": result})
    np.testing.assert_array_equal(result, data.sum(1))


@pytest.mark.parametrize("whole", [False, True])
def test_condition_of_the_reduction(whole: bool) -> None:
    a = te.placeholder((6, 50), name="A")
    k = te.reduce_axis((0, 50), name="k")
    b = te.compute((6,), lambda i: te.max(a[i, k], axis=k, where=k > i), name="B")
    s = te.create_schedule(b.op)
    axis = k if whole else s[b].split(k, factor=32)[1]
    s[b].bind(axis, te.thread_axis("threadIdx.x"))
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    data, result = small_integers((6, 50), "float32"), np.zeros(6, "float32")
    run_schedule(s, [a, b], {"A": data, "B": result})
    np.testing.assert_array_equal(result, [data[i, i + 1 :].max() for i in range(6)])


def test_initial_values() -> None:
    start = te.placeholder((8,), name="C")
    a = te.placeholder((8, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k, init=start[i]), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(s[b].split(k, factor=16)[1], te.thread_axis("threadIdx.x"))
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    data, first = small_integers((8, 64), "float32"), np.arange(8, dtype="float32")
    result = np.zeros(8, "float32")
    run_schedule(s, [a, start, b], {"A": data, "C": first, "B": result})
    np.testing.assert_array_equal(result, first + data.sum(1))


@pytest.mark.parametrize(("launched", "used"), [(32, 32), (32, 16), (64, 48), (48, 32), (64, 5)])
def test_more_threads_around_than_reduce(launched: int, used: int) -> None:
    s, args = centred(launched, used)
    data, result = small_integers((8, 64), "float32"), np.zeros((8, 64), "float32")
    run_schedule(s, args, {"A": data, "C": result})
    np.testing.assert_array_equal(result, data - data.sum(1, keepdims=True))


def test_stage_inside_of_a_reduction_with_idle_threads() -> None:
    # 32 threads around, 2 of them reduce, and compute the parts that they reduce
    a = te.placeholder((5, 100), name="A")
    k = te.reduce_axis((0, 100), name="k")
    b = te.compute((5,), lambda i: te.min(a[i, k], axis=k), name="B")
    c = te.compute((5, 100), lambda i, j: a[i, j] + b[i], name="C")
    s = te.create_schedule(c.op)
    parts = s.rfactor(b, s[b].split(k, factor=2)[1])
    jo, ji = s[c].split(c.op.axis[1], factor=32)
    s[c].reorder(ji, jo)
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    s[c].bind(ji, te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], ji)
    s[b].bind(s[b].op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    s[parts].compute_at(s[b], s[b].op.reduce_axis[0])
    data, result = small_integers((5, 100), "float32"), np.zeros((5, 100), "float32")
    run_schedule(s, [a, c], {"A": data, "C": result})
    np.testing.assert_array_equal(result, data + data.min(1, keepdims=True))


def centred(outer: int, inner: int) -> tuple[Any, list[Any]]:
    """A reduction by `inner` threads, inside of a stage of `outer` threads."""
    a = te.placeholder((8, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((8, 64), lambda i, j: a[i, j] - b[i], name="C")
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    ji = s[c].split(c.op.axis[1], factor=outer)[1]
    s[c].reorder(ji, s[c].leaf_iter_vars[1])
    s[c].bind(ji, te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], ji)
    s[b].bind(s[b].split(k, factor=inner)[1], te.thread_axis("threadIdx.x"))
    return s, [a, c]


def test_one_thread_stores_without_being_told() -> None:
    s, args = row_reduction(8, 64, 16)
    text = str(lower(s, args)["main"])
    assert "if threadIdx_x == 0:" in text


def test_predicate_names_any_axis_of_the_tag() -> None:
    s, a, b = row_sum()
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(b.op.reduce_axis[0], tx)
    s[b].set_store_predicate(tx.var.equal(63))
    data, result = small_integers((8, 64), "float32"), np.zeros(8, "float32")
    run_schedule(s, [a, b], {"A": data, "B": result})
    np.testing.assert_array_equal(result, data.sum(1))
    assert "if threadIdx_x == 63:" in str(lower(s, [a, b])["main"])


# -- errors


def test_data_axis_inside_of_the_reduction() -> None:
    s, a, b = row_sum()
    s[b].reorder(b.op.reduce_axis[0], b.op.axis[0])
    s[b].bind(b.op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(
        ScheduleError, match="Cross thread reduce cannot swap with normal data axis: i stands"
    ):
        lower(s, [a, b])


def test_reduction_over_blocks() -> None:
    s, a, b = row_sum()
    s[b].bind(b.op.reduce_axis[0], te.thread_axis("blockIdx.x"))
    with pytest.raises(ScheduleError, match=r"k is bound to blockIdx.x, but only threads"):
        lower(s, [a, b])


def test_fewer_threads_around_than_needed() -> None:
    s, args = centred(16, 32)
    with pytest.raises(ScheduleError, match=r"needs 32 threads of threadIdx.x, but .* launch 16"):
        lower(s, args)


def test_reduction_over_virtual_threads_is_a_loop() -> None:
    s, a, b = row_sum()
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    s[b].bind(s[b].split(b.op.reduce_axis[0], nparts=2)[0], te.thread_axis("vthread"))
    data, result = small_integers((8, 64), "float32"), np.zeros(8, "float32")
    run_schedule(s, [a, b], {"A": data, "B": result})
    np.testing.assert_array_equal(result, data.sum(1))


def test_tensorize() -> None:
    x = te.placeholder((4,), name="x")
    k = te.reduce_axis((0, 4), name="q")
    y = te.compute((1,), lambda _: te.sum(x[k], axis=k), name="y")

    def make(ins: Any, outs: Any) -> Any:
        return tir.Evaluate(tir.call_extern("int32", "f", outs[0].access_ptr("w")))

    intrin = te.decl_tensor_intrin(y.op, make)
    s, a, b = row_sum()
    ko, ki = s[b].split(b.op.reduce_axis[0], factor=4)
    s[b].bind(ko, te.thread_axis("threadIdx.x"))
    s[b].tensorize(ki, intrin)
    with pytest.raises(ScheduleError, match="Cannot mix cross thread reduction with Tensorize"):
        lower(s, [a, b])


# -- scans on threads of their own


def running_sum() -> tuple[Any, list[Any], Any, Any, Any]:
    m, n = 6, 40
    x = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    first = te.compute((1, n), lambda _, i: x[0, i], name="first")
    step = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i], name="step")
    scan = te.scan(first, step, state, inputs=[x])
    s = te.create_schedule(scan.op)
    return s, [x, scan], scan, first, step


@pytest.mark.parametrize("factors", [(16, 16), (16, 8)])
def test_scan_with_env_threads(factors: tuple[int, int]) -> None:
    s, args, scan, first, step = running_sum()
    blocks, threads = te.thread_axis((0, 3), "blockIdx.x"), te.thread_axis((0, 16), "threadIdx.x")
    s[scan].env_threads([blocks, threads])
    for stage, factor in zip((first, step), factors):
        outer, inner = s[stage].split(stage.op.axis[1], nparts=3)
        s[stage].bind(outer, blocks)
        if factor != 16:  # other columns in the same thread: a launch of their own
            inner, _ = s[stage].split(inner, nparts=16)
        s[stage].bind(inner, threads)
    text = str(lower(s, args)["main"])
    same = factors[0] == factors[1]
    assert text.count('T.launch_thread("blockIdx.x"') == (1 if same else 2)
    assert text.count('T.launch_thread("threadIdx.x"') == (1 if same else 2)
    if same:
        data = small_integers((6, 40), "float32")
        result = np.zeros((6, 40), "float32")
        run_schedule(s, args, {"X": data, "scan": result})
        np.testing.assert_array_equal(result, data.cumsum(0))


def test_a_store_predicate_uses_threads_that_run_there() -> None:
    a, k = te.placeholder((8, 64), name="A"), te.reduce_axis((0, 64), "k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((8,), lambda i: b[i] * 2, name="C")
    x, y = te.thread_axis("threadIdx.x"), te.thread_axis("threadIdx.y")
    for thread, legal in ((x, True), (y, False)):
        s = te.create_schedule(c.op)
        s[b].bind(s[b].op.axis[0], te.thread_axis("blockIdx.x"))
        s[b].bind(s[b].op.reduce_axis[0], x)
        s[b].set_store_predicate(thread.var.equal(0))
        s[c].bind(s[c].op.axis[0], y)
        if legal:
            lower(s, [a, c])
            continue
        with pytest.raises(ScheduleError, match=r"uses \S+, which does not run there"):
            lower(s, [a, c])


def test_a_store_predicate_uses_threads_of_a_stage_inside() -> None:
    a, k = te.placeholder((10, 40), name="A"), te.reduce_axis((0, 40), "k")
    b = te.compute((10,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((10,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    x = te.thread_axis("threadIdx.x")
    outer, inner = s[c].split(c.op.axis[0], factor=4)
    parts = s.rfactor(b, s[b].split(k, factor=8)[1])
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    s[c].bind(inner, te.thread_axis("threadIdx.y"))
    s[b].compute_at(s[c], inner)
    s[b].bind(s[b].op.reduce_axis[0], x)
    s[parts].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(x.var.equal(0))
    s[c].set_store_predicate(x.var.equal(0))
    data = np.arange(400, dtype="float32").reshape(10, 40)
    result = np.zeros(10, "float32")
    run_schedule(s, [a, c], {"A": data, "C": result})
    np.testing.assert_array_equal(result, data.sum(1) * 2)
