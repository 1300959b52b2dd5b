"""Windows that slide over planes, one channel each: depthwise convolution and pooling of NCHW data.

A thread makes a vector of neighbours in some rows, so that rows of the result are stored in
vectors, and has all that its windows read in registers, in whole vectors: what is padded begins
where a vector of data does, which the padding around an image seldom is as wide as. Where windows
of neighbours overlap, a block has its planes in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from ....arith import detect_linear_equation
from ....base.dtype import parse
from ....loopir.construct import cast
from ....loopir.expr import Call, const_int
from ....loopir.iter import ProducerLoad, Reduce
from ....loopir.op import all as all_of
from ....loopir.op import if_then_else
from ....loopir.subst import substitute
from ....loopir.visit import free_vars, walk
from ....schedule.api import Schedule, Stage
from ....tensor.axes import reduce_axis, thread_axis
from ....tensor.compute import compute
from ....tensor.op import ComputeOp
from ....tensor.tensor import Tensor
from ..machine import extent_of, largest_divisor, whole_vectors
from ..restated import Replaced, restated
from .banks import turns
from .machine import GpuMachine, bind_grid, fused
from .operands import share

RESULTS = 16  # of a thread
LINE = 4  # threads along a line, below which lines of elements are not shared out by themselves
FAR = 2  # pixels from window to window, beyond which few elements are read twice
MOST_DEEP = 64  # threads along z that devices take
FREE = 1.02  # turns an access: what is left of banks where few threads meet
PHASE = 8  # threads whose vectors are read from shared memory at once


@dataclass(frozen=True)
class _Planes:
    """What windows read: `data` (n, c, y, x), with `before` elements of `filler` in front of its
    rows and lines; in both dimensions the `strides`, and how far a window `reaches`."""

    load: ProducerLoad
    data: Tensor
    before: tuple[int, int]
    filler: Any
    strides: tuple[int, int]
    reaches: tuple[int, int]

    @property
    def overlap(self) -> bool:
        """Whether neighbouring windows read the same elements."""
        return any(far >= stride for far, stride in zip(self.reaches, self.strides))

    @staticmethod
    def of(op: Any) -> _Planes | None:
        """Of a reduction over windows of constant sizes, where it is one."""
        body = op.body[0]
        sizes = [const_int(d) for d in op.output(0).shape]
        if len(sizes) != 4 or not all(sizes) or type(body) is not Reduce or body.init:
            return None
        if len(op.reduce_axis) != 2 or len(op.body) != 1:
            return None
        places, taps = [a.var for a in op.axis[2:]], [a.var for a in op.reduce_axis]
        loads = [e for e in walk(body.source[0]) if type(e) is ProducerLoad]
        moved = [e for e in loads if any(v in places for i in e.indices for v in free_vars(i))]
        if len(moved) != 1 or len(moved[0].indices) != 4:
            return None
        (load,) = moved
        changed = {*places, *taps}
        if any(v in changed for i in load.indices[:2] for v in free_vars(i)):
            return None
        strides, reaches = [], []
        for index, place, tap, axis in zip(load.indices[2:], places, taps, op.reduce_axis):
            found = [const_int(x) for x in detect_linear_equation(index, [place, tap])]
            if len(found) != 3 or None in found or found[2] != 0:
                return None
            stride, far = found[0] or 0, found[1] or 0
            if stride < 1 or far < 0 or _others(index, place, tap):
                return None
            strides.append(stride)
            reaches.append(far * (extent_of(axis) - 1))
        data, before, filler = unpadded(load.producer)
        if not all(const_int(d) for d in data.shape):
            return None
        return _Planes(
            load, data, before, filler, (strides[0], strides[1]), (reaches[0], reaches[1])
        )


def _others(e: Any, *known: Any) -> list[Any]:
    """The variables of an expression that are none of those."""
    return [v for v in free_vars(e) if not any(v is x for x in known)]


def unpadded(t: Tensor) -> tuple[Tensor, tuple[int, int], Any]:
    """What a tensor is made of by padding lines and rows, how wide in front, and with what."""
    found = padding_of(t)
    if found is None or len(found[1]) != 4 or found[1][:2] != (0, 0):
        return (t, (0, 0), cast(t.dtype, 0))
    source, before, filler = found
    if [const_int(d) for d in t.shape[:2]] != [const_int(d) for d in source.shape[:2]]:
        return (t, (0, 0), cast(t.dtype, 0))
    return source, (before[2], before[3]), filler


def padding_of(t: Tensor) -> tuple[Tensor, tuple[int, ...], Any] | None:
    """What a tensor is made of by padding, how wide in front of each dimension, and with what."""
    if not isinstance(t.op, ComputeOp) or not t.op.tag.endswith("pad"):
        return None
    body, axes = t.op.body[0], [a.var for a in t.op.axis]
    if type(body) is not Call or body.op.name != "tir.if_then_else":
        return None
    _, load, filler = body.args
    if type(load) is not ProducerLoad or len(load.indices) != len(axes) or free_vars(filler):
        return None
    before = []
    for index, axis in zip(load.indices, axes):
        found = [const_int(x) for x in detect_linear_equation(index, [axis])]
        if len(found) != 2 or found[0] != 1 or found[1] is None or found[1] > 0:
            return None
        before.append(-found[1])
    return load.producer, tuple(before), filler


@dataclass(frozen=True)
class _Block:
    """How a block shares out what it makes: `across` threads of `lanes` neighbours along a line,
    `down` of `rows` lines, in `deep` channels; `pitch`: elements from line to line of what it reads
    in shared memory, 0 where it has none; `pad`: elements between planes there."""

    lanes: int
    rows: int
    across: int
    down: int
    deep: int
    pitch: int = 0
    pad: int = 0

    @staticmethod
    def of(op: Any, p: _Planes, machine: GpuMachine) -> _Block:
        """What several threads of a line read is shared, where windows overlap."""
        _, c, high, wide = (extent_of(a) for a in op.axis)
        lanes, vector = machine.lanes(op.output_dtype(0)), _vector(p, machine)
        across = -(-wide // lanes)
        shared = across > 1 and p.strides[1] <= FAR and p.overlap
        most = max(1, RESULTS // lanes)
        if not shared:
            rows = most if vector * p.strides[1] >= lanes else 1
            return _Block._of_threads(lanes, rows, min(across, machine.threads), high, c, machine)
        across = min(_rounded(across, machine), machine.threads)
        more = max(most, across // p.strides[0]) if across < PHASE else most
        best: tuple[float, _Block] | None = None
        for rows in sorted(range(1, more + 1), key=lambda n: (abs(n - most), n)):
            block = _Block._of_threads(lanes, rows, across, high, c, machine)
            for laid in block._in_shared(p, vector, c, machine):
                taken = laid._turns(p, vector, machine)
                if best is None or taken < best[0]:
                    best = (taken, laid)
                if taken <= FREE:
                    return laid
        assert best is not None
        return best[1]

    @staticmethod
    def _of_threads(
        lanes: int, rows: int, across: int, high: int, c: int, machine: GpuMachine
    ) -> _Block:
        down = max(1, min(-(-high // rows), machine.threads // across))
        deep = _deep(c, machine.threads // (across * down), across * down, machine)
        return _Block(lanes, rows, across, down, deep)

    def _in_shared(self, p: _Planes, vector: int, c: int, machine: GpuMachine) -> Iterator[_Block]:
        """The same with each way to lay out what is read."""
        line = self._line(p, vector) // self.lanes
        for pitch in range(line, line + PHASE):
            block = replace(self, pitch=pitch * self.lanes)
            while block.nbytes(p) > machine.shared_bytes // 3 and block.down * block.deep > 1:
                deep = largest_divisor(c, max(1, block.deep // 2))
                block = (
                    replace(block, deep=deep)
                    if deep < block.deep
                    else replace(block, down=block.down // 2)
                )
            for pad in range(PHASE if block.deep > 1 else 1):
                yield replace(block, pad=pad * self.lanes)

    def _line(self, p: _Planes, vector: int) -> int:
        """Elements of a line in shared memory, of one kind."""
        line = (self.across - 1) * self.lanes * p.strides[1] + _near(p, vector, self.lanes)
        return -(-line // self.lanes // p.strides[1]) * self.lanes

    def by_lines(self, vector: int) -> bool:
        """Whether threads share lines out among them, not vectors one behind the other."""
        return vector == 1 and self.across >= LINE

    def plane(self, p: _Planes) -> int:
        """Elements from channel to channel in shared memory."""
        return p.strides[1] * self.lines(p, 1) * self.pitch + self.pad

    def _turns(self, p: _Planes, vector: int, machine: GpuMachine) -> float:
        """Turns that shared memory takes for what a thread copies and reads."""
        nbytes, plane = parse(p.data.dtype).nbytes, self.plane(p)
        read = min(self.lanes, machine.lanes(p.data.dtype))
        threads = list(product(range(self.deep), range(self.down), range(self.across)))
        down = self.rows * p.strides[0] * self.pitch
        loads = [(z * plane + y * down + x * self.lanes) * nbytes for z, y, x in threads]
        line = self._line(p, vector)
        lines = p.strides[1] * self.lines(p, 1)
        if self.by_lines(vector):
            stores = [(z * plane + y * self.pitch + x) * nbytes for z, y, x in threads]
        else:
            each = max(1, line // vector)
            stores = [
                (n // (each * lines) * plane + n // each % lines * self.pitch + n % each * vector)
                * nbytes
                for n in range(min(4 * len(threads), self.deep * lines * each))
            ]
        reads = (self.rows - 1) * p.strides[0] + p.reaches[0] + 1
        reads *= _near(p, vector, self.lanes) // read
        copies = self.deep * lines * line / vector / len(threads)
        taken = reads * turns(loads, read * nbytes) + copies * turns(stores, vector * nbytes)
        return round(taken / (reads + copies), 2)

    def line(self, p: _Planes, columns: int, vector: int) -> int:
        """Elements of the padded lines that threads of so many results read."""
        each = self.across * self.lanes
        first = (-(-columns // each) * each - self.lanes) * p.strides[1]
        return first + _near(p, vector, self.lanes)

    def lines(self, p: _Planes, rows: int) -> int:
        """Padded lines of so many rows of results."""
        whole = -(-rows // (self.rows * self.down)) * self.rows * self.down
        return (whole - 1) * p.strides[0] + p.reaches[0] + 1

    def nbytes(self, p: _Planes) -> int:
        """Bytes of shared memory."""
        return self.deep * self.plane(p) * parse(p.data.dtype).nbytes


def _near(p: _Planes, vector: int, lanes: int) -> int:
    """Elements of whole vectors that windows of `lanes` results reach over, of data that is padded
    so that its vectors of another number of elements are whole."""
    reach = -p.before[1] % vector + (lanes - 1) * p.strides[1] + p.reaches[1] + 1
    return -(-reach // lanes) * lanes


def _rounded(across: int, machine: GpuMachine) -> int:
    """Threads along a line: as many as read at once, or their multiples or parts."""
    if across < PHASE:
        return 1 << (across - 1).bit_length()
    return min(-(-across // PHASE) * PHASE, machine.threads)


def _deep(channels: int, most: int, threads: int, machine: GpuMachine) -> int:
    """Channels of a block: so many that all have them whole, unless they are too few."""
    most = min(most, MOST_DEEP)
    even = largest_divisor(channels, max(1, most))
    if even * threads >= 2 * machine.warp or even == channels:
        return even
    return 1 << (max(1, most).bit_length() - 1)


def schedule_planes(s: Schedule, windows: Tensor, out: Tensor, machine: GpuMachine) -> bool:
    """Schedule a reduction over windows and the element-wise stage that ends its group, where it is
    one over planes of constant sizes."""
    planes = _Planes.of(s[windows].op) if machine.shared else None
    if planes is None:
        return False
    last = windows.op is out.op
    block = _Block.of(s[windows].op, planes, machine)
    tile, others = _read_from_padded(s, windows, planes, block, machine)
    windows = s[windows].op.output(0)
    if last:
        out = windows
        windows = s.cache_write(out, "local")
    else:
        out = s[out].op.output(0)
        s[windows].set_scope("local")
    at, thread = _bind_output(s, out, block, machine)
    stage = s[windows]
    stage.compute_at(s[out], thread)
    *outer, y, x = stage.op.axis
    stage.reorder(*outer, *stage.op.reduce_axis, y, x)
    for axis in (*stage.op.reduce_axis, y, x):
        machine.unroll(stage, axis)
    near = tile
    if block.pitch:
        near = s.cache_read(tile, "local", [windows.op])
        threads = (block.deep, block.down, block.across)
        s[tile].set_scope("shared")
        s[tile].compute_at(s[out], at)
        s[tile].storage_align(s[tile].op.axis[-2], block.pitch, 0)
        if block.deep > 1:
            s[tile].storage_align(s[tile].op.axis[1], block.plane(planes), 0)
        vector = _vector(planes, machine)
        if block.by_lines(vector):
            _share_lines(s[tile], threads)
        else:
            share(s[tile], vector, threads, machine)
        for t in others:
            copy = s.cache_read(t, "shared", [windows.op])
            s[copy].compute_at(s[out], at)
            share(s[copy], 1, threads, machine)
    else:
        s[tile].set_scope("local")
    _in_registers(s, near, out, thread, block, machine)
    return True


def _share_lines(stage: Stage, threads: tuple[int, int, int]) -> None:
    """Share elements of lines out among the threads along them, lines among those down, channels
    among the others: no thread then has to divide by the length of a line."""
    _, c, *kinds, y, x = stage.op.axis
    for axis, extent, tag in zip((c, y, x), threads, "zyx"):
        rest, thread = stage.split(axis, factor=extent)
        stage.bind(thread, thread_axis((0, extent), f"threadIdx.{tag}"))
        stage.unroll(rest)
    for axis in kinds:
        stage.unroll(axis)


def _in_registers(
    s: Schedule, near: Tensor, out: Tensor, thread: Any, block: _Block, machine: GpuMachine
) -> None:
    """What a thread reads, in vectors."""
    stage = s[near]
    stage.compute_at(s[out], thread)
    _, _, *others, x = stage.op.axis
    for axis in others:
        machine.unroll(stage, axis)
    lanes = whole_vectors(extent_of(x), min(block.lanes, machine.lanes(near.dtype)))
    if lanes > 1:
        x, vector = stage.split(x, factor=lanes)
        stage.vectorize(vector)
    machine.unroll(stage, x)


def _vector(p: _Planes, machine: GpuMachine) -> int:
    """Elements of the widest load of lines of data."""
    return whole_vectors(const_int(p.data.shape[-1]) or 0, machine.lanes(p.data.dtype))


def _read_from_padded(
    s: Schedule, windows: Tensor, p: _Planes, block: _Block, machine: GpuMachine
) -> tuple[Tensor, list[Tensor]]:
    """Let windows read data that is padded so that its vectors are those of the padded one; what
    else they read."""
    op = s[windows].op
    n, c, high, wide = (const_int(d) or 0 for d in p.data.shape)
    vector = _vector(p, machine)
    more = -p.before[1] % vector
    down, right = p.before[0], p.before[1] + more
    rows = block.lines(p, extent_of(op.axis[2]))
    line = block.line(p, extent_of(op.axis[3]), vector)
    kinds = p.strides[1] if block.pitch else 1

    def element(n: Any, c: Any, *place: Any) -> Any:
        y, x = _from_kinds(place, kinds, block.lanes)
        inside = [place >= edge for place, edge in ((y, down), (x, right)) if edge]
        inside += [y < high + down] if rows > high + down else []
        inside += [x < wide + right] if line > wide + right else []
        value = p.data(n, c, y - down if down else y, x - right if right else x)
        return if_then_else(all_of(*inside), value, p.filler) if inside else value

    each = -(-line // (kinds * block.lanes)) * block.lanes
    shape = (n, c, kinds, rows, each) if kinds > 1 else (n, c, rows, line)
    padded = compute(shape, element, f"{p.data.op.name}.planes")
    *outer, y, x = p.load.indices
    place = _by_kinds(y, x + more if more else x, kinds, block.lanes)
    new = ProducerLoad(padded, [*outer, *place])
    body = op.body[0]
    source = Replaced({id(p.load): new}).expr(body.source[0])
    taps = [reduce_axis((0, extent_of(k)), k.var.name) for k in op.reduce_axis]
    table = {k.var: tap.var for k, tap in zip(op.reduce_axis, taps)}

    def again(*i: Any) -> Any:
        value = substitute(source, {**table, **dict(zip((a.var for a in op.axis), i))})
        return Reduce(body.combiner, [value], taps, body.condition, body.value_index)

    restated(s, windows, compute(op.output(0).shape, again, op.name))
    if p.load.producer is not p.data:
        s[p.load.producer].compute_inline()
    loads = [e for e in walk(source) if type(e) is ProducerLoad and e is not new]
    return padded, list(dict.fromkeys(e.producer for e in loads))


def _by_kinds(y: Any, x: Any, kinds: int, lanes: int) -> tuple[Any, ...]:
    """Where an element of a line lies, whose vectors are of so many kinds: of each one windows of
    neighbours, which begin as many vectors apart, read neighbouring vectors at once."""
    if kinds == 1:
        return y, x
    return x // lanes % kinds, y, x // (lanes * kinds) * lanes + x % lanes


def _from_kinds(place: tuple[Any, ...], kinds: int, lanes: int) -> tuple[Any, Any]:
    """The line, and the element of it, that lies at a place of `_by_kinds`."""
    if kinds == 1:
        return place[0], place[1]
    kind, y, at = place
    return y, (at // lanes * kinds + kind) * lanes + at % lanes


def _bind_output(s: Schedule, out: Tensor, block: _Block, machine: GpuMachine) -> tuple[Any, Any]:
    """The loops of the output: those of a block, and of a thread."""
    stage = s[out]
    n, c, y, x = stage.op.axis
    y, row = stage.split(y, factor=block.rows)
    by, ty = stage.split(y, factor=block.down)
    x, vector = stage.split(x, factor=block.lanes)
    bx, tx = stage.split(x, factor=block.across)
    bc, tc = stage.split(c, factor=block.deep)
    stage.reorder(n, bc, by, bx, tc, ty, tx, row, vector)
    outer = fused(stage, [n, bc])
    at = bind_grid(stage, [outer, fused(stage, [by, bx])])
    for axis, tag, extent in (
        (tc, "z", block.deep),
        (ty, "y", block.down),
        (tx, "x", block.across),
    ):
        stage.bind(axis, thread_axis((0, extent), f"threadIdx.{tag}"))
    machine.unroll(stage, row)
    if extent_of(stage.op.axis[-1]) % block.lanes == 0 and block.lanes > 1:
        stage.vectorize(vector)
    else:
        machine.unroll(stage, vector)
    return at, tx
