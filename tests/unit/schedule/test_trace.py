"""The trace: printing as Python, saving, loading, replaying."""

import pytest

import tilewright as tvm
from tilewright import te
from tilewright.base.errors import ScheduleError
from tilewright.schedule.api import load_schedule


def matmul(n=32):
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return a, b, c


def scheduled():
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    cc = s.cache_write(c, "global")
    xo, yo, _, _ = s[c].tile(c.op.axis[0], c.op.axis[1], 8, 16)
    s[cc].compute_at(s[c], yo)
    xc, yc = s[cc].op.axis
    (kk,) = s[cc].op.reduce_axis
    ko, ki = s[cc].split(kk, factor=4)
    s[cc].reorder(ko, xc, ki, yc)
    s[cc].unroll(ki)
    s[cc].vectorize(yc)
    s[c].parallel(xo)
    bs = s.cache_read(b, "global", [cc])
    s[bs].compute_at(s[cc], ko)
    s[cc].pragma(ko, "auto_unroll_max_step", 16)
    return s, [a, b, c]


def text_of(s, args):
    return str(tvm.lower(s, args))


def test_python_text_makes_the_same_schedule():
    s, (a, b, c) = scheduled()
    code = s.as_python()
    scope = {"te": te, "A": a, "B": b, "C": c}
    exec(code, scope)
    assert text_of(scope["s"], [a, b, c]) == text_of(s, [a, b, c])
    assert scope["s"].as_python() == code


def test_json_fits_another_copy_of_the_computation():
    s, args = scheduled()
    a, b, c = matmul()
    again = load_schedule(s.save_json(), c.op)
    assert text_of(again, [a, b, c]) == text_of(s, args)
    assert again.save_json() == s.save_json()


def test_copy_is_independent():
    s, (a, b, c) = scheduled()
    before = text_of(s, [a, b, c])
    twin = s.copy()
    twin[c].vectorize(twin[c].leaf_iter_vars[-1])
    assert text_of(s, [a, b, c]) == before
    assert text_of(twin, [a, b, c]) != before


def test_lowering_leaves_the_schedule_alone():
    s, args = scheduled()
    first = text_of(s, args)
    assert text_of(s, args) == first
    s[args[2]].vectorize(s[args[2]].leaf_iter_vars[-1])
    assert text_of(s, args) != first


def test_failed_primitive_leaves_no_step():
    _, _, c = matmul()
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError):
        s[c].split(c.op.axis[0], factor=0)
    with pytest.raises(ScheduleError):
        s[c].tile(c.op.axis[0], c.op.axis[1], 4, -1)
    assert s.steps == []
    assert [x.var.name for x in s[c].leaf_iter_vars] == ["i", "j", "k"]


@pytest.mark.parametrize(
    "text", ["", "{}", "[1, 2]", '{"version": 99, "steps": []}', '{"version": 1}']
)
def test_what_is_no_saved_schedule_is_refused(text):
    _, _, c = matmul()
    with pytest.raises(ScheduleError, match=r"saved schedule|version"):
        load_schedule(text, c.op)
