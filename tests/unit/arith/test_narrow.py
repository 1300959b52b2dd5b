"""Conditions narrowed to some of their variables, against all values of the others."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.unit.arith.random_exprs import value
from tilewright.arith.narrow import narrow_predicate_expression
from tilewright.base.errors import OperandError
from tilewright.loopir import op
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.expr import Add, Not, Var
from tilewright.loopir.iter import Range
from tilewright.loopir.visit import uses_var

i, j, n = Var("i"), Var("j"), Var("n")
BUFFER = decl_buffer((16,), "int32")


@pytest.mark.parametrize(
    ("cond", "expected"),
    [
        (i > n, "i > 7"),
        (i <= n, "i <= 0"),
        ((i + n) // 4 > 0, "T.Add(i, 0) // 4 > 0"),
        (i.equal(n), "i <= 0 and 7 <= i"),
        (Not(i < n), "not i < 7"),
        (i % 8 > n, "T.bool(False)"),
        (i // n > 2, "T.bool(False)"),
        (op.any(BUFFER[i] > 0, i <= n), "T.bool(False) or i <= 0"),
        (i * -2 < n, "i * -2 < 0"),
        (j - n * -1 < 3, "j - T.Mul(7, -1) < 3"),
        (i > 5, "i > 5"),
    ],
    ids=str,
)
def test_parameters_go(cond: Any, expected: str) -> None:
    assert str(narrow_predicate_expression(cond, {n: Range(0, 8)})) == expected


def test_what_is_left_implies_the_condition() -> None:
    for seed in range(120):
        rng = random.Random(seed)
        left: Any = i * rng.randint(-3, 3) + n * rng.choice((-2, -1, 1, 2)) + rng.randint(-4, 4)
        if rng.random() < 0.4:
            left = left // rng.choice((-3, 2, 4))
        right: Any = rng.choice((op.min(j, n), op.max(j - n, i), Add(j, n)))
        cond = rng.choice((left < right, left >= right, left.equal(right), Not(left > right)))
        if rng.random() < 0.3:
            cond = Not(op.any(cond, i > n))
        left_over = narrow_predicate_expression(cond, {n: Range(-2, 3)})
        assert not uses_var(left_over, n.same_as)
        for x, y in itertools.product(range(-6, 7), repeat=2):
            if value(left_over, {i: x, j: y}):
                assert all(value(cond, {i: x, j: y, n: k}) for k in range(-2, 3)), (seed, x, y)


def test_only_conditions_are_narrowed() -> None:
    with pytest.raises(OperandError, match="takes a condition"):
        narrow_predicate_expression(i + 1, {})
