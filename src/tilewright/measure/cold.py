"""Timing a kernel as it runs in a network: after the kernel before it, and long after its last run.

Between two runs of a layer all the others run, so its weights have left the caches: each run takes
them from the next of several places. And what the layer before wrote is in the caches of the
threads that wrote it: before each run a single thread writes what is not constant. A candidate
timed again and again on the same data finds all of it in the caches of the very threads that use
it, and looks the better for it the worse the order in which it reads: on a busy machine, 1x1
convolutions of ResNet-50 chosen that way took 0.6 ms in the network instead of 0.23.
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


def network_clock(
    function: Function, sets: Sequence[Sequence[Any]], written: Sequence[int]
) -> Callable[[int], float]:
    """Number of runs -> seconds of all of them, each on the next of `sets`.

    The arguments at the places `written`, the same in all sets, are written before each run, with
    what they hold, by the calling thread; that time does not count.
    """
    arrays = [np.asarray(sets[0][n]).reshape(-1).view(np.uint8) for n in written]
    turns = cycle([function.prepare_raw(*args) for args in sets])

    def seconds(number: int) -> float:
        spent = 0.0
        for run in islice(turns, number):
            for array in arrays:
                np.bitwise_or(array, 0, out=array)
            start = time.perf_counter()
            status = run()
            spent += time.perf_counter() - start
            if status:
                raise function.failure(status)
        return spent

    seconds(_WARM)
    return seconds
