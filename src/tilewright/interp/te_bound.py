"""te_eval_bound: float64 reference values, and how far a program in its own types may lie off.

Running error analysis to first order (Wilkinson; Higham, Accuracy and Stability of Numerical
Algorithms, ch. 3): each operation passes on the errors of its operands and adds a rounding of its
result, a sum of n terms adds n roundings of the sum of magnitudes, whatever its order. A comparison
whose outcome is within the error makes what it selects as uncertain as the two choices lie apart.
The reference is itself worked out in float64: its own roundings are part of the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir.expr import Var
from ..loopir.op_table import TABLE, predicate
from ..tensor.tensor import Tensor
from .np_ops import Array
from .te_algebra import NumpyAlgebra, contract
from .te_eval import evaluate

_REFERENCE = 2.0**-53
MATH_ULP = 4.0  # functions such as exp are within so many units in the last place


def te_eval_bound(
    outputs: Tensor | Sequence[Tensor],
    feeds: Mapping[Tensor, Any],
    *,
    symbols: Mapping[Var, int] | None = None,
    extern: Mapping[str, Callable[..., Any]] | None = None,
) -> list[tuple[Array, Array]]:
    """(value, tolerance) of each output: float64 values, and absolute error bounds.

    A program that works in its declared types, in any order of summation, with or without fused
    multiply-add, gives results within `tolerance` of `value`; a tolerance of inf says that nothing
    can be said. `feeds` are taken as exact. Arguments are those of te_eval.
    """
    results = evaluate(BoundAlgebra(), outputs, feeds, symbols, extern)
    return [(r.value, np.broadcast_to(r.error, r.value.shape)) for r in results]


class Approx:
    """float64 (or exact integer) values and bounds on their errors."""

    __slots__ = ("error", "value")

    def __init__(self, value: Array, error: Any = 0.0) -> None:
        self.value = value
        self.error = np.asarray(error, dtype=np.float64)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)


def unit(dtype: str) -> float:
    """Unit roundoff: half the distance from 1 to the next larger number."""
    t = parse(dtype)
    if not t.is_float:
        return 0.0
    return {"bfloat": 2.0**-8}.get(t.code, {16: 2.0**-11, 32: 2.0**-24, 64: 2.0**-53}[t.bits])


def _tiny(dtype: str) -> float:
    """The distance between the smallest numbers of a type."""
    t = parse(dtype)
    if t.code == "bfloat":
        return 2.0**-133
    return {16: 2.0**-24, 32: 2.0**-149, 64: 2.0**-1074}[t.bits]


def _holds(dtype: str, source: str) -> bool:
    """Whether a float type has every number of another: float16 is finer than bfloat16, but
    shorter."""
    wider = parse(dtype).max_value >= parse(source).max_value
    return wider and unit(dtype) <= unit(source)


class BoundAlgebra:
    """The operations of NumpyAlgebra on Approx."""

    wide = True

    def __init__(self) -> None:
        self.plain = NumpyAlgebra(wide=True)

    def numpy_type(self, dtype: str) -> np.dtype[Any]:
        return self.plain.numpy_type(dtype)

    def const(self, value: int | float, dtype: str) -> Approx:
        return Approx(self.plain.const(value, dtype))

    def wrap(self, x: Array, dtype: str) -> Approx:
        return Approx(self.plain.wrap(x, dtype))

    def numbers(self, x: Any) -> Array:
        return x.value if isinstance(x, Approx) else np.asarray(x)

    def _rounded(self, value: Array, error: Any, dtype: str, ulps: float = 1.0) -> Approx:
        """A result with its rounding added; infinitely uncertain beyond the range of its type."""
        size = np.abs(value)
        total = error + (ulps * unit(dtype) + _REFERENCE) * (size + error) + _tiny(dtype)
        total = np.where(size + total >= parse(dtype).max_value, np.inf, _zero_nan(total))
        # an infinity or NaN that is certain must come out as such
        return Approx(value, np.where(np.isfinite(value) | (error > 0), total, 0))

    def cast(self, x: Approx, source: str, dtype: str) -> Approx:
        value = self.plain.cast(x.value, source, dtype)
        if parse(dtype).is_float:
            if parse(source).is_float and _holds(dtype, source):
                return Approx(value, x.error)
            exact = not parse(source).is_float and parse(source).bits <= 8
            return Approx(value, x.error) if exact else self._rounded(value, x.error, dtype)
        if not np.any(x.error):
            return Approx(value)
        if parse(dtype).is_bool:
            return Approx(value, (x.error > 0) & (np.abs(_f64(x.value)) <= x.error))
        low, high = (self.plain.cast(x.value + s * x.error, source, dtype) for s in (-1, 1))
        return Approx(value, np.abs(_f64(high) - _f64(low)))

    def binary(self, cls: type, a: Approx, b: Approx, dtype: str) -> Approx:
        if cls in (E.And, E.Or):
            return self.compare(cls, a, b)
        value = self.plain.binary(cls, a.value, b.value, dtype)
        x, y, ex, ey = a.value, b.value, a.error, b.error
        if cls in (E.Min, E.Max):
            return Approx(value, np.maximum(ex, ey))
        if not parse(dtype).is_float:
            return Approx(value, _integer_error(cls, a, b))
        if cls in (E.Add, E.Sub):
            error = ex + ey
        elif cls is E.Mul:
            error = np.abs(x) * ey + np.abs(y) * ex + ex * ey
        elif cls is E.Div:
            room = np.abs(y) - ey
            error = np.where(
                room > 0, (ex + np.abs(value) * ey) / np.where(room > 0, room, 1), np.inf
            )
            error = np.where((ex == 0) & (ey == 0), 0, error)
        else:
            error = np.where((ex == 0) & (ey == 0), 0, np.inf)
        return self._rounded(value, _zero_nan(error), dtype)

    def compare(self, cls: type, a: Approx, b: Approx) -> Approx:
        """A comparison; an error of 1 says that it may come out the other way."""
        value = self.plain.compare(cls, a.value, b.value)
        if cls in (E.And, E.Or):
            return Approx(value, np.maximum(a.error, b.error))
        margin = a.error + b.error
        near = (margin > 0) & (np.abs(_f64(a.value) - _f64(b.value)) <= margin)
        return Approx(value, near)

    def negate(self, a: Approx) -> Approx:
        return Approx(~a.value, a.error)

    def select(self, condition: Any, a: Approx, b: Approx) -> Approx:
        c = condition if isinstance(condition, Approx) else Approx(np.asarray(condition))
        value = np.where(c.value, a.value, b.value)
        error = np.where(c.value, a.error, b.error)
        if np.any(c.error):
            apart = np.abs(_f64(a.value) - _f64(b.value)) + np.maximum(a.error, b.error)
            error = np.where(c.error > 0, _zero_nan(apart), error)
        return Approx(value, error)

    def call(self, name: str, args: list[Approx], dtype: str) -> Approx:
        values = [a.value for a in args]
        value = self.plain.call(name, values, dtype)
        if not parse(dtype).is_float:
            if TABLE[name].check is predicate:  # a finite error makes no NaN and no infinity
                return Approx(value, np.isinf(args[0].error))
            known = not any(np.any(a.error) for a in args)
            return Approx(value, 0.0 if known else np.inf)
        # how far the function moves when its arguments do, one at a time, either way
        moved: Any = np.zeros(value.shape)
        for k, a in enumerate(args):
            if np.any(a.error):
                shifts = [
                    np.abs(
                        self.plain.call(name, _with(values, k, a.value + s * a.error), dtype)
                        - value
                    )
                    for s in (-1, 1)
                ]
                moved = moved + np.where(a.error > 0, np.maximum(*shifts), 0)
        if TABLE[name].exact:
            return Approx(value, _zero_nan(moved))
        return self._rounded(value, _zero_nan(moved), dtype, 2 * MATH_ULP)

    def external(self, function: Any, args: list[Approx], dtype: str) -> Approx:
        value = self.plain.external(function, [a.value for a in args], dtype)
        known = not any(np.any(a.error) for a in args)
        return self._rounded(value, 0.0 if known else np.inf, dtype, 2 * MATH_ULP)

    def gather(self, table: Approx, indices: tuple[Array, ...]) -> Approx:
        return Approx(table.value[indices], np.broadcast_to(table.error, table.shape)[indices])

    def view(
        self, table: Approx, slices: tuple[Any, ...], order: list[int], shape: list[int]
    ) -> Any:
        return self._each(table, lambda x: self.plain.view(x, slices, order, shape))

    def blur(self, x: Approx, indices: Sequence[Any]) -> Approx:
        doubtful: Any = False
        for i in indices:
            if isinstance(i, Approx) and np.any(i.error):
                doubtful = doubtful | (i.error > 0)
        return x if doubtful is False else Approx(x.value, np.where(doubtful, np.inf, x.error))

    def from_extern(self, x: Array, dtype: str) -> Approx:
        return Approx(self.plain.wrap(x, dtype), np.inf if parse(dtype).is_float else 0.0)

    def _each(self, x: Approx, f: Callable[[Array], Array]) -> Approx:
        return Approx(f(x.value), f(np.broadcast_to(x.error, x.shape)))

    def expand(self, x: Approx, shape: Sequence[int]) -> Approx:
        return Approx(np.broadcast_to(x.value, shape), np.broadcast_to(x.error, shape))

    def trail(self, x: Approx, count: int) -> Approx:
        return self._each(x, lambda a: self.plain.trail(a, count))

    def line(self, x: Approx, shape: Sequence[int]) -> Approx:
        return self._each(x, lambda a: a.reshape(shape))

    def item(self, x: Approx, index: Any) -> Approx:
        return self._each(x, lambda a: a[..., index])

    def join(self, a: Approx, b: Approx) -> Approx:
        errors = [np.broadcast_to(x.error, x.shape) for x in (a, b)]
        return Approx(self.plain.join(a.value, b.value), self.plain.join(*errors))

    def blank(self, table: Approx, shape: Sequence[int]) -> Approx:
        return Approx(np.zeros(shape, dtype=table.value.dtype))

    def head(self, x: Approx, rows: int) -> Approx:
        return self._each(x, lambda a: a[:rows])

    def part(self, table: Approx, slices: tuple[slice, ...]) -> Approx:
        return self._each(table, lambda a: a[slices])

    def reduce(self, cls: type, x: Approx, dims: tuple[int, ...], dtype: str) -> Approx:
        value = self.plain.reduce(cls, x.value, dims, dtype)
        error = np.broadcast_to(x.error, x.shape)
        if cls in (E.Min, E.Max, E.And, E.Or) or not parse(dtype).is_float:
            combine = np.max if cls in (E.Min, E.Max, E.And, E.Or) else np.sum
            return Approx(value, combine(error, axis=dims))
        count = int(np.prod([x.shape[d] for d in dims]))
        size = np.abs(x.value)
        if cls is E.Add:
            total = np.sum(error, axis=dims)
            return self._summed(value, total, np.sum(size, axis=dims), count, dtype)
        step = unit(dtype) + _REFERENCE
        whole = np.prod(size + error, axis=dims)
        total = whole - np.prod(size, axis=dims) + count * step * whole
        # in some order the large factors come first, or the small ones
        most = np.prod(np.maximum(size + error, 1), axis=dims)
        least = np.prod(np.minimum(size, 1), axis=dims)
        lost = (most >= parse(dtype).max_value) | (least < _tiny(dtype) / unit(dtype))
        return self._rounded(value, np.where(lost & (whole > 0), np.inf, total), dtype)

    def started(self, cls: type, x: Approx, start: Approx, count: int, dtype: str) -> Approx:
        """A reduction that may have begun with `start`: all partial sums are as large as that."""
        if cls is not E.Add or not parse(dtype).is_float or not count:
            return x
        step = unit(dtype) + _REFERENCE
        first = np.abs(start.value) + start.error
        error = x.error + _zero_nan(count * step * first)
        # of the sum of magnitudes the error holds so many roundings
        beyond = first + x.error / (count * step) >= parse(dtype).max_value
        error = np.where(beyond, np.inf, error)
        return Approx(x.value, np.where(np.isfinite(x.value), error, x.error))

    def _summed(self, value: Array, error: Any, size: Any, count: int, dtype: str) -> Approx:
        step = unit(dtype) + _REFERENCE
        total = error + count * (step * (size + error) + _tiny(dtype))
        # in some order those of one sign come first
        total = np.where(size + total >= parse(dtype).max_value, np.inf, total)
        return self._rounded(value, total, dtype)

    def can_contract(self, dtype: str) -> bool:
        return parse(dtype).is_float

    def contract(self, factors: list[Any], grid: Sequence[int], rank: int, dtype: str) -> Approx:
        values = [f.value for f in factors]
        sizes = [np.abs(v) for v in values]
        error: Any = 0.0
        for k, f in enumerate(factors):
            if np.any(f.error):
                around = [s + g.error for s, g in zip(sizes, factors)]
                shifted = _with(around, k, np.broadcast_to(f.error, f.shape))
                error = error + contract(shifted, grid, rank)
        size = contract(sizes, grid, rank)
        count = int(np.prod(grid[rank:])) + len(factors)
        return self._summed(contract(values, grid, rank), error, size, count, dtype)

    def table(self, shape: Sequence[int], dtype: str) -> Approx:
        return Approx(self.plain.table(shape, dtype), np.zeros(tuple(shape)))

    def store(self, table: Approx, place: tuple[Any, ...], x: Approx) -> None:
        table.value[place] = x.value
        table.error[place] = x.error


def _f64(x: Array) -> Array:
    return np.asarray(x, dtype=np.float64)


def _zero_nan(x: Any) -> Any:
    """Where an error came out as NaN (infinity less infinity), nothing is known."""
    return np.where(np.isnan(x), np.inf, x)


def _with(items: Sequence[Any], k: int, value: Any) -> list[Any]:
    return [value if i == k else x for i, x in enumerate(items)]


def _integer_error(cls: type, a: Approx, b: Approx) -> Any:
    """Integers are exact, unless they came of uncertain floats."""
    if not np.any(a.error) and not np.any(b.error):
        return 0.0
    if cls in (E.Add, E.Sub):
        return a.error + b.error
    if cls is E.Mul:
        x, y = np.abs(_f64(a.value)), np.abs(_f64(b.value))
        return x * b.error + y * a.error + a.error * b.error
    return np.where((a.error > 0) | (b.error > 0), np.inf, 0.0)
