"""Turning what users pass to compiled functions into arrays and numbers of ours, without copies."""

from __future__ import annotations

import ctypes
from typing import Any, NoReturn

import numpy as np

from ..base.dtype import parse
from ..base.errors import ArgumentError
from .array import NDArray, from_dlpack
from .device import Device
from .device_array import DeviceArray
from .signature import ArgInfo, FunctionInfo


def complain(info: FunctionInfo, index: int, text: str) -> NoReturn:
    """Raise ArgumentError about one argument."""
    raise ArgumentError(f"{info.name}: argument {index} ({info.args[index].name}): {text}")


def adapt_all(info: FunctionInfo, args: tuple[Any, ...]) -> list[Any]:
    """Arguments as the checker of a signature takes them: each array an NDArray or exactly
    numpy.ndarray over the same memory (for a function of a device, a DeviceArray on the device of
    the first one), each scalar exactly int, float or bool."""
    out = []
    where = device_of(info, args) if info.device else None
    for index, (want, value) in enumerate(zip(info.args, args)):
        if want.is_array:
            kind = type(value)
            if where is not None:
                value = _adapt_device_array(info, index, value, where)
            elif kind is not NDArray and kind is not np.ndarray:
                value = _adapt_array(info, index, value)
        else:
            value = _adapt_scalar(info, index, value)
        out.append(value)
    return out


def _place_of(value: Any) -> Device | None:
    """The device that an array says it is on; None where it says nothing."""
    if isinstance(value, NDArray):
        return value.device
    if not hasattr(value, "__dlpack_device__"):
        return None
    kind, number = map(int, value.__dlpack_device__())
    return Device(kind, number)


def device_of(info: FunctionInfo, args: tuple[Any, ...]) -> Device:
    """The device that a call runs on: that of the first array on one of the right kind, or simt."""
    for want, value in zip(info.args, args):
        if want.is_array:
            place = _place_of(value)
            if place is not None and place.kind in (info.device, "simt"):
                return place
    return Device(info.device, 0)


def _adapt_device_array(info: FunctionInfo, index: int, value: Any, where: Device) -> Any:
    if isinstance(value, np.generic):
        complain(info, index, f"expected an array, got the scalar {value!r}")
    place = _place_of(value)
    if place != where:
        if place is None and not hasattr(value, "__array__"):
            got = type(value).__name__
        elif place is None or place.device_type in (1, 3):
            got = "one in CPU memory; nd.array(x, dev) makes a copy on a device"
        else:
            got = f"one on {place}"
        missing = "" if where.exist else f". {where} does not exist here: {where.why_missing()}"
        complain(info, index, f"expected an array on {where}, got {got}{missing}")
    if isinstance(value, NDArray):
        return value
    try:
        return from_dlpack(value)
    except Exception as error:
        complain(info, index, f"{type(value).__name__} does not lend its memory: {error}")


def part_handle(info: FunctionInfo, index: int, array: DeviceArray) -> Any:
    """What launches take for a part of an array."""
    try:
        return array.make_handle()
    except ArgumentError as error:
        complain(info, index, str(error))


def _adapt_array(info: FunctionInfo, index: int, value: Any) -> Any:
    if isinstance(value, DeviceArray):
        complain(info, index, f"expected an array in CPU memory, got one on {value.device}")
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray)
    if isinstance(value, np.generic):
        complain(info, index, f"expected an array, got the scalar {value!r}")
    if hasattr(value, "__dlpack__"):
        return _adapt_dlpack(info, index, value)
    if hasattr(value, "__array_interface__"):
        return np.asarray(value).view(np.ndarray)
    if hasattr(value, "__array__"):
        return _adapt_convertible(info, index, value)
    complain(
        info,
        index,
        f"expected an array of {info.args[index].dtype}, got {type(value).__name__}, which has "
        "neither __dlpack__ nor __array_interface__ nor __array__; "
        f"numpy.asarray(x, {info.args[index].dtype!r}) makes one of a list",
    )


def _adapt_dlpack(info: FunctionInfo, index: int, value: Any) -> Any:
    if hasattr(value, "__dlpack_device__"):
        try:
            kind, number = map(int, value.__dlpack_device__())
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            complain(info, index, f"{type(value).__name__} does not lend its memory: {error}")
        if kind not in (1, 3):
            complain(
                info, index, f"expected an array in CPU memory, got one on {Device(kind, number)}"
            )
    try:
        return from_dlpack(value)
    except Exception as error:
        if hasattr(value, "__array_interface__"):
            return np.asarray(value).view(np.ndarray)
        complain(info, index, f"{type(value).__name__} does not lend its memory: {error}")


def _adapt_convertible(info: FunctionInfo, index: int, value: Any) -> Any:
    """An object with `__array__` alone, which may share its memory or hand out copies."""
    found = np.asarray(value).view(np.ndarray)
    if info.args[index].is_output:
        again = np.asarray(value)
        if again.__array_interface__["data"] != found.__array_interface__["data"]:
            complain(
                info,
                index,
                f"the function writes it, but {type(value).__name__} hands out copies of its "
                "memory; pass a NumPy array or an nd.array",
            )
    return found


def _adapt_scalar(info: FunctionInfo, index: int, value: Any) -> Any:
    kind = type(value)
    dtype = parse(info.args[index].dtype)
    if dtype.is_float:
        if kind is float:
            return value
        if not isinstance(value, (str, bytes)) and hasattr(value, "__float__"):
            return _number(info, index, value, float)
    elif dtype.is_bool:
        if isinstance(value, (bool, np.bool_)) or (kind is int and value in (0, 1)):
            return bool(value)
    elif dtype.is_handle:
        if isinstance(value, ctypes.c_void_p):
            return int(value.value or 0)
        if hasattr(value, "__index__"):
            return int(value)
    elif kind is int:
        return value
    elif hasattr(value, "__index__"):
        return _number(info, index, value, lambda v: int(v.__index__()))
    complain(info, index, f"expected {scalar_text(info.args[index])}, got {value!r}")


def _number(info: FunctionInfo, index: int, value: Any, convert: Any) -> Any:
    try:
        return convert(value)
    except (TypeError, ValueError):
        wanted = scalar_text(info.args[index])
        complain(info, index, f"expected {wanted}, got {type(value).__name__}")


def scalar_range(arg: ArgInfo) -> tuple[int, int]:
    """Least and greatest value of an integer or handle scalar."""
    dtype = parse(arg.dtype)
    if dtype.is_handle:
        return 0, (1 << 64) - 1
    return int(dtype.min_value), int(dtype.max_value)


def scalar_text(arg: ArgInfo) -> str:
    dtype = parse(arg.dtype)
    if dtype.is_float:
        return f"a number ({arg.dtype})"
    if dtype.is_bool:
        return "a bool"
    low, high = scalar_range(arg)
    return f"an integer ({arg.dtype}, {low} to {high})"
