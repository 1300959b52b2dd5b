"""How fast the devices of a search are just now, told by one kernel that is timed with each
candidate.

A board that grows hot, or that another program uses, times everything slower. The reference kernel
says by how much: costs are given as on the device at its best, and of a device that is like the
median of its key, so that candidates timed on different boards compare. A device that is too far
off for that is set aside, and named.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence

DRIFT = 1.25
"""How many times slower than at its best, or than the median of its key, a device may be."""

_STRIKES = 3  # candidates in a row
_STRETCH = 5  # references whose median counts: heat comes slowly, what passes is no drift
_ALIKE = 5  # references after which a device's best is trusted in comparisons


class Clocks:
    """The reference's seconds, by device."""

    def __init__(self) -> None:
        self.aside: dict[str, str] = {}
        self._last: dict[str, deque[float]] = {}
        self._best: dict[str, float] = {}
        self._count: dict[str, int] = {}
        self._strikes: dict[str, int] = {}

    def judge(self, device: str, seconds: float | None) -> float:
        """The factor by which costs just measured on a device are to be multiplied. A device that
        has drifted, or is unlike the others, is in `aside` from now on, with the reason."""
        if seconds is None or seconds <= 0:
            return 1.0
        last = self._last.setdefault(device, deque(maxlen=_STRETCH))
        last.append(seconds)
        lately = statistics.median(last)
        best = self._best[device] = min(lately, self._best.get(device, lately))
        self._count[device] = self._count.get(device, 0) + 1
        middle = self._middle(device)
        now, usual = lately / best, best / middle
        slow = max(now, usual)
        self._strikes[device] = self._strikes.get(device, 0) + 1 if slow > DRIFT else 0
        if self._strikes[device] >= _STRIKES and device not in self.aside:
            than = "at its best" if now > usual else "the median of its kind"
            self.aside[device] = f"{slow:.2f} times slower than {than}"
        return middle / lately

    def _middle(self, device: str) -> float:
        """The reference's seconds on a usual device: the median of those known well enough, and at
        least three, since of two nobody knows which is unusual; else of the device itself."""
        known = self._known()
        own = self._best[device]
        return statistics.median(known) if len(known) >= 3 else own

    def _known(self) -> Sequence[float]:
        return [b for d, b in self._best.items() if self._count[d] >= _ALIKE]
