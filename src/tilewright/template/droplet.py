"""A search that goes downhill from one configuration to its neighbours (DropletTuner)."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Sequence

from ..base.errors import TilewrightError
from .record import MeasureInput, MeasureResult
from .space import ConfigEntity
from .task import Task
from .tuner import Tuner


class DropletTuner(Tuner):
    """Coordinate descent over the places of knobs' choices: measures the neighbours of the best
    configuration, moves to one that is surely better, and looks further away where none is
    (Canesche et al., Explore as a Storm, Exploit as a Raindrop, 2024).

    `start_position`: places of choices to begin with, one a knob; the first of each where None.
    `pvalue`: how unlikely a difference of two measurements has to be by chance to count.
    `best_choice`: number, places and costs of the best so far; `next`: numbers and places of what
    is measured next. Raises TilewrightError where start_position has not a place for each knob,
    where task is not one that autotvm.task.create made.
    """

    def __init__(
        self, task: Task, start_position: Sequence[int] | None = None, pvalue: float = 0.05
    ) -> None:
        super().__init__(task)
        self.dims = self.space.dims or [1]
        start = list(start_position) if start_position is not None else [0] * len(self.dims)
        if len(start) != len(self.dims) or not all(0 <= s < n for s, n in zip(start, self.dims)):
            raise TilewrightError(
                f"DropletTuner: start_position has a place for each knob, below {self.dims}, got "
                f"{start}"
            )
        self.pvalue = float(pvalue)
        self.start_position = start
        self.step, self.iter = 1, 0
        self.total_execution = max(self.dims)
        self._start()

    def _start(self) -> None:
        self.execution = 1
        self.batch = max(16, os.cpu_count() or 1)
        first = self.space.knob2point(self.start_position)
        self.best_choice: tuple[int, list[int], Sequence[float]] = (-1, self.start_position, [])
        self.visited = {first} if self.space.is_index_valid(first) else set()
        self.next = [(i, self.space.point2knob(i)) for i in self.visited]
        if not self.next:
            self.speculation()

    def reset(self) -> None:
        super().reset()
        self._start()

    def has_next(self) -> bool:
        return bool(self.next)

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        self.batch = batch_size
        return [self.space.get(index) for index, _ in self.next[:batch_size]]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        self.iter += 1
        moved = False
        for inp, result in zip(inputs, results):
            index = inp.config.index
            self.visited.add(index)
            costs = [] if result.error_no else [float(c) for c in result.costs]
            if costs and self._better(costs):
                self.best_choice = (index, self.space.point2knob(index), costs)
                moved = True
        done = {inp.config.index for inp in inputs}
        self.next = [(i, place) for i, place in self.next if i not in done]
        if moved:
            self.execution = 1
            self.next = self.next_pos(self.search_space())
        self.speculation()

    def speculation(self) -> None:
        """Fill the next batch with what lies further away from the best."""
        while len(self.next) < self.batch and self.execution < self.total_execution:
            self.execution += self.step
            self.next += self.next_pos(self.search_space(self.execution))

    def num_to_bin(self, value: int, factor: int = 1) -> list[int]:
        """A step for each knob: `factor` where its bit of `value` is set, the last knob's the
        lowest, else 0."""
        count = len(self.dims)
        return [factor * (value >> (count - 1 - k) & 1) for k in range(count)]

    def search_space(self, factor: int = 1) -> list[list[int]]:
        """The steps to all neighbours that are `factor` away: some knobs move, all in one
        direction."""
        values = range(2 ** len(self.dims) - 1, 0, -1)
        return [self.num_to_bin(v, sign * factor) for v in values for sign in (1, -1)]

    def next_pos(self, new_positions: Sequence[Sequence[int]]) -> list[tuple[int, list[int]]]:
        """Numbers and places of the configurations that are these steps away from the best and are
        new, about as many as a batch takes."""
        found: list[tuple[int, list[int]]] = []
        for steps in new_positions:
            if len(found) > self.batch:
                break
            moved = zip(self.best_choice[1], steps, self.dims)
            place = [max(0, at + step) % size for at, step, size in moved]
            index = self.space.knob2point(place)
            if index not in self.visited and self.space.is_index_valid(index):
                self.visited.add(index)
                found.append((index, place))
        return found

    def _better(self, costs: Sequence[float]) -> bool:
        known = self.best_choice[2]
        if not known:
            return True
        return statistics.fmean(costs) < statistics.fmean(known) and self.p_value(known, costs)

    def p_value(self, elem_1: Sequence[float], elem_2: Sequence[float]) -> bool:
        """Whether two sets of costs differ by more than chance: Student's t-test, two-sided, at
        `pvalue`; of single costs, always."""
        n, m = len(elem_1), len(elem_2)
        if n <= 1 or m <= 1:
            return True
        spread = (n - 1) * statistics.variance(elem_1) + (m - 1) * statistics.variance(elem_2)
        error = math.sqrt(spread / (n + m - 2) * (1 / n + 1 / m))
        difference = abs(statistics.fmean(elem_1) - statistics.fmean(elem_2))
        if error == 0.0:
            return difference > 0
        return _tail(difference / error, n + m - 2) <= self.pvalue


def _tail(t: float, degrees: int) -> float:
    """The probability that |T| is at least t, T of Student's distribution: Abramowitz and Stegun,
    Handbook of Mathematical Functions, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    total, term = 0.0, cosine if odd else 1.0
    for k in range(2 if odd else 1, degrees, 2):
        total += term
        term *= cosine * cosine * k / (k + 1)
    inside = (2 / math.pi) * (angle + sine * total) if odd else sine * total
    return max(0.0, 1.0 - inside)


__all__ = ["DropletTuner"]
