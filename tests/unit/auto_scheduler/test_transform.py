"""Schedules of states: arguments laid out anew, copies inside, and what callers are told."""

import re

import numpy as np
import pytest

import tilewright as tvm
from benchmarks.ops_suite import small_cases
from tests.narrow import int_of
from tests.unit.auto_scheduler import computations as C
from tests.unit.auto_scheduler.searches import policy_of, task_of
from tilewright import te, topi
from tilewright.auto_scheduler import ComputeDAG, LayoutRewriteOption, Rearranged, apply_state
from tilewright.auto_scheduler.state import State
from tilewright.base.errors import TilewrightError
from tilewright.interp.te_eval import te_eval

CASES = [c for c in small_cases() if c.constants and c.op != "ConvLayer"]
OPTIONS = list(LayoutRewriteOption)


def dense(n=6, m=8, k=12, backwards=False):
    """x (n, k) times w (k, m), whose layout is free; `backwards`: its rows from the last one on."""
    x, w = te.placeholder((n, k), name="x"), te.placeholder((k, m), name="w")
    r = te.reduce_axis((0, k), "r")
    y = te.compute(
        (n, m),
        lambda i, j: te.sum(x[i, r] * w[k - 1 - r if backwards else r, j], axis=r),
        name="y",
        attrs={"layout_free_placeholders": [w]},
    )
    return [x, w, y]


def tiled(tensors, j, k):
    """The state with loops j, k, i, k, j, cut by the given lengths."""
    dag = ComputeDAG(tensors)
    state = dag.get_init_state()
    y = dag.ops[-1]
    i, jj, kk = state[y].iters
    j0, j1 = state.split(y, jj, [j])
    k0, k1 = state.split(y, kk, [k])
    state.reorder(y, [j0, k0, i, k1, j1])
    return state


def result_of(state, option):
    """(what the built function gives, what te_eval gives) for small whole numbers."""
    rng = np.random.default_rng(0)
    tensors = state.dag.tensors
    shapes = [tuple(map(int, t.shape)) for t in tensors]
    given = [rng.integers(-3, 4, s).astype("float32") for s in shapes[:-1]]
    (wanted,) = te_eval([tensors[-1]], dict(zip(tensors, given)))
    schedule, args, changed = apply_state(state, option)
    for change in changed:
        given[change.index] = change.apply(given[change.index])
        assert given[change.index].shape == tuple(map(int_of, args[change.index].shape))
    out = np.full(shapes[-1], 77, "float32")
    tvm.build(schedule, args, "llvm")(*given, out)
    return out, wanted


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("sizes", [(6, 8, 12, 4, 3), (5, 7, 11, 3, 4), (1, 7, 5, 7, 5)], ids=str)
def test_results_in_every_layout(sizes, backwards, option):
    """Tiles that divide the dimensions, and tiles that do not."""
    n, m, depth, j, k = sizes
    out, wanted = result_of(tiled(dense(n, m, depth, backwards), j, k), option)
    assert np.array_equal(out, wanted)


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_weights_of_the_suite_in_every_layout(case):
    policy = policy_of(case.func(*case.args), seed=3)
    for state in policy.sample_initial_population(2):
        for option in OPTIONS:
            out, wanted = result_of(state, option)
            assert np.array_equal(out, wanted), (option, state.rows)


def test_a_weight_in_tiles():
    x, w, y = dense()
    _, args, (change,) = apply_state(tiled([x, w, y], 4, 3), 2)
    assert [tuple(map(int_of, t.shape)) for t in args] == [(6, 12), (2, 4, 3, 4), (6, 8)]
    assert args[0] is x
    assert change.index == 1
    array = np.arange(96).reshape(12, 8)
    moved = change.apply(array)
    assert moved.flags.c_contiguous
    assert moved[1, 2, 1, 3] == array[2 * 3 + 1, 1 * 4 + 3]
    assert array[0, 0] == 0  # a copy


def test_tiles_that_do_not_divide_are_filled_up():
    _, _, (change,) = apply_state(tiled(dense(5, 7, 11), 3, 4), 2)
    array = np.arange(1, 78).reshape(11, 7)
    moved = change.apply(array)
    assert moved.shape == (3, 3, 4, 3)
    assert moved[2, 1, 2, 0] == array[1 * 4 + 2, 2 * 3 + 0]
    assert np.count_nonzero(moved) == 77


def test_an_array_of_another_shape_is_refused():
    _, _, (change,) = apply_state(tiled(dense(), 4, 3), 2)
    assert isinstance(change, Rearranged)
    with pytest.raises(TilewrightError, match=r"expected an array of shape \(12, 8\), got"):
        change.apply(np.zeros((8, 12)))


def test_copies_inside_take_the_arguments_as_they_are():
    state = tiled(dense(), 4, 3)
    schedule, args, changed = apply_state(state, LayoutRewriteOption.INSERT_TRANSFORM_STAGE)
    assert args == state.dag.tensors
    assert changed == []
    names = [s.op.name for s in schedule.stages]
    assert "w.global" in names
    assert "transform_layout" in schedule.as_python()
    assert "parallel" in schedule.as_python()
    assert len(state.rows) == 3  # the state is as it was


def test_nothing_happens_without_free_layouts():
    state = State(ComputeDAG(C.matmul()))
    for option in OPTIONS:
        schedule, args, changed = apply_state(state, option)
        assert schedule is state.schedule
        assert (args, changed) == (state.dag.tensors, [])


