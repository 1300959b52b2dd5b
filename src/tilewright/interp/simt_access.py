"""Reading and writing memory by all lanes at once: bounds, shadow memory, counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dtype import parse
from .simt_memory import Memory, out_of_bounds
from .simt_report import MISALIGNED
from .simt_state import Array, State
from .simt_traffic import enough, sample


class Place:
    """Where lanes access memory: `at` in its array, `lanes` whose, `where` in `shape` (or all)."""

    __slots__ = ("at", "lanes", "shape", "where")

    def __init__(self, at: Array, lanes: Array, shape: tuple[int, ...], where: Any) -> None:
        self.at = at
        self.lanes = lanes
        self.shape = shape
        self.where = where

    def spread(self, taken: Array) -> Array:
        """What was read, in the shape of a value; 0 where nothing was."""
        if self.where is None:
            return taken
        out = np.zeros(self.shape, taken.dtype)
        out[self.where] = taken
        return out

    def take(self, value: Any) -> Array:
        """The lanes of a value that are accessed."""
        whole = np.broadcast_to(value, self.shape)
        return whole if self.where is None else np.asarray(whole[self.where])


def expand(index: Array, lanes: int) -> Array:
    """Indices of the lanes of elements that are vectors themselves."""
    steps = np.arange(lanes, dtype=np.int64)
    if index.ndim < 2:
        return np.asarray(np.atleast_1d(index)[None, :] * lanes + steps[:, None])
    whole = index[:, None, :] * lanes + steps[None, :, None]
    return np.asarray(whole.reshape(-1, index.shape[1]))


def locate(
    st: State, m: Memory, dtype: str, index: Any, limit: int, predicate: Any, writes: bool
) -> Place:
    """The elements at `index`, one a lane or n a lane; those out of bounds are left out."""
    lanes_each = parse(dtype).lanes
    element = parse(dtype).element
    size, base, scale = m.place(element)
    i = np.asarray(index, np.int64)
    if lanes_each > 1:
        i = expand(i, lanes_each)
        limit *= lanes_each
    if m.off:
        _aligned(st, m, i, parse(element).numpy.itemsize, writes)
    shape: tuple[int, ...] = (st.lanes,) if i.ndim < 2 else (i.shape[0], st.lanes)
    where = st.mask
    if where is not None and len(shape) == 2:
        where = np.broadcast_to(where, shape)
    if predicate is not None:
        p = np.broadcast_to(np.asarray(predicate, np.bool_), shape)
        where = p if where is None else where & p
    limit = min(limit, size)
    if i.size and (int(i.min()) < 0 or int(i.max()) >= limit):
        i = np.broadcast_to(i, shape)
        where = out_of_bounds(st, m, i, limit, where, writes)
    if scale != 1:
        i = i * scale
    if base is not None:
        i = i + base
    if i.shape != shape:
        i = np.broadcast_to(i, shape)
    lanes = st.lane if len(shape) == 1 else np.broadcast_to(st.lane, shape)
    if where is None:
        return Place(i, lanes, shape, None)
    return Place(i[where], lanes[where], shape, where)


def _aligned(st: State, m: Memory, index: Array, item: int, writes: bool) -> None:
    """Report a vector (or an element) that is no multiple of its size from the start of memory
    that is not aligned to it. Wider ones than the code relies on are accessed by elements."""
    count = len(index) if index.ndim > 1 else 1
    if count > 1 and (np.diff(index, axis=0) != 1).any():
        count = 1
    nbytes = count * item
    require_start(st, m, index[0] if index.ndim > 1 else index, min(nbytes & -nbytes, 16), writes)


def require_start(st: State, m: Memory, first: Any, width: int, writes: bool) -> None:
    """Report an access of `width` bytes at once at element `first` of memory that does not start
    at a multiple of them, though the code relies on it."""
    lanes = np.arange(st.lanes) if st.mask is None else np.flatnonzero(st.mask)
    if st.quiet or width > m.align or m.off % width == 0 or not lanes.size:
        return
    lane = int(lanes[0])
    number = int(st.number[lane])
    at = int(np.broadcast_to(first, (st.lanes,))[lane])
    st.log.add(
        MISALIGNED,
        f"{st.geometry.thread(number)} {'writes' if writes else 'reads'} {width} bytes at once at "
        f"{m.name}[{at}], but {m.name} starts {m.off % width} bytes off a multiple of them",
        st.site,
        m.name,
        at,
        (number,),
        None,
        int(lanes.size),
    )


def load(st: State, m: Memory, dtype: str, index: Any, limit: int, predicate: Any) -> Any:
    """The elements at `index`; 0 in lanes that do not run. One number where all lanes read one
    place of an argument that nothing writes."""
    if m.row_type == dtype and predicate is None and not st.quiet:
        row = _row(m, index, limit)
        if row >= 0 and (m.full[row] or m.row_written(row, st.mask)):
            m.traffic.loads += running(st)
            return np.asarray(m.rows[row])
        if index.ndim == 2 and index.shape[1] == 1:
            rows = _rows(m, index, limit)
            if rows is not None and m.rows_written(rows, st.mask):
                m.traffic.loads += len(index) * running(st)
                return np.asarray(m.rows[rows])
    if (
        m.shadow is None
        and not m.off
        and predicate is None
        and (index.ndim == 0 or index.shape[-1] == 1)
    ):
        same = _same(st, m, dtype, index, limit)
        if same is not None:
            return same
    place = locate(st, m, dtype, index, limit, predicate, False)
    t = parse(dtype)
    data = m.view(t.element)
    if place.at.size and not st.quiet:
        m.traffic.loads += place.at.size
        if m.shadow is not None:
            at, lanes = m.units(place.at, place.lanes, data.itemsize)
            m.shadow.read(st, m, at, lanes)
        sample(st, m, place.at, place.where, data.itemsize)
    return place.spread(data[place.at])


def _row(m: Memory, index: Any, limit: int) -> int:
    """The row of interleaved memory that all lanes use, or -1."""
    if index.ndim == 0:
        i = int(index)
        if 0 <= i < len(m.full) and i < limit:
            return i
    return -1


def _same(st: State, m: Memory, dtype: str, index: Any, limit: int) -> Any:
    """What all lanes read at one place (or a place for each lane of a vector) of an argument that
    nothing writes; None if it needs a closer look."""
    if parse(dtype).lanes > 1 or not enough(st, st.site, m):
        return None
    data: Array = m.view(dtype)
    limit = min(limit, len(data))
    if index.ndim == 0:
        if not 0 <= int(index) < limit:
            return None
    elif not index.size or int(index.min()) < 0 or int(index.max()) >= limit:
        return None
    if not st.quiet:
        m.traffic.loads += index.size * running(st)
    return data[index]


def _rows(m: Memory, index: Any, limit: int) -> Array | slice | None:
    """The rows of interleaved memory that all lanes use for a vector; None: not all are there."""
    rows = np.asarray(index[:, 0], np.int64)
    # as unsigned numbers, negative ones are the largest
    if not rows.size or int(rows.view(np.uint64).max()) >= min(limit, len(m.full)):
        return None
    first, end = int(rows[0]), int(rows[-1]) + 1
    if end - first == len(rows) and (rows[1:] > rows[:-1]).all():
        return slice(first, end)
    return rows


def running(st: State) -> int:
    """How many lanes run."""
    return st.lanes if st.mask is None else int(np.count_nonzero(st.mask))


def store(
    st: State,
    m: Memory,
    dtype: str,
    index: Any,
    value: Any,
    limit: int,
    predicate: Any,
    taint: Any = 0,
) -> None:
    """Write the elements at `index` in the lanes that run."""
    if m.row_type == dtype and predicate is None and not st.tainted:
        row = _row(m, index, limit)
        if row >= 0:
            m.store_row(row, value, st.mask)
            m.traffic.stores += running(st)
            return
        if index.ndim == 2 and index.shape[1] == 1:
            rows = _rows(m, index, limit)
            if rows is not None:
                m.store_rows(rows, value, st.mask)
                m.traffic.stores += len(index) * running(st)
                return
    place = locate(st, m, dtype, index, limit, predicate, True)
    if not place.at.size:
        return
    at, _ = put(st, m, dtype, place, value)
    if st.tainted:
        m.set_taint(at, _spread_taint(place, taint, at.shape))


def put(st: State, m: Memory, dtype: str, place: Place, value: Any) -> tuple[Array, Array]:
    """Write to places that were found; the units written, and the lanes that do it."""
    data = m.view(parse(dtype).element)
    new = place.take(value)
    m.traffic.stores += place.at.size
    at, lanes = m.units(place.at, place.lanes, data.itemsize)

    def same() -> Array:
        return same_bits(data[place.at], new, at.shape)

    if m.shadow is not None:
        m.shadow.write(st, m, at, lanes, False, same)
    data[place.at] = new
    if m.shadow is not None:
        m.shadow.after(st, m, at, lanes, same)
    sample(st, m, place.at, place.where, data.itemsize)
    return at, lanes


def same_bits(a: Array, b: Array, shape: tuple[int, ...]) -> Array:
    """Which elements are equal bit for bit, in the shape of units."""
    kind = np.dtype(f"u{a.dtype.itemsize}")
    x, y = np.ascontiguousarray(a).view(kind), np.ascontiguousarray(b).view(kind)
    equal = x == y
    return np.broadcast_to(equal if equal.shape == shape else equal[..., None], shape)


def _spread_taint(place: Place, taint: Any, shape: tuple[int, ...]) -> Any:
    if type(taint) is int:
        return taint
    t = place.take(taint)
    return t if t.shape == shape else np.broadcast_to(t[..., None], shape)


def taint_at(st: State, m: Memory, dtype: str, index: Any, limit: int, predicate: Any) -> Any:
    """The undefinedness of the elements at `index`."""
    if m.taint is None:
        return 0
    quiet, st.quiet = st.quiet, True
    place = locate(st, m, dtype, index, limit, predicate, False)
    st.quiet = quiet
    if not place.at.size:
        return 0
    item = parse(dtype).numpy.itemsize
    at, _ = m.units(place.at, place.lanes, item)
    t = m.taint[at]
    if t.shape != place.at.shape:
        t = t.max(axis=-1)
    return place.spread(t)
