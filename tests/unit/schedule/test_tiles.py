"""Tiles in the loops of their readers: what they hold, in other layouts and at the edge."""

import itertools
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te
from tilewright.base.errors import ScheduleError

LAYOUTS = {
    "turned": lambda i, j: [j, i],
    "blocks": lambda i, j: [i // 4, j, i % 4],
    "flat": lambda i, j: [i * 100 + j],
    "backwards": lambda i, j: [-i, j],
    "skewed": lambda i, j: [i + j, j],
}


def run(s: Any, tensors: list[Any], arrays: list[Any]) -> Any:
    given = [tvm.nd.array(x) for x in arrays]
    tvm.build(s, tensors, "llvm")(*given)
    return given[-1].numpy()


def allocated(text: str, name: str) -> int:
    line = next(x for x in text.splitlines() if f"{name} = T.allocate([" in x)
    return int(line.split("[")[1].split("]")[0])


@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("n,m", [(16, 24), (17, 23), (5, 3)])
def test_a_layout_is_of_the_part_that_the_loop_needs(layout: str, n: int, m: int) -> None:
    a = te.placeholder((n, m), name="a")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="b")
    c = te.compute((n, m), lambda i, j: b[i, j] + 1.0, name="c")
    s = te.create_schedule(c.op)
    i, _ = s[c].split(c.op.axis[0], 6)
    s[b].transform_layout(LAYOUTS[layout])
    s[b].compute_at(s[c], i)
    x = np.arange(n * m, dtype="float32").reshape(n, m)
    np.testing.assert_array_equal(run(s, [a, c], [x, np.zeros_like(x)]), x * 2 + 1)
    if layout == "turned" and n > 6:
        assert allocated(str(tvm.lower(s, [a, c])), "b") == 6 * m


def test_the_part_is_counted_from_its_first_element() -> None:
    a = te.placeholder((40,), name="a")
    b = te.compute((40,), lambda i: a[i] * 2.0, name="b")
    c = te.compute((37,), lambda i: b[i] + b[i + 3], name="c")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], 5)
    s[b].transform_layout(lambda i: [i // 3, i % 3])
    s[b].compute_at(s[c], outer)
    x = np.arange(40, dtype="float32")
    want = 2 * x[:37] + 2 * x[3:]
    np.testing.assert_array_equal(run(s, [a, c], [x, np.zeros(37, "float32")]), want)


@pytest.mark.parametrize("kind", ["vectorize", "unroll"])
@pytest.mark.parametrize("n,m,k", list(itertools.product((3, 13, 16, 29), (5, 16, 19), (1, 7))))
def test_tiles_that_reach_over_the_edge(n: int, m: int, k: int, kind: str) -> None:
    a, b = te.placeholder((n, k), "int32", name="a"), te.placeholder((k, m), "int32", name="b")
    r = te.reduce_axis((0, k))
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    d = te.compute((n, m), lambda i, j: c[i, j] - i * 100 - j, name="d")
    s = te.create_schedule(d.op)
    rows, columns = d.op.axis
    _, j, _, _ = s[d].tile(rows, columns, 6, 12)
    s[c].compute_at(s[d], j)
    for t, axes in ((c, 2), (s.cache_read(b, "local", [c]), 2), (s.cache_read(a, "local", [c]), 1)):
        if t is not c:
            s[t].compute_at(s[d], j)
        for axis, size in zip(t.op.axis[:axes], (4, 8)):
            getattr(s[t], kind if axis is t.op.axis[-1] else "unroll")(s[t].split(axis, size)[1])
    rng = np.random.default_rng(n)
    x, y = (rng.integers(-9, 9, shape).astype("int32") for shape in ((n, k), (k, m)))
    want = x @ y - np.arange(n)[:, None] * 100 - np.arange(m)
    got = run(s, [a, b, d], [x, y, np.full((n, m), 77, "int32")])
    np.testing.assert_array_equal(got, want)


def test_a_stage_that_reads_arguments_keeps_its_guard() -> None:
    a = te.placeholder((13,), name="a")
    b = te.compute((13,), lambda i: a[i] * 2.0, name="b")
    c = te.compute((13,), lambda i: b[i] + 1.0, name="c")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 8)
    s[c].vectorize(inner)
    s[b].compute_at(s[c], outer)
    s[b].vectorize(b.op.axis[0])
    text = str(tvm.lower(s, [a, c]))
    assert "a[8:13]" in text
    x = np.arange(13, dtype="float32")
    np.testing.assert_array_equal(run(s, [a, c], [x, np.zeros_like(x)]), x * 2 + 1)


@pytest.mark.parametrize(
    "shape,mapping",
    [
        ((50000, 50000), lambda i, j: [i * 50000 + j]),
        ((2**16, 2**16), lambda i, j: [-i * 2**16 - j]),
        ((10, 8), lambda i, j: [i * 2**30, j]),
    ],
)
def test_layouts_whose_indices_their_type_does_not_hold(shape: Any, mapping: Any) -> None:
    a = te.placeholder((8,), "int8", name="a")
    b = te.compute(shape, lambda i, j: a[j % 8], name="b")
    s = te.create_schedule(te.compute((8,), lambda i: b[0, i], name="c").op)
    with pytest.raises(ScheduleError, match="which int32 does not hold"):
        s[b].transform_layout(mapping)


@pytest.mark.parametrize("kind", ["uint32", "int32", "int64", "uint64"])
def test_indices_of_any_value_reach_over_the_dimension(kind: str) -> None:
    n, m, count = te.var("n"), te.var("m"), te.var("count")
    a, where = te.placeholder((n, m), name="a"), te.placeholder((count,), kind, name="where")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="b")
    c = te.compute((n, count), lambda i, k: b[i, where[k].astype("int32")], name="c")
    f = tvm.build(te.create_schedule(c.op), [a, where, c], "llvm")
    x, w = np.arange(12, dtype="float32").reshape(3, 4), np.array([3, 0, 1, 1, 2], kind)
    arrays = [tvm.nd.array(z) for z in (x, w, np.zeros((3, 5), "float32"))]
    f(*arrays)
    np.testing.assert_array_equal(arrays[-1].numpy(), x[:, w] + 1)


