"""Lowering rules for CUDA.

float32 takes the fast `__expf` and its like where the table below says so; sin and cos do not,
since `__sinf` is only good near zero. float16 takes cuda_fp16.h's functions, which compute in
float32 and round. A user's rule replaces any of these (`register_intrin_lowering`).
"""

from __future__ import annotations

from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir.expr import cast, const
from ...loopir.intrin_rules import Rule
from .default import C_NAMES, MathRule, as_unsigned, extern, float_of, widened

_FAST = frozenset(("exp", "exp10", "log", "log2", "log10"))
_HALF = {
    "exp": "hexp",
    "exp2": "hexp2",
    "exp10": "hexp10",
    "log": "hlog",
    "log2": "hlog2",
    "log10": "hlog10",
    "sin": "hsin",
    "cos": "hcos",
    "sqrt": "hsqrt",
    "rsqrt": "hrsqrt",
    "floor": "hfloor",
    "ceil": "hceil",
    "trunc": "htrunc",
    "nearbyint": "hrint",
    "fabs": "__habs",
    "fma": "__hfma",
}


def _math(op: str) -> MathRule:
    def rule(call: E.Call) -> E.PrimExpr:
        t = float_of(call)
        if not t.is_float:
            return call
        if t.element == "float16" and op in _HALF:
            return extern(call, _HALF[op])
        if t.bits == 16:
            return widened(call)
        if t.bits == 64:
            return extern(call, op)
        return extern(call, f"__{op}f" if op in _FAST else f"{op}f")

    return rule


_float_fma = _math("fma")


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
    **{f"tir.{op}": _math(op) for op in (*C_NAMES, "exp10", "rsqrt") if op != "nextafter"},
    "tir.fma": _fma,
    "tir.popcount": _popcount,
    "tir.clz": _clz,
}
