"""Mutations of parallel loops and of pragmas: one decision of a program changes, nothing else."""

import numpy as np
import pytest

from tests.unit.auto_scheduler import computations as C
from tests.unit.auto_scheduler.searches import COMPUTATIONS, policy_of, samples, spaces_of
from tilewright import nd
from tilewright.auto_scheduler import granularity as G
from tilewright.auto_scheduler.evolve import mutate_pragma
from tilewright.auto_scheduler.levels import edges
from tilewright.auto_scheduler.population import Candidate
from tilewright.driver import build
from tilewright.interp.te_eval import te_eval
from tilewright.loopir.iter import IterVar


def rng(seed=0):
    return np.random.default_rng(seed)


def test_a_loop_is_fused_with_the_next_that_has_steps():
    extents = np.array([[4, 1, 6, 1, 5]] * 4, np.int64)
    more, fewer = G.fused(np.array([0, 1, 3, 5]), extents)
    assert more.tolist() == [1, 3, 5, 5]
    assert fewer.tolist() == [0, 0, 2, 4]


def test_which_levels_lose_to_loops_inside():
    assert edges([(0, 0), (1, 0), (0, 1), None]) == [(0, 1), (1, 0)]
    assert edges([]) == []


def test_levels_of_loops():
    matmul = spaces_of("matmul")[0]  # tiled alone
    (levels,) = matmul.levels.values()
    assert levels == [(0, 0), (1, 0), (0, 1), (1, 1)]
    reader = spaces_of("matmul_relu")[0]  # the reader is tiled like the product
    (levels,) = reader.levels.values()
    assert levels == [(0, 0), (1, 0)]
    (levels,) = spaces_of("chain")[0].levels.values()
    assert levels == [None, None]


def split_of(name):
    """A space, rows of it with loops in parallel, and the same with a factor moved."""
    space = spaces_of(name)[0]
    (choice,) = space.parallel
    rows = space.sample(400, rng(1))
    rows[:, choice.column] = 2
    moved = G.mutate_parallel(space, rows, rng(2))
    return space, choice, rows, moved


@pytest.mark.parametrize("name", ["matmul", "matmul_relu", "conv2d", "depthwise", "gram"])
def test_a_parallel_loop_is_split_by_a_factor_and_back(name):
    space, choice, rows, moved = split_of(name)
    lengths = len(space.sketch.open)
    split = (rows[:, :lengths] != moved[:, :lengths]).any(axis=1)
    assert 0.2 < split.mean() < 0.6
    assert (moved[split, choice.column] == 2).all()
    _, before = space.parallel_loops_of(choice, rows[split])
    _, after = space.parallel_loops_of(choice, moved[split])
    steps, fewer = before[:, :2].prod(axis=1), after[:, :2].prod(axis=1)
    assert (np.maximum(steps, fewer) % np.minimum(steps, fewer) == 0).all()
    assert {bool(v) for v in fewer < steps} == {True, False}
    assert (fewer != steps).all()
    groups = np.stack(
        [(rows[:, g.start : g.stop] != moved[:, g.start : g.stop]).any(1) for g in space.groups]
    )
    assert (groups[:, split].sum(axis=0) == 1).all()


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_else_the_number_of_fused_loops_changes(name):
    for space in spaces_of(name):
        rows = space.sample(100, rng(1))
        moved = G.mutate_parallel(space, rows, rng(2))
        columns = [c.column for c in space.parallel]
        lengths = len(space.sketch.open)
        split = (rows[:, :lengths] != moved[:, :lengths]).any(axis=1)
        assert ((rows != moved)[~split].sum(axis=1) <= 1).all()
        others = np.setdiff1d(np.arange(lengths, space.width), columns)
        assert (rows[:, others] == moved[:, others]).all()
        for c in space.parallel:
            assert (moved[:, c.column] < c.count).all()


