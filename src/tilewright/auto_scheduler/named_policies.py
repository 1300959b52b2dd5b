"""The search policies that users name, for one task or for several that are tuned together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import TilewrightError, UsageError
from .cost_model import CostModel, RandomModel, XGBModel
from .policy import SketchPolicy
from .preload import PreloadMeasuredStates
from .pretrained import SHIPPED
from .rounds import RoundPolicy


def make_policy(
    task: Any, given: Any, verbose: int, adaptive_training: bool = False, **more: Any
) -> Any:
    """A policy from what users give: None or "default", or a policy."""
    if given is None or given in ("default", "sketch.xgb"):
        made = SketchPolicy(task, None, verbose=verbose, **more)
        if isinstance(made.model, XGBModel):
            made.model.adaptive_training = adaptive_training
        return made
    if given == "sketch.random":
        return SketchPolicy(task, RandomModel(), verbose=verbose, **more)
    if not hasattr(given, "search"):
        raise TilewrightError(
            f'search_policy is "default", "sketch.random" or a SketchPolicy, got {given!r}'
        )
    return given


def make_search_policies(
    search_policy: str | Sequence[RoundPolicy],
    search_policy_params: Mapping[str, Any] | None,
    tasks: Sequence[Any],
    num_measures_per_round: int,
    verbose: int,
    load_model_file: str | Path | None = None,
    load_log_file: Any = None,
    adaptive_training: bool = False,
) -> list[RoundPolicy]:
    """A policy for each task, as `TaskScheduler` takes them: "default" and "sketch.xgb" share a
    model, of `load_model_file` or the shipped one; each learns from its task's records in the file
    `load_log_file`. `num_measures_per_round`: candidates. UsageError for another policy."""
    if not isinstance(search_policy, str):
        if len(search_policy) != len(tasks):
            raise UsageError(
                f"{len(search_policy)} search policies were given for {len(tasks)} tasks"
            )
        return list(search_policy)
    kind, _, model_kind = ("sketch.xgb" if search_policy == "default" else search_policy).partition(
        "."
    )
    if kind != "sketch" or model_kind not in ("xgb", "random"):
        raise UsageError(
            f'Invalid search policy: {search_policy!r}; there are "default", "sketch.xgb" and '
            '"sketch.random", or give a list of policies'
        )
    model: CostModel = RandomModel()
    if model_kind == "xgb":
        model = XGBModel(
            num_warmup_sample=len(tasks) * num_measures_per_round,
            adaptive_training=adaptive_training,
            begin_with=load_model_file or (SHIPPED if SHIPPED.exists() else None),
        )
    known = isinstance(load_log_file, (str, Path))
    begin = [PreloadMeasuredStates(load_log_file)] if known else []
    params = search_policy_params or {}
    return [
        SketchPolicy(task, model, params=params, verbose=verbose, init_search_callbacks=begin)
        for task in tasks
    ]
