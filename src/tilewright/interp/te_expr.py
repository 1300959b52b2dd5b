"""Elements of tensors on whole grids of indices at once: expressions, reads, reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..base.deep import Recursive
from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir import iter as I
from ..loopir.data import is_data
from ..loopir.visit import post_order_visit
from . import np_ops
from .np_ops import Array

Mask = Any  # an array of bool: where the value is wanted; None is everywhere


class Reads(Protocol):
    """Where a walker finds the elements of tensors."""

    def table(self, tensor: Any) -> Any:
        """All values of a tensor, or None where they are found one by one, by `elements`."""

    def elements(self, tensor: Any, indices: list[Any], mask: Mask) -> Any:
        """The values at some indices."""


BLOCK = 1 << 22  # elements of a grid evaluated at once


class Walker(Recursive):
    """Evaluates expressions with variables from `env`; tensors are read through `reads`.

    `grid` says which variables run along which of `ndim` dimensions, and over what range: reads at
    such places become views.
    """

    recursive = ("expr",)

    def __init__(
        self,
        algebra: Any,
        env: Mapping[Any, Any],
        reads: Reads,
        extern: Mapping[str, Callable[..., Any]],
        grid: Mapping[Any, tuple[int, int, int]] | None = None,
        ndim: int = 0,
    ) -> None:
        self.algebra = algebra
        self.env = dict(env)
        self.reads = reads
        self.extern = extern
        self.grid = grid or {}
        self.ndim = ndim
        self.lets: set[E.Var] = set()  # variables that stand for data
        self.memo: dict[tuple[int, int], tuple[Any, Any, Any]] = {}

    def expr(self, e: Any, mask: Mask = None) -> Any:
        """The value of `e`; where `mask` is false it may be anything."""
        key = (id(e), id(mask))
        known = self.memo.get(key)
        if known is not None:
            return known[0]
        try:
            handler = _TABLE[type(e)]
        except KeyError:
            raise TilewrightError(f"te_eval does not know {type(e).__name__} in {e}") from None
        value = handler(self, e, mask)
        self.memo[key] = (value, e, mask)  # kept alive: the key holds identities
        return value

    def truth(self, e: Any, mask: Mask) -> tuple[Any, Mask, Mask]:
        """A condition's value, and the masks where it holds and where not."""
        condition = self.expr(e, mask)
        holds = self.algebra.numbers(condition)
        if mask is None:
            return condition, holds, ~holds
        return condition, holds & mask, ~holds & mask


def _var(w: Walker, e: Any, mask: Mask) -> Any:
    try:
        return w.env[e]
    except KeyError:
        raise TilewrightError(
            f"{e.name} has no value here: bind it with symbols={{var: value}}, or "
            "feed a tensor whose shape has it"
        ) from None


def _imm(w: Walker, e: Any, mask: Mask) -> Any:
    return w.algebra.const(e.number, e.dtype)


def _binary(w: Walker, e: Any, mask: Mask) -> Any:
    a, b = w.expr(e.a, mask), w.expr(e.b, mask)
    if type(e) in np_ops.DIVISIONS and not parse(e.dtype).is_float and not is_data(e.b, w.lets):
        b = _checked_divisor(w, e, b, mask)
    return w.algebra.binary(type(e), a, b, e.dtype)


def _checked_divisor(w: Walker, e: Any, b: Any, mask: Mask) -> Any:
    zero = w.algebra.numbers(b) == 0
    if not zero.any():
        return b
    if mask is None or (zero & mask).any():
        raise TilewrightError(f"te_eval: division by zero in {e}")
    return w.algebra.select(zero, w.algebra.const(1, e.dtype), b)


def _compare(w: Walker, e: Any, mask: Mask) -> Any:
    return w.algebra.compare(type(e), w.expr(e.a, mask), w.expr(e.b, mask))


def _not(w: Walker, e: Any, mask: Mask) -> Any:
    return w.algebra.negate(w.expr(e.a, mask))


def _choose(w: Walker, parts: Sequence[Any], mask: Mask) -> Any:
    condition, holds, fails = w.truth(parts[0], mask)
    return w.algebra.select(condition, w.expr(parts[1], holds), w.expr(parts[2], fails))


def _select(w: Walker, e: Any, mask: Mask) -> Any:
    return _choose(w, (e.condition, e.true_value, e.false_value), mask)


def _cast(w: Walker, e: Any, mask: Mask) -> Any:
    return w.algebra.cast(w.expr(e.value, mask), e.value.dtype, e.dtype)


def _let(w: Walker, e: Any, mask: Mask) -> Any:
    if is_data(e.value, w.lets):
        w.lets.add(e.var)
    w.env[e.var] = w.expr(e.value, mask)
    return w.expr(e.body, mask)


