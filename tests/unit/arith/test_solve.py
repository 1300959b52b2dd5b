"""Linear systems over the integers, against brute force."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.narrow import int_of
from tests.unit.arith.random_exprs import value
from tilewright.arith.smith import smith_normal_form, unimodular_inverse
from tilewright.arith.solve import solve_linear_equations, solve_linear_inequalities
from tilewright.loopir import op
from tilewright.loopir.expr import EQ, Var, const
from tilewright.loopir.iter import Range

x, y, z, p, q = (Var(c) for c in "xyzpq")


def product(a: Any, b: Any) -> Any:
    return [[sum(r * c for r, c in zip(row, col)) for col in zip(*b)] for row in a]


def test_smith_normal_form_is_diagonal_and_unimodular() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        rows, cols = rng.randint(1, 4), rng.randint(1, 4)
        a = [[rng.randint(-6, 6) for _ in range(cols)] for _ in range(rows)]
        u, d, v = smith_normal_form(a)
        assert product(product(u, a), v) == d
        assert all(not d[i][j] for i in range(rows) for j in range(cols) if i != j)
        assert all(d[i][i] >= 0 for i in range(min(rows, cols)))
        assert product(unimodular_inverse(v), v) == [
            [int(i == j) for j in range(cols)] for i in range(cols)
        ]
        assert product(unimodular_inverse(u), u) == [
            [int(i == j) for j in range(rows)] for i in range(rows)
        ]


@pytest.mark.parametrize("block", range(2))
def test_equations_have_exactly_the_solutions_found(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        rng = random.Random(seed)
        variables = [x, y, z][: rng.randint(1, 3)]
        equations = []
        for _ in range(rng.randint(1, 2)):
            left = sum((v * rng.randint(-3, 3) for v in variables), const(0))
            equations.append(EQ(left, p * rng.randint(-2, 2) + rng.randint(-6, 6)))
        s = solve_linear_equations(equations, variables)
        for param in range(-3, 4):
            point = {p: param}
            solvable = all(value(c, point) for c in s.conditions)
            box = range(-5, 6)
            solutions = set()
            for values in itertools.product(box, repeat=len(variables)):
                here = {**point, **dict(zip(variables, values))}
                if all(value(e, here) for e in equations):
                    solutions.add(values)
            assert solvable or not solutions, (seed, param)
            if not solvable:
                continue
            made = set()
            for free in itertools.product(range(-20, 21), repeat=min(len(s.free), 2)):
                if len(s.free) > 2:
                    continue
                here = {**point, **dict(zip(s.free, free))}
                made.add(tuple(value(s.values[v], here) for v in variables))
            for values in list(made)[:300]:
                here = {**point, **dict(zip(variables, values))}
                assert all(value(e, here) for e in equations), (seed, values)
            if len(s.free) < 2:
                assert solutions <= made, (seed, param)


def test_free_variables_get_ranges() -> None:
    ranges = {x: Range(0, 8), y: Range(0, 4)}
    s = solve_linear_equations([EQ(x * 4 + y, q)], [x, y], ranges)
    assert len(s.free) == 1
    assert s.conditions == []
    low, extent = (int_of(e) for e in (s.ranges[s.free[0]].min, s.ranges[s.free[0]].extent))
    reached = set()
    for free in range(low, low + extent):
        for target in range(32):
            here = {s.free[0]: free, q: target}
            a, b = value(s.values[x], here), value(s.values[y], here)
            if 0 <= a < 8 and 0 <= b < 4:
                reached.add((target, a, b))
    assert reached == {(a * 4 + b, a, b) for a in range(8) for b in range(4)}


def test_conditions_of_solvability() -> None:
    s = solve_linear_equations([EQ(x * 2, p)], [x])
    assert [str(c) for c in s.conditions] == ["p % 2 == 0"]
    assert str(s.values[x]) == "p // 2"
    s = solve_linear_equations([op.all(EQ(x, p), EQ(x, q))], [x])
    assert [str(c) for c in s.conditions] in (["q == p"], ["p == q"])
    s = solve_linear_equations([EQ(x * y, p), x < p, EQ(x + y, p)], [x, y])
    assert [str(e) for e in s.rest] == ["x * y == p", "x < p"] and len(s.free) == 1


def test_signs_and_names_of_free_variables() -> None:
    s = solve_linear_equations([EQ(x + y + z, 15), EQ(x + y, 10)], [x, y, z])
    assert [str(s.values[v]) for v in (x, y, z)] == ["n0 + 10", "n0 * -1", "5"]
    s = solve_linear_equations([EQ(y, 3)], [x, y])
    assert [v.name for v in s.free] == ["n0_x"]


@pytest.mark.parametrize("block", range(2))
def test_inequalities_say_the_same(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        rng = random.Random(seed)
        variables = [x, y, z][: rng.randint(1, 3)]
        conditions = []
        for _ in range(rng.randint(1, 3)):
            left: Any = sum((v * rng.randint(-3, 3) for v in variables), const(0))
            right = p * rng.randint(-1, 1) + rng.randint(-6, 6)
            conditions.append(rng.choice((left < right, left <= right, left >= right)))
        ranges = {v: Range.from_min_extent(const(-3), 7) for v in variables}
        limits, left_over = solve_linear_inequalities(conditions, variables, ranges)
        for param in (-2, 0, 1):
            for values in itertools.product(range(-4, 6), repeat=len(variables)):
                here = {p: param, **dict(zip(variables, values))}
                wanted = all(value(c, here) for c in conditions)
                wanted = wanted and all(-3 <= v < 4 for v in values)
                got = all(value(c, here) for c in left_over)
                for v in variables:
                    got = got and all(value(e, here) <= here[v] for e in limits[v].lower)
                    got = got and all(value(e, here) >= here[v] for e in limits[v].upper)
                assert got == wanted, (seed, here)


def test_limits_name_later_variables_only() -> None:
    limits, left = solve_linear_inequalities([x * 2 + y < p, x >= y, y >= 0], [x, y])
    assert [str(e) for e in limits[x].lower] == ["y"]
    assert [str(e) for e in limits[x].upper] == ["(p - y + 1) // 2 - 1"]
    assert [str(e) for e in limits[y].lower] == ["0"]
    assert [str(e) for e in limits[y].upper] == ["(p + 2) // 3 - 1"]
    assert [str(e) for e in left] == ["1 <= p"]
    either = op.any(x < 3, x > 5)
    limits, left = solve_linear_inequalities([either, x <= y * z, x <= 4], [x, y])
    assert [str(e) for e in limits[x].upper] == ["y * z", "4"] and left == [either]
    limits, left = solve_linear_inequalities([x >= 6, x <= y * z], [x, y])
    assert [str(e) for e in left] == ["6 - y * z <= 0"]
