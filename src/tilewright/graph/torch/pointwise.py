"""Functions of single elements: arithmetic, comparisons, bits, activations, conversions."""

from __future__ import annotations

from typing import Any

from ...base.dtype import parse
from ...topi.elemwise import accumulator
from ..ir import Value
from .convert import Call, Converter


def _one(op: str, **attrs: Any) -> Converter:
    """Of integers, functions with results that are none are taken in the result's type."""
    return lambda c, x: c(op, c.cast(x, c.dtype), **attrs)


def _same(op: str) -> Converter:
    """Rounding and the like, which leaves integers as they are."""
    return lambda c, x, **how: c(op, x) if _is_float(x) else x


def _two(op: str) -> Converter:
    return lambda c, x, y: c(op, c.value(x, c.dtype), c.value(y, c.dtype))


def _is_float(x: Value) -> bool:
    return bool(parse(x.dtype).is_float)


def _scaled(op: str) -> Converter:
    """x + alpha y, or x - alpha y; conditions are joined by "or"."""

    def convert(c: Call, x: Any, y: Any, alpha: Any = 1) -> Value:
        x, y = c.value(x, c.dtype), c.value(y, c.dtype)
        if c.dtype == "bool":
            return c("bitwise_or", x, y)
        return c(op, x, y if alpha == 1 else c("multiply", y, alpha))

    return convert


def _reversed(c: Call, x: Any, y: Any, alpha: Any = 1) -> Value:
    result: Value = _scaled("subtract")(c, y, x, alpha)
    return result


def multiply(c: Call, x: Any, y: Any) -> Value:
    result: Value = _two("bitwise_and" if c.dtype == "bool" else "multiply")(c, x, y)
    return result


def divide(c: Call, x: Any, y: Any, rounding_mode: str | None = None) -> Value:
    """With a mode, integers divide as integers."""
    if rounding_mode is None:
        return c("divide", c.value(x, c.dtype), c.value(y, c.dtype))
    wide = _type_of_quotient(c, x, y)
    x, y = c.value(x, wide), c.value(y, wide)
    if rounding_mode == "trunc" and _is_float(x):
        return c.cast(c("trunc", c("divide", x, y)), c.dtype)
    return c.cast(c(f"{rounding_mode}_divide", x, y), c.dtype)


def _type_of_quotient(c: Call, x: Any, y: Any) -> str:
    """Numbers are not rounded to narrow floats, since it matters which side of a whole number a
    quotient is on."""
    numbers = not (isinstance(x, Value) and isinstance(y, Value))
    return accumulator(c.dtype) if numbers and parse(c.dtype).is_float else c.dtype


def floor_divide(c: Call, x: Any, y: Any) -> Value:
    return divide(c, x, y, "floor")


def _remainder(fmod: int) -> Converter:
    def convert(c: Call, x: Any, y: Any) -> Value:
        wide = _type_of_quotient(c, x, y)
        return c.cast(c("mod", c.value(x, wide), c.value(y, wide), fmod=fmod), c.dtype)

    return convert


def power(c: Call, x: Any, y: Any) -> Value:
    """Small powers are products, as in PyTorch."""
    if isinstance(x, Value) and isinstance(y, (int, float)):
        base: Value = c.cast(x, c.dtype)
        if y == 2:
            return c("multiply", base, base)
        if y == 3:
            return c("multiply", c("multiply", base, base), base)
        if y == 1:
            return base
        if _is_float(base) and y in (0.5, -0.5, -1):
            if y == -1:
                return reciprocal(c, base)
            return c("sqrt" if y == 0.5 else "rsqrt", base)
    return c("power", c.value(x, c.dtype), c.value(y, c.dtype))


def reciprocal(c: Call, x: Value) -> Value:
    x = c.cast(x, c.dtype)
    return c("divide", c.number(1, x.dtype), x)


def _compare(op: str, swapped: bool = False, inverted: bool = False) -> Converter:
    """In the type that both sides are promoted to; conditions are compared as 0 and 1."""

    def convert(c: Call, x: Any, y: Any) -> Value:
        dtype = "uint8" if c.promoted == "bool" else c.promoted
        x, y = c.value(x, dtype), c.value(y, dtype)
        out = c(op, y, x) if swapped else c(op, x, y)
        return c("invert", out) if inverted else out

    return convert


def truth(c: Call, x: Any) -> Value:
    """Whether an element is not 0."""
    if not isinstance(x, Value):
        return c.number(bool(x), "bool")
    return x if x.dtype == "bool" else c("invert", c("equal", x, 0))


def _logical(op: str) -> Converter:
    return lambda c, x, y: c(op, truth(c, x), truth(c, y))


def _shift(direction: str) -> Converter:
    def convert(c: Call, x: Any, y: Any) -> Value:
        return c("shift", c.value(x, c.dtype), c.value(y, c.dtype), direction=direction)

    return convert


def where(c: Call, condition: Value, x: Any, y: Any) -> Value:
    return c("where", truth(c, condition), c.value(x, c.dtype), c.value(y, c.dtype))