def test_numbers_go_from_what_the_rule_gives():
    """-1 stands for the rule's number; its neighbours are those of that number."""
    policy = policy_of(C.matmul(64, 64, 64), pack_operands=0)
    space = policy.population.spaces[0]
    (choice,) = space.parallel
    rows = space.sample(300, rng(1))
    now, extents = space.parallel_loops_of(choice, rows)
    moved = G.mutate_parallel(space, rows, rng(2))
    same = (rows[:, : choice.column] == moved[:, : choice.column]).all(axis=1)
    more, fewer = G.fused(now, extents)
    found = moved[same, choice.column]
    assert ((found == more[same]) | (found == fewer[same])).all()
    assert (found == more[same]).any() and (found == fewer[same]).any()


def test_the_innermost_length_stays_within_its_limit():
    policy = policy_of(
        C.matmul(64, 64, 64), max_innermost_split_factor=4, cpu_multi_level_tiling_structure="SRS"
    )
    space = policy.population.spaces[0]
    rows = space.sample(200, rng(1))
    for seed in range(4):
        rows = G.mutate_parallel(space, rows, rng(seed))
    assert all((rows[:, g.stop - 1] <= 4).all() for g in space.groups[:2])


# -- pragmas


def test_pragmas_that_rules_give():
    kinds = {name: [c.kind for c in spaces_of(name)[0].pragmas] for name in COMPUTATIONS}
    assert kinds["conv2d"] == ["skip_zeros"]
    assert kinds["depthwise"] == kinds["matmul"] == kinds["chain"] == []
    assert set(kinds["softmax"]) == {"tree_reduce"}


@pytest.mark.parametrize("name", ["conv2d", "softmax"])
def test_a_pragma_is_taken_away_and_nothing_else(name):
    policy = policy_of(COMPUTATIONS[name]())
    for candidate in samples(policy, 2, seed=3):
        space = policy.population.spaces[candidate.sketch]
        rows = policy.population.close(candidate).rows
        for choice in space.pragmas:
            row = candidate.row.copy()
            row[choice.column] = 1
            changed = policy.population.close(Candidate(candidate.sketch, row)).rows
            gone = [r for r in rows if r not in changed]
            if policy.population.canonical(Candidate(candidate.sketch, row)).key == candidate.key:
                assert gone == []
            else:
                assert [(r[0], r[3]) for r in gone] == [("PR", choice.kind)]
            assert len(changed) == len(rows) - len(gone)


# -- programs


def mutants(policy, seed):
    """Candidates with a parallel loop or a pragma changed."""
    generator = rng(seed)
    for candidate in samples(policy, 3, seed):
        space = policy.population.spaces[candidate.sketch]
        for mutate in (G.mutate_parallel, mutate_pragma):
            if mutate is mutate_pragma and not (space.unroll or space.pragmas):
                continue
            row = mutate(space, candidate.row[None, :], generator)[0]
            yield policy.population.canonical(Candidate(candidate.sketch, row))


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_records_of_mutants_replay(name):
    policy = policy_of(COMPUTATIONS[name]())
    for candidate in mutants(policy, 4):
        found = policy.recognise(policy.population.close(candidate).rows)
        assert found is not None
        assert found.key == candidate.key


@pytest.mark.parametrize("name", ["matmul_relu", "conv2d", "softmax"])
def test_mutants_compute_the_same(name):
    policy = policy_of(COMPUTATIONS[name]())
    tensors = policy.task.compute_dag.tensors
    inputs = {t: rng(5).integers(-3, 4, t.shape).astype("float32") for t in tensors[:-1]}
    (wanted,) = te_eval([tensors[-1]], inputs)
    for candidate in [*mutants(policy, 6)][::5]:
        state = policy.population.close(candidate)
        args = [nd.array(v) for v in inputs.values()] + [nd.empty(wanted.shape, "float32")]
        schedule, stages = policy.task.compute_dag.apply_steps_from_state(state)
        build(schedule, stages, target="llvm")(*args)
        np.testing.assert_allclose(args[-1].numpy(), wanted, rtol=1e-5)
        kinds = [stage.kind_of(a) for stage in state.live_stages for a in stage.leaf_iter_vars[1:]]
        assert IterVar.Parallelized not in kinds
