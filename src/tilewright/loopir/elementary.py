"""Functions of floats: one row of the table each, which makes the builder that users call.

`exp = _unary("exp", "e to the power of x.", numpy=np.exp, ...)` is all that a function needs to be
known everywhere; its vector code for LLVM stands under the same name in codegen/llvm/math_*.py.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from . import numpy_forms as forms
from .expr import (
    EQ,
    LT,
    Call,
    Div,
    FloatImm,
    IntImm,
    PrimExpr,
    Select,
    cast,
    const,
    convert,
    match_types,
)
from .operation import (
    CHEAP,
    Binary,
    Bound,
    CallEffectKind,
    Unary,
    add_row,
    count,
    floats,
    predicate,
)
from .operators import ExprLike

_ONE = """{}

    x: a float expression of any width, scalar or vector. The result has its type.
    """
_TWO = """{}

    x1, x2: float expressions (or numbers), brought to the wider of their types, which the result
    has.
    """
_INTEGER_TOO = """{}

    x: a float expression of any width, scalar or vector; the result has its type. An integer stays
    as it is. A constant is folded.
    """
_PREDICATE = """{}

    x: a float expression, scalar or vector; the result is bool in each lane. An integer gives a
    constant.
    """


def _as_float(name: str, x: Any) -> PrimExpr:
    """`x` as an expression; TilewrightError unless it is a float."""
    e = convert(x)
    if not parse(e.dtype).is_float:
        raise TilewrightError(
            f'{name} takes a float, got {e.dtype}; convert it first: x.astype("float32")'
        )
    return e


def _row(name: str, arguments: int, **columns: Any) -> None:
    given = {"check": floats(arguments), "lanewise": True, **columns}
    add_row(name, effect=CallEffectKind.Pure, **given)


def _named(build: Any, name: str, doc: str) -> Any:
    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return build


def _unary(name: str, doc: str, **columns: Any) -> Unary:
    _row(name, 1, **columns)

    def build(x: Any) -> PrimExpr:
        x = _as_float(name, x)
        return Call(x.dtype, f"tir.{name}", (x,))

    result: Unary = _named(build, name, _ONE.format(doc))
    return result


def _binary(name: str, doc: str, **columns: Any) -> Binary:
    _row(name, 2, **columns)

    def build(x1: Any, x2: Any) -> PrimExpr:
        a, b = match_types(x1, x2)
        _as_float(name, a)
        return Call(a.dtype, f"tir.{name}", (a, b))

    result: Binary = _named(build, name, _TWO.format(doc))
    return result


# -- bounds of values, from those of the arguments


def _within(low: float, high: float) -> Callable[..., Bound]:
    return lambda call, *bounds: (low, high)


def _rising(function: Callable[[float], Any], least: float = -math.inf) -> Callable[..., Bound]:
    """Of a function that never falls and is `least` or more."""

    def bound(call: Any, x: Bound) -> Bound:
        with np.errstate(all="ignore"):
            low, high = (float(function(np.float64(end))) for end in x)
        return max(least, -math.inf if math.isnan(low) else low), (
            math.inf if math.isnan(high) else high
        )

    return bound


def _hypot_bound(call: Any, x: Bound, y: Bound) -> Bound:
    far = [max(math.fabs(low), math.fabs(high)) for low, high in (x, y)]
    near = [0 if low <= 0 <= high else min(math.fabs(low), math.fabs(high)) for low, high in (x, y)]
    return math.hypot(*near), math.hypot(*far)


def _magnitude_bound(call: Any, x: Bound, *_: Bound) -> Bound:
    low, high = x
    return 0 if low <= 0 <= high else min(math.fabs(low), math.fabs(high)), max(
        math.fabs(low), math.fabs(high)
    )


def _copysign_bound(call: Any, x: Bound, s: Bound) -> Bound:
    far = max(math.fabs(x[0]), math.fabs(x[1]))
    return (0 if s[0] > 0 else -far), (0 if s[1] < 0 else far)


def _fmod_bound(call: Any, x: Bound, y: Bound) -> Bound:
    far = max(math.fabs(y[0]), math.fabs(y[1]))
    return max(min(x[0], 0), -far), min(max(x[1], 0), far)


# -- formulas and derivatives


def _like(x: PrimExpr, value: float) -> PrimExpr:
    return const(value, x.dtype)


def _flat(x: PrimExpr, y: PrimExpr) -> PrimExpr:
    return _like(x, 0)


def _exp10_formula(x: PrimExpr) -> PrimExpr:
    return Call(x.dtype, "tir.pow", (const(10.0, x.dtype), x))


def _sigmoid_formula(x: PrimExpr) -> PrimExpr:
    one = const(1.0, x.dtype)
    return Div(one, one + exp(const(0.0, x.dtype) - x))


def _rsqrt_formula(x: PrimExpr) -> PrimExpr:
    return Div(const(1.0, x.dtype), sqrt(x))


exp: Unary = _unary(
    "exp", "e to the power of x.", numpy=np.exp, slope=lambda x, y: y, bound=_rising(np.exp, 0),
    c="exp", devices={"cuda float32": "__expf", "cuda float16": "hexp"},
)  # fmt: skip
exp2: Unary = _unary(
    "exp2", "2 to the power of x.", numpy=np.exp2, slope=lambda x, y: y * _like(x, math.log(2)),
    bound=_rising(np.exp2, 0), c="exp2", devices={"cuda float16": "hexp2"},
)  # fmt: skip
exp10: Unary = _unary(
    "exp10", "10 to the power of x.", numpy=lambda x: np.power(10.0, x),
    slope=lambda x, y: y * _like(x, math.log(10)),
    bound=_rising(lambda x: np.power(10.0, x), 0), formula=_exp10_formula,
    devices={"cuda": "exp10", "cuda float32": "__exp10f", "cuda float16": "hexp10",
             "opencl": "exp10"},
)  # fmt: skip
expm1: Unary = _unary(
    "expm1", "exp(x) - 1, accurate near 0.", numpy=np.expm1, slope=lambda x, y: y + 1.0,
    bound=_rising(np.expm1, -1), c="expm1",
)  # fmt: skip
erf: Unary = _unary(
    "erf", "Gauss's error function.", numpy=forms.erf,
    slope=lambda x, y: _like(x, 2 / math.sqrt(math.pi)) * exp(-x * x),
    bound=_rising(math.erf), c="erf",
)  # fmt: skip
tanh: Unary = _unary(
    "tanh", "Hyperbolic tangent.", numpy=np.tanh, slope=lambda x, y: 1.0 - y * y,
    bound=_rising(np.tanh), c="tanh",
)  # fmt: skip
sigmoid: Unary = _unary(
    "sigmoid", "1 / (1 + exp(-x)).", numpy=forms.sigmoid, slope=lambda x, y: y * (1.0 - y),
    bound=_rising(forms.sigmoid), formula=_sigmoid_formula,
)  # fmt: skip
log: Unary = _unary(
    "log", "Natural logarithm.", numpy=np.log, slope=lambda x, y: 1.0 / x, bound=_rising(np.log),
    c="log", devices={"cuda float32": "__logf", "cuda float16": "hlog"},
)  # fmt: skip
log2: Unary = _unary(
    "log2", "Logarithm to base 2.", numpy=np.log2,
    slope=lambda x, y: 1.0 / (x * _like(x, math.log(2))), bound=_rising(np.log2),
    c="log2", devices={"cuda float32": "__log2f", "cuda float16": "hlog2"},
)  # fmt: skip
log10: Unary = _unary(
    "log10", "Logarithm to base 10.", numpy=np.log10,
    slope=lambda x, y: 1.0 / (x * _like(x, math.log(10))), bound=_rising(np.log10),
    c="log10", devices={"cuda float32": "__log10f", "cuda float16": "hlog10"},
)  # fmt: skip
log1p: Unary = _unary(
    "log1p", "log(1 + x), accurate near 0.", numpy=np.log1p, slope=lambda x, y: 1.0 / (x + 1.0),
    bound=_rising(np.log1p), c="log1p",
)  # fmt: skip
tan: Unary = _unary(
    "tan", "Tangent; x in radians.", numpy=np.tan, slope=lambda x, y: 1.0 + y * y, c="tan"
)
cos: Unary = _unary(
    "cos", "Cosine; x in radians.", numpy=np.cos, slope=lambda x, y: -sin(x),
    bound=_within(-1, 1), c="cos", devices={"cuda float16": "hcos"},
)  # fmt: skip
sin: Unary = _unary(
    "sin", "Sine; x in radians.", numpy=np.sin, slope=lambda x, y: cos(x),
    bound=_within(-1, 1), c="sin", devices={"cuda float16": "hsin"},
)  # fmt: skip
cosh: Unary = _unary(
    "cosh", "Hyperbolic cosine.", numpy=np.cosh, slope=lambda x, y: sinh(x),
    bound=_within(1, math.inf), c="cosh",
)  # fmt: skip
sinh: Unary = _unary(
    "sinh", "Hyperbolic sine.", numpy=np.sinh, slope=lambda x, y: cosh(x),
    bound=_rising(np.sinh), c="sinh",
)  # fmt: skip
asin: Unary = _unary(
    "asin", "Arc sine, in radians.", numpy=np.arcsin, slope=lambda x, y: rsqrt(1.0 - x * x),
    bound=_within(-math.pi / 2, math.pi / 2), c="asin",
)  # fmt: skip
acos: Unary = _unary(
    "acos", "Arc cosine, in radians.", numpy=np.arccos, slope=lambda x, y: -rsqrt(1.0 - x * x),
    bound=_within(0, math.pi), c="acos",
)  # fmt: skip
atan: Unary = _unary(
    "atan", "Arc tangent, in radians.", numpy=np.arctan, slope=lambda x, y: 1.0 / (1.0 + x * x),
    bound=_rising(np.arctan), c="atan",
)  # fmt: skip
asinh: Unary = _unary(
    "asinh", "Inverse hyperbolic sine.", numpy=np.arcsinh,
    slope=lambda x, y: rsqrt(x * x + 1.0), bound=_rising(np.arcsinh), c="asinh",
)  # fmt: skip
acosh: Unary = _unary(
    "acosh", "Inverse hyperbolic cosine.", numpy=np.arccosh,
    slope=lambda x, y: rsqrt(x * x - 1.0), bound=_rising(np.arccosh, 0), c="acosh",
)  # fmt: skip
atanh: Unary = _unary(
    "atanh", "Inverse hyperbolic tangent.", numpy=np.arctanh,
    slope=lambda x, y: 1.0 / (1.0 - x * x), bound=_rising(np.arctanh), c="atanh",
)  # fmt: skip
sqrt: Unary = _unary(
    "sqrt", "Square root.", numpy=np.sqrt, slope=lambda x, y: 0.5 / y, bound=_rising(np.sqrt, 0),
    cost=CHEAP, llvm="sqrt", c="sqrt", devices={"cuda float16": "hsqrt"},
)  # fmt: skip
rsqrt: Unary = _unary(
    "rsqrt", "1 / sqrt(x).", numpy=lambda x: 1 / np.sqrt(x), slope=lambda x, y: -0.5 * y / x,
    bound=_within(0, math.inf), cost=CHEAP, formula=_rsqrt_formula,
    devices={"cuda": "rsqrt", "cuda float16": "hrsqrt", "opencl": "rsqrt"},
)  # fmt: skip


def _atan2_slope(y: PrimExpr, x: PrimExpr, _: PrimExpr) -> Any:
    square = x * x + y * y
    return x / square, -y / square


def _copysign_slope(x: PrimExpr, s: PrimExpr, y: PrimExpr) -> Any:
    same = (x >= 0).equal(y >= 0)
    return Select(same, _like(x, 1), _like(x, -1)), _like(s, 0)


atan2: Binary = _binary(
    "atan2", "Angle of the point (x2, x1), in radians.", numpy=np.arctan2, slope=_atan2_slope,
    bound=_within(-math.pi, math.pi), c="atan2",
)  # fmt: skip
hypot: Binary = _binary(
    "hypot", "sqrt(x1 * x1 + x2 * x2) without overflow on the way.", numpy=np.hypot,
    slope=lambda a, b, y: (a / y, b / y), bound=_hypot_bound, c="hypot",
)  # fmt: skip
copysign: Binary = _binary(
    "copysign", "The magnitude of x1 with the sign of x2.", numpy=np.copysign, exact=True,
    slope=_copysign_slope, bound=_copysign_bound, cost=CHEAP, llvm="copysign", c="copysign",
)  # fmt: skip
fmod: Binary = _binary(
    "fmod", "Remainder of the division rounded towards zero; has the sign of x1.", numpy=np.fmod,
    slope=lambda a, b, y: (_like(a, 1), -trunc(a / b)), bound=_fmod_bound, c="fmod",
)  # fmt: skip
nextafter: Binary = _binary(
    "nextafter", "The float next to x1 in the direction of x2.", numpy=forms.nextafter, wide=False,
    any_width=True, c="nextafter",
)  # fmt: skip


def _pow_slope(x: PrimExpr, n: PrimExpr, y: PrimExpr) -> Any:
    return n * power(x, n - 1.0), y * log(x)


_row("pow", 2, numpy=np.power, slope=_pow_slope, c="pow")


def power(x: ExprLike, y: ExprLike) -> PrimExpr:
    """x to the power of y, for floats.

    x, y: float expressions (or numbers), brought to the wider of their types, which the result has.
    """
    a, b = match_types(x, y)
    _as_float("pow", a)
    if isinstance(b, FloatImm) and b.value == 1.0:
        return a
    return Call(a.dtype, "tir.pow", (a, b))


pow = power


def _check_ldexp(call: Any) -> str | None:
    wrong = count(call, 2)
    if wrong:
        return wrong
    if call.args[0].dtype != call.dtype or parse(call.args[1].dtype).element != "int32":
        return f"tir.ldexp of {call.args[0].dtype} and {call.args[1].dtype} gives {call.dtype}"
    return None


_row(
    "ldexp", 2, check=_check_ldexp, numpy=lambda x, n: np.ldexp(x, n.astype(np.int64)),
    slope=lambda x, n, y: (ldexp(_like(x, 1), n),), c="ldexp",
)  # fmt: skip


def ldexp(x1: ExprLike, x2: ExprLike) -> PrimExpr:
    """x1 * 2^x2, rounded once.

    x1: a float expression, whose type the result has; x2: an integer one.
    """
    x = _as_float("ldexp", x1)
    t = parse(x.dtype)
    n = cast(f"int32x{t.lanes}" if t.lanes > 1 else "int32", x2)
    return Call(x.dtype, "tir.ldexp", (x, n))


_row(
    "fma", 3, numpy=lambda a, b, c: a * b + c, cost=CHEAP,
    slope=lambda a, b, c, y: (b, a, _like(a, 1)), llvm="fma", c="fma",
    devices={"cuda float16": "__hfma"},
)  # fmt: skip


# -- rounding


def _nearest_even(x: float) -> float:
    return math.copysign(float(builtins.round(x)), x)


def _half_away(x: float) -> float:
    whole = math.trunc(x)
    if builtins.abs(x - whole) >= 0.5:
        whole += 1 if x > 0 else -1
    return math.copysign(float(whole), x)


def _rounding(name: str, doc: str, fold: Callable[[float], float], **columns: Any) -> Unary:
    _row(
        name, 1, fold=fold, exact=True, slope=_flat, bound=_rising(columns["numpy"]), cost=CHEAP,
        llvm=name, c=name, **columns,
    )  # fmt: skip

    def build(x: Any) -> PrimExpr:
        e = convert(x)
        t = parse(e.dtype)
        if t.is_integer or t.is_bool:
            return e
        if isinstance(e, FloatImm) and math.isfinite(e.value):
            return FloatImm(e.dtype, math.copysign(float(fold(e.value)), e.value))
        return Call(e.dtype, f"tir.{name}", (_as_float(name, e),))

    result: Unary = _named(build, name, _INTEGER_TOO.format(doc))
    return result


floor: Unary = _rounding(
    "floor", "The largest whole number not above x.", math.floor, numpy=np.floor,
    devices={"cuda float16": "hfloor"},
)  # fmt: skip
ceil: Unary = _rounding(
    "ceil", "The smallest whole number not below x.", math.ceil, numpy=np.ceil,
    devices={"cuda float16": "hceil"},
)  # fmt: skip
trunc: Unary = _rounding(
    "trunc", "x without its fraction.", math.trunc, numpy=np.trunc,
    devices={"cuda float16": "htrunc"},
)  # fmt: skip
round: Unary = _rounding(
    "round", "The nearest whole number, halves away from zero.", _half_away,
    numpy=forms.round_half_away,
)  # fmt: skip
nearbyint: Unary = _rounding(
    "nearbyint", "The nearest whole number, halves to even.", _nearest_even, numpy=np.rint,
    devices={"cuda float16": "hrint", "opencl": "rint"},
)  # fmt: skip

_row(
    "fabs", 1, fold=math.fabs, numpy=np.abs, exact=True, bound=_magnitude_bound, cost=CHEAP,
    slope=lambda x, y: Select(x >= 0, _like(x, 1), _like(x, -1)), llvm="fabs", c="fabs",
    devices={"cuda float16": "__habs"},
)  # fmt: skip


def abs(x: ExprLike) -> PrimExpr:
    """Magnitude of a number; that of the smallest signed integer wraps to itself.

    x: an expression of any type, scalar or vector. The result has its type.
    """
    e = convert(x)
    t = parse(e.dtype)
    if t.is_uint or t.is_bool:
        return e
    if isinstance(e, FloatImm):
        return FloatImm(e.dtype, math.fabs(e.value))
    if t.is_float:
        return Call(e.dtype, "tir.fabs", (e,))
    if isinstance(e, IntImm):
        return IntImm(e.dtype, builtins.abs(e.value))
    return Select(e >= 0, e, -e)


# -- predicates


def _predicate(name: str, doc: str, of_integer: int, **columns: Any) -> Unary:
    fold = getattr(math, name)
    _row(name, 1, check=predicate, fold=fold, bound=_within(0, 1), cost=CHEAP, **columns)

    def build(x: Any) -> PrimExpr:
        x = convert(x)
        t = parse(x.dtype)
        result = parse("bool").with_lanes(t.lanes)
        if not t.is_float:
            return const(of_integer, result)
        if isinstance(x, FloatImm):
            return const(fold(x.value), "bool")
        return Call(result, f"tir.{name}", (x,))

    result: Unary = _named(build, name, _PREDICATE.format(doc))
    return result


def _infinite(x: PrimExpr) -> PrimExpr:
    return const(math.inf, x.dtype)


isnan: Unary = _predicate("isnan", "Whether x is not a number.", 0, numpy=np.isnan)
isfinite: Unary = _predicate(
    "isfinite", "Whether x is neither infinite nor NaN.", 1, numpy=np.isfinite,
    formula=lambda x: LT(abs(x), _infinite(x)),
)  # fmt: skip
isinf: Unary = _predicate(
    "isinf", "Whether x is infinite.", 0, numpy=np.isinf,
    formula=lambda x: EQ(abs(x), _infinite(x)),
)  # fmt: skip

BUILDERS = tuple(
    name for name, value in list(globals().items())
    if name[0] != "_" and type(value) is FunctionType and value.__module__ == __name__
)  # fmt: skip
"""The names of the builders above; the faces `te` and `tir` have them all."""
