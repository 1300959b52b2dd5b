"""Operators as templates in two parts: what to compute, and the schedule of its result."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import TilewrightError
from ..target.target import Target
from ..tensor.op import Operation, post_order
from ..tensor.tensor import Tensor
from .context import DispatchContext
from .task import TaskTemplate, find_template, register_task
from .workload import Workload, args_to_workload, from_json, serialize_args

_ATTRIBUTE = "workload"


def _part(name: str) -> TaskTemplate:
    known = find_template(name)
    if not isinstance(known, TaskTemplate):
        known = TaskTemplate()
        known.__qualname__ = f"topi:{name}"  # type: ignore[attr-defined]
        register_task(name, known)
    return known


def register_topi_compute(task_name: str, func: Callable[..., Any] | None = None) -> Any:
    """Make `func(cfg, *args)`, which gives a tensor, the computation of a template.

    The function that comes back takes `*args`; the configuration is the present context's.
    """

    def decorate(compute: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compute)
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                raise TilewrightError(f"the template {task_name!r} takes no keyword arguments")
            noted = TaskExtractEnv.current
            if noted is not None and noted.tracing:
                noted.add_task(task_name, args)
            workload = args_to_workload(args, task_name)
            config = DispatchContext.current.query(Target.current(allow_none=True), workload)
            out = compute(config, *args)
            first = out[0] if isinstance(out, (list, tuple)) else out
            first.op.attrs[_ATTRIBUTE] = workload
            return out

        _part(task_name).fcompute = call
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

        _part(task_name).fschedule = call
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


class TaskExtractEnv:
    """Notes the tasks whose computations are called in the body of `with env:`, each once unless
    `allow_duplicate`: names with arguments, as `autotvm.task.create` takes them."""

    current: TaskExtractEnv | None = None

    def __init__(self, allow_duplicate: bool = False) -> None:
        self.allow_duplicate = allow_duplicate
        self.task_collection: list[tuple[str, tuple[Any, ...]]] = []
        self.wanted_relay_ops: Any = None
        self.tracing = False

    def __enter__(self) -> TaskExtractEnv:
        self.task_collection = []
        self.tracing = True
        return self

    def __exit__(self, *exc: object) -> None:
        self.tracing = False

    def reset(self, wanted_relay_ops: Any = None) -> None:
        """Forget the tasks. `wanted_relay_ops` is kept and says nothing here."""
        self.task_collection = []
        self.wanted_relay_ops = wanted_relay_ops

    def add_task(self, task_name: str, args: Sequence[Any]) -> None:
        """Note a task. Raises TilewrightError where an argument is no number, text, None, tensor of
        constant shape, or tuple of such."""
        key = (task_name, serialize_args(args))
        if self.allow_duplicate or key not in self.task_collection:
            self.task_collection.append(key)

    def get_tasks(self) -> list[tuple[str, tuple[Any, ...]]]:
        """The tasks, in the order in which they were met."""
        return self.task_collection

    @staticmethod
    def get(allow_duplicate: bool = False) -> TaskExtractEnv:
        """The one environment of this process, made by the first call."""
        if TaskExtractEnv.current is None:
            TaskExtractEnv.current = TaskExtractEnv()
        TaskExtractEnv.current.allow_duplicate = allow_duplicate
        return TaskExtractEnv.current
