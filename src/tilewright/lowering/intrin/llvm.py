"""Lowering rules for CPUs: the operations that the LLVM code generator has no code of its own
for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from ...base.dtype import parse
from ...base.errors import CompileError
from ...loopir import expr as E
from ...loopir.calls import call_pure_extern
from ...loopir.expr import cast, const
from ...loopir.intrin_rules import Rule


@cache
def llvm_rules() -> Mapping[tuple[str, str], Rule]:
    """The compiler's own rules by (target kind, operation), for `find_rule`."""
    rules: dict[tuple[str, str], Rule] = {
        ("llvm", "tir.q_multiply_shift"): q_multiply_shift,
        ("llvm", "tir.q_multiply_shift_per_axis"): q_multiply_shift_per_axis,
    }
    for name in ("nextafter", "ldexp"):
        rules["llvm", f"tir.{name}"] = libm
    return MappingProxyType(rules)


def libm(call: E.Call) -> E.PrimExpr:
    """A function of the C library, lane by lane."""
    t = parse(call.dtype)
    name = call.op.name[4:]
    if t.is_float and t.bits == 64:
        return call_pure_extern(call.dtype, name, *call.args)
    if t.is_float and t.bits == 32:
        return call_pure_extern(call.dtype, f"{name}f", *call.args)
    if name == "nextafter":
        raise CompileError(f"nextafter has no code for {t.text}; use float32 or float64")
    wide = parse("float32").with_lanes(t.lanes)
    args = [cast(wide, a) if parse(a.dtype).is_float else a for a in call.args]
    return cast(call.dtype, E.Call(wide, call.op, args))


def _rounded_shift(product: E.PrimExpr, shift: E.PrimExpr) -> E.PrimExpr:
    """product * 2^-shift in int64, halves upwards; the shift is above zero."""
    one = const(1, product.dtype)
    half = one << (shift - one)
    result: E.PrimExpr = (product + half) >> shift
    return result


def q_multiply_shift(call: E.Call) -> E.PrimExpr:
    """round(x * y * 2^(s - q)): see loopir.op.q_multiply_shift."""
    x, y, q, s = call.args
    wide = parse("int64").with_lanes(parse(x.dtype).lanes)
    shift = cast(wide, q - s)
    return cast(call.dtype, _rounded_shift(cast(wide, x) * cast(wide, y), shift))


def q_multiply_shift_per_axis(call: E.Call) -> E.PrimExpr:
    """round((x << left) * y * 2^-(right + q)), with shifts of their own for each channel."""
    x, y, left, right, q = call.args[:5]
    wide = parse("int64").with_lanes(parse(x.dtype).lanes)
    shifted = cast(wide, x) << cast(wide, left)
    return cast(call.dtype, _rounded_shift(shifted * cast(wide, y), cast(wide, right + q)))