def masked_fill(c: Call, x: Value, mask: Value, value: Any) -> Value:
    return c("where", mask, c.value(value, c.dtype), x)


def is_inf(c: Call, x: Value) -> Value:
    if not _is_float(x):
        return c.full(x.shape, False, "bool")
    return c("isinf", x, positive=True, negative=True)


def is_nan(c: Call, x: Value) -> Value:
    return c("isnan", x) if _is_float(x) else c.full(x.shape, False, "bool")


def clamp(c: Call, x: Value, low: Any = None, high: Any = None) -> Value:
    """Limits that are numbers, or tensors."""
    x = c.cast(x, c.dtype)
    for op, limit in (("maximum", low), ("minimum", high)):
        if limit is not None:
            x = c(op, x, c.value(limit, c.dtype))
    return x


def clamp_min(c: Call, x: Value, low: Any) -> Value:
    return clamp(c, x, low)


def clamp_max(c: Call, x: Value, high: Any) -> Value:
    return clamp(c, x, None, high)


def hardtanh(c: Call, x: Value, low: float = -1.0, high: float = 1.0) -> Value:
    return clamp(c, x, low, high)


def relu6(c: Call, x: Value) -> Value:
    return clamp(c, x, 0, 6)


def gelu(c: Call, x: Value, approximate: str = "none") -> Value:
    return c("gelu", x, approximate=approximate)


def elu(c: Call, x: Value, alpha: float = 1.0, scale: float = 1.0, of: float = 1.0) -> Value:
    """scale * (x, or alpha (exp(of x) - 1) below 0)."""
    if of != 1:
        below = c("multiply", c("expm1", c("multiply", x, of)), alpha)
        out = c("where", c("greater", x, 0), x, below)
    else:
        out = c("elu", x, alpha=alpha)
    return out if scale == 1 else c("multiply", out, scale)


def leaky_relu(c: Call, x: Value, slope: float = 0.01) -> Value:
    return c("leaky_relu", x, alpha=slope)


