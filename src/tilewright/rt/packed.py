"""Python functions that compiled code calls by name.

Compiled code calls `i32 tw_call_packed(ptr name, ptr args, i32 n)`: `name` is a C string; `args` is
an array of n + 1 values, each a struct {i64 code, i64 payload}:

    code 0  int      payload: the value
    code 1  float    payload: bits of the double
    code 2  array    payload: address of an array handle
    code 3  string   payload: address of a C string
    code 4  handle   payload: an address
    code -1 none

The last value, args[n], is the result, with code -2 before: the callee writes its code and payload
there (int or bool: code 0, float: code 1, anything else but None is an error). An array handle is
a struct {ptr data, i32 ndim, i32 code, i32 bits, i32 lanes, ptr shape, ptr strides} with DLPack's
type codes, shape and strides (in elements; null: compact) int64; the callee sees it as an NDArray
over that memory, for the time of the call.

It returns 0, or a negative number when the function raised (or does not exist): the exception is
kept under that number. Compiled code returns it from its entry at once, and the runtime raises
there what is kept under it; so a call raises what its own callbacks raised, whatever threads they
ran on. Of threads of one parallel loop that fail, the first gives the number; for each other one
compiled code calls with no name and its number as n, and that exception is dropped. Below
MEMORY_IS_KEPT the function has kept a view of an array that it was lent (see `lent`): then compiled
code does not free its memory either. Where the result still has code -2, a signal's handler raised
before the function could begin, and Python told nobody but stderr: compiled code returns -2.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import traceback
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar, overload

from ..base.errors import InternalError, MissingFunctionError, TilewrightError
from ..base.redefined import is_redefined
from . import blas, random_fill, sorting
from .array import NDArray
from .dlpack import dtype_text
from .lent import Loan

INT, FLOAT, ARRAY, STRING, HANDLE, NONE = 0, 1, 2, 3, 4, -1

F = TypeVar("F", bound=Callable[..., Any])

_functions: dict[str, Callable[..., Any]] = {
    **blas.FUNCTIONS,
    **random_fill.FUNCTIONS,
    **sorting.FUNCTIONS,
}
MEMORY_IS_KEPT = -(1 << 30)
_INTERRUPTED = -2

_numbers = itertools.count()
_pending: dict[int, BaseException] = {}
_MOST_PENDING = 4096
_double = struct.Struct("d")
_long = struct.Struct("q")


class _Value(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int64), ("payload", ctypes.c_int64)]


class _Handle(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_int32),
        ("bits", ctypes.c_int32),
        ("lanes", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]


@overload
def register_func(name: F, f: None = None, override: bool = False) -> F: ...
@overload
def register_func(name: str, f: F, override: bool = False) -> F: ...
@overload
def register_func(name: str, f: None = None, override: bool = False) -> Callable[[F], F]: ...
def register_func(name: Any, f: Any = None, override: bool = False) -> Any:
    """Register a Python function under a name that compiled code can call.

    `register_func("name", f)`, or as a decorator: `@register_func("name")`, `@register_func`
    (which takes the function's own name). TilewrightError where the name is taken, unless
    `override` is set, or a notebook defines the same function again.
    """
    if callable(name):
        return register_func(name.__name__, name, override)
    if f is None:
        return lambda function: register_func(name, function, override)
    known = _functions.get(name)
    if known is not None and not override and not is_redefined(known, f):
        raise TilewrightError(
            f"a function named {name!r} is registered already; pass override=True to replace it"
        )
    _functions[name] = f
    return f


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """The function registered under a name; None, or TilewrightError, where there is none."""
    found = _functions.get(name)
    if found is None and not allow_missing:
        near = get_close_matches(name, _functions, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"register_func({name!r}, f) registers one"
        raise MissingFunctionError(
            f"Cannot find global function {name}: no function is registered under the name "
            f"{name!r}; {hint}"
        )
    return found


def remove_global_func(name: str) -> None:
    """Forget the function of that name, if there is one."""
    _functions.pop(name, None)


def list_global_func_names() -> list[str]:
    """The names of all registered functions, sorted."""
    return sorted(_functions)


def _keep(error: BaseException, memory_is_kept: bool) -> int:
    """Keep an exception until compiled code has returned; returns its number."""
    number = -3 - next(_numbers) % (1 << 29)
    if memory_is_kept:
        number += MEMORY_IS_KEPT
    _pending[number] = error
    while len(_pending) > _MOST_PENDING:  # who calls compiled code by its address takes none
        _pending.pop(next(iter(_pending)), None)
    return number


def take_pending(number: int) -> BaseException:
    """The exception that made compiled code return this negative number."""
    error = _pending.pop(number, None)
    if error is None and number == _INTERRUPTED:
        return KeyboardInterrupt("as compiled code called a Python function")
    return error or InternalError("compiled code reports an exception that nobody kept")


def _read(value: _Value, loan: Loan) -> Any:
    code, payload = value.code, value.payload
    if code in (INT, HANDLE):
        return payload
    if code == FLOAT:
        return _double.unpack(_long.pack(payload))[0]
    if code == ARRAY:
        return _read_array(_Handle.from_address(payload), loan)
    if code == STRING:
        return ctypes.string_at(payload).decode()
    if code == NONE:
        return None
    raise InternalError(f"a packed argument has unknown type code {code}")


def _read_array(handle: _Handle, loan: Loan) -> NDArray:
    ndim = handle.ndim
    shape = handle.shape[:ndim]
    strides = handle.strides[:ndim] if handle.strides else None
    dtype = dtype_text(handle.code, handle.bits, handle.lanes)
    return loan.array(handle.data or 0, shape, strides, dtype)


def _write(value: _Value, result: Any) -> None:
    if result is None:
        value.code, value.payload = NONE, 0
    elif isinstance(result, float):
        value.code, value.payload = FLOAT, _long.unpack(_double.pack(result))[0]
    elif hasattr(result, "__index__"):
        value.code, value.payload = INT, int(result)
    elif hasattr(result, "__float__"):
        value.code, value.payload = FLOAT, _long.unpack(_double.pack(float(result)))[0]
    else:
        raise TilewrightError(f"it returned {type(result).__name__}, not a number or None")


def _call_packed(name: bytes | None, args: int, count: int) -> int:
    try:
        if name is None:
            _pending.pop(count, None)
            return 0
        loan = Loan()
        try:
            _call(name.decode(), args, count, loan)
        except BaseException as error:  # even KeyboardInterrupt has to cross the native frames
            kept = loan.end()
            if kept:  # by the frames of the function, most likely
                _clear_frames(error)
                kept = loan.is_held()
            return _keep(error, kept)
        if loan.end() and loan.is_held():
            return _keep(_kept_view(name.decode()), True)
    except BaseException as error:
        return _keep(error, False)
    return 0


def _call(name: str, args: int, count: int, loan: Loan) -> None:
    function = get_global_func(name)
    values = (_Value * (count + 1)).from_address(args)
    result = function(*[_read(values[i], loan) for i in range(count)])
    try:
        _write(values[count], result)
    except TilewrightError as error:
        raise TilewrightError(f"function {name!r}: {error}") from None


def _clear_frames(error: BaseException | None) -> None:
    """Drop the local variables of the frames that an exception, and what it came from, hold."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _kept_view(name: str) -> TilewrightError:
    return TilewrightError(
        f"function {name!r} keeps a view of an array that it was lent for the time of the call; "
        "keep a copy instead: a.numpy()"
    )


_entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int32)(
    _call_packed
)


def call_packed_address() -> int:
    """Address of `tw_call_packed`."""
    return int(ctypes.cast(_entry, ctypes.c_void_p).value or 0)
