"""Bounds of vectors, and of quotients by divisors of either sign, against all values."""

from __future__ import annotations

import itertools

import pytest

from tilewright.arith import Analyzer, ConstIntBound, IntervalSet
from tilewright.loopir import expr as E
from tilewright.loopir.runtime_calls import vscale


@pytest.mark.parametrize("kind", [E.FloorDiv, E.FloorMod])
@pytest.mark.parametrize("low", [-9, 0, 3])
@pytest.mark.parametrize("by", [(-5, 7), (-4, -1), (2, 6), (-3, 0)])
def test_divisors_of_either_sign(kind, low: int, by: tuple[int, int]) -> None:
    x, y = E.Var("x"), E.Var("y")
    ana = Analyzer()
    ana.update(x, ConstIntBound(low, 8))
    ana.update(y, ConstIntBound(*by))
    bound = ana.const_int_bound(kind(x, y))
    pairs = itertools.product(range(low, 9), (d for d in range(by[0], by[1] + 1) if d))
    values = [a // b if kind is E.FloorDiv else a % b for a, b in pairs]
    assert bound.min_value <= min(values) and max(values) <= bound.max_value
    assert bound.max_value - bound.min_value <= 2 * (max(values) - min(values)) + 6


def test_vectors() -> None:
    a = E.Var("a")
    ana = Analyzer()
    ana.update(a, ConstIntBound(0, 128))
    assert ana.const_int_bound(E.Ramp(a, 2, 4) + 2) == ConstIntBound(2, 136)
    assert ana.const_int_bound(E.Ramp(a, -2, 4)) == ConstIntBound(-6, 128)
    assert ana.const_int_bound(E.Broadcast(a, 4)) == ConstIntBound(0, 128)
    unknown = ana.const_int_bound(E.Var("v", "int32x4"))
    assert unknown == ConstIntBound(ConstIntBound.NEG_INF, ConstIntBound.POS_INF)


def test_vectors_of_unknown_length() -> None:
    a = E.Var("a")
    ramp = E.Ramp(a, 2, vscale() * 4)
    assert ramp.dtype == "int32xvscalex4" and (ramp + 1).dtype == ramp.dtype
    ends = IntervalSet.vector(ramp)
    assert ends.min_value is a and not ends.has_upper_bound()
    with pytest.raises(TypeError, match="constant number of lanes"):
        E.Ramp(a, 1, a)