def _load(w: Walker, e: Any, mask: Mask) -> Any:
    table = w.reads.table(e.producer)
    if table is not None and w.grid:
        view = grid_view(w, table, e)
        if view is not None:
            return view
    indices = [w.expr(i, mask) for i in e.indices]
    if table is None:
        return w.reads.elements(e.producer, indices, mask)
    return gather(w.algebra, e.producer.name, table, indices, mask)


def _call(w: Walker, e: Any, mask: Mask) -> Any:
    name = e.op.name.removeprefix("tir.")
    if name == "if_then_else":
        return _choose(w, e.args, mask)
    if name in ("call_pure_extern", "call_extern", "tvm_call_packed"):
        called = e.args[0].value
        function = w.extern.get(called)
        if function is None:
            raise TilewrightError(
                f"te_eval meets a call of {called!r}: give its NumPy form, extern={{{called!r}: f}}"
            )
        args = [w.expr(a, mask) for a in e.args[1:]]
        return w.algebra.external(function, args, e.dtype)
    return w.algebra.call(name, [w.expr(a, mask) for a in e.args], e.dtype)


_TABLE: dict[type, Callable[[Walker, Any, Mask], Any]] = {
    **dict.fromkeys((E.Var, E.SizeVar), _var),
    **dict.fromkeys((E.IntImm, E.FloatImm), _imm),
    **dict.fromkeys(
        (E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.Min, E.Max), _binary
    ),
    **dict.fromkeys((E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE, E.And, E.Or), _compare),
    E.Not: _not,
    E.Select: _select,
    E.Cast: _cast,
    E.Let: _let,
    E.Call: _call,
    I.ProducerLoad: _load,
}


def gather(algebra: Any, name: str, table: Any, indices: list[Any], mask: Mask) -> Any:
    """table[indices] with indices that broadcast; outside of `mask` they may be out of bounds."""
    shape = np.shape(algebra.numbers(table))
    places = bounded(algebra, name, shape, indices, mask)
    if 0 in shape:
        everywhere = np.broadcast_shapes(*(np.shape(p) for p in places))
        return algebra.blank(table, everywhere)
    found = algebra.gather(table, tuple(p.astype(np.intp, copy=False) for p in places))
    return algebra.blur(found, indices)


def bounded(
    algebra: Any, name: str, shape: Sequence[int], indices: list[Any], mask: Mask
) -> list[Array]:
    """Indices brought into bounds; an error names the first that is out of them inside `mask`."""
    places: list[Array] = []
    for k, (value, extent) in enumerate(zip(indices, shape)):
        index = algebra.numbers(value)
        outside = (index < 0) | (index >= extent)
        if outside.any():
            wanted = outside if mask is None else outside & mask
            if wanted.any():
                bad = np.broadcast_to(index, wanted.shape)[wanted].flat[0]
                raise TilewrightError(
                    f"te_eval: read of {name} out of bounds: index {bad} of dimension {k} "
                    f"is not in [0, {extent})"
                )
            index = index.clip(0, max(0, extent - 1))
        places.append(index)
    return places


def grid_view(w: Walker, table: Any, e: I.ProducerLoad) -> Any:
    """A read whose indices are distinct axes of the grid, as a view; None where it is not one."""
    dims: list[int] = []
    slices: list[Any] = []
    for index, extent in zip(e.indices, np.shape(w.algebra.numbers(table))):
        place = w.grid.get(index)
        if place is None or place[0] in dims or place[1] < 0 or place[2] > extent:
            return None
        dims.append(place[0])
        slices.append(slice(place[1], place[2]))
    shape = [1] * w.ndim
    for d, s in zip(dims, slices):
        shape[d] = s.stop - s.start
    order = sorted(range(len(dims)), key=dims.__getitem__)
    return w.algebra.view(table, tuple(slices), order, shape)


def blocks(extents: Sequence[int], limit: int) -> Iterator[list[tuple[int, int]]]:
    """Boxes [(begin, end), ...] of about `limit` elements that tile a grid in row-major order."""
    sizes = list(extents)
    for d in range(len(sizes)):
        rest = math.prod(sizes[d + 1 :])
        if sizes[d] * rest <= limit:
            break
        sizes[d] = max(1, limit // max(rest, 1))
    counts = [-(-n // s) if n else 0 for n, s in zip(extents, sizes)]
    for place in np.ndindex(*counts):
        yield [(p * s, min(n, p * s + s)) for p, s, n in zip(place, sizes, extents)]


def flat_factors(e: Any) -> list[Any]:
    """The factors of a product."""
    factors: list[Any] = []
    stack = [e]
    while stack:
        x = stack.pop()
        if type(x) is E.Mul:
            stack += [x.b, x.a]
        else:
            factors.append(x)
    return factors


def used_vars(e: Any) -> set[Any]:
    """The variables in an expression."""
    found: set[Any] = set()
    post_order_visit(e, lambda x: found.add(x) if isinstance(x, E.Var) else None)
    return found
