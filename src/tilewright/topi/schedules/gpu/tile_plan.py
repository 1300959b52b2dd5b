"""How large the tiles of a product on tensor cores are.

A block's tile is some fragments of 16 rows high and some warps wide. The smaller it is the more
often operands are read and the less work there is for each instruction that moves them; what
reaches over the edge of the product is work for nothing. A product that is smaller than a tile may
be filled up to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....base.dtype import parse

FRAGMENT = 16  # rows and columns
BANKS = 128  # bytes of all banks of shared memory, and of sums in a row of a warp
_ROWS, _COLUMNS = range(8, 0, -1), (8, 4, 2, 1)  # fragments of a tile
_EVEN = (8, 4, 2, 1)  # of rows: so many all threads share evenly when they copy them
# in fragments: what there is to do for each tile beside products, and for uneven copies
_OVERHEAD, _UNEVEN = 1.5, 1.25


@dataclass(frozen=True)
class TilePlan:
    """Rows and columns of a block's tile, columns of a warp, and the shape of the product with
    what it is filled up by."""

    block: tuple[int, int]
    columns: int
    shape: tuple[int, int]

    @staticmethod
    def of(rows: int, columns: int, sums: str, filled: bool) -> TilePlan:
        """For a product of that shape; unless it may be `filled` up, a tile is no larger."""
        warp = BANKS // parse(sums).nbytes // FRAGMENT
        needed = -(-columns // FRAGMENT)
        # as many warps as there are columns for
        sizes = [n for n in _COLUMNS if n < needed or n <= -(-needed // warp) * warp]
        high = _best(rows, _ROWS if filled else _EVEN, filled) * FRAGMENT
        wide = _best(columns, sizes if filled else _COLUMNS, filled) * FRAGMENT
        shape = (max(rows, high), max(columns, wide))
        return TilePlan((high, wide), min(warp * FRAGMENT, wide), shape)

    def whole(self, side: int) -> int:
        """Rows (side 0) or columns of whole tiles."""
        return -(-self.shape[side] // self.block[side]) * self.block[side]


def _best(extent: int, sizes: Sequence[int], filled: bool) -> int:
    """Fragments of a tile."""
    if not filled:
        return next((n for n in sizes if n * FRAGMENT <= extent), 1)
    needed = -(-extent // FRAGMENT)

    def cost(n: int) -> float:
        return -(-needed // n) * (n + _OVERHEAD) + (0 if n in _EVEN else _UNEVEN)

    return min(sizes, key=cost)
