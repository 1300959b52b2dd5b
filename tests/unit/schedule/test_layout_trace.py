"""transform_layout in the trace: as JSON, as Python, on another copy of the computation."""

import pytest

import tilewright as tvm
from tilewright import te
from tilewright.base.errors import ScheduleError
from tilewright.schedule.api import load_schedule
from tilewright.schedule.layout_map import LayoutMap


def chain(shape=(8, 12), dtype="int32"):
    a = te.placeholder(tuple(tvm.tir.const(n, dtype) for n in shape), name="A")
    b = te.compute(a.shape, lambda *i: a[i] + 1.0, name="B")
    c = te.compute(a.shape, lambda *i: b[i] * 2.0, name="C")
    return a, b, c


MAPS = {
    "turn": lambda i, j: [j, i],
    "tiles": lambda i, j: [i // 4, j // 6, i % 4, j % 6],
    "padded": lambda i, j: [i // 3, j, i % 3],
    "separator": lambda i, j: [i, te.AXIS_SEPARATOR, j // 4, te.AXIS_SEPARATOR, j % 4],
    "edges": lambda i, j: [te.AXIS_SEPARATOR, j, i, te.AXIS_SEPARATOR],
    "any rank": lambda *indices: list(reversed(indices)),
    "awkward names": lambda te_, s: [s, te_],
}


def text_of(s, args):
    return str(tvm.lower(s, args))


def check_round_trips(s, args, again):
    """Through JSON onto the tensors of `again`, as Python text, and by copy()."""
    expected = text_of(s, args)
    loaded = load_schedule(s.save_json(), again[-1].op)
    assert text_of(loaded, [again[0], again[-1]]) == expected
    assert loaded.save_json() == s.save_json()
    assert loaded.as_python() == s.as_python()
    scope = {"te": te, "tvm": tvm, **{t.op.name: t for t in again}}
    exec(s.as_python(), scope)
    assert text_of(scope["s"], [again[0], again[-1]]) == expected
    assert text_of(s.copy(), args) == expected


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("stage", ["A", "B", "C"])
def test_a_layout_is_data(stage, name, dtype):
    a, b, c = chain(dtype=dtype)
    s = te.create_schedule(c.op)
    plain = text_of(s, [a, c])
    s[{"A": a, "B": b, "C": c}[stage]].transform_layout(MAPS[name])
    assert text_of(s, [a, c]) != plain
    check_round_trips(s, [a, c], chain(dtype=dtype))


def test_new_axes_keep_their_numbers():
    a, b, c = chain()
    s = te.create_schedule(c.op)
    axes = s[b].transform_layout(MAPS["tiles"])
    s[b].vectorize(axes[-1])
    s[b].reorder(axes[2], axes[1])
    s[a].transform_layout(MAPS["separator"])
    check_round_trips(s, [a, c], chain())


def test_one_new_axis():
    a, b, c = chain()
    s = te.create_schedule(c.op)
    (flat,) = s[b].transform_layout(lambda i, j: [i * 12 + j])
    s[b].split(flat, factor=4)
    check_round_trips(s, [a, c], chain())


def test_the_text_is_a_lambda():
    _, b, c = chain()
    s = te.create_schedule(c.op)
    s[b].transform_layout(lambda i, te: [i // 4, te, tvm.te.AXIS_SEPARATOR, i % 4])
    assert s.as_python().splitlines()[1] == (
        "axis0, axis1, axis2 = "
        "s[B].transform_layout(lambda i, te_1: [i // 4, te_1, te.AXIS_SEPARATOR, i % 4])"
    )
    exec(s.as_python(), {"te": te, "B": b, "C": c})


def test_a_map_read_once_is_what_counts():
    """Replay does not call the user's function again."""
    calls = []

    def mapping(i, j):
        calls.append((i, j))
        return [j, i] if len(calls) == 1 else [i, j]

    a, b, c = chain()
    s = te.create_schedule(c.op)
    s[b].transform_layout(mapping)
    assert text_of(s.copy(), [a, c]) == text_of(s, [a, c])
    assert len(calls) == 1


def test_a_map_from_a_trace_can_be_given_to_another_stage():
    _, b, c = chain()
    s = te.create_schedule(c.op)
    s[b].transform_layout(MAPS["separator"])
    (mapping,) = s.steps[0].args
    assert isinstance(mapping, LayoutMap) and mapping.separators == (1, 2)
    s[c].transform_layout(mapping)
    assert len(s[c].leaf_iter_vars) == 3
    with pytest.raises(ScheduleError, match="takes 2 indices, got 1"):
        mapping(3)


def test_a_map_of_another_rank_is_refused():
    _, b, c = chain()
    s = te.create_schedule(c.op)
    s[b].transform_layout(MAPS["turn"])
    _, c3 = chain((2, 3, 4))[1:]
    with pytest.raises(ScheduleError, match="takes 2 indices, the tensor has 3"):
        load_schedule(s.save_json(), c3.op)


def test_a_failed_map_leaves_no_step():
    _, b, c = chain()
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match="not invertible"):
        s[b].transform_layout(lambda i, j: [i + j])
    assert s.steps == [] and s[b].layout is None


def test_a_dimension_that_is_a_variable_is_kept_by_copy_and_not_saved():
    n = te.var("n")
    a = te.placeholder((4, n), name="A")
    b = te.compute((4, n), lambda i, j: a[i, j] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].transform_layout(lambda i, j: [i // 2, j, i % 2 + n - n])
    assert text_of(s.copy(), [a, b]) == text_of(s, [a, b])
    s2 = te.create_schedule(b.op)
    s2[b].transform_layout(lambda i, j: [n - 1 - j, i])
    assert "[n - 1 - j, i]" in s2.as_python()
    with pytest.raises(ScheduleError, match="a map that needs n"):
        s2.save_json()
