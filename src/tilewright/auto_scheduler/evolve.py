"""Evolution of candidates as array code: selection, mutation, crossover, removal of duplicates.

Zheng et al., Ansor, OSDI 2020, section 5.1. A population holds, for each sketch, a matrix of
columns (space.py); a generation is made of a few NumPy calls a sketch. Selection draws parents with
a probability that grows with their score; mutation changes one decision (granularity.py: that about
parallel loops); crossover takes each node's decisions from one of two parents (crossover.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .crossover import Crossover
from .granularity import mutate_parallel, random_divisors
from .space import REDRAWN, Choice, Matrix, Space

Scores = np.ndarray[Any, np.dtype[np.float64]]
Scorer = Callable[[int, Matrix], Scores]


@dataclass(frozen=True)
class Evolution:
    """Parameters of the evolutionary search; weights of the mutations by kind (`unroll`: of all
    pragmas)."""

    population: int = 2048
    generations: int = 4
    mutation_prob: float = 0.85
    tile: float = 0.90
    unroll: float = 0.04
    location: float = 0.05
    parallel: float = 0.01


class Pool:
    """The best different candidates seen so far: by sketch, rows with their scores."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self._rows: dict[tuple[int, bytes], tuple[float, Matrix]] = {}

    def add(self, sketch: int, rows: Matrix, scores: Scores) -> None:
        """Remember candidates; only the best of a generation can be among the best of all."""
        order = np.argsort(-scores, kind="stable")[: self.keep]
        for i in order:
            if np.isfinite(scores[i]):
                self._rows[sketch, rows[i].tobytes()] = (float(scores[i]), rows[i])

    def best(self, without: set[tuple[int, bytes]]) -> list[tuple[int, Matrix, float]]:
        """(sketch, row, score), best first, none that is in `without`."""
        items = [(-v, k, r) for k, (v, r) in self._rows.items() if k not in without]
        items.sort(key=lambda item: (item[0], item[1]))
        return [(k[0], r, -v) for v, k, r in items[: self.keep]]


def evolve(
    spaces: list[Space],
    start: list[Matrix],
    score: Scorer,
    how: Evolution,
    keep: int,
    without: set[tuple[int, bytes]],
    rng: np.random.Generator,
) -> tuple[list[tuple[int, Matrix, float]], int]:
    """The best candidates that evolution finds, and how many it scored.

    `start`: a matrix for each space. `score(sketch, rows)` gives one number a row, -inf for those
    that cannot run.
    """
    pool = Pool(keep + len(without))
    crossover = Crossover(spaces)
    population = [unique(m) for m in start]
    scored = 0
    for generation in range(how.generations + 1):
        scores = [score(k, m) if len(m) else np.zeros(0) for k, m in enumerate(population)]
        for k, (m, s) in enumerate(zip(population, scores)):
            pool.add(k, m, s)
            scored += len(m)
        if generation == how.generations:
            break
        population = _next(crossover, population, scores, how, rng)
    return pool.best(without)[:keep], scored


def unique(rows: Matrix) -> Matrix:
    """The rows without repetitions, in their order."""
    if len(rows) < 2:
        return rows
    view = np.ascontiguousarray(rows).view([("", rows.dtype)] * rows.shape[1]).ravel()
    _, first = np.unique(view, return_index=True)
    return rows[np.sort(first)]


def _next(
    crossover: Crossover,
    population: list[Matrix],
    scores: list[Scores],
    how: Evolution,
    rng: np.random.Generator,
) -> list[Matrix]:
    """A new generation: parents by score over all sketches together."""
    sizes = np.array([len(m) for m in population])
    merged = np.concatenate(scores) if scores else np.zeros(0)
    weight = selection_weights(merged)
    chosen = rng.choice(len(merged), size=how.population, p=weight)
    sketch_of = np.repeat(np.arange(len(sizes)), sizes)
    place = chosen - np.concatenate([[0], np.cumsum(sizes)])[sketch_of[chosen]]
    sketch = sketch_of[chosen]
    father = rng.permutation(how.population)
    mutates = rng.random(how.population) < how.mutation_prob
    result: list[Matrix] = []
    for k, space in enumerate(crossover.spaces):
        mine = np.flatnonzero(sketch == k)
        children = population[k][place[mine]]
        if len(mine):
            mutate = mutates[mine]
            children[mutate] = mutated(space, children[mutate], how, rng)
            others = father[mine[~mutate]]
            fathers = sketch[others], place[others]
            mothers = children[~mutate]
            children[~mutate] = crossover.children(k, mothers, fathers, population, rng)
        result.append(unique(children))
    return result


