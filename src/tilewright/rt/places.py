"""Places in one workspace, shared by values that never live together.

Greedy by size, largest first, each at the lowest free offset (as in Pisarchyk and Lee: Efficient
memory management for deep neural net inference, 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Steps = np.ndarray[Any, np.dtype[np.int64]]

MANY = 4096  # values that live at once, from which on gaps between them are not looked for


def places_of(
    sizes: Sequence[int], born: Sequence[int], last: Sequence[int], align: int
) -> tuple[list[int], int]:
    """The byte offset of each value, and the size of all. Values are `sizes` bytes long and live
    from step `born`, one value a step, to step `last`."""
    steps = max(born, default=-1) + 1
    dies, starts, ends = (np.full(steps, -1, np.int64) for _ in range(3))  # by the step of birth
    dies[list(born)] = last
    classes = _by_lifetime({b: e - b for b, e in zip(born, last)})
    offsets = [0] * len(sizes)
    for k in sorted(range(len(sizes)), key=lambda k: (-sizes[k], born[k])):
        size = -(-max(sizes[k], 1) // align) * align
        first = born[k]
        near = np.concatenate([
            births[np.searchsorted(births, first - longest) : np.searchsorted(births, last[k] + 1)]
            for longest, births in classes.items()
        ])  # fmt: skip
        beside = near[(ends[near] > 0) & (dies[near] >= born[k])]
        offsets[k] = starts[born[k]] = _lowest(starts[beside], ends[beside], size)
        ends[born[k]] = starts[born[k]] + size
    return [int(at) for at in offsets], int(ends.max(initial=0))


def _by_lifetime(lifetimes: dict[int, int]) -> dict[int, Steps]:
    """Steps of birth, sorted, of values that live at most 1, 2, 4, 8, ... steps: who lives at a
    step is then found by looking at not many more."""
    classes: dict[int, list[int]] = {}
    for step, lifetime in sorted(lifetimes.items()):
        classes.setdefault(1 << lifetime.bit_length(), []).append(step)
    return {longest: np.array(found) for longest, found in classes.items()}


def _lowest(starts: Steps, ends: Steps, size: int) -> int:
    """The lowest place of `size` bytes between others; above all of them where they are many."""
    if len(starts) > MANY:
        return int(ends.max())
    order = np.argsort(starts)
    free_from = np.concatenate(([0], np.maximum.accumulate(ends[order])))
    gaps = np.flatnonzero(starts[order] - free_from[:-1] >= size)
    return int(free_from[gaps[0] if len(gaps) else -1])
