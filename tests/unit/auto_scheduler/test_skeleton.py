"""How candidates are annotated: parallel, vector and unrolled loops, as features see them too."""

from typing import Any

import numpy as np
import pytest

from tests.unit.auto_scheduler import computations as C
from tests.unit.auto_scheduler.searches import COMPUTATIONS, CORES, policy_of, samples
from tilewright import te
from tilewright.auto_scheduler import skeleton as S
from tilewright.auto_scheduler.population import Candidate
from tilewright.loopir.iter import IterVar


def plan(**changes):
    values = {
        "ident": 0, "root": True, "limit": 3, "parallel": 0, "unroll": -1, "options": (),
        "data_last": True, "tile_loops": (), "heavy": False,
    }  # fmt: skip
    return S.StagePlan(**{**values, **changes})


def counts(extents, wanted=-1, cores=CORES, **changes):
    array = np.array([extents], np.int64)
    return int(S.parallel_counts(np.array([wanted]), array, plan(**changes), cores)[0])


def test_outer_loops_are_fused_until_there_is_enough_for_all_cores():
    assert counts([64, 8, 8, 64]) == 1  # 64 pieces, more than 32
    assert counts([32, 8, 8, 64]) == 2  # 32 are not
    assert counts([4, 4, 2, 4096]) == 3  # never enough: as many as can be
    assert counts([4, 4, 4, 4, 4, 4096], limit=2) == 2
    assert counts([32, 8, 8, 64], cores=1) == 0
    assert counts([64, 8, 8, 64], cores=8) == 2


def test_little_work_stays_serial():
    assert counts([64, 8, 8, 1]) == 0  # 4096 steps
    assert counts([64, 8, 16, 1]) == 1
    assert counts([64, 8, 8, 1], heavy=True) == 1  # with others inside


def test_what_is_wanted_is_done_as_far_as_possible():
    assert counts([64, 8, 8, 1], wanted=2) == 2
    assert counts([64, 8, 8, 64], wanted=0) == 0
    assert counts([64, 8, 8, 64], wanted=9) == 3
    assert counts([64, 8, 8, 64], wanted=2, limit=0) == 0


def test_a_vector_is_not_part_of_the_parallel_loop():
    extents = np.array([[4, 4, 16]], np.int64)
    assert S.parallel_loops(np.array([3]), extents, plan(), CORES).tolist() == [2]
    last = plan(data_last=False)
    assert S.parallel_loops(np.array([3]), extents, last, CORES).tolist() == [3]
    long = np.array([[4, 4, 300]], np.int64)
    assert S.parallel_loops(np.array([3]), long, plan(), CORES).tolist() == [3]


def test_many_candidates_at_once():
    extents = np.array([[64, 8, 8, 64], [32, 8, 8, 64], [64, 8, 8, 1]], np.int64)
    found = S.parallel_counts(np.array([-1, 1, -1]), extents, plan(), CORES)
    assert found.tolist() == [1, 1, 0]


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_lengths_of_loops_as_features_see_them(name):
    """Decided from features' extents and from bounds, annotations have to be the same."""
    policy = policy_of(COMPUTATIONS[name]())
    for candidate in samples(policy, 4):
        choices = policy.population._choices(candidate)
        skeleton, nest = policy.population.skeleton(candidate.sketch, choices)
        count = len(skeleton.space.sketch.open)
        seen = nest.loop_extents(candidate.row[None, :count])
        lengths = [int(v) for v in candidate.row[:count]]
        real = S.leaf_extents(skeleton.space.sketch.close(lengths, skeleton.rows))
        for made in skeleton.plans:
            if made.ident not in skeleton.state.packed:  # whose loops appear with the lengths
                assert seen[made.ident][0].tolist() == real[made.ident], made


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_annotations_of_finished_states(name):
    policy = policy_of(COMPUTATIONS[name]())
    for candidate in samples(policy, 6):
        state = policy.population.close(candidate)
        assert state.open == []
        extents = S.leaf_extents(state)
        for stage in state.live_stages:
            leaves = stage.leaf_iter_vars
            kinds = [stage.kind_of(a) for a in leaves]
            size = dict(zip(leaves, extents.get(stage.id, [])))
            assert IterVar.Parallelized not in kinds[1:]
            assert IterVar.Vectorized not in kinds[:-1]
            if IterVar.Vectorized in kinds:
                assert 1 < size[leaves[-1]] <= S.MAX_LANES
            written = [a for a, k in zip(leaves, kinds) if k == IterVar.Unrolled]
            tile = [size[a] for a in written if a.iter_type == IterVar.DataPar]
            assert np.prod(tile) <= S.MAX_TILE
            assert np.prod([size[a] for a in written]) <= S.MAX_STEPS


