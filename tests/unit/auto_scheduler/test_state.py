"""States: TVM's methods by their names, open lengths, copies, text."""

import numpy as np
import pytest

from tests.unit.auto_scheduler import computations as C
from tests.unit.auto_scheduler.searches import COMPUTATIONS, policy_of
from tilewright import te
from tilewright.auto_scheduler import ComputeDAG, loop_state
from tilewright.auto_scheduler.state import State
from tilewright.base.errors import ScheduleError, TilewrightError


@pytest.fixture
def dag():
    return ComputeDAG(C.matmul_relu())


def op(dag, name):
    return C.by_name(dag)[name]


def test_iterators_tell_name_kind_and_range(dag):
    i, j, k = dag.get_init_state()[op(dag, "C")].iters
    assert [x.name for x in (i, j, k)] == ["i", "j", "k"]
    assert [x.iter_kind for x in (i, j, k)] == [0, 0, 1]
    assert int(k.range.extent) == 16
    assert int(k.range.min) == 0


def test_methods_give_the_rows_of_tvm(dag):
    """A session as in TVM's tests of its State."""
    c, d = op(dag, "C"), op(dag, "D")
    s = dag.get_init_state()
    i, j, k = s[c].iters
    i0, i1, i2 = s.split(c, i, [4, 2])
    j0, j1 = s.split(c, j, [8])
    k0, k1 = s.split(c, k, [4], inner_to_outer=False)
    s.reorder(c, [i0, j0, k0, i1, k1, j1, i2])
    fused = s.fuse(c, [i0, j0])
    s.parallel(c, fused)
    s.unroll(c, k1)
    s.pragma(c, fused, "auto_unroll_max_step$16")
    di, dj = s[d].iters
    parts = s.follow_split(d, di, 0, 1)
    assert len(parts) == 2
    s.vectorize(d, dj)
    s.storage_align(d, dj, 8, 1)
    assert s.transform_steps == (
        ("SP", 2, 0, 16, (4, 2), 1),
        ("SP", 2, 3, 16, (8,), 1),
        ("SP", 2, 5, 16, (4,), 0),
        ("RE", 2, (0, 3, 5, 1, 6, 4, 2)),
        ("FU", 2, (0, 1)),
        ("AN", 2, 0, 3),
        ("AN", 2, 3, 1),
        ("PR", 2, 0, "auto_unroll_max_step$16"),
        ("FSP", 3, 0, 0, 1),
        ("AN", 3, 2, 2),
        ("SA", 3, 2, 8, 1),
    )


def test_methods_that_place_stages(dag):
    c, d = op(dag, "C"), op(dag, "D")
    s = dag.get_init_state()
    s.compute_at(c, d, s[d].iters[0])
    s.compute_root(c)
    assert s.rows == (("CA", 2, 3, 0), ("CR", 2))
    chain = ComputeDAG(C.chain())
    t = chain.get_init_state()
    t.compute_inline(op(chain, "f0"))
    assert t.rows == (("CI", 1),)


def test_methods_that_make_stages_give_their_operations(dag):
    a, c = op(dag, "A"), op(dag, "C")
    s = dag.get_init_state()
    copy = s.cache_read(a, "global", [c])
    assert copy is s.stages[1].op
    local = s.cache_write(s.stages[3].op, "local")
    assert [o.name for o in s.stage_ops] == ["A", "A.global", "B", "C.local", "C", "D"]
    k = s[local].iters[2]
    _, inner = s.split(local, k, [4])
    partial = s.rfactor(local, inner, 2)
    assert partial is s.stages[3].op
    assert partial.name == "C.local.rf"
    assert [r[0] for r in s.rows] == ["CHR", "CHW", "SP", "RF"]
    t = dag.get_init_state()
    packed = t.pack(op(dag, "B"), c)
    assert packed is t.stages[2].op
    assert t.rows == (("PK", 1, 2),)


def test_follow_fused_split(dag):
    c, d = op(dag, "C"), op(dag, "D")
    s = dag.get_init_state()
    i, j, _ = s[c].iters
    s.split(c, i, [4])
    s.split(c, j, [2])
    fused = s.fuse(d, s[d].iters)
    outer, inner = s.follow_fused_split(d, fused, [0, 1], 0, True)
    s.bind(d, outer, "blockIdx.x")
    s.bind(d, inner, "threadIdx.x")
    assert s.rows[-3:] == (("FFSP", 3, 0, (0, 1), 0, 1), ("AN", 3, 0, 5), ("AN", 3, 1, 6))
    with pytest.raises(ScheduleError, match=r"there is no thread 'threadIdx\.w'"):
        s.bind(d, outer, "threadIdx.w")


