"""Primitives called with things that are no factor, axis, tensor or scope; nothing is changed."""

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.base.errors import CompileError, ScheduleError, TilewrightError
from tilewright.schedule.api import load_schedule

NO_INTEGERS = [2.5, float("nan"), float("inf"), "4", "a\nb", None, [], (2,), {}, b"x", 1j, object()]
NO_INTEGERS += [np.float32(2), np.array([2, 3]), tir.const(2.5), te.var("f", "float32"), len, True]


def chain():
    a = te.placeholder((8, 16), name="A")
    b = te.compute((8, 16), lambda i, j: a[i, j] + 1.0, name="B")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute((8,), lambda i: te.sum(b[i, k], axis=k), name="C")
    return a, b, c, te.create_schedule(c.op)


def refused(s, action, *parts):
    """The action raises ScheduleError with these words and leaves the schedule as it was."""
    before = [(t.name, t.op, list(t.leaf_iter_vars), t.describe()) for t in s.stages], len(s.steps)
    with pytest.raises(ScheduleError) as info:
        action()
    for part in parts:
        assert part in str(info.value), f"{part!r} not in:\n{info.value}"
    after = [(t.name, t.op, list(t.leaf_iter_vars), t.describe()) for t in s.stages], len(s.steps)
    assert before == after


def runs_right(s, a, c):
    x = np.arange(128, dtype="float32").reshape(8, 16)
    y = np.zeros(8, "float32")
    tvm.build(s, [a, c])(x, y)
    np.testing.assert_array_equal(y, (x + 1).sum(1))


@pytest.mark.parametrize("value", NO_INTEGERS, ids=lambda v: str(type(v).__name__))
def test_what_is_no_integer(value):
    a, b, c, s = chain()
    i, j = b.op.axis
    (k,) = c.op.reduce_axis
    one = "exactly one of factor and nparts" if value is None else "must be an integer"
    refused(
        s,
        lambda: s[b].split(i, factor=value),
        f"split on stage B, axis i: {'give ' if value is None else 'factor '}{one}",
    )
    refused(s, lambda: s[b].split(i, nparts=value), one)
    refused(s, lambda: s[b].tile(i, j, value, 2), "tile on stage B", one)
    refused(s, lambda: s[b].tile(i, j, 2, value), "tile on stage B, axis j", one)
    refused(s, lambda: s[b].storage_align(i, value, 0), "factor must be an integer")
    refused(s, lambda: s[b].storage_align(i, 2, value), "offset must be an integer")
    refused(s, lambda: s.rfactor(c, k, value), "factor_axis must be an integer")
    runs_right(s, a, c)


@pytest.mark.parametrize("value", [0, -1, -(2**62), np.int32(0), np.int64(-2), tir.const(0)])
def test_integers_that_are_no_extent(value):
    a, b, c, s = chain()
    i, j = b.op.axis
    positive = f"must be positive, got {int(value)}"
    refused(s, lambda: s[b].split(i, factor=value), f"factor {positive}", "a factor of 1 or more")
    refused(s, lambda: s[b].split(i, nparts=value), f"nparts {positive}")
    refused(s, lambda: s[b].tile(i, j, 2, value), f"factor {positive}", "j in", "<-- here")
    refused(s, lambda: s[b].storage_align(i, value, 0), "factor must be positive")
    runs_right(s, a, c)


def test_integers_of_more_than_64_bits():
    _, b, _, s = chain()
    i, _ = b.op.axis
    refused(s, lambda: s[b].split(i, factor=2**63), "factor must be an integer", "64 bits")
    refused(s, lambda: s[b].split(i, nparts=2**100), "nparts must be an integer", "64 bits")
    refused(s, lambda: s[b].storage_align(i, 2**40, 0), "factor must be positive and fit 32 bits")
    refused(s, lambda: s[b].storage_align(i, 4, -(2**40)), "offset must fit 32 bits")


@pytest.mark.parametrize("factor", [np.int64(3), tir.const(3), 2**31 - 1, 2**31, 2**63 - 1])
def test_unusual_factors_that_are_legal(factor):
    a, b, c, s = chain()
    s[b].split(b.op.axis[0], factor=factor)
    s[c].split(c.op.reduce_axis[0], factor=factor)
    runs_right(s, a, c)


