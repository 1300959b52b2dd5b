"""Builders of operations, by TVM's names: mathematics, divisions, bits, logic.

Each takes whatever `convert` takes (numbers, expressions, iteration variables, tensor elements) and
returns an expression. calls.py has the rest: external functions, pointers, vectors, barriers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..base.dtype import canonical, parse
from ..base.errors import TilewrightError
from .calls import access_ptr as access_ptr
from .calls import address_of as address_of
from .calls import call_cpacked as call_cpacked
from .calls import call_extern as call_extern
from .calls import call_intrin as call_intrin
from .calls import call_llvm_intrin as call_llvm_intrin
from .calls import call_llvm_pure_intrin as call_llvm_pure_intrin
from .calls import call_packed as call_packed
from .calls import call_pure_extern as call_pure_extern
from .calls import dp4a as dp4a
from .calls import fma as fma
from .calls import isnullptr as isnullptr
from .calls import prefetch as prefetch
from .calls import ret as ret
from .calls import storage_sync as storage_sync
from .calls import tvm_access_ptr as tvm_access_ptr
from .calls import tvm_stack_alloca as tvm_stack_alloca
from .calls import tvm_storage_sync as tvm_storage_sync
from .calls import tvm_thread_allreduce as tvm_thread_allreduce
from .calls import tvm_tuple as tvm_tuple
from .calls import tvm_warp_activemask as tvm_warp_activemask
from .calls import tvm_warp_shuffle as tvm_warp_shuffle
from .calls import tvm_warp_shuffle_down as tvm_warp_shuffle_down
from .calls import tvm_warp_shuffle_up as tvm_warp_shuffle_up
from .calls import type_annotation as type_annotation
from .calls import vectorcombine as vectorcombine
from .calls import vectorhigh as vectorhigh
from .calls import vectorlow as vectorlow
from .effects import CallEffectKind as CallEffectKind
from .effects import is_pure as is_pure
from .effects import register_op_attr as register_op_attr
from .effects import side_effect as side_effect
from .expr import (
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    PrimExpr,
    Select,
    const,
    convert,
    match_types,
)
from .intrin_rules import find_rule as find_rule
from .intrin_rules import register_intrin_lowering as register_intrin_lowering
from .op_exact import *  # noqa: F403
from .op_float import *  # noqa: F403
from .operators import binary, bitwise, logical_and, logical_or

Binary = Callable[[Any, Any], PrimExpr]


def _integer(name: str, x: Any) -> PrimExpr:
    e = convert(x)
    if not parse(e.dtype).is_integer:
        raise TilewrightError(f"{name} takes an integer, got {e.dtype}")
    return e


def popcount(x: Any) -> PrimExpr:
    """How many bits of an integer are set; has the type of x. Raises OperandError where `x` is
    neither a number nor an expression, and TilewrightError where `x` is not of an integer type."""
    x = _integer("popcount", x)
    return Call(x.dtype, "tir.popcount", (x,))


def clz(x: Any) -> PrimExpr:
    """How many leading bits of an integer are zero, as int32; all of them for 0. Raises
    OperandError where `x` is neither a number nor an expression, and TilewrightError where `x` is
    not of an integer type."""
    x = _integer("clz", x)
    return Call(parse("int32").with_lanes(parse(x.dtype).lanes), "tir.clz", (x,))


def q_multiply_shift(x: Any, y: Any, q: Any, s: Any) -> PrimExpr:
    """round(x * y * 2^(s - q)), halves upwards: int32 x times a fixed-point y of q fraction bits.

    The product is exact in 64 bits. Scales in fixed point: Jacob et al., Quantization and Training
    of Neural Networks for Efficient Integer-Arithmetic-Only Inference, CVPR 2018. Raises
    OperandError where an argument is neither a number nor an expression, and TilewrightError where
    `x` is not of an integer type.
    """
    x = _integer("q_multiply_shift", x)
    return Call(x.dtype, "tir.q_multiply_shift", (x, convert(y), convert(q), convert(s)))


def _condition(name: str, cond: Any) -> PrimExpr:
    e = convert(cond)
    if not parse(e.dtype).is_bool:
        raise TilewrightError(
            f"{name} only accepts a condition of boolean type, got {e.dtype}; compare it: x != 0"
        )
    return e


def if_then_else(cond: Any, t: Any, f: Any, span: object = None) -> PrimExpr:
    """`t` where `cond` holds, else `f`; only the one chosen is evaluated. Raises OperandError where
    `cond`, `f` or `t` is neither a number nor an expression, and TilewrightError where `cond` is no
    condition of boolean type, where `f` and `t` are vectors of different lengths or one is a
    handle."""
    cond = _condition("if_then_else", cond)
    a, b = match_types(t, f)
    if isinstance(cond, IntImm):
        return a if cond.value else b
    return Call(a.dtype, "tir.if_then_else", (cond, a, b))


def select(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:
    """`true_value` where the condition holds, else `false_value`; both are evaluated. Raises
    OperandError where `condition`, `false_value` or `true_value` is neither a number nor an
    expression, and TilewrightError where `condition` is no condition of boolean type, where
    `false_value` and `true_value` are vectors of different lengths or one is a handle."""
    cond = _condition("select", condition)
    a, b = match_types(true_value, false_value)
    if isinstance(cond, IntImm):
        return a if cond.value else b
    return Select(cond, a, b)


def likely(cond: Any, span: object = None) -> PrimExpr:
    """`cond`, marked as true in most iterations: loops are split where it stops to hold. Raises
    OperandError where `cond` is neither a number nor an expression."""
    e = convert(cond)
    return e if isinstance(e, IntImm) else Call(e.dtype, "tir.likely", (e,))


def min(a: Any, b: Any, span: object = None) -> PrimExpr:
    """The smaller of two values; NaN if either is NaN. (`te.min` is also the reduction.)

    Raises OperandError where `a` or `b` is neither a number nor an expression, and TilewrightError
    where they are vectors of different lengths or one is a handle.
    """
    return binary(Min, a, b)


def max(a: Any, b: Any, span: object = None) -> PrimExpr:
    """The larger of two values; NaN if either is NaN. (`te.max` is also the reduction.)

    Raises OperandError where `a` or `b` is neither a number nor an expression, and TilewrightError
    where they are vectors of different lengths or one is a handle.
    """
    return binary(Max, a, b)


min_op, max_op = min, max


def min_value(dtype: Any, span: object = None) -> PrimExpr:
    """The smallest finite value of a type. Raises TilewrightError where `dtype` is no type such as
    'float32'."""
    t = parse(canonical(dtype))
    return const(t.min_value, t.text)


def max_value(dtype: Any, span: object = None) -> PrimExpr:
    """The largest finite value of a type. Raises TilewrightError where `dtype` is no type such as
    'float32'."""
    t = parse(canonical(dtype))
    return const(t.max_value, t.text)


def infinity(dtype: Any, span: object = None) -> PrimExpr:
    """Positive infinity of a float type. Raises TilewrightError where dtype has no infinity, where
    `dtype` is no type such as 'float32'."""
    t = parse(canonical(dtype))
    if not t.is_float:
        raise TilewrightError(f"there is no infinity of type {t.text}")
    return const(math.inf, t.text)


def reinterpret(dtype: Any, value: Any, span: object = None) -> PrimExpr:
    """The bits of `value` read as another type of the same width. Raises OperandError where `value`
    is neither a number nor an expression, and TilewrightError where the types are not of the same
    width, where `dtype` is no type such as 'float32'."""
    e = convert(value)
    to, source = parse(canonical(dtype)), parse(e.dtype)
    if to.text == source.text:
        return e
    if to.bits * to.lanes != source.bits * source.lanes:
        raise TilewrightError(f"reinterpret of {source.text} as {to.text}: widths differ")
    return Call(to.text, "tir.reinterpret", (e,))


def div(a: Any, b: Any, span: object = None) -> PrimExpr:
    """Quotient as in C: rounded towards zero for integers, exact for floats. Raises TilewrightError
    where the divisor is the constant 0, where `a` and `b` are vectors of different lengths or one
    is a handle."""
    return binary(Div, a, b)


def _int_division(name: str, cls: Any, doc: str) -> Binary:
    def build(a: Any, b: Any, span: object = None) -> PrimExpr:
        x, y = match_types(a, b)
        if parse(x.dtype).is_float:
            raise TilewrightError(f"{name} takes integers, got {x.dtype}; use / or fmod")
        return binary(cls, x, y)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = (
        f"{doc}, of integers brought to one type, which the result has.\n\n"
        "Raises TilewrightError where `a` or `b` is a float, `b` is the constant 0 or their lanes\n"
        "differ, and OperandError where one is neither a number nor an expression."
    )
    return build


truncdiv = _int_division("truncdiv", Div, "Quotient rounded towards zero")
truncmod = _int_division("truncmod", Mod, "Remainder of truncdiv, with the sign of a")
floordiv = _int_division("floordiv", FloorDiv, "Quotient rounded down")
floormod = _int_division("floormod", FloorMod, "Remainder of floordiv, with the sign of b")
# of indices, which are zero or more, so that both divisions are the same
indexdiv = floordiv
indexmod = floormod


def ceildiv(lhs: Any, rhs: Any, span: object = None) -> PrimExpr:
    """Integer quotient rounded up (rhs above zero). Raises OperandError where `lhs` or `rhs` is
    neither a number nor an expression."""
    return floordiv(convert(lhs) + (convert(rhs) - 1), rhs)


def _bits(name: str, doc: str) -> Binary:
    def build(x: Any, y: Any, span: object = None) -> PrimExpr:
        return bitwise(f"tir.{name}", x, y)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = (
        f"{doc}\n\nRaises TilewrightError where `x` or `y` is a float or their lanes differ, or a "
        "constant shift\nis not in [0, bits), and OperandError where one is neither a number nor "
        "an expression."
    )
    return build


shift_left = _bits("shift_left", "x * 2^y, wrapped; y is in [0, bits).")
shift_right = _bits("shift_right", "x shifted right by y bits; copies of the sign come in.")
bitwise_and = _bits("bitwise_and", "The bits set in both.")
bitwise_or = _bits("bitwise_or", "The bits set in either.")
bitwise_xor = _bits("bitwise_xor", "The bits set in one of the two.")


def bitwise_not(x: Any, span: object = None) -> PrimExpr:
    """All bits turned over. Raises OperandError where `x` is neither a number nor an expression."""
    return ~convert(x)


def all(*args: Any, span: object = None) -> PrimExpr:
    """Whether all conditions hold; each may be evaluated. Raises ValueError where no condition is
    given, and TilewrightError where an argument is no condition of boolean type."""
    return _chain("all", logical_and, args)


def any(*args: Any, span: object = None) -> PrimExpr:
    """Whether some condition holds; each may be evaluated. Raises ValueError where no condition is
    given, and TilewrightError where an argument is no condition of boolean type."""
    return _chain("any", logical_or, args)


def _chain(name: str, join: Binary, args: tuple[Any, ...]) -> PrimExpr:
    if not args:
        raise ValueError(f"{name} takes at least one condition")
    result, *others = (_condition(name, x) for x in args)
    for other in others:
        result = join(result, other)
    return result


def add(lhs: Any, rhs: Any, span: object = None) -> PrimExpr:
    """lhs + rhs. Raises OperandError where `lhs` is neither a number nor an expression."""
    result: PrimExpr = convert(lhs) + rhs
    return result


def subtract(lhs: Any, rhs: Any, span: object = None) -> PrimExpr:
    """lhs - rhs. Raises OperandError where `lhs` is neither a number nor an expression."""
    result: PrimExpr = convert(lhs) - rhs
    return result


def multiply(lhs: Any, rhs: Any, span: object = None) -> PrimExpr:
    """lhs * rhs. Raises OperandError where `lhs` is neither a number nor an expression."""
    result: PrimExpr = convert(lhs) * rhs
    return result
