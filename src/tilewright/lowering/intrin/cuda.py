"""Lowering rules for CUDA.

float32 takes the fast `__expf` and its like where the table of operations says so; sin and cos do
not, since `__sinf` is only good near zero. float16 takes cuda_fp16.h's functions, which compute in
float32 and round. A user's rule replaces any of these (`register_intrin_lowering`).
"""

from __future__ import annotations

from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir.expr import cast, const
from ...loopir.intrin_rules import Rule
from ...loopir.op_table import TABLE, Operation
from .default import MathRule, extern, float_of, widened
from .integer_power import as_unsigned


def _math(row: Operation) -> MathRule:
    def rule(call: E.Call) -> E.PrimExpr:
        t = float_of(call)
        if not t.is_float:
            return call
        own = row.devices.get(f"cuda {t.element}")
        if own is not None:
            return extern(call, own)
        if t.bits == 16:
            return widened(call)
        name = row.function("cuda", t.element)
        return extern(call, name if t.bits == 64 else f"{name}f")

    return rule


_float_fma = _math(TABLE["fma"])


def _fma(call: E.Call) -> E.PrimExpr:
    if float_of(call).is_float:
        return _float_fma(call)
    a, b, c = call.args
    return E.Add(E.Mul(a, b), c)


def _popcount(call: E.Call) -> E.PrimExpr:
    x = as_unsigned(call.args[0])
    name = "__popcll" if parse(x.dtype).bits == 64 else "__popc"
    dtype = parse("int32").with_lanes(parse(x.dtype).lanes)
    return cast(call.dtype, E.Call(dtype, "tir.call_pure_extern", (E.StringImm(name), x)))


def _clz(call: E.Call) -> E.PrimExpr:
    own = parse(call.args[0].dtype).bits
    x = as_unsigned(call.args[0])
    t = parse(x.dtype)
    wide = cast(parse(f"int{t.bits}").with_lanes(t.lanes), x)
    name = "__clzll" if t.bits == 64 else "__clz"
    count = E.Call(call.dtype, "tir.call_pure_extern", (E.StringImm(name), wide))
    return count if own == t.bits else E.Sub(count, const(t.bits - own, call.dtype))


CUDA: dict[str, Rule] = {
    **{
        f"tir.{op}": _math(row)
        for op, row in TABLE.items()
        if row.function("cuda", "float64") and op != "nextafter"
    },
    "tir.fma": _fma,
    "tir.popcount": _popcount,
    "tir.clz": _clz,
}