@pytest.mark.parametrize("value", [0, 2.5, "x", None, (2,), {}, te.var("n"), object()])
def test_what_is_no_axis(value):
    a, b, c, s = chain()
    tx = te.thread_axis("threadIdx.x")
    expected = f"expected an axis (IterVar), got {value!r}"
    for action in (
        lambda: s[b].split(value, factor=2),
        lambda: s[b].fuse(value, b.op.axis[0]),
        lambda: s[b].reorder(value, b.op.axis[0]),
        lambda: s[b].tile(value, b.op.axis[1], 2, 2),
        lambda: s[b].tile(b.op.axis[0], value, 2, 2),
        lambda: s[b].vectorize(value),
        lambda: s[b].unroll(value),
        lambda: s[b].parallel(value),
        lambda: s[b].bind(value, tx),
        lambda: s[b].pragma(value, "unroll"),
        lambda: s[c].prefetch(b, value, 1),
        lambda: s[b].tensorize(value, None),
        lambda: s.rfactor(c, value),
    ):
        refused(s, action, expected)
    refused(s, lambda: s[b].compute_at(s[c], value), "Cannot find the axis", "one of i, k")
    refused(s, lambda: s[b].storage_align(value, 2, 0), "speaks of a dimension", "s[B].op.axis")
    refused(s, lambda: s[b].bind(b.op.axis[0], value), "only thread axis is allowed")
    runs_right(s, a, c)


def test_an_axis_of_another_schedule():
    _, _, c, s = chain()
    _, b2, c2, s2 = chain()
    refused(s, lambda: s[c].split(c2.op.axis[0], factor=2), "not part of the schedule of stage C")
    refused(s2, lambda: s2[b2].compute_at(s[c], c.op.axis[0]), "C is a stage of another schedule")
    refused(s2, lambda: s2[b2].compute_at(s2[c2], c.op.axis[0]), "Cannot find the axis i", "i, k")
    refused(s2, lambda: s2.cache_read(b2, "local", [c]), "Cannot find the stage for C")


@pytest.mark.parametrize("value", [0, "A", None, 2.5, [], {}, object(), np.zeros(3)])
def test_what_is_no_tensor(value):
    _, b, c, s = chain()
    refused(s, lambda: s[value], "a stage is found by its tensor or operation")
    refused(s, lambda: s[b].compute_at(value, c.op.axis[0]), "a stage is found by its tensor")
    refused(s, lambda: s.cache_read(value, "local", [c]), "expected a tensor")
    refused(s, lambda: s[c].prefetch(value, c.op.axis[0], 1), "expected a tensor")
    refused(s, lambda: s.rfactor(value, c.op.reduce_axis[0]), "tensor or operation")
    if not isinstance(value, list):
        refused(s, lambda: s.cache_read(b, "local", value), "a stage is found by its tensor")
        refused(s, lambda: s.cache_write(value, "local"), "expected a tensor")
        refused(s, lambda: s.create_group(c, value), "inputs must be a tensor or a list of tensors")
    refused(s, lambda: s.create_group(value, b), "group")
    refused(s, lambda: te.create_schedule([value]), "takes operations or tensors")


@pytest.mark.parametrize("scope", ["x", "a\nb", "Shared", "shared.", "global local", 0, None, [2]])
def test_unknown_storage_scopes(scope):
    _, b, c, s = chain()
    legal = f"unknown storage scope {scope!r}", "legal: global, shared, warp, local"
    refused(s, lambda: s[b].set_scope(scope), "set_scope on stage B", *legal)
    refused(s, lambda: s.cache_read(b, scope, [c]), *legal)
    refused(s, lambda: s.cache_write(b, scope), *legal)


def test_pragmas():
    _, _, c, s = chain()
    i = c.op.axis[0]
    step = "auto_unroll_max_step"
    names: list[Any] = [0, None, "", ["unroll"], {}]
    for name in names:
        refused(s, lambda name=name: s[c].pragma(i, name), "a pragma has a name")
    for value in (2.5, -1, "x", te.var("n")):
        refused(s, lambda v=value: s[c].pragma(i, step, v), f"{step} takes a whole number")
    refused(
        s, lambda: s[c].pragma(i, "unroll_explicit", {}), "the value of a pragma: cannot use {}"
    )
    refused(s, lambda: s[c].pragma(i, "import_llvm", 3), "pragma import_llvm takes text, got 3")


def test_prefetch_offsets():
    _, b, c, s = chain()
    i = c.op.axis[0]
    refused(s, lambda: s[c].prefetch(b, i, None), "the offset of a prefetch: cannot use None")
    refused(s, lambda: s[c].prefetch(b, i, 1.5), "must be an integer, got 1.5")
    refused(s, lambda: s[c].prefetch(b, i, 2**40), "must fit 32 bits")
    foreign = te.placeholder((4,), name="F")
    refused(s, lambda: s[b].prefetch(foreign, b.op.axis[0], 1), "Cannot find the stage for F")


