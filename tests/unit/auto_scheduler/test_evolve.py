"""Selection, mutation and crossover: each keeps what has to be kept, and changes what it says."""

import numpy as np
import pytest

from tests.unit.auto_scheduler.searches import COMPUTATIONS, spaces_of
from tilewright.auto_scheduler import evolve as E
from tilewright.auto_scheduler.crossover import Crossover, crossed
from tilewright.auto_scheduler.evolve import Evolution


def space_of(name):
    return spaces_of(name)[0]


def rng(seed=0):
    return np.random.default_rng(seed)


def check(space, rows):
    """Rows are candidates: tiles suit their loops, places are some that were worked out."""
    for g in space.groups:
        assert (space.outer_lengths(rows, g).prod(axis=1) >= g.extent).all()
        assert g.fitting(rows[:, g.start : g.stop], space.max_inner).all()
        assert (rows[:, g.start : g.stop] >= 1).all()
        assert (rows[:, g.stop - 1] <= space.max_inner).all()
    for c in (*space.unroll, *space.pragmas, *space.locations):
        assert (rows[:, c.column] >= 0).all()
        assert (rows[:, c.column] < c.count).all()
    for c in space.parallel:
        assert (rows[:, c.column] >= -1).all()
        assert (rows[:, c.column] < c.count).all()
    known = {tuple(p) for p in space.palette.tolist()}
    columns = [c.column for c in space.locations]
    assert {tuple(p) for p in rows[:, columns].tolist()} <= known


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_generations_stay_within_the_space(name):
    how = Evolution(tile=0.25, unroll=0.25, location=0.25, parallel=0.25)
    generator = rng(1)
    for space in spaces_of(name):
        rows = space.sample(150, generator)
        for _ in range(4):
            rows = E.mutated(space, rows, how, generator)
            check(space, rows)
            rows = crossed(space, rows, rows[generator.permutation(len(rows))], generator)
            check(space, rows)


def test_a_factor_moves_from_one_level_to_another():
    lengths = np.tile([4, 6, 1, 5], (400, 1)).astype(np.int64)
    moved = E.move_factor(lengths, rng())
    assert (moved.prod(axis=1) == 120).all()
    changed = moved != lengths
    assert set(changed.sum(axis=1)) == {2}  # one divided, one multiplied
    ratio = np.where(moved < lengths, lengths / moved, 1).max(axis=1)
    assert set(ratio) == {2, 4, 3, 6, 5}  # by any divisor
    assert {tuple(np.flatnonzero(c).tolist()) for c in changed} == {
        (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3),
    }  # fmt: skip


def test_a_factor_that_cannot_move():
    ones = np.ones((5, 3), np.int64)
    assert (E.move_factor(ones, rng()) == ones).all()
    alone = np.full((5, 1), 8, np.int64)
    assert (E.move_factor(alone, rng()) == alone).all()


def test_a_tile_mutation_changes_one_loop():
    space = space_of("conv2d")
    rows = space.sample(300, rng(1))
    moved = E.mutate_tiles(space, rows, rng(2))
    changed = np.stack(
        [(rows[:, g.start : g.stop] != moved[:, g.start : g.stop]).any(1) for g in space.groups]
    )
    assert changed.sum(axis=0).max() == 1
    assert (changed.sum(axis=1) > 0)[[g.extent > 1 for g in space.groups]].all()
    end = space.groups[-1].stop
    assert (rows[:, end:] == moved[:, end:]).all()


def test_a_pragma_becomes_another():
    space = space_of("softmax")
    rows = space.sample(200, rng(1))
    moved = E.mutate_pragma(space, rows, rng(2))
    assert ((rows != moved).sum(axis=1) == 1).all()
    columns = {int(np.flatnonzero(a != b)[0]) for a, b in zip(rows, moved)}
    assert columns == {c.column for c in (*space.unroll, *space.pragmas)}
    (first, *_) = space.unroll
    mine = rows[:, first.column] != moved[:, first.column]
    assert {int(v) for v in moved[mine, first.column]} == {0, 1, 2, 3}


def test_a_place_becomes_another():
    space = space_of("conv2d")
    rows = space.sample(300, rng(1))
    moved = E.mutate_location(space, rows, rng(2))
    (column,) = [c.column for c in space.locations]
    others = np.setdiff1d(np.arange(space.width), [column])
    assert (rows[:, others] == moved[:, others]).all()
    assert (rows[:, column] != moved[:, column]).all()
    assert len(np.unique(moved[:, column])) == len(space.palette)


def test_one_stage_at_a_time_changes_its_place():
    for space in spaces_of("softmax"):
        rows = space.sample(200, rng(1))
        moved = E.mutate_location(space, rows, rng(2))
        columns = [c.column for c in space.locations]
        changed = (rows[:, columns] != moved[:, columns]).sum(axis=1)
        assert changed.min() == 1
        nearest = (rows[:, None, columns] != space.palette[None]).sum(axis=2)
        nearest = np.where(nearest > 0, nearest, space.width).min(axis=1)
        assert (changed == nearest).all()
        assert (changed == 1).mean() > 0.8


