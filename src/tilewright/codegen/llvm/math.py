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

from ...loopir.op_table import TABLE
from . import math_bits, math_exp, math_log, math_pow, math_special, math_trig
from .math_bits import narrow, widen
from .math_emit import F32, F64, Emitter, Value

_HOMES = (math_bits, math_exp, math_log, math_pow, math_special, math_trig)
# the code of an operation is the function of its name
_CODE: dict[str, Callable[..., Value]] = {
    name: code
    for home in _HOMES
    for name, code in vars(home).items()
    if name in TABLE and getattr(code, "__module__", "") == home.__name__
}
_ELEMENTS = ("float16", "bfloat16", "float32", "float64")
_SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
_KINDS = {"float16": "half", "bfloat16": "bfloat", "float32": "float", "float64": "double"}


def names() -> tuple[str, ...]:
    """Every function that rounds, those of one argument first; copysign, nextafter and ldexp,
    which are exact, come on top."""
    rounding = [n for n in _CODE if not hasattr(math_bits, n)]
    return tuple(sorted(rounding, key=arity))


def arity(name: str) -> int:
    """Number of arguments."""
    return _CODE[name].__code__.co_argcount - 1


def argument_dtypes(name: str, dtype: str) -> list[str]:
    """Types of the arguments: the function's own, but for ldexp's exponent, an int32."""
    if name == "ldexp":
        return [dtype, parse("int32").with_lanes(parse(dtype).lanes)]
    return [dtype] * arity(name)


def supported(name: str, dtype: str) -> bool:
    """Whether the function exists for the element type of `dtype` (any number of lanes)."""
    return name in _CODE and parse(dtype).element in _ELEMENTS


def function_name(name: str, dtype: str) -> str:
    """The symbol of the function, "@tw.exp.f32.v16" for ("exp", "float32x16")."""
    t = parse(dtype)
    if not supported(name, dtype):
        raise InternalError(f"no vector function {name!r} for {dtype}")
    return f"@tw.{name}.{_SHORT[t.element]}.v{t.lanes}"


@cache
def _definition(name: str, dtype: str, fused: bool) -> tuple[str, frozenset[str]]:
    t = parse(dtype)
    symbol = function_name(name, dtype)
    e = Emitter(F64 if t.bits == 64 else F32, t.lanes, symbol, fused)
    kind = _KINDS[t.element]
    parameters = [Value(e, text, kind) for text in ("%x", "%y")[: arity(name)]]
    if name == "nextafter":
        body = math_bits.nextafter(e, parameters[0], parameters[1])
        return e.function(parameters, [body]), frozenset(e.declares)
    if name == "ldexp":
        parameters[1].kind = "i32"
    args = [widen(e, p) for p in parameters]
    body = _CODE[name](e, *args)
    return e.function(parameters, [narrow(e, body, kind)]), frozenset(e.declares)


def definition(name: str, dtype: str, fused: bool = True) -> tuple[str, set[str]]:
    """LLVM IR text of `define internal <lanes x T> @tw.<name>...` with the helper functions it
    calls, and the `declare` lines of the intrinsics it needs. dtype is a float type with lanes.
    `fused`: for targets with fused multiply-adds, which others would call the C library for."""
    text, declares = _definition(name, parse(dtype).text, fused)
    return text, set(declares)
