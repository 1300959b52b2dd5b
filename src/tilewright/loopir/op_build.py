"""What the rows of functions of floats are made with: builders, bounds, constants."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from .expr import Call, PrimExpr, cast, const, convert, match_types
from .op_table import Binary, Bound, CallEffectKind, Unary, add_row, floats

_ONE = """{}

    x: a float expression of any width, scalar or vector. The result has its type. The value of an
    integer or a condition is computed as a float and rounded towards zero.
    Raises OperandError where `x` is neither a number nor an expression.
    """
_TWO = """{}

    x1, x2: float expressions (or numbers), brought to the wider of their types, which the result
    has. The value for integers is computed with floats and rounded towards zero.
    Raises OperandError where `x1` or `x2` is neither a number nor an expression, and
    TilewrightError where their lanes differ.
    """


def as_float(name: str, x: Any) -> PrimExpr:
    """`x` as an expression; TilewrightError unless it is a float."""
    e = convert(x)
    if not parse(e.dtype).is_float:
        raise TilewrightError(
            f'{name} takes a float, got {e.dtype}; convert it first: x.astype("float32")'
        )
    return e


def made(name: str, *args: PrimExpr) -> PrimExpr:
    """The call, of whole numbers by way of floats that hold them: float64 where float32 may not."""
    dtype = args[0].dtype
    t = parse(dtype)
    if not (t.is_integer or t.is_bool):
        return Call(dtype, f"tir.{name}", [as_float(name, x) for x in args])
    wide = parse("float64" if t.bits > 16 else "float32").with_lanes(t.lanes)
    return cast(dtype, Call(wide, f"tir.{name}", [cast(wide, x) for x in args]))


def row(name: str, arguments: int, **columns: Any) -> None:
    """Enter a function of so many floats."""
    given = {"check": floats(arguments), "lanewise": True, **columns}
    add_row(name, effect=CallEffectKind.Pure, **given)


def named(build: Any, name: str, doc: str) -> Any:
    """A builder under the name and with the text that `help` shows."""
    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return build


def unary(name: str, doc: str, **columns: Any) -> Unary:
    """Enter a function of one float; gives its builder."""
    row(name, 1, **columns)

    def build(x: Any) -> PrimExpr:
        return made(name, convert(x))

    result: Unary = named(build, name, _ONE.format(doc))
    return result


def binary(name: str, doc: str, **columns: Any) -> Binary:
    """Enter a function of two floats; gives its builder."""
    row(name, 2, **columns)

    def build(x1: Any, x2: Any) -> PrimExpr:
        return made(name, *match_types(x1, x2))

    result: Binary = named(build, name, _TWO.format(doc))
    return result


def names_in(module: dict[str, Any]) -> tuple[str, ...]:
    """The names of the builders that a module of rows holds; the faces `te` and `tir` have them."""
    homes = (__name__, module["__name__"])
    return tuple(
        name
        for name, value in module.items()
        if name[0] != "_" and type(value) is FunctionType and value.__module__ in homes
    )


# -- bounds of values, from those of the arguments


def within(low: float, high: float) -> Callable[..., Bound]:
    """Between two numbers, whatever the arguments."""
    return lambda call, *bounds: (low, high)


def rising(function: Callable[[float], Any], least: float = -math.inf) -> Callable[..., Bound]:
    """Of a function that never falls and is `least` or more."""

    def bound(call: Any, x: Bound) -> Bound:
        with np.errstate(all="ignore"):
            low, high = (float(function(np.float64(end))) for end in x)
        return max(least, -math.inf if math.isnan(low) else low), (
            math.inf if math.isnan(high) else high
        )

    return bound


# -- derivatives


def like(x: PrimExpr, value: float) -> PrimExpr:
    """A constant of the type of `x`."""
    return const(value, x.dtype)


def flat(x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """The derivative of a step function."""
    return like(x, 0)
