"""Crossover: whole nodes of either parent, of sketches that need not be the same."""

import numpy as np
import pytest

from tests.unit.auto_scheduler.searches import COMPUTATIONS, policy_of, spaces_of, task_of
from tilewright import auto_scheduler as A
from tilewright.auto_scheduler.crossover import Crossover, column_nodes, crossed, genes
from tilewright.auto_scheduler.population import Candidate


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_children_take_whole_nodes_of_a_parent(name):
    """Places that do not go together stay the mother's."""
    for space in spaces_of(name):
        mothers, fathers = space.sample(200, rng(1)), space.sample(200, rng(2))
        children = crossed(space, mothers, fathers, rng(3))
        nodes = column_nodes(space)
        places = np.isin(np.arange(space.width), [c.column for c in space.locations])
        for node in np.unique(nodes):
            mine = (nodes == node) & ~places
            of_mother = (children[:, mine] == mothers[:, mine]).all(axis=1)
            of_father = (children[:, mine] == fathers[:, mine]).all(axis=1)
            assert (of_mother | of_father).all()
        assert space.in_palette(children[:, places]).all()
        either = (children == mothers) | (children == fathers)
        assert either[:, places].all()


def test_children_mix_their_parents():
    space = spaces_of("softmax")[0]
    mothers, fathers = space.sample(300, rng(1)), space.sample(300, rng(2))
    children = crossed(space, mothers, fathers, rng(3))
    assert len(np.unique(column_nodes(space))) > 2
    both = (children != mothers).any(axis=1) & (children != fathers).any(axis=1)
    assert both.mean() > 0.2
    columns = [c.column for c in space.locations]
    of_mother = (children[:, columns] == mothers[:, columns]).all(axis=1)
    of_father = (children[:, columns] == fathers[:, columns]).all(axis=1)
    assert (~of_mother & ~of_father).any()  # places of some stages from each


def test_places_that_depend_on_others_are_not_taken_alone():
    """A stage inside another's loops goes to a child only with a place of that which has loops."""
    space = max(spaces_of("softmax"), key=lambda s: len(s.locations))
    columns = [c.column for c in space.locations]
    mothers = space.sample(400, rng(1))
    fathers = mothers.copy()
    fathers[:, columns] = space.palette[rng(2).integers(len(space.palette), size=400)]
    mixed = np.where(rng(3).random((400, len(columns))) < 0.5, mothers[:, columns], 0)
    legal = space.places_of.legal(mixed)
    assert (legal != mixed).any()  # there is something to refuse
    children = crossed(space, mothers, fathers, rng(4))
    assert (space.places_of.legal(children[:, columns]) == children[:, columns]).all()


def test_columns_belong_to_nodes():
    space = spaces_of("softmax")[0]
    nodes = column_nodes(space)
    for g in space.groups:
        assert set(nodes[g.start : g.stop]) == {g.node}
    for c in (*space.unroll, *space.parallel, *space.pragmas, *space.locations):
        assert nodes[c.column] == c.node


# -- of different sketches


def tiles(space, name):
    """The columns of the lengths of a stage."""
    by_id = space.sketch.schedule.by_id
    mine = [g for g in space.groups if by_id[g.node].op.name.split(".")[0] == name]
    return [c for g in mine for c in range(g.start, g.stop)]


@pytest.mark.parametrize(("name", "stage"), [("matmul", "C"), ("conv2d_bn_relu", "conv")])
def test_tiles_go_from_sketch_to_sketch(name, stage):
    """Fused with its reader or not, from a cache or not, with packed operands or not."""
    spaces = spaces_of(name)
    crossover = Crossover(spaces)
    for own, mine in enumerate(spaces):
        for other, theirs in enumerate(spaces):
            mother, father = mine.sample(1, rng(1)), theirs.sample(1, rng(2))
            made = crossover.shared(own, other).translate(mother, father)
            assert (made[0, tiles(mine, stage)] == father[0, tiles(theirs, stage)]).all()
            assert made.shape == mother.shape


def test_what_sketches_do_not_share_stays_the_mothers():
    """Partial results of a norm are of another part of the sum in each sketch."""
    spaces = spaces_of("norm")
    crossover = Crossover(spaces)
    for own, mine in enumerate(spaces):
        for other, theirs in enumerate(spaces):
            if own == other:
                continue
            mothers, fathers = mine.sample(50, rng(1)), theirs.sample(50, rng(2))
            made = crossover.shared(own, other).translate(mothers, fathers)
            lengths = [c for g in mine.groups for c in range(g.start, g.stop)]
            assert (made[:, lengths] == mothers[:, lengths]).all()


def test_a_place_that_the_other_sketch_does_not_have_stays():
    """Padding may be computed at loops of conv's reader in one sketch, of conv in another."""
    spaces = spaces_of("conv2d_bn_relu")
    fused, alone = spaces[0], spaces[2]
    (mine,), (theirs,) = fused.locations, alone.locations
    mother, father = fused.sample(1, rng(1)), alone.sample(1, rng(2))
    shared = Crossover(spaces).shared(0, 2)
    for value, option in enumerate(theirs.values):
        father[0, theirs.column] = value
        made = int(shared.translate(mother, father)[0, mine.column])
        if isinstance(option, str):
            assert mine.values[made] == option
        else:
            assert isinstance(mine.values[made], tuple) or made == mother[0, mine.column]


def test_genes_name_each_column_but_places_once():
    for name in COMPUTATIONS:
        for space in spaces_of(name):
            columns = [c for found in genes(space).values() for c in found]
            columns += [c.column for c in space.locations]
            assert sorted(columns) == list(range(space.width))


@pytest.mark.parametrize("name", ["matmul", "conv2d_bn_relu", "softmax", "norm"])
def test_children_of_different_sketches_are_programs_that_replay(name):
    policy = policy_of(COMPUTATIONS[name]())
    population = policy.population
    spaces = population.spaces
    crossover = Crossover(spaces)
    everybody = [s.sample(4, rng(n)) for n, s in enumerate(spaces)]
    for own, mothers in enumerate(everybody):
        fathers = (own + np.arange(4)) % len(spaces), np.arange(4)
        for row in crossover.children(own, mothers, fathers, everybody, rng(5)):
            chosen = population.canonical(Candidate(own, row))
            found = policy.recognise(population.close(chosen).rows)
            assert found is not None
            assert found.key == chosen.key


def test_kernels_are_crossed_too():
    """Children that the device cannot run are sorted out by their score."""
    task = task_of(COMPUTATIONS["matmul"](), "cuda -arch=sm_80")
    policy = A.SketchPolicy(task, A.RandomModel(), seed=0, verbose=0)
    spaces = policy.population.spaces
    crossover = Crossover(spaces)
    everybody = [s.sample(20, rng(n)) for n, s in enumerate(spaces)]
    for own, (space, mothers) in enumerate(zip(spaces, everybody)):
        other = (own + 1) % len(spaces)
        count = min(len(mothers), len(everybody[other]))
        fathers = np.full(count, other), np.arange(count)
        children = crossover.children(own, mothers[:count], fathers, everybody, rng(1))
        for g in space.groups:
            if not g.options:
                assert (space.outer_lengths(children, g).prod(axis=1) == g.extent).all()
