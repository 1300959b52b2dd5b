"""Index maps with symbols, padding, overlap and conditions, against all points of small domains."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.unit.arith.test_iter_affine_map import at, domain, points, x, y, z
from tilewright import arith
from tilewright.ir import structural_equal
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir.iter import Range
from tilewright.loopir.subst import substitute

n, m = E.SizeVar("n"), E.SizeVar("m")


def spans(indices: list[Any], ranges: dict[E.Var, Range], predicate: Any = True) -> list[Any]:
    found = arith.detect_iter_map(indices, ranges, predicate)
    assert len(found.indices) == len(indices), found.errors
    return [
        (str(s.args[0].extent), str(s.base), str(s.args[0].scale)) if s.args else str(s.base)
        for s in found.indices
    ]


def test_extents_may_be_symbols() -> None:
    ranges = {x: Range(0, n), y: Range(0, 4)}
    assert spans([(y + 1) * n + x], ranges) == [("n * 4", "n", "1")]
    assert spans([x * 2 * m + y * 2], {x: Range(0, 3), y: Range(0, m)}) == [("m * 3", "0", "2")]
    halves = {x: Range(0, n * m)}
    assert spans([x // m, x % m], halves) == [("n", "0", "1"), ("m", "0", "1")]
    assert not arith.detect_iter_map([x // n], {x: Range(0, m)}, check_level="bijective").indices


def test_conditions_on_sums_inside_sums() -> None:
    ranges, inner = domain(x=11, y=5, z=2), y * 2 + z
    low = op.all(inner >= 1, inner < 9)
    assert spans([x * 8 + inner], ranges, low) == [("88", "1", "1")]
    both = op.all(low, x * 8 + inner >= 3, x * 8 + inner < 25)
    assert spans([x * 8 + inner], ranges, both) == [("22", "3", "1")]
    values = {at(x * 8 + inner, p) for p in points(ranges, both)}
    assert values == set(range(3, 25))
    crossed = op.all(inner >= 2, x * 4 + y >= 0)
    assert not arith.detect_iter_map([x * 8 + inner], ranges, crossed).indices


def test_what_is_added_so_that_divisors_divide() -> None:
    ranges = domain(y=176)
    found = arith.detect_iter_map([(y + 80) // 32], ranges)
    assert [int(e) for e in (found.indices[0].args[0].extent, found.indices[0].base)] == [6, 2]
    bounds = arith.Analyzer()
    bounds.bind(y, ranges[y])
    assert not bounds.can_prove(found.padding_predicate)
    assert not arith.detect_iter_map([(y + 80) // 32, (y + 80) % 32], ranges).indices
    assert not arith.detect_iter_map([x % 16], domain(x=3)).indices
    assert not arith.detect_iter_map([x // 4, x % 4], domain(x=10), check_level="bijective").indices


def test_parts_that_overlap() -> None:
    assert spans([x * 7 + y], domain(x=3, y=8)) == [("22", "0", "1")]
    for e in (x * -7 + y, x * 7 - y, x * 5 + y * 2):
        assert not arith.detect_iter_map([e], domain(x=3, y=8)).indices


def test_surjective_maps_take_all_values() -> None:
    """Whatever is found: an index takes just the values that its iterator says."""
    made = 0
    for seed in range(250):
        rng = random.Random(seed)
        extents = {x: rng.randint(1, 6), y: rng.randint(1, 6), z: rng.randint(1, 4)}
        ranges = {v: Range(0, k) for v, k in extents.items()}
        e: Any = x * rng.choice((1, extents[y], extents[y] * extents[z])) + y * rng.choice((1, 2))
        if rng.random() < 0.5:
            e = e * rng.choice((1, extents[z])) + z
        if rng.random() < 0.7:
            e = rng.choice((E.FloorDiv, E.FloorMod))(
                e + rng.randint(0, 3), E.const(rng.randint(2, 5))
            )
        predicate: Any = E.const(True)
        if rng.random() < 0.3:
            predicate = x * extents[y] + y < rng.randint(1, 20)
        found = arith.detect_iter_map([e], ranges, predicate)
        if not found.indices or not points(ranges, predicate):
            continue
        (s,) = found.indices
        values = {at(e, p) for p in points(ranges, predicate)}
        base = int(arith.Analyzer().simplify(s.base))
        split = s.args[0] if s.args else None
        steps, scale = (1, 1) if split is None else (int(split.extent), int(split.scale))
        assert values == {base + k * scale for k in range(steps)}, (seed, e, predicate, ranges)
        plain = arith.normalize_iter_map_to_expr(s)
        assert all(at(plain, p) == at(e, p) for p in points(ranges, predicate))
        made += 1
    assert made > 80


def test_simplified_maps() -> None:
    i, k = E.Var("i", "int64"), E.SizeVar("k", "int64")
    flat = (i // (k * k) * k + i % (k * k) // k) * k + i % k
    assert arith.iter_map_simplify([flat], {i: Range(E.const(0, "int64"), k * k * 32)})[0] is i
    odd = x * y
    assert arith.iter_map_simplify([odd], domain(x=3, y=3))[0] is odd
    guarded = arith.iter_map_simplify([x // 4 * 4 + x % 4], domain(x=16, y=4), x * y < 9)
    assert guarded[0] is x


def test_sums_by_scale() -> None:
    s = arith.normalize_to_iter_sum(z + (y + x * 4 + 2) * n + 3, domain(x=9, y=4, z=3))
    assert [str(p.scale) for p in s.args] == ["n * 4", "n", "1"]
    assert arith.Analyzer().can_prove_equal(s.base, n * 2 + 3)
    s = arith.normalize_to_iter_sum(op.max(z, m) + x // 5, domain(x=17, z=3))
    assert str(s.base) == "T.max(z, m)" and int(s.args[0].extent) == 4


@pytest.mark.parametrize("inner", [[x], [x, y], [y]])
def test_divided_spaces_with_conditions(inner: list[E.Var]) -> None:
    ranges = domain(x=3, y=4, z=5)
    index, cond = z * 12 + y * 3 + x, z * 4 + y < 18
    found = arith.subspace_divide([index], ranges, inner, cond if inner == [x] else True)
    if inner == [y]:
        assert found == []
        return
    outer, low = found[0]
    total = arith.normalize_iter_map_to_expr(outer.source) * low.extent
    total = total + arith.normalize_iter_map_to_expr(low.source)
    assert all(at(total, p) == at(index, p) for p in points(ranges))
    assert structural_equal(found[1][0].extent, cond if inner == [x] else E.const(True))
    assert structural_equal(substitute(found[1][1].extent, {}), E.const(True))
