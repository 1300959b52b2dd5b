"""Steps of record lines: what each does to the loops, and what is refused."""

import json

import pytest

from tests.unit.auto_scheduler import computations as C
from tests.unit.auto_scheduler.searches import COMPUTATIONS, policy_of, samples
from tilewright.auto_scheduler import ComputeDAG
from tilewright.auto_scheduler.rows import THREAD_TAGS, apply_row, follow_lengths
from tilewright.auto_scheduler.state import State
from tilewright.base.errors import ScheduleError


@pytest.fixture(scope="module")
def dag():
    """A, B, C = A B, D = relu(C); all of 16 x 16."""
    return ComputeDAG(C.matmul_relu())


def after(dag, *rows):
    return State.from_rows(dag, rows).infer_bounds()


def loops(state, stage):
    return [(i.name, int(i.range.extent)) for i in state.stages[stage].iters]


def test_a_split_from_inside_out(dag):
    state = after(dag, ("SP", 2, 0, 16, (2, 4), 1))
    assert loops(state, 2)[:3] == [("i.0", 2), ("i.1", 2), ("i.2", 4)]


def test_a_split_from_outside_in(dag):
    """Lengths are those of the outer loops then."""
    state = after(dag, ("SP", 2, 0, 16, (2, 4), 0))
    assert [n for _, n in loops(state, 2)[:3]] == [2, 4, 2]


def test_a_split_into_one_changes_the_name_alone(dag):
    state = after(dag, ("SP", 2, 0, 16, (), 1))
    assert loops(state, 2) == [("i.0", 16), *loops(after(dag), 2)[1:]]


def test_following_splits(dag):
    rows = [("SP", 2, 0, 16, (2, 2, 4), 1), ("FSP", 3, 0, 0, 1), ("FSP", 3, 2, 0, 2)]
    state = after(dag, *rows[:2])
    assert [n for _, n in loops(state, 3)] == [1, 16, 16]  # all three lengths together
    state = after(dag, *rows)
    assert [n for _, n in loops(state, 3)] == [1, 16, 1, 2, 8]
    for n in (1, 2, 3):
        sizes = [e for _, e in loops(after(dag, rows[0], ("FSP", 3, 0, 0, n)), 3)]
        assert len(sizes) == n + 2
        assert sizes[:-1] == [1, *follow_lengths([2, 2, 4], n)]


def test_following_fused_splits(dag):
    splits = [("SP", 2, 0, 16, (2, 4), 1), ("SP", 2, 3, 16, (1, 2), 1)]
    state = after(dag, *splits, ("FU", 3, (0, 1)), ("FFSP", 3, 0, (0, 1), 1, 1))
    assert [n for _, n in loops(state, 3)] == [32, 8]  # 4 times 2 inside
    state = after(dag, *splits, ("FU", 3, (0, 1)), ("FFSP", 3, 0, (0, 1), 1, 0))
    assert [n for _, n in loops(state, 3)] == [8, 32]  # as many parts


def test_reorder_and_fuse(dag):
    state = after(dag, ("RE", 2, (2, 0, 1)), ("FU", 2, (1, 2)))
    assert loops(state, 2) == [("k", 16), ("i@j@", 256)]
    assert loops(after(dag, ("FU", 3, (1,))), 3) == [("i", 16), ("j@", 16)]


def test_annotations(dag):
    state = State.from_rows(dag, [("AN", 3, 0, 3), ("AN", 3, 1, 2), ("AN", 2, 2, 1)])
    assert "parallel i (0,16)\n  vectorize j (0,16)\n    D = ..." in str(state)
    assert "unroll k (0,16)" in str(state)
    nothing = State.from_rows(dag, [("AN", 3, 0, 0)])
    assert str(nothing) == str(State(dag))


@pytest.mark.parametrize("kind", THREAD_TAGS)
def test_threads(dag, kind):
    state = State.from_rows(dag, [("AN", 3, 0, kind)])
    assert f"{THREAD_TAGS[kind]} i (0,16)" in str(state)


def test_a_limit_for_unrolling_is_explicit(dag):
    state = State.from_rows(dag, [("PR", 2, 0, "auto_unroll_max_step$64")])
    stage = state.stage_at(2)
    pragmas = {k: int(v.value) for k, v in stage.attr(stage.leaf_iter_vars[0]).pragmas}
    assert pragmas == {"auto_unroll_max_step": 64, "unroll_explicit": 1}


def test_other_pragmas(dag):
    state = State.from_rows(dag, [("PR", 2, 0, "loop_partition_hint")])
    stage = state.stage_at(2)
    assert [k for k, _ in stage.attr(stage.leaf_iter_vars[0]).pragmas] == ["loop_partition_hint"]


def test_places(dag):
    state = State.from_rows(dag, [("CA", 2, 3, 0)])
    assert state.stage_at(2).attach_stage is state.stage_at(3)
    state = State.from_rows(dag, [("CA", 2, 3, 0), ("CR", 2)])
    assert state.stage_at(2).attach_stage is None
    chain = ComputeDAG(C.chain())
    assert "Inlined: f1" in str(State.from_rows(chain, [("CI", 2)]))