def test_kernels_are_written_out_where_a_row_is_in_the_tile():
    tile = S.StagePlan(0, True, 1, -1, -1, (), True, (3,), False, True, (((0, 3), (1, 2)),))
    extents = np.array([[1, 3, 1, 7, 16], [2, 3, 1, 7, 16], [1, 1, 5, 64, 16], [1, 2, 3, 80, 16]])
    places, flags = S.unrolled_loops(tile, extents)
    assert places == (3, 1, 2)
    assert flags.T.tolist() == [
        [True, True, True],
        [True, False, False],  # half a row
        [True, False, False],  # too many steps
        [False, False, False],  # too large a tile
    ]


def test_the_limit_for_unrolling_stays_on_the_parallel_loop():
    """Fusing takes loops away, and what was said of them."""
    policy = policy_of(C.matmul(128, 128, 128), pack_operands=0)
    space = policy.population.spaces[0]  # tiled alone, at the root
    row = space.sample(1, np.random.default_rng(0))[0]
    row[space.unroll[0].column] = 2
    row[space.parallel[0].column] = 2
    state = policy.population.close(Candidate(0, row))
    lines = str(state).splitlines()
    assert lines[1] == "pragma auto_unroll_max_step:64"
    assert lines[2].startswith("parallel i.0@j.0")
    row[space.unroll[0].column] = 0
    assert "pragma" not in str(policy.population.close(Candidate(0, row)))


def test_each_number_of_parallel_loops():
    policy = policy_of(C.matmul(64, 64, 64), pack_operands=0)
    space = policy.population.spaces[0]
    row = space.sample(1, np.random.default_rng(0))[0]
    names = ["i.0", "j.0", "i.1", "j.1"]
    for p in range(space.parallel[0].count):
        row[space.parallel[0].column] = p
        text = str(policy.population.close(Candidate(0, row)))
        fused = "@".join(names[:p]) + "@" * (p > 1)
        wanted = f"parallel {fused} (" if p else "for i.0 ("
        assert wanted in text
        assert ("parallel" in text) == (p > 0)


def test_long_rows_of_stages_that_no_rule_tiles_become_vectors():
    policy = policy_of(C.chain(2, 128))
    (space,) = policy.population.spaces
    text = str(policy.population.close(Candidate(0, space.sample(1, np.random.default_rng(0))[0])))
    assert "vectorize j.1 (0,16)" in text


@pytest.mark.parametrize(("dtype", "lanes"), [("float64", 8), ("float32", 16), ("int8", 64)])
def test_rows_that_no_vector_divides_end_in_a_masked_one(dtype, lanes):
    x = te.placeholder((4, 293), dtype, name="x")
    y = te.compute((4, 293), lambda i, j: x[i, j] + x[i, j], name="y")
    policy = policy_of([x, y])
    (space,) = policy.population.spaces
    text = str(policy.population.close(Candidate(0, space.sample(1, np.random.default_rng(0))[0])))
    assert f"vectorize j.1 (0,{lanes})" in text


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_one_program_has_one_key(name):
    """Numbers of parallel loops that make the same of a program become one."""
    policy = policy_of(COMPUTATIONS[name]())
    population = policy.population
    rng = np.random.default_rng(3)
    by_rows: dict[Any, Any] = {}
    for candidate in samples(policy, 3):
        space = population.spaces[candidate.sketch]
        for _ in range(6):
            row = candidate.row.copy()
            for c in space.parallel:
                row[c.column] = rng.integers(-1, c.count)
            same = population.canonical(Candidate(candidate.sketch, row))
            rows = population.close(Candidate(candidate.sketch, row)).rows
            assert population.close(same).rows == rows
            assert by_rows.setdefault((candidate.sketch, rows), same.key) == same.key
    assert len(set(by_rows.values())) == len(by_rows)


def transposed(rows):
    x = te.placeholder((24, 6, 64), name="x")
    y = te.compute((6, 64, rows), lambda h, d, r: x[r % 24, h, d] + 1.0, name="y")
    return [x, y]


@pytest.mark.parametrize("rows", [128, 64, 48])
def test_stages_that_transpose_are_tiled(rows):
    policy = policy_of(transposed(rows))
    for candidate in samples(policy, 2):
        state = policy.population.close(candidate)
        leaves = state.live_stages[-1].leaf_iter_vars
        assert leaves[-2].var.name == "d.inner" and leaves[-1].var.name == "r.inner"
        assert S.leaf_extents(state)[state.live_stages[-1].id][-2:] == [32, 16]


def test_which_axis_an_input_is_contiguous_along():
    x = te.placeholder((8, 8), name="x")

    def op(f):
        return te.compute((8, 8), f).op

    assert S.contiguous_axis(op(lambda i, j: x[j, i])) == 0
    assert S.contiguous_axis(op(lambda i, j: x[i, j])) is None
    assert S.contiguous_axis(op(lambda i, j: x[j, i] + x[i, j])) is None
    assert S.contiguous_axis(op(lambda i, j: x[j, i] + x[j, 0])) == 0
    assert S.contiguous_axis(op(lambda i, j: x[j, i + j])) is None
    assert S.contiguous_axis(op(lambda i, j: te.const(1.0))) is None
