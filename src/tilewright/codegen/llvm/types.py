"""LLVM's spelling of types and constants.

A bool is i1 in registers and i8 in memory. bfloat16 is i16 everywhere (arithmetic on it is
legalised to float32 beforehand, conversions are integer code: see convert.py), and so is float16
unless the target computes in it.
"""

from __future__ import annotations

import struct
from functools import cache

from ...base.dtype import parse
from ...base.errors import InternalError
from ...loopir.fold import wrap_int

_FLOATS = {16: "half", 32: "float", 64: "double"}


@cache
def vector(element: str, lanes: int) -> str:
    """The vector type of an LLVM type, or the type itself for one lane."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


@cache
def register_type(dtype: str, native_half: bool = False) -> str:
    """The type of a value of `dtype` in registers."""
    t = parse(dtype)
    if t.is_handle:
        element = "ptr"
    elif t.is_bool:
        element = "i1"
    elif t.code == "bfloat" or (t.is_float and t.bits == 16 and not native_half):
        element = "i16"
    elif t.is_float:
        element = _FLOATS[t.bits]
    else:
        element = f"i{t.bits}"
    return vector(element, t.lanes)


@cache
def memory_type(dtype: str, native_half: bool = False) -> str:
    """The type of a value of `dtype` in memory."""
    t = parse(dtype)
    return vector("i8", t.lanes) if t.is_bool else register_type(dtype, native_half)


@cache
def suffix(dtype: str) -> str:
    """How LLVM's overloaded intrinsics spell a type: "f32", "v16f32", "i32", "p0"."""
    t = parse(dtype)
    element = "p0" if t.is_handle else f"{'f' if t.code == 'float' else 'i'}{t.bits}"
    if t.code == "bfloat":
        element = "i16"
    return element if t.lanes == 1 else f"v{t.lanes}{element}"


def float_text(value: float, dtype: str, native_half: bool = False) -> str:
    """A float constant of scalar type `dtype`; the value has been rounded to it."""
    t = parse(dtype)
    if t.bits == 64 or (t.bits == 32 and t.code == "float"):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    bits = float16_bits(value) if t.code == "float" else bfloat16_bits(value)
    return f"0xH{bits:04X}" if native_half and t.code == "float" else str(bits)


def float16_bits(value: float) -> int:
    """The bits of a float16 whose value is `value` exactly."""
    return int(struct.unpack("<H", struct.pack("<e", value))[0])


def bfloat16_bits(value: float) -> int:
    """The bits of a bfloat16 whose value is `value` exactly."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0] >> 16)


def int_text(value: int, dtype: str) -> str:
    """An integer constant of scalar type `dtype`."""
    t = parse(dtype)
    if t.is_bool:
        return "true" if value else "false"
    if not t.is_integer:
        raise InternalError(f"integer constant of type {dtype}")
    return str(wrap_int(f"int{t.bits}", value))


def splat_text(element_type: str, constant: str, lanes: int) -> str:
    """A constant in every lane."""
    if lanes == 1:
        return constant
    if constant in ("0", "false", "0x0000000000000000", "null"):
        return "zeroinitializer"
    return f"splat ({element_type} {constant})"


def is_constant(operand: str) -> bool:
    """Whether an operand's text is a constant, not a name."""
    return operand[0] != "%"
