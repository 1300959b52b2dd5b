"""Where a tensor intrinsic may stand, and the memory that it sees."""

import numpy as np
import pytest

import tilewright as tvm
from tests.fuzz.tensorize import intrin_for
from tilewright import te
from tilewright.base.errors import ScheduleError


def chain():
    a = te.placeholder((7, 4), name="a")
    b = te.compute((7, 4), lambda i, j: a[i, j] + 1, name="b")
    c = te.compute((7, 4), lambda i, j: b[i, j] * 2, name="c")
    return a, b, c, te.create_schedule(c.op)


def run(s, a, c):
    x = np.arange(28, dtype="float32").reshape(7, 4)
    out = np.zeros((7, 4), "float32")
    tvm.build(s, [a, c], "llvm")(x, out)
    np.testing.assert_array_equal(out, (x + 1) * 2)


@pytest.mark.parametrize(
    "layout",
    [lambda i, j: [j, i], lambda i, j: [i, j // 2, j % 2], lambda i, j: [j // 4, i, j % 4]],
)
def test_regions_of_transformed_layouts(layout):
    a, b, c, s = chain()
    s[b].transform_layout(layout)
    s[c].tensorize(c.op.axis[1], intrin_for(c.op, c.op.axis[1], 4, False))
    run(s, a, c)


def test_a_layout_without_even_steps_is_refused():
    a, b, c, s = chain()
    s[b].transform_layout(lambda i, j: [j // 2, i, j % 2])
    s[c].tensorize(c.op.axis[1], intrin_for(c.op, c.op.axis[1], 4, False))
    with pytest.raises(ScheduleError, match="region of b is not evenly spaced"):
        tvm.lower(s, [a, c])


def test_a_predicate_on_replaced_loops_is_refused():
    a, _, c, s = chain()
    i, j = c.op.axis
    s[c].set_store_predicate(i.var >= 0)
    s[c].tensorize(j, intrin_for(c.op, j, 4, False))
    run(s, a, c)
    s[c].set_store_predicate(j.var >= 0)
    with pytest.raises(ScheduleError, match="store predicate j >= 0 relies on var j"):
        tvm.lower(s, [a, c])


def test_nothing_is_computed_at_a_replaced_loop():
    a, b, c, s = chain()
    i, j = c.op.axis
    s[c].tensorize(j, intrin_for(c.op, j, 4, False))
    s[b].compute_at(s[c], i)
    run(s, a, c)
    s[b].compute_at(s[c], j)
    with pytest.raises(ScheduleError, match="stage b is computed at j, which the intrinsic"):
        tvm.lower(s, [a, c])


def test_a_reset_stays_inside_the_tensor():
    a, k = te.placeholder((7, 8), name="a"), te.reduce_axis((0, 8), "k")
    b = te.compute((7,), lambda i: te.sum(a[i, k], axis=k), name="b")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(k, factor=4)
    io, ii = s[b].split(b.op.axis[0], factor=4)
    s[b].reorder(outer, io, ii, inner)
    s[b].tensorize(inner, intrin_for(b.op, k, 4, True))
    around = np.full(16, 5, "float32")
    tvm.build(s, [a, b], "llvm")(np.ones((7, 8), "float32"), around[:7])
    assert around.tolist() == [8] * 7 + [5] * 9


def test_an_intrinsic_reads_what_a_vectorised_loop_around_it_cached():
    """The intrinsic's view of the cache grows with it, a slot a lane."""
    a, _, c, s = chain()
    cache = s.cache_write(c, "global")
    i, j = s[c].op.axis
    s[c].tensorize(j, intrin_for(s[c].op, j, 4, False))
    s[cache].compute_at(s[c], i)
    s[c].vectorize(i)
    run(s, a, c)


def test_a_rolling_buffer_is_refused():
    a, b, c, s = chain()
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].rolling_buffer()
    s[b].tensorize(b.op.axis[1], intrin_for(b.op, b.op.axis[1], 4, False))
    with pytest.raises(ScheduleError, match="b is a rolling buffer"):
        tvm.lower(s, [a, c])
