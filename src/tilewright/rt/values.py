"""Values of the runtime by TVM's names: text, shapes, codes of types, parameters as bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NoReturn

import numpy as np

from ..base.errors import TilewrightError, UsageError
from .array import NDArray, array
from .device import Device


class String(str):
    """Text."""

    __slots__ = ()


class ShapeTuple(tuple[int, ...]):
    """Extents of an array."""

    __slots__ = ()

    def __new__(cls, shape: Any) -> ShapeTuple:
        return super().__new__(cls, (int(d) for d in shape))

    def __eq__(self, other: object) -> bool:
        """Whether another sequence, of any kind, has the same extents."""
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


class ADT(tuple[Any, ...]):
    """A tuple of objects with a tag that says what it is."""

    tag: int

    def __new__(cls, tag: int, fields: Any) -> ADT:
        made = super().__new__(cls, fields)
        made.tag = int(tag)
        return made


def tuple_object(fields: Any = None) -> ADT:
    """The fields with tag 0."""
    return ADT(0, fields or ())


class DataTypeCode(IntEnum):
    """DLPack's numbers of the kinds of types."""

    INT = 0
    UINT = 1
    FLOAT = 2
    HANDLE = 3
    BFLOAT = 4


def save_param_dict(params: Mapping[str, Any]) -> bytearray:
    """Arrays by name as bytes that `load_param_dict` reads; TVM's own files are of another form."""
    out = io.BytesIO()
    arrays: dict[str, Any] = {
        k: v.numpy() if hasattr(v, "numpy") else np.asarray(v) for k, v in params.items()
    }
    np.savez(out, **arrays)
    return bytearray(out.getvalue())


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, NDArray]:
    """What `save_param_dict` wrote: arrays of the shapes and types that they had. TilewrightError
    for other bytes."""
    try:
        with np.load(io.BytesIO(bytes(param_bytes)), allow_pickle=False) as found:
            return {name: array(found[name]) for name in found.files}
    except (ValueError, OSError, KeyError, EOFError, AttributeError) as error:
        raise TilewrightError(f"these bytes hold no parameters: {error}") from None


def save_param_dict_to_file(params: Mapping[str, Any], path: str) -> None:
    """Write `save_param_dict` to a file."""
    from .files import write_atomically

    write_atomically(path, bytes(save_param_dict(params)))


def load_param_dict_from_file(path: str) -> dict[str, NDArray]:
    """Read what `save_param_dict_to_file` wrote: arrays of the shapes and types that they had."""
    with open(path, "rb") as file:
        return load_param_dict(file.read())


def system_lib(symbol_prefix: str = "") -> NoReturn:
    """UsageError: functions linked into the program are not looked up by name."""
    raise UsageError("there is no system library: load a module with runtime.load_module(path)")


def load_static_library(path: str, func_names: Any) -> NoReturn:
    """UsageError: link static libraries with contrib.cc.create_shared, then load that."""
    raise UsageError(f"link {path} with contrib.cc.create_shared, then load_module of that")


def _named(name: str, number: int) -> Any:
    def make(dev_id: int = 0) -> Device:
        return Device(number, dev_id)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"The device `dev_id` of kind {name}; `exist` says whether it is there.\n\n"
    make.__doc__ += "Raises TilewrightError where `dev_id` is no integer of 0 or more."
    return make


gpu = _named("gpu", 2)
cl = _named("cl", 4)
mtl = _named("mtl", 8)
vpi = _named("vpi", 9)
ext_dev = _named("ext_dev", 12)
hexagon = _named("hexagon", 16)
webgpu = _named("webgpu", 15)
