"""Quotients and remainders towards zero, and products that share factors with their divisors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.arith.random_exprs import value
from tilewright.arith import Analyzer
from tilewright.loopir import op
from tilewright.loopir.expr import Var, const

x, y, z = Var("x"), Var("y"), Var("z")
tdiv, tmod = op.truncdiv, op.truncmod
LEAST = const(-(2**31))


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (tdiv(x * 9 + y, 2) * 2 + tmod(x * 9 + y, 2), "x * 9 + y"),
        (tdiv(x, 3) * 6 + tmod(x, 3) * 2, "x * 2"),
        (tdiv(tmod(x, 2), 7), "0"),
        (tmod(x * 8, 16), "T.truncmod(x, 2) * 8"),
        (tdiv(x * 6 + 4, 8), "T.Div(x * 3 + 2, 4)"),
        (tdiv(tdiv(x, 3), 5), "T.Div(x, 15)"),
        (op.floordiv(x * y * 6, y * z * 3), "x * 2 // z"),
        (op.floormod(x * x * 32, x * z), "x * 32 % z * x"),
        (op.floordiv(x, y * -1), "x * -1 // y"),
        (LEAST - x == 0, "x == -2147483648"),
        (LEAST + x == 0, "T.bool(False)"),
    ],
    ids=str,
)
def test_forms(e: Any, expected: str) -> None:
    e = e.asobject()
    found = Analyzer().simplify(e)
    assert str(found) == expected
    for a in range(-9, 10):
        for b, c in ((-4, 3), (1, -2), (5, 7), (-3, -3)):
            point = {x: a or 2, y: b, z: c}
            assert value(found, point) == value(e, point)
