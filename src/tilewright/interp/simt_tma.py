"""Copies of tiles by tensor maps (cp.async.bulk.tensor): boxes, or columns of pixels (im2col), in
shared memory, with zeros for what lies outside of the array, and pieces of 16 bytes where the
swizzle puts them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import ArgumentError, TilewrightError
from ..base.tensor_map import TensorMap, most_offset
from ..loopir import expr as E
from ..loopir.hopper_calls import COPIES, copy_parts
from .simt_access import load
from .simt_barrier import barriers, places, require_fenced, require_made, running_lanes, tell
from .simt_calls import NO_LIMIT
from .simt_cluster import blocks_of
from .simt_expr import Code, Fn
from .simt_memory import Memory
from .simt_report import BOUNDS, MISALIGNED, UNWRITTEN
from .simt_shadow import RaceShadow
from .simt_state import Array, State

_PLAIN_ALIGN = 128  # bytes that a box starts at without a swizzle; with one, 8 of its rows


class SimtMap:
    """A tensor map as a kernel's argument: an array, flat, and how copies see it. Raises
    ArgumentError where there is no such tensor map."""

    __slots__ = ("array", "described")

    def __init__(self, array: Any, described: TensorMap) -> None:
        wrong = described.problem()
        if wrong:
            raise ArgumentError(f"there is no such tensor map: {wrong}")
        self.array = array
        self.described = described

    def boxes(self, corners: Array, offsets: Array | None = None) -> tuple[Array, Array]:
        """The elements of boxes at (boxes, dimensions) corners, (boxes, elements), the innermost
        dimension fastest, and which of them are read though nobody has written them; of a map with
        pixels those of columns that begin at the corners, with (boxes, W, H, ...) offsets. Raises
        ArgumentError where the map reaches past the array."""
        d = self.described
        data = self.array if isinstance(self.array, np.ndarray) else self.array.data
        item = parse(d.dtype).numpy
        flat = data.reshape(-1).view(np.uint8)
        steps = np.indices(d.box[::-1]).reshape(len(d.box), -1)[::-1]
        if d.pixels is None:
            at = corners[:, :, None] + steps[None]
        else:
            channels, numbers = steps
            at = self.pixels(corners)[:, :, numbers]
            at[:, 0] += channels
            if offsets is not None:
                at[:, 1:-1] += offsets[:, :, None]
        inside = ((at >= 0) & (at < np.array(d.dims)[None, :, None])).all(axis=1)
        strides = np.array((item.itemsize, *d.strides), np.int64)
        where = (at * strides[None, :, None]).sum(axis=1)
        where = np.where(inside, where, 0)
        last = sum((n - 1) * s for n, s in zip(d.dims, strides)) + item.itemsize
        if last > flat.size:
            raise ArgumentError(f"a tensor map of {last} bytes is of an array of {flat.size}")
        raw = flat[where[..., None] + np.arange(item.itemsize)]
        values = np.ascontiguousarray(raw).view(item)[..., 0]
        known = getattr(self.array, "written", None)
        unwritten = np.zeros_like(inside) if known is None else inside & ~known[where]
        return np.where(inside, values, np.zeros((), item)), unwritten

    def pixels(self, corners: Array) -> Array:
        """Where the pixels of columns lie that begin at (columns, dimensions) corners: (columns,
        dimensions, pixels), before offsets. Only of maps with pixels."""
        d = self.described
        assert d.pixels is not None
        at = np.repeat(corners[:, :, None], d.box[1], axis=2)
        number = np.broadcast_to(np.arange(d.box[1]), (len(corners), d.box[1]))
        edges = zip(d.pixels.lower, d.pixels.last(d.dims), d.pixels.steps)
        for i, (low, high, step) in enumerate(edges, 1):
            begin = corners[:, i, None]
            left = (high - begin) // step + 1  # of the line (or image) that a column begins in
            whole = (high - low) // step + 1
            beyond = number - left
            first = beyond < 0
            at[:, i] = np.where(first, begin + number * step, low + beyond % whole * step)
            number = np.where(first, 0, beyond // whole + 1)
        at[:, -1] += number
        return at

    def outside(self, corners: Array) -> Array:
        """Which columns begin outside of the bounding box; of a map without pixels none do."""
        d = self.described
        if d.pixels is None:
            return np.zeros(len(corners), np.bool_)
        begin = corners[:, 1:-1]
        beside = (begin < d.pixels.lower) | (begin > d.pixels.last(d.dims))
        return np.asarray(beside.any(axis=1))


def swizzled(address: Array, span: int) -> Array:
    """Where a byte of shared memory lies: bits 4 to 6 of its address are changed by bits 7 to 9, as
    many of them as the span has pieces of 16 bytes to tell apart."""
    return address if span < 32 else address ^ (address >> 3 & (span - 16))


def _copy(code: Any, e: E.Call) -> Fn:
    """By a tensor map, of a box or of a column of pixels."""
    parts = copy_parts(e)
    to, source = code.pointer(parts.shared_ptr), parts.tensor_map
    mask = None if parts.blocks is None else code.value(parts.blocks)
    if not isinstance(source, E.Var):
        raise TilewrightError(f"simt: the tensor map of a copy is a kernel's parameter: {source}")
    barrier = code.value(parts.barrier_id)
    corner = [code.value(c) for c in parts.coordinates]
    offset = [code.value(c) for c in parts.offsets]

    def run(st: State) -> Any:
        given = _map_of(st, source, len(corner), bool(offset))
        lanes, block, number = places(st, barrier(st))
        if not lanes.size:
            return np.int32(0)
        require_fenced(st, lanes, block, number)
        m = st.memory[to.data]
        corners, offsets = (_of_lanes(st, values, lanes) for values in (corner, offset))
        if offset:
            _within(st, source.name, given, corners, offsets, lanes)
        values, unwritten = given.boxes(corners, offsets)
        if unwritten.any():
            n = int(np.flatnonzero(unwritten.any(axis=1))[0])
            text = f"copies elements of {source.name} that nobody has written"
            tell(st, UNWRITTEN, int(lanes[n]), text, int(unwritten.sum()))
        first = np.broadcast_to(np.asarray(to.offset(st), np.int64), (st.lanes,))[lanes]
        item = values.dtype.itemsize
        start = m.address + first * item
        _aligned(st, m, given.described.swizzle, start, lanes)
        for there, these in _destinations(st, lanes, number, mask):
            for n in np.unique(number[these]):
                at = these & (number == n)
                _write(st, m, given.described, start[at], values[at], lanes[at], int(n), there[at])
        return np.int32(0)

    return run


def _map_of(st: State, source: E.Var, rank: int, im2col: bool) -> SimtMap:
    """The map that a copy of so many coordinates names; it has pixels where the copy takes some."""
    given = st.maps.get(source)
    if given is None:
        raise TilewrightError(f"simt: {source.name} is no tensor map")
    d = given.described
    if rank != len(d.dims):
        raise TilewrightError(
            f"simt: {source.name} has {len(d.dims)} dimensions, a copy names {rank}"
        )
    if im2col != (d.pixels is not None):
        kinds = ("boxes", "columns of pixels")
        raise TilewrightError(
            f"simt: {source.name} is a tensor map of {kinds[not im2col]}, a copy by it takes "
            f"{kinds[im2col]}"
        )
    found: SimtMap = given
    return found


def _of_lanes(st: State, values: list[Fn], lanes: Array) -> Array:
    """(lanes, values)"""
    made = np.zeros((len(lanes), len(values)), np.int64)
    for n, value in enumerate(values):
        made[:, n] = np.broadcast_to(np.asarray(value(st), np.int64), (st.lanes,))[lanes]
    return made


def _within(
    st: State, name: str, given: SimtMap, corners: Array, offsets: Array, lanes: Array
) -> None:
    """Report columns that begin outside of their bounding box, and offsets that are too large."""
    pixels, most = given.described.pixels, most_offset(len(given.described.dims))
    assert pixels is not None
    box = f"from {pixels.lower} to {pixels.last(given.described.dims)}"
    far = ((offsets < 0) | (offsets > most)).any(axis=1)
    for bad, values, what, why in (
        (given.outside(corners), corners[:, 1:-1], "from", f"outside of the bounding box {box}"),
        (far, offsets, "with offsets", f"of which each is from 0 to {most}"),
    ):
        if bad.any():
            n = int(np.flatnonzero(bad)[0])
            at = tuple(int(x) for x in values[n])
            text = f"copies pixels of {name} {what} {at}, {why}"
            tell(st, BOUNDS, int(lanes[n]), text, int(bad.sum()))


def _destinations(st: State, lanes: Array, number: Array, mask: Fn | None) -> list[Any]:
    """The blocks that copies go to, and which of the copies go to any: a mask names several of
    each cluster, by their ranks."""
    if mask is None:
        return [(st.block_in[lanes], np.ones(len(lanes), np.bool_))]
    bits = np.broadcast_to(np.asarray(mask(st), np.int64), (st.lanes,))[lanes]
    cluster = st.geometry.cluster
    beyond = bits >> cluster != 0  # also of negative ones
    if beyond.any():
        n = int(np.flatnonzero(beyond)[0])
        text = f"copies to the blocks {int(bits[n]):#b} of a cluster of {cluster}"
        tell(st, BOUNDS, int(lanes[n]), text, int(beyond.sum()))
    made = []
    for rank in range(cluster):
        these = bits >> rank & 1 != 0
        if these.any():
            there = np.zeros(len(lanes), np.int64)
            there[these] = blocks_of(st, lanes[these], rank)
            require_made(st, lanes[these], there[these], number[these])
            require_fenced(st, lanes[these], there[these], number[these])
            made.append((there, these))
    return made


def _aligned(st: State, m: Memory, span: int, start: Array, lanes: Array) -> None:
    need = max(_PLAIN_ALIGN, 8 * span)
    bad = start % need != 0
    if bad.any():
        n = int(np.flatnonzero(bad)[0])
        text = (
            f"copies a box to {m.name} at byte {int(start[n] - m.address)}, which is no multiple "
            f"of {need} in shared memory; allocate {m.name} with data_alignment={need}"
        )
        tell(st, MISALIGNED, int(lanes[n]), text, int(bad.sum()))


def _write(
    st: State,
    m: Memory,
    d: TensorMap,
    start: Array,
    values: Array,
    lanes: Array,
    barrier: int,
    block: Array,
) -> None:
    """Write boxes to the memory of blocks by copies that end with a phase of a barrier there."""
    shadow = m.shadow
    if not isinstance(shadow, RaceShadow) or m.scope != "shared":
        raise TilewrightError(f"simt: copies by tensor maps go to shared memory, not to {m.name}")
    item = values.dtype.itemsize
    bytes_at = start[:, None] + np.arange(values.shape[1]) * item
    place = swizzled(bytes_at, d.swizzle) - m.address
    outside = (place < 0) | (place + item > m.size)
    if outside.any():
        n = int(np.flatnonzero(outside.any(axis=1))[0])
        text = f"copies a box of {d.box_bytes} bytes beyond the end of {m.name} ({m.size} bytes)"
        tell(st, BOUNDS, int(lanes[n]), text)
        return
    b = barriers(st)
    first = block * st.geometry.threads
    instance = m.instance[first] if m.instance is not None else np.zeros(len(lanes), np.int64)
    at = place // item + instance[:, None] * (m.step // item)
    units, who = m.units(at, np.broadcast_to(lanes[:, None], at.shape), item)
    data = m.view(d.dtype)
    never = np.zeros(units.shape, np.bool_)
    shadow.write(st, m, units, who, False, lambda: never)
    shadow.after(st, m, units, who, lambda: never)  # those of several blocks to one place
    data[at] = values
    if shadow.flights is None:
        shadow.flights = np.zeros(len(shadow.writes), np.int32)
        each = m.step // m.unit
        shadow.landed = lambda at, who: b.landed(shadow.flights[at], who, at // each)
    shadow.flights[units] = b.fly(barrier, block)
    shadow.writes[units] = -st.access(who)
    np.subtract.at(b.bytes, (block, np.full_like(block, barrier)), d.box_bytes)
    b.settle()
    m.traffic.stores += at.size
    st.report.async_copies += at.size


def _bulk(code: Any, e: E.Call) -> Fn:
    """(shared memory, offset, memory, offset, bytes, barrier)"""
    to, from_ = code.pointer(e.args[0]), code.pointer(e.args[2])
    to_offset, from_offset, count, barrier = [code.value(e.args[n]) for n in (1, 3, 4, 5)]
    element = parse(e.dtype).element

    def run(st: State) -> Any:
        lanes, block, number = places(st, barrier(st))
        if not lanes.size:
            return np.int32(0)
        require_fenced(st, lanes, block, number)
        m, source = st.memory[to.data], st.memory[from_.data]
        dtype = to.dtype or element
        item = parse(dtype).numpy.itemsize
        nbytes = np.broadcast_to(np.asarray(count(st), np.int64), (st.lanes,))[lanes]
        size = int(nbytes.max())
        steps = np.arange(size // item, dtype=np.int64)[:, None]
        first = np.asarray(from_.offset(st), np.int64) + from_offset(st)
        value = load(st, source, dtype, first + steps, NO_LIMIT, None)
        values = np.ascontiguousarray(np.broadcast_to(value, (len(steps), st.lanes))[:, lanes].T)
        begin = np.asarray(to.offset(st), np.int64) + to_offset(st)
        start = m.address + np.broadcast_to(begin, (st.lanes,))[lanes] * item
        begins = np.broadcast_to(first, (st.lanes,))[lanes] * item
        bad = (start % 16 != 0) | (begins % 16 != 0) | (nbytes % 16 != 0) | (nbytes != size)
        if bad.any():
            text = f"copies {size} bytes to {m.name}: bytes and places are no multiples of 16"
            tell(st, MISALIGNED, int(lanes[np.flatnonzero(bad)[0]]), text, int(bad.sum()))
        box = TensorMap(dtype, (size // item,), (), (size // item,))
        for n in np.unique(number):
            these = number == n
            own = block[these]
            _write(st, m, box, start[these], values[these], lanes[these], int(n), own)
        return np.int32(0)

    return run


Code.calls.update(
    {
        **dict.fromkeys(COPIES.values(), _copy),
        "tir.ptx_cp_async_bulk": _bulk,
    }
)
__all__ = ["SimtMap", "running_lanes", "swizzled"]
