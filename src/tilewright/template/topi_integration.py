"""Operators as templates in two parts: what to compute, and the schedule of its result."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import TilewrightError
from ..target.target import Target
from ..tensor.op import Operation, PlaceholderOp, post_order
from ..tensor.tensor import Tensor
from .context import DispatchContext
from .task import register_task
from .workload import Workload, args_to_workload, from_json

_ATTRIBUTE = "workload"


class _Parts:
    """The two functions of an operator's template."""

    __slots__ = ("compute", "schedule")

    def __init__(self) -> None:
        self.compute: Callable[..., Any] | None = None
        self.schedule: Callable[..., Any] | None = None


_parts: dict[str, _Parts] = {}


def _part(name: str) -> _Parts:
    if name not in _parts:
        parts = _parts[name] = _Parts()

        def whole(*args: Any) -> tuple[Any, list[Tensor]]:
            if parts.compute is None or parts.schedule is None:
                missing = "compute" if parts.compute is None else "schedule"
                raise TilewrightError(
                    f"the template {name!r} has no {missing}: register_topi_{missing}({name!r})"
                )
            out = parts.compute(*args)
            schedule = parts.schedule([out])
            inputs = [t.output(0) for t in post_order([out.op]) if isinstance(t, PlaceholderOp)]
            return schedule, [out, *inputs]

        whole.__qualname__ = f"topi:{name}"
        register_task(name, whole)
    return _parts[name]


def register_topi_compute(task_name: str, func: Callable[..., Any] | None = None) -> Any:
    """Make `func(cfg, *args)`, which gives a tensor, the computation of a template.

    The function that comes back takes `*args`; the configuration is the present context's.
    """

    def decorate(compute: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compute)
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                raise TilewrightError(f"the template {task_name!r} takes no keyword arguments")
            workload = args_to_workload(args, task_name)
            config = DispatchContext.current.query(Target.current(allow_none=True), workload)
            out = compute(config, *args)
            first = out[0] if isinstance(out, (list, tuple)) else out
            first.op.attrs[_ATTRIBUTE] = workload
            return out

        _part(task_name).compute = call
        return call

    return decorate if func is None else decorate(func)


def register_topi_schedule(task_name: str, func: Callable[..., Any] | None = None) -> Any:
    """Make `func(cfg, outs)`, which gives a schedule, that of a template.

    The function that comes back takes `outs`; it finds the workload that the computation left.
    """

    def decorate(schedule: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(schedule)
        def call(outs: Any, *args: Any, **kwargs: Any) -> Any:
            workload = get_workload(outs, task_name)
            if workload is None:
                raise TilewrightError(
                    f"no tensor of these was computed by the template {task_name!r}"
                )
            config = DispatchContext.current.query(Target.current(allow_none=True), workload)
            return schedule(config, outs, *args, **kwargs)

        _part(task_name).schedule = call
        return call

    return decorate if func is None else decorate(func)


def get_workload(outs: Tensor | Sequence[Tensor], task_name: str | None = None) -> Workload | None:
    """The workload that a template's computation left on one of the operations of `outs`."""
    tensors = [outs] if isinstance(outs, Tensor) else list(outs)
    ops: list[Operation] = post_order([t.op for t in tensors])
    for op in ops:
        found = op.attrs.get(_ATTRIBUTE)
        if found is not None and (task_name is None or found[0] == task_name):
            workload: Workload = from_json(found)
            return workload
    return None