def names(state):
    return [op.name for op in state.stage_ops]


def test_where_new_stages_stand(dag):
    """As in TVM's records: before what is written or factored, behind what is read."""
    assert names(State.from_rows(dag, [("CHW", 2, "local")])) == ["A", "B", "C.local", "C", "D"]
    assert names(State.from_rows(dag, [("CHR", 0, "global", (2,))])) == [
        "A", "A.global", "B", "C", "D",
    ]  # fmt: skip
    rows = [("SP", 2, 2, 16, (4,), 1), ("RF", 2, 3, 2)]
    assert names(State.from_rows(dag, rows)) == ["A", "B", "C.rf", "C", "D"]
    assert names(State.from_rows(dag, [("PK", 1, 2)])) == ["A", "B", "B.global", "C", "D"]


def test_numbers_of_stages_shift(dag):
    rows = [("CHR", 0, "global", (2,)), ("CHW", 3, "local"), ("SP", 3, 0, 16, (4,), 1)]
    state = State.from_rows(dag, rows)
    assert names(state) == ["A", "A.global", "B", "C.local", "C", "D"]
    assert len(state.stages[3].iters) == 4


def test_storage_align(dag):
    state = State.from_rows(dag, [("SA", 2, 0, 32, 8)])
    text = state.dag.apply_steps_from_state(state)[0].as_python()
    assert "storage_align(" in text
    assert "32, 8" in text.replace("factor=", "").replace("offset=", "")


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_rows_survive_json(name):
    policy = policy_of(COMPUTATIONS[name]())
    for candidate in samples(policy, 3):
        state = policy.state_of(candidate)
        read = json.loads(json.dumps(state.rows))
        again = State.from_rows(state.dag, read)
        assert str(again) == str(state)
        assert again.schedule.as_python() == state.schedule.as_python()
        assert json.dumps(again.rows) == json.dumps(state.rows)


REFUSED = [
    (("SP", 9, 0, 16, (4,), 1), "there are stages 0 to 3, not 9"),
    (("SP", -1, 0, 16, (4,), 1), "there are stages 0 to 3, not -1"),
    (("SP", 2, 7, 16, (4,), 1), "C has loops 0 to 2, not 7"),
    (("SP", 2, -1, 16, (4,), 1), "C has loops 0 to 2, not -1"),
    (("SP", 2, 0, 16, (0,), 1), "factor must be positive"),
    (("SP", 2, 0, 16, ("a",), 1), "factor must be an integer"),
    (("SP", 2, 0, 16, 4, 1), "does not fit this computation"),
    (("SP", "C", 0, 16, (4,), 1), "does not fit this computation"),
    (("SP", 2, 0), "lengths"),
    (("FSP", 3, 0, 0, 1), "step 0 is no split"),
    (("FFSP", 3, 0, (0,), 0, 1), "step 0 is no split"),
    (("RE", 2, (0, 1)), "an order of 3 loops was expected"),
    (("RE", 2, (0, 0, 1)), "an order of 3 loops was expected"),
    (("FU", 2, (-1,)), "C has loops 0 to 2, not -1"),
    (("FU", 2, (0, 2)), "consecutive"),
    (("AN", 2, 0, 11), "annotation 11 is not supported"),
    (("AN", 2, 2, 2), "Cannot vectorize"),
    (("PR", 2, 0, "auto_unroll_max_step$many"), "many"),
    (("CA", 2, 3, 9), "D has loops 0 to 1, not 9"),
    (("CI", 3), "output"),
    (("CI", 2), "cannot inline the reduction C"),
    (("CHW", 0, "local"), "cache write only take"),
    (("CHR", 0, "shared", (3,)), "Cannot find A in the inputs of D"),
    (("RF", 2, 0, 0), "Can only factor reduction axis"),
    (("PK", 0, 3), "cannot be packed for D"),
    (("XX", 2), "there is no step 'XX'"),
    ((), "there is no step None"),
    ((["SP"], 2), "there is no step ['SP']"),
]


@pytest.mark.parametrize(("row", "words"), REFUSED, ids=[str(r) for r, _ in REFUSED])
def test_steps_that_do_not_fit_are_refused(dag, row, words):
    state = State(dag)
    with pytest.raises(ScheduleError) as error:
        apply_row(state, row)
    assert words in str(error.value)
    assert state.rows == ()


def test_more_parts_than_the_split_has_are_refused(dag):
    rows = [("SP", 2, 0, 16, (4, 2), 1), ("FSP", 3, 0, 0, 4)]
    with pytest.raises(ScheduleError, match="step 0 has 2 lengths"):
        State.from_rows(dag, rows)


def test_the_number_of_a_bad_step_is_told(dag):
    rows = [("SP", 2, 0, 16, (4,), 1), ("AN", 2, 9, 3)]
    with pytest.raises(ScheduleError, match=r"step 1, \['AN', 2, 9, 3\]"):
        State.from_rows(dag, rows)
