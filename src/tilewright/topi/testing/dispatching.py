"""Choosing among functions by target, and schedules for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...base.errors import TilewrightError
from ...target.target import Target
from ..nn.convs import conv2d_nchw
from ..schedules.entries import on_device, schedule

_SCHEDULES: dict[str, Callable[..., Any]] = {"generic": schedule, "cpu": schedule, "gpu": on_device}


def dispatch(target: Any, dispatch_map: Mapping[str, Any]) -> Any:
    """What a table has for the first key of a target that it knows, else for "generic". Raises
    TargetError where `target` is no target, as text, dict or Target, where `target` has no kind of
    target, or no attributes by name, and TilewrightError where dispatch_map has neither the target
    nor 'generic'."""
    chosen = Target(target) if isinstance(target, str) else target
    for key in chosen.keys:
        if key in dispatch_map:
            return dispatch_map[key]
    if "generic" not in dispatch_map:
        raise TilewrightError(f"no implementation for {chosen}: {', '.join(dispatch_map)}")
    return dispatch_map["generic"]


def get_injective_schedule(target: Any) -> Callable[..., Any]:
    """The function that schedules element-wise operations for a target. Raises TargetError where
    `target` is no target, as text, dict or Target."""
    found: Callable[..., Any] = dispatch(target, _SCHEDULES)
    return found


get_broadcast_schedule = get_elemwise_schedule = get_injective_schedule


def get_reduce_schedule(target: Any) -> Callable[..., Any]:
    """The function that schedules reductions for a target. Raises TargetError where `target` is no
    target, as text, dict or Target."""
    found: Callable[..., Any] = dispatch(target, _SCHEDULES)
    return found


def get_conv2d_nchw_implement(target: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The convolution of (n, c, h, w), and the function that schedules it for a target. Raises
    TargetError where `target` is no target, as text, dict or Target."""
    return conv2d_nchw, dispatch(target, _SCHEDULES)
