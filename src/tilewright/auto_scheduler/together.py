"""Tasks tuned together until a number of measurements is reached, going on from what a file has."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import UsageError
from ..measure.places import Url, place_of
from .cost_model import XGBModel, cost_of
from .fastest import Fastest
from .measure import LocalRunner
from .objectives import (
    GeomeanSpeedup,
    LatencyRequirement,
    NetworkObjective,
    Seconds,
    objective_of,
)
from .policy import SketchPolicy
from .preload import PreloadMeasuredStates
from .pretrained import SHIPPED
from .record_file import read_records
from .records import Pair, RecordToFile, as_pair
from .rows import is_plain_default
from .scheduler_callbacks import PrintTableInfo
from .shared import Sharing, TakeIn, key_of, pairs_by_task
from .slope import UNKNOWN_COST, Objective
from .task import SearchTask, TuningOptions
from .task_scheduler import TaskScheduler

PER_ROUND = 64
_LEAST_PER_ROUND = 4
_ROUNDS = 2  # of each task at least, where there are trials for so many
# How often each task appears in a network, or in each of several by its name.
Weights = Sequence[float] | Mapping[str, Sequence[float]]


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
class NetworkOutcome:
    """A network after tuning: how many of the tasks it has, the sums of their seconds as often as
    they appear (None where one is not known), and what its objective compares them with."""

    name: str
    tasks: int
    default_s: float | None
    best_s: float | None
    requirement_s: float | None = None
    reference_s: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether it is as fast as required; None where nothing is."""
        if self.requirement_s is None:
            return None
        return self.best_s is not None and self.best_s <= self.requirement_s

    @property
    def speedup(self) -> float | None:
        """How many times as fast as its reference."""
        return self.reference_s / self.best_s if self.reference_s and self.best_s else None


@dataclass(frozen=True)
class Outcome:
    """What tuning gave. `measured`: by this call; `known`: what the records had before, and what
    other searches added meanwhile. `score`: the objective's value (None where a task is not known).
    `stopped`: why it ended before all trials were spent."""

    tasks: list[TaskOutcome]
    measured: int
    known: int
    networks: list[NetworkOutcome] = field(default_factory=list)
    score: float | None = None
    stopped: str = ""

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


def join_networks(
    networks: Mapping[str, tuple[Sequence[SearchTask], Sequence[float]]],
) -> tuple[list[SearchTask], dict[str, list[float]]]:
    """The tasks of several networks, each once, and by network how often each task appears.

    `networks`: by name what `extract_tasks` gives. Raises UsageError where a network's weights are
    not as many as its tasks.
    """
    places: dict[tuple[str, str], int] = {}
    tasks: list[SearchTask] = []
    for found, weights in networks.values():
        if len(found) != len(weights):
            raise UsageError(f"{len(weights)} weights were given for {len(found)} tasks")
        for task in found:
            if places.setdefault(key_of(task), len(tasks)) == len(tasks):
                tasks.append(task)
    counts: dict[str, list[float]] = {name: [0] * len(tasks) for name in networks}
    for name, (found, weights) in networks.items():
        for task, weight in zip(found, weights):
            counts[name][places[key_of(task)]] += weight
    return tasks, counts


def tune_tasks(
    tasks: Sequence[SearchTask],
    weights: Weights,
    trials: int,
    records: str | os.PathLike[str],
    *,
    objective: str | Objective = "sum",
    requirement: Seconds | None = None,
    reference: Seconds | None = None,
    stop_after: int | None = None,
    seed: int = 0,
    defaults: bool = True,
    verbose: int = 1,
    callbacks: Sequence[Any] | None = None,
    runner: Any = None,
    search: dict[str, Any] | None = None,
) -> Outcome:
    """Measure until `records` has `trials` measurements of these tasks.

    Each measurement is in the records (a file, or a database's URL) before the next is reported,
    and those that they had already are learnt from and not repeated: a search that was ended goes
    on when it is called again, and several searches may share a store, each taking in what the
    others have measured before every round. `seed`: of all choices; searches that were begun
    earlier in the same store count in, lest those at one time make the same.
    `weights`: how often each task appears; of several networks, by name as `join_networks` gives
    them. `objective`: "sum", "requirement", "geomean" or "early-stopping" with their parameters
    (`objectives.py`), or a function of the tasks' seconds; once nothing is left to gain, no more is
    measured. `defaults`: measure the default schedule of each task as well. `callbacks`: of the
    TaskScheduler; a live table if None and `verbose`. `search`: parameters of SketchPolicy.
    UsageError where there are fewer trials than tasks to begin with. Raises TilewrightError where
    `records` names no file of records.
    """
    if trials < 1:
        raise UsageError(f"the number of trials is at least 1, got {trials}")
    counts = _counts(tasks, weights)
    given = {"requirement": requirement, "reference": reference, "stop_after": stop_after}
    goal = _objective(objective, counts, given)
    writer = RecordToFile(records)
    try:
        sharing = None if writer.writer.lines else Sharing(writer.writer.store)
        pairs = _known(tasks, records) if sharing is None else sharing.news(tasks)
        known, stopped = len(pairs), ""
        if known < trials:
            seed += 0 if sharing is None else sharing.before
            options = TuningOptions(
                num_measure_trials=trials - known,
                num_measures_per_round=_per_round(trials, len(tasks), goal),
                verbose=verbose,
                runner=runner or LocalRunner(in_network=True),
                measure_callbacks=[writer],
            )
            policies = _policies(tasks, pairs, seed, defaults, search or {})
            shown = [PrintTableInfo()] if verbose else []
            told = list(shown if callbacks is None else callbacks)
            if sharing is not None:
                told.insert(0, TakeIn(sharing, policies))
            scheduler = TaskScheduler(
                tasks, objective_func=goal, load_log_file=pairs, callbacks=told, seed=seed
            )
            scheduler.tune(options, policies)
            stopped = scheduler.stopped
            pairs = _known(tasks, records)
            known = len(pairs) - writer.writer.count
        return _outcome(tasks, counts, goal, pairs, known, stopped)
    finally:
        writer.close()


