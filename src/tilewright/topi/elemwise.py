"""Element-wise operations: one output element from the same element of the inputs (NumPy
broadcasting).

All take tensors of any shape (binary ones also scalars) and return a tensor whose operation has the
tag "elemwise" or "broadcast".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..loopir import op as O
from ..loopir.expr import cast as cast_expr
from ..loopir.expr import const
from ..tensor import broadcast as B
from ..tensor.compute import compute
from ..tensor.tensor import Tensor

ELEMWISE = "elemwise"


def unary(function: Callable[[Any], Any], x: Tensor, name: str) -> Tensor:
    """`function` of every element."""
    result: Tensor = compute(x.shape, lambda *i: function(x(*i)), name, ELEMWISE)
    return result


def _unary(name: str) -> Callable[[Tensor], Tensor]:
    function = getattr(O, name)

    def apply(x: Tensor) -> Tensor:
        return unary(function, x, f"T_{name}")

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{name} of every element."
    return apply


exp, exp2, log, log2, log10 = map(_unary, ("exp", "exp2", "log", "log2", "log10"))
sin, cos, tan, tanh, sigmoid = map(_unary, ("sin", "cos", "tan", "tanh", "sigmoid"))
erf, sqrt, rsqrt, floor, ceil = map(_unary, ("erf", "sqrt", "rsqrt", "floor", "ceil"))
trunc, abs, round = map(_unary, ("trunc", "abs", "round"))
sinh, cosh, asin, acos, atan = map(_unary, ("sinh", "cosh", "asin", "acos", "atan"))
asinh, acosh, atanh = map(_unary, ("asinh", "acosh", "atanh"))
isnan, isinf, isfinite = map(_unary, ("isnan", "isinf", "isfinite"))


def negative(x: Tensor) -> Tensor:
    """-x."""
    return unary(lambda v: -v, x, "T_negative")


def identity(x: Tensor) -> Tensor:
    """x itself."""
    return unary(lambda v: v, x, "T_identity")


def cast(x: Tensor, dtype: str) -> Tensor:
    """Every element converted to `dtype`."""
    return unary(lambda v: cast_expr(dtype, v), x, "T_cast")


def accumulator(dtype: str) -> str:
    """The type in which sums of many elements of `dtype` are taken: float32 for narrower floats,
    of which a sum of a few hundred would lose all that is added to it."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def clip(x: Tensor, a_min: float, a_max: float) -> Tensor:
    """Every element limited to [a_min, a_max]; a_max where a_min is larger."""
    low, high = const(a_min, x.dtype), const(a_max, x.dtype)
    return unary(lambda v: O.min(O.max(v, low), high), x, "T_clip")


def _binary(name: str) -> Callable[[Any, Any], Any]:
    def apply(lhs: Any, rhs: Any) -> Any:
        return B.apply(name, lhs, rhs)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{name} of two tensors (or a tensor and a scalar), broadcast to one shape."
    return apply


add, subtract, multiply = map(_binary, ("add", "subtract", "multiply"))
maximum, minimum, floor_divide = map(_binary, ("maximum", "minimum", "floor_divide"))
less, greater, equal, not_equal = map(_binary, ("less", "greater", "equal", "not_equal"))
less_equal, greater_equal, floor_mod = map(_binary, ("less_equal", "greater_equal", "floor_mod"))


def divide(lhs: Any, rhs: Any) -> Tensor:
    """lhs / rhs; of integers rounded towards zero."""
    return B.broadcast(quotient, lhs, rhs, name="T_divide")


def quotient(a: Any, b: Any) -> Any:
    """a / b; of integers rounded towards zero."""
    return a / b if "float" in a.dtype else O.truncdiv(a, b)


def power(lhs: Any, rhs: Any) -> Tensor:
    """lhs to the power of rhs."""
    return B.broadcast(O.power, lhs, rhs, name="T_power")


def where(condition: Tensor, x: Any, y: Any) -> Tensor:
    """x where the condition holds, else y."""
    return B.broadcast(lambda c, a, b: O.select(c, a, b), condition, x, y, name="T_where")


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape."""
    first, *rest = xs

    def element(*i: Any) -> Any:
        total: Any = first(*i)
        for x in rest:
            total = total + x(*i)
        return total

    result: Tensor = compute(first.shape, element, "T_elemwise_sum", ELEMWISE)
    return result


def full(shape: Sequence[Any], dtype: str, fill_value: Any) -> Tensor:
    """A tensor of which every element is `fill_value`."""
    value = cast_expr(dtype, fill_value)
    result: Tensor = compute(shape, lambda *i: value, "T_full", ELEMWISE)
    return result


def full_like(x: Tensor, fill_value: Any) -> Tensor:
    """A tensor like another, of which every element is `fill_value`."""
    return full(x.shape, x.dtype, fill_value)
