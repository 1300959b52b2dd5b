"""`task.tune` and `auto_schedule`: a policy, a measurer, and a loop of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Timer
from typing import Any

from ..base.errors import TilewrightError
from ..measure.progress import Progress
from ..schedule.api import Schedule
from ..tensor.tensor import Tensor
from .measure import MeasureCallback, ProgramMeasurer, resolve_builder, resolve_runner
from .named_policies import make_policy
from .reachable import require_measurable
from .state import State
from .transform import apply_state


class _LastError(MeasureCallback):
    """Keeps what went wrong last."""

    text = "there was no candidate"

    def callback(self, policy: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        for result in results:
            if result.error_no:
                self.text = str(result.error_msg)


_FIRST_SECONDS = 1.05


class _Shown(MeasureCallback):
    """Shows on standard error how far a search is, once it has taken longer than a second."""

    def __init__(self, task: Any, trials: int) -> None:
        self._progress = Progress(trials, f"tune {task.desc or task.workload_key}"[:60])
        self._done = self._failed = 0
        self._best: float | None = None
        # the first round of a search takes seconds, in which nothing is measured
        self._first = Timer(_FIRST_SECONDS, lambda: self._progress.update(0, "searching"))
        self._first.daemon = True
        self._first.start()

    def callback(self, policy: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        self._first.cancel()
        self._done += len(results)
        for result in results:
            if result.error_no:
                self._failed += 1
            else:
                found = min(map(float, result.costs))
                self._best = found if self._best is None else min(self._best, found)
        self._progress.update(self._done, self._text())

    def close(self) -> None:
        """The last state, if any was shown before."""
        self._first.cancel()
        self._progress.close(self._done, self._text())

    def _text(self) -> str:
        best = "none works yet" if self._best is None else f"best {1e3 * self._best:.4g} ms"
        return best + (f", {self._failed} failed," if self._failed else "")


def tune(task: Any, options: Any, search_policy: Any = None, **more: Any) -> State | None:
    """Search for the best schedule of a task; returns the best state. TilewrightError where its
    candidates cannot be measured here, or none of them could be built and run."""
    if not hasattr(options, "num_measure_trials"):
        raise TilewrightError(f"tune takes TuningOptions(num_measure_trials=...), got {options!r}")
    builder, runner = resolve_builder(options.builder), resolve_runner(options.runner)
    if options.num_measure_trials:
        require_measurable(task.target, runner)
    policy = make_policy(task, search_policy, options.verbose, **more)
    last = _LastError()
    shown = [_Shown(task, options.num_measure_trials)] if options.verbose else []
    callbacks = [*options.measure_callbacks, last, *shown]
    with ProgramMeasurer(builder, runner, callbacks, options.verbose) as measurer:
        try:
            best: State | None = policy.search(
                options.num_measure_trials,
                options.early_stopping,
                options.num_measures_per_round,
                measurer,
            )
        finally:
            for line in shown:
                line.close()
    if best is None and options.num_measure_trials:
        raise TilewrightError(
            f"none of {policy.trials} candidates of {task} could be built and run. The last "
            f"error: {last.text}"
        )
    return best


def auto_schedule(
    task: Any, search_policy: Any = None, tuning_options: Any | None = None
) -> tuple[Schedule, list[Tensor]]:
    """Schedule and arguments for a task: by the shipped model alone without `tuning_options` (or
    with 0 trials), else the best of a search. Raises TilewrightError where the task has no
    schedules, where search_policy is unknown, where tuning_options are no TuningOptions, or no
    candidate could be built and run."""
    if tuning_options is None or tuning_options.num_measure_trials == 0:
        verbose = 0 if tuning_options is None else tuning_options.verbose
        best = make_policy(task, search_policy, verbose).best_unmeasured()
    else:
        best = tune(task, tuning_options, search_policy)
    if best is None:
        raise TilewrightError(f"{task} has no schedules")
    sch, args, _ = apply_state(best, int(task.layout_rewrite_option or 0))
    return sch, args
