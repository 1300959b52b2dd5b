"""Lowering rules for CPUs: the operations that the LLVM code generator has no code of its own
for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir.expr import cast, const
from ...loopir.intrin_rules import Rule
from .integer_power import int_pow


@cache
def llvm_rules() -> Mapping[tuple[str, str], Rule]:
    """The compiler's own rules by (target kind, operation), for `find_rule`."""
    return MappingProxyType(
        {
            ("llvm", "tir.int_pow"): int_pow,
            ("llvm", "tir.q_multiply_shift"): q_multiply_shift,
            ("llvm", "tir.q_multiply_shift_per_axis"): q_multiply_shift_per_axis,
        }
    )


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
    """round((x << left) * y * 2^-(right + q)), with shifts of their own for each channel; `left`
    where a flag says that it is needed."""
    x, y, left, right, q, shifts = call.args[:6]
    wide = parse("int64").with_lanes(parse(x.dtype).lanes)
    shifted = cast(wide, x) << cast(wide, left)
    if not E.is_const(shifts, 1):
        shifted = E.Select(shifts.astype("bool"), shifted, cast(wide, x))
    return cast(call.dtype, _rounded_shift(shifted * cast(wide, y), cast(wide, right + q)))
