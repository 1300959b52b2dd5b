"""The versions of a schedule that it keeps where it is asked to."""

import pytest

import tilewright as tvm
from tilewright import te
from tilewright.base.errors import ScheduleError


def product():
    a = te.placeholder((64, 64), name="A")
    k = te.reduce_axis((0, 64), "k")
    return a, te.compute((64, 64), lambda i, j: te.sum(a[i, k] * a[k, j], axis=k), name="C"), k


def test_one_version_after_each_primitive():
    _, c, k = product()
    with tvm.transform.PassContext(config={"te.keep_schedule_record": True}):
        s = te.create_schedule(c.op)
    i, j = c.op.axis
    xo, yo, xi, yi = s[c].tile(i, j, 8, 8)
    s[c].split(k, nparts=4)
    s[c].fuse(xo, yo)
    s[c].vectorize(yi)
    assert s.primitive_record == [
        "vanilla", "split", "split", "reorder", "split_by_nparts", "fuse", "fuse", "vectorize",
    ]  # fmt: skip
    loops = [[a.var.name for a in v[c].leaf_iter_vars] for v in s.schedule_record]
    assert loops[:3] == [["i", "j", "k"], ["i.outer", "i.inner", "j", "k"],
                         ["i.outer", "i.inner", "j.outer", "j.inner", "k"]]  # fmt: skip
    assert loops[-1] == loops[-2] and loops[-1][0] == "i.outer.j.outer.fused"
    assert str(tvm.lower(s.schedule_record[-1].normalize(), c.op.input_tensors[:1] + (c,)))
    assert s[c].leaf_iter_vars[1] is xi


def test_a_tile_that_fails_changes_nothing():
    _, c, _ = product()
    with tvm.transform.PassContext(config={"te.keep_schedule_record": True}):
        s = te.create_schedule(c.op)
    i, j = c.op.axis
    s[c].vectorize(j)
    with pytest.raises(ScheduleError, match="tile on stage C, axis j: Cannot split on Vectorized"):
        s[c].tile(i, j, 8, 8)
    assert len(s.schedule_record) == 2 and s[c].leaf_iter_vars[0] is i


def test_nothing_is_kept_unasked():
    _, c, _ = product()
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    s[c].tile(i, j, 8, 8)
    assert s.schedule_record == [] and s.primitive_record == []
