"""Linear equations in an expression, clip bounds, and bounds deduced from conditions."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.unit.arith.random_exprs import value
from tilewright.arith import (
    IntervalSet,
    deduce_bound,
    detect_clip_bound,
    detect_linear_equation,
)
from tilewright.arith.deduce import limits_where
from tilewright.loopir import op
from tilewright.loopir.expr import Not, SizeVar, Var, cast
from tilewright.loopir.iter import IterVar, Range

n, m = SizeVar("n"), SizeVar("m")
x, y, z, q = Var("x"), Var("y"), Var("z"), Var("q")
u, b = Var("u", "uint32"), Var("b", "uint32")


def texts(parts: Any) -> Any:
    return [None if p is None else str(p) for p in parts]


@pytest.mark.parametrize(
    ("e", "variables", "expected"),
    [
        (x * 4 + y * n + 3 + x * q, [x, y], ["q + 4", "n", "3"]),
        ((x + 1) * (q + n), [x], ["q + n", "q + n"]),
        (x // 2, [x], []),
        (x * x, [x], []),
        (x * y, [x, y], []),
        (x * y, [x], ["y", "0"]),
        (x + 1, [], ["x + 1"]),
        (q // 2 + n, [x], ["0", "q // 2 + n"]),
        (op.max(x, y), [x], []),
        (cast("float32", x), [x], []),
        (128 - u, [u], ["-1", "128"]),
        (u * (b + 4) + b, [u], ["b + T.uint32(4)", "b"]),
        (u * u, [u], []),
        (u // b, [u], []),
    ],
    ids=str,
)
def test_detect_linear_equation(e: Any, variables: list[Var], expected: Any) -> None:
    assert texts(detect_linear_equation(e, variables)) == expected


@pytest.mark.parametrize(
    ("e", "variables", "expected"),
    [
        (op.all(x >= n, x < q), [x], ["n", "q - 1"]),
        (op.all(x * 4 < 10, x > -3), [x], ["-2", "2"]),
        (op.all(x >= 1, x >= n, y < 3), [x, y], ["T.max(1, n)", None, None, "2"]),
        (op.likely(x < 3), [x], [None, "2"]),
        (x.equal(n), [x], ["n", "n"]),
        (Not(x < 3), [x], ["3", None]),
        (x + y < 3, [x, y], []),
        (x // 2 < 3, [x], []),
        (op.any(x < 3, x > 5), [x], []),
        (op.min(x, y) > 3, [x, y], ["4", None, "4", None]),
        (op.max(x * 2, n) < 3, [x], []),
    ],
    ids=str,
)
def test_detect_clip_bound(e: Any, variables: list[Var], expected: Any) -> None:
    assert texts(detect_clip_bound(e, variables)) == expected


HINTS = {x: Range(0, (n + 31) // 32), y: Range(0, 32)}
RELAX = {y: Range(0, 32)}


@pytest.mark.parametrize(
    ("cond", "low", "high"),
    [
        (x * 32 + y < n, "neg_inf", "n // 32 - 1"),
        (Not(x * 32 + y < n), "(n + 31) // 32", "pos_inf"),
        (op.likely(op.all(x * 32 + y < n, x * 8 + y >= 3)), "1", "n // 32 - 1"),
        ((x * 4 + y // 8) // 8 < m, "neg_inf", "m * 2 - 1"),
        (n - x >= y, "neg_inf", "n - 31"),
        (op.min(x, x + y) >= 3, "3", "pos_inf"),
        (x.equal(m), "m", "m"),
        (x < m, "neg_inf", "m - 1"),
        (m <= x * 2, "(m + 1) // 2", "pos_inf"),
    ],
    ids=str,
)
def test_deduce_bound(cond: Any, low: str, high: str) -> None:
    got = limits_where(x, cond, HINTS, RELAX)
    assert (str(got.min_value), str(got.max_value)) == (low, high)


def test_what_cannot_be_deduced_is_nothing() -> None:
    for cond in ((x + y) % 8 < 3, op.any(x < 3, x > 5), q < 3, x * m < 3, x.equal(y)):
        assert deduce_bound(x, cond, {}, RELAX).is_nothing(), cond
    assert deduce_bound(x, y < 32, {}, RELAX).is_everything()
    axis = IterVar(Range(0, n), "axis", IterVar.DataPar)
    assert str(deduce_bound(axis, axis * 4 < n, {}, {}).max_value) == "(n + 3) // 4 - 1"


@pytest.mark.parametrize(
    ("cond", "low", "high"),
    [
        (y * x * -1 + z >= q, "neg_inf", "(z - q) // y"),
        (y * x >= z, "z // y + 1", "pos_inf"),
        (y * x >= y * 3, "3", "pos_inf"),
        (y * x <= z, "neg_inf", "z // y"),
    ],
    ids=str,
)
def test_factors_of_known_sign(cond: Any, low: str, high: str) -> None:
    got = deduce_bound(x, cond, {y: Range(2, 5)}, {})
    assert (str(got.min_value), str(got.max_value)) == (low, high)
    assert deduce_bound(x, cond, {y: Range(-2, 5)}, {}).is_nothing()
    for xv, yv, zv, qv in itertools.product(range(-9, 10), range(2, 5), (-7, 0, 8), (-1, 3)):
        point = {x: xv, y: yv, z: zv, q: qv}
        lower = not got.has_lower_bound() or value(got.min_value, point) <= xv
        if lower and (not got.has_upper_bound() or xv <= value(got.max_value, point)):
            assert value(cond, point)


def test_what_is_left_to_limits_where() -> None:
    for cond, ends in (((x // 8).equal(3), ("24", "31")), (x * 2 - x > y, ("y + 1", "pos_inf"))):
        assert deduce_bound(x, cond, {}, {}).is_nothing()
        got = limits_where(x, cond, {}, {})
        assert (str(got.min_value), str(got.max_value)) == ends


def pick(rng: random.Random) -> int:
    return rng.choice((-3, -2, -1, 1, 2, 3, 4, 8))


@pytest.mark.parametrize("block", range(4))
def test_conditions_hold_in_the_deduced_interval(block: int) -> None:
    found = 0
    for seed in range(block * 150, block * 150 + 150):
        rng = random.Random(seed)
        left: Any = x * pick(rng) + y * pick(rng) + rng.randint(-9, 9)
        if rng.random() < 0.3:
            left = left // abs(pick(rng))
        if rng.random() < 0.3:
            left = rng.choice((op.min, op.max))(left, x + z * pick(rng))
        right: Any = rng.choice((z * pick(rng) + rng.randint(-20, 20), z + x))
        cond = rng.choice((left < right, left <= right, left > right, Not(left < right)))
        relax = {y: IntervalSet(-2, 5)}
        got = limits_where(x, cond, {z: Range(0, 6)}, relax)
        if got.is_nothing():
            continue
        found += 1
        for xv, zv in itertools.product(range(-40, 41), range(6)):
            point = {x: xv, z: zv}
            low = value(got.min_value, point) if got.has_lower_bound() else xv
            high = value(got.max_value, point) if got.has_upper_bound() else xv
            if low <= xv <= high:
                assert all(value(cond, {**point, y: yv}) for yv in range(-2, 6)), (seed, point)
    assert found > 60
