"""Vector math functions as LLVM IR text, for any number of lanes and any LLVM target.

`definition` gives an internal function of whole vectors: polynomials in fused multiply-adds,
integer operations and selects, no calls of the C library, no loops over lanes. Denormals are
kept, NaN propagates, special values are C99's. docs/math.md states the measured errors.

float16 and bfloat16 are computed in float32. A float16 needs a target that converts it (F16C on
x86, every AArch64); bfloat16 is converted with integer operations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tilewright.base.dtype import parse
from tilewright.base.errors import InternalError

from . import math_exp, math_log, math_pow, math_special, math_trig
from .math_emit import F32, F64, Emitter, Value

Unary = Callable[[Emitter, Value], Value]
Binary = Callable[[Emitter, Value, Value], Value]

_UNARY: dict[str, Unary] = {
    "exp": math_exp.exp,
    "exp2": math_exp.exp2,
    "exp10": math_exp.exp10,
    "expm1": math_exp.expm1,
    "sigmoid": math_exp.sigmoid,
    "tanh": math_exp.tanh,
    "sinh": math_exp.sinh,
    "cosh": math_exp.cosh,
    "log": math_log.log,
    "log2": math_log.log2,
    "log10": math_log.log10,
    "log1p": math_log.log1p,
    "asinh": math_log.asinh,
    "acosh": math_log.acosh,
    "atanh": math_log.atanh,
    "sin": math_trig.sin,
    "cos": math_trig.cos,
    "tan": math_trig.tan,
    "asin": math_trig.asin,
    "acos": math_trig.acos,
    "atan": math_trig.atan,
    "erf": math_special.erf,
    "sqrt": math_special.sqrt,
    "rsqrt": math_special.rsqrt,
}
_BINARY: dict[str, Binary] = {
    "pow": math_pow.pow,
    "atan2": math_trig.atan2,
    "hypot": math_special.hypot,
    "fmod": math_special.fmod,
}
_ELEMENTS = ("float16", "bfloat16", "float32", "float64")
_SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
_KINDS = {"float16": "half", "bfloat16": "bfloat", "float32": "float", "float64": "double"}


def names() -> tuple[str, ...]:
    """Every function, those of one argument first."""
    return (*_UNARY, *_BINARY)


def arity(name: str) -> int:
    """Number of arguments, all of the function's own type."""
    return 1 if name in _UNARY else 2


def supported(name: str, dtype: str) -> bool:
    """Whether the function exists for the element type of `dtype` (any number of lanes)."""
    return (name in _UNARY or name in _BINARY) and parse(dtype).element in _ELEMENTS


def function_name(name: str, dtype: str) -> str:
    """The symbol of the function, "@tw.exp.f32.v16" for ("exp", "float32x16")."""
    t = parse(dtype)
    if not supported(name, dtype):
        raise InternalError(f"no vector function {name!r} for {dtype}")
    return f"@tw.{name}.{_SHORT[t.element]}.v{t.lanes}"


@cache
def _definition(name: str, dtype: str) -> tuple[str, frozenset[str]]:
    t = parse(dtype)
    symbol = function_name(name, dtype)
    e = Emitter(F64 if t.bits == 64 else F32, t.lanes, symbol)
    kind = _KINDS[t.element]
    parameters = [Value(e, text, kind) for text in ("%x", "%y")[: arity(name)]]
    args = [_widen(e, p) for p in parameters]
    body = _UNARY[name](e, args[0]) if name in _UNARY else _BINARY[name](e, args[0], args[1])
    return e.function(parameters, [_narrow(e, body, kind)]), frozenset(e.declares)


def definition(name: str, dtype: str) -> tuple[str, set[str]]:
    """LLVM IR text of `define internal <lanes x T> @tw.<name>...` with the helper functions it
    calls, and the `declare` lines of the intrinsics it needs. dtype is a float type with lanes."""
    text, declares = _definition(name, parse(dtype).text)
    return text, set(declares)


def _widen(e: Emitter, x: Value) -> Value:
    if x.kind == "half":
        return e.cast("fpext", x, "float")
    if x.kind == "bfloat":
        bits = e.cast("zext", e.cast("bitcast", x, "i16"), "i32")
        return e.cast("bitcast", bits << 16, "float")
    return x


def _narrow(e: Emitter, x: Value, kind: str) -> Value:
    """Round to nearest even; bfloat in integers, since its conversion may be a library call."""
    if kind == "half":
        return e.cast("fptrunc", x, "half")
    if kind != "bfloat":
        return x
    bits = e.cast("bitcast", x, "i32")
    rounded = bits + 0x7FFF + (bits.lshr(16) & 1)
    # The addition must not carry a NaN over to infinity or zero.
    kept = e.select(x.unordered(x), bits | 0x400000, rounded)
    return e.cast("bitcast", e.cast("trunc", kept.lshr(16), "i16"), "bfloat")
