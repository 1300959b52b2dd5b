"""Activations: functions of one element, or of the same element of several inputs.

Narrow floats are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.broadcast import broadcast
from ...tensor.tensor import Tensor
from ...topi.elemwise import accumulator
from .spec import OpSpec

Element = Callable[..., Any]
"""A function of the attributes and an element of each input, all in one type."""


def widened(function: Element, integers: str = "") -> OpSpec:
    """`function` of the elements of all inputs. `integers`: the type in which integers are taken,
    their own by default."""

    def apply(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
        dtype = t[0].dtype
        wide = accumulator(dtype)
        if integers and "float" not in dtype:
            wide = integers

        def element(*values: Any) -> Any:
            return cast(dtype, function(a, *(cast(wide, v) for v in values)))

        return broadcast(element, *t, name="T_activation")

    return OpSpec(apply)


def number(like: Any, value: float) -> Any:
    """A constant of the type of an expression."""
    return const(value, like.dtype)


def _negative_part(x: Any, below: Any) -> Any:
    """x where it is not negative, else `below`."""
    return O.select(x < number(x, 0), below, x)


def _celu(a: Mapping[str, Any], x: Any) -> Any:
    alpha, zero = number(x, a["alpha"]), number(x, 0)
    return O.max(x, zero) + O.min(zero, alpha * O.expm1(x / alpha))


def _elu(a: Mapping[str, Any], x: Any) -> Any:
    return _negative_part(x, number(x, a["alpha"]) * O.expm1(x))


def _selu(a: Mapping[str, Any], x: Any) -> Any:
    below = number(x, a["alpha"]) * O.expm1(x)
    return number(x, a["gamma"]) * _negative_part(x, below)


def _gelu(a: Mapping[str, Any], x: Any) -> Any:
    """(1 + tanh(u)) / 2 is sigmoid(2 u), which does not cancel where u is negative."""
    if a["approximate"] == "tanh":
        cubic = x + number(x, 0.044715) * x * x * x
        return x * O.sigmoid(number(x, 2 * math.sqrt(2 / math.pi)) * cubic)
    bend = O.erf(x * number(x, math.sqrt(0.5)))
    return number(x, 0.5) * x * (number(x, 1) + bend)


def _hard_sigmoid(a: Mapping[str, Any], x: Any) -> Any:
    line = number(x, a["alpha"]) * x + number(x, a["beta"])
    return O.max(O.min(line, number(x, 1)), number(x, 0))


def _hard_swish(a: Mapping[str, Any], x: Any) -> Any:
    line = x / number(x, 6) + number(x, 0.5)
    return x * O.max(O.min(line, number(x, 1)), number(x, 0))


def _softplus(a: Mapping[str, Any], x: Any) -> Any:
    """log(1 + exp(x)), without an overflow of the exponential."""
    return O.max(x, number(x, 0)) + O.log1p(O.exp(-O.abs(x)))


def _mish(a: Mapping[str, Any], x: Any) -> Any:
    return x * O.tanh(_softplus(a, x))


def _swish(a: Mapping[str, Any], x: Any) -> Any:
    return x * O.sigmoid(number(x, a["alpha"]) * x)


def _swiglu(a: Mapping[str, Any], gate: Any, x: Any) -> Any:
    return _swish(a, gate) * x


def _softsign(a: Mapping[str, Any], x: Any) -> Any:
    return x / (number(x, 1) + O.abs(x))


def _thresholded_relu(a: Mapping[str, Any], x: Any) -> Any:
    return O.select(x > number(x, a["alpha"]), x, number(x, 0))


def _shrink(a: Mapping[str, Any], x: Any) -> Any:
    limit, bias, zero = number(x, a["lambd"]), number(x, a["bias"]), number(x, 0)
    return O.select(x < -limit, x + bias, O.select(x > limit, x - bias, zero))


def _mean(a: Mapping[str, Any], *values: Any) -> Any:
    total = values[0]
    for v in values[1:]:
        total = total + v
    return total / number(total, len(values))


OPS: dict[str, OpSpec] = {
    "celu": widened(_celu),
    "elu": widened(_elu),
    "selu": widened(_selu),
    "gelu": widened(_gelu),
    "hard_sigmoid": widened(_hard_sigmoid),
    "hard_swish": widened(_hard_swish),
    "softplus": widened(_softplus),
    "mish": widened(_mish),
    "swish": widened(_swish),
    "swiglu": widened(_swiglu),
    "softsign": widened(_softsign),
    "thresholded_relu": widened(_thresholded_relu),
    "shrink": widened(_shrink, "float64"),
    "prelu": widened(lambda a, x, slope: _negative_part(x, slope * x)),
    "mean_of": widened(_mean),
}
