"""Products of warp groups (wgmma): operands in shared memory, named by matrix descriptors, or the
first one in registers of 128 threads, as sums are.

A product runs when its group is waited for, on what shared memory holds then. Until then nobody may
write what it reads, or use its registers. Before it starts, what threads have done with
these registers needs a wgmma.fence, and what they have stored to its tiles a fence.proxy.async.
Layouts are those of the PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.expr import const_int
from ..loopir.hopper_calls import WGMMA, WGMMA_RS
from .simt_barrier import tell
from .simt_expr import Code, Fn
from .simt_memory import Memory
from .simt_mma import multiply, whole_parts
from .simt_report import BOUNDS, DIVERGENT, FENCE, MISALIGNED, UNWRITTEN
from .simt_shadow import FragmentShadow, RaceShadow
from .simt_state import THREAD_MASK, WRITTEN, Array, State
from .simt_tma import swizzled

GROUP = 128
_ROWS, _DEPTH = 64, 32  # of a tile, and bytes of the reduction
_TYPES = {"fp16": "float16", "bf16": "bfloat16", "int8": "int8"}
_SPANS = (16, 128, 64, 32)  # bytes of a tile's rows by the mode of a descriptor: 16 is no swizzle
_FIELD = 0x3FFF
_READERS = np.arange(_ROWS) // 16 * 32 + 31  # threads that stand for the warp that has a line of A


class _Tile:
    """An operand of products that have started: elements of a memory and their units, one entry a
    warp group."""

    def __init__(self, memory: Memory, at: Array, units: Array) -> None:
        self.memory, self.at, self.units = memory, at, units

    def values(self, dtype: str) -> Array:
        return np.asarray(self.memory.view(dtype)[self.at])

    def of(self, which: Array) -> _Tile:
        return _Tile(self.memory, self.at[which], self.units[which])


class _InRegisters:
    """The first operand of products that have started, in registers of a memory: their units, (warp
    groups, registers, threads)."""

    def __init__(self, memory: Memory, at: Array) -> None:
        self.memory, self.at = memory, at

    def values(self, dtype: str) -> Array:
        given = self.memory.view(dtype)[self.at]
        steps = given.shape[1] * GROUP // _ROWS
        row, column = sum_places(steps)  # as sums of as many columns lie
        made = np.zeros((len(given), _ROWS, steps), given.dtype)
        made[:, row, column] = given
        return made

    def of(self, which: Array) -> _InRegisters:
        return _InRegisters(self.memory, self.at[which])


class _Product:
    """A wgmma under way: of which warp groups, in which group of each, on which operands; `sums`
    are the units of the accumulator in `memory`, (warp groups, registers, threads)."""

    def __init__(
        self,
        groups: Array,
        number: Array,
        a: _Tile | _InRegisters,
        b: _Tile,
        add: Array,
        sums: _InRegisters,
    ) -> None:
        self.groups, self.number, self.a, self.b = groups, number, a, b
        self.add, self.sums = add, sums

    def of(self, which: Array) -> _Product:
        return _Product(
            self.groups[which], self.number[which], self.a.of(which), self.b.of(which),
            self.add[which], self.sums.of(which),
        )  # fmt: skip

    @property
    def tiles(self) -> list[_Tile]:
        """Operands in shared memory."""
        return [x for x in (self.a, self.b) if isinstance(x, _Tile)]

    @property
    def registers(self) -> list[_InRegisters]:
        """What nobody may use before the product is waited for."""
        return [x for x in (self.sums, self.a) if isinstance(x, _InRegisters)]


class _Registers:
    """So many registers' elements of a memory from an index on: sums, or an operand."""

    def __init__(self, code: Any, data: Any, index: Any, count: int, dtype: str) -> None:
        if not isinstance(data, E.Var):
            raise TilewrightError(f"simt: an accumulator is named by its memory, not by {data}")
        self.data, self.index, self.count = data, code.value(index), count
        self.dtype = dtype
        code.accumulators.add(data)

    def units(self, st: State, lanes: Array) -> Array:
        """(elements, lanes) in the memory's array."""
        m = st.memory[self.data]
        size, base, scale = m.place(self.dtype)
        first = np.broadcast_to(np.asarray(self.index(st), np.int64), (st.lanes,))[lanes]
        index = first + np.arange(self.count)[:, None]
        if index.size and int(index.max()) >= size:
            raise TilewrightError(
                f"simt: an accumulator ends at {int(index.max()) + 1} of {m.name}, which has {size}"
            )
        return np.asarray(index * scale + base[lanes])


