"""Functions of one or two elements that PyTorch names and ONNX does not.

Narrow floats are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...loopir import op as O
from .activations import number, widened
from .spec import OpSpec


def _erfc(x: Any) -> Any:
    """1 - erf(x): its absolute error is that of erf, so tails far out are no more than that."""
    return number(x, 1) - O.erf(x)


def _softplus(a: Mapping[str, Any], x: Any) -> Any:
    """log(1 + exp(beta x)) / beta, and x itself from a threshold on."""
    scaled = number(x, a["beta"]) * x
    smooth = O.max(scaled, number(x, 0)) + O.log1p(O.exp(-O.abs(scaled)))
    return O.select(scaled > number(x, a["threshold"]), x, smooth / number(x, a["beta"]))


def _log_sigmoid(a: Mapping[str, Any], x: Any) -> Any:
    """min(x, 0) - log(1 + exp(-|x|)), of which no exponential overflows."""
    return O.min(x, number(x, 0)) - O.log1p(O.exp(-O.abs(x)))


def _floor_divide(x: Any, y: Any) -> Any:
    """Of floats by the exact remainder: the quotient may round up to a whole number that it is
    less than, as of 1 and 0.1."""
    if "float" not in x.dtype:
        return O.floordiv(x, y)
    zero, one = number(x, 0), number(x, 1)
    rest = O.fmod(x, y)
    whole = (x - rest) / y
    below = O.select((rest < zero) != (y < zero), whole - one, whole)
    whole = O.select(rest.equal(zero), whole, below)
    near = O.floor(whole)
    near = O.select(whole - near > number(x, 0.5), near + one, near)
    return O.select(y.equal(zero), x / y, near)


def _one(function: Any) -> OpSpec:
    return widened(lambda a, x: function(x))


def _two(function: Any) -> OpSpec:
    return widened(lambda a, x, y: function(x, y))


OPS: dict[str, OpSpec] = {
    **{
        name: _one(getattr(O, name))
        for name in ("expm1", "log1p", "log2", "log10", "exp2", "rsqrt", "trunc")
    },
    "erfc": _one(_erfc),
    "atan2": _two(O.atan2),
    "hypot": _two(O.hypot),
    "copysign": _two(O.copysign),
    "floor_divide": _two(_floor_divide),
    "trunc_divide": _two(O.truncdiv),
    "softplus_of": widened(_softplus),
    "log_sigmoid": widened(_log_sigmoid),
}
