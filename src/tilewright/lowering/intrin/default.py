"""Lowering rules of every target that is written as C-like source: formulas, and the C library.

A function of the C library is `expf` for float32 and `exp` for float64; narrower floats are
computed in float32 and rounded. What it lacks is a formula: the operation's own, or one of these.
"""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtype import DType, parse
from ...loopir import expr as E
from ...loopir.expr import cast, const
from ...loopir.intrin_rules import Rule
from ...loopir.op_table import TABLE
from .integer_power import as_unsigned, int_pow
from .llvm import q_multiply_shift, q_multiply_shift_per_axis


def extern(call: E.Call, name: str) -> E.PrimExpr:
    """A call of a pure function of the target's library with the arguments of `call`."""
    return E.Call(call.dtype, "tir.call_pure_extern", (E.StringImm(name), *call.args))


def float_of(call: E.Call) -> DType:
    """The float type that a call computes in: that of its first argument."""
    return parse(call.args[0].dtype)


def widened(call: E.Call) -> E.PrimExpr:
    """A call on narrow floats as the same one on float32, rounded."""
    args = []
    for a in call.args:
        t = parse(a.dtype)
        args.append(cast(parse("float32").with_lanes(t.lanes), a) if t.is_float else a)
    result = parse(call.dtype)
    dtype = parse("float32").with_lanes(result.lanes) if result.is_float else call.dtype
    return cast(call.dtype, E.Call(dtype, call.op, args))


MathRule = Callable[[E.Call], E.PrimExpr]


def library(name: str) -> MathRule:
    """The rule for a function of C's library."""

    def rule(call: E.Call) -> E.PrimExpr:
        t = float_of(call)
        if not t.is_float:
            return call
        if t.bits == 16:
            return widened(call)
        return extern(call, name if t.bits == 64 else f"{name}f")

    return rule


def on_floats(formula: Callable[[E.PrimExpr], E.PrimExpr]) -> Rule:
    """A rule that computes a formula of one argument, in float32 for narrow floats."""

    def rule(call: E.Call) -> E.PrimExpr:
        return widened(call) if float_of(call).bits == 16 else formula(call.args[0])

    return rule


_library_fma, _library_nextafter = library("fma"), library("nextafter")


def fma(call: E.Call) -> E.PrimExpr:
    """a * b + c rounded once; integers need no function."""
    if float_of(call).is_float:
        return _library_fma(call)
    a, b, c = call.args
    return E.Add(E.Mul(a, b), c)


def nextafter(call: E.Call) -> E.PrimExpr:
    """The neighbour of a narrow float is that of its bits; of others the library's."""
    t = float_of(call)
    if t.bits != 16:
        return _library_nextafter(call)
    a, b = call.args
    wide = parse("float32").with_lanes(t.lanes)
    bits = parse("int16").with_lanes(t.lanes)
    x, y = cast(wide, a), cast(wide, b)
    zero, one = const(0.0, wide), const(1, bits)
    number = E.Call(bits, "tir.reinterpret", (a,))
    away = E.EQ(E.LT(x, y), E.GT(x, zero))
    moved = E.Select(away, E.Add(number, one), E.Sub(number, one))
    least = E.Select(E.LT(y, zero), const(-0x7FFF, bits), one)
    moved = E.Select(E.EQ(x, zero), least, moved)
    result = E.Call(call.dtype, "tir.reinterpret", (moved,))
    nan = cast(call.dtype, E.Add(x, y))
    unordered = E.Or(E.NE(x, x), E.NE(y, y))
    return E.Select(unordered, nan, E.Select(E.EQ(x, y), b, result))


def _bit_count(x: E.PrimExpr) -> E.PrimExpr:
    """The bits set in a uint32 or uint64: Warren, "Hacker's Delight", section 5-1."""
    t = parse(x.dtype)

    def c(pattern: int) -> E.PrimExpr:
        value = pattern * (((1 << t.bits) - 1) // 255)
        return const(value, t.text)

    def shift(v: E.PrimExpr, by: int) -> E.PrimExpr:
        return E.Call(t.text, "tir.shift_right", (v, const(by, t.text)))

    def both(v: E.PrimExpr, mask: E.PrimExpr) -> E.PrimExpr:
        return E.Call(t.text, "tir.bitwise_and", (v, mask))

    x = E.Sub(x, both(shift(x, 1), c(0x55)))
    x = E.Add(both(x, c(0x33)), both(shift(x, 2), c(0x33)))
    x = both(E.Add(x, shift(x, 4)), c(0x0F))
    return shift(E.Mul(x, c(0x01)), t.bits - 8)


def popcount(call: E.Call) -> E.PrimExpr:
    return cast(call.dtype, _bit_count(as_unsigned(call.args[0])))


def clz(call: E.Call) -> E.PrimExpr:
    """Leading zeros: the bits that are not set once all below the first one are."""
    own = parse(call.args[0].dtype).bits
    x = as_unsigned(call.args[0])
    t = parse(x.dtype)
    by = 1
    while by < own:
        moved = E.Call(t.text, "tir.shift_right", (x, const(by, t.text)))
        x = E.Call(t.text, "tir.bitwise_or", (x, moved))
        by *= 2
    return E.Sub(const(own, call.dtype), cast(call.dtype, _bit_count(x)))


DEFAULT: dict[str, Rule] = {
    **{f"tir.{op}": library(row.c) for op, row in TABLE.items() if row.c},
    **{f"tir.{op}": on_floats(row.formula) for op, row in TABLE.items() if row.formula},
    "tir.fma": fma,
    "tir.nextafter": nextafter,
    "tir.popcount": popcount,
    "tir.clz": clz,
    "tir.int_pow": int_pow,
    "tir.q_multiply_shift": q_multiply_shift,
    "tir.q_multiply_shift_per_axis": q_multiply_shift_per_axis,
}
