"""Functions of floats that round nothing: whole numbers, signs, neighbours, predicates."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtype import parse
from . import numpy_forms as forms
from . import op_build as make
from .expr import (
    EQ,
    LT,
    Call,
    FloatImm,
    IntImm,
    PrimExpr,
    Select,
    cast,
    const,
    convert,
    match_types,
)
from .fold import wrap_int
from .op_table import CHEAP, Binary, Bound, Unary, count, predicate
from .operators import ExprLike

_INTEGER_TOO = """{}

    x: a float expression of any width, scalar or vector; the result has its type. An integer stays
    as it is. A constant is folded.
    Raises OperandError where `x` is neither a number nor an expression, and TilewrightError where
    it is no number, such as a handle.
    """
_PREDICATE = """{}

    x: a float expression, scalar or vector; the result is bool in each lane. An integer gives a
    constant.
    Raises OperandError where `x` is neither a number nor an expression, and TilewrightError where
    it is no number, such as a handle.
    """


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


def _copysign_slope(x: PrimExpr, s: PrimExpr, y: PrimExpr) -> Any:
    same = (x >= 0).equal(y >= 0)
    return Select(same, make.like(x, 1), make.like(x, -1)), make.like(s, 0)


copysign: Binary = make.binary(
    "copysign", "The magnitude of x1 with the sign of x2.", numpy=np.copysign, exact=True,
    slope=_copysign_slope, bound=_copysign_bound, cost=CHEAP, llvm="copysign", c="copysign",
)  # fmt: skip
make.row(
    "fmod", 2, numpy=np.fmod, slope=lambda a, b, y: (make.like(a, 1), -trunc(a / b)),
    bound=_fmod_bound, c="fmod",
)  # fmt: skip


def fmod(x: ExprLike, y: ExprLike) -> PrimExpr:
    """Remainder of the division rounded towards zero; has the sign of x.

    x, y: float expressions (or numbers), brought to the wider of their types, which the result has.
    Raises OperandError where `x` or `y` is neither a number nor an expression, and TilewrightError
    where `x` and `y` are vectors of different lengths or one is a handle.
    """
    return make.made("fmod", *match_types(x, y))


nextafter: Binary = make.binary(
    "nextafter", "The float next to x1 in the direction of x2.", numpy=forms.nextafter, wide=False,
    any_width=True, c="nextafter",
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
    make.row(
        name, 1, fold=fold, exact=True, slope=make.flat, bound=make.rising(columns["numpy"]),
        cost=CHEAP, llvm=name, c=name, **columns,
    )  # fmt: skip

    def build(x: Any, span: object = None) -> PrimExpr:
        e = convert(x)
        t = parse(e.dtype)
        if t.is_integer or t.is_bool:
            return e
        if isinstance(e, FloatImm) and math.isfinite(e.number):
            return FloatImm(e.dtype, math.copysign(float(fold(e.number)), e.number))
        return Call(e.dtype, f"tir.{name}", (make.as_float(name, e),))

    result: Unary = make.named(build, name, _INTEGER_TOO.format(doc))
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

make.row(
    "fabs", 1, fold=math.fabs, numpy=np.abs, exact=True, bound=_magnitude_bound, cost=CHEAP,
    slope=lambda x, y: Select(x >= 0, make.like(x, 1), make.like(x, -1)), llvm="fabs", c="fabs",
    devices={"cuda float16": "__habs"},
)  # fmt: skip


def abs(x: ExprLike, span: object = None) -> PrimExpr:
    """Magnitude of a number; that of the smallest signed integer wraps to itself.

    x: an expression of any type, scalar or vector. The result has its type. Raises OperandError
    where `x` is neither a number nor an expression.
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
        return const(wrap_int(e.dtype, builtins.abs(e.value)), e.dtype)
    zero = const(0, e.dtype)
    return Select(e >= zero, e, zero - e)


# -- predicates


def _predicate(name: str, doc: str, of_integer: int, **columns: Any) -> Unary:
    fold = getattr(math, name)
    make.row(name, 1, check=predicate, fold=fold, bound=make.within(0, 1), cost=CHEAP, **columns)

    def build(x: Any, span: object = None) -> PrimExpr:
        x = convert(x)
        t = parse(x.dtype)
        result = parse("bool").with_lanes(t.lanes)
        if not t.is_float:
            return const(of_integer, result)
        if isinstance(x, FloatImm):
            return const(fold(x.number), "bool")
        if name == "isnan" and t.bits == 16:
            x = cast(parse("float32").with_lanes(t.lanes), x)
        return Call(result, f"tir.{name}", (x,))

    result: Unary = make.named(build, name, _PREDICATE.format(doc))
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


# -- powers of two


def _check_ldexp(call: Any) -> str | None:
    wrong = count(call, 2)
    if wrong:
        return wrong
    if call.args[0].dtype != call.dtype or parse(call.args[1].dtype).element != "int32":
        return f"tir.ldexp of {call.args[0].dtype} and {call.args[1].dtype} gives {call.dtype}"
    return None


make.row(
    "ldexp", 2, check=_check_ldexp, numpy=lambda x, n: np.ldexp(x, n.astype(np.int64)),
    slope=lambda x, n, y: (ldexp(make.like(x, 1), n),), c="ldexp",
)  # fmt: skip


def ldexp(x1: ExprLike, x2: ExprLike) -> PrimExpr:
    """x1 * 2^x2, rounded once.

    x1: a float expression, whose type the result has; x2: an integer one. Raises OperandError where
    `x1` or `x2` is neither a number nor an expression, and TilewrightError where `x1` is not of a
    float type.
    """
    x = make.as_float("ldexp", x1)
    t = parse(x.dtype)
    n = cast(f"int32x{t.lanes}" if t.lanes > 1 else "int32", x2)
    return Call(x.dtype, "tir.ldexp", (x, n))


BUILDERS = make.names_in(globals())