def test_unrolling_only_what_is_short(dag):
    c = op(dag, "C")
    s = dag.get_init_state()
    k = s[c].iters[2]
    assert s.unroll(c, k, max_unroll=8).annotation == 0
    assert s.rows == ()
    assert s.unroll(c, k, max_unroll=16).annotation == State.ANNOTATION_TRANS_TABLE["unroll"]


def test_stages_by_tensor_operation_view_and_place(dag):
    s = dag.get_init_state()
    tensor = dag.tensors[2]
    found = [s[x].op for x in (tensor, tensor.op, s.stages[3], 3)]
    assert found == [tensor.op] * 4
    with pytest.raises(ScheduleError, match="there are stages 0 to 3, not 4"):
        s[4]
    assert [v.op_type for v in s.stages] == [0, 0, 1, 1]


def test_an_iterator_of_another_stage_is_refused(dag):
    s = dag.get_init_state()
    k = s[op(dag, "C")].iters[2]
    with pytest.raises(ScheduleError, match="no loop of stage D"):
        s.split(op(dag, "D"), k, [2])


def test_an_iterator_that_was_split_is_refused(dag):
    c = op(dag, "C")
    s = dag.get_init_state()
    i = s[c].iters[0]
    s.split(c, i, [4])
    with pytest.raises(ScheduleError, match="no loop of stage C"):
        s.split(c, i, [2])


def test_copies_are_independent(dag):
    c = op(dag, "C")
    s = dag.get_init_state()
    i, j, _ = s[c].iters
    s.split(c, i, [4])
    t = s.copy()
    t.parallel(c, t[c].iters[0])
    t.vectorize(c, j)  # an iterator of the original
    assert len(s.rows) == 1
    assert len(t.rows) == 3
    assert s[c].iters[0].name == t[c].iters[0].name


def test_a_rule_of_tvm_makes_its_states_so(dag):
    s = dag.get_init_state()
    c = op(dag, "C")
    s.split(c, s[c].iters[0], [4])
    t = loop_state.State(s, dag)
    t.split(c, t[c].iters[2], [None])
    assert isinstance(t.state_object, State)
    assert len(s.rows) == 1
    assert [f.row for f in t.open] == [1]


def test_ranges_are_inferred_for_a_copy(dag):
    c, d = op(dag, "C"), op(dag, "D")
    s = dag.get_init_state()
    i0, i1 = s.split(c, s[c].iters[0], [4])
    assert i0.range.extent == 4
    s.compute_at(c, d, s.split(d, s[d].iters[0], [8])[0])
    known = dag.infer_bound_from_state(s)
    assert [int(i.range.extent) for i in known[c].iters] == [2, 4, 16, 16]
    assert s[c].iters[0].range is None
    known.parallel(d, known[d].iters[0])
    assert known[c].iters[0].range is None  # no longer known
    assert i1.range.extent == 4  # as it was


def test_what_steps_made_finds_its_stage_in_copies(dag):
    c = op(dag, "C")
    s = dag.get_init_state()
    local = s.cache_write(c, "local")
    copy = dag.infer_bound_from_state(s)
    assert copy[local].op.name == s[local].op.name == "C.local"
    assert s.copy().copy()[local].iters[0].range == s[local].iters[0].range


def test_states_are_equal_where_their_loops_are(dag):
    c = op(dag, "C")
    s, t = dag.get_init_state(), dag.init_state
    assert s == t and s != "C"
    s.split(c, 0, [4])
    assert s != t
    t.split(c, 0, [4])
    assert s == t


def test_iterators_tell_what_was_said_of_them(dag):
    c = op(dag, "C")
    s = dag.get_init_state()
    i, j, k = s[c].iters
    assert s[c].compute_at == loop_state.Stage.COMPUTE_AT_TRANS_TABLE["root"]
    table = loop_state.State.ANNOTATION_TRANS_TABLE
    for made, name in (
        (s.bind(c, i, "blockIdx.x"), "blockIdx.x"),
        (s.vectorize(c, j), "vectorize"),
        (s.unroll(c, k), "unroll"),
    ):
        assert made.annotation == table[name]
    assert [x.annotation for x in s[c].iters] == [
        table[n] for n in ("blockIdx.x", "vectorize", "unroll")
    ]
    s.compute_at(c, op(dag, "D"), s[op(dag, "D")].iters[0])
    assert s[c].compute_at == loop_state.Stage.COMPUTE_AT_TRANS_TABLE["iter"]


def test_python_code_of_a_state(dag):
    """The code makes the same schedule."""
    s = dag.get_init_state()
    c, d = op(dag, "C"), op(dag, "D")
    outer, _ = s.split(d, s[d].iters[0], [4])
    s.compute_at(c, d, outer)
    code = dag.print_python_code_from_state(s)
    a, b, relu = dag.tensors
    names = {"te": te, "A": a, "B": b, "C": c.output(0), "D": relu}
    exec(code, names)
    assert names["s"].as_python() == code


