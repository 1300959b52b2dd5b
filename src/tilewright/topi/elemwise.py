"""Element-wise operations: one output element from the same element of the inputs (NumPy
broadcasting).

All take tensors of any shape (binary ones also scalars) and return a tensor whose operation has the
tag "elemwise" or "broadcast".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.dtype import parse
from ..loopir import op as O
from ..loopir.expr import PrimExpr, const
from ..loopir.expr import cast as cast_expr
from ..tensor import broadcast as B
from ..tensor.compute import compute
from ..tensor.tensor import Tensor

ELEMWISE = "elemwise"


def unary(function: Callable[[Any], Any], x: Tensor, name: str) -> Tensor:
    """`function` of every element."""
    result: Tensor = compute(x.shape, lambda *i: function(x(*i)), name, ELEMWISE)
    return result


def _named(name: str, function: Callable[[Any], Any], doc: str) -> Callable[[Tensor], Tensor]:
    def apply(x: Tensor) -> Tensor:
        return unary(function, x, f"T_{name}")

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return apply


def _unary(name: str) -> Callable[[Tensor], Tensor]:
    doc = f"{name} of every element of any type. Shape and type stay."
    return _named(name, getattr(O, name), doc)


def _test(name: str) -> Callable[[Tensor], Tensor]:
    doc = f"{name} of every element of any type, as bool. The shape stays."
    return _named(name, getattr(O, name), doc)


def _of_floats(name: str) -> Callable[[Tensor], Tensor]:
    function = getattr(O, name)
    doc = f"{name} of every element: of floats in their type, of integers and bool in float32."
    doc += " The shape stays."
    return _named(name, lambda v: function(as_float(v)), doc)


def as_float(x: Any) -> Any:
    """An expression of floats as it is, one of integers or bool in float32."""
    return x if parse(x.dtype).is_float else cast_expr("float32", x)


exp, exp2, log, log2, log10 = map(_of_floats, ("exp", "exp2", "log", "log2", "log10"))
sin, cos, tan, tanh, sigmoid = map(_of_floats, ("sin", "cos", "tan", "tanh", "sigmoid"))
sinh, cosh, asin, acos, atan = map(_of_floats, ("sinh", "cosh", "asin", "acos", "atan"))
asinh, acosh, atanh = map(_of_floats, ("asinh", "acosh", "atanh"))
erf, sqrt, rsqrt = map(_of_floats, ("erf", "sqrt", "rsqrt"))
floor, ceil, trunc, abs, round = map(_unary, ("floor", "ceil", "trunc", "abs", "round"))
isnan, isinf, isfinite = map(_test, ("isnan", "isinf", "isfinite"))


def negative(x: Tensor) -> Tensor:
    """-x. Shape and type of `x` stay, which may be any."""
    return unary(lambda v: -v, x, "T_negative")


def sign(x: Tensor) -> Tensor:
    """1 of numbers above zero, -1 of those below, 0 of others. Shape and type of `x` stay, which
    may be any."""

    def of(v: Any) -> Any:
        zero, one = const(0, v.dtype), const(1, v.dtype)
        below = zero if v.dtype.startswith("uint") else O.select(v < zero, zero - one, zero)
        return O.select(v > zero, one, below)

    return unary(of, x, "T_sign")


def identity(x: Tensor) -> Tensor:
    """x itself. Shape and type of `x` stay, which may be any."""
    return unary(lambda v: v, x, "T_identity")


def cast(x: Any, dtype: str, span: object = None) -> Any:
    """Every element (or an expression) converted to `dtype`. `span`: where the user wrote it, of
    which nothing is kept. Raises OperandError where `x` is neither a number nor an expression, and
    TilewrightError where `x` is a vector of another length, where `dtype` is no type such as
    'float32'."""
    if not isinstance(x, Tensor):
        return cast_expr(dtype, x)
    return unary(lambda v: cast_expr(dtype, v), x, "T_cast")


def accumulator(dtype: str) -> str:
    """The type in which sums of many elements of `dtype` are taken: float32 for narrower floats,
    of which a sum of a few hundred would lose all that is added to it."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def clip(x: Tensor, a_min: Any, a_max: Any) -> Tensor:
    """Every element limited to [a_min, a_max] (numbers or expressions); a_min where it is the
    larger. Shape and type of `x` stay, which may be any."""
    low, high = (
        cast_expr(x.dtype, v) if isinstance(v, PrimExpr) else const(v, x.dtype)
        for v in (a_min, a_max)
    )
    return unary(lambda v: O.max(O.min(v, high), low), x, "T_clip")


def _binary(name: str) -> Callable[[Any, Any], Any]:
    return binary(name, B.BINARY[name])


