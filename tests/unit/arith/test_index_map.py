"""Index maps: inverses against brute force, refusals, and shapes."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.unit.arith.random_exprs import value
from tilewright.arith import IndexMap
from tilewright.arith.iter_map import detect_iter_map, inverse_affine_iter_map, inverse_index_map
from tilewright.base.errors import TilewrightError
from tilewright.loopir import expr as E
from tilewright.loopir.iter import Range


def check_inverse(m: IndexMap, shape: tuple[int, ...]) -> None:
    """The inverse undoes the map, and padding is exactly what the map does not reach."""
    inverse, padding = m.non_surjective_inverse(shape)
    extents = [int(e) for e in m.map_shape(shape)]
    reached = set()
    for p in itertools.product(*map(range, shape)):
        final = tuple(value(e, dict(zip(m.initial_indices, p))) for e in m.final_indices)
        assert all(0 <= f < e for f, e in zip(final, extents)), (p, final, extents)
        back = dict(zip(inverse.initial_indices, final))
        assert tuple(value(e, back) for e in inverse.final_indices) == p
        assert not value(padding, back)
        reached.add(final)
    for q in itertools.product(*map(range, extents)):
        assert bool(value(padding, dict(zip(inverse.initial_indices, q)))) == (q not in reached)


GOOD: list[tuple[Any, tuple[int, ...]]] = [
    (lambda i, j: [j, i], (4, 5)),
    (lambda i: [i // 4, i % 4], (16,)),
    (lambda i: [i // 4, i % 4], (14,)),
    (lambda i, j: [i * 5 + j], (4, 5)),
    (lambda i, j: [(i * 6 + j) // 4, (i * 6 + j) % 4], (4, 6)),
    (lambda i, j: [(i * 6 + j) // 5, (i * 6 + j) % 5], (4, 6)),
    (lambda i, j: [(i * 6 + j) // 4 % 3, (i * 6 + j) // 12, (i * 6 + j) % 4], (4, 6)),
    (lambda n, c, h, w: [n, c // 16, h, w, c % 16], (1, 64, 3, 2)),
    (lambda i, j: [i // 8 * 4 + j // 4, i % 8, j % 4], (32, 16)),
    (lambda i: [7 - i], (8,)),
    (lambda i, j: [j // 4 * 8 + (7 - i), j % 4], (8, 12)),
    (lambda i: [i % 4, i // 4 % 2, i // 8], (30,)),
    (lambda i, j: [i, 0, j], (1, 6)),
    (lambda i, j: [i // 4, j // 3, i % 4, j % 3], (10, 7)),
]


@pytest.mark.parametrize(("func", "shape"), GOOD)
def test_inverse_undoes_the_map(func: Any, shape: tuple[int, ...]) -> None:
    check_inverse(IndexMap.from_func(func), shape)


@pytest.mark.parametrize(
    ("func", "shape", "message"),
    [
        (lambda i: [i * 2], (8,), "whole interval"),
        (lambda i, j: [i + j], (8, 8), "overlap"),
        (lambda i, j: [i], (8, 8), "j is not used"),
        (lambda i: [i // 4 % 2, i % 4], (30,), "high digit"),
        (lambda i: [i // 4, i % 8], (32,), "used twice"),
        (lambda i: [i * i], (8,), "no sum of quotients"),
    ],
)
def test_maps_without_an_inverse_say_why(func: Any, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        IndexMap.from_func(func).inverse(shape)


def test_padding_is_refused_where_a_bijection_is_asked_for() -> None:
    m = IndexMap.from_func(lambda i: [i // 4, i % 4])
    with pytest.raises(TilewrightError, match="leaves padding"):
        m.inverse((14,))
    assert m.inverse((16,)).is_equivalent_to(IndexMap.from_func(lambda a, b: [a * 4 + b]))


def test_symbolic_extents() -> None:
    n = E.SizeVar("n")
    m = IndexMap.from_func(lambda i: [i // 4, i % 4])
    outer, inner = m.map_shape((n,))
    assert int(inner) == 4
    for size in (1, 4, 5, 31):
        assert value(outer, {n: size}) == -(-size // 4)
    inverse, padding = m.non_surjective_inverse((n,))
    a, b = inverse.initial_indices
    assert value(inverse.final_indices[0], {a: 3, b: 2}) == 14
    assert value(padding, {a: 3, b: 2, n: 14})
    assert not value(padding, {a: 3, b: 2, n: 15})


def test_variable_number_of_indices() -> None:
    m = IndexMap.from_func(lambda *i: [i[-1], *i[:-1]], ndim=3)
    assert [int(e) for e in m.map_shape((2, 3, 4))] == [4, 2, 3]
    with pytest.raises(TilewrightError, match="ndim"):
        IndexMap.from_func(lambda *i: list(i))
    with pytest.raises(TilewrightError, match="takes 3 indices"):
        m.map_indices([1, 2])


def random_bijection(rng: random.Random) -> tuple[list[E.Var], list[Any], list[int]]:
    """Iterators split and fused at random, so that the result is a bijection by construction."""
    extents = [rng.choice((2, 3, 4, 6, 8, 12)) for _ in range(rng.randint(1, 3))]
    variables = [E.Var(f"i{n}") for n in range(len(extents))]
    parts: list[tuple[Any, int]] = list(zip(variables, extents))
    for _ in range(rng.randint(1, 6)):
        k = rng.randrange(len(parts))
        e, extent = parts[k]
        if rng.random() < 0.5:
            divisors = [d for d in range(2, extent) if extent % d == 0]
            if divisors:
                d = rng.choice(divisors)
                parts[k : k + 1] = [(e // d, extent // d), (e % d, d)]
        elif k + 1 < len(parts):
            f, other = parts[k + 1]
            parts[k : k + 2] = [(e * other + f, extent * other)]
        if rng.random() < 0.4:
            rng.shuffle(parts)
    return variables, [e for e, _ in parts], extents


@pytest.mark.parametrize("block", range(4))
def test_random_splits_and_fuses_are_inverted(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        variables, final, extents = random_bijection(random.Random(seed))
        m = IndexMap(variables, final)
        check_inverse(m, tuple(extents))
        m.inverse(extents)


def test_random_maps_called_bijective_are_injective() -> None:
    accepted = 0
    for seed in range(600):
        rng = random.Random(seed)
        extents = [rng.choice((2, 3, 4, 6, 8)) for _ in range(rng.randint(1, 2))]
        variables = [E.Var(f"i{n}") for n in range(len(extents))]
        final = []
        for _ in range(rng.randint(1, 3)):
            e: Any = rng.choice(variables)
            for _ in range(rng.randint(0, 3)):
                d = rng.choice((2, 3, 4, 6, 8))
                f = rng.choice(variables)
                e = rng.choice((e // d, e % d, e * d + f, e * d, f - e, e + d))
            final.append(e)
        ranges = {v: Range(0, n) for v, n in zip(variables, extents)}
        for level in ("bijective", "injective"):
            result = detect_iter_map(final, ranges, check_level=level)
            if result.errors:
                continue
            accepted += 1
            points = list(itertools.product(*map(range, extents)))
            images = {tuple(value(e, dict(zip(variables, p))) for e in final) for p in points}
            assert len(images) == len(points), (seed, final)
    assert accepted > 20


def test_inverse_with_gaps_and_padding() -> None:
    i, j = E.Var("i"), E.Var("j")
    a, b = E.Var("a"), E.Var("b")
    ranges = {i: Range(0, 10), j: Range.from_min_extent(2, 5)}
    forward = [i // 4 * 16 + (j - 2) * 2, i % 4]
    inverse = inverse_index_map([i, j], ranges, forward, [a, b], [48, 4])
    for p in itertools.product(range(10), range(2, 7)):
        image = dict(zip((a, b), (value(e, dict(zip((i, j), p))) for e in forward)))
        assert tuple(value(e, image) for e in inverse) == p
    with pytest.raises(TilewrightError, match="high digit"):
        inverse_index_map([i], {i: Range(0, 10)}, [i % 4], [a], [4])


def test_an_inverse_holds_no_iterator_of_one_value() -> None:
    x, y, z, out = (E.Var(n) for n in ("x", "y", "z", "out"))
    index = x // 3 * 6 + z + y * 8
    ranges = {x: Range(0, 1), y: Range(0, 12), z: Range(0, 8)}
    found = detect_iter_map([index], ranges, index < 7)
    inverse = inverse_affine_iter_map(found.indices, [out])
    assert {v.name: str(e) for v, e in inverse.items()} == {"z": "out % 8", "y": "out // 8"}


def _term(rng: random.Random, iters: list[E.Var]) -> Any:
    e: Any = rng.choice(iters)
    if rng.random() < 0.3:
        e = e + rng.choice(iters) * rng.choice((2, 4, 8))
    if rng.random() < 0.5:
        e = rng.choice((E.FloorDiv, E.FloorMod))(e, E.const(rng.choice((2, 3, 4))))
    return e * rng.choice((1, 1, 2, 3, 4, 6, 8, 12, -1))


def test_random_maps_are_undone() -> None:
    """Also where iterators have one value, a condition holds, and scales leave gaps."""
    rng = random.Random(5)
    inverted = 0
    for _ in range(400):
        iters = [E.Var(c) for c in "xyz"]
        boxes = [(rng.choice((0, 0, 0, 1, -2)), rng.choice((1, 1, 2, 3, 4, 8))) for _ in iters]

        index = _term(rng, iters) + _term(rng, iters) + _term(rng, iters)
        limit = rng.randint(1, 12)
        condition = index < limit if rng.random() < 0.6 else E.const(True)
        ranges = {v: Range.from_min_extent(E.const(m), n) for v, (m, n) in zip(iters, boxes)}
        level = rng.choice(("injective", "bijective"))
        found = detect_iter_map([index], ranges, condition, level)
        if not found.indices:
            continue
        inverted += 1
        out = E.Var("out")
        inverse = inverse_affine_iter_map(found.indices, [out])
        for values in itertools.product(*(range(m, m + n) for m, n in boxes)):
            point = dict(zip(iters, values, strict=True))
            if not value(condition, point):
                continue
            at = {out: value(index, point)}
            for v, e in inverse.items():
                assert value(e, at) == point[v], f"{index} at {values}"
    assert inverted > 20


def test_a_given_inverse_is_the_inverse() -> None:
    m = IndexMap.from_func(lambda i: [i ^ 5], inverse_index_map=lambda a: [a ^ 5])
    inverse = m.inverse((8,))
    assert [value(inverse.map_indices([n])[0], {}) for n in (0, 5, 7)] == [5, 0, 2]


def test_indices_have_the_type_that_is_asked_for() -> None:
    m = IndexMap.from_func(lambda i: [i // 4, i % 4], index_dtype="int64")
    assert [e.dtype for e in (*m.initial_indices, *m.final_indices)] == ["int64"] * 3
    assert [e.dtype for e in m.inverse((16,)).final_indices] == ["int64"]


def test_axis_separators_are_told_apart_from_indices() -> None:
    m, separators = IndexMap.from_func_with_separators(
        lambda i, j: [i // 4, IndexMap.AXIS_SEPARATOR, j, i % 4]
    )
    assert separators == [1] and len(m.final_indices) == 3
    with pytest.raises(TilewrightError, match="from_func_with_separators"):
        IndexMap.from_func(lambda i: [i // 4, IndexMap.AXIS_SEPARATOR, i % 4])
