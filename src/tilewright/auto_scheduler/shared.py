"""Searches that share a store: each takes in what the others have measured, before every round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..measure.store import Store
from .cost_model import cost_of
from .lines import BadRecord, from_parts
from .preload import PreloadMeasuredStates
from .record_file import LeftOut, is_target
from .records import Pair, as_pair
from .scheduler_callbacks import TaskSchedulerCallback

Key = tuple[str, str]


class Sharing:
    """This search among those of a store. `before`: how many have begun there earlier."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.before = store.begin_search()
        self._seen: set[int] = set()

    def news(self, tasks: Sequence[Any]) -> list[Pair]:
        """What others have measured of these tasks and was not given yet. What cannot be read is
        left out, with a warning that says how much and why."""
        wanted = {key_of(task) for task in tasks}
        left_out = LeftOut(self._store.name)
        found = []
        for workload in dict.fromkeys(key for key, _ in wanted):
            for target, candidate, result in self._store.find_others(workload, self._seen):
                try:
                    if result is None:
                        raise BadRecord("its numbers are none")
                    record = from_parts(workload, target, candidate, result)
                except BadRecord:
                    left_out.add("that are none")
                    continue
                pair = as_pair(record) if is_target(target) else None
                if pair is None:
                    left_out.add(f"of a target that is not known, {target!r}")
                elif key_of(pair[0].task) in wanted:
                    found.append(pair)
        left_out.warn()
        return found


class TakeIn(TaskSchedulerCallback):
    """Teaches the tasks' policies what others have measured since, and counts it as trials."""

    def __init__(self, sharing: Sharing, policies: Sequence[Any]) -> None:
        self._sharing, self._policies = sharing, policies

    def pre_tune(self, task_scheduler: Any, task_id: int) -> None:
        """Before a round of any task, of all of them."""
        news = pairs_by_task(self._sharing.news(task_scheduler.tasks))
        for place, task in enumerate(task_scheduler.tasks):
            pairs = news.get(key_of(task))
            if not pairs:
                continue
            policy = self._policies[place]
            trials = policy.trials
            PreloadMeasuredStates(pairs)(policy)
            policy.trials = trials
            task_scheduler.take_in(place, [cost_of(result) for _, result in pairs])


def key_of(task: Any) -> Key:
    """By what the measurements of a task are found."""
    return task.workload_key, str(task.target)


def pairs_by_task(pairs: Sequence[Pair]) -> Mapping[Key, list[Pair]]:
    """Measurements by the keys of their tasks."""
    found: dict[Key, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(key_of(pair[0].task), []).append(pair)
    return found