def test_store_predicates():
    _, b, _, s = chain()
    for value in (None, [], {}, object(), "i < 3"):
        refused(s, lambda v=value: s[b].set_store_predicate(v), "the predicate is no condition")


def test_layout_maps():
    _, b, _, s = chain()
    for value in (None, 3, "ij", [1, 0]):
        refused(s, lambda v=value: s[b].transform_layout(v), "a layout map is a function")
    refused(s, lambda: s[b].transform_layout(lambda i: [i]), "takes 1 indices, the tensor has 2")
    refused(s, lambda: s[b].transform_layout(lambda i, j: 3), "must give a list of indices")
    refused(s, lambda: s[b].transform_layout(lambda i, j: [i, None]), "index 1 of the layout map")
    refused(s, lambda: s[b].transform_layout(lambda i, j: [i, j * 0.5]), "index 1 of the layout")
    refused(s, lambda: s[b].transform_layout(lambda i, j: []), "not invertible")


def test_variables_without_a_value():
    n = te.var("n")
    a, b, c, s = chain()
    s[b].split(b.op.axis[0], factor=n)
    with pytest.raises(CompileError, match="nothing gives the value of n; pass it as an argument"):
        tvm.build(s, [a, c])
    a, b, c, s = chain()
    s[b].set_store_predicate(n > 2)
    with pytest.raises(CompileError, match="function f: nothing gives the value of n"):
        tvm.build(s, [a, c], name="f")
    f = tvm.build(s, [a, c, n])
    y = np.zeros(8, "float32")
    f(np.ones((8, 16), "float32"), y, 3)
    assert (y == 32).all()


def saved():
    _, b, c, s = chain()
    s[b].split(b.op.axis[0], factor=4)
    return s.save_json(), c


JUNK_STEPS = [
    ('[["nonsense",1,[],{},null]]', "there is no primitive 'nonsense'"),
    ('[["__init__",1,[],{},null]]', "there is no primitive '__init__'"),
    ('[["cache_read",1,[],{},null]]', "there is no primitive 'cache_read'"),
    ('[["split",null,[],{},null]]', "there is no primitive 'split'"),
    ('[["split",99,[],{},null]]', "step 0 (split) does not fit"),
    ('[["split","x",[],{},null]]', "step 0 (split) does not fit"),
    ('[["split",1,[],{},null]]', "or other arguments than the primitive takes"),
    ('[["split",1,[{"axis":[1,99,""]}],{"factor":2},null]]', "step 0 (split) does not fit"),
    ('[["split",1,[{"axis":["x","y",""]}],{"factor":2},null]]', "step 0 (split) does not fit"),
    ('[["split",1,[{"axis":[1,0,""]}],{"size":2},null]]', "step 0 (split) does not fit"),
    ('[["split",1,[{"axis":[1,0,""]}],{"factor":0},null]]', "factor must be positive, got 0"),
    ('[["split",1,[{"axis":[1,0]}],{"factor":2},null]]', "this saved schedule is damaged"),
    ('[["split",1,[{"nope":[1]}],{"factor":2},null]]', "this saved schedule is damaged"),
    ('[["split",1,[{"expr":"junk"}],{"factor":2},null]]', "no program of the loop IR"),
    ('[["split"]]', "this saved schedule is damaged"),
    ("[1]", "this saved schedule is damaged"),
    ('{"a":1}', "this saved schedule is damaged"),
    ("3", "this saved schedule is damaged"),
]


@pytest.mark.parametrize(("steps", "words"), JUNK_STEPS)
def test_steps_that_cannot_be_replayed(steps, words):
    _, _, c, _ = chain()
    with pytest.raises(TilewrightError) as caught:
        load_schedule(f'{{"version":1,"steps":{steps}}}', [c.op])
    assert words in str(caught.value)


def test_text_that_is_no_saved_schedule():
    text, c = saved()
    assert len(load_schedule(text, [c.op]).steps) == 1
    for junk in ("", "{}", "[]", "null", "x", None, 3, text[:-5]):
        with pytest.raises(ScheduleError, match="this is not a saved schedule"):
            load_schedule(junk, [c.op])
    newer = text.replace('"version":1', '"version":99')
    with pytest.raises(ScheduleError, match="version 99, this tilewright reads 1"):
        load_schedule(newer, [c.op])
    other = te.compute((), lambda: 1.0)
    with pytest.raises(ScheduleError, match="is this the computation it was made for"):
        load_schedule(text, [other.op])


def test_a_schedule_prints_as_its_stages():
    _, b, _, s = chain()
    s.cache_write(b, "local")
    assert repr(s) == "schedule(A, B.local, B, C)"
