"""The searches that a network's schedules come from: its tasks by what they compute, and what the
shipped cost model predicts of their candidates."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..auto_scheduler.policy import SketchPolicy
from ..auto_scheduler.pretrained import default_model
from ..auto_scheduler.record_file import read_records
from ..auto_scheduler.state import State
from ..auto_scheduler.task import SearchTask
from ..base.errors import ScheduleError
from .page import Tuned
from .search import Measured, of_scheduler, tuned

MOST_PREDICTED = 8
"""Tasks, those measured most, of which the shipped model is asked; it takes half a second each."""
_MODEL = (
    "Scores are those of the cost model that ships with tilewright, as it was before it learned "
    "from these measurements."
)


def network_searches(
    records: str | os.PathLike[str], tasks: Mapping[str, SearchTask]
) -> list[Tuned]:
    """What a file of records has about the tasks of a network, given by their keys; those measured
    most first."""
    every = of_scheduler(r for r in read_records(records) if r.workload_key in tasks)
    found = sorted(every.items(), key=lambda item: -len(item[1]))
    pages = []
    for k, ((key, target), rows) in enumerate(found):
        task = tasks[key]
        mine = str(task.target) == target and "gpu" not in task.target.keys
        scores = model_scores(task, rows) if mine and k < MOST_PREDICTED else None
        pages.append(tuned(task.desc or key, target, rows, scores, _MODEL))
    return pages


def model_scores(task: SearchTask, rows: Sequence[Measured]) -> list[float | None]:
    """The shipped model's score of each candidate of a task; None for those that the present
    search does not draw."""
    model = default_model()
    policy = SketchPolicy(task, model, verbose=0)
    states: list[State] = []
    places: list[int] = []
    for k, m in enumerate(rows):
        candidate = policy.recognise(m.rows)
        if candidate is None:
            continue
        try:
            state = State.from_rows(task.compute_dag, m.rows)
        except ScheduleError:  # what an earlier version decided between, say
            continue
        state.candidate = candidate
        states.append(state)
        places.append(k)
    scores: list[float | None] = [None] * len(rows)
    if states and model.trained:
        for k, score in zip(places, model.predict(task, states)):
            scores[k] = float(score) if score > -1e30 else None
    return scores
