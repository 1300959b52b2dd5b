"""Groups: stages that move together."""

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te
from tilewright.base.errors import ScheduleError


def chain():
    a = te.placeholder((8, 4), name="A")
    b = te.compute((8, 4), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 4), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((8, 4), lambda i, j: c[i, j] - 3.0, name="D")
    e = te.compute((8, 4), lambda i, j: d[i, j] * d[i, j], name="E")
    return a, b, c, d, e


def check(s, a, e):
    f = tvm.build(s, [a, e], "llvm")
    x = np.arange(32, dtype="float32").reshape(8, 4)
    y = np.zeros_like(x)
    f(x, y)
    np.testing.assert_array_equal(y, ((x + 1) * 2 - 3) ** 2)


def test_a_group_is_computed_where_it_is_attached():
    a, b, _c, d, e = chain()
    s = te.create_schedule(e.op)
    g = s.create_group(outputs=d, inputs=b, include_inputs=True)
    g.compute_at(s[e], e.op.axis[0])
    text = str(tvm.lower(s, [a, e]))
    assert text.index("for i in") < text.index("B = T.allocate([4]")
    check(s, a, e)


def test_a_group_around_a_group():
    a, b, c, d, e = chain()
    s = te.create_schedule(e.op)
    inner = s.create_group(outputs=c, inputs=b, include_inputs=True)
    outer = s.create_group(outputs=d, inputs=b, include_inputs=True)
    groups = [inner.group, outer.group, s[d].group, s[b].group, s[c].group]
    assert all(x is y for x, y in zip(groups, [outer, None, outer, inner, inner]))
    outer.compute_at(s[e], e.op.axis[0])
    check(s, a, e)


def test_groups_may_not_overlap_in_part():
    _, b, c, d, e = chain()
    s = te.create_schedule(e.op)
    s.create_group(outputs=c, inputs=b, include_inputs=True)
    with pytest.raises(ScheduleError, match="overlaps another group only in part"):
        s.create_group(outputs=d, inputs=c, include_inputs=True)
    assert s[d].group is None


def test_an_empty_group_is_refused():
    a, b, _, _, e = chain()
    s = te.create_schedule(e.op)
    with pytest.raises(ScheduleError, match="the group is empty"):
        s.create_group(outputs=b, inputs=b)
    assert a is not None


def test_stages_of_a_group_attach_inside_it():
    _, b, c, _, e = chain()
    s = te.create_schedule(e.op)
    s.create_group(outputs=c, inputs=b, include_inputs=True)
    with pytest.raises(ScheduleError, match="Can only assign compute_at to stages within the same"):
        s[b].compute_at(s[e], e.op.axis[0])


def test_a_stage_outside_of_a_scan_is_computed_inside_of_its_step():
    x = te.placeholder((5, 3), name="X")
    twice = te.compute((5, 3), lambda t, i: x[t, i] * 2.0, name="twice")
    state = te.placeholder((5, 3), name="state")
    first = te.compute((1, 3), lambda _, i: x[0, i], name="first")
    step = te.compute((5, 3), lambda t, i: state[t - 1, i] + twice[t, i], name="step")
    r = te.scan(first, step, state)
    s = te.create_schedule(r.op)
    s[twice].compute_at(s[step], step.op.axis[1])
    path = te.schedule.CreateAttachPath(s)[s[twice].op]
    assert [a.var.name for a in path] == ["i", "t", "scan.idx"]
    with pytest.raises(ScheduleError, match="within the same group"):
        s[step].compute_at(s[first], first.op.axis[0])
    rows = np.arange(15, dtype="float32").reshape(5, 3)
    y = np.zeros_like(rows)
    tvm.build(s, [x, r], "llvm")(rows, y)
    expected = np.cumsum(np.concatenate([rows[:1], rows[1:] * 2]), axis=0)
    np.testing.assert_array_equal(y, expected)
