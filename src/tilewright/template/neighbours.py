"""Which choices of a knob are close to each other: what local search steps to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .annotate import AnnotateSpace
from .reorder import ReorderSpace
from .split import SplitSpace

Places = np.ndarray[Any, np.dtype[np.int64]]
_MANY = 20_000


def neighbour_table(knob: Any) -> Places:
    """For each choice the places of those next to it, shape (choices, most neighbours); shorter
    lists are filled up by repeating them.

    Splits: a prime factor moves from one loop to another, or between a loop and the outermost.
    Orders: two axes change places. Annotations: one differs. Values: the next and the one before.
    """
    count = len(knob)
    find = _FINDERS.get(type(knob))
    if find is None or count > _MANY:
        lists = [[i for i in (k - 1, k + 1) if 0 <= i < count] for k in range(count)]
    else:
        lists = find(knob)
    width = max(map(len, lists), default=0)
    rows = np.zeros((count, max(1, width)), dtype=np.int64)
    for k, near in enumerate(lists):
        rows[k] = np.resize(near or [k], rows.shape[1])
    return rows


def _find_splits(knob: SplitSpace) -> list[list[int]]:
    places = {tuple(e.size[1:]): k for k, e in enumerate(knob.entities)}
    primes = sorted({2, *_primes(knob.product)})
    return [_known(places, _split_moves(inner, primes)) for inner in places]


def _split_moves(inner: tuple[int, ...], primes: Iterable[int]) -> Iterable[tuple[int, ...]]:
    levels = range(len(inner))
    for prime in primes:
        yield from (_scaled(inner, i, prime, 1) for i in levels)
        for i in levels:
            if inner[i] % prime == 0:
                less = _scaled(inner, i, 1, prime)
                yield less
                yield from (_scaled(less, j, prime, 1) for j in levels if j != i)


def _scaled(inner: tuple[int, ...], place: int, times: int, by: int) -> tuple[int, ...]:
    return (*inner[:place], inner[place] * times // by, *inner[place + 1 :])


def _known(places: dict[tuple[Any, ...], int], moves: Iterable[tuple[Any, ...]]) -> list[int]:
    found = dict.fromkeys(places[m] for m in moves if m in places)
    return list(found)


def _find_orders(knob: ReorderSpace) -> list[list[int]]:
    places = {tuple(e.perm): k for k, e in enumerate(knob.entities)}

    def swaps(order: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
        for i in range(len(order)):
            for j in range(i + 1, len(order)):
                moved = list(order)
                moved[i], moved[j] = moved[j], moved[i]
                yield tuple(moved)

    return [_known(places, swaps(order)) for order in places]


def _find_annotations(knob: AnnotateSpace) -> list[list[int]]:
    places = {tuple(e.anns): k for k, e in enumerate(knob.entities)}
    words = {a for anns in places for a in anns}

    def changes(anns: tuple[Any, ...]) -> Iterable[tuple[Any, ...]]:
        for i, own in enumerate(anns):
            yield from ((*anns[:i], w, *anns[i + 1 :]) for w in words if w != own)

    return [sorted(_known(places, changes(anns))) for anns in places]


def _primes(n: int) -> Iterable[int]:
    for p in range(2, math.isqrt(n) + 1):
        if n % p == 0:
            yield p
            while n % p == 0:
                n //= p
    if n > 1:
        yield n


_FINDERS: dict[type, Callable[[Any], list[list[int]]]] = {
    SplitSpace: _find_splits,
    ReorderSpace: _find_orders,
    AnnotateSpace: _find_annotations,
}