def binary(name: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator of two tensors, or of a tensor and a scalar, broadcast to one shape; of two
    expressions the expression."""

    def apply(lhs: Any, rhs: Any) -> Any:
        if not isinstance(lhs, Tensor) and not isinstance(rhs, Tensor):
            return function(lhs, rhs)
        return B.broadcast(function, lhs, rhs, name=f"T_{name}")

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = (
        f"{name} of two tensors (or a tensor and a scalar), broadcast to one shape.\n\n"
        "Raises TilewrightError where the shapes do not broadcast, or there is no such operation\n"
        "of the types, and OperandError where `lhs` or `rhs` is neither a tensor, a number nor an\n"
        "expression."
    )
    return apply


add, subtract, multiply = map(_binary, ("add", "subtract", "multiply"))
maximum, minimum, floor_divide = map(_binary, ("maximum", "minimum", "floor_divide"))
less, greater, equal, not_equal = map(_binary, ("less", "greater", "equal", "not_equal"))
less_equal, greater_equal, floor_mod = map(_binary, ("less_equal", "greater_equal", "floor_mod"))


left_shift, right_shift = map(_binary, ("left_shift", "right_shift"))
bitwise_and, bitwise_or, bitwise_xor = map(_binary, ("bitwise_and", "bitwise_or", "bitwise_xor"))


def quotient(a: Any, b: Any) -> Any:
    """a / b; of integers rounded towards zero."""
    floats = any("float" in getattr(x, "dtype", "") or isinstance(x, float) for x in (a, b))
    return a / b if floats else O.truncdiv(a, b)


def _remainder(a: Any, b: Any) -> Any:
    """What is left of a truncated division: of the dividend's sign."""
    floats = any("float" in getattr(x, "dtype", "") or isinstance(x, float) for x in (a, b))
    return O.fmod(a, b) if floats else O.truncmod(a, b)


def _log_add_exp(a: Any, b: Any) -> Any:
    """log(exp a + exp b) without overflow."""
    most = O.max(a, b)
    return most + O.log(O.exp(O.min(a, b) - most) + 1)


def _whole_quotient(a: Any, b: Any) -> Any:
    """a / b rounded towards zero."""
    value = a / b if "float" in getattr(a, "dtype", "") else O.truncdiv(a, b)
    return O.trunc(value) if "float" in value.dtype else value


divide = binary("divide", quotient)
mod = binary("mod", _remainder)
power = binary("power", O.power)
log_add_exp = binary("log_add_exp", _log_add_exp)
trunc_divide = binary("trunc_divide", _whole_quotient)
trunc_mod = binary("trunc_mod", _remainder)
atan2 = binary("atan2", O.atan2)
logical_and = binary("logical_and", lambda a, b: O.all(a, b))
logical_or = binary("logical_or", lambda a, b: O.any(a, b))
logical_xor = binary("logical_xor", lambda a, b: O.bitwise_xor(a, b))


def _complement(name: str) -> Callable[[Any], Any]:
    def apply(data: Any) -> Any:
        if not isinstance(data, Tensor):
            return O.bitwise_not(data)
        return unary(O.bitwise_not, data, f"T_{name}")

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = (
        f"{name} of every element, of bool or integers.\n\nRaises TilewrightError of floats, and "
        "OperandError where `data` is neither\na tensor, a number nor an expression."
    )
    return apply


logical_not, bitwise_not = map(_complement, ("logical_not", "bitwise_not"))


def where(condition: Tensor, x: Any, y: Any) -> Tensor:
    """x where the condition holds (is not zero, in other types than bool), else y."""

    def chosen(c: Any, a: Any, b: Any) -> Any:
        holds = c if c.dtype == "bool" else c != const(0, c.dtype)
        return O.select(holds, a, b)

    return B.broadcast(chosen, condition, x, y, name="T_where")


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape. Takes any type, which the result keeps."""
    first, *rest = xs

    def element(*i: Any) -> Any:
        total: Any = first(*i)
        for x in rest:
            total = total + x(*i)
        return total

    result: Tensor = compute(first.shape, element, "T_elemwise_sum", ELEMWISE)
    return result


def full(shape: Sequence[Any], dtype: str, fill_value: Any) -> Tensor:
    """A tensor of which every element is `fill_value`. Returns `shape`, of `dtype`. Raises
    OperandError where `fill_value` is neither a number nor an expression, and TilewrightError where
    `fill_value` is a vector of another length, where `dtype` is no type such as 'float32'."""
    value = cast_expr(dtype, fill_value)
    result: Tensor = compute(shape, lambda *i: value, "T_full", ELEMWISE)
    return result


def full_like(x: Tensor, fill_value: Any) -> Tensor:
    """A tensor like another, of which every element is `fill_value`. Shape and type are those of
    `x`. Raises TilewrightError where `fill_value` is a vector of another length."""
    return full(x.shape, x.dtype, fill_value)
