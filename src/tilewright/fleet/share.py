"""Whose candidate a device runs next, where several searches want it: start-time fair queueing.

Each candidate has a turn on the device that it is sent to, a number; the device runs the one with
the least. A search's turns on a device lie 1/priority apart, so that of two searches one with twice
the priority has twice as many in any stretch of turns. What keeps a search that has just come, or
was idle, from being owed all the turns that it missed: a device answers with the latest turn that
ran on it, and no search gives out earlier ones. Nobody else needs to know of it; a new search is
ahead by the few candidates that it sends to a device before it hears its first answer.

Source: Goyal, Vin and Cheng, "Start-time Fair Queuing", SIGCOMM 1996.
"""

from __future__ import annotations


class Share:
    """The turns of one search on one device."""

    __slots__ = ("_now", "_own", "step")

    def __init__(self, priority: float) -> None:
        self.step = 1.0 / priority
        self._own = self._now = 0.0

    def next(self, count: int = 1) -> float:
        """The turn of the next candidate, or of the first of so many that go together."""
        turn = max(self._own, self._now)
        self._own = turn + count * self.step
        return turn

    def hear(self, turn: float) -> None:
        """The device says that this turn has run on it."""
        self._now = max(self._now, turn)


class Turns:
    """Whose turn it is on a device: the latest that ran there, of any search."""

    __slots__ = ("_idle", "last")

    def __init__(self) -> None:
        self.last = 0.0
        self._idle = False

    def begin(self, turn: float) -> bool:
        """A task of this turn begins; whether it is late: others with later turns ran before it, or
        there was nothing to do before it came."""
        late = self._idle or turn < self.last
        self.last = max(self.last, turn)
        return late

    def end(self, waiting: int) -> None:
        """The task is done, and so many wait."""
        self._idle = not waiting
