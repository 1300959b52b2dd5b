"""Tasks tuned together until a number of measurements is reached, going on from what a file has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import UsageError
from .cost_model import XGBModel, cost_of
from .fastest import Fastest
from .measure import LocalRunner
from .policy import SketchPolicy
from .preload import PreloadMeasuredStates
from .pretrained import SHIPPED
from .records import Pair, RecordToFile, load_records
from .rows import is_plain_default
from .task import SearchTask, TuningOptions
from .task_scheduler import TaskScheduler

PER_ROUND = 64
_LEAST_PER_ROUND = 4
_ROUNDS = 2  # of each task at least, where there are trials for so many


@dataclass(frozen=True)
class TaskOutcome:
    """A task after tuning: kernels that it stands for, seconds of the default schedule and of the
    fastest (None where none was measured, or all failed), measurements in the records."""

    task: SearchTask
    weight: float
    default_s: float | None
    best_s: float | None
    measurements: int


@dataclass(frozen=True)
class Outcome:
    """What tuning gave. `measured`: by this call; `known`: what the file had before."""

    tasks: list[TaskOutcome]
    measured: int
    known: int

    @property
    def default_s(self) -> float | None:
        """Weighted sum of the default schedules' seconds, where all are known."""
        found = [t.weight * t.default_s for t in self.tasks if t.default_s is not None]
        return sum(found) if len(found) == len(self.tasks) else None

    @property
    def best_s(self) -> float | None:
        """Weighted sum of the seconds of the fastest, where all are known."""
        found = [t.weight * t.best_s for t in self.tasks if t.best_s is not None]
        return sum(found) if len(found) == len(self.tasks) else None


def tune_tasks(
    tasks: Sequence[SearchTask],
    weights: Sequence[float],
    trials: int,
    records: str | os.PathLike[str],
    *,
    seed: int = 0,
    defaults: bool = True,
    verbose: int = 1,
    callbacks: Sequence[Any] | None = None,
    runner: Any = None,
    search: dict[str, Any] | None = None,
) -> Outcome:
    """Measure until `records` has `trials` measurements of these tasks.

    Each measurement is in the file before the next is reported, and those that it had already are
    learnt from and not repeated: a search that was ended goes on when it is called again.
    `defaults`: measure the default schedule of each task as well. `callbacks`: of the
    TaskScheduler; a live table if None and `verbose`. `search`: parameters of SketchPolicy.
    UsageError where there are fewer trials than tasks to begin with.
    """
    if trials < 1:
        raise UsageError(f"the number of trials is at least 1, got {trials}")
    writer = RecordToFile(records)
    try:
        pairs = _known(tasks, records)
        known = len(pairs)
        if known < trials:
            options = TuningOptions(
                num_measure_trials=trials - known,
                num_measures_per_round=_per_round(trials, len(tasks)),
                verbose=verbose,
                runner=runner or LocalRunner(in_network=True),
                measure_callbacks=[writer],
            )
            scheduler = TaskScheduler(tasks, weights, load_log_file=pairs, callbacks=callbacks)
            policies = _policies(tasks, pairs, seed, defaults, search or {})
            scheduler.tune(options, policies)
            pairs = _known(tasks, records)
        return _outcome(tasks, weights, pairs, known)
    finally:
        writer.close()


def _per_round(trials: int, tasks: int) -> int:
    return max(_LEAST_PER_ROUND, min(PER_ROUND, trials // (_ROUNDS * tasks)))


def _known(tasks: Sequence[SearchTask], records: str | os.PathLike[str]) -> list[Pair]:
    """The measurements of these tasks in a file, which need not be there yet."""
    file = Path(records)
    if not file.exists() or not file.stat().st_size:
        return []
    wanted = {(t.workload_key, str(t.target)) for t in tasks}
    found = load_records(file)
    return [p for p in found if (p[0].task.workload_key, str(p[0].task.target)) in wanted]


def _by_task(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair[0].task.workload_key, []).append(pair)
    return found


def _policies(
    tasks: Sequence[SearchTask],
    pairs: Sequence[Pair],
    seed: int,
    defaults: bool,
    search: dict[str, Any],
) -> list[SketchPolicy]:
    """A search of each task; they share a cost model, which begins with the shipped one."""
    model = XGBModel(
        num_warmup_sample=1, seed=seed, model_file=SHIPPED if SHIPPED.exists() else None
    )
    known = _by_task(pairs)
    params = {**search, "default_schedule_first": int(defaults)}
    made = []
    for task in tasks:
        mine = known.get(task.workload_key, [])
        begin = [PreloadMeasuredStates(mine)] if mine else []
        made.append(SketchPolicy(task, model, params, seed, verbose=0, init_search_callbacks=begin))
    return made


def _outcome(
    tasks: Sequence[SearchTask], weights: Sequence[float], pairs: Sequence[Pair], known: int
) -> Outcome:
    by_task = _by_task(pairs)
    rows = []
    for task, weight in zip(tasks, weights):
        mine = by_task.get(task.workload_key, [])
        default = _least([(i, r) for i, r in mine if is_plain_default(i.state.rows)])
        rows.append(TaskOutcome(task, weight, default, _least(mine), len(mine)))
    return Outcome(rows, len(pairs) - known, known)


def _least(pairs: Sequence[Pair]) -> float | None:
    found: Fastest[str, None] = Fastest()
    for item, result in pairs:
        if result.ok:
            found.add("", tuple(item.state.rows), cost_of(result), None)
    best = found.best("")
    return None if best is None else best[0]
