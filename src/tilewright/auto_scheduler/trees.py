"""Trees of a cost model, evaluated by a compiled program: equal to the last bit to xgboost's
predictions, in less time, without xgboost.

Every tree is laid out whole: from node n one goes on to 2n+1 or 2n+2, so that the walks of sixteen
rows are one vector of places. Leaves above the last level are repeated below. Sums are float32, in
the order of the trees. NaNs go where the tree sends what is missing, in NumPy: features have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..driver.build_module import build
from ..driver.transform import PassContext
from ..loopir import ir_builder
from ..loopir.construct import const
from ..rt.module import Module
from ..schedule.api import create_schedule
from ..target.target import Target
from ..tensor.axes import var
from ..tensor.compute import placeholder
from ..tensor.extern import extern

Array = np.ndarray[Any, Any]

LANES = 16
_DEEPEST = 10
"""Of trees that are laid out whole: a level more doubles the memory."""


class Trees:
    """Regression trees over rows of `features` numbers.

    `trees`: as xgboost's JSON has them: columns `left_children`, `right_children` (-1 at leaves),
    `split_indices`, `split_conditions` (values at leaves), `default_left`. `base` is added to all.
    """

    __slots__ = ("_columns", "_whole", "base", "count", "depth", "features")

    def __init__(self, trees: Sequence[Mapping[str, Any]], base: float, features: int) -> None:
        self.count, self.features, self.base = len(trees), features, base
        sizes = [len(t["left_children"]) for t in trees]
        firsts = np.cumsum([0, *sizes])[:-1]
        self._columns: tuple[Any, ...] = tuple(
            np.concatenate([np.asarray(t[name], kind) for t in trees])
            if trees
            else np.zeros(0, kind)
            for name, kind in _COLUMNS
        )
        left, right = self._columns[:2]
        offsets = np.repeat(firsts, sizes).astype(np.int32)
        leaf = left < 0
        places = np.arange(len(left), dtype=np.int32)
        left[:], right[:] = (np.where(leaf, places, c + offsets) for c in (left, right))
        self._columns = (*self._columns, firsts.astype(np.int32), leaf)
        self.depth, at = 0, firsts
        while len(at := at[~leaf[at]]):
            at = np.unique(np.concatenate([left[at], right[at]]))
            self.depth += 1
        self._whole = self._lay_out() if self.depth <= _DEEPEST else None

    def predict(self, rows: Array) -> Array:
        """Sums float32 [M] of the leaves that rows float32 [M, features] reach."""
        rows = np.ascontiguousarray(rows, np.float32)
        if self._whole is None or np.isnan(rows).any():
            return self.walk(rows)
        count = len(rows)
        if count % LANES:
            padded = np.zeros((-(-count // LANES) * LANES, self.features), np.float32)
            padded[:count] = rows
            rows = padded
        sums = np.full(len(rows), self.base, np.float32)
        _kernel(self.depth, self.features)(rows, *self._whole, sums)
        return sums[:count]

    def walk(self, rows: Array) -> Array:
        """The same in NumPy, a level of a tree at a step, where a row may lack values (NaN)."""
        left, right, feature, limit, default, firsts, leaf = self._columns
        sums = np.full(len(rows), self.base, np.float32)
        places = np.arange(len(rows))
        for first in firsts:
            at = np.full(len(rows), first, np.int32)
            for _ in range(self.depth):
                value = rows[places, feature[at]]
                goes_left = np.where(np.isnan(value), default[at], value < limit[at])
                at = np.where(goes_left, left[at], right[at])
                if leaf[at].all():
                    break
            sums += limit[at]
        return sums

    def _lay_out(self) -> tuple[Array, Array, Array]:
        """Features int32 and limits float32 of inner nodes, values float32 below the last."""
        left, right, feature, limit, _, firsts, leaf = self._columns
        inner = (1 << self.depth) - 1
        features = np.zeros((self.count, max(1, inner)), np.int32)
        limits = np.zeros((self.count, max(1, inner)), np.float32)
        level = firsts[:, None]
        for d in range(self.depth):
            span = slice((1 << d) - 1, (2 << d) - 1)
            features[:, span] = np.where(leaf[level], 0, feature[level])
            limits[:, span] = limit[level]  # a leaf has its own value on both sides
            below = np.stack([left[level], right[level]], axis=-1)
            level = below.reshape(self.count, -1)
        return features, limits, np.ascontiguousarray(limit[level])


_COLUMNS = (
    ("left_children", np.int32),
    ("right_children", np.int32),
    ("split_indices", np.int32),
    ("split_conditions", np.float32),
    ("default_left", np.bool_),
)


@cache
def _kernel(depth: int, features: int) -> Module:
    """The program for trees of a depth: rows [16 k, features], features and limits [trees, inner
    nodes], values [trees, leaves], and sums [16 k], which it adds to."""
    rows, trees = var("rows"), var("trees")
    inner = max(1, (1 << depth) - 1)
    x = placeholder((rows, features), name="x")
    index = placeholder((trees, inner), "int32", name="index")
    limit = placeholder((trees, inner), name="limit")
    value = placeholder((trees, 1 << depth), name="value")

    def body(ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        ib = ir_builder.create()
        x, index, limit, value = map(ib.buffer_ptr, ins)
        sums = ib.buffer_ptr(outs[0])
        node = ib.allocate("int32", LANES, "node", scope="local")
        total = ib.allocate("float32", LANES, "total", scope="local")
        with ib.for_range(0, rows // LANES, "block") as block:
            with ib.for_range(0, LANES, "i", kind="vectorize") as i:
                total[i] = sums[block * LANES + i]
            with ib.for_range(0, trees, "tree") as tree:
                with ib.for_range(0, LANES, "i", kind="vectorize") as i:
                    node[i] = const(0, "int32")
                for _ in range(depth):
                    with ib.for_range(0, LANES, "i", kind="vectorize") as i:
                        found = x[block * LANES + i, index[tree, node[i]]]
                        right = found >= limit[tree, node[i]]
                        node[i] = 2 * node[i] + 1 + right.astype("int32")
                with ib.for_range(0, LANES, "i", kind="vectorize") as i:
                    total[i] = total[i] + value[tree, node[i] - ((1 << depth) - 1)]
            with ib.for_range(0, LANES, "i", kind="vectorize") as i:
                sums[block * LANES + i] = total[i]
        return ib.get()

    sums = extern((rows,), [x, index, limit, value], body, name="sums", dtype="float32")
    with PassContext():
        return build(
            create_schedule(sums.op), [x, index, limit, value, sums], Target("llvm"), name="trees"
        )