def test_a_weight_that_lies_well_already_is_left():
    """The loops of x w^T run through w as it is."""
    x, w = te.placeholder((4, 8), name="x"), te.placeholder((6, 8), name="w")
    r = te.reduce_axis((0, 8), "r")
    y = te.compute(
        (4, 6),
        lambda i, j: te.sum(x[i, r] * w[j, r], axis=r),
        name="y",
        attrs={"layout_free_placeholders": [w]},
    )
    _, args, changed = apply_state(State(ComputeDAG([x, w, y])), 2)
    assert changed == []
    assert args[1] is w


def test_the_state_of_a_sketch_is_refused():
    state = ComputeDAG(dense()).get_init_state()
    y = state.dag.ops[-1]
    state.split(y, state[y].iters[0], [None])
    for option in OPTIONS:
        with pytest.raises(TilewrightError, match="still open"):
            apply_state(state, option)


def test_the_way_that_suits_a_target():
    default = LayoutRewriteOption.get_target_default
    cpu, gpu = tvm.target.Target("llvm"), tvm.target.Target("cuda")
    assert default(cpu) == LayoutRewriteOption.INSERT_TRANSFORM_STAGE
    assert default(cpu, True) == LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
    assert default(gpu) == LayoutRewriteOption.NO_REWRITE


def test_a_task_tells_how_its_arguments_lie():
    task = task_of(dense(), layout_rewrite_option=2)
    state = tiled(dense(), 4, 3)
    assert [r.index for r in task.rearranged(state)] == [1]
    assert task_of(dense(), layout_rewrite_option=0).rearranged(state) == []


def product(m, n, k, transposed=False):
    """A product with a constant right side, as (K, N) or as (N, K)."""
    x = te.placeholder((m, k), name="x")
    w = te.placeholder((n, k) if transposed else (k, n), name="w")
    r = te.reduce_axis((0, k), "r")
    y = te.compute(
        (m, n),
        lambda i, j: te.sum(x[i, r] * (w[j, r] if transposed else w[r, j]), axis=r),
        name="y",
        attrs={"layout_free_placeholders": [w]},
    )
    return [x, w, y]


def conv(size, ci, co, k, stride=1, pad=0, groups=1):
    """Channels last, constant filters."""
    x = te.placeholder((2, size, size, ci), name="x")
    w = te.placeholder((k, k, ci // groups, co), name="w")
    padded = topi.nn.pad(x, (0, pad, pad, 0), (0, pad, pad, 0)) if pad else x
    ry, rx = te.reduce_axis((0, k), "ry"), te.reduce_axis((0, k), "rx")
    rc = te.reduce_axis((0, ci // groups), "rc")
    side, per = (size + 2 * pad - k) // stride + 1, co // groups

    def element(b, i, j, c):
        depth = c // per * (ci // groups) + rc if groups > 1 else rc
        return te.sum(
            padded[b, i * stride + ry, j * stride + rx, depth] * w[ry, rx, rc, c],
            axis=[ry, rx, rc],
        )

    attrs = {"layout_free_placeholders": [w]}
    return [x, w, te.compute((2, side, side, co), element, name="y", attrs=attrs)]


PANELS = {
    "whole panels": (product, 64, 64, 64),
    "columns in memory": (product, 31, 197, 33, True),
    "one row": (product, 1, 1000, 61),
    "one column": (product, 9, 1, 7),
    "fewer columns than a vector": (product, 17, 3, 5),
    "3x3": (conv, 9, 5, 13, 3, 1, 1),
    "stride 2": (conv, 10, 8, 64, 3, 2, 1),
    "groups of 16": (conv, 7, 8, 64, 3, 1, 1, 4),
    "groups of 4": (conv, 7, 12, 12, 3, 1, 1, 3),
    "three channels out": (conv, 7, 8, 3, 5, 1, 2),
}


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v2"])
@pytest.mark.parametrize("case", PANELS.values(), ids=PANELS)
def test_constants_of_default_schedules_lie_in_panels(case, target):
    """Laid out once, they are not copied at each call, and the inner loops are the same at the
    edge."""
    make, *sizes = case
    tensors = make(*sizes)
    state = State.default(task_of(tensors, target=target))
    rng = np.random.default_rng(3)
    given = [rng.standard_normal(tuple(map(int_of, t.shape))).astype("f4") for t in tensors[:2]]
    (wanted,) = te_eval(tensors[-1], dict(zip(tensors, given)))
    schedule, args, (change,) = apply_state(state, LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED)
    moved = change.apply(given[1])
    assert moved.shape == tuple(map(int_of, args[1].shape))
    assert [s.op.name for s in schedule.stages if s.op.name.startswith("w")] == ["w"]
    out = tvm.nd.array(np.full_like(wanted, 7))
    tvm.build(schedule, args, target)(tvm.nd.array(given[0]), tvm.nd.array(moved), out)
    np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-5, atol=1e-4)
    sums = [x for x in str(tvm.lower(schedule, args)).splitlines() if " * w_1[" in x]
    assert sums
    assert not [x for x in sums if "predicate" in x or re.search(r"if_then_else\([^)]*w_1", x)]


def test_a_constant_that_two_stages_read_stays():
    x, w, y = product(32, 32, 32)
    z = te.compute((32, 32), lambda i, j: y[i, j] + w[i, j], name="z")
    _, args, changed = apply_state(State.default(task_of([x, w, z])), 2)
    assert (args[1], changed) == (w, [])
