"""Mutation of parallel loops: how much work one step of them is.

Zheng et al., Ansor, OSDI 2020, section 5.1: a parallel loop is fused with its neighbour, or split
by a factor; here each of the two also the other way. The number of fused loops is a column. A
split by a factor leaves the outer part parallel and puts the inner part into the next loop of the
same axis further in, which the tiling has there for it: data loops of one nest may change places.
So it moves a factor between two levels of a split (space.py), and needs no loop of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .levels import Level, edges
from .space import Choice, Matrix, Space, divisors


def mutate_parallel(space: Space, rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Coarser or finer steps: a loop more or less in the parallel loop, or a factor of it."""
    result = rows.copy()
    which = rng.integers(len(space.parallel), size=len(rows))
    for n, choice in enumerate(space.parallel):
        mine = np.flatnonzero(which == n)
        if len(mine) and choice.count > 1:  # there are loops
            now, extents = space.parallel_loops_of(choice, rows[mine])
            result[mine] = _mutated(space, choice, rows[mine], now, extents, rng)
    return result


def _mutated(
    space: Space,
    choice: Choice,
    rows: Matrix,
    now: Matrix,
    extents: Matrix,
    rng: np.random.Generator,
) -> Matrix:
    """Rows with one stage's parallel loop changed. `now`: loops of it; `extents`: of all that may
    be."""
    result = rows.copy()
    more, fewer = fused(now, extents)
    draw = rng.random(len(rows))
    column = choice.column
    split = draw < 0.5
    for p in np.unique(now[split]):
        here = np.flatnonzero(split & (now == p))
        moved = _split(space, rows[here], edges(space.levels[choice.node][:p]), rng)
        # the rule might make up for it by another number of loops
        able = (moved != rows[here]).any(axis=1)
        moved[able, column] = p
        result[here] = moved
        split[here] = able
    upwards = (draw < 0.75) & (more != now)
    other = np.where(upwards | (fewer == now), more, fewer)
    result[~split, column] = other[~split]
    return result


def fused(now: Matrix, extents: Matrix) -> tuple[Matrix, Matrix]:
    """The next numbers of fused loops, upwards and downwards, that change the number of steps;
    `now` where there is none. Loops of one step go with their neighbours."""
    places = np.arange(1, extents.shape[1] + 1)
    counts = extents > 1
    ahead = counts & (places > now[:, None])
    behind = counts & (places <= now[:, None])
    more = np.where(ahead.any(axis=1), ahead.argmax(axis=1) + 1, now)
    last = extents.shape[1] - 1 - behind[:, ::-1].argmax(axis=1)
    fewer = np.where(np.count_nonzero(behind, axis=1) > 1, last, 0)
    return more, np.minimum(fewer, now)


def _split(space: Space, rows: Matrix, places: Sequence[Level], rng: np.random.Generator) -> Matrix:
    """Rows in which a factor went from the parallel part of one axis to the loop inside it, or
    back; as they were where no factor can."""
    result = rows.copy()
    options: list[tuple[int, int, int]] = []
    sizes: list[Matrix] = []
    for number, level in places:
        g = space.groups[number]
        lengths = space.outer_lengths(rows, g)
        if level + 1 < lengths.shape[1] and not g.options:
            options += [(number, level, level + 1), (number, level + 1, level)]
            sizes += [lengths[:, level], lengths[:, level + 1]]
    if not options:
        return result
    able = np.stack(sizes, axis=1) > 1
    keys = np.where(able, rng.random(able.shape), -1.0)
    chosen = np.where(able.any(axis=1), keys.argmax(axis=1), -1)
    draw = rng.random(len(rows))
    for n, (number, source, target) in enumerate(options):
        mine = np.flatnonzero(chosen == n)
        if len(mine):
            factor = random_divisors(sizes[n][mine], draw[mine])
            result[mine] = moved(space, rows[mine], number, source, target, factor)
    return result


def moved(
    space: Space, rows: Matrix, number: int, source: int, target: int, factor: Matrix
) -> Matrix:
    """Rows with a factor moved between two levels of a group, where the lengths then fit."""
    g = space.groups[number]
    result = rows.copy()
    if source > 0:  # the outermost is what the others leave
        result[:, g.start + source - 1] //= factor
    if target > 0:
        result[:, g.start + target - 1] *= factor
    fits = g.fitting(result[:, g.start : g.stop], space.max_inner)
    return np.where(fits[:, None], result, rows)


def random_divisors(sizes: Matrix, draw: Any) -> Matrix:
    """For each size above 1 a divisor above 1, by a number from 0 to 1."""
    result = np.ones(len(sizes), np.int64)
    for size in np.unique(sizes):
        choices = np.array(divisors(int(size))[1:])
        same = sizes == size
        result[same] = choices[(draw[same] * len(choices)).astype(np.int64)]
    return result
