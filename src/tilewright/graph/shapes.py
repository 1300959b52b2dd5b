"""Shapes and attributes, as far as they are made of sizes that are not known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .sizes import Size, Symbols


def names_of(value: Any) -> set[str]:
    """The symbols of shapes and attributes."""
    if isinstance(value, Size):
        return value.names
    if isinstance(value, (list, tuple)):
        return set().union(*map(names_of, value))
    return set()


def is_open(shape: Iterable[Any]) -> bool:
    """Whether a shape has sizes that are not known."""
    return any(isinstance(d, Size) for d in shape)


def with_exprs(value: Any) -> Any:
    """An attribute with expressions where it has sizes."""
    if isinstance(value, Size):
        return value.expr
    if isinstance(value, (list, tuple)):
        return type(value)(map(with_exprs, value))
    return value


def symbols_in(value: Any) -> Symbols | None:
    """The symbols that shapes or attributes are made of, if any."""
    if isinstance(value, Size):
        return value.symbols
    if isinstance(value, (list, tuple)):
        for x in value:
            found = symbols_in(x)
            if found is not None:
                return found
    return None


def broadcast_shapes(*shapes: Iterable[Any]) -> tuple[Any, ...]:
    """As NumPy's, of sizes: what is not 1 wins, whatever it will be."""
    result: tuple[Any, ...] = ()
    for shape in map(tuple, shapes):
        rank = max(len(result), len(shape))
        a = (*[1] * (rank - len(result)), *result)
        b = (*[1] * (rank - len(shape)), *shape)
        result = tuple(_both(x, y) for x, y in zip(a, b))
    return result


def _both(x: Any, y: Any) -> Any:
    if isinstance(x, int) and x == 1:
        return y
    if (isinstance(y, int) and y == 1) or x == y:
        return x
    raise ValueError(f"shapes with {x} and {y} cannot be broadcast to one")
