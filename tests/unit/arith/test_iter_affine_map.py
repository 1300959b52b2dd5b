"""Index maps, regions and solvers under TVM's names, against all points of small domains."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tilewright import arith
from tilewright.base.errors import UsageError
from tilewright.ir import structural_equal
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir.iter import Range
from tilewright.loopir.subst import substitute
from tilewright.testing import check_int_constraints_trans_consistency as assert_consistent

x, y, z = (E.Var(n) for n in "xyz")
TRUE = E.const(True)


def at(e: Any, point: dict[E.Var, int]) -> int:
    """The value of an expression at a point."""
    known = {v: E.const(n) for v, n in point.items()}
    return int(arith.Analyzer().simplify(substitute(E.convert(e), known)))


def points(ranges: dict[E.Var, Range], predicate: Any = TRUE) -> list[dict[E.Var, int]]:
    spans = [range(int(r.min), int(r.min) + int(r.extent)) for r in ranges.values()]
    found = [dict(zip(ranges, p)) for p in itertools.product(*spans)]
    return [p for p in found if at(predicate, p)]


def domain(**extents: int) -> dict[E.Var, Range]:
    return {v: Range(0, extents[v.name]) for v in (x, y, z) if v.name in extents}


MAPS = [
    ([x * 3 + y + 1], domain(x=4, y=3), TRUE, [(12, 1, 1)]),
    ([x * 4 + y * 2], domain(x=3, y=2), TRUE, [(6, 0, 2)]),
    ([op.floordiv(x, 3), op.floormod(x, 3) * 2 + 1], domain(x=24), TRUE, [(8, 0, 1), (3, 1, 2)]),
    ([x * 10 + y], domain(x=5, y=10), x * 10 + y < 38, [(38, 0, 1)]),
    ([x * 10 + y], domain(x=5, y=10), op.all(x * 10 + y > 5, x * 10 + y <= 37), [(32, 6, 1)]),
    ([x], domain(x=12), x < 5, [(5, 0, 1)]),
    ([op.floormod(x, 8)], domain(x=32), op.all(op.floormod(x, 8) >= 3, op.floormod(x, 8) < 6),
     [(3, 3, 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("indices", "ranges", "predicate", "wanted"), MAPS)
def test_maps_take_the_values_that_they_say(indices, ranges, predicate, wanted) -> None:
    found = arith.detect_iter_map(indices, ranges, predicate)
    assert len(found.indices) == len(indices), found.errors
    for e, s, (extent, base, scale) in zip(indices, found.indices, wanted):
        assert isinstance(s, arith.IterSumExpr) and isinstance(s.args[0], arith.IterSplitExpr)
        assert [int(n) for n in (s.args[0].extent, s.base, s.args[0].scale)] == [
            extent,
            base,
            scale,
        ]
        values = {at(e, p) for p in points(ranges, predicate)}
        assert values == set(range(base, base + extent * scale, scale))
        plain = arith.normalize_iter_map_to_expr(s)
        assert all(at(plain, p) == at(e, p) for p in points(ranges, predicate))


FAILURES = [
    ([x, x], domain(x=3), TRUE, "surjective"),
    ([y * 4 + x], domain(x=3, y=4), TRUE, "surjective"),
    ([op.floordiv(x, 2) * 2 - op.floormod(x, 2) + 1], domain(x=8), TRUE, "surjective"),
    ([x], domain(x=3, y=4), TRUE, "bijective"),
    ([op.floordiv(x, 4), op.floormod(x, 4)], domain(x=10), TRUE, "bijective"),
    ([x, y], domain(x=8, y=8), x * 8 + y < 50, "surjective"),
]


@pytest.mark.parametrize(("indices", "ranges", "predicate", "level"), FAILURES)
def test_what_is_no_map_says_why(indices, ranges, predicate, level) -> None:
    found = arith.detect_iter_map(indices, ranges, predicate, level)
    assert not found.indices and found.errors and len(found.errors[0]) > 10


def test_inverse_and_sums() -> None:
    ranges = domain(x=64)
    indices = [op.floordiv(x, 16), op.floormod(x, 16)]
    found = arith.detect_iter_map(indices, ranges, check_level="bijective")
    a, b = E.Var("a"), E.Var("b")
    inverse = arith.inverse_affine_iter_map(found.indices, [a, b])
    assert structural_equal(inverse[x], a * 16 + b)
    total = arith.normalize_to_iter_sum(y + x * 4 + 3, domain(x=5, y=4))
    assert [int(s.scale) for s in total.args] == [4, 1] and int(total.base) == 3
    left = arith.normalize_to_iter_sum(x * y + x, domain(x=5, y=4))
    assert [str(s) for s in left.args] == ["x"] and str(left.base) == "x * y"
    with pytest.raises(UsageError, match="check_level"):
        arith.detect_iter_map([x], domain(x=3), check_level="never")
    mark = arith.IterMark(x, 10)
    split = arith.IterSplitExpr(mark, 5, 2, 3)
    assert str(arith.normalize_iter_map_to_expr(arith.IterSumExpr([split], 1))) == "x // 5 * 3 + 1"


def test_subspaces() -> None:
    ranges = domain(x=3, y=4, z=5)
    found = arith.subspace_divide([z * 12 + y * 3 + x], ranges, [x])
    outer, inner = (arith.normalize_iter_map_to_expr(e) for e in found[0])
    assert (str(outer), str(inner)) == ("z * 4 + y", "x") and len(found) == 2
    found = arith.subspace_divide([z * 4 + y, x], ranges, [x])
    assert [str(arith.normalize_iter_map_to_expr(e)) for e in found[0]] == ["z * 4 + y", "0"]
    assert not arith.subspace_divide([x * 20 + z * 4 + y], ranges, [x])


REGIONS = [
    ([(x, 3), (x + 2, 2)], domain(x=8), TRUE, False),
    ([(x * 4, 8)], domain(x=8), TRUE, True),
    ([(x * 4, 2)], domain(x=8), TRUE, False),
    ([((x * 4 + y) * 2, 4)], domain(x=4, y=4), x * 4 + y < 13, True),
    ([(1 - x, 4), (20 - y * 4, 16)], domain(x=4, y=4), TRUE, True),
    ([(op.floordiv(x, 4), 1), (op.floormod(x, 4), 1)], domain(x=16), TRUE, True),
]


@pytest.mark.parametrize(("region", "ranges", "predicate", "exact"), REGIONS)
def test_regions(region, ranges, predicate, exact) -> None:
    boxes = [Range.from_min_extent(E.convert(e), E.const(n)) for e, n in region]
    strict = arith.estimate_region_strict_bound(boxes, ranges, predicate)
    assert (strict is not None) is exact
    upper = arith.estimate_region_upper_bound(boxes, ranges, predicate)
    touched: list[set[int]] = [set() for _ in region]
    for p in points(ranges, predicate):
        for k, (e, n) in enumerate(region):
            touched[k].update(range(at(e, p), at(e, p) + n))
    for k, box in enumerate(upper):
        whole = range(int(box.min_value), int(box.max_value) + 1)
        assert touched[k] <= set(whole)
        if exact:
            assert touched[k] == set(whole)


def test_union_from_below() -> None:
    low, high = arith.int_set.neg_inf(), arith.int_set.pos_inf()
    left, right = arith.IntervalSet(low, 0), arith.IntervalSet(1, high)
    whole = arith.int_set.union_lower_bound([left, right])
    assert whole.min_value.same_as(low) and whole.max_value.same_as(high)
    apart = arith.int_set.union_lower_bound([left, arith.IntervalSet(5, 9)])
    assert int(apart.max_value) == 0


def test_inequalities_give_ranges() -> None:
    problem = [E.LE(x + y, 20), E.GE(x - y, 10)]
    ranges = {x: Range(-100, 100), y: Range(0, 10)}
    solved = arith.solve_linear_inequalities(problem, [x, y], ranges)
    assert isinstance(solved, arith.IntConstraints)
    both = [e for p in problem for e in [p]]
    allowed = [
        p for p in points({y: Range(0, 10), x: Range(-20, 60)}) if all(at(e, p) for e in both)
    ]
    for p in allowed:
        for v in (x, y):
            r = solved.ranges[v]
            assert at(r.min, p) <= p[v] < at(r.min + r.extent, p)
        assert all(at(e, p) for e in solved.relations)
    moved = arith.solve_linear_inequalities(problem, [x, y], ranges, deskew_range=True)
    assert isinstance(moved, arith.IntConstraintsTransform)
    new = dict(moved.dst.ranges)
    again = set()
    for p in points(new):
        if all(at(e, p) for e in moved.dst.relations):
            again.add((at(moved.src_to_dst[x], p), at(moved.src_to_dst[y], p)))
    assert again == {(p[x], p[y]) for p in allowed}
    assert all(int(r.min) == 0 for r in new.values())


def test_equations_give_a_transform() -> None:
    solved = arith.solve_linear_equations(
        [E.EQ(x + y, 20)], [x, y], {x: Range(0, 21), y: Range(0, 21)}
    )
    (free,) = solved.dst.variables
    r = solved.dst.ranges[free]
    for n in range(int(r.min), int(r.min) + int(r.extent)):
        values = {v: at(solved.src_to_dst[v], {free: n}) for v in (x, y)}
        assert values[x] + values[y] == 20 and at(solved.dst_to_src[free], values) == n
    system = arith.IntConstraints([x], {}, [E.EQ(x * 2, 8)])
    assert int(arith.solve_linear_equations(system).src_to_dst[x]) == 4
    with pytest.raises(UsageError, match="hold the variables"):
        arith.solve_linear_equations(system, [x])


def test_equations_keep_inequalities_and_ranges() -> None:
    solved = arith.solve_linear_equations(
        [E.EQ(x + y, 0)], [x, y], {x: Range(-5, 5), y: Range(0, 10)}
    )
    assert [str(e) for e in solved.dst.relations] == ["-5 <= n0"]
    unique = arith.solve_linear_equations([E.EQ(x, 9)], [x], {x: Range(0, 5)})
    assert [str(e) for e in unique.dst.relations] == ["T.bool(False)"]
    kept = arith.solve_linear_equations([E.EQ(x, y), x < 3], [x], {y: Range(0, 9)})
    assert [str(e) for e in kept.dst.relations] == ["y < 3"] and list(kept.dst.ranges) == [y]
    alone = arith.solve_linear_equations([E.EQ(x, y)])
    assert structural_equal(alone.src, alone.dst)
    assert not structural_equal(alone.src, solved.dst)
    for trans in (solved, kept):
        assert_consistent(trans, {x: Range(0, 9), y: Range(0, 9)})
    wrong = arith.IntConstraintsTransform(solved.src, solved.dst, solved.src_to_dst, {})
    wrong.dst_to_src[solved.dst.variables[0]] = x + 1
    with pytest.raises(AssertionError, match="is not true"):
        assert_consistent(wrong)


def test_conditions_that_no_range_says() -> None:
    problem = [E.LE(x, 6), E.GE(x, 6), E.GE(x - z * y, 0), E.LE(x - z * y, 0)]
    solved = arith.solve_linear_inequalities(problem, [x, y, z])
    assert [str(e) for e in solved.relations] == [
        "x == z * y",
        "6 - z * y <= 0",
        "z * y - 6 <= 0",
    ]
    moved = arith.solve_linear_inequalities(problem, [x, y, z], deskew_range=True)
    assert moved.src_to_dst[y] is y and int(moved.src_to_dst[x]) == 6


def test_group_bounds() -> None:
    bounds = arith.IntGroupBounds(1, [E.const(2), x], [], [E.const(9)])
    found = bounds.find_best_range()
    assert found is not None and int(found.min) == 2 and int(found.extent) == 8
    again = arith.IntGroupBounds.from_range(Range(3, 7)).find_best_range()
    assert again is not None and (int(again.min), int(again.extent)) == (3, 4)
    assert arith.IntGroupBounds(1, [], [], [x]).find_best_range() is None


def test_update_of_sets_and_bounds() -> None:
    ana = arith.Analyzer()
    ana.update(x, arith.IntervalSet(2, 5))
    assert ana.can_prove(x < 6) and ana.can_prove(x >= 2) and ana.const_int_bound_is_bound(x)
    assert not ana.const_int_bound_is_bound(y)
    ana.update(y, arith.ConstIntBound(0, 3))
    assert ana.const_int_bound_is_bound(y) and ana.can_prove(x + y <= 8)
    with pytest.raises(TypeError, match="update takes"):
        ana.update(x, 3)


def test_systems_without_solution() -> None:
    solved = arith.solve_linear_equations([E.EQ(x + y, 20), E.EQ(x - y, 11)], [x, y])
    assert not solved.dst.variables and not solved.src_to_dst
    assert [str(e) for e in solved.dst.relations] == ["T.bool(False)"]
    none = arith.solve_linear_inequalities([E.GE(x, 10), E.LE(x, 5)], [x], {x: Range(0, 100)})
    assert isinstance(none, arith.IntConstraints) and not none.ranges
    assert [str(e) for e in none.relations] == ["T.bool(False)"]


def test_inequalities_as_conditions() -> None:
    problem = [E.LE(x + y, 20), E.GE(x - y, 10)]
    ranges = {x: Range(-100, 100), y: Range(0, 10)}
    found = arith._ffi_api.SolveInequalitiesAsCondition([x, y], ranges, problem)
    assert [str(e) for e in found] == ["x >= y + 10", "x <= 20 - y", "y >= 0", "y <= 5"]
