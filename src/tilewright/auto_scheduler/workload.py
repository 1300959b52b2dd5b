"""Workloads by name: functions that give the tensors of a computation, and keys that name one.

A workload key is JSON: `["matmul", 128, 128, 64]` is a call of the registered function, and
`["0f3d5a...", [128, 64], ...]` names tensors by the hash of their structure (ComputeDAG). Records
of measurements speak of computations by such keys.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import pickle
import pickletools
import threading
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar, overload

from ..base.errors import TilewrightError, UsageError
from ..base.files import open_file
from ..base.redefined import is_redefined
from ..loopir.expr import FloatImm, IntImm, StringImm, const_int
from ..rt.files import write_atomically
from ..tensor.compute import placeholder
from ..tensor.serial import load_json, save_json
from ..tensor.tensor import Tensor

Workload = Callable[..., Any]
F = TypeVar("F", bound=Workload)

_TENSOR = "TENSOR"
_CALLS = {"REDUCE", "NEWOBJ", "NEWOBJ_EX", "BUILD", "INST", "OBJ", "EXT1", "EXT2", "EXT4"}
WORKLOAD_FUNC_REGISTRY: dict[str, Any] = {}
"""Functions by name, and lists of tensors by the keys that they are registered for."""
_lock = threading.Lock()


@overload
def register_workload(func_name: F, f: None = None, override: bool = False) -> F: ...


@overload
def register_workload(
    func_name: str, f: None = None, override: bool = False
) -> Callable[[F], F]: ...


@overload
def register_workload(func_name: str, f: F, override: bool = False) -> F: ...


def register_workload(func_name: Any, f: Any = None, override: bool = False) -> Any:
    """Make a function known as a workload: a decorator, bare or with a name.

    The function takes numbers, texts and tuples of them, and returns the list of tensors, inputs
    and results, that are the arguments of what will be built. `override`: take the place of another
    function of that name, which is an error otherwise, but where a notebook defines it again. The
    function is returned as it is. Raises
    TilewrightError where func_name is neither text nor a function, where a function without a name
    is registered without one.
    """
    if callable(func_name):
        return register_workload(_name_of(func_name), func_name, override)
    if not isinstance(func_name, str) or not func_name:
        raise TilewrightError(f"a workload is registered by its name, got {func_name!r}")
    name = func_name

    def register(function: Workload) -> Workload:
        if not callable(function):
            raise TilewrightError(f"the workload {name!r} has to be a function, got {function!r}")
        with _lock:
            known = WORKLOAD_FUNC_REGISTRY.get(name)
            again = known is function or is_redefined(known, function)
            if known is not None and not again and not override:
                raise TilewrightError(
                    f"there is a workload {name!r} already, {_place(known)}: choose another name, "
                    f'@register_workload("..."), or replace it with override=True'
                )
            WORKLOAD_FUNC_REGISTRY[name] = function
        return function

    return register if f is None else register(f)


def registered_workloads() -> list[str]:
    """The names of the registered functions."""
    with _lock:
        return sorted(name for name, known in WORKLOAD_FUNC_REGISTRY.items() if callable(known))


def make_workload_key(func: str | Workload, args: Any) -> str:
    """The key of a call of a registered function, given by itself or its name.

    `args`: None, bool, int, float, str, lists, tuples and dicts of such, and tensors, which stand
    for new placeholders of their shape and dtype. TilewrightError for other arguments and for a
    function that is not registered.
    """
    name = func if isinstance(func, str) else _registered_name(func)
    if name not in WORKLOAD_FUNC_REGISTRY:
        raise _unknown(name)
    items = args if isinstance(args, (list, tuple)) else [args]
    plain = [_plain(a, f"argument {n} of workload {name!r}") for n, a in enumerate(items)]
    return json.dumps([name, *plain])


def register_workload_tensors(
    workload_key: str, tensors: Sequence[Tensor], override: bool = True
) -> str:
    """Let a key (as ComputeDAG.workload_key gives it) stand for these tensors in this process.

    Returns the key, which may be any text. Without `override` a key that stands for other tensors
    is an error. Raises TilewrightError where tensors are no list of tensors, or the key stands for
    others and override is not set, or workload_key is no text.
    """
    if not isinstance(workload_key, str) or not workload_key:
        raise TilewrightError(f"a workload key is text, got {workload_key!r}")
    items = list(tensors)
    if not items or not all(isinstance(t, Tensor) for t in items):
        raise TilewrightError(f"a workload is a list of tensors, got {tensors!r}")
    with _lock:
        known = WORKLOAD_FUNC_REGISTRY.get(workload_key)
        if known is not None and not override and [*map(id, known)] != [*map(id, items)]:
            raise TilewrightError(
                f"the workload {workload_key} stands for other tensors already; replace them with "
                "override=True"
            )
        WORKLOAD_FUNC_REGISTRY[workload_key] = items
    return workload_key


def workload_key_to_tensors(workload_key: str) -> list[Tensor]:
    """The tensors that a key stands for, made anew where it is a call of a function. Raises
    TilewrightError where the workload's function does not take the arguments, or does not give
    tensors, where workload_key is no workload key, and UsageError where the workload is not
    registered."""
    with _lock:
        known = WORKLOAD_FUNC_REGISTRY.get(workload_key)
    if isinstance(known, list):
        return list(known)
    name, *args = _read(workload_key)
    function = WORKLOAD_FUNC_REGISTRY.get(name)
    if function is None:
        raise _unknown(name)
    values = [_live(a) for a in args]
    try:
        inspect.signature(function).bind(*values)
    except TypeError as error:
        raise TilewrightError(
            f"workload {workload_key}: {_place(function)} does not take these arguments: {error}"
        ) from None
    result = function(*values)
    tensors = list(result) if isinstance(result, (list, tuple)) else [result]
    if not tensors or not all(isinstance(t, Tensor) for t in tensors):
        raise TilewrightError(
            f"the workload {name!r} has to return a list of tensors, inputs and results, such as "
            f"[A, B, C]; it returned {result!r}"
        )
    return tensors


def get_workload_name(workload_key: str) -> str:
    """The name of the function, or the hash, that a key begins with. Raises TilewrightError where
    workload_key is no workload key."""
    return str(_read(workload_key)[0])


def serialize_workload_registry_entry(workload_key: str) -> tuple[str, Any]:
    """What a key, or the name of a function, stands for here, as a pair that can be pickled: a
    function goes by its place, tensors as text. Raises TilewrightError where workload_key is no
    workload key, and UsageError where the workload is not registered."""
    name = workload_key
    if name not in WORKLOAD_FUNC_REGISTRY:
        name = get_workload_name(workload_key)
    known = WORKLOAD_FUNC_REGISTRY.get(name)
    if known is None:
        raise _unknown(name)
    return name, known if callable(known) else save_json(known)


def deserialize_workload_registry_entry(data: tuple[str, Any]) -> None:
    """Make known what `serialize_workload_registry_entry` gave, unless it is."""
    name, value = data
    if name not in WORKLOAD_FUNC_REGISTRY:
        WORKLOAD_FUNC_REGISTRY[name] = load_json(value) if isinstance(value, str) else value


def save_workload_func_registry(filename: str | os.PathLike[str]) -> None:
    """Write what is registered to a file: functions go by their places, tensors as text.
    TilewrightError for a function that has none, as one inside of another."""
    with _lock:
        entries = dict(map(serialize_workload_registry_entry, WORKLOAD_FUNC_REGISTRY))
    try:
        write_atomically(filename, pickle.dumps(entries))
    except (pickle.PicklingError, AttributeError) as problem:
        raise TilewrightError(f"a workload cannot be written to a file: {problem}") from None


def load_workload_func_registry(filename: str | os.PathLike[str]) -> None:
    """Let a file, as `save_workload_func_registry` writes it, say what is registered, and nothing
    else be. The modules of its functions are imported; what would call one is a TilewrightError."""
    with open_file(filename) as file:
        data = file.read()
    try:
        calls = {op.name for op, _, _ in pickletools.genops(data)} & _CALLS
        if calls:
            raise TilewrightError(f"{filename} is no registry: it calls functions")
        entries = dict(pickle.loads(data))
    except (ValueError, TypeError, pickle.UnpicklingError, ImportError, AttributeError) as problem:
        raise TilewrightError(f"{filename} is no registry: {problem}") from None
    with _lock:
        WORKLOAD_FUNC_REGISTRY.clear()
        for entry in entries.items():
            deserialize_workload_registry_entry(entry)


def _read(workload_key: Any) -> list[Any]:
    """The parts of a key; TilewrightError where it is none."""
    try:
        parts = json.loads(workload_key)
    except (TypeError, ValueError):
        parts = None
    if not isinstance(parts, list) or not parts or not isinstance(parts[0], str):
        raise TilewrightError(
            f'{workload_key!r} is no workload key; one looks like ["matmul", 128, 128, 64] (JSON) '
            "and is made by make_workload_key(function, arguments)"
        )
    return parts


def _unknown(name: str) -> UsageError:
    if len(name) == 32 and all(c in "0123456789abcdef" for c in name):
        return UsageError(
            f"no tensors are registered for the workload of hash {name}: "
            "register_workload_tensors(key, tensors), or make the task with compute_dag="
        )
    near = get_close_matches(name, registered_workloads())
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return UsageError(
        f"there is no workload {name!r}{hint}: import the module that defines it, or put "
        "@auto_scheduler.register_workload before its function"
    )


def _name_of(function: Workload) -> str:
    name = getattr(function, "__qualname__", None) or getattr(function, "func_name", None)
    if not isinstance(name, str) or "<lambda>" in name:
        raise TilewrightError(
            f"{function!r} has no name to register it by: "
            'register_workload("name", function) gives it one'
        )
    return name


def _registered_name(function: Any) -> str:
    """The name that a function is registered by, which need not be its own."""
    for name, known in list(WORKLOAD_FUNC_REGISTRY.items()):
        if known is function:
            return name
    if not callable(function):
        raise TilewrightError(
            f"a workload is given by its function or that one's name, got {function!r}"
        )
    return _name_of(function)


def _place(function: Workload) -> str:
    module = getattr(function, "__module__", "?")
    code = getattr(function, "__code__", None)
    line = f", line {code.co_firstlineno}" if code is not None else ""
    return f"{getattr(function, '__qualname__', repr(function))} in {module}{line}"


def _plain(value: Any, what: str) -> Any:
    """An argument as JSON data."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (IntImm, FloatImm, StringImm)):
        return _plain(value.value, what)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(v, what) for v in value]
    if isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
        return {k: _plain(v, what) for k, v in value.items()}
    if isinstance(value, Tensor):
        shape = [const_int(n) for n in value.shape]
        if None in shape:
            raise TilewrightError(
                f"{what} is the tensor {value.name} of shape {list(value.shape)}: a search is for "
                "one size, give numbers"
            )
        return [_TENSOR, shape, value.dtype]
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return _plain(value.item(), what)  # NumPy's numbers
    raise TilewrightError(
        f"{what} cannot be written into a key: it is {value!r}. Give None, bool, finite numbers, "
        "str, tensors of constant shape, or lists, tuples and dicts of these, and let the function "
        "make the rest from them"
    )


def _live(value: Any) -> Any:
    """An argument as the function gets it: tuples for lists, new placeholders for tensors."""
    if isinstance(value, list):
        if len(value) == 3 and value[0] == _TENSOR:
            return placeholder(tuple(value[1]), value[2], name="placeholder")
        return tuple(map(_live, value))
    if isinstance(value, dict):
        return {k: _live(v) for k, v in value.items()}
    return value
