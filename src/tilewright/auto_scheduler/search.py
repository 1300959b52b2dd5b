"""`task.tune` and `auto_schedule`: a policy, a measurer, and a loop of rounds."""

from __future__ import annotations

from typing import Any

from ..base.errors import TilewrightError
from ..schedule.api import Schedule
from ..tensor.tensor import Tensor
from .measure import ProgramMeasurer, resolve_builder, resolve_runner
from .policy import SketchPolicy
from .state import State
from .task import SearchTask, TuningOptions
from .transform import apply_state


def make_policy(task: SearchTask, given: Any, options: TuningOptions, **more: Any) -> Any:
    """A policy from what users give: None or "default", or a policy."""
    if given is None or given in ("default", "sketch.xgb"):
        return SketchPolicy(task, verbose=options.verbose, **more)
    if given == "sketch.random":
        from .cost_model import RandomModel

        return SketchPolicy(task, RandomModel(), verbose=options.verbose, **more)
    if not hasattr(given, "search"):
        raise TilewrightError(
            f'search_policy is "default", "sketch.random" or a SketchPolicy, got {given!r}'
        )
    return given


def tune(
    task: SearchTask, options: TuningOptions, search_policy: Any = None, **more: Any
) -> State | None:
    """Search for the best schedule of a task; returns the best state."""
    policy = make_policy(task, search_policy, options, **more)
    builder, runner = resolve_builder(options.builder), resolve_runner(options.runner)
    callbacks = list(options.measure_callbacks)
    with ProgramMeasurer(builder, runner, callbacks, options.verbose) as measurer:
        best: State | None = policy.search(
            options.num_measure_trials,
            options.early_stopping,
            options.num_measures_per_round,
            measurer,
        )
    if best is None and options.num_measure_trials:
        raise TilewrightError(
            f"none of {policy.trials} candidates of {task} could be built and run; their errors "
            "are in the records (`tilewright records show`)"
        )
    return best


def auto_schedule(
    task: SearchTask, search_policy: Any = None, tuning_options: TuningOptions | None = None
) -> tuple[Schedule, list[Tensor]]:
    """Schedule and arguments for a task: by the shipped model alone without `tuning_options` (or
    with 0 trials), else the best of a search."""
    options = tuning_options or TuningOptions(verbose=0)
    best = tune(task, options, search_policy)
    if best is None:
        raise TilewrightError(f"{task} has no schedules")
    sch, args, _ = apply_state(best, int(task.layout_rewrite_option or 0))
    return sch, args
