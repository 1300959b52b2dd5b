"""The values that te_eval computes with: plain arrays, in the program's types or in float64.

te_expr.py walks expressions and calls these operations; te_bound.py has the same operations on
values with error bounds. All arrays broadcast against the grid of the axes.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from . import np_ops
from .np_ops import Array

_REDUCE: dict[type, Any] = {
    E.Add: np.add,
    E.Mul: np.multiply,
    E.Min: np.minimum,
    E.Max: np.maximum,
    E.And: np.logical_and,
    E.Or: np.logical_or,
}


class NumpyAlgebra:
    """Operations on arrays. `wide` replaces every float type by float64."""

    def __init__(self, wide: bool = False) -> None:
        self.wide = wide

    def numpy_type(self, dtype: str) -> np.dtype[Any]:
        t = parse(dtype)
        if t.lanes != 1:
            raise TilewrightError(f"te_eval knows scalar types only, not {dtype}")
        return np.dtype(np.float64) if self.wide and t.is_float else t.numpy

    def working(self, dtype: str) -> str:
        """The type in which a value of `dtype` is kept."""
        return "float64" if self.wide and parse(dtype).is_float else dtype

    def const(self, value: int | float, dtype: str) -> Any:
        return np.asarray(value, dtype=self.numpy_type(dtype))

    def wrap(self, x: Array, dtype: str) -> Any:
        """A given array as a value."""
        return x.astype(self.numpy_type(dtype), copy=False)

    def numbers(self, x: Any) -> Array:
        """The plain values of `x`."""
        array: Array = x
        return array

    def cast(self, x: Any, source: str, dtype: str) -> Any:
        return np_ops.cast(x, self.working(dtype))

    def binary(self, cls: type, a: Any, b: Any, dtype: str) -> Any:
        if cls in (E.And, E.Or):
            return self.compare(cls, a, b)
        return np.asarray(np_ops.BINARY[cls](a, b))

    def compare(self, cls: type, a: Any, b: Any) -> Any:
        return np.asarray(np_ops.COMPARE[cls](a, b))

    def negate(self, a: Any) -> Any:
        return ~a

    def select(self, condition: Any, a: Any, b: Any) -> Any:
        return np.where(condition, a, b)

    def call(self, name: str, args: list[Any], dtype: str) -> Any:
        return np_ops.call(name, args, self.working(dtype))

    def external(self, function: Any, args: list[Any], dtype: str) -> Any:
        """A user's function, which takes and gives arrays."""
        return self.wrap(np.asarray(function(*args)), dtype)

    def gather(self, table: Any, indices: tuple[Array, ...]) -> Any:
        return np.asarray(table[indices])

    def blur(self, x: Any, indices: Sequence[Any]) -> Any:
        """`x`, less certain where it was read at uncertain `indices`."""
        return x

    def from_extern(self, x: Array, dtype: str) -> Any:
        """What an extern operation has written."""
        return self.wrap(x, dtype)

    def view(self, table: Any, slices: tuple[Any, ...], order: list[int], shape: list[int]) -> Any:
        """A box of a table with its dimensions reordered and reshaped."""
        return table[slices].transpose(order).reshape(shape)

    def expand(self, x: Any, shape: Sequence[int]) -> Any:
        """`x` broadcast to `shape`."""
        return np.broadcast_to(x, shape)

    def trail(self, x: Any, count: int) -> Any:
        """`x` with `count` dimensions of one added at the end."""
        return x.reshape(x.shape + (1,) * count)

    def line(self, x: Any, shape: Sequence[int]) -> Any:
        """`x` with its elements in another shape."""
        return x.reshape(shape)

    def item(self, x: Any, index: Any) -> Any:
        """Part of the last dimension."""
        return x[..., index]

    def join(self, a: Any, b: Any) -> Any:
        """One after the other along the last dimension."""
        return np.concatenate([a, b], axis=-1)

    def blank(self, table: Any, shape: Sequence[int]) -> Any:
        """Zeros of the type of `table`."""
        return np.zeros(shape, dtype=table.dtype)

    def reduce(self, cls: type, x: Any, dims: tuple[int, ...], dtype: str) -> Any:
        """Combine along `dims`, which go."""
        if cls in (E.And, E.Or):
            return np.asarray(_REDUCE[cls].reduce(x, axis=dims))
        if x.dtype.kind == "b":
            logic: dict[type, type] = {E.Min: E.And, E.Max: E.Or, E.Add: E.Or, E.Mul: E.And}
            return np.asarray(_REDUCE[logic[cls]].reduce(x, axis=dims))
        flat = np.moveaxis(x, dims, range(-len(dims), 0))
        flat = flat.reshape((*flat.shape[: x.ndim - len(dims)], -1))
        return np.asarray(_REDUCE[cls].reduce(flat, axis=-1, dtype=x.dtype))

    def contract(self, factors: list[Any], grid: Sequence[int], rank: int, dtype: str) -> Any:
        """Sum over the dimensions from `rank` on of the product of factors that broadcast."""
        return contract(factors, grid, rank)

    def started(self, cls: type, x: Array, start: Array, count: int, dtype: str) -> Array:
        """The result of a reduction that began with `start`."""
        return x

    def can_contract(self, dtype: str) -> bool:
        """Whether `contract` serves values of this type."""
        return self.numpy_type(dtype) in (np.float32, np.float64, np.int32, np.int64)

    def table(self, shape: Sequence[int], dtype: str) -> Any:
        """A table of zeros to be filled with `store`."""
        return np.zeros(tuple(shape), dtype=self.numpy_type(dtype))

    def head(self, x: Any, rows: int) -> Any:
        """The first `rows` of a table."""
        return x[:rows]

    def part(self, table: Any, slices: tuple[slice, ...]) -> Any:
        """A box of a table."""
        return table[slices]

    def store(self, table: Any, place: tuple[Any, ...], x: Any) -> None:
        table[place] = x


def contract(factors: list[Array], grid: Sequence[int], rank: int) -> Array:
    """As NumpyAlgebra.contract; every dimension summed over must be in some factor."""
    letters = string.ascii_letters
    operands, terms = [], []
    present: set[int] = set()
    for f in factors:
        f = np.asarray(f).reshape((1,) * (len(grid) - np.ndim(f)) + np.shape(f))
        kept = [d for d in range(len(grid)) if f.shape[d] != 1]
        present.update(kept)
        operands.append(f.reshape([f.shape[d] for d in kept]))
        terms.append("".join(letters[d] for d in kept))
    out = [d for d in range(rank) if d in present]
    text = ",".join(terms) + "->" + "".join(letters[d] for d in out)
    result = np.einsum(text, *operands, optimize=len(operands) > 1)
    shape = [grid[d] if d in out else 1 for d in range(rank)]
    return np.broadcast_to(np.asarray(result).reshape(shape), tuple(grid[:rank]))
