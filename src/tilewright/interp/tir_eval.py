"""Run loop-IR functions on NumPy arrays, one step after another: the IR's executable meaning.

The function becomes Python source text once (kept with the function), before or after flattening,
with scalar or vector expressions. All loops run serially, threads one after another.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..base.deep import deep_call
from ..base.dtype import parse
from ..base.errors import ArgumentError
from ..loopir.buffer import Buffer
from ..loopir.printer import script
from ..loopir.stmt import PrimFunc
from .tir_eval_rt import EvalError as EvalError
from .tir_eval_rt import Return, to_float
from .tir_eval_stmt import FunctionCode

_numbers = itertools.count()
_compiled: WeakKeyDictionary[PrimFunc, _Compiled] = WeakKeyDictionary()
_CONTEXT = 12  # lines of the program around a failing one in a message


class _Compiled:
    """A function as Python code, and the statement that each of its lines belongs to."""

    def __init__(self, func: PrimFunc) -> None:
        code = FunctionCode(func)
        code.write()
        self.file = f"<tir_eval {func.name} {next(_numbers)}>"
        self.source = "\n".join([" " * line.pad + line.code for line in code.lines])
        self.owners = [line.owner for line in code.lines]
        scope = dict(code.globals)
        exec(compile(self.source, self.file, "exec"), scope)
        self.run: Callable[..., Any] = scope["run"]


def tir_eval(
    func: PrimFunc, *args: Any, extern: Mapping[str, Callable[..., Any]] | None = None
) -> Any:
    """Run `func`; arrays among its arguments are read and written in place.

    `args` has an array for each parameter in `buffer_map` (dtype and shape as declared; C order
    unless the buffer has strides) and a number for each other one. `extern` maps names to the
    Python functions that stand for `call_extern`, `call_packed`, LLVM's and users' own intrinsics
    (by full name, "tir.mylog"); pointers reach them as flat arrays. Gives the value of `tir.ret`.

    Raises ArgumentError for arguments that do not fit, EvalError, which shows the statement, for an
    access out of bounds, a division by zero, a failed assert or a function missing in `extern`.
    """
    compiled = _compiled.get(func)
    if compiled is None:
        compiled = _compiled[func] = deep_call(_Compiled, func)
    if len(args) != len(func.params):
        names = ", ".join([p.name for p in func.params])
        raise ArgumentError(
            f"{func.name} takes {len(func.params)} arguments ({names}), got {len(args)}"
        )
    values = [_bind(func, n, value) for n, value in enumerate(args)]
    try:
        with np.errstate(all="ignore"):
            compiled.run(extern or {}, *values)
    except Return as result:
        return result.value
    except (EvalError, ZeroDivisionError, ValueError, IndexError, OverflowError) as error:
        raise EvalError(_message(func, compiled, error)) from error
    return None


def source(func: PrimFunc) -> str:
    """The Python source text that tir_eval makes of a function."""
    return deep_call(_Compiled, func).source


def _bind(func: PrimFunc, number: int, value: Any) -> Any:
    """An argument as the made code takes it."""
    p = func.params[number]
    b = func.buffer_map.get(p)
    t = parse(p.dtype)
    if b is None and not t.is_handle:
        if t.is_float:
            return to_float(t.text)(value)
        return bool(value) if t.is_bool else int(value)
    array = value
    if not isinstance(array, np.ndarray):
        try:
            array = np.from_dlpack(value)
        except (AttributeError, TypeError, BufferError):
            raise ArgumentError(
                f"argument {p.name} of {func.name} must be an array, got {type(value).__name__}"
            ) from None
    if b is None:
        return _flat(array, f"argument {p.name}"), array.shape, ()
    return _bind_buffer(b, array)


def _bind_buffer(b: Buffer, array: Any) -> Any:
    what = f"argument {b.name}"
    wanted = parse(b.dtype)
    lanes = (wanted.lanes,) if wanted.lanes > 1 else ()
    if array.dtype != wanted.numpy:
        raise ArgumentError(f"{what} must be {wanted.element}, got {array.dtype}")
    if array.ndim != b.ndim + len(lanes) or array.shape[b.ndim :] != lanes:
        extra = f" and {wanted.lanes} lanes" if lanes else ""
        raise ArgumentError(f"{what} must have {b.ndim} dimensions{extra}, got {array.shape}")
    if not b.strides:
        return _flat(array, what), array.shape[: b.ndim], ()
    item = array.itemsize
    if any(s < 0 or s % item for s in array.strides):
        raise ArgumentError(f"{what} has strides {array.strides} that are no multiple of {item}")
    steps = tuple(s // item for s in array.strides)
    size = 0 if 0 in array.shape else 1 + sum((d - 1) * s for d, s in zip(array.shape, steps))
    flat = np.lib.stride_tricks.as_strided(array, (size,), (item,))
    return flat, array.shape, steps


def _flat(array: Any, what: str) -> Any:
    if not array.flags.c_contiguous:
        raise ArgumentError(f"{what} must be contiguous (C order): its buffer has no strides")
    return array.reshape(-1)


def _message(func: PrimFunc, compiled: _Compiled, error: BaseException) -> str:
    """What went wrong, and the statement marked in the printed function."""
    text = f"tir_eval of {func.name}: {error}"
    owner = None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == compiled.file and frame.lineno is not None:
            owner = compiled.owners[frame.lineno - 1]
    if owner is None:
        return text
    lines = script(func, {owner: "here"}).split("\n")
    at = next((n for n, line in enumerate(lines) if line.endswith("# <-- here")), 0)
    first, last = max(0, at - _CONTEXT), at + _CONTEXT
    shown = lines[first : last + 1]
    if first:
        shown.insert(0, "...")
    if last < len(lines) - 1:
        shown.append("...")
    return text + "\n" + "\n".join(shown)
