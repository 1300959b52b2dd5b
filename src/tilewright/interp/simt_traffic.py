"""How well warps use memory: bank conflicts of shared memory, sectors of global memory.

The first accesses of each statement stand for all of its: figures to compare schedules by, not
measurements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .simt_state import Array, State

_BANKS = 32
_WORD = 4  # bytes
_WIDE = 16  # bytes of a lane that one access takes at most
_SECTOR = 32  # bytes
_ACCESSES = 4  # of a statement that are looked at
_WARPS = 64  # of an access that are looked at


class Samples:
    """Sums over the accesses looked at."""

    __slots__ = ("turns", "accesses", "asked", "moved", "requests", "seen")

    def __init__(self) -> None:
        self.turns = 0
        self.accesses = 0
        self.asked = 0
        self.moved = 0
        self.requests = 0  # of warps to global memory
        self.seen: dict[Any, int] = {}


def enough(st: State, site: int, m: Any) -> bool:
    """Whether no more accesses of a statement are looked at."""
    if m.scope == "local" or m.scope == "warp":
        return True
    return bool(st.samples.seen.get((site, m.name), 0) >= _ACCESSES)


def sample(st: State, m: Any, at: Array, where: Any, item: int) -> None:
    """Count an access of `item` bytes an element, unless enough of its statement are counted."""
    if m.scope == "local" or m.scope == "warp":
        return
    samples = st.samples
    key = (st.site, m.name)
    seen = samples.seen.get(key, 0)
    if seen >= _ACCESSES:
        return
    samples.seen[key] = seen + 1
    if where is not None:
        whole = np.full(where.shape, -1, np.int64)
        whole[where] = at
        at = whole
    size = st.geometry.warp_size
    warps = min(_WARPS, st.geometry.warps)
    lanes = min(warps * size, st.geometry.threads)
    part = at[..., :lanes].reshape(-1, lanes)
    whole_warps = np.full((part.shape[0], warps * size), -1, np.int64)
    whole_warps[:, :lanes] = part
    grid = whole_warps.reshape(-1, warps, size)
    if m.scope == "shared":
        _banks(samples, grid, item)
    else:
        _sectors(samples, grid, item)


def _sectors(samples: Samples, grid: Array, item: int) -> None:
    """The lanes of a vector are one access: sectors that a warp touches, of all vector lanes."""
    each = np.moveaxis(grid, 0, 1).reshape(grid.shape[1], -1)
    used = each >= 0
    sectors = np.where(used, each * item // _SECTOR, -1)
    ordered = np.sort(sectors, axis=1)
    distinct = (ordered[:, 1:] != ordered[:, :-1]).sum() + len(ordered) - (ordered[:, 0] < 0).sum()
    elements = np.sort(np.where(used, each, -1), axis=1)
    different = (elements[:, 1:] != elements[:, :-1]).sum() + len(elements)
    different -= (elements[:, 0] < 0).sum()
    samples.requests += int(used.any(axis=1).sum())
    samples.asked += int(different) * item
    samples.moved += int(distinct) * _SECTOR


def _together(grid: Array, item: int) -> Array:
    """What is accessed at once, a row each: of (elements of a lane, warps, lanes), of which as many
    neighbours as there are make a vector."""
    count, _, lanes = grid.shape
    size = max(1, _WIDE // item)
    while count % size or not _neighbours(grid, size):
        size //= 2
    parts = max(1, size * item // _WORD)
    if lanes % parts:
        return grid.reshape(-1, lanes)
    split = grid.reshape(count // size, size, -1, parts, lanes // parts)
    return np.moveaxis(split, 1, 3).reshape(-1, size * (lanes // parts))


def _neighbours(grid: Array, size: int) -> bool:
    """Whether each `size` elements of a lane lie side by side."""
    groups = grid.reshape(-1, size, *grid.shape[1:])
    used = (groups[:, 1:] >= 0) & (groups[:, :-1] >= 0)
    return not ((np.diff(groups, axis=1) != 1) & used).any()


def _banks(samples: Samples, grid: Array, item: int) -> None:
    """Turns: the most different words of one bank. Vectors of 8 and 16 bytes are taken half a warp
    and a quarter of one at a time, each of which is an access here."""
    rows = _together(grid, item)
    rows = rows[(rows >= 0).any(axis=1)]
    if not len(rows):
        return
    words = np.sort(np.where(rows >= 0, rows * item // _WORD, -1), axis=1)
    first = np.ones(words.shape, np.bool_)
    first[:, 1:] = words[:, 1:] != words[:, :-1]
    first &= words >= 0
    row = np.broadcast_to(np.arange(len(words))[:, None], words.shape)
    counts = np.bincount((row * _BANKS + words % _BANKS)[first], minlength=len(words) * _BANKS)
    samples.turns += int(counts.reshape(-1, _BANKS).max(axis=1).sum())
    samples.accesses += len(words)
