"""What a test knows of a value and its declared type does not say."""

from __future__ import annotations

from typing import Any, TypeVar

from tilewright.loopir.expr import FloatImm, IntImm, StringImm

T = TypeVar("T")


def value_of(e: object) -> Any:
    """The number or text of a constant."""
    assert isinstance(e, (IntImm, FloatImm, StringImm)), e
    return e.value


def int_of(e: object) -> int:
    """The value of a constant integer."""
    assert isinstance(e, IntImm), e
    return e.value


def some(x: T | None) -> T:
    """What is there."""
    assert x is not None
    return x


def as_a(kind: type[T], x: object) -> T:
    """`x`, which is of this kind."""
    assert isinstance(x, kind), x
    return x
