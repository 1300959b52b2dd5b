"""`canonical_simplify` and what analyzers count: shapes of sums, and that values stay."""

from __future__ import annotations

import random

import pytest

from tests.unit.arith.random_exprs import Maker, value
from tilewright import te
from tilewright.arith import Analyzer, CompareResult, ConstIntBound, IterMapLevel, detect_iter_map
from tilewright.base.errors import UsageError
from tilewright.ir import Range, structural_equal
from tilewright.loopir import expr as E
from tilewright.loopir import op

x, y, z = (E.Var(n) for n in "xyz")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (y + x * 3 - 5 * x + 1 + y, y * 2 + 1 - x * 2),
        (x * 3 - 4 * x + 1, 1 - x),
        (2 + (3 * x + z + y + 1) * 4 + x, x * 13 + z * 4 + y * 4 + 6),
        ((2 - x + y) // 3, (y + 2 - x) // 3),
        (op.min(1 - x - y, z), op.min(1 - x - y, z)),
    ],
)
def test_sums_are_in_order(given: E.PrimExpr, wanted: E.PrimExpr) -> None:
    found = Analyzer().canonical_simplify(given)
    assert structural_equal(found, wanted), found


def test_truncated_divisions_stay_truncated() -> None:
    analyzer = Analyzer()
    analyzer.update(x, ConstIntBound(0, 1000))
    found = analyzer.canonical_simplify(op.truncdiv(op.truncmod(x, 16), 4))
    assert structural_equal(found, op.truncdiv(op.truncmod(x, 16), 4)), found


tdiv, tmod = op.truncdiv, op.truncmod


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (tdiv(x, 6) * 6 + tmod(tdiv(x, 3), 2) * 3 + tmod(x, 3), "x"),
        (tmod(tdiv(tmod(x, 20), 2) * 2, 4), "T.Div(T.truncmod(x, 4), 2) * 2"),
        (tdiv(x, 6) * 2 + tmod(tdiv(x, 3), 2), "T.Div(x, 3)"),
        (tdiv(x, -6) * 2 - tmod(tdiv(x, 3), 2), None),
        (tdiv(x + 1, 6) * 6 + tmod(tdiv(x + 1, 3), 2) * 3 + tmod(x + 1, 3), None),
        (tdiv(x, 6) + 1 + tmod(tdiv(x, 3), 2), None),
        (tdiv(x * x, 6) * 6 + tmod(x * x, 6), None),
        (op.abs(x) * 0 + tmod(tmod(x, 20), 4), None),
    ],
)
def test_truncated_divisions_of_any_sign(given: E.PrimExpr, wanted: str | None) -> None:
    found = Analyzer().canonical_simplify(given)
    for n in range(-130, 131):
        assert value(found, {x: n}) == value(given, {x: n})
    assert wanted is None or str(found) == wanted


def test_a_choice_within_one_learns_its_condition() -> None:
    for third in (tdiv(x, 3), op.floordiv(x, 3)):
        inner = op.if_then_else(third < 2, x, 0)
        assert str(Analyzer().canonical_simplify(E.Select(x >= 10, inner, 0))) == "0"


def test_values_stay() -> None:
    rng = random.Random(5)
    for _ in range(150):
        e = Maker(rng, [x, y, z]).integer(4)
        found = Analyzer().canonical_simplify(e)
        for _ in range(6):
            point = {v: rng.randint(-9, 9) for v in (x, y, z)}
            try:
                wanted = value(e, point)
            except ZeroDivisionError:
                continue
            assert value(found, point) == wanted, f"{e} became {found} at {point}"


def test_rewrites_are_counted_and_limited() -> None:
    analyzer = Analyzer()
    analyzer.rewrite_simplify(x + (y - x))
    stats = analyzer.rewrite_simplify_stats
    assert stats.rewrites_performed == 1 and stats.rewrites_attempted >= 1
    analyzer.reset_rewrite_simplify_stats()
    assert analyzer.rewrite_simplify_stats.nodes_visited == 0
    analyzer.set_maximum_rewrite_steps(0)
    with pytest.raises(UsageError, match="exceeded"):
        analyzer.rewrite_simplify(x + (y - x))
    analyzer.set_maximum_rewrite_steps(-1)
    assert analyzer.rewrite_simplify(x + (y - x)) is y


def test_order_is_compared() -> None:
    analyzer = Analyzer()
    assert analyzer.try_compare(x, x) == CompareResult.EQ
    assert analyzer.try_compare(x, x + 1) == CompareResult.LT
    assert analyzer.try_compare(x + 1, x) == CompareResult.GT
    assert analyzer.try_compare(x, y) == CompareResult.UNKNOWN
    with analyzer.constraint_scope(x <= y):
        assert analyzer.try_compare(x, y) == CompareResult.LE
    with analyzer.constraint_scope(op.all(x != y, y <= x)):
        assert analyzer.try_compare(x, y) == CompareResult.GT


def test_second_bounds_need_override() -> None:
    analyzer = Analyzer()
    analyzer.update(x, ConstIntBound(0, 9))
    analyzer.update(x, ConstIntBound(0, 9))
    with pytest.raises(UsageError, match="different const bound"):
        analyzer.update(x, ConstIntBound(0, 3))
    analyzer.update(x, ConstIntBound(0, 3), override=True)
    assert repr(analyzer.const_int_bound(x)) == "ConstIntBound[0,3]"


def test_let_of_a_name_is_what_it_names() -> None:
    e = E.Let(x, y, x + 1)
    assert structural_equal(Analyzer().rewrite_simplify(e + e), (y + 1) * 2)


def test_levels_of_iterator_maps_by_number() -> None:
    dom = {x: Range(0, 3), y: Range(0, 4)}
    assert detect_iter_map([x * 4 + y], dom, check_level=IterMapLevel.Bijective).indices
    assert not detect_iter_map([x], dom, check_level=IterMapLevel.Bijective).indices
    assert IterMapLevel.from_str("nocheck") is IterMapLevel.NoCheck
    with pytest.raises(UsageError, match="check_level"):
        detect_iter_map([x], dom, check_level="some")


def test_reductions_keep_the_parts_that_are_asked_for() -> None:
    both = te.comm_reducer(
        lambda a, b: (a[0] + b[0], a[1] * b[1]),
        lambda s, t: (te.const(0, s), te.const(1, t)),
    )
    product = te.comm_reducer(lambda a, b: a * b, lambda t: te.const(1, t))
    k = te.reduce_axis((0, 10), "k")
    data = te.placeholder((10,), name="data")
    parts = both((data[k], data[9 - k]), axis=k)
    found = [Analyzer().canonical_simplify(part) for part in parts]
    assert structural_equal(found[0], te.sum(data[k], axis=k)), found[0]
    assert structural_equal(found[1], product(data[9 - k], axis=k)), found[1]


def test_parts_that_others_are_made_of_stay() -> None:
    """The place of the largest value cannot be told without the value."""
    largest = te.comm_reducer(
        lambda a, b: tuple(E.Select(E.GE(a[1], b[1]), a[n], b[n]) for n in (0, 1)),
        lambda s, t: (te.const(-1, s), te.min_value(t)),
    )
    k = te.reduce_axis((0, 10), "k")
    data = te.placeholder((10,), name="data")
    place, value = largest((k.var, data[k]), axis=k)
    analyzer = Analyzer()
    assert len(analyzer.canonical_simplify(place).source) == 2
    found = analyzer.canonical_simplify(value)
    assert (len(found.source), found.value_index) == (1, 0)
    assert structural_equal(found.source[0], data[k])
    assert len(analyzer.simplify(value).source) == 2
