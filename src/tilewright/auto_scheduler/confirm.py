"""What a search measures again in the end: the best of many single measurements was lucky.

Its leaders and the operator library's own schedules take turns, in an order that moves on, so that
a machine that becomes slower meanwhile is slower for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from .state import State

TURNS = 3
CONFIRMED, CONFIRMED_OF = 12, 10  # measurements of a search: one in 10, at most 12
LEAST_CONFIRMED = 2 * TURNS  # the best and the default schedule
FEW = 30  # measurements of a search, with fewer of which none are spent on that
CLOSE = 2.0  # times the best: a first measurement may have been so much too long


def confirmations(trials: int) -> int:
    """How many of a task's measurements are of its leaders, again."""
    count = min(CONFIRMED, trials // CONFIRMED_OF) // TURNS * TURNS
    return max(count, LEAST_CONFIRMED) if trials >= FEW else 0


def in_turns(
    leaders: Sequence[tuple[float, State]], defaults: Sequence[State], count: int
) -> list[State]:
    """What to measure with `count` measurements at most: the fastest of the `leaders` (seconds and
    state, the fastest first), the library's schedules unless they are far slower, then further
    leaders, each once in a turn. A default that failed, and so is no leader, may have met with a
    busy machine. Empty where there are no two to compare."""
    if min(len(leaders), count // TURNS) < 2:
        return []
    seconds = {state.rows: cost for cost, state in leaders}
    states = [state for _, state in leaders]
    far = CLOSE * leaders[0][0]
    beside = [s for s in defaults if seconds.get(s.rows, 0.0) <= far]
    ranked = {s.rows: s for s in [*states[:1], *beside, *states]}
    chosen = list(ranked.values())[: count // TURNS]
    turns = (chosen[k % len(chosen) :] + chosen[: k % len(chosen)] for k in range(TURNS))
    return [state for turn in turns for state in turn]
