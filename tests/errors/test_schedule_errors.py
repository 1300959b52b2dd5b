"""Illegal use of schedule primitives: messages name the primitive, the place, what is legal."""

import pytest

import tilewright as tvm
from tilewright import te
from tilewright.base.errors import ScheduleError


def chain():
    a = te.placeholder((8, 16), name="A")
    b = te.compute((8, 16), lambda i, j: a[i, j] + 1.0, name="B")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute((8,), lambda i: te.sum(b[i, k], axis=k), name="C")
    return a, b, c, te.create_schedule(c.op)


def fails(action, *parts):
    with pytest.raises(ScheduleError) as info:
        action()
    for part in parts:
        assert part in str(info.value), f"{part!r} not in:\n{info.value}"


def test_foreign_tensor():
    _, _, _, s = chain()
    other = te.placeholder((4,), name="Other")
    fails(lambda: s[other], "Cannot find the stage for Other", "its stages are A, B, C")


def test_foreign_axis():
    _, b, c, s = chain()
    fails(
        lambda: s[c].split(b.op.axis[1], factor=2),
        "split on stage C",
        "not part of the schedule",
        "s[C].op.axis",
    )


def test_axis_that_was_split_shows_the_loops():
    _, b, _, s = chain()
    s[b].split(b.op.axis[1], factor=4)
    fails(
        lambda: s[b].vectorize(b.op.axis[1]),
        "already been split",
        "j.outer",
        "use the axes that the split",
    )


@pytest.mark.parametrize("factor", [0, -3])
def test_split_by_nothing(factor):
    _, b, _, s = chain()
    fails(lambda: s[b].split(b.op.axis[0], factor=factor), "factor must be positive", "<-- here")


def test_split_takes_one_of_factor_and_nparts():
    _, b, _, s = chain()
    axis = b.op.axis[0]
    fails(lambda: s[b].split(axis), "exactly one of factor and nparts")
    fails(lambda: s[b].split(axis, factor=2, nparts=2), "exactly one of factor and nparts")
    fails(lambda: s[b].split(axis, factor=2.5), "must be an integer")
    fails(lambda: s[b].split(axis, factor="x"), "must be an integer")


def test_split_of_a_vectorized_axis():
    _, b, _, s = chain()
    s[b].vectorize(b.op.axis[1])
    fails(lambda: s[b].split(b.op.axis[1], factor=2), "Cannot split on Vectorized")


def test_fuse_needs_neighbours():
    a = te.placeholder((2, 3, 4), name="A")
    b = te.compute((2, 3, 4), lambda i, j, k: a[i, j, k] * 2.0, name="B")
    s = te.create_schedule(b.op)
    i, j, k = b.op.axis
    fails(lambda: s[b].fuse(i, k), "Can only fuse iterations that are consecutive")
    fails(lambda: s[b].fuse(k, i), "Can only fuse iterations that are consecutive")
    fails(lambda: s[b].fuse(j, k, j), "Can only fuse iterations that are consecutive")


def test_what_an_axis_fused_of_data_and_reduction_is_not_for():
    _, _, c, s = chain()
    fused = s[c].fuse(c.op.axis[0], c.op.reduce_axis[0])
    x = te.thread_axis("threadIdx.x")
    fails(lambda: s[c].bind(fused, x), "fused of data and reduction axes")
    fails(lambda: s[c].parallel(fused), "Cannot parallelize the reduction axis")
    fails(lambda: s[c].vectorize(fused), "Cannot vectorize on CommReduce")
    fails(lambda: s.rfactor(c, fused), "touches normal axis")
    fails(lambda: s.cache_write(c, "local"), "after data and reduction axes were fused")


def test_reorder_twice_the_same():
    _, b, _, s = chain()
    i, _ = b.op.axis
    fails(lambda: s[b].reorder(i, i), "Same axis can not appear more than once")


def test_vectorize_and_parallel_of_a_reduction():
    _, _, c, s = chain()
    fails(lambda: s[c].vectorize(c.op.reduce_axis[0]), "Cannot vectorize on CommReduce", "rfactor")
    fails(lambda: s[c].parallel(c.op.reduce_axis[0]), "Cannot parallelize the reduction axis k")


