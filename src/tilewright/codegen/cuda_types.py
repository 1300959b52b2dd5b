"""CUDA's spelling of types, and which vectors it has by itself."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from ..base.dtype import DType, parse
from ..base.errors import CompileError

SCALARS = {
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long long",
    "uint64": "unsigned long long",
    "float16": "half",
    "bfloat16": "float",
    "float32": "float",
    "float64": "double",
    "bool": "bool",
    "handle": "void*",
}
_SHORT = {
    "int8": "char",
    "uint8": "uchar",
    "int16": "short",
    "uint16": "ushort",
    "int32": "int",
    "uint32": "uint",
    "int64": "longlong",
    "uint64": "ulonglong",
    "float32": "float",
    "float64": "double",
}


def is_builtin(t: DType) -> bool:
    """Whether CUDA has the vector type itself (those of four 64-bit lanes are deprecated)."""
    return t.element in _SHORT and t.lanes in ((2, 3) if t.bits == 64 else (2, 3, 4))


@cache
def type_name(dtype: str) -> str:
    """The type of a value of `dtype` in registers."""
    t = parse(dtype)
    if t.lanes == 1:
        return SCALARS[dtype]
    if is_builtin(t):
        return f"{_SHORT[t.element]}{t.lanes}"
    if t.element == "float16":
        return f"half{t.lanes}"
    return f"tw_{t.element}x{t.lanes}"


@cache
def memory_name(element: str) -> str:
    """The type of a scalar in memory: bfloat16 as its bits, bool as a byte."""
    return {"bfloat16": "unsigned short", "bool": "unsigned char"}.get(element, SCALARS[element])


def struct_text(dtype: str) -> str:
    """The definition of a vector type that CUDA lacks."""
    t = parse(dtype)
    element = memory_name(t.element) if t.is_bool else SCALARS[t.element]
    size = t.nbytes * t.lanes
    align = min(size & -size, 16)
    name = type_name(dtype)
    return f"struct __align__({align}) {name} {{\n  {element} s[{t.lanes}];\n}};\n"


def require_arch(p: Any, least: int, what: str) -> None:
    """CompileError where the target names an architecture that lacks `what`, of sm_<least>. A
    target that names none gives source for any device, which stops on one that lacks it."""
    given = str(dict(p.target.items).get("arch", ""))
    number = re.match(r"sm_(\d+)", given)
    if number is not None and int(number[1]) < least:
        raise CompileError(
            f"kernel {p.func.name} needs {what}, which began with sm_{least}, but the target is "
            f"for {given}; build for 'cuda -arch=sm_{least}' or newer"
        )
