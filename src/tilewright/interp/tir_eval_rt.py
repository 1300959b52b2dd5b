"""What the Python code that tir_eval makes calls at run time: memory, lanes, divisions, math.

Scalars are Python ints and bools and NumPy float scalars; vectors are NumPy arrays of the lanes'
type; memory is a flat NumPy array. np_ops has the meaning of each operation on arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from . import np_ops

Array = np.ndarray[Any, Any]


class EvalError(TilewrightError):
    """A program did what it must not: an access out of bounds, a division by zero, an assert."""


class Return(Exception):
    """`ret` ends the function."""

    def __init__(self, value: Any) -> None:
        self.value = value


def out_of_bounds(name: str, dimension: int, index: Any, extent: Any) -> Any:
    """Raise for an index outside [0, extent)."""
    where = f"index {index} of dimension {dimension}" if dimension >= 0 else f"offset {index}"
    raise EvalError(f"out of bounds: {where} of {name} is not in [0, {extent})")


def allocate(size: int, dtype: str) -> Array:
    """Memory whose content shows when it is used before it is written: NaN, or a large number."""
    t = parse(dtype).numpy
    memory = np.empty(max(size, 0), t)
    if t.kind == "b":
        memory.fill(True)
    elif t.kind in "iu":
        memory.view(np.uint8).fill(0x6B)
    else:
        memory.fill(np.nan)
    return memory


def view(memory: Array, dtype: str) -> Array:
    """The same memory as another type (whole elements of it)."""
    t = parse(dtype).numpy
    if memory.dtype == t:
        return memory
    raw = memory.view(np.uint8)
    return raw[: raw.size // t.itemsize * t.itemsize].view(t)


def check_size(what: str, given: int, wanted: int) -> None:
    if given != wanted:
        raise EvalError(f"{what} is {given}, but the function expects {wanted}")


# -- integers


def of_data(divide: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """A division that gives zero where the divisor is."""
    return lambda a, b: divide(a, b) if b else 0


def trunc_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a >= 0) == (b >= 0) else -q


def trunc_mod(a: int, b: int) -> int:
    return a - b * trunc_div(a, b)


def shift(name: str, a: int, b: int, bits: int) -> int:
    if not 0 <= b < bits:
        raise EvalError(f"{name} by {b} is not in [0, {bits})")
    return a << b if name == "shift_left" else a >> b


# -- floats


def fmin(a: Any, b: Any) -> Any:
    if a != a:
        return a
    return b if b != b or b < a else a


def fmax(a: Any, b: Any) -> Any:
    if a != a:
        return a
    return b if b != b or b > a else a


def to_float(dtype: str) -> Callable[[Any], Any]:
    """What rounds any scalar to a float type once."""
    t = parse(dtype)
    number: Any = t.numpy.type
    short = t.bits == 16

    def convert(x: Any) -> Any:
        if type(x) is int and not -(2**53) <= x <= 2**53:
            whole = np.asarray(x, dtype=np.int64 if x < 2**63 else np.uint64)
            return np_ops.cast(whole, dtype)[()]
        return np_ops.cast(np.asarray(np.float64(x)), dtype)[()] if short else number(x)

    return convert


def to_int(x: Any, low: int, high: int) -> int:
    """Towards zero; what does not fit becomes the nearest that does, NaN becomes 0."""
    if np.isfinite(x):
        return min(max(int(float(x)), low), high)
    return 0 if x != x else (high if x > 0 else low)


def scalar_math(name: str, dtype: str) -> Callable[..., Any]:
    """A function of np_ops.MATH on scalars: computed in float64, rounded once."""
    function = np_ops.MATH[name]
    rounded = to_float(dtype)
    double = np.float64
    if name == "fma":
        return lambda a, b, c: exact_fma(a, b, c, dtype)
    return lambda *args: rounded(function(*[double(a) for a in args]))


def exact_fma(a: Any, b: Any, c: Any, dtype: str) -> Any:
    """a * b + c rounded once."""
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return a * b + c
    (n1, d1), (n2, d2), (n3, d3) = (float(x).as_integer_ratio() for x in (a, b, c))
    top, bottom = n1 * n2 * d3 + n3 * d1 * d2, d1 * d2 * d3
    if top == 0:
        return a * b + c
    bits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}[dtype]
    # scaled to two bits more than the type has, the last one telling of what was cut off
    scale = bits + 2 - abs(top).bit_length() + bottom.bit_length()
    shifted, below = (abs(top) << scale, bottom) if scale >= 0 else (abs(top), bottom << -scale)
    quotient, rest = divmod(shifted, below)
    if bits == 53:
        value = (abs(top) / bottom) if top > 0 else -(abs(top) / bottom)
        return np.float64(value)
    odd = quotient | (rest != 0)
    return to_float(dtype)(np.ldexp(np.float64(odd if top > 0 else -odd), -scale))


def call_scalar(name: str, dtype: str, args: tuple[Any, ...], dtypes: tuple[str, ...]) -> Any:
    """Any operation of np_ops on scalars."""
    arrays = [np.asarray(a, dtype=parse(t).numpy) for a, t in zip(args, dtypes)]
    result = np_ops.call(name, arrays, dtype)
    return result[()] if parse(dtype).is_float else result.item()


# -- vectors


def ramp(base: int, stride: int, lanes: int, dtype: str) -> Array:
    return (base + stride * np.arange(lanes, dtype=np.int64)).astype(parse(dtype).numpy)


def full(value: Any, lanes: int, dtype: str) -> Array:
    return np.full(lanes, value, parse(dtype).numpy)


def shuffle(vectors: tuple[Any, ...], indices: tuple[int, ...], dtype: str) -> Any:
    t = parse(dtype)
    lanes = [np.atleast_1d(np.asarray(v, t.numpy)) for v in vectors]
    picked = np.concatenate(lanes)[list(indices)]
    if t.lanes > 1:
        return picked
    return picked[0] if t.is_float else picked[0].item()


def vector_binary(name: str, a: Array, b: Array, may_be_zero: bool) -> Array:
    kind: Any = getattr(E, name)
    if not may_be_zero and kind in np_ops.DIVISIONS and a.dtype.kind in "iu" and not np.all(b):
        raise ZeroDivisionError("division by zero")
    return np.asarray(np_ops.BINARY[kind](a, b))


def call_vector(name: str, dtype: str, *args: Any) -> Array:
    return np_ops.call(name, [np.asarray(a) for a in args], parse(dtype).element)


def select(condition: Any, a: Any, b: Any) -> Array:
    return np.asarray(np.where(condition, a, b))


def lanes_in(name: str, dimension: int, index: Any, extent: int, predicate: Any) -> Any:
    """Indices of lanes, checked where the predicate holds and 0 elsewhere; as int64."""
    wide = np.asarray(index).astype(np.int64)
    wrong = (wide < 0) | (wide >= extent)
    if predicate is not None:
        wrong = wrong & predicate
        wide = np.where(predicate, wide, 0)
    if wrong.any():
        bad = np.broadcast_to(wide, wrong.shape)[wrong][0]
        out_of_bounds(name, dimension, bad, extent)
    return wide


def expand(index: Any, lanes: int) -> Array:
    """Indices of the lanes of elements that are vectors themselves."""
    return np.asarray((np.atleast_1d(index)[:, None] * lanes + np.arange(lanes)).reshape(-1))


def gather(memory: Array, index: Any, predicate: Any, lanes: int) -> Array:
    """Lanes read from memory; 0 where the predicate does not hold."""
    index = np.broadcast_to(index, (lanes,))
    if predicate is None:
        return np.asarray(memory[index])
    mask = np.broadcast_to(np.asarray(predicate, bool), (lanes,))
    result = np.zeros(lanes, memory.dtype)
    result[mask] = memory[index[mask]]
    return result


def scatter(memory: Array, index: Any, predicate: Any, value: Any, lanes: int) -> None:
    """Lanes written to memory, where the predicate holds."""
    index, value = np.broadcast_to(index, (lanes,)), np.broadcast_to(value, (lanes,))
    if predicate is not None:
        mask = np.broadcast_to(np.asarray(predicate, bool), (lanes,))
        index, value = index[mask], value[mask]
    memory[index] = value


# -- calls by name


def make_array(
    data: Array, shape: tuple[int, ...], strides: Any, ndim: int, sample: Any, offset: int
) -> Array:
    """An array over memory, as functions of the user get it."""
    flat = data[offset:]
    if isinstance(strides, tuple) and strides:
        steps = tuple(s * flat.itemsize for s in strides)
        return np.lib.stride_tricks.as_strided(flat, shape, steps)
    return flat[: int(np.prod(shape, dtype=np.int64))].reshape(shape)


def call_by_name(
    extern: Mapping[str, Callable[..., Any]], name: str, dtype: str, args: tuple[Any, ...]
) -> Any:
    """Call a function of the table `extern`, or a C math function (`expf`); convert its result."""
    function = extern.get(name)
    t = parse(dtype)
    if function is None:
        plain = name.removeprefix("llvm.").split(".")[0].removeprefix("__")
        plain = _C_NAMES.get(plain, plain)
        if plain not in np_ops.MATH and plain.endswith("f"):
            plain = plain[:-1]
        plain = _C_NAMES.get(plain, plain)
        if plain not in np_ops.MATH or not t.is_float:
            raise EvalError(
                f"tir_eval knows no function {name!r}; pass extern={{{name!r}: function}}"
            )
        if t.lanes > 1:
            return call_vector(plain, dtype, *args)
        return scalar_math(plain, dtype)(*args)
    result = function(*args)
    if t.lanes > 1:
        return np.asarray(result, parse(t.element).numpy)
    if result is None or t.is_handle:
        return 0 if result is None else result
    if t.is_float:
        return to_float(dtype)(result)
    return bool(result) if t.is_bool else int(result)


_C_NAMES = {"fabs": "fabs", "rint": "nearbyint", "expf": "exp", "fmuladd": "fma"}
