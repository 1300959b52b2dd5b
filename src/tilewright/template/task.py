"""Templates by name, and tasks: a template with its arguments and target."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import signature
from typing import Any, TypeVar, overload

from ..base.errors import TilewrightError
from ..measure.flop import count_flop
from ..target.target import Target
from ..tensor.op import PlaceholderOp
from .context import ApplyConfig, DispatchContext
from .space import ConfigSpace, InstantiationError
from .workload import (
    Workload,
    args_to_workload,
    described,
    deserialize_args,
    serialize_args,
)

Template = Callable[..., Any]
F = TypeVar("F", bound=Template)

_TEMPLATES: dict[str, Template] = {}
_OWN = {"conv2d_nchw_spatial_pack.mali": ".conv2d_mali"}  # loaded when first asked for


def register_task(name: str, function: Template) -> None:
    """Make a template known: `function(*args)` gives (schedule, arguments)."""
    known = _TEMPLATES.get(name)
    if known is not None and _place(known) != _place(function):
        raise TilewrightError(
            f"there is a template {name!r} already, in {_place(known)[0]}; choose another name"
        )
    _TEMPLATES[name] = function


def _place(function: Template) -> tuple[str, str]:
    """Where a function is written: a module that is loaded again replaces its own."""
    return (function.__module__, getattr(function, "__qualname__", type(function).__qualname__))


class TaskTemplate:
    """A template: `fcustomized`, or else two functions, `fcompute(*args)` that gives tensors and
    `fschedule(tensors)` that gives their schedule. Calling it gives (schedule, arguments), the
    result before the inputs."""

    def __init__(self) -> None:
        self.fcompute: Callable[..., Any] | None = None
        self.fschedule: Callable[..., Any] | None = None
        self.fcustomized: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        given = deserialize_args(args)
        if self.fcustomized is not None:
            made: tuple[Any, list[Any]] = self.fcustomized(*given, **kwargs)
            return made
        if self.fcompute is None or self.fschedule is None:
            missing = "compute" if self.fcompute is None else "schedule"
            raise TilewrightError(f"a template has no {missing}: use register_topi_{missing}")
        out = self.fcompute(*given, **kwargs)
        return self.fschedule([out]), [out, *_inputs_of(out)]


def _inputs_of(out: Any) -> list[Any]:
    """The placeholders that a tensor is computed from, the nearest first."""
    found, left, seen = [], deque([out]), {out}
    while left:
        tensor = left.popleft()
        if isinstance(tensor.op, PlaceholderOp):
            found.append(tensor)
        new = [t for t in dict.fromkeys(tensor.op.input_tensors) if t not in seen]
        seen.update(new)
        left.extend(new)
    return found


def find_template(name: str) -> Template | None:
    """The template of a name; None where there is none."""
    return _TEMPLATES.get(name)


def find_task(name: str) -> Template:
    if name in _OWN and name not in _TEMPLATES:
        import_module(_OWN[name], __package__)
    found = _TEMPLATES.get(name)
    if found is None:
        known = ", ".join(sorted(_TEMPLATES)) or "none"
        raise TilewrightError(
            f"there is no template {name!r}; import the module that defines it. Known: {known}"
        )
    return found


@overload
def template(task_name: F, func: None = None) -> F: ...


@overload
def template(task_name: str, func: None = None) -> Callable[[F], F]: ...


@overload
def template(task_name: str, func: F) -> F: ...


def template(task_name: Any, func: Any = None) -> Any:
    """Make a function a template: `@template("matmul")`, or bare, `@template`.

    The function takes data and tensors, asks for its knobs with `get_config()`, and returns
    (schedule, arguments). Calling it afterwards gives the schedule with the configuration of the
    present context, for instance `with apply_history_best("log.json"):`.
    """
    if callable(task_name):
        return template(task_name.__name__, task_name)
    name = str(task_name)

    def decorate(function: Template) -> Template:
        register_task(name, function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                raise TilewrightError(
                    f"the template {name!r} takes no keyword arguments: they are not part of its "
                    "workload"
                )
            workload = args_to_workload(args, name)
            config = DispatchContext.current.query(Target.current(allow_none=True), workload)
            with ApplyConfig(config):
                return function(*args)

        call.task_name = name  # type: ignore[attr-defined]
        return call

    return decorate if func is None else decorate(func)


class Task:
    """A template, its arguments and what it is tuned for.

    `config_space`: its configurations; `flop`: operations of one run; `workload`: name and
    arguments as data. Raises TilewrightError where an argument is no number, text, None, tensor of
    constant shape, or tuple of such.
    """

    __slots__ = ("args", "config_space", "flop", "kwargs", "name", "target", "target_host")

    def __init__(self, name: str, args: Sequence[Any]) -> None:
        self.name = name
        self.args = serialize_args(args)
        self.kwargs: dict[str, Any] = {}
        self.config_space = ConfigSpace()
        self.flop: float = 0
        self.target: Target | None = None
        self.target_host: Target | None = None

    @property
    def workload(self) -> Workload:
        """The name of the template and its arguments: what records know the task by."""
        return (self.name, *self.args)

    @property
    def func(self) -> Template:
        """The template."""
        return find_task(self.name)

    def instantiate(self, config: Any) -> tuple[Any, list[Any]]:
        """(schedule, arguments) under a configuration; InstantiationError where the template
        refuses it. Raises TilewrightError where the template does not give (schedule,
        arguments)."""
        config.errors = []
        config.flop = 0
        with ApplyConfig(config):
            schedule, args = _call(self, self.target)
        if not config.valid():
            raise InstantiationError("; ".join(config.errors))
        return schedule, list(args)

    def __repr__(self) -> str:
        return described(self)


def _call(task: Task, target: Target | None) -> tuple[Any, Sequence[Any]]:
    args = deserialize_args(task.args)
    try:
        signature(task.func).bind(*args)
    except TypeError as problem:
        raise TilewrightError(f"the template {task.name!r}: {problem}; it got {args!r}") from None
    if target is None:
        found = task.func(*args)
    else:
        with target:
            found = task.func(*args)
    if not isinstance(found, tuple) or len(found) != 2:
        raise TilewrightError(
            f"the template {task.name!r} has to return (schedule, arguments), got {found!r}"
        )
    return found


class FlopCalculationError(TilewrightError):
    """The operations of a schedule cannot be counted."""


def compute_flop(sch: Any) -> int:
    """How many operations on elements a schedule's results take; FlopCalculationError where none
    can be counted, as of a computation that only moves elements."""
    outputs = [sch.by_id[i].origin_op for i in sch.output_ids]
    try:
        count = count_flop(outputs)
    except TilewrightError as problem:
        raise FlopCalculationError(str(problem)) from None
    if not count:
        raise FlopCalculationError(
            "Cannot find float number operation in this operator: say how many there are with "
            "cfg.add_flop(...)"
        )
    return count


def create(
    task_name: str | Template, args: Sequence[Any], target: Any, target_host: Any = None
) -> Task:
    """A task of a template, by name or the template itself, with its space of configurations.

    `target`: text or a Target. TilewrightError where no template has that name, it does not
    take `args`, or gives no schedule with its tensors.
    """
    if callable(task_name):
        task_name = str(getattr(task_name, "task_name", task_name.__name__))
    task = Task(task_name, args)
    chosen = Target(target, target_host)
    with ApplyConfig(task.config_space):
        schedule, _ = _call(task, chosen)
    task.config_space.errors = []  # of the first choices; others may do
    outputs = [schedule.by_id[i].origin_op for i in schedule.output_ids]
    task.flop = task.config_space.flop or count_flop(outputs)
    task.target, task.target_host = chosen, chosen.host
    return task
