"""Searches that learn nothing: in order, and at random."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .space import ConfigEntity
from .task import Task
from .tuner import Tuner


class IndexTuner(Tuner):
    """Goes through numbers of configurations. `range_idx`: (first, last) to stay between. Raises
    TilewrightError where task is not one that autotvm.task.create made."""

    def __init__(
        self, task: Task, range_idx: tuple[int, int] | None = None, seed: int | None = None
    ) -> None:
        super().__init__(task, seed)
        first, last = range_idx or (0, self.space.range_length - 1)
        self.range_idx = (max(0, int(first)), min(int(last), self.space.range_length - 1))
        self._left: Iterator[int] = self._order()
        self._next: int | None = None

    @property
    def index_offset(self) -> int:
        """The first number of the range."""
        return self.range_idx[0]

    @property
    def range_length(self) -> int:
        """How many configurations of the range the filters keep."""
        return self.space.subrange_length(self.range_idx[0], self.range_idx[1] + 1)

    @property
    def visited_max(self) -> int:
        """How many can be proposed."""
        return self.range_length

    @property
    def counter(self) -> int:
        """How many have been proposed."""
        return len(self.visited)

    def _order(self) -> Iterator[int]:
        raise NotImplementedError

    def reset(self) -> None:
        super().reset()
        self._left, self._next = self._order(), None

    def _peek(self) -> int | None:
        while self._next is None or self._next in self.visited:
            found = next(self._left, None)
            if found is None:
                self._next = None
                return None
            if found not in self.visited and self.space.is_index_valid(found):
                self._next = found
        return self._next

    def has_next(self) -> bool:
        return self._peek() is not None

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        batch: list[ConfigEntity] = []
        while len(batch) < batch_size and (index := self._peek()) is not None:
            self._next = None
            batch.append(self.space.get(index))
        return batch


class GridSearchTuner(IndexTuner):
    """All configurations, in the order of their numbers. Raises TilewrightError where task is not
    one that autotvm.task.create made."""

    def _order(self) -> Iterator[int]:
        return iter(range(self.range_idx[0], self.range_idx[1] + 1))


class RandomTuner(IndexTuner):
    """All configurations, each once, in random order. Raises TilewrightError where task is not one
    that autotvm.task.create made."""

    def _order(self) -> Iterator[int]:
        first, last = self.range_idx
        return shuffled(first, last - first + 1, self.rng)


def shuffled(first: int, count: int, rng: Any) -> Iterator[int]:
    """The numbers of a range in random order; for a large range without a table of it."""
    if count <= 1 << 20:
        order = np.arange(first, first + count)
        rng.shuffle(order)
        yield from map(int, order)
        return
    seen: set[int] = set()
    while len(seen) < count:
        index = first + random_below(count, rng)
        if index not in seen:
            seen.add(index)
            yield index


def random_below(count: int, rng: Any) -> int:
    """A number from 0 to count - 1, also where it needs more than 63 bits."""
    size = (count.bit_length() + 7) // 8 + 8
    return int.from_bytes(rng.bytes(size), "little") % count