def softplus(c: Call, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    return c("softplus_of", x, beta=float(beta), threshold=float(threshold))


def hardsigmoid(c: Call, x: Value) -> Value:
    return c("hard_sigmoid", x, alpha=1 / 6, beta=0.5)


def log_sigmoid(c: Call, x: Value) -> list[Value | None]:
    return [c("log_sigmoid", x), None]  # the second is for the backward pass


def _shrink(hard: bool) -> Converter:
    def convert(c: Call, x: Value, lambd: float = 0.5) -> Value:
        return c("shrink", x, lambd=float(lambd), bias=0.0 if hard else float(lambd))

    return convert


def threshold(c: Call, x: Value, limit: float, value: float) -> Value:
    return c("where", c("less_equal", x, limit), c.number(value, x.dtype), x)


def prelu(c: Call, x: Value, slope: Value) -> Value:
    return c("prelu", x, slope)


def addcmul(c: Call, x: Value, y: Value, z: Value, value: Any = 1) -> Value:
    product = c("multiply", c.cast(y, c.dtype), c.cast(z, c.dtype))
    return c("add", c.cast(x, c.dtype), product if value == 1 else c("multiply", product, value))


def addcdiv(c: Call, x: Value, y: Value, z: Value, value: Any = 1) -> Value:
    quotient = c("divide", c.cast(y, c.dtype), c.cast(z, c.dtype))
    return c("add", c.cast(x, c.dtype), quotient if value == 1 else c("multiply", quotient, value))


def lerp(c: Call, x: Value, y: Value, weight: Any) -> Value:
    """From the end that is nearer."""
    away, near = c("subtract", y, x), c.value(weight, c.dtype)
    first = c("add", x, c("multiply", away, near))
    second = c("subtract", y, c("multiply", away, c("subtract", c.number(1, c.dtype), near)))
    if not isinstance(weight, Value):
        return first if abs(weight) < 0.5 else second
    return c("where", c("less", c("abs", near), 0.5), first, second)


def sign(c: Call, x: Value) -> Value:
    """0 of what is no number."""
    found = c("sign", x)
    return c("where", c("isnan", x), c.number(0, x.dtype), found) if _is_float(x) else found


def sign_bit(c: Call, x: Value) -> Value:
    """Zeros have a sign, too."""
    if not _is_float(x):
        return c("less", x, 0) if x.dtype != "bool" else c.full(x.shape, False, "bool")
    return c("less", c("copysign", c.number(1, x.dtype), x), 0)


def _number_of(op: str) -> Converter:
    """fmax and fmin: of two, the one that is a number."""

    def convert(c: Call, x: Value, y: Value) -> Value:
        x, y = c.cast(x, c.dtype), c.cast(y, c.dtype)
        if not _is_float(x):
            return c(op, x, y)
        return c("where", c("isnan", x), y, c("where", c("isnan", y), x, c(op, x, y)))

    return convert


def rrelu(
    c: Call, x: Value, noise: Value, low: float = 1 / 8, high: float = 1 / 3,
    training: bool = False, *_: Any,
) -> list[Value]:  # fmt: skip
    """rrelu_with_noise_functional: without noise where nothing is trained."""
    if training:
        raise c.error("it draws random numbers")
    return [leaky_relu(c, x, (low + high) / 2), noise]


def convert_to(c: Call, x: Value, *_: Any, **__: Any) -> Value:
    """To the result's type: which one, and on which device, PyTorch has worked out."""
    if x.dtype != "bool" and c.dtype == "bool":
        return truth(c, x)
    if c.dtype in ("float16", "bfloat16") and x.dtype != c.dtype:
        return c("cast", x, dtype=c.dtype, rounds=True)
    return c.cast(x, c.dtype)


def copied(c: Call, x: Value, source: Value, *_: Any) -> Value:
    """The source, in the shape and type of what it overwrites."""
    return c.broadcast(convert_to(c, source), x.shape)


def identity(c: Call, x: Value, *_: Any, **__: Any) -> Value:
    return x


def silu(c: Call, x: Value) -> Value:
    return c("swish", x, alpha=1.0)


def ldexp(c: Call, x: Value, power: Value) -> Value:
    """x times a power of two, as PyTorch multiplies it."""
    return c("multiply", c.cast(x, c.dtype), c("exp2", c.cast(power, c.dtype)))


def rounded(c: Call, x: Value, decimals: int = 0) -> Value:
    if decimals:
        factor = 10.0**decimals
        wide = c.cast(x, accumulator(x.dtype))
        near = c("nearbyint", c("multiply", wide, factor))
        return c.cast(c("divide", near, factor), x.dtype)
    return c("nearbyint", x) if _is_float(x) else x


CONVERTERS: dict[str, Converter] = {
    **{
        kind: _one(op)
        for kind, op in {
            "relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "exp": "exp", "log": "log",
            "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan", "erf": "erf",
            "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
            "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "expm1": "expm1",
            "log1p": "log1p", "log2": "log2", "log10": "log10", "exp2": "exp2",
            "rsqrt": "rsqrt", "erfc": "erfc", "mish": "mish", "hardswish": "hard_swish",
            "neg": "negative", "bitwise_not": "invert", "abs": "abs",
        }.items()
    },
    **{kind: _same(kind) for kind in ("floor", "ceil", "trunc")},
    **{
        kind: _two(op)
        for kind, op in {
            "maximum": "maximum", "minimum": "minimum", "bitwise_and": "bitwise_and",
            "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor", "atan2": "atan2",
            "hypot": "hypot", "copysign": "copysign",
        }.items()
    },
    "round": rounded,
    "sign": sign,
    "sgn": sign,
    "signbit": sign_bit,
    "fmax": _number_of("maximum"),
    "fmin": _number_of("minimum"),
    "rrelu_with_noise_functional": rrelu,
    "add": _scaled("add"),
    "sub": _scaled("subtract"),
    "rsub": _reversed,
    "mul": multiply,
    "div": divide,
    "true_divide": divide,
    "floor_divide": floor_divide,
    "remainder": _remainder(0),
    "fmod": _remainder(1),
    "pow": power,
    "reciprocal": reciprocal,
    "eq": _compare("equal"),
    "ne": _compare("equal", inverted=True),
    "lt": _compare("less"),
    "le": _compare("less_equal"),
    "gt": _compare("greater"),
    "ge": _compare("greater_equal"),
    "logical_and": _logical("bitwise_and"),
    "logical_or": _logical("bitwise_or"),
    "logical_xor": _logical("bitwise_xor"),
    "logical_not": lambda c, x: c("invert", truth(c, x)),
    "bitwise_left_shift": _shift("LEFT"),
    "bitwise_right_shift": _shift("RIGHT"),
    "__lshift__": _shift("LEFT"),
    "__rshift__": _shift("RIGHT"),
    "where": where,
    "masked_fill": masked_fill,
    "isinf": is_inf,
    "isnan": is_nan,
    "clamp": clamp,
    "clamp_min": clamp_min,
    "clamp_max": clamp_max,
    "hardtanh": hardtanh,
    "relu6": relu6,
    "gelu": gelu,
    "silu": silu,
    "elu": elu,
    "leaky_relu": leaky_relu,
    "softplus": softplus,
    "hardsigmoid": hardsigmoid,
    "log_sigmoid_forward": log_sigmoid,
    "hardshrink": _shrink(True),
    "softshrink": _shrink(False),
    "threshold": threshold,
    "_prelu_kernel": prelu,
    "addcmul": addcmul,
    "addcdiv": addcdiv,
    "ldexp": ldexp,
    "lerp": lerp,
    "copy": copied,
    "_to_copy": convert_to,
    "convert_element_type": convert_to,
    **dict.fromkeys(("clone", "alias", "detach", "lift_fresh_copy", "view_of"), identity),
}  # fmt: skip
