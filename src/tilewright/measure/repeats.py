"""How often a candidate is run: seldom where it is clearly slow, more where it may be the best.

A repetition is as many runs as take a fortieth of the time that a leader is given. Repetitions are
added until it is clear on which side of the best the candidate is, or that time is spent. The
faster half of the repetitions counts: other programs only add time, and on few cores they often
do. (Measured beside a program that keeps one of two cores busy, the median run of a kernel
of 0.12 ms in two threads took 1.2 ms. On a quiet machine the median of the faster half is within
0.6 to 0.9 % after 5 ms of runs in 5 repetitions, and no closer than 0.5 to 0.7 % after 100 ms,
whether a run takes 0.016 or 1.1 ms; the mean of all runs is off by 8 % where one in a hundred is
disturbed.)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

from .result import Measurement, spread

REPETITIONS = 40
"""Of a candidate that may be the best; each takes this part of the time it is given."""

_FEWEST = 3  # also of a candidate one run of which takes all the time
_LEADING = 8  # repetitions after which one clearly ahead of the best, or the first, is believed
_ENOUGH = 16  # repetitions after which more say nothing new, unless they differ
_QUIET = 0.02  # the spread of repetitions that do not
# after so many repetitions, a candidate slower than this multiple of the best is given up
_STEPS = {2: 1.5, 4: 1.15, 8: 1.04}
# A candidate that is slower by no more than this is run again after a pause (seconds), so many
# times: what another process leaves behind, and threads that share a core at first, double a time
# for some milliseconds, and would cost a search its best candidate.
_DOUBTFUL = 2.5
_DOUBTS = 2
_PAUSE = 2e-3


class Best(NamedTuple):
    """The best so far: seconds of a run, and the noise of its measurement."""

    cost: float
    noise: float = 0.0

    @classmethod
    def of(cls, known: Measurement | float | None) -> Best | None:
        """What is known before the first candidate."""
        if isinstance(known, Measurement):
            return cls(known.cost, known.noise)
        return None if known is None else cls(known)

    @classmethod
    def after(cls, before: Best | None, found: Measurement) -> Best | None:
        """The best so far once a candidate has been measured."""
        if found.ok and (before is None or found.cost < before.cost):
            return cls(found.cost, found.noise)
        return before


def repetitions(
    seconds: Callable[[int], float],
    budget: float,
    best: Best | None,
    cold: bool = False,
    cooldown: float = 0.0,
) -> tuple[list[float], bool]:
    """Seconds of a run in each of the faster half of the repetitions, from the fastest on, and
    whether slowness ended them early.

    `seconds`: number of runs -> seconds they take. `budget`: seconds of runs for a leader. `cold`:
    one run a repetition, since a second would find warm caches. `cooldown`: seconds of rest between
    repetitions.
    """
    once = seconds(1)
    number = 1 if cold else max(1, round(budget / REPETITIONS / once)) if once > 0 else 1 << 10
    most = min(REPETITIONS, max(_FEWEST, math.ceil(budget / max(once * number, 1e-9))))
    costs = [once] if number == 1 else []
    doubts = 0
    while len(costs) < most:
        pause = cooldown
        if best is not None and _is_slow(costs, best):
            if doubts == _DOUBTS or min(costs) > _DOUBTFUL * best.cost:
                break
            doubts, pause = doubts + 1, max(cooldown, _PAUSE)
        elif costs and _is_settled(costs, best):
            break
        if pause > 0:
            time.sleep(pause)
        costs.append(seconds(number) / number)
    return undisturbed(costs), best is not None and _is_slow(costs, best)


def undisturbed(costs: list[float]) -> list[float]:
    """The faster half of the repetitions, sorted; of an odd number with the middle one."""
    return sorted(costs)[: (len(costs) + 1) // 2]


def _is_settled(costs: list[float], best: Best | None) -> bool:
    """Whether further repetitions of one that is not clearly slow would change nothing."""
    half = undisturbed(costs)
    clear = best is None or half[-1] < best.cost
    return len(costs) >= (_LEADING if clear else _ENOUGH) and spread(half) <= _QUIET


def _is_slow(costs: list[float], best: Best) -> bool:
    """Whether a candidate is slower than the best by more than so few repetitions may err."""
    factor = min((f for n, f in _STEPS.items() if n <= len(costs)), default=math.inf)
    return bool(costs) and min(costs) > best.cost * (factor + best.noise)
