"""Lowering rules for OpenCL: its functions have one name for all float types and vectors.

A device without half arithmetic (cl_khr_fp16) computes on narrow floats in float32.
"""

from __future__ import annotations

from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir.expr import cast
from ...loopir.intrin_rules import Rule
from ...loopir.op_table import TABLE
from .default import MathRule, extern, float_of, nextafter, widened

OPENCL_NAMES: dict[str, str] = {
    op: row.function("opencl", "") for op, row in TABLE.items() if row.function("opencl", "")
}
"""OpenCL C's built-in functions, by operation."""


def _math(name: str, native_half: bool) -> MathRule:
    def rule(call: E.Call) -> E.PrimExpr:
        t = float_of(call)
        if not t.is_float:
            return call
        if t.bits == 16 and not (native_half and t.code == "float"):
            return widened(call)
        return extern(call, name)

    return rule


def _fma(native_half: bool) -> Rule:
    floats = _math("fma", native_half)

    def rule(call: E.Call) -> E.PrimExpr:
        if float_of(call).is_float:
            return floats(call)
        a, b, c = call.args
        return E.Add(E.Mul(a, b), c)

    return rule


def _nextafter(call: E.Call) -> E.PrimExpr:
    return nextafter(call) if float_of(call).bits == 16 else extern(call, "nextafter")


def _bits(name: str) -> Rule:
    """popcount and clz, which OpenCL has for every integer type, as that type."""

    def rule(call: E.Call) -> E.PrimExpr:
        x = call.args[0]
        t = parse(x.dtype)
        unsigned = parse(f"uint{t.bits}").with_lanes(t.lanes)
        count = E.Call(unsigned, "tir.call_pure_extern", (E.StringImm(name), cast(unsigned, x)))
        return cast(call.dtype, count)

    return rule


def opencl_rules(native_half: bool) -> dict[str, Rule]:
    """The rules, for a device with or without half arithmetic."""
    return {
        **{f"tir.{op}": _math(name, native_half) for op, name in OPENCL_NAMES.items()},
        "tir.fma": _fma(native_half),
        "tir.nextafter": _nextafter,
        "tir.popcount": _bits("popcount"),
        "tir.clz": _bits("clz"),
    }