def sum_places(columns: int) -> tuple[Array, Array]:
    """Row and column of each register of each thread of a warp group, (registers, 128)."""
    i = np.arange(columns // 2)[:, None]
    thread = np.arange(GROUP)[None, :]
    row = thread // 32 * 16 + thread % 32 // 4 + i % 4 // 2 * 8
    column = i // 4 * 8 + thread % 4 * 2 + i % 2
    return np.asarray(row), np.asarray(column)


def tile_addresses(descriptor: Array, lines: int, flip: bool, item: int = 2) -> Array:
    """Where the elements of an operand of so many lines and 32 bytes of the reduction lie in shared
    memory, for each descriptor; `item`: bytes of an element. `flip`: the lines, M or N, run along
    rows of the tile, not K, which those of two bytes do."""
    d = np.asarray(descriptor, np.uint64).astype(np.int64)[:, None, None]
    start, leading, stride = [(d >> n & _FIELD) << 4 for n in (0, 16, 32)]
    mode = int(d.reshape(-1)[0] >> 62 & 3)
    span = _SPANS[mode]
    line, k = np.arange(lines)[:, None], np.arange(_DEPTH // item)[None, :]
    if not flip and mode:
        place = line % 8 * span + line // 8 * stride + item * k
    elif not flip:
        place = line % 8 * 16 + line // 8 * stride + k * item % 16 + k * item // 16 * leading
    elif mode:
        wide = span // 2
        place = line % wide * 2 + line // wide * leading + k % 8 * span + k // 8 * stride
    else:
        place = line % 8 * 2 + line // 8 * stride + k % 8 * 16 + k // 8 * leading
    return swizzled(start + place, span if mode else 0)


def _whole_groups(st: State, what: str) -> Array:
    """The warp groups all of whose threads run; reports others."""
    if st.geometry.threads % GROUP:
        raise TilewrightError(
            f"simt: {what} needs blocks of whole warp groups of {GROUP} threads, not of "
            f"{st.geometry.threads}"
        )
    groups, alone = whole_parts(st, GROUP)
    if alone is not None:
        tell(st, DIVERGENT, alone, f"comes to {what} without all threads of its warp group")
    return groups


def _lanes(groups: Array) -> Array:
    """(128, groups): the lanes of warp groups."""
    return np.asarray(groups[None, :] * GROUP + np.arange(GROUP)[:, None])


def _descriptor(code: Any, e: E.Call) -> Fn:
    """(shared memory, leading byte offset, stride byte offset, bytes of the swizzle)"""
    pointer = code.pointer(e.args[0])
    leading, stride, swizzle = [const_int(x) or 0 for x in e.args[1:4]]
    mode = {0: 0, 128: 1, 64: 2, 32: 3}[swizzle]
    rest = leading // 16 << 16 | stride // 16 << 32 | mode << 62

    def run(st: State) -> Any:
        m = st.memory[pointer.data]
        item = parse(pointer.dtype or "float16").numpy.itemsize
        address = m.address + np.asarray(pointer.offset(st), np.int64) * item
        return (address >> 4 & _FIELD).astype(np.uint64) | np.uint64(rest)

    return run


def _operand(
    st: State, name: str, given: Any, groups: Array, lines: int, flip: bool, dtype: str
) -> _Tile | None:
    """The tile that a descriptor names, with all that is wrong with it reported."""
    each = np.broadcast_to(np.asarray(given, np.uint64), (st.lanes,))[_lanes(groups)]
    last = groups * GROUP + GROUP - 1
    if (each != each[:1]).any():
        text = f"has another descriptor of {name} than other threads of its warp group"
        tell(st, DIVERGENT, int(last[0]), text)
    descriptor = each[-1]
    start = (descriptor.astype(np.int64) & _FIELD) << 4
    span = _SPANS[int(descriptor[0] >> np.uint64(62))]
    odd = start >> 7 & (span // 16 - 1) if span > 16 else np.zeros_like(start)
    if odd.any():
        text = (
            f"names {name} by an address whose swizzle does not begin at a multiple of {8 * span} "
            f"bytes; allocate its memory with data_alignment={8 * span}"
        )
        tell(st, MISALIGNED, int(last[np.flatnonzero(odd)[0]]), text)
    item = parse(dtype).numpy.itemsize
    address = tile_addresses(descriptor, lines, flip, item)
    for m in {id(m): m for m in st.memory.values() if m.scope == "shared"}.values():
        if m.address <= int(address.min()) and int(address.max()) + item <= m.address + m.size:
            break
    else:
        tell(st, BOUNDS, int(last[0]), f"names {name} by a descriptor that leads out of its memory")
        return None
    block = st.block_in[last]
    at = (address - m.address) // item + (block * (m.step // item))[:, None, None]
    units, who = m.units(at, np.broadcast_to(last[:, None, None], at.shape), item)
    _readable(st, m, units, who, name)
    return _Tile(m, at, units)


def _readable(st: State, m: Memory, units: Array, who: Array, name: str) -> None:
    """Report what is not written, on its way, or not fenced."""
    shadow: RaceShadow = m.shadow
    before = len(st.origins)
    shadow.check(st, m, units, who)
    for finding in st.origins[before:]:
        st.log.tell(finding)
    writes = shadow.writes[units]
    by_threads = writes > WRITTEN
    if not by_threads.any():
        return
    writer = (writes & THREAD_MASK) - int(st.number[0])
    fence = np.zeros(st.lanes, np.int64) if st.proxy is None else st.proxy
    known = (writer >= 0) & (writer < st.lanes)
    late = by_threads & (writes > np.where(known, fence[np.where(known, writer, 0)], 0))
    if late.any():
        text = f"reads {name} in {m.name}, stored without a ptx_fence_proxy_async behind it"
        tell(st, FENCE, int(who.reshape(-1)[0]), text, int(late.sum()))


def _wgmma(code: Any, e: E.Call) -> Fn:
    """(shape, type, accumulator, its offset, descriptors of a and b, whether to add, flips); or
    registers of a and an offset in the place of its descriptor, and the flip of b alone"""
    rs = e.op.name == WGMMA_RS
    dtype = str(getattr(e.args[1], "value", ""))
    dtype = _TYPES.get(dtype, dtype)
    flip_a, flip_b = [bool(getattr(x, "value", 0)) for x in (0, *e.args[7:])[-2:]]
    nbytes = parse(dtype).nbytes if dtype in _TYPES.values() else 0
    steps = _DEPTH // nbytes if nbytes else 0
    found = re.fullmatch(rf"m64n(\d+)k{steps}", str(getattr(e.args[0], "value", "")))
    if found is None or (nbytes == 1 and (flip_a or flip_b or rs)):
        raise TilewrightError(f"simt does not know {e.op.name[4:]} of {e.args[0]} on {e.args[1]}")
    columns = int(found[1])
    sums = _Registers(code, e.args[2], e.args[3], columns // 2, e.dtype)
    given: Any
    if rs:
        given = _Registers(code, e.args[4], e.args[5], _ROWS * steps // GROUP, dtype)
    else:
        given = code.value(e.args[4])
    b, add = [code.value(x) for x in (e.args[6:8] if rs else e.args[5:7])]

    def run(st: State) -> Any:
        groups = _whole_groups(st, "ptx_wgmma")
        if not groups.size:
            return np.int32(0)
        lanes = _lanes(groups)
        more = np.broadcast_to(np.asarray(add(st)) != 0, (st.lanes,))[lanes[0]]
        at = _start(st, sums, lanes, more)
        x: Any
        if rs:
            x = _start(st, given, lanes, np.ones_like(more))
        else:
            x = _operand(st, "A", given(st), groups, _ROWS, flip_a, dtype)
        y = _operand(st, "B", b(st), groups, columns, flip_b, dtype)
        if x is None or y is None:
            return np.int32(0)
        product = _Product(groups, _closed(st)[groups].copy(), x, y, more, at)
        for tile in product.tiles:
            tile.memory.shadow.hold(tile.units, 1)
        for own in product.registers:
            own.memory.shadow.flying[own.at] = True
        st.products.append((product, (dtype, e.dtype), columns))
        return np.int32(0)

    return run


def _start(st: State, own: _Registers, lanes: Array, reads: Array) -> _InRegisters:
    """Registers that a product takes, with reports of those that are used without a fence, or that
    it `reads` though nobody has set them."""
    m = st.memory[own.data]
    shadow: FragmentShadow = m.shadow
    unfenced = shadow.used[lanes]
    if unfenced.any():
        lane = int(lanes[unfenced][0])
        text = f"starts a wgmma on {m.name}, used since its last wgmma.fence: ptx_wgmma_fence first"
        tell(st, FENCE, lane, text, int(unfenced.sum()))
        shadow.used[lanes] = False
    at = own.units(st, lanes.reshape(-1))
    each = np.tile(reads, GROUP)
    missing = each[None, :] & ~(shadow.written[at] | shadow.flying[at])
    if missing.any():
        text = f"reads registers of {m.name} that nobody has written"
        tell(st, UNWRITTEN, int(lanes.reshape(-1)[missing.any(axis=0)][0]), text)
    return _InRegisters(m, np.moveaxis(at.reshape(len(at), *lanes.shape), 2, 0))


def _closed(st: State) -> Array:
    """How many groups each warp group has closed."""
    if st.product_groups is None:
        st.product_groups = np.zeros(st.lanes // GROUP, np.int64)
    found: Array = st.product_groups
    return found


def _fence(code: Any, e: E.Call) -> Fn:
    def run(st: State) -> Any:
        lanes = _lanes(_whole_groups(st, "ptx_wgmma_fence"))
        for m in st.memory.values():
            if isinstance(m.shadow, FragmentShadow):
                m.shadow.used[lanes] = False
        return np.int32(0)

    return run


def _commit(code: Any, e: E.Call) -> Fn:
    def run(st: State) -> Any:
        _closed(st)[_whole_groups(st, "ptx_wgmma_commit_group")] += 1
        return np.int32(0)

    return run


def _wait(code: Any, e: E.Call) -> Fn:
    """(groups that may be under way [, accumulator, registers of it, what is there before])"""
    most = code.value(e.args[0])
    before = [code.value(x) for x in e.args[3:]]

    def run(st: State) -> Any:
        for value in before:
            value(st)
        here = np.zeros(st.lanes // GROUP, np.bool_)
        here[_whole_groups(st, "ptx_wgmma_wait_group")] = True
        limit = _closed(st) - int(np.max(most(st)))
        left = []
        for p, types, columns in st.products:
            done = here[p.groups] & (p.number < limit[p.groups])
            if done.any():
                _finish(st, p.of(done), types, columns)
            if not done.all():
                left.append((p.of(~done), types, columns))
        st.products = left
        for m in st.memory.values():
            if isinstance(m.shadow, FragmentShadow):
                m.shadow.flying[:] = False
        for p, _, _ in left:
            for own in p.registers:
                own.memory.shadow.flying[own.at] = True
        return np.int32(0)

    return run


def _finish(st: State, p: _Product, types: tuple[str, str], columns: int) -> None:
    """Do a product, of operands and sums of these types, that its warp groups have waited for."""
    row, column = sum_places(columns)
    memory, sums = p.sums.memory, p.sums.at
    view = memory.view(types[1])
    total = np.zeros((len(p.groups), _ROWS, columns), view.dtype)
    total[:, row, column] = view[sums]
    total[~p.add] = 0
    x, y = (operand.values(types[0]) for operand in (p.a, p.b))
    total = multiply(x, np.swapaxes(y, 1, 2), total, types[1])
    view[sums] = total[:, row, column]
    memory.shadow.written[sums] = True
    for tile in p.tiles:
        tile.memory.shadow.hold(tile.units, -1)
    _note_reads(st, p)


def _note_reads(st: State, p: _Product) -> None:
    """A line of A is read by the warp that has it, B by all warps of a group."""
    first, a, b = p.groups * GROUP, p.a, p.b
    shadow: RaceShadow
    if isinstance(a, _Tile):
        who = (first[:, None] + _READERS)[:, :, None]
        shadow = a.memory.shadow
        shadow.note_read(st, a.units, np.broadcast_to(who, a.units.shape))
    in_block = p.groups % (st.geometry.threads // GROUP)
    shadow = b.memory.shadow
    for group in np.unique(in_block):
        of = in_block == group
        last = (first[of] + GROUP - 1)[:, None, None]
        shadow.note_product(int(group), b.units[of], st.access(last))


Code.calls.update(
    {
        "tir.ptx_wgmma_descriptor": _descriptor,
        "tir.ptx_wgmma_fence": _fence,
        WGMMA: _wgmma,
        WGMMA_RS: _wgmma,
        "tir.ptx_wgmma_commit_group": _commit,
        "tir.ptx_wgmma_wait_group": _wait,
    }
)
