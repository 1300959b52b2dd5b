"""Which steps are the fastest, of each of many workloads, where some were measured more than once.

What was measured once and is the least of many was lucky, as a rule: neighbours on the machine
were quiet at that moment. So searches measure their leaders again, in turns. Steps that were
measured again count with the median of these measurements: the first one, by which they were
chosen, says too little. Others count with what they took times the most luck that those had, the
ratio of the two.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
KEPT = 64  # of the steps of a key: the others are too slow to become the fastest


class Fastest(Generic[K, V]):
    """Measurements (seconds and any value) of steps, by key."""

    def __init__(self) -> None:
        self._known: dict[K, dict[Any, list[tuple[float, V]]]] = {}

    def add(self, key: K, steps: Any, seconds: float, value: V) -> None:
        """A measurement of `steps` (hashable)."""
        known = self._known.setdefault(key, {})
        known.setdefault(steps, []).append((seconds, value))
        if len(known) > 2 * KEPT:
            order = sorted(known, key=lambda s: _middle(known[s])[0])
            self._known[key] = {s: known[s] for s in order[:KEPT]}

    def leaders(self, key: K) -> list[tuple[float, V]]:
        """The middle measurement of each of a key's steps, the fastest first; those measured first
        where equal."""
        known = list(self._known.get(key, {}).values())
        luck = max([1.0, *(_middle(m)[0] / m[0][0] for m in known if len(m) > 1 and m[0][0] > 0)])
        order = sorted(known, key=lambda m: _middle(m)[0] * (luck if len(m) == 1 else 1.0))
        return [_middle(m) for m in order]

    def best(self, key: K) -> tuple[float, V] | None:
        """The middle measurement of the fastest steps of a key; None where nothing is known."""
        return next(iter(self.leaders(key)), None)

    def __iter__(self) -> Iterator[K]:
        """The keys, in the order in which they came."""
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _seconds(measured: tuple[float, V]) -> float:
    return measured[0]


def _middle(measured: list[tuple[float, V]]) -> tuple[float, V]:
    """The median of all but the first, if there are more; of an even number the lower one."""
    again = sorted(measured[1:] or measured, key=_seconds)
    return again[(len(again) - 1) // 2]
