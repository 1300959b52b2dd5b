"""Functions by polynomials of low degree, fixed-point products and bits of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import op as O
from ..loopir.expr import cast as cast_expr
from ..loopir.expr import const, convert
from ..tensor.compute import compute
from ..tensor.tensor import Tensor
from .elemwise import ELEMWISE, as_float, erf, exp, tanh, unary

_LOG2E = 1.44269504088896341
_LN2 = 0.6931471805599453
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
        5.0000001201e-1)  # fmt: skip
"""exp(r) is 1 + r + r^2 times this polynomial, for |r| <= ln(2) / 2 (Moshier's Cephes)."""
_TANH = (
    (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
     1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03),
    (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03),
)  # fmt: skip
"""tanh x is x p(x^2) / q(x^2) for |x| <= 9, of which tanh differs from 1 by less than float32
shows; the minimax quotient of Eigen."""
_ERF = (
    (-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
     -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02),
    (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
     -1.42647390514189e-02),
)  # fmt: skip
"""erf x likewise, for |x| <= 4."""


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    value: Any = const(coefficients[0], x.dtype)
    for c in coefficients[1:]:
        value = value * x + const(c, x.dtype)
    return value


def exp_by_polynomial(x: Any) -> Any:
    """exp of an expression of float32: 2^n exp(r), where n is whole and r small; n is made an
    exponent by its place in the bits."""
    x = O.max(O.min(x, const(88.3762626647950, "float32")), const(-88.3762626647949, "float32"))
    n = O.floor(x * const(_LOG2E, "float32") + const(0.5, "float32"))
    r = x - n * const(_LN2, "float32")
    value = _polynomial(r, _EXP) * r * r + r + const(1, "float32")
    bits = O.shift_left(cast_expr("int32", n) + const(127, "int32"), const(23, "int32"))
    return O.max(value * O.reinterpret("float32", bits), x)


def fast_exp(x: Tensor) -> Tensor:
    """exp of every element; of float32, and of integers in float32, by a polynomial (Moshier's
    Cephes) with a relative error below 1e-6. The shape stays, and the type of floats."""
    if parse(x.dtype).is_float and x.dtype != "float32":
        return exp(x)
    return unary(lambda v: exp_by_polynomial(as_float(v)), x, "T_fast_exp")


def fast_tanh(x: Tensor) -> Tensor:
    """tanh of every element; of float32, and of integers in float32, by a quotient of polynomials
    (Eigen), with an error below 1e-6. The shape stays, and the type of floats."""
    if parse(x.dtype).is_float and x.dtype != "float32":
        return tanh(x)
    return unary(lambda v: _quotient(as_float(v), 9, _TANH), x, "T_fast_tanh")


def _quotient(x: Any, bound: float, parts: tuple[Sequence[float], Sequence[float]]) -> Any:
    """x p(x^2) / q(x^2) of x cut to [-bound, bound]."""
    top, bottom = parts
    x = O.max(O.min(x, const(bound, x.dtype)), const(-bound, x.dtype))
    square = x * x
    return x * _polynomial(square, top) / _polynomial(square, bottom)


def fast_erf(x: Tensor) -> Tensor:
    """erf of every element; of float32 and float16, which is taken in float32, by a quotient of
    polynomials (Eigen) with an error below 1e-6. The shape stays, and the type of floats."""
    if x.dtype not in ("float32", "float16"):
        return erf(x)

    def of(v: Any) -> Any:
        return cast_expr(x.dtype, _quotient(cast_expr("float32", v), 4, _ERF))

    return unary(of, x, "T_fast_erf")


def reinterpret(x: Tensor, dtype: str) -> Tensor:
    """The bits of every element as a number of another type of the same width. The shape stays; the
    result is of `dtype`."""
    return unary(lambda v: O.reinterpret(dtype, v), x, "T_reinterpret")


def ceil_log2(x: Any) -> Any:
    """The logarithm to base 2, rounded up: of a tensor, or of an expression, of integers (float32
    of its leading zeros) or floats (of their type). Raises OperandError where `x` is neither a
    number nor an expression."""

    def of(v: Any) -> Any:
        kind = parse(v.dtype)
        if kind.is_float:
            return O.ceil(O.log2(v))
        return cast_expr(v.dtype, O.ceil(O.log2(cast_expr("float64", v))))

    return unary(of, x, "T_ceil_log2") if isinstance(x, Tensor) else of(convert(x))


def fixed_point_multiply(x: Tensor, multiplier: int, shift: int) -> Tensor:
    """Every element of int32 times multiplier * 2^(shift - 31), rounded; halves are rounded up.
    Takes integers, whose shape and type the result keeps. Scales in fixed point: Jacob et al.,
    Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference,
    CVPR 2018. Raises OperandError where `multiplier` or `shift` is neither a number nor an
    expression."""
    m, q, s = const(multiplier, "int32"), const(31, "int32"), const(shift, "int32")
    return unary(lambda v: O.q_multiply_shift(v, m, q, s), x, "T_fixed_point_multiply")


def fixed_point_multiply_per_axis(
    x: Tensor,
    y: Tensor,
    lshift: Tensor,
    rshift: Tensor,
    is_lshift_required: int,
    is_rshift_required: int,
    axes: Sequence[int],
) -> Tensor:
    """Every element of int32 shifted left, times a multiplier of 31 bits after the point, shifted
    right with rounding; `y`, `lshift` and `rshift` have one number per index of the dimensions
    `axes`. Scales in fixed point: Jacob et al., Quantization and Training of Neural Networks for
    Efficient Integer-Arithmetic-Only Inference, CVPR 2018. Raises TilewrightError where `x` or `y`
    is not int32."""
    if x.dtype != "int32" or y.dtype != "int32":
        raise TilewrightError(f"fixed_point_multiply_per_axis is of int32, got {x!r} and {y!r}")

    def element(*i: Any) -> Any:
        at = [i[a] for a in axes]
        value = cast_expr("int64", x(*i))
        if is_lshift_required:
            value = O.shift_left(value, cast_expr("int64", lshift(*at)))
        shift: Any = const(31, "int64")
        if is_rshift_required:
            shift = shift + cast_expr("int64", rshift(*at))
        half = O.shift_left(const(1, "int64"), shift - const(1, "int64"))
        product = value * cast_expr("int64", y(*at)) + half
        return cast_expr("int32", O.shift_right(product, shift))

    result: Tensor = compute(x.shape, element, "T_fixed_point_multiply_per_axis", ELEMWISE)
    return result
