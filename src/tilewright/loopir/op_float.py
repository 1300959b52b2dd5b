"""Functions of floats: one row of the table each, which makes the builder that users call.

`exp = make.unary("exp", "e to the power of x.", numpy=np.exp, ...)` is all that a function needs to
be known everywhere; its vector code for LLVM stands under the same name in codegen/llvm/math_*.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base.dtype import parse
from . import numpy_forms as forms
from . import op_build as make
from .expr import (
    Call,
    Div,
    FloatImm,
    PrimExpr,
    const,
    match_types,
)
from .op_table import (
    CHEAP,
    Binary,
    Bound,
    Unary,
)
from .operators import ExprLike, bitwise


def _hypot_bound(call: Any, x: Bound, y: Bound) -> Bound:
    far = [max(math.fabs(low), math.fabs(high)) for low, high in (x, y)]
    near = [0 if low <= 0 <= high else min(math.fabs(low), math.fabs(high)) for low, high in (x, y)]
    return math.hypot(*near), math.hypot(*far)


# -- formulas and derivatives


def _exp10_formula(x: PrimExpr) -> PrimExpr:
    return Call(x.dtype, "tir.pow", (const(10.0, x.dtype), x))


def _sigmoid_formula(x: PrimExpr) -> PrimExpr:
    one = const(1.0, x.dtype)
    return Div(one, one + exp(const(0.0, x.dtype) - x))


def _rsqrt_formula(x: PrimExpr) -> PrimExpr:
    return Div(const(1.0, x.dtype), sqrt(x))


exp: Unary = make.unary(
    "exp", "e to the power of x.", numpy=np.exp, slope=lambda x, y: y, bound=make.rising(np.exp, 0),
    c="exp", devices={"cuda float32": "__expf", "cuda float16": "hexp"},
)  # fmt: skip
exp2: Unary = make.unary(
    "exp2", "2 to the power of x.", numpy=np.exp2, slope=lambda x, y: y * make.like(x, math.log(2)),
    bound=make.rising(np.exp2, 0), c="exp2", devices={"cuda float16": "hexp2"},
)  # fmt: skip
exp10: Unary = make.unary(
    "exp10", "10 to the power of x.", numpy=lambda x: np.power(10.0, x),
    slope=lambda x, y: y * make.like(x, math.log(10)),
    bound=make.rising(lambda x: np.power(10.0, x), 0), formula=_exp10_formula,
    devices={"cuda": "exp10", "cuda float32": "__exp10f", "cuda float16": "hexp10",
             "opencl": "exp10"},
)  # fmt: skip
expm1: Unary = make.unary(
    "expm1", "exp(x) - 1, accurate near 0.", numpy=np.expm1, slope=lambda x, y: y + 1.0,
    bound=make.rising(np.expm1, -1), c="expm1",
)  # fmt: skip
erf: Unary = make.unary(
    "erf", "Gauss's error function.", numpy=forms.erf,
    slope=lambda x, y: make.like(x, 2 / math.sqrt(math.pi)) * exp(-x * x),
    bound=make.rising(math.erf), c="erf",
)  # fmt: skip
tanh: Unary = make.unary(
    "tanh", "Hyperbolic tangent.", numpy=np.tanh, slope=lambda x, y: 1.0 - y * y,
    bound=make.rising(np.tanh), c="tanh",
)  # fmt: skip
sigmoid: Unary = make.unary(
    "sigmoid", "1 / (1 + exp(-x)).", numpy=forms.sigmoid, slope=lambda x, y: y * (1.0 - y),
    bound=make.rising(forms.sigmoid), formula=_sigmoid_formula,
)  # fmt: skip
log: Unary = make.unary(
    "log", "Natural logarithm.", numpy=np.log, slope=lambda x, y: 1.0 / x,
    bound=make.rising(np.log), c="log", devices={"cuda float32": "__logf", "cuda float16": "hlog"},
)  # fmt: skip
log2: Unary = make.unary(
    "log2", "Logarithm to base 2.", numpy=np.log2,
    slope=lambda x, y: 1.0 / (x * make.like(x, math.log(2))), bound=make.rising(np.log2),
    c="log2", devices={"cuda float32": "__log2f", "cuda float16": "hlog2"},
)  # fmt: skip
log10: Unary = make.unary(
    "log10", "Logarithm to base 10.", numpy=np.log10,
    slope=lambda x, y: 1.0 / (x * make.like(x, math.log(10))), bound=make.rising(np.log10),
    c="log10", devices={"cuda float32": "__log10f", "cuda float16": "hlog10"},
)  # fmt: skip
log1p: Unary = make.unary(
    "log1p", "log(1 + x), accurate near 0.", numpy=np.log1p, slope=lambda x, y: 1.0 / (x + 1.0),
    bound=make.rising(np.log1p), c="log1p",
)  # fmt: skip
tan: Unary = make.unary(
    "tan", "Tangent; x in radians.", numpy=np.tan, slope=lambda x, y: 1.0 + y * y, c="tan"
)
cos: Unary = make.unary(
    "cos", "Cosine; x in radians.", numpy=np.cos, slope=lambda x, y: -sin(x),
    bound=make.within(-1, 1), c="cos", devices={"cuda float16": "hcos"},
)  # fmt: skip
sin: Unary = make.unary(
    "sin", "Sine; x in radians.", numpy=np.sin, slope=lambda x, y: cos(x),
    bound=make.within(-1, 1), c="sin", devices={"cuda float16": "hsin"},
)  # fmt: skip
cosh: Unary = make.unary(
    "cosh", "Hyperbolic cosine.", numpy=np.cosh, slope=lambda x, y: sinh(x),
    bound=make.within(1, math.inf), c="cosh",
)  # fmt: skip
sinh: Unary = make.unary(
    "sinh", "Hyperbolic sine.", numpy=np.sinh, slope=lambda x, y: cosh(x),
    bound=make.rising(np.sinh), c="sinh",
)  # fmt: skip
asin: Unary = make.unary(
    "asin", "Arc sine, in radians.", numpy=np.arcsin, slope=lambda x, y: rsqrt(1.0 - x * x),
    bound=make.within(-math.pi / 2, math.pi / 2), c="asin",
)  # fmt: skip
acos: Unary = make.unary(
    "acos", "Arc cosine, in radians.", numpy=np.arccos, slope=lambda x, y: -rsqrt(1.0 - x * x),
    bound=make.within(0, math.pi), c="acos",
)  # fmt: skip
atan: Unary = make.unary(
    "atan", "Arc tangent, in radians.", numpy=np.arctan, slope=lambda x, y: 1.0 / (1.0 + x * x),
    bound=make.rising(np.arctan), c="atan",
)  # fmt: skip
asinh: Unary = make.unary(
    "asinh", "Inverse hyperbolic sine.", numpy=np.arcsinh,
    slope=lambda x, y: rsqrt(x * x + 1.0), bound=make.rising(np.arcsinh), c="asinh",
)  # fmt: skip
acosh: Unary = make.unary(
    "acosh", "Inverse hyperbolic cosine.", numpy=np.arccosh,
    slope=lambda x, y: rsqrt(x * x - 1.0), bound=make.rising(np.arccosh, 0), c="acosh",
)  # fmt: skip
atanh: Unary = make.unary(
    "atanh", "Inverse hyperbolic tangent.", numpy=np.arctanh,
    slope=lambda x, y: 1.0 / (1.0 - x * x), bound=make.rising(np.arctanh), c="atanh",
)  # fmt: skip
sqrt: Unary = make.unary(
    "sqrt", "Square root.", numpy=np.sqrt, slope=lambda x, y: 0.5 / y,
    bound=make.rising(np.sqrt, 0), cost=CHEAP, llvm="sqrt", c="sqrt",
    devices={"cuda float16": "hsqrt"},
)  # fmt: skip
cbrt: Unary = make.unary(
    "cbrt", "Cube root; that of a negative number is negative.", numpy=np.cbrt,
    slope=lambda x, y: 1.0 / (3.0 * y * y), bound=make.rising(np.cbrt), c="cbrt",
)  # fmt: skip
rsqrt: Unary = make.unary(
    "rsqrt", "1 / sqrt(x).", numpy=lambda x: 1 / np.sqrt(x), slope=lambda x, y: -0.5 * y / x,
    bound=make.within(0, math.inf), cost=CHEAP, formula=_rsqrt_formula,
    devices={"cuda": "rsqrt", "cuda float16": "hrsqrt", "opencl": "rsqrt"},
)  # fmt: skip


def _atan2_slope(y: PrimExpr, x: PrimExpr, _: PrimExpr) -> Any:
    square = x * x + y * y
    return x / square, -y / square


atan2: Binary = make.binary(
    "atan2", "Angle of the point (x2, x1), in radians.", numpy=np.arctan2, slope=_atan2_slope,
    bound=make.within(-math.pi, math.pi), c="atan2",
)  # fmt: skip
hypot: Binary = make.binary(
    "hypot", "sqrt(x1 * x1 + x2 * x2) without overflow on the way.", numpy=np.hypot,
    slope=lambda a, b, y: (a / y, b / y), bound=_hypot_bound, c="hypot",
)  # fmt: skip


def _pow_slope(x: PrimExpr, n: PrimExpr, y: PrimExpr) -> Any:
    return n * power(x, n - 1.0), y * log(x)


make.row("pow", 2, numpy=np.power, slope=_pow_slope, c="pow")


def power(x: ExprLike, y: ExprLike, span: object = None) -> PrimExpr:
    """x to the power of y.

    x, y: expressions (or numbers), brought to the wider of their types, which the result has.
    Powers of integers are exact but for the bits that their type lacks; those with a negative
    exponent are rounded towards zero. Raises OperandError where `x` or `y` is neither a number nor
    an expression, and TilewrightError where `x` and `y` are vectors of different lengths or one is
    a handle.
    """
    a, b = match_types(x, y)
    if parse(a.dtype).is_integer:
        return bitwise("tir.int_pow", a, b)
    make.as_float("pow", a)
    if isinstance(b, FloatImm) and b.number == 1.0:
        return a
    return Call(a.dtype, "tir.pow", (a, b))


pow = power


make.row(
    "fma", 3, numpy=lambda a, b, c: a * b + c, cost=CHEAP,
    slope=lambda a, b, c, y: (b, a, make.like(a, 1)), llvm="fma", c="fma",
    devices={"cuda float16": "__hfma"},
)  # fmt: skip

BUILDERS = make.names_in(globals())
