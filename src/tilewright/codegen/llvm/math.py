"""Vector math functions as LLVM IR text, for any number of lanes and any LLVM target.

`definition` gives an internal function of whole vectors: polynomials in fused multiply-adds,
integer operations and selects, no calls of the C library, no loops over lanes. Where rare
arguments would cost all others dearly (huge angles, logarithms of denormals), one branch leads to
a second vector function when a lane holds one. Denormals are kept, NaN propagates, special values
are C99's. docs/math.md states the measured errors.

float16 and bfloat16 are computed in float32. A float16 needs a target that converts it (F16C on
x86, every AArch64); bfloat16 is converted with integer operations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tilewright.base.dtype import parse
from tilewright.base.errors import InternalError

from . import math_bits, math_exp, math_log, math_pow, math_special, math_trig
from .math_bits import narrow, widen
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
# Exact functions; they work on the bits of each type, and ldexp's second argument is int32.
_EXACT: dict[str, Binary] = {
    "copysign": math_bits.copysign,
    "nextafter": math_bits.nextafter,
    "ldexp": math_bits.ldexp,
}
_ELEMENTS = ("float16", "bfloat16", "float32", "float64")
_SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
_KINDS = {"float16": "half", "bfloat16": "bfloat", "float32": "float", "float64": "double"}


def names() -> tuple[str, ...]:
    """Every function that rounds, those of one argument first; copysign, nextafter and ldexp,
    which are exact, come on top."""
    return (*_UNARY, *_BINARY)


def arity(name: str) -> int:
    """Number of arguments."""
    return 1 if name in _UNARY else 2


def argument_dtypes(name: str, dtype: str) -> list[str]:
    """Types of the arguments: the function's own, but for ldexp's exponent, an int32."""
    if name == "ldexp":
        return [dtype, parse("int32").with_lanes(parse(dtype).lanes)]
    return [dtype] * arity(name)


def supported(name: str, dtype: str) -> bool:
    """Whether the function exists for the element type of `dtype` (any number of lanes)."""
    known = name in _UNARY or name in _BINARY or name in _EXACT
    return known and parse(dtype).element in _ELEMENTS


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
    if name == "nextafter":
        body = math_bits.nextafter(e, parameters[0], parameters[1])
        return e.function(parameters, [body]), frozenset(e.declares)
    if name == "ldexp":
        parameters[1].kind = "i32"
    args = [widen(e, p) for p in parameters]
    if name in _UNARY:
        body = _UNARY[name](e, args[0])
    else:
        body = (_BINARY.get(name) or _EXACT[name])(e, args[0], args[1])
    return e.function(parameters, [narrow(e, body, kind)]), frozenset(e.declares)


def definition(name: str, dtype: str) -> tuple[str, set[str]]:
    """LLVM IR text of `define internal <lanes x T> @tw.<name>...` with the helper functions it
    calls, and the `declare` lines of the intrinsics it needs. dtype is a float type with lanes."""
    text, declares = _definition(name, parse(dtype).text)
    return text, set(declares)
