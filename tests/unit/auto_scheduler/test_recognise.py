"""From rows back to candidates."""

import json

import numpy as np
import pytest

from tests.unit.auto_scheduler import computations as C
from tests.unit.auto_scheduler.searches import COMPUTATIONS, policy_of, samples
from tilewright.auto_scheduler.granularity import mutate_parallel
from tilewright.auto_scheduler.population import Candidate


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_candidates_are_recognised_by_their_rows(name):
    policy = policy_of(COMPUTATIONS[name]())
    for candidate in samples(policy, 3, seed=5):
        rows = policy.population.close(candidate).rows
        for given in (rows, json.loads(json.dumps(rows))):
            found = policy.recognise(given)
            assert found is not None
            assert found.key == candidate.key


@pytest.mark.parametrize("name", ["matmul", "norm", "chain"])
def test_chosen_numbers_of_parallel_loops_are_recognised(name):
    policy = policy_of(COMPUTATIONS[name]())
    population = policy.population
    for candidate in samples(policy, 3, seed=6):
        space = population.spaces[candidate.sketch]
        row = mutate_parallel(space, candidate.row[None, :], np.random.default_rng(1))[0]
        chosen = population.canonical(Candidate(candidate.sketch, row))
        found = policy.recognise(population.close(chosen).rows)
        assert found is not None
        assert found.key == chosen.key


def test_what_no_sketch_has_is_not_recognised():
    policy = policy_of(COMPUTATIONS["matmul_relu"]())
    rows = policy.state_of(samples(policy, 1)[0]).rows
    assert policy.recognise(()) is None
    assert policy.recognise(rows[1:]) is None
    assert policy.recognise((*rows[:3], *rows[4:])) is None
    assert policy.recognise((*rows, ("AN", 2, 1, 1))) is None
    assert policy.recognise((("SP", 2, 0, 32, (4,), 1),)) is None


def test_rows_of_another_computation_are_not_recognised():
    mine = policy_of(C.matmul(32, 16, 64))
    other = policy_of(C.matmul(32, 32, 64))
    for candidate in samples(other, 2):
        assert mine.recognise(other.population.close(candidate).rows) is None


def test_lengths_that_are_not_of_the_space_are_not_recognised():
    """Whatever is recognised closes to the very rows."""
    policy = policy_of(COMPUTATIONS["matmul_relu"]())
    rows = list(policy.state_of(samples(policy, 1)[0]).rows)
    assert rows[0][0] == "SP"
    for lengths in [(1, 1), (1, 1, 1, 1), (None, 1, 1), (3, 1, 1), (0, 1, 1), (-1, 1, 1)]:
        changed = (*rows[0][:4], lengths, rows[0][5])
        assert policy.recognise((changed, *rows[1:])) is None


def test_places_that_are_not_there_are_not_recognised():
    policy = policy_of(C.conv2d(8, 4, 16), pack_operands=0)
    found = [policy.state_of(c).rows for c in samples(policy, 30)]
    placed = next(rows for rows in found if "CA" in [row[0] for row in rows])
    at = [row[0] for row in placed].index("CA")
    assert policy.recognise(placed) is not None
    target = placed[at][2]
    for change in (("CA", 1, 99, 0), ("CA", 1, -1, 0), ("CA", 1, target, 99), ("CA", 1, "x", 0)):
        assert policy.recognise((*placed[:at], change, *placed[at + 1 :])) is None
