"""What a task is made for, as data: names, numbers and tensors' shapes and dtypes in tuples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import TilewrightError
from ..loopir.expr import FloatImm, IntImm, StringImm
from ..tensor.compute import placeholder
from ..tensor.tensor import Tensor

Workload = tuple[Any, ...]


def serialize_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments of a template as data that can be compared and written: a tensor becomes
    ("TENSOR", shape, dtype). TilewrightError for what cannot be written."""
    return tuple(_plain(a) for a in args)


def deserialize_args(args: Sequence[Any]) -> list[Any]:
    """Arguments to call a template with: tensors are new placeholders."""
    found: list[Any] = []
    for arg in args:
        if isinstance(arg, tuple) and arg and arg[0] == "TENSOR":
            found.append(placeholder(arg[1], arg[2], name=f"placeholder_{len(found)}"))
        else:
            found.append(arg)
    return found


def args_to_workload(args: Sequence[Any], task_name: str | None = None) -> Workload:
    """The name of a task and its arguments as data. Raises TilewrightError where an argument is no
    number, text, None, tensor of constant shape, or tuple of such."""
    plain = serialize_args(args)
    return plain if task_name is None else (task_name, *plain)


def from_json(value: Any) -> Any:
    """A workload as JSON gives it back: lists become tuples."""
    return tuple(map(from_json, value)) if isinstance(value, (list, tuple)) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return ("TENSOR", tuple(_plain(d) for d in value.shape), value.dtype)
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    if isinstance(value, (IntImm, FloatImm, StringImm)):
        return value.value
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()  # NumPy's numbers
    raise TilewrightError(
        f"an argument of a template has to be a number, a text, None, a tensor of constant shape, "
        f"or a tuple of such; got {value!r}"
    )


def described(task: Any) -> str:
    """The text of a task, or of the task of a record."""
    return f"Task(func_name={task.name}, args={task.args}, kwargs={{}}, workload={task.workload})"
