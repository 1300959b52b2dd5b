"""Begin a search with what earlier ones measured."""

from __future__ import annotations

import logging
import os
from typing import Any

from ..base.errors import ScheduleError
from .measure import MeasureInput
from .records import RecordReader
from .rows import is_default
from .state import State

_log = logging.getLogger("tilewright.auto_scheduler")


class SearchCallback:
    """Base of what a policy calls before it searches: `callback(policy)`."""

    def __call__(self, policy: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} has to define __call__")


class PreloadMeasuredStates(SearchCallback):
    """For `init_search_callbacks`: teaches a policy the records of its task in a file, or those
    among pairs of MeasureInput and MeasureResult.

    Candidates that the records measured are not measured again, and the model learns from them.
    """

    def __init__(self, filename: Any = "auto_scheduler_tuning.json") -> None:
        self.filename = filename

    def __call__(self, policy: Any) -> None:
        inputs, results = [], []
        given = isinstance(self.filename, (str, os.PathLike))
        for found, result in RecordReader(self.filename) if given else self.filename:
            task = found.task
            same = task.workload_key == policy.task.workload_key
            if not same or str(task.target) != str(policy.task.target):
                continue
            rows = found.rows if hasattr(found, "rows") else found.state.rows
            candidate = policy.recognise(rows)
            if candidate is None and not is_default(rows):
                continue
            try:
                state = State.from_rows(policy.task.compute_dag, rows)
            except ScheduleError as problem:  # what an earlier version decided between, say
                _log.info("a record was left out: %s", problem)
                continue
            state.candidate = candidate
            inputs.append(MeasureInput(policy.task, state))
            results.append(result)
        if inputs:
            policy.learn(inputs, results)
            policy.trials = 0
        _log.info("%d records of the task were loaded", len(inputs))