def selection_weights(scores: Scores) -> Scores:
    """Probabilities that grow with the score; candidates that cannot run get none."""
    finite = np.isfinite(scores)
    if not finite.any():
        return np.full(len(scores), 1.0 / len(scores))
    low = scores[finite].min()
    weight = np.where(finite, scores - low, 0.0)
    top = weight.max()
    weight = np.where(finite, weight + 1e-3 * (top if top > 0 else 1.0), 0.0)
    result: Scores = weight / weight.sum()
    return result


def mutated(space: Space, rows: Matrix, how: Evolution, rng: np.random.Generator) -> Matrix:
    """Rows with one decision changed each; the kind is drawn by the weights of `how`."""
    kinds: list[tuple[float, Callable[[Space, Matrix, np.random.Generator], Matrix]]] = []
    if space.groups:
        kinds.append((how.tile, mutate_tiles))
    if space.unroll or space.pragmas:
        kinds.append((how.unroll, mutate_pragma))
    if space.locations:
        kinds.append((how.location, mutate_location))
    if space.parallel:
        kinds.append((how.parallel, mutate_parallel))
    if not kinds or not len(rows):
        return rows
    weights = np.array([w for w, _ in kinds])
    draw = rng.choice(len(kinds), size=len(rows), p=weights / weights.sum())
    result = rows.copy()
    for n, (_, function) in enumerate(kinds):
        mine = draw == n
        if mine.any():
            result[mine] = function(space, rows[mine], rng)
    return result


def mutate_tiles(space: Space, rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Move a factor from one level of a random loop to another; draw its lengths anew where those
    do not fit, and now and then, since a factor alone does not lead to another rounding."""
    result = rows.copy()
    group_of = rng.integers(len(space.groups), size=len(rows))
    for n, group in enumerate(space.groups):
        mine = np.flatnonzero(group_of == n)
        if not len(mine):
            continue
        if group.options:
            options = np.array(group.options, np.int64)
            result[mine, group.start] = options[rng.integers(len(options), size=len(mine))]
            continue
        lengths = space.outer_lengths(rows[mine], group)
        moved = move_factor(lengths, rng)
        inner = moved[:, 1:]
        anew = ~group.fitting(inner, space.max_inner) | (rng.random(len(mine)) < REDRAWN)
        inner[anew] = group.draw(int(anew.sum()), space.max_inner, rng)
        result[mine, group.start : group.stop] = inner
    return result


def move_factor(lengths: Matrix, rng: np.random.Generator) -> Matrix:
    """Divide one level of each row by a divisor above 1, and multiply another level by it."""
    count, levels = lengths.shape
    if levels < 2:
        return lengths
    keys = np.where(lengths > 1, rng.random(lengths.shape), -1.0)
    source = keys.argmax(axis=1)
    able = keys.max(axis=1) >= 0
    target = (source + 1 + rng.integers(levels - 1, size=count)) % levels
    everyone = np.arange(count)
    sizes = lengths[everyone, source]
    draw = rng.random(count)
    factor = np.ones(count, np.int64)
    factor[able] = random_divisors(sizes[able], draw[able])
    result = lengths.copy()
    result[everyone, source] //= factor
    result[everyone, target] *= factor
    return result


def _other(choice: Choice, rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Another value of a column, evenly."""
    now = rows[:, choice.column]
    step = 1 + rng.integers(max(choice.count - 1, 1), size=len(rows))
    return (now + step) % choice.count


def _change_one(choices: list[Choice], rows: Matrix, rng: np.random.Generator) -> Matrix:
    result = rows.copy()
    which = rng.integers(len(choices), size=len(rows))
    for n, choice in enumerate(choices):
        mine = which == n
        result[mine, choice.column] = _other(choice, rows[mine], rng)
    return result


def mutate_pragma(space: Space, rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Another limit for unrolling, or a pragma that a rule gave taken away, or given back."""
    return _change_one([*space.unroll, *space.pragmas], rows, rng)


def mutate_location(space: Space, rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Another place for one flexible stage; others move along only where no combination of places
    that is worked out differs in one stage alone."""
    columns = [c.column for c in space.locations]
    differs = rows[:, None, columns] != space.palette[None, :, :]
    distance = differs.sum(axis=2)
    order = np.where(distance > 0, distance + rng.random(distance.shape), np.inf)
    result = rows.copy()
    result[:, columns] = space.palette[order.argmin(axis=1)]
    return result
