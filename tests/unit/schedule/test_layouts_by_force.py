"""Random layout maps against brute force: what is taken is injective, its inverse is one, and
`filled` says where an element lies."""

import itertools
import math
import random
from typing import Any

import pytest

from tilewright import tir
from tilewright.arith import Analyzer
from tilewright.loopir.expr import Var, const, const_int, convert
from tilewright.loopir.subst import substitute
from tilewright.schedule.layout_map import Layout, LayoutMap
from tilewright.schedule.state import Illegal


def value(e: Any, table: dict[Any, int]) -> int:
    found = const_int(Analyzer().simplify(substitute(e, {v: const(x) for v, x in table.items()})))
    assert found is not None
    return found


def index(rng: random.Random, variables: list[Var], sizes: list[int]) -> Any:
    v = rng.choice(variables)
    if len(variables) == 2 and rng.random() < 0.3:
        return variables[0] * sizes[1] + variables[1] + rng.randint(-3, 3)
    return v * rng.choice([1, -1, 1, -1, 2, 3, -2]) + rng.randint(-6, 6)


def draw(rng: random.Random) -> tuple[list[int], LayoutMap]:
    sizes = [rng.randint(1, 9) for _ in range(rng.choice([1, 2]))]
    variables = [Var(f"i{k}", "int32") for k in range(len(sizes))]
    items: list[Any] = [index(rng, [v], sizes) for v in variables if rng.random() < 0.6]
    if rng.random() < 0.8:
        e, c = index(rng, variables, sizes), rng.choice([2, 3, 4, 5])
        items += [
            tir.floordiv(e, c) * rng.choice([1, 1, -1, 2]),
            tir.floormod(e, c) * rng.choice([1, 1, -1]),
        ]
    if rng.random() < 0.4 and len(sizes) == 2:
        i, j = variables
        items += [i * rng.randint(-2, 2) + j * rng.randint(-2, 2) for _ in range(2)]
    rng.shuffle(items)
    return sizes, LayoutMap(variables, [convert(e) for e in items or variables])


@pytest.mark.parametrize("seed", range(4))
def test_random_maps(seed: int) -> None:
    rng, taken = random.Random(seed), 0
    for _ in range(40):
        sizes, mapping = draw(rng)
        try:
            layout = Layout(mapping, [const(s) for s in sizes])
        except Illegal:
            continue
        taken += 1
        check_layout(layout, sizes)
        for _ in range(2):  # whatever has an inverse over the whole has one over a part
            part = [rng.choice([1, rng.randint(1, n)]) for n in sizes]
            check_layout(layout.of_part([const(n) for n in part]), part)
    assert taken > 5


def check_layout(layout: Layout, sizes: list[int]) -> None:
    extents = [const_int(e) or 0 for e in layout.extents]
    places: dict[tuple[int, ...], tuple[int, ...]] = {}
    for point in itertools.product(*map(range, sizes)):
        table: dict[Any, int] = dict(zip(layout.variables, point))
        place = tuple(value(e, table) for e in layout.forward)
        assert all(0 <= p < n for p, n in zip(place, extents)) and place not in places
        places[place] = point
    if math.prod(extents) > 400:
        return
    for place in itertools.product(*map(range, extents)):
        table = dict(zip(layout.new_variables, place))
        back = tuple(value(e, table) for e in layout.inverse)
        filled = all(value(c, table) for c in layout.filled)
        assert (filled and all(b < s for b, s in zip(back, sizes))) == (place in places)
        assert places.get(place, back) == back
