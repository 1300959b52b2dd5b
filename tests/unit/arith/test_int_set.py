"""Interval sets: ends of expressions while some variables move, unions, covers."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.arith import Analyzer, IntervalSet, eval_set, intersect, neg_inf, pos_inf, union
from tilewright.loopir import op
from tilewright.loopir.expr import Broadcast, Ramp, SizeVar, Var, cast, const
from tilewright.loopir.iter import IterVar, Range

n, m = SizeVar("n"), SizeVar("m")
fo, fi, x, y = Var("fo"), Var("fi"), Var("x"), Var("y")
DOM = {fi: IntervalSet(0, 15)}


@pytest.mark.parametrize(
    ("e", "low", "high"),
    [
        (fo * 32 + fi, "fo * 32", "fo * 32 + 15"),
        (fi - fi, "0", "0"),
        (fi * 2 + fi, "0", "45"),
        (n - fi, "n - 15", "n"),
        ((fo * 16 + fi) // 8, "fo * 2", "fo * 2 + 1"),
        ((fo * 16 + fi) % 8, "0", "7"),
        ((fo * 16 + fi) // 16, "fo", "fo"),
        ((fo * 16 + fi) % 16, "0", "15"),
        ((fo * 16 + fi) // 32, "fo // 2", "fo // 2"),
        ((fi + 3) % 32, "3", "18"),
        ((fi + 20) % 16, "0", "15"),
        ((fi - 5) // 4, "-2", "2"),
        ((fo + 5) % 4, "(fo + 1) % 4", "(fo + 1) % 4"),
        (op.min(fi, n), "0", "T.min(15, n)"),
        (op.max(fi, x), "T.max(0, x)", "T.max(15, x)"),
        (op.min(fi, x) - x, "T.min(x * -1, 0)", "T.min(15 - x, 0)"),
        (fi * n, "0", "n * 15"),
        ((fi + 1) * n, "n", "n * 16"),
        (fi * -3, "-45", "0"),
        (fi * fi, "0", "225"),
        (fi * (fi + 1), "0", "240"),
        (op.select(x < 3, fi, fo), "T.min(0, fo)", "T.max(15, fo)"),
        (op.if_then_else(fi < 3, fi, 7), "0", "15"),
        (op.abs(fi - 5), "-10", "10"),
        (fi // m, "0", "15 // m"),
        (fi % m, "0", "T.min(m - 1, 15)"),
        (x // m, "x // m", "x // m"),
        (cast("int64", fi) * 4, "T.int64(0)", "T.int64(60)"),
        (op.truncmod(fi - 8, 4), "-3", "3"),
        (const(7), "7", "7"),
        (cast("int32", cast("int8", fi)), "0", "15"),
    ],
    ids=str,
)
def test_eval_set(e: Any, low: str, high: str) -> None:
    got = eval_set(e, DOM)
    assert (str(got.min_value), str(got.max_value)) == (low, high)


def test_unlimited_ends() -> None:
    assert eval_set(fi * x, DOM).is_everything()
    half = {x: IntervalSet(3, pos_inf)}
    got = eval_set(x * 2 + 1, half)
    assert int(got.min_value) == 7
    assert got.max_value is pos_inf
    got = eval_set(4 - x, half)
    assert got.min_value is neg_inf
    assert int(got.max_value) == 1
    assert eval_set(op.min(x, 9), half).has_upper_bound()
    assert not eval_set(op.max(x, 9), half).has_upper_bound()
    assert str(eval_set(x % 4, half)) == "IntervalSet[0, 3]"


def test_domains_may_be_ranges_and_name_other_variables() -> None:
    axis = IterVar(Range(0, n), "axis", IterVar.DataPar)
    got = eval_set(axis * 2, {axis: Range(0, n)})
    assert (str(got.min_value), str(got.max_value)) == ("0", "n * 2 - 2")
    got = eval_set(x + y, {x: Range.from_min_extent(fo * 4, 4)})
    assert (str(got.min_value), str(got.max_value)) == ("fo * 4 + y", "fo * 4 + y + 3")
    # all at once: an end that names a variable of the domain keeps it
    got = eval_set(x, {x: IntervalSet(y, y + 1), y: IntervalSet(0, 9)})
    assert (str(got.min_value), str(got.max_value)) == ("y", "y + 1")


def test_known_ranges_sharpen_the_ends() -> None:
    a = Analyzer()
    a.bind(fo, Range(0, (n + 31) // 32))
    got = eval_set(op.min(fo * 32 + fi, n + 40), {fi: IntervalSet(0, 31)}, a)
    assert (str(got.min_value), str(got.max_value)) == ("fo * 32", "fo * 32 + 31")


def test_vectors() -> None:
    got = eval_set(Ramp(fi * 4, 1, 4), DOM)
    assert (str(got.min_value), str(got.max_value)) == ("0", "63")
    got = eval_set(Ramp(x, -2, 4), {})
    assert (str(got.min_value), str(got.max_value)) == ("x - 6", "x")
    assert eval_set(Broadcast(x, 4), {}).is_single_point()
    assert eval_set(Ramp(x, y, 4), {}).is_everything()


def test_other_types() -> None:
    assert eval_set(cast("float32", x), {}).is_single_point()
    assert eval_set(cast("float32", fi), DOM).is_everything()
    got = eval_set(cast("uint8", fi), DOM)
    assert (int(got.min_value), int(got.max_value)) == (0, 255)


def test_union_and_intersection() -> None:
    a, b = IntervalSet(0, n), IntervalSet(x, 3)
    both = union([a, b, IntervalSet.nothing()])
    assert (str(both.min_value), str(both.max_value)) == ("T.min(0, x)", "T.max(n, 3)")
    met = intersect([a, b])
    assert (str(met.min_value), str(met.max_value)) == ("T.max(0, x)", "T.min(n, 3)")
    assert union([]).is_nothing()
    assert intersect([]).is_everything()
    assert intersect([IntervalSet(0, 3), IntervalSet(4, 9)]).is_nothing()
    assert intersect([IntervalSet(x, x + 3), IntervalSet(x + 4, pos_inf)]).is_nothing()
    assert intersect([a, IntervalSet.nothing()]).is_nothing()
    assert union([a, IntervalSet(neg_inf, 0)]).min_value is neg_inf
    assert intersect([a, IntervalSet(neg_inf, 5)]).has_lower_bound()


def test_kinds_of_sets() -> None:
    assert IntervalSet.from_range(Range(0, 0)).is_nothing()
    assert IntervalSet.from_range(Range(3, 4)).is_single_point()
    assert IntervalSet.single_point(x).is_single_point()
    assert not IntervalSet(x, x + 1).is_single_point()
    assert IntervalSet(5, 4).is_nothing()
    assert IntervalSet.everything().is_everything()
    assert IntervalSet.vector(x).is_single_point()


def test_cover_range() -> None:
    whole = Range(0, n)
    r = eval_set(fo * 16 + fi, DOM).cover_range(whole)
    assert r is not None
    assert (str(r.min), str(r.extent)) == ("fo * 16", "16")
    r = eval_set(op.min(fo * 16, n) + fi, DOM).cover_range(whole)
    assert r is not None
    assert (str(r.min), str(r.extent)) == ("T.min(fo * 16, n)", "16")
    assert IntervalSet(0, pos_inf).cover_range(whole) is whole
    r = IntervalSet.single_point(x).cover_range(whole)
    assert r is not None
    assert int(r.extent) == 1
