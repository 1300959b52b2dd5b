"""Timing with constants that come from memory, as those of a layer do in a network.

Between two runs of a layer all the others run, so its weights have left the caches, while what the
layer before wrote is still there. A candidate timed again and again on the same weights finds them
in the caches, and looks better than it is the more it reads them in an order that memory is bad at.
So each run takes the weights from the next of several places.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np

from ..rt.array import NDArray, empty
from ..rt.function import Function

POOL_BYTES = 64 << 20
"""Memory for the copies: twice the last-level cache that a few cores share, or more."""

_MOST = 128  # copies; of small constants more would take longer to prepare than to run
_ALIGN = 64
_WARM = 2  # runs that are not timed: what filled the memory took the caches


class ColdConstants:
    """A memory with copies of the constants among a candidate's arguments.

    Candidates with constants of the same sizes and types share the copies, whatever their layout:
    filling the memory takes longer than timing, and empties the caches.
    """

    __slots__ = ("_filled", "_pool")

    def __init__(self) -> None:
        self._pool: NDArray | None = None
        self._filled: list[tuple[int, str]] = []

    def copies(self, args: Sequence[Any], places: Sequence[int]) -> list[list[Any]]:
        """The arguments several times, each time with copies of those at `places`."""
        arrays = [args[p] for p in places]
        sizes = [-(-a.nbytes // _ALIGN) * _ALIGN for a in arrays]
        count = min(_MOST, POOL_BYTES // max(sum(sizes), 1))
        if count < 2:
            return [list(args)]
        if self._pool is None:
            self._pool = empty((POOL_BYTES,), "uint8")
        kinds = [(a.nbytes, a.dtype) for a in arrays]
        known, self._filled = kinds == self._filled, kinds
        found, at = [], 0
        for _ in range(count):
            own = list(args)
            for place, old, size in zip(places, arrays, sizes):
                view = self._pool[at : at + old.nbytes]._create_view(old.shape, old.dtype)
                if not known:
                    np.asarray(view)[...] = np.asarray(old)
                own[place], at = view, at + size
            found.append(own)
        return found


def cold_clock(function: Function, sets: Sequence[Sequence[Any]]) -> Callable[[int], float]:
    """Number of runs -> seconds of all of them, each on the next of `sets`."""
    turns = cycle([function.prepare_raw(*args) for args in sets])
    for run in islice(turns, _WARM):
        run()

    def seconds(number: int) -> float:
        runs = list(islice(turns, number))
        start = time.perf_counter()
        for run in runs:
            run()
        return time.perf_counter() - start

    return seconds
