"""Operations on single elements, by name; an operation that a type or mode lacks becomes another.

In mode "full" a program adds floats or multiplies them, not both (`rounding`): a product with a sum
on top may be computed with one rounding. Shift amounts are brought into what
SEMANTICS.md defines.
"""

from __future__ import annotations

from typing import Any

from tilewright import te, tir
from tilewright.base.dtype import parse

MATH = ("tanh", "exp", "sigmoid", "sin", "cos", "erf", "atan", "log1p", "exp2", "rsqrt", "cosh")


def zero(x: Any) -> Any:
    return tir.const(0, x.dtype)


def between(v: Any, low: int, high: int) -> Any:
    """`v` clamped; an unsigned number has no lower end."""
    if parse(v.dtype).is_bool:
        return v
    least = zero(v) if parse(v.dtype).is_uint else tir.const(low, v.dtype)
    return tir.max(tir.min(v, tir.const(high, v.dtype)), least)


def tame(v: Any) -> Any:
    """A whole number of at most 3 made of `v`."""
    v = between(v, -3, 3)
    return te.floor(v) if parse(v.dtype).is_float else v


def unary(op: str, v: Any, mode: str, rounding: str, number: int = 0) -> Any:
    """One operation on a number; of a bool, what is not it."""
    kind = parse(v.dtype)
    if kind.is_bool:
        return tir.Not(v)
    if op == "relu":
        return tir.max(v, zero(v))
    if op in ("half", "square") and kind.is_float and mode == "full" and rounding != "mul":
        op = "neg"
    if op == "half":
        return (
            v * tir.const(0.5, v.dtype) if kind.is_float else te.floordiv(v, tir.const(2, v.dtype))
        )
    if op == "square":
        return between(v, 0, 3) + v if mode == "exact" else v * v
    if kind.is_float:
        return _unary_float(op, v, mode, number)
    if mode == "full":
        return _unary_integer(op, v, number)
    return zero(v) - v


DIVISORS = (3, 7, -8, -7, 10, 2, -1000)


def _unary_integer(op: str, v: Any, number: int) -> Any:
    if op in ("quotient", "remainder"):
        by = DIVISORS[number % len(DIVISORS)]
        kind = parse(v.dtype)
        if not kind.min_value <= by <= kind.max_value:
            by = 5
        return (te.floordiv if op == "quotient" else te.floormod)(v, tir.const(by, v.dtype))
    if op == "abs":
        return te.abs(v)
    if op == "not":
        return tir.bitwise_not(v)
    if op == "popcount":
        return tir.popcount(v)
    if op == "clz":
        return tir.clz(v).astype(v.dtype)
    return zero(v) - v


def _unary_float(op: str, v: Any, mode: str, number: int) -> Any:
    if op == "abs":
        return te.abs(v)
    if op == "math" and mode in ("real", "special"):
        name = MATH[number % len(MATH)]
        return getattr(te, name)(v if name != "rsqrt" else te.abs(v) + tir.const(0.5, v.dtype))
    if mode == "real":  # what jumps has no bounds to speak of
        return te.sqrt(te.abs(v)) if op == "sqrt" else zero(v) - v
    if op in ("floor", "ceil", "trunc", "round", "nearbyint"):
        return getattr(te, op)(v)
    if op == "sqrt" and mode == "full":
        return te.sqrt(te.abs(v))
    if op in ("isnan", "isfinite"):
        return tir.Select(getattr(te, op)(v), tir.const(2, v.dtype), v)
    return zero(v) - v


def binary(op: str, a: Any, b: Any, mode: str, rounding: str) -> Any:
    """One operation on two numbers of one type."""
    kind = parse(a.dtype)
    if kind.is_bool:
        logic = {"and": tir.all, "add": tir.any, "or": tir.any, "max": tir.any}
        if op in logic:
            return logic[op](a, b)
        return tir.all(a, tir.Not(b)) if op in ("sub", "xor", "less") else tir.Select(a, b, a)
    if op in ("less", "equal", "differ", "least"):
        return _compared(op, a, b)
    if op in ("max", "min"):
        return tir.max(a, b) if op == "max" else tir.min(a, b)
    if mode == "exact":
        if op == "sub":
            return a - b
        return a * between(b, 0, 2) if op == "mul" else a + b
    if kind.is_float:
        return _binary_float(op, a, b, mode, rounding)
    return _binary_integer(op, a, b)


def _compared(op: str, a: Any, b: Any) -> Any:
    if op == "less":
        return a < b
    if op == "equal":
        return a.equal(b)
    if op == "differ":
        return a != b
    return tir.Select(a <= b, a, b)


def _binary_float(op: str, a: Any, b: Any, mode: str, rounding: str) -> Any:
    if op == "divide":
        return a / tir.Select(tir.any(b > zero(b), b < zero(b)), b, tir.const(1, b.dtype))
    if mode == "full":
        op = rounding
    if op == "mul":
        return a * b
    return a - b if op == "sub" else a + b


def _binary_integer(op: str, a: Any, b: Any) -> Any:
    if op in ("and", "or", "xor"):
        return getattr(tir, f"bitwise_{op}")(a, b)
    if op in ("shl", "shr"):
        amount = tir.bitwise_and(b, tir.const(parse(b.dtype).bits - 1, b.dtype))
        return tir.shift_left(a, amount) if op == "shl" else tir.shift_right(a, amount)
    if op in ("floordiv", "floormod", "truncdiv", "truncmod"):
        return getattr(te, op)(a, b)
    if op == "mul":
        return a * b
    return a - b if op == "sub" else a + b