def test_schedule_and_arguments_of_a_state(dag):
    schedule, args = dag.apply_steps_from_state(dag.get_init_state())
    assert args == dag.tensors
    assert schedule.as_python().count("\n") == 1


# -- open lengths


def test_open_lengths(dag):
    c = op(dag, "C")
    s = dag.get_init_state()
    i, j, _ = s[c].iters
    s.split(c, i, [None, 2, None])
    s.split(c, j, [8])
    assert [(f.row, f.level, f.extent) for f in s.open] == [(0, 0, 16), (0, 2, 16)]
    assert "i.0 (None)" in str(s)
    closed = s.close([2, 4])
    assert closed.open == []
    assert closed.rows[0] == ("SP", 2, 0, 16, (2, 2, 4), 1)
    assert closed.rows[1:] == s.rows[1:]
    assert s.rows[0][4] == (None, 2, None)


def test_closing_takes_all_lengths(dag):
    s = dag.get_init_state()
    c = op(dag, "C")
    s.split(c, s[c].iters[0], [None, None])
    with pytest.raises(ScheduleError, match="2 open lengths, 1 values"):
        s.close([4])
    with pytest.raises(ScheduleError, match="2 open lengths, 3 values"):
        s.close([4, 4, 1])


def test_closing_with_further_rows(dag):
    s = dag.get_init_state()
    c = op(dag, "C")
    s.split(c, s[c].iters[0], [None])
    closed = s.close([4], [("AN", 2, 0, 3)])
    assert "parallel i.0 (0,4)" in str(closed)


def test_a_sketch_is_no_program(dag):
    s = dag.get_init_state()
    c = op(dag, "C")
    s.split(c, s[c].iters[0], [None])
    with pytest.raises(TilewrightError, match="still open"):
        dag.apply_steps_from_state(s)
    with pytest.raises(TilewrightError, match="still open"):
        dag.print_python_code_from_state(s)


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_closed_sketches_have_the_loops_of_open_ones(name):
    policy = policy_of(COMPUTATIONS[name](), split_reduction=1)
    for space in policy.population.spaces:
        row = space.sample(1, np.random.default_rng(0))[0]
        sketch = space.sketch
        closed = sketch.close([int(v) for v in row[: len(sketch.open)]])
        assert [s.id for s in closed.live_stages] == [s.id for s in sketch.live_stages]
        for open_view, view in zip(sketch.stages, closed.stages):
            if view.live.id in closed.packed:  # in the order of its reader's tiles by now
                continue
            assert [i.name for i in open_view.iters] == [i.name for i in view.iters]


def test_alignment_of_what_is_no_dimension_is_kept_as_a_step(dag):
    c = op(dag, "C")
    s = dag.get_init_state()
    s.storage_align(c, s[c].iters[-1], 8, 1)  # of a reduction nothing is stored
    assert s.transform_steps == (("SA", 2, 2, 8, 1),)
    assert "storage_align" not in dag.print_python_code_from_state(s)


def test_loops_have_the_names_that_are_printed(dag):
    c = op(dag, "C")
    s = dag.get_init_state()
    i, j, _ = s[c].iters
    outer, inner = s.split(c, i, [4])
    assert [x.name for x in s.split(c, inner, [2])] == ["i.1.0", "i.1.1"]
    assert [x.name for x in s[c].iters] == ["i.0", "i.1.0", "i.1.1", "j", "k"]
    s.reorder(c, [outer, j, *(s[c].iters[n] for n in (1, 2, 4))])
    assert s.fuse(c, [outer, j]).name == "i.0@j@"
    fresh = dag.get_init_state()
    local = fresh.cache_write(c, "local")
    assert [x.name for x in fresh[local].iters] == ["i_c", "j_c", "k"]


def test_text_of_a_state(dag):
    s = dag.get_init_state()
    c, d = op(dag, "C"), op(dag, "D")
    i, j = s[d].iters
    i0, i1 = s.split(d, i, [4])
    s.compute_at(c, d, i0)
    s.fuse(d, [i1, j])
    s.pragma(d, s[d].iters[0], "auto_unroll_max_step$64")
    assert str(s) == (
        "Placeholder: A, B\n"
        "pragma auto_unroll_max_step:64\n"
        "for i.0 (0,4)\n"
        "  for i (0,4)\n"
        "    for j (0,16)\n"
        "      for k (0,16)\n"
        "        C += ...\n"
        "  for i.1@j@ (0,64)\n"
        "    D = ...\n"
    )