def test_bind_twice():
    _, b, _, s = chain()
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(b.op.axis[0], tx)
    fails(lambda: s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.y")), "bound twice")
    fails(lambda: s[b].bind(b.op.axis[1], tx), "bound twice")
    fails(lambda: s[b].bind(b.op.axis[1], b.op.axis[0]), "only thread axis is allowed")


def test_compute_at_needs_a_loop_of_the_parent():
    _, b, c, s = chain()
    fails(
        lambda: s[b].compute_at(s[c], b.op.axis[0]),
        "Cannot find the axis i in parent's leaf_iter_vars",
        "one of i, k",
    )
    fails(lambda: s[c].compute_at(s[b], b.op.axis[0]), "Output must be attached at root")
    fails(lambda: s[b].compute_at(s[b], b.op.axis[0]), "at itself")


def test_compute_at_where_the_consumer_does_not_run():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((8,), lambda i: b[i] * 2.0, name="C")
    d = te.compute((8,), lambda i: b[i] + c[i], name="D")
    s = te.create_schedule([d.op])
    s[b].compute_at(s[d], d.op.axis[0])
    fails(
        lambda: tvm.lower(s, [a, d]),
        "Invalid Schedule, cannot find the producer B along the loop nest specified by compute_at",
        "consumer C",
    )


def test_attach_cycle():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((8,), lambda i: b[i] * 2.0, name="C")
    d = te.compute((8,), lambda i: b[i] + c[i], name="D")
    s = te.create_schedule([d.op])
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].compute_at(s[b], b.op.axis[0])
    fails(lambda: tvm.lower(s, [a, d]), "Find loop in compute_at attach group")


def test_compute_at_below_a_reduction_of_its_reader_is_legal():
    _, b, c, s = chain()
    s[b].compute_at(s[c], c.op.reduce_axis[0])
    text = str(tvm.lower(s, [b.op.input_tensors[0], c]))
    loop, fill = text.index("for k in"), text.index("B_1[0] =")
    assert text.index("for i in") < loop < fill
    assert "B = T.allocate([1]" in text


def test_compute_at_below_the_reduction_of_a_stage_that_does_not_read_it():
    a = te.placeholder((8, 16), name="A")
    b = te.compute((8,), lambda i: a[i, 0] + 1.0, name="B")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="C")
    d = te.compute((8,), lambda i: b[i] + c[i], name="D")
    s = te.create_schedule(d.op)
    s[b].compute_at(s[c], k)
    fails(
        lambda: tvm.lower(s, [a, d]),
        "cannot find the producer B",
        "B is computed at C, axis k, but D reads it outside of that loop",
    )


def test_inline_of_reduction_and_output():
    a = te.placeholder((8, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((8,), lambda i: b[i] + 1.0, name="C")
    s = te.create_schedule(c.op)
    fails(lambda: s[b].compute_inline(), "cannot inline the reduction B")
    fails(lambda: s[c].compute_inline(), "is an output")


def test_cache_read_by_one_who_does_not_read():
    a, _, c, s = chain()
    fails(lambda: s.cache_read(a, "shared", [c]), "Cannot find A in the inputs of C", "C reads B")
    fails(lambda: s.cache_read(a, "shared", []), "without readers")


def test_rfactor_of_a_data_axis():
    _, _, c, s = chain()
    fails(lambda: s.rfactor(c, c.op.axis[0]), "Can only factor reduction axis")


def test_double_buffer_of_an_output():
    _, _, c, s = chain()
    fails(lambda: s[c].double_buffer(), "Cannot apply buffering on output")


def test_env_threads_of_a_plain_stage():
    _, _, c, s = chain()
    tx = te.thread_axis("threadIdx.x")
    fails(lambda: s[c].env_threads([tx]), "env_threads is only valid for composite ops")


def test_transform_layout_after_split():
    _, b, _, s = chain()
    s[b].split(b.op.axis[0], factor=2)
    fails(
        lambda: s[b].transform_layout(lambda i, j: [j, i]),
        "Cannot transform the layout once the compute axes have been split",
    )


def test_transform_layout_that_loses_elements():
    _, b, _, s = chain()
    fails(lambda: s[b].transform_layout(lambda i, j: [i + j]), "not invertible")
