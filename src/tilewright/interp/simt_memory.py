"""Memory of the simt executor: one array for all instances of a buffer that run together.

Global memory has one instance, shared memory one a block, warp memory one a warp, local memory one
a thread. Instances lie one after another, but for local memory of one element type: there the
element is the outer dimension, so that threads that use one index read a row. Shadow memory and
undefinedness are kept by *unit*, the narrowest element type by which the memory is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dtype import parse
from .simt_report import BOUNDS, UNWRITTEN, SimtReport, Traffic
from .simt_shadow import InitShadow, RaceShadow
from .simt_state import Array, State

_ALIGN = 16
_UNSAID = 64


class Memory:
    """All instances of one allocation.

    `rows` are those of interleaved memory, of which each element has type `row_type` ("": none);
    `full` says which all lanes have written, `masks` the mask last seen to have written each.

    `address` is where an instance in shared memory starts.

    `off` says by how many bytes the start misses the multiple of `align` that the code relies on.

    `size` is how many bytes an instance has, `instance` which one each lane uses (None: there is
    one). `interleaved` says that the instance is the inner dimension.
    """

    __slots__ = (
        "address", "align", "bases", "full", "instance", "interleaved", "masks", "name", "off",
        "raw", "row_type", "rows", "scope", "shadow", "size", "step", "taint", "traffic", "unit",
        "views",
    )  # fmt: skip

    def __init__(
        self,
        traffic: Traffic,
        name: str,
        scope: str,
        raw: Array,
        size: int,
        instance: Array | None,
        unit: int,
    ) -> None:
        self.traffic = traffic
        self.name = name
        self.scope = scope
        self.raw = raw
        self.size = size
        self.step = size  # bytes from one instance to the next
        self.instance = instance
        self.unit = unit
        self.address = 0
        self.align = 1
        self.off = 0
        self.interleaved = 0
        self.rows: Any = None
        self.row_type = ""
        self.full: bytearray = bytearray()
        self.masks: list[Any] = []
        self.shadow: Any = None
        self.taint: Array | None = None
        self.views: dict[str, Array] = {}
        self.bases: dict[str, Any] = {}

    def view(self, dtype: str) -> Array:
        """The memory as flat array of an element type."""
        v = self.views.get(dtype)
        if v is None:
            t = parse(dtype).numpy
            whole = self.raw.size // t.itemsize * t.itemsize
            v = self.views[dtype] = self.raw[:whole].view(t)
        return v

    def place(self, dtype: str) -> tuple[int, Any, int]:
        """How many elements an instance has, what to add to an index, what to scale it by."""
        known: Any = self.bases.get(dtype)
        if known is None:
            item = parse(dtype).numpy.itemsize
            if self.interleaved:
                known = (self.size // item, self.instance, self.interleaved)
            elif self.instance is None:
                known = (self.size // item, None, 1)
            else:
                known = (self.size // item, self.instance * (self.step // item), 1)
            self.bases[dtype] = known
        return known  # type: ignore[no-any-return]

    def element(self, unit: int, lane: int) -> int:
        """The index, within its instance, of a unit of the whole array."""
        if self.interleaved:
            return unit // self.interleaved
        if self.instance is None:
            return unit
        if self.scope == "shared":  # maybe another block's of the cluster
            return unit % (self.step // self.unit)
        return unit - int(self.instance[lane]) * (self.step // self.unit)

    def units(self, at: Array, lanes: Array, item: int) -> tuple[Array, Array]:
        """The units of elements of `item` bytes, and the lanes that use them."""
        if item == self.unit:
            return at, lanes
        k = item // self.unit
        parts = at[..., None] * k + np.arange(k)
        return parts, np.broadcast_to(lanes[..., None], parts.shape)

    def unwritten(self, st: State, at: Array, lanes: Array, which: Array) -> None:
        """Note that lanes read what nobody has written; reported when the values are used."""
        first = int(np.flatnonzero(which.reshape(-1))[0])
        lane = int(np.broadcast_to(lanes, at.shape).reshape(-1)[first])
        index = self.element(int(at.reshape(-1)[first]), lane)
        who = st.geometry.thread(int(st.number[lane]))
        finding = st.log.make(
            UNWRITTEN,
            f"{who} reads {self.name}[{index}] ({self.scope}), which nobody has written",
            st.site,
            self.name,
            index,
            (int(st.number[lane]),),
            None,
            int(which.sum()),
        )
        number = st.origin(finding, (st.site, self.name))
        self.set_taint(at[which], number)

    def row_written(self, row: int, mask: Array | None) -> bool:
        """Whether all lanes that run have written a row of interleaved memory."""
        if mask is not None and self.masks[row] is mask:
            return True
        written = self.shadow.written[row * self.interleaved : (row + 1) * self.interleaved]
        if written.all():
            self.full[row] = 1
            return True
        if mask is None or not (written | ~mask).all():
            return False
        self.masks[row] = mask
        return True

    def store_row(self, row: int, value: Any, mask: Array | None) -> None:
        """Write a row of interleaved memory in the lanes that run."""
        if mask is None:
            self.rows[row] = value
        else:
            np.copyto(self.rows[row], value, where=mask)
        if not self.full[row] and (mask is None or self.masks[row] is not mask):
            written = self.shadow.written[row * self.interleaved : (row + 1) * self.interleaved]
            if mask is None:
                written[:] = True
                self.full[row] = 1
            else:
                written |= mask
                self.masks[row] = mask

    def rows_written(self, rows: Array | slice, mask: Array | None) -> bool:
        """Whether all lanes that run have written several rows of interleaved memory."""
        if np.frombuffer(self.full, np.bool_)[rows].all() or self._seen(rows, mask):
            return True
        written = self.shadow.written.reshape(len(self.rows), -1)[rows]
        return bool((written if mask is None else written | ~mask).all())

    def store_rows(self, rows: Array | slice, value: Any, mask: Array | None) -> None:
        """Write several rows of interleaved memory in the lanes that run."""
        if mask is None:
            self.rows[rows] = value
        elif isinstance(rows, slice):
            np.copyto(self.rows[rows], value, where=mask)
        else:
            self.rows[rows] = np.where(mask, value, self.rows[rows])
        full = np.frombuffer(self.full, np.bool_)
        if full[rows].all() or self._seen(rows, mask):
            return
        written = self.shadow.written.reshape(len(self.rows), -1)
        if mask is None:
            written[rows] = True
            full[rows] = True
        else:
            written[rows] |= mask
            if isinstance(rows, slice):
                self.masks[rows] = [mask] * (rows.stop - rows.start)

    def _seen(self, rows: Array | slice, mask: Array | None) -> bool:
        """Whether the lanes of this very mask are known to have written rows."""
        if mask is None or not isinstance(rows, slice):
            return False
        return all(m is mask for m in self.masks[rows])

    def forget(self, st: State) -> None:
        """The memory is given out anew: its content is unspecified."""
        self.taint = None
        self.full = bytearray(len(self.full))
        self.masks = [None] * len(self.full)
        if self.shadow is not None:
            self.shadow.forget(st)

    def set_taint(self, at: Array, taint: Any) -> None:
        if self.taint is None:
            if type(taint) is int and taint == 0:
                return
            self.taint = np.zeros(self.raw.size // self.unit, np.int16)
        self.taint[at] = taint


def global_memory(report: SimtReport, name: str, array: Array, unit: int, align: int = 0) -> Memory:
    """Memory of an argument, a flat array, that has to start at a multiple of `align`."""
    raw = array.view(np.uint8)
    m = Memory(report.scope("global"), name, "global", raw, raw.size, None, unit)
    m.align = max(align, 1)
    m.off = int(raw.ctypes.data) % m.align if align > 1 else 0
    return m


def new_memory(
    st: State, name: str, scope: str, dtype: str, count: int, units: tuple[str, ...]
) -> Memory:
    """Memory for `count` elements; `units` are the element types by which it is used."""
    t = parse(dtype)
    items = [parse(u).numpy.itemsize for u in (*units, dtype)]
    unit, item = min(items), t.numpy.itemsize
    size = max(count, 0) * item
    if is_shared(scope):
        instance, copies = st.block_in, st.blocks
    elif is_warp(scope):
        instance, copies = st.warp, st.blocks * st.geometry.warps
    else:
        instance, copies = st.lane, st.lanes
    private = instance is st.lane
    one_type = all(i == item for i in items) and len(set(units) | {t.element}) == 1
    step = size if private and one_type else -(-max(size, 1) // _ALIGN) * _ALIGN
    kind = "local" if private else "shared" if is_shared(scope) else "warp"
    raw = fresh(step * copies, dtype)
    m = Memory(st.report.scope(kind), name, kind, raw, size, instance, unit)
    m.step = step
    if private:
        m.shadow = InitShadow(m.raw.size // unit)
        if one_type:
            m.interleaved, m.row_type = st.lanes, t.element
            m.rows = m.view(t.element).reshape(count if size else 0, st.lanes)
            m.full = bytearray(len(m.rows))
            m.masks = [None] * len(m.rows)
    else:
        m.shadow = RaceShadow(m.raw.size // unit, False, False, True, st.geometry.groups[:-1])
    return m


def give_address(st: State, m: Memory, declared: int) -> None:
    """Have shared memory start at a multiple of the alignment that its declaration asks for, and of
    no more. Buffers that say nothing are declared to be aligned to 64 bytes."""
    align = declared if declared > _UNSAID else _ALIGN
    at = -(-st.shared_end // align) * align
    m.address = at if at % (2 * align) else at + align
    st.shared_end = m.address + m.size


def fresh(size: int, dtype: str) -> Array:
    """Bytes whose content shows when it is used before it is written: NaN, or a large number."""
    t = parse(dtype).numpy
    raw = np.empty(size, np.uint8)
    whole = raw[: size // t.itemsize * t.itemsize]
    if t.kind == "b":
        raw.fill(1)
    elif t.kind in "iu":
        raw.fill(0x6B)
    else:
        raw.fill(0)
        whole.view(t).fill(np.nan)
    return raw


def is_shared(scope: str) -> bool:
    return scope.startswith("shared")


def is_warp(scope: str) -> bool:
    return scope == "warp" or scope.startswith("wmma.")


def out_of_bounds(
    st: State, m: Memory, index: Array, limit: int, where: Array | None, writes: bool
) -> Array:
    """Report indices that are not in [0, limit); gives where the access may go on."""
    bad = (index < 0) | (index >= limit)
    if where is not None:
        bad = bad & where
    if bad.any() and not st.quiet:
        n = int(np.flatnonzero(bad.reshape(-1))[0])
        lane = n % st.lanes
        who = st.geometry.thread(int(st.number[lane]))
        at = int(index.reshape(-1)[n])
        does = "writes" if writes else "reads"
        st.log.add(
            BOUNDS,
            f"{who} {does} {m.name}[{at}] ({m.scope}), which is not in [0, {limit})",
            st.site,
            m.name,
            at,
            (int(st.number[lane]),),
            None,
            int(bad.sum()),
        )
    inside = (index >= 0) & (index < limit)
    return inside if where is None else inside & where


__all__ = [
    "InitShadow",
    "Memory",
    "RaceShadow",
    "fresh",
    "global_memory",
    "is_shared",
    "is_warp",
    "new_memory",
    "out_of_bounds",
]
