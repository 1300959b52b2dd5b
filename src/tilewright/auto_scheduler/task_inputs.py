"""Data of a task's own: what some of its inputs are while candidates are measured.

A sparse product, say, cannot run on indices at random. `SearchTask(task_inputs={"name": array})`
keeps such arrays here, by workload and by the name of the placeholder that they are for.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..rt.array import NDArray, array
from ..tensor.op import PlaceholderOp
from ..tensor.tensor import Tensor

TASK_INPUT_BUFFER_TABLE: dict[str, dict[str, Any]] = {}
"""Arrays by workload key and name."""
TASK_INPUT_CHECK_FUNC_REGISTRY: dict[str, Callable[..., Mapping[Tensor, str]]] = {}


def register_task_input_buffer(
    workload_key: str,
    input_name: str,
    input_data: Any,
    overwrite: bool = False,
    save_to_file: bool = False,
) -> Any:
    """Keep an array (NDArray or NumPy's) as the input `input_name` of a workload; the array that is
    kept.

    One that is there already stays unless `overwrite`. `save_to_file`: also write it to a file
    `NAME.SHAPE_DTYPE.npy` here, where `get_task_input_buffer` finds it in later processes.
    """
    known = TASK_INPUT_BUFFER_TABLE.setdefault(workload_key, {})
    if input_name in known and not overwrite:
        return known[input_name]
    data = input_data if isinstance(input_data, NDArray) else array(np.asarray(input_data))
    known[input_name] = data
    if save_to_file:
        values = data.numpy()
        shape = "_".join(map(str, values.shape))
        np.save(f"{input_name}.{shape}_{values.dtype}.npy", values)
    return data


def get_task_input_buffer(workload_key: str, input_name: str) -> Any:
    """The array that was kept for an input; one saved to a file here, else. TilewrightError where
    there is none."""
    known = TASK_INPUT_BUFFER_TABLE.setdefault(workload_key, {})
    if input_name not in known:
        files = sorted(Path().glob(f"{input_name}.*.npy"))
        if not files:
            raise TilewrightError(
                f"there is no task input {input_name!r} for the workload {workload_key}: give it "
                "with SearchTask(task_inputs={...}) or register_task_input_buffer"
            )
        known[input_name] = array(np.load(files[0]))
    return known[input_name]


def register_task_input_check_func(func_name: Any, f: Any = None, override: bool = False) -> Any:
    """Make a function known that finds the special inputs of a computation: from its tensors, a
    dict of placeholders and names. A decorator, bare or with a name. Raises TilewrightError where
    func_name is neither text nor a function."""
    if callable(func_name):
        return register_task_input_check_func(func_name.__qualname__, func_name, override)
    if not isinstance(func_name, str):
        raise TilewrightError(f"a function is registered by its name, got {func_name!r}")

    def register(function: Any) -> Any:
        known = TASK_INPUT_CHECK_FUNC_REGISTRY.get(func_name)
        if known is not None and known is not function and not override:
            raise TilewrightError(
                f"{func_name!r} has been registered already; replace it with override=True"
            )
        TASK_INPUT_CHECK_FUNC_REGISTRY[func_name] = function
        return function

    return register if f is None else register(f)


def prepare_input_map(args: Sequence[Tensor], workload_key: str | None = None) -> dict[Tensor, str]:
    """Which placeholders are special inputs, and their names: those with names of their own, and
    what the registered functions find. `workload_key` is not needed, as in TVM."""
    del workload_key
    inputs = (t for t in args if isinstance(t.op, PlaceholderOp))
    found = {t: t.op.name for t in inputs if t.op.name != "placeholder"}
    for function in TASK_INPUT_CHECK_FUNC_REGISTRY.values():
        found.update(function(list(args)))
    return found


def register_inputs(task: Any, given: Any, overwrite: bool, save: bool) -> tuple[str, ...]:
    """Keep the inputs of a task: a dict of arrays, or names of such as are kept; the names."""
    if isinstance(given, Mapping):
        for name, data in given.items():
            register_task_input_buffer(task.workload_key, name, data, overwrite, save)
    elif given is not None and not isinstance(given, (list, tuple)):
        raise TilewrightError(
            f"task_inputs are a dict from names to arrays, or a list of names, got {given!r}"
        )
    return tuple(given or ())


def input_files(task: Any) -> dict[str, str]:
    """The task's own data as files of NumPy, by the place of the argument."""
    names = task.task_input_names
    tensors = task.compute_dag.tensors
    found = {}
    for tensor, name in prepare_input_map(tensors).items() if names else ():
        if name not in names:
            continue
        data = get_task_input_buffer(task.workload_key, name)
        shape = tuple(int(n) for n in tensor.shape)
        if tuple(data.shape) != shape or data.dtype != tensor.dtype:
            raise TilewrightError(
                f"the task input {name!r} is {data.dtype} of shape {tuple(data.shape)}, the "
                f"placeholder {tensor.dtype} of shape {shape}"
            )
        found[str(tensors.index(tensor))] = _file(data)
    return found


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="tilewright-inputs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


_files: dict[int, tuple[Any, str]] = {}


def _file(data: Any) -> str:
    """The file that holds an array, which workers read; as long as this process lives."""
    known = _files.get(id(data))
    if known is None:
        path = str(_folder() / f"{len(_files)}.npy")
        np.save(path, data.numpy())
        known = _files[id(data)] = (data, path)
    return known[1]