def test_a_rolling_buffer_of_another_layout_is_whole() -> None:
    a = te.placeholder((9, 12), name="a")
    b = te.compute((9, 12), lambda i, j: a[i, j] * 2.0, name="b")
    c = te.compute((9, 11), lambda i, j: b[i, j] + b[i, j + 1], name="c")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[1])
    s[b].rolling_buffer()
    s[b].transform_layout(lambda i, j: [j, i])
    x = np.arange(108, dtype="float32").reshape(9, 12)
    want = 2 * x[:, :-1] + 2 * x[:, 1:]
    np.testing.assert_array_equal(run(s, [a, c], [x, np.zeros_like(want)]), want)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint32", "int64"])
def test_layouts_at_indices_of_any_type(kind: str) -> None:
    a, where = te.placeholder((6, 5), name="a"), te.placeholder((9,), kind, name="where")
    b = te.compute((6, 5), lambda i, j: a[i, j] + 1.0, name="b")
    c = te.compute((6, 9), lambda i, k: b[i, where[k]], name="c")
    s = te.create_schedule(c.op)
    s[b].transform_layout(lambda i, j: [i + j, j])
    x, w = np.arange(30, dtype="float32").reshape(6, 5), np.arange(9).astype(kind) % 5
    got = run(s, [a, where, c], [x, w, np.zeros((6, 9), "float32")])
    np.testing.assert_array_equal(got, x[:, w.astype(int)] + 1)


@pytest.mark.parametrize("kind", ["rolling_buffer", "double_buffer"])
@pytest.mark.parametrize("first", [False, True])
def test_virtual_threads_keep_buffers_of_their_own(kind: str, first: bool) -> None:
    """Also those that roll in a loop around the threads."""
    a = te.placeholder((6, 4), name="a")
    p = te.compute((6, 4), lambda i, j: a[i, j] + 1, name="p")
    k = te.reduce_axis((0, 2), "k")
    b = te.compute((5, 4), lambda i, j: te.sum(p[i + k, j], axis=k), name="b")
    s = te.create_schedule(b.op)
    row, column = b.op.axis
    outer, inner = s[b].split(column, nparts=2)
    s[b].reorder(*((outer, row, inner) if first else (row, outer, inner)))
    s[b].bind(outer, te.thread_axis("vthread"))
    s[p].compute_at(s[b], row if first else outer)
    getattr(s[p], kind)()
    x = np.arange(24, dtype="float32").reshape(6, 4)
    np.testing.assert_array_equal(run(s, [a, b], [x, np.zeros((5, 4), "f")]), x[:5] + x[1:] + 2)


