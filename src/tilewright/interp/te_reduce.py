"""Reductions on grids: in blocks of the reduced axes, so that memory stays bounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..loopir import expr as E
from ..loopir import iter as I
from ..tensor.reduce import builtin_kind
from .te_expr import BLOCK, Mask, Walker, blocks, flat_factors, used_vars

MakeWalker = Callable[[list[tuple[int, int]]], Walker]


class Reducer:
    """Evaluates one Reduce on a grid of `shape`; the reduced axes are dimensions after it."""

    def __init__(self, reduce: I.Reduce, shape: Sequence[int], extents: Sequence[int]) -> None:
        self.reduce = reduce
        self.shape = list(shape)
        self.extents = list(extents)
        self.rank = len(self.shape)

    def run(self, outer: Walker, mask: Mask, make: MakeWalker) -> list[Any]:
        """All values. `outer` sees the grid, `make(box)` the grid and a box of the reduced axes."""
        algebra, r = outer.algebra, self.reduce
        start = [
            algebra.expand(outer.expr(e, mask), self.shape)
            for e in (r.init or r.combiner.identity_element)
        ]
        inner_mask = None if mask is None else trail(mask, len(self.extents))
        kind = builtin_kind(r.combiner)
        if 0 in self.extents or 0 in self.shape:
            return start
        if kind is not None:
            return [self._builtin(kind, outer, start[0], inner_mask, make)]
        return self._general(outer, start, inner_mask, make)

    def _builtin(self, kind: type, outer: Walker, start: Any, mask: Mask, make: MakeWalker) -> Any:
        r, algebra, result = self.reduce, outer.algebra, start
        source, dtype = r.source[0], r.dtype
        factors = flat_factors(source) if kind is E.Add and E.is_const(r.condition, 1) else []
        contractable = len(factors) > 1 and self._can_contract(algebra, source, dtype)
        width = self._widest(outer, factors) if contractable else math.prod(self.shape)
        for box in blocks(self.extents, max(1, BLOCK * (8 if contractable else 1) // width)):
            w = make(box)
            grid = [*self.shape, *(hi - lo for lo, hi in box)]
            if contractable:
                values = [w.expr(f, mask) for f in factors]
                part = algebra.contract(values, grid, self.rank, dtype)
            else:
                value = self._guarded(w, source, r.combiner.identity_element[0], mask)
                dims = tuple(range(self.rank, len(grid)))
                part = algebra.reduce(kind, algebra.expand(value, grid), dims, dtype)
            result = algebra.binary(kind, result, part, dtype)
        return algebra.started(kind, result, start, math.prod(self.extents), dtype)

    def _can_contract(self, algebra: Any, source: Any, dtype: str) -> bool:
        used = used_vars(source)
        reduced = all(a.var in used for a in self.reduce.axis)
        return reduced and self.rank + len(self.extents) <= 50 and algebra.can_contract(dtype)

    def _widest(self, outer: Walker, factors: list[Any]) -> int:
        """The most elements that a factor has for one place of the reduced axes."""
        widths = [1]
        for f in factors:
            values = [outer.env[v] for v in used_vars(f) if v in outer.env]
            shapes = [np.shape(outer.algebra.numbers(x)) for x in values]
            widths.append(math.prod(np.broadcast_shapes(*shapes)))
        return max(widths)

    def _guarded(self, w: Walker, source: Any, identity: Any, mask: Mask) -> Any:
        if E.is_const(self.reduce.condition, 1):
            return w.expr(source, mask)
        condition, holds, _ = w.truth(self.reduce.condition, mask)
        return w.algebra.select(condition, w.expr(source, holds), w.expr(identity))

    def _general(self, outer: Walker, start: list[Any], mask: Mask, make: MakeWalker) -> list[Any]:
        """Any combiner: neighbours are combined pairwise, in order, until one value is left."""
        r, state, algebra = self.reduce, start, outer.algebra
        combine = _Combiner(r.combiner, outer)
        for box in blocks(self.extents, max(1, BLOCK // max(1, math.prod(self.shape)))):
            w = make(box)
            grid = [*self.shape, *(hi - lo for lo, hi in box)]
            condition, holds = None, mask
            if not E.is_const(r.condition, 1):
                condition, holds, _ = w.truth(r.condition, mask)
            flat = [*self.shape, math.prod(grid[self.rank :])]
            values = [algebra.line(algebra.expand(w.expr(s, holds), grid), flat) for s in r.source]
            valid = None
            if condition is not None:
                valid = np.broadcast_to(algebra.numbers(condition), grid).reshape(flat)
            state = _fold(algebra, combine, state, values, valid)
        return state


def _fold(
    algebra: Any, combine: _Combiner, state: list[Any], values: list[Any], valid: Any
) -> list[Any]:
    count = np.shape(algebra.numbers(values[0]))[-1]
    while count > 1:
        pairs = count // 2 * 2
        left = [algebra.item(v, slice(0, pairs, 2)) for v in values]
        right = [algebra.item(v, slice(1, pairs, 2)) for v in values]
        tail = [algebra.item(v, slice(pairs, count)) for v in values]
        both = combine(left, right)
        if valid is not None:
            ok_left, ok_right = valid[..., 0:pairs:2], valid[..., 1:pairs:2]
            both = [
                algebra.select(ok_left & ok_right, b, algebra.select(ok_left, x, y))
                for b, x, y in zip(both, left, right)
            ]
            valid = np.concatenate([ok_left | ok_right, valid[..., pairs:count]], axis=-1)
        values = [algebra.join(b, t) for b, t in zip(both, tail)]
        count = count // 2 + count % 2
    last = [algebra.item(v, 0) for v in values]
    result = combine(state, last)
    if valid is None:
        return result
    return [algebra.select(valid[..., 0], n, s) for n, s in zip(result, state)]


class _Combiner:
    def __init__(self, combiner: I.CommReducer, outer: Walker) -> None:
        self.combiner = combiner
        self.outer = outer

    def __call__(self, left: list[Any], right: list[Any]) -> list[Any]:
        c, o = self.combiner, self.outer
        shape = np.broadcast_shapes(*(np.shape(o.algebra.numbers(x)) for x in (*left, *right)))
        env = {**o.env, **dict(zip(c.lhs, left)), **dict(zip(c.rhs, right))}
        w = Walker(o.algebra, env, o.reads, o.extern)
        return [o.algebra.expand(w.expr(e), shape) for e in c.result]


def trail(mask: Any, count: int) -> Any:
    """A mask with dimensions of one added at the end."""
    return mask.reshape(mask.shape + (1,) * count)
