"""Numbers as the bytes of a kernel's parameters."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.errors import InternalError

_FORMATS = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
}


def _bfloat16(value: Any) -> bytes:
    import ml_dtypes

    return np.asarray(value, ml_dtypes.bfloat16).tobytes()


def packer(dtype: str) -> Callable[[Any], bytes]:
    """The function that turns a Python number into the native bytes of a dtype.

    Floats that do not fit become infinite, as in a conversion on the device.
    """
    code = _FORMATS.get(dtype)
    if dtype == "bfloat16":
        return _bfloat16
    if code is None:
        raise InternalError(f"a kernel cannot take a scalar of dtype {dtype}")
    if code in "ef":
        kind = np.dtype(dtype)

        def pack_narrow(value: Any) -> bytes:
            try:
                return struct.pack(code, value)
            except OverflowError:
                with np.errstate(over="ignore"):
                    return np.asarray(value).astype(kind).tobytes()

        return pack_narrow
    return struct.Struct(code).pack
