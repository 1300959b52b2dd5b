"""What one more unit of search promises for a task: the slopes of the gradient strategy.

Zheng et al., Ansor, OSDI 2020, section 6.2, in the form of 5-api.md's well-known implementation:
one unit is one round of measurements, g_i(t_i) the least seconds of task i after t_i units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

# Seconds of a task that has no valid measurement yet; users' objectives and callbacks see it.
UNKNOWN_COST = 1e10
_STEP = 1e-4
# Tags that say how an operation reads, not what it computes.
_PLAIN_TAGS = ("", "elemwise", "broadcast", "injective", "comm_reduce")

Objective = Callable[[list[float]], float]


def unit_slope(
    history: Sequence[float],
    alpha: float,
    beta: float,
    window: int,
    similar_seconds: float = math.inf,
    optimism: float = 1.0,
) -> float:
    """The estimated dg/dt of a task, at most 0, in seconds a unit.

    `history`: its least seconds after each of its units so far. `alpha`: the share of the backward
    difference over `window` units; the rest is the promise ahead: the better of "t more units
    could bring it all down", a t-th of it each, and, `beta` times `similar_seconds`, "similar
    tasks run at such a rate already".

    `optimism` below 1 holds the first promise back: t more units bring what t units like those of
    the last half brought, and that share of the seconds besides. Else a task that takes long but
    has converged is searched while others could gain (docs/auto_scheduler.md has figures).
    """
    units, now = len(history), history[-1]
    back = min(window, units - 1)
    behind = (now - history[-1 - back]) / back if back > 0 else 0.0
    hoped = now
    if units > 1:
        half = max(units // 2 - 1, 0)
        hoped = min(now, 2 * (history[half] - now) + optimism * now)
    ahead = min(now - hoped / units, beta * similar_seconds) - now
    return alpha * behind + (1 - alpha) * ahead


def objective_slopes(objective: Objective, costs: Sequence[float]) -> list[float]:
    """df/dg_i of an objective, by differences towards lower costs: what improving can gain, also
    at the corners of objectives such as sum(max(g_i, wanted_i))."""
    at = float(objective(list(costs)))
    found = []
    for place, cost in enumerate(costs):
        step = _STEP * cost
        lower = list(costs)
        lower[place] = cost - step
        found.append((at - float(objective(lower))) / step if step > 0 else 0.0)
    return found


def derive_similarity_tag(dag: Any, log_base: float = 1.618) -> str:
    """Tasks with the same tag are similar: the same kinds of operators, and floating-point
    operations within a factor of `log_base`. "" where no operation says what it is.

    An operation says so by its attribute "auto_scheduler_task_scheduler_tag", else by its tag.
    """
    names = []
    for op in dag.ops:
        attrs = getattr(op, "attrs", None) or {}
        name = attrs.get("auto_scheduler_task_scheduler_tag", "") or getattr(op, "tag", "")
        if name.split(",")[0] not in _PLAIN_TAGS:
            names.append(str(name))
    if not names:
        return ""
    size = int(math.log(dag.flop_ct + 1) / math.log(log_base))
    return "_".join([*names, str(size)])


class Groups:
    """Which tasks are similar; a task that stays far behind its group leaves it."""

    __slots__ = ("_members", "_of")

    def __init__(self, tags: Sequence[str]) -> None:
        self._of: list[str] = list(tags)
        self._members: dict[str, set[int]] = {}
        for place, tag in enumerate(tags):
            if tag:
                self._members.setdefault(tag, set()).add(place)

    def similar(self, task: int) -> frozenset[int]:
        """The tasks of the same group, the task among them; none where it stands alone."""
        members = self._members.get(self._of[task], ())
        return frozenset(members) if len(members) > 1 else frozenset()

    def seconds_at_best_rate(
        self, task: int, flops: Sequence[float], costs: Sequence[float]
    ) -> float:
        """What the task would take at the best rate within its group; infinite if unknown."""
        rates = [flops[k] / costs[k] for k in self.similar(task) if costs[k] < UNKNOWN_COST]
        best = max(rates, default=0.0)
        return flops[task] / best if best > 0 else math.inf

    def evict_if_slow(
        self,
        task: int,
        flops: Sequence[float],
        costs: Sequence[float],
        units: Sequence[int],
        beta: float,
    ) -> bool:
        """Remove a task whose rate stays below 1/beta of the group's although it had 5 units more
        than any other member: it is not like them, and their rate promises nothing for it."""
        others = self.similar(task) - {task}
        if not others or units[task] <= 5 + max(units[k] for k in others):
            return False
        if costs[task] <= beta * self.seconds_at_best_rate(task, flops, costs):
            return False
        self._members[self._of[task]].discard(task)
        self._of[task] = ""
        return True
