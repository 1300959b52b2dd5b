"""Tiles of loops whose lengths have few divisors, down to the loops that are generated."""

import re

import numpy as np
import pytest

import tilewright as tvm
from tests.unit.auto_scheduler import computations as C
from tests.unit.auto_scheduler.searches import policy_of
from tilewright import te
from tilewright.auto_scheduler.population import Candidate
from tilewright.auto_scheduler.space import fitting_tiles, tilings


@pytest.mark.parametrize("extent", [13, 23, 35, 58, 197, 509])
def test_tiles_of_any_length_fill_vectors(extent):
    """There are tiles of whole vectors, and no tile ends in odd pieces of one."""
    lanes = 8
    table = tilings(extent, 3, 64, lanes)
    last, size = table[:, -1], table.prod(axis=1)
    assert set(last[last >= lanes] % lanes) <= {0, 1, 2, 4}
    assert (last % lanes == 0).any()
    assert ((table >= 1).all(axis=1) & (last <= min(extent, 64))).all()
    over = -(-extent // size) * size - extent
    assert ((over * 8 <= extent) | ((over < lanes) & (last % lanes == 0))).all()


def test_lengths_that_divide_are_all_there():
    found = {tuple(row) for row in tilings(48, 2, 64, 16).tolist()}
    assert {(1, 48), (3, 16), (2, 24), (12, 4), (1, 1)} <= found
    assert (3, 15) not in found


@pytest.mark.parametrize(
    ("inner", "fits"),
    [((1, 1, 8), True), ((1, 3, 8), True), ((1, 1, 7), False), ((4, 1, 8), False),
     ((1, 1, 17), False), ((1, 1, 12), True), ((1, 1, 24), False), ((6, 1, 1), True)],
)  # fmt: skip
def test_which_tiles_suit_a_loop_of_23(inner, fits):
    """Whole vectors may reach to 24, nothing is longer than the loop, 7 lanes are no vector."""
    assert fitting_tiles(23, np.array([inner]), 64, 8)[0] == fits


def product(columns, dtype):
    a, b = te.placeholder((29, 31), dtype, name="a"), te.placeholder((31, columns), dtype)
    r = te.reduce_axis((0, 31), "r")
    return [a, b, te.compute((29, columns), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r))]


def test_lanes_are_those_of_the_results():
    """Of vectors of 64 bytes; of short loops, the largest power of two in them."""
    for dtype, columns, lanes in (
        ("float64", 59, 8), ("float32", 59, 16), ("int8", 59, 32), ("int8", 97, 64),
        ("float32", 13, 8), ("float32", 3, 2),
    ):  # fmt: skip
        for space in policy_of(product(columns, dtype)).population.spaces:
            assert [g.lanes for g in space.groups] == [1, lanes, 1]


def lowered(policy, number, lengths):
    """The program of a candidate with these lengths, as text."""
    space = policy.population.spaces[number]
    row = space.sample(1, np.random.default_rng(0))[0]
    row[: len(lengths)] = lengths
    schedule, args = policy.task.compute_dag.apply_steps_from_state(
        policy.state_of(Candidate(number, row))
    )
    return str(tvm.lower(schedule, args)["main"])


def test_masks_stand_only_at_the_edges():
    """Of a product of 59 x 59 in tiles of 4 x 16: all but the last tiles are sums of vectors
    without masks or conditions, and so are the last ones but for the operand that ends there."""
    policy = policy_of(C.matmul(59, 59, 59), pack_operands=0)
    text = lowered(policy, 0, [1, 1, 4, 1, 1, 16, 1])
    main, edge = re.split(r"\n +else:\n", text, maxsplit=1)
    sums = [line for line in main.splitlines() if "T.Broadcast(" in line and " * " in line]
    sums = [line for line in sums if "acc" in line.split("=")[0]]
    assert len(sums) == 4
    assert "predicate" not in main
    assert main.count("if ") == 1  # which part this is
    assert "predicate" in edge
    assert not re.search(r"acc\w*\.vload", edge)


def test_a_vector_has_one_length_wherever_its_stage_is_attached():
    """What a tile of 4 filters needs lies in one group of them or in two: the stage that gives it
    fills a vector as long as the longer."""
    x = te.placeholder((24,), name="x")
    y = te.compute((24,), lambda i: x[i] + 1.0, name="y")
    z = te.compute((36,), lambda i: y[i // 6 * 4] + y[i // 6 * 4 + 3], name="z")
    s = te.create_schedule(z.op)
    outer, _ = s[z].split(s[z].op.axis[0], factor=4)
    s[y].compute_at(s[z], outer)
    assert "range" in str(tvm.lower(s, [x, z])["main"]).replace("range(9)", "", 1)
    s[y].vectorize(s[y].op.axis[0])
    text = str(tvm.lower(s, [x, z], simple_mode=True)["main"])
    assert text.count("range(") == 2  # of the tiles, and in a tile: none of y
    values = np.arange(24, dtype="float32")
    out = np.zeros(36, "float32")
    tvm.build(s, [x, z], "llvm")(values, out)
    first = np.arange(36) // 6 * 4
    assert np.array_equal(out, values[first] + values[first + 3] + 2)


def test_candidates_that_do_not_divide_are_recognised():
    """As those of records are: the model learns from them."""
    policy = policy_of(C.matmul(37, 59, 29))
    rng = np.random.default_rng(4)
    odd = 0
    for number, space in enumerate(policy.population.spaces):
        for row in space.sample(8, rng):
            candidate = policy.population.canonical(Candidate(number, row))
            found = policy.recognise(policy.state_of(candidate).rows)
            assert found is not None
            assert policy.state_of(found).rows == policy.state_of(candidate).rows
            over = [space.outer_lengths(row[None], g).prod() > g.extent for g in space.groups]
            odd += any(over)
    assert odd
