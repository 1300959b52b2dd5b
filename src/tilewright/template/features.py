"""What a cost model sees of a configuration: numbers for each knob, looked up in tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .annotate import AnnotateSpace
from .digits import Digits
from .knob import OtherOptionSpace
from .reorder import ReorderSpace
from .space import ConfigSpace
from .split import SplitSpace

Rows = np.ndarray[Any, np.dtype[np.float32]]
_ONE_HOT = 16


class FeatureTable:
    """Features of configurations from their digits: for thousands of them at once, without a
    schedule of any.

    Splits give the logarithms of their loops' lengths, of the tiles that these make, and over all
    splits the sums of those: the volume of each level's tile.
    """

    __slots__ = ("_splits", "_tables")

    def __init__(self, space: ConfigSpace) -> None:
        self._tables: list[Rows] = []
        self._splits: list[tuple[int, int]] = []  # (knob, loops)
        for place, knob in enumerate(space.space_map.values()):
            rows = [_rows(knob, i) for i in range(len(knob))]
            self._tables.append(np.array(rows, dtype=np.float32).reshape(len(rows), -1))
            if isinstance(knob, SplitSpace):
                self._splits.append((place, knob.num_output))

    def rows(self, digits: Digits) -> Rows:
        """Features, shape (configurations, features)."""
        parts = [t[digits[:, k]] for k, t in enumerate(self._tables)]
        depth = max((n for _, n in self._splits), default=0)
        for level in range(1, depth):  # tiles of the innermost `level` loops
            tiles = [parts[k][:, n + level - 1] for k, n in self._splits if level < n]
            parts.append(np.sum(tiles, axis=0)[:, None])
        if not parts:
            return np.zeros((len(digits), 1), dtype=np.float32)
        return np.concatenate(parts, axis=1)


def _rows(knob: Any, index: int) -> list[float]:
    entity = knob[index]
    if isinstance(knob, SplitSpace):
        return _split(entity.size, knob.product)
    if isinstance(knob, ReorderSpace):
        places = {axis: place for place, axis in enumerate(entity.perm)}
        return [float(places[axis]) for axis in range(len(places))]
    if isinstance(knob, AnnotateSpace):
        return _annotation(entity.anns)
    assert isinstance(knob, OtherOptionSpace)
    return _option(entity.val, index, len(knob))


def _split(size: list[int], product: int) -> list[float]:
    """Logarithms of the loops' lengths, then of the tiles from the innermost outwards."""
    inner = [max(1, s) for s in size[1:]]
    outer = max(1, -(-product // math.prod(inner)))
    lengths = [math.log2(s) for s in (outer, *inner)]
    tiles = list(np.cumsum(lengths[:0:-1]))
    return [*lengths, *map(float, tiles), float(product % math.prod(inner) != 0)]


_ANNOTATIONS = {"none": 0.0, "unroll": 1.0, "vec": 2.0}


def _annotation(anns: list[Any]) -> list[float]:
    return [float(a) if isinstance(a, int) else _ANNOTATIONS.get(a, 3.0) for a in anns]


def _option(value: Any, index: int, count: int) -> list[float]:
    row = [float(index)]
    if isinstance(value, (int, float)):
        row = [math.copysign(math.log2(1 + abs(float(value))), float(value))]
    elif count <= _ONE_HOT:
        row += [float(i == index) for i in range(count)]
    return row
