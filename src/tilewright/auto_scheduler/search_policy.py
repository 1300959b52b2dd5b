"""`auto_scheduler.search_policy`: what searches of a task share, and the one without a choice.

`policy.py` holds the search by sketches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .measured import MeasureInput
from .state import State


class SearchPolicy:
    """Base of searches of one task. One of your own defines `continue_search_one_round`, and has
    what it found in `best_state`."""

    best_state: Any

    def __init__(self, task: Any, verbose: int = 1) -> None:
        self.task = task
        self.verbose = verbose
        self.trials = 0

    @property
    def search_task(self) -> Any:
        """The task, by TVM's name."""
        return self.task

    def set_verbose(self, verbose: int) -> None:
        """0: silent."""
        self.verbose = int(verbose)

    def continue_search_one_round(
        self, num_measure: int, measurer: Any
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Measure up to `num_measure` candidates: inputs and results, none where none are left."""
        raise NotImplementedError(f"{type(self).__name__} has no continue_search_one_round")

    def search(
        self,
        num_measure_trials: int,
        early_stopping: int | None,
        num_measures_per_round: int,
        measurer: Any,
    ) -> Any:
        """Rounds until so many candidates are measured, or `early_stopping` measurements brought
        nothing better; the best state. `num_measures_per_round`: candidates of a round."""
        best, stale = math.inf, 0
        while self.trials < num_measure_trials:
            count = min(num_measures_per_round, num_measure_trials - self.trials)
            _, results = self.continue_search_one_round(count, measurer)
            if not results:
                break
            self.trials += len(results)
            found = min(r.cost for r in results)
            stale = 0 if found < best else stale + len(results)
            best = min(best, found)
            if early_stopping is not None and stale >= early_stopping:
                break
        return self.best_state


class EmptyPolicy(SearchPolicy):
    """Measures the task's program as it was written, and nothing else. `init_search_callbacks`:
    called with the policy."""

    def __init__(self, task: Any, init_search_callbacks: Sequence[Any] | None = None) -> None:
        super().__init__(task)
        self.best_state = State(task.compute_dag)
        for callback in init_search_callbacks or ():
            callback(self)

    def continue_search_one_round(
        self, num_measure: int, measurer: Any
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Measure the program once more."""
        inputs = [MeasureInput(self.task, self.best_state)][:num_measure]
        return inputs, measurer.measure(self.task, self, inputs)

    def best_unmeasured(self) -> State:
        """The program as it was written."""
        return State(self.task.compute_dag)


def __getattr__(name: str) -> Any:
    """The searches that are built on this module."""
    if name == "SketchPolicy":
        from .policy import SketchPolicy

        return SketchPolicy
    if name in ("PreloadMeasuredStates", "SearchCallback"):
        from . import preload

        return getattr(preload, name)
    if name == "PreloadCustomSketchRule":
        from .sketch.custom import PreloadCustomSketchRule

        return PreloadCustomSketchRule
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
