"""Saying what is wrong with the arguments of a call.

The checker that `checker` generates only finds that something is wrong; this module looks again,
slowly, and words it. Both follow the rules of `signature`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from ..base.dtype import MOST_SIZE
from ..base.errors import ArgumentError, InternalError
from .adapt import complain, scalar_range, scalar_text
from .array import NDArray, compact_strides, dtype_name, is_compact
from .signature import MOST_NARROW, ArgInfo, Dim, FunctionInfo, dim_value, dims_text


def byte_range(
    address: int, shape: Sequence[int], strides: Sequence[int], itemsize: int
) -> tuple[int, int]:
    """First address of an array's memory and the one behind its last; equal for an empty array."""
    low = high = 0
    for extent, stride in zip(shape, strides):
        if extent == 0:
            return address, address
        span = (extent - 1) * stride
        if span < 0:
            low += span
        else:
            high += span
    return address + low * itemsize, address + (high + 1) * itemsize


def element_strides(array: Any) -> tuple[int, ...] | None:
    """Strides of an NDArray or numpy.ndarray in elements; None where they are no whole elements."""
    if isinstance(array, NDArray):
        return array.strides
    if array.flags.c_contiguous:
        return compact_strides(array.shape)
    size = array.itemsize
    steps: tuple[int, ...] = array.strides
    return None if any(s % size for s in steps) else tuple(s // size for s in steps)


def count_error(info: FunctionInfo, got: int) -> ArgumentError:
    names = ", ".join(a.name for a in info.args)
    plural = "" if len(info.args) == 1 else "s"
    text = f"{info.name}: expected {len(info.args)} argument{plural} ({names}), got {got}"
    if got < len(info.args) and any(a.is_output for a in info.args if a.is_array):
        text += "; arrays for the results are arguments, too"
    return ArgumentError(text)


def explain(info: FunctionInfo, args: Sequence[Any]) -> Exception:
    """The error that these arguments, adapted already, deserve."""
    try:
        _check_scalars(info, args)
        for index, want in enumerate(info.args):
            if want.is_array:
                _check_array(info, index, args[index])
        symbols = _bind(info, args)
        for index, want in enumerate(info.args):
            if want.is_array:
                _check_dims(info, index, args[index], symbols)
                _check_narrow(info, index, args[index])
        _check_overlap(info, args)
    except ArgumentError as error:
        return error
    return InternalError(f"{info.name}: the generated check refuses arguments that are right")


def _check_scalars(info: FunctionInfo, args: Sequence[Any]) -> None:
    for index, want in enumerate(info.args):
        if not want.is_array and type(args[index]) is int:
            low, high = scalar_range(want)
            if not low <= args[index] <= high:
                complain(info, index, f"expected {scalar_text(want)}, got {args[index]}")


def _facts(value: Any) -> tuple[int, bool, str]:
    """Address, whether read-only, dtype."""
    if isinstance(value, NDArray):
        return value._address, value._readonly, value.dtype
    address, readonly = value.__array_interface__["data"]
    return address, readonly, dtype_name(value.dtype)


def _complain_of_dtype(info: FunctionInfo, index: int, got: str) -> NoReturn:
    want = info.args[index].dtype
    complain(info, index, f"expected dtype {want}, got {got}: x.astype({want!r}) converts an array")


def _check_array(info: FunctionInfo, index: int, value: Any) -> None:
    want = info.args[index]
    try:
        address, readonly, dtype = _facts(value)
    except ArgumentError:
        _complain_of_dtype(info, index, value.dtype)
    if dtype != want.dtype:
        _complain_of_dtype(info, index, dtype)
    if len(value.shape) != len(want.shape):
        complain(
            info,
            index,
            f"expected {len(want.shape)} dimensions, shape {dims_text(want.shape)}, "
            f"got {len(value.shape)}, shape {value.shape}",
        )
    if want.is_output and readonly:
        complain(info, index, "the function writes it, got a read-only array")
    compact = want.strides is None or is_compact(value.shape, element_strides(value) or ())
    if address % (want.alignment if compact else want.itemsize):
        complain(
            info,
            index,
            f"expected data aligned to {want.alignment} bytes{_why_aligned(info, want)}, got an "
            f"address that is {address % want.alignment} bytes off; {_aligned_copy(value)} makes "
            "an aligned copy",
        )


def _why_aligned(info: FunctionInfo, want: ArgInfo) -> str:
    if not info.device or want.alignment == want.itemsize:
        return ""
    return f" (kernels access {want.alignment // want.itemsize} elements at once)"


def _aligned_copy(value: Any) -> str:
    return "x.copyto(x.device)" if _on_device(value) else "nd.array(x)"


def _on_device(value: Any) -> bool:
    return isinstance(value, NDArray) and value.device.kind != "cpu"


def _bind(info: FunctionInfo, args: Sequence[Any]) -> dict[str, int]:
    symbols: dict[str, int] = {}
    for symbol in info.symbols:
        kind, *rest = symbol.source
        if kind == "shape":
            symbols[symbol.name] = args[rest[0]].shape[rest[1]]
        elif kind == "stride":
            strides = element_strides(args[rest[0]])
            if strides is None:
                complain(info, rest[0], "expected strides of whole elements")
            symbols[symbol.name] = strides[rest[1]] // info.args[rest[0]].lanes
        else:
            symbols[symbol.name] = args[rest[0]] if kind == "scalar" else rest[0]
    for want, value in zip(info.args, args):
        if not want.is_array:
            symbols.setdefault(want.name, value)
    for want, value in zip(info.args, args):
        for dim, extent in zip(want.shape, value.shape if want.is_array else ()):
            if isinstance(dim, str):
                symbols.setdefault(dim, extent)
    for want, value in zip(info.args, args):
        if want.strides is not None:
            for dim, step in zip(want.strides, element_strides(value) or ()):
                if isinstance(dim, str):
                    symbols.setdefault(dim, step)
    for symbol in info.symbols:
        kind, index, *_ = symbol.source
        if symbol.narrow and kind in ("shape", "stride") and symbols[symbol.name] > MOST_SIZE:
            complain(
                info,
                index,
                f"{symbol.name} = {symbols[symbol.name]}, but code built for int32 sizes takes at "
                f"most {MOST_SIZE}; build with te.var({symbol.name!r}, 'int64')",
            )
    return symbols


def _check_dims(info: FunctionInfo, index: int, value: Any, symbols: dict[str, int]) -> None:
    want = info.args[index]
    shape = tuple(value.shape)
    if shape != tuple(dim_value(d, symbols) for d in want.shape):
        expected = f"{dims_text(want.shape)}{_values_text(want.shape, symbols)}"
        complain(info, index, f"expected shape {expected}, got {shape}")
    if want.strides is None:
        if not _is_compact(value):
            strides = element_strides(value)
            text = f"strides {strides}" if strides else f"strides of {value.strides} bytes"
            complain(
                info,
                index,
                f"expected a compact row-major array, got {text} for shape {shape}; "
                f"{_compact_copy(value)} makes a compact copy",
            )
        return
    strides = element_strides(value)
    if strides is None:
        complain(info, index, f"expected strides of whole elements, got {value.strides} bytes")
    for extent, step, dim in zip(shape, strides, want.strides):
        if extent > 1 and step != dim_value(dim, symbols):
            expected = f"{dims_text(want.strides)}{_values_text(want.strides, symbols)}"
            complain(info, index, f"expected strides {expected}, got {strides}")


def _check_narrow(info: FunctionInfo, index: int, value: Any) -> None:
    low, high = byte_range(0, value.shape, element_strides(value) or (), 1)
    if info.args[index].narrow and high - low > MOST_NARROW:
        complain(
            info,
            index,
            f"shape {tuple(value.shape)} spans {high - low} elements, but code built for int32 "
            f"shapes counts at most {MOST_NARROW}; build with te.var(..., 'int64') for larger "
            "arrays",
        )


def _is_compact(value: Any) -> bool:
    if isinstance(value, NDArray):
        return value._strides is None
    return bool(value.flags.c_contiguous)


def _compact_copy(value: Any) -> str:
    return "x.copyto(x.device)" if _on_device(value) else "numpy.ascontiguousarray(x)"


def _values_text(dims: Sequence[Dim], symbols: dict[str, int]) -> str:
    names: dict[str, None] = {}
    stack = list(reversed(dims))
    while stack:
        dim = stack.pop()
        if isinstance(dim, str):
            names[dim] = None
        elif isinstance(dim, tuple):
            stack += reversed(dim[1:])
    listed = ", ".join(f"{n} = {symbols[n]}" for n in names)
    return f" with {listed}" if listed else ""


def _check_overlap(info: FunctionInfo, args: Sequence[Any]) -> None:
    ranges = [
        byte_range(_facts(v)[0], v.shape, element_strides(v) or (), want.itemsize)
        if want.is_array
        else (0, 0)
        for want, v in zip(info.args, args)
    ]
    for index, want in enumerate(info.args):
        low, high = ranges[index]
        if not want.is_output or low == high:
            continue
        for other, (start, end) in enumerate(ranges):
            if other != index and start < end and low < end and start < high:
                complain(info, index, _overlap_text(other, info.args[other]))


def _overlap_text(other: int, arg: ArgInfo) -> str:
    return (
        f"the function writes it, but its memory overlaps that of argument {other} ({arg.name}); "
        "pass separate arrays"
    )
