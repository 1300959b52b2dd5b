"""OpenCL C's spelling of types, and which vectors it has.

Vectors of bool are chars that are 0 or -1, as comparisons make them. Without cl_khr_fp16 a float16
is a float in registers, and bits in memory (vload_half, vstore_half); a bfloat16 always is.
"""

from __future__ import annotations

from functools import cache

from ..base.dtype import DType, parse

SCALARS = {
    "int8": "char",
    "uint8": "uchar",
    "int16": "short",
    "uint16": "ushort",
    "int32": "int",
    "uint32": "uint",
    "int64": "long",
    "uint64": "ulong",
    "bfloat16": "float",
    "float32": "float",
    "float64": "double",
    "handle": "void*",
}
LANES = (2, 3, 4, 8, 16)
_MASKS = {8: "char", 16: "short", 32: "int", 64: "long"}


def is_native(t: DType) -> bool:
    """Whether OpenCL has vectors of this type."""
    return t.lanes in LANES and not t.is_handle


@cache
def type_name(dtype: str, native_half: bool) -> str:
    """The type of a value of `dtype` in registers."""
    t = parse(dtype)
    if t.element == "float16":
        element = "half" if native_half else "float"
    elif t.is_bool:
        element = "bool" if t.lanes == 1 else "char"
    else:
        element = SCALARS[t.element]
    if t.lanes == 1:
        return element
    return f"{element}{t.lanes}" if is_native(t) else f"tw_{t.element}x{t.lanes}"


@cache
def memory_name(element: str, native_half: bool) -> str:
    """The type of a scalar in memory."""
    if element == "float16":
        return "half" if native_half else "ushort"
    return {"bfloat16": "ushort", "bool": "uchar"}.get(element) or SCALARS[element]


@cache
def register_bits(dtype: str, native_half: bool) -> int:
    """Width of a lane in registers, in bits."""
    t = parse(dtype)
    if t.is_bool:
        return 8
    if t.is_float and t.bits == 16:
        return 16 if native_half and t.code == "float" else 32
    return t.bits


def mask_name(bits: int, lanes: int) -> str:
    """The type that a comparison of vectors with lanes of this width gives."""
    return f"{_MASKS[bits]}{lanes}"


def struct_text(dtype: str, native_half: bool) -> str:
    """The definition of a vector of a number of lanes that OpenCL lacks."""
    t = parse(dtype)
    element = "bool" if t.is_bool else type_name(t.element, native_half)
    return f"typedef struct {{\n  {element} s[{t.lanes}];\n}} {type_name(dtype, native_half)};\n"