def test_a_buffer_that_rolls_in_a_loop_and_is_doubled_around_it() -> None:
    """The loop it rolls in is written out: it is filled piece by piece."""
    a = te.placeholder((3, 4), "int32", name="a")
    p = te.compute((3, 4), lambda i, j: a[i, j] + 1, name="p")

    def around(i: Any, j: Any) -> Any:
        left = te.if_then_else(j >= 1, p[i, j - 1], 0)
        return left + te.if_then_else(j + 1 < 4, p[i, j + 1], 0)

    b = te.compute((3, 4), around, name="b")
    s = te.create_schedule(b.op)
    s[p].rolling_buffer()
    s[p].double_buffer()
    s[p].compute_at(s[b], b.op.axis[1])
    x = np.arange(12, dtype="int32").reshape(3, 4)
    wide = np.pad(x + 1, ((0, 0), (1, 1)))
    out = run(s, [a, b], [x, np.zeros_like(x)])
    np.testing.assert_array_equal(out, wide[:, :-2] + wide[:, 2:])


def test_a_buffer_that_rolls_in_a_short_loop_stays_single() -> None:
    a = te.placeholder((6, 6), "int32", name="a")
    b = te.compute((6, 5), lambda i, j: te.max(a[i, j], a[i, j + 1]), name="b")
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.axis[1], factor=4)
    copy = s.cache_read(a, "global", [b])
    s[copy].compute_at(s[b], outer)
    s[copy].rolling_buffer()
    s[copy].double_buffer()
    x = np.random.default_rng(1).integers(-9, 9, (6, 6), dtype="int32")
    out = run(s, [a, b], [x, np.zeros((6, 5), "int32")])
    np.testing.assert_array_equal(out, np.maximum(x[:, :-1], x[:, 1:]))


@pytest.mark.parametrize("parts", [(2, 3), (3, 2), (4, 3), (2, 5)])
def test_virtual_threads_that_reach_into_each_others_part(parts: tuple[int, int]) -> None:
    """What tiles that do not divide leave over may be done twice, but not be added twice."""
    a = te.placeholder((10, 3), name="a")
    k = te.reduce_axis((0, 3), "k")
    b = te.compute((10,), lambda i: te.sum(a[i, k], axis=k), name="b")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.axis[0], factor=7)
    for count in parts:
        thread, inner = s[b].split(inner, nparts=count)
        s[b].bind(thread, te.thread_axis("vthread"))
    x = np.arange(30, dtype="float32").reshape(10, 3)
    np.testing.assert_array_equal(run(s, [a, b], [x, np.zeros(10, "f")]), x.sum(1))


@pytest.mark.parametrize(("first", "held"), [(0, 8), (1, 8), (3, 12), (9, 6)])
def test_copies_in_vectors_begin_where_vectors_of_memory_do(first: int, held: int) -> None:
    """Of a window over 4 + 2 places, unless the tensor ends before the last vector does."""
    size = 72 - (first > 3)
    a = te.placeholder((size,), name="a")
    k = te.reduce_axis((0, 3), "k")
    b = te.compute((64 - 4 * (first > 3),), lambda i: te.sum(a[i + first + k], axis=k), name="b")
    s = te.create_schedule(b.op)
    near = s.cache_read(a, "local", [b])
    thread, _ = s[b].split(b.op.axis[0], factor=4)
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    s[near].compute_at(s[b], thread)
    _, lanes = s[near].split(near.op.axis[0], factor=4)
    s[near].vectorize(lanes)
    f = tvm.build(s, [a, b], "cuda -arch=sm_80", name="f")
    source = f.imported_modules[0].get_source()
    assert f"a_local[{held}]" in source
    assert ("(const float4*)(a" in source) == (held != 6)
    x, y = np.arange(size, dtype="float32"), np.zeros(int(b.shape[0]), "float32")
    f.run_simt(x, y)
    np.testing.assert_array_equal(y, [x[i + first : i + first + 3].sum() for i in range(len(y))])
