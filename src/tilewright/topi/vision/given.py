"""What operators on boxes have in common: numbers that may be tensors, and how boxes overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...loopir import op as O
from ...loopir.expr import cast, const, convert
from ...tensor.tensor import Tensor


class Given:
    """A number that an operator takes as a number, an expression, or a tensor of one element."""

    def __init__(self, value: Any, dtype: str) -> None:
        self.tensor = value if isinstance(value, Tensor) else None
        self.dtype = dtype
        self.value = None if self.tensor is not None else cast(dtype, convert(value))

    def inputs(self) -> list[Tensor]:
        return [] if self.tensor is None else [self.tensor]

    def of_tensor(self) -> Any:
        """In a computation."""
        if self.tensor is None:
            return self.value
        return cast(self.dtype, self.tensor(*(0,) * self.tensor.ndim))

    def read(self, buffers: dict[Tensor, Any]) -> Any:
        if self.tensor is None:
            return self.value
        place = (0,) * self.tensor.ndim
        return cast(self.dtype, buffers[self.tensor][place])


def overlap(one: Sequence[Any], other: Sequence[Any]) -> Any:
    """The share of what two boxes, of two opposite corners each, have in common in what they cover;
    0 where they cover nothing."""

    def ends(box: Sequence[Any], d: int) -> tuple[Any, Any]:
        return O.min(box[d], box[d + 2]), O.max(box[d], box[d + 2])

    zero = const(0, one[0].dtype)
    common: Any = const(1, one[0].dtype)
    areas: list[Any] = []
    for d in (0, 1):
        (a, b), (c, e) = ends(one, d), ends(other, d)
        common = common * O.max(O.min(b, e) - O.max(a, c), zero)
        areas = [b - a, e - c] if not areas else [areas[0] * (b - a), areas[1] * (e - c)]
    covered = areas[0] + areas[1] - common
    return O.select(covered <= zero, zero, common / O.select(covered <= zero, covered + 1, covered))