def test_a_place_that_is_not_searched_any_more_becomes_the_nearest():
    space = space_of("conv2d")
    row = space.sample(1, rng(1))
    kept = space.palette
    try:
        space.palette = kept[:1]
        row[0, space.locations[0].column] = kept[1, 0]
        assert E.mutate_location(space, row, rng(2))[0, space.locations[0].column] == kept[0, 0]
    finally:
        space.palette = kept


def test_kinds_of_mutation_are_drawn_by_their_weights():
    space = space_of("conv2d")
    rows = space.sample(4000, rng(1))
    tiles_only = Evolution(tile=1, unroll=0, location=0, parallel=0)
    end = space.groups[-1].stop
    moved = E.mutated(space, rows, tiles_only, rng(2))
    assert (rows[:, end:] == moved[:, end:]).all()
    usual = E.mutated(space, rows, Evolution(), rng(2))
    share = (rows[:, end:] != usual[:, end:]).any(axis=1).mean()
    assert 0.05 < share < 0.11  # of unroll .04, location .05, parallel .01


def test_nothing_to_mutate():
    space = space_of("matmul")
    empty = np.zeros((0, space.width), np.int64)
    assert E.mutated(space, empty, Evolution(), rng()).shape == empty.shape
    assert crossed(space, empty, empty, rng()).shape == empty.shape
    nobody = np.zeros(0, np.int64), np.zeros(0, np.int64)
    assert Crossover([space]).children(0, empty, nobody, [empty], rng()).shape == empty.shape


# -- selection


def test_better_candidates_are_likelier():
    weights = E.selection_weights(np.array([1.0, 2.0, 5.0, -np.inf]))
    assert weights.sum() == pytest.approx(1)
    assert weights[2] > weights[1] > weights[0] > 0
    assert weights[3] == 0


def test_equal_candidates_are_equally_likely():
    assert E.selection_weights(np.full(4, 3.0)) == pytest.approx([0.25] * 4)
    assert E.selection_weights(np.full(4, -np.inf)) == pytest.approx([0.25] * 4)
    assert E.selection_weights(np.array([-2.0, -1.0])).min() > 0


def test_repetitions_are_removed_in_order():
    rows = np.array([[1, 2], [3, 4], [1, 2], [0, 9], [3, 4]], np.int64)
    assert E.unique(rows).tolist() == [[1, 2], [3, 4], [0, 9]]
    assert E.unique(rows[:0]).shape == (0, 2)


def test_a_pool_keeps_the_best_of_all_generations():
    pool = E.Pool(2)
    rows = np.array([[1], [2], [3]], np.int64)
    pool.add(0, rows, np.array([1.0, 3.0, -np.inf]))
    pool.add(0, rows + 10, np.array([2.0, 0.0, 0.5]))
    assert [(int(r[0]), s) for _, r, s in pool.best(set())] == [(2, 3.0), (11, 2.0)]
    without = {(0, rows[1].tobytes())}
    assert [int(r[0]) for _, r, _ in pool.best(without)] == [11, 1]


# -- the whole


def found(score, seed=0, keep=5, without=frozenset(), **how):
    spaces = spaces_of("matmul_relu")
    start = [s.sample(40, rng(seed)) for s in spaces]
    return spaces, *E.evolve(
        spaces, start, score, Evolution(population=128, **how), keep, set(without), rng(seed)
    )


def wide_rows(_, rows):
    """Likes long innermost loops."""
    return rows[:, 5].astype(np.float64)


def test_evolution_finds_better_candidates_than_samples():
    spaces, best, scored = found(wide_rows)
    assert best[0][2] == 16  # the whole loop j of 16
    assert [s for _, _, s in best] == sorted((s for _, _, s in best), reverse=True)
    assert len({(k, r.tobytes()) for k, r, _ in best}) == 5
    assert scored > 40 * len(spaces)


def test_known_candidates_are_not_proposed_again():
    _, first, _ = found(wide_rows)
    keys = {(k, r.tobytes()) for k, r, _ in first}
    _, second, _ = found(wide_rows, without=keys)
    assert not keys & {(k, r.tobytes()) for k, r, _ in second}
    assert len(second) == 5


def test_the_same_seed_finds_the_same():
    def keys(seed):
        return [(k, r.tobytes(), s) for k, r, s in found(wide_rows, seed)[1]]

    assert keys(3) == keys(3)
    assert keys(3) != keys(4)


def test_candidates_that_cannot_run_are_never_proposed():
    def odd_only(_, rows):
        return np.where(rows[:, 0] % 2 == 1, rows[:, 0].astype(float), -np.inf)

    assert all(r[0] % 2 == 1 for _, r, _ in found(odd_only)[1])
    assert found(lambda _, rows: np.full(len(rows), -np.inf))[1] == []


def test_without_generations_only_samples_are_ranked():
    spaces, best, scored = found(wide_rows, generations=0)
    starts = {s.sample(40, rng(0)).tobytes() for s in spaces}
    assert scored <= 40 * len(spaces)
    assert any(r.tobytes() in b for _, r, _ in best for b in starts)
