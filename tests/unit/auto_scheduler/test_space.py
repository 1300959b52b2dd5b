"""Candidates as columns: lengths, places, and what a sample may be."""

from math import prod

import numpy as np
import pytest

from tests.unit.auto_scheduler import computations as C
from tests.unit.auto_scheduler.searches import COMPUTATIONS, policy_of, spaces_of
from tilewright.auto_scheduler.rows import apply_row
from tilewright.auto_scheduler.space import PALETTE, divisors, factorizations
from tilewright.auto_scheduler.state import State
from tilewright.loopir.iter import IterVar


@pytest.mark.parametrize("n", [1, 2, 7, 12, 36, 97, 360, 1024])
def test_divisors(n):
    assert divisors(n) == tuple(d for d in range(1, n + 1) if n % d == 0)


@pytest.mark.parametrize(("extent", "parts", "most"), [(12, 3, 64), (64, 2, 8), (7, 3, 64)])
def test_factorizations_are_all_there_are(extent, parts, most):
    sizes = [
        t
        for t in np.ndindex(*[extent + 1] * parts)
        if prod(t) and extent % prod(t) == 0 and t[-1] <= most
    ]
    found = factorizations(extent, parts, most)
    assert found.shape == (len(sizes), parts)
    assert {tuple(map(int, row)) for row in found} == {tuple(map(int, t)) for t in sizes}


def test_a_loop_of_one():
    assert factorizations(1, 3, 64).tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_samples_are_within_their_columns(name):
    for space in spaces_of(name):
        rows = space.sample(200, np.random.default_rng(1))
        assert rows.shape == (200, space.width)
        for g in space.groups:
            lengths = space.outer_lengths(rows, g)
            over = lengths.prod(axis=1) - g.extent
            assert ((over >= 0) & (over < max(g.extent / 8 + 1, g.lanes))).all()
            assert (lengths >= 1).all()
            assert (rows[:, g.stop - 1] <= 64).all()
        for c in (*space.locations, *space.unroll):
            assert (rows[:, c.column] >= 0).all()
            assert (rows[:, c.column] < c.count).all()
        for c in space.parallel:
            assert (rows[:, c.column] == -1).all()
        for c in space.pragmas:
            assert (rows[:, c.column] == 0).all()


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_each_column_decides_about_one_thing(name):
    for space in spaces_of(name):
        columns = [n for g in space.groups for n in range(g.start, g.stop)]
        choices = (*space.locations, *space.parallel, *space.unroll, *space.pragmas)
        columns += [c.column for c in choices]
        assert sorted(columns) == list(range(space.width))


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_all_places_of_the_palette_can_be_taken(name):
    for space in spaces_of(name):
        assert 1 <= len(space.palette) <= PALETTE
        assert len(np.unique(space.palette, axis=0)) == len(space.palette)
        for choices in space.palette:
            state = State.from_rows(space.sketch.dag, space.sketch.rows)
            for row in space.place_rows(choices.tolist()):
                apply_row(state, row)
            state.schedule.normalize()


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_most_places_of_the_palette_have_a_neighbour(name):
    """One that differs in one stage, so that a mutation can change a place at a time."""
    for space in spaces_of(name):
        places = space.palette
        if len(places) > 1:
            apart = (places[:, None, :] != places[None, :, :]).sum(axis=2)
            assert ((apart == 1).any(axis=1)).mean() > 0.6


def test_no_stage_is_computed_in_one_that_is_inlined():
    """Softmax's exp may be inlined, and the reduction before it computed at its loops."""
    for space in policy_of(C.softmax()).population.spaces:
        by_node = {c.node: (n, c) for n, c in enumerate(space.locations)}
        for choices in space.palette:
            for c, value in zip(space.locations, choices):
                option = c.values[int(value)]
                if isinstance(option, tuple) and option[0] in by_node:
                    n, target = by_node[option[0]]
                    assert target.values[int(choices[n])] != "inline"


def test_places_of_padding():
    """Inlined, at the outer loops of its reader, up to those of the first reduction, or at the
    root."""
    policy = policy_of(C.conv2d(8, 4, 16), pack_operands=0)
    alone = policy.population.spaces[0]
    (choice,) = alone.locations
    assert choice.values[0] == "inline"
    assert choice.values[-1] == "root"
    reader = alone.sketch.schedule.by_id[choice.values[1][0]]
    assert reader.op.name == "conv"
    loops = [v[1] for v in choice.values[1:-1]]
    assert loops == list(range(len(loops)))
    kinds = [reader.leaf_iter_vars[n].iter_type for n in loops]
    reductions = [n for n, kind in enumerate(kinds) if kind == IterVar.CommReduce]
    assert reductions == [8, 9, 10]  # of SSR; not behind another S
    assert len(kinds) == 11


def test_reductions_are_not_inlined():
    for space in policy_of(C.softmax()).population.spaces:
        for c in space.locations:
            stage = space.sketch.schedule.by_id[c.node]
            assert ("inline" in c.values) == (not stage.op.reduce_axis)


def test_no_places_where_they_are_not_wanted():
    policy = policy_of(C.conv2d(), disable_change_compute_location=1)
    assert all(s.locations == [] for s in policy.population.spaces)
    assert all(s.palette.shape == (1, 0) for s in policy.population.spaces)


def test_innermost_lengths_are_limited():
    policy = policy_of(C.matmul(64, 64, 64), max_innermost_split_factor=4)
    for space in policy.population.spaces:
        rows = space.sample(100, np.random.default_rng(0))
        assert all((rows[:, g.stop - 1] <= 4).all() for g in space.groups)


def test_same_generator_same_samples():
    space = policy_of(C.conv2d()).population.spaces[0]
    first, second = (space.sample(50, np.random.default_rng(9)) for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, space.sample(50, np.random.default_rng(10)))