def _counts(tasks: Sequence[SearchTask], weights: Weights) -> dict[str, Sequence[float]]:
    """By network, how often each task appears."""
    counts = dict(weights) if isinstance(weights, Mapping) else {"network": weights}
    if not tasks or not counts:
        raise UsageError("tune_tasks: there is no task to tune")
    for row in counts.values():
        if len(row) != len(tasks):
            raise UsageError(f"{len(row)} weights were given for {len(tasks)} tasks")
    return counts


def _objective(
    objective: str | Objective, counts: Mapping[str, Sequence[float]], given: dict[str, Any]
) -> Objective:
    if isinstance(objective, str):
        return objective_of(objective, counts, **given)
    if isinstance(objective, NetworkObjective):
        rows = tuple(tuple(row) for row in counts.values())
        if objective.counts != rows or objective.names != tuple(counts):
            raise UsageError(
                f"the objective {objective.name!r} was made for other networks or numbers of "
                "appearances than the weights say"
            )
    wrong = [key for key, value in given.items() if value is not None]
    if wrong:
        raise UsageError(f"{wrong[0]} is for objectives by name, and {objective!r} is none")
    return objective


def _per_round(trials: int, tasks: int, objective: Objective) -> int:
    """Measurements in a round; tasks are stopped between rounds, so none is longer than that."""
    most = PER_ROUND
    if isinstance(objective, NetworkObjective) and objective.stop_after is not None:
        most = min(most, objective.stop_after)
    return min(most, max(_LEAST_PER_ROUND, trials // (_ROUNDS * tasks)))


def _known(tasks: Sequence[SearchTask], records: str | os.PathLike[str]) -> list[Pair]:
    """The measurements of these tasks in records, which need not be there yet."""
    place = place_of(records)
    if not isinstance(place, Url) and (not place.exists() or not place.stat().st_size):
        return []
    wanted = {key_of(t) for t in tasks}
    found = map(as_pair, read_records(place, {key for key, _ in wanted}))
    return [p for p in found if key_of(p[0].task) in wanted]


def _policies(
    tasks: Sequence[SearchTask],
    pairs: Sequence[Pair],
    seed: int,
    defaults: bool,
    search: dict[str, Any],
) -> list[SketchPolicy]:
    """A search of each task; they share a cost model, which begins with the shipped one."""
    model = XGBModel(
        num_warmup_sample=1, seed=seed, begin_with=SHIPPED if SHIPPED.exists() else None
    )
    known = pairs_by_task(pairs)
    params = {**search, "default_schedule_first": int(defaults)}
    made = []
    for task in tasks:
        mine = known.get(key_of(task), [])
        begin = [PreloadMeasuredStates(mine)] if mine else []
        made.append(SketchPolicy(task, model, params, seed, verbose=0, init_search_callbacks=begin))
    return made


def _outcome(
    tasks: Sequence[SearchTask],
    counts: Mapping[str, Sequence[float]],
    objective: Objective,
    pairs: Sequence[Pair],
    known: int,
    stopped: str,
) -> Outcome:
    known_pairs = pairs_by_task(pairs)
    rows = []
    for task, *appearances in zip(tasks, *counts.values()):
        mine = known_pairs.get(key_of(task), [])
        default = _least([(i, r) for i, r in mine if is_plain_default(i.state.rows)])
        best = _least(mine)
        rows.append(TaskOutcome(task, sum(appearances), default, best, len(mine)))
    networks = _networks(rows, counts, objective)
    costs = [UNKNOWN_COST if r.best_s is None else r.best_s for r in rows]
    score = None if UNKNOWN_COST in costs else float(objective(costs))
    return Outcome(rows, len(pairs) - known, known, networks, score, stopped)


def _networks(
    rows: Sequence[TaskOutcome], counts: Mapping[str, Sequence[float]], objective: Objective
) -> list[NetworkOutcome]:
    required: dict[str, float] = {}
    references: dict[str, float] = {}
    if isinstance(objective, LatencyRequirement):
        required = dict(zip(objective.names, objective.seconds))
    if isinstance(objective, GeomeanSpeedup):
        references = dict(zip(objective.names, objective.seconds))
    found = []
    for name, row in counts.items():
        default = _latency(row, [r.default_s for r in rows])
        best = _latency(row, [r.best_s for r in rows])
        size = sum(1 for n in row if n)
        goals = required.get(name), references.get(name)
        found.append(NetworkOutcome(name, size, default, best, *goals))
    return found


def _latency(row: Sequence[float], costs: Sequence[float | None]) -> float | None:
    found = [None if c is None else n * c for n, c in zip(row, costs) if n]
    known = [c for c in found if c is not None]
    return sum(known) if len(known) == len(found) else None


def _least(pairs: Sequence[Pair]) -> float | None:
    found: Fastest[str, None] = Fastest()
    for item, result in pairs:
        if result.ok:
            found.add("", tuple(item.state.rows), cost_of(result), None)
    best = found.best("")
    return None if best is None else best[0]
