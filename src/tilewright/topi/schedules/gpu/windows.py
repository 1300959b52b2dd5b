"""Convolutions as products of filters and windows.

Channels become neighbours, by a kernel of its own where they are not, so that what a window reads
of one line of the data are neighbours too: its taps in that line times the channels. No matrix of
windows is ever in memory. The reduction of the product runs over such runs, each filled up to whole
tiles; groups are a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ....arith import Analyzer, detect_linear_equation
from ....base.dtype import parse
from ....loopir.construct import cast
from ....loopir.expr import const_int, is_const
from ....loopir.iter import ProducerLoad
from ....loopir.op import all as all_of
from ....loopir.op import if_then_else
from ....loopir.visit import free_vars
from ....schedule.api import Schedule
from ....tensor.axes import reduce_axis
from ....tensor.compute import compute
from ....tensor.op import ComputeOp
from ....tensor.reduce import sum as reduce_sum
from ....tensor.tensor import Tensor
from ...tensor_intrin.mma import depth
from ..contraction import factors_of
from ..machine import extent_of, extents_of
from ..restated import restated
from .injective import arrange
from .machine import GpuMachine
from .operands import pitch_of
from .packing import arrange_packed, part_of
from .planes import unpadded
from .tile_plan import UNCUT, Reduction, Steps, TilePlan

Pair = tuple[int, int]
_LAST, _FIRST = (0, 3, 1, 2), (0, 1, 2, 3)  # orders of data: NHWC and NCHW


@dataclass(frozen=True)
class Windows:
    """What a convolution of images reads: data (padded) and filters, and which of their dimensions
    are (image, channel, line, pixel) and (filter, channel, line, pixel); of lines and pixels, taps,
    strides and distances between taps. `last`: whether filters are the last dimension of the
    result, behind lines and pixels, or stand before those. `parts`: more than one where groups have
    all filters, each for another part of the channels.

    Without lines it is one of rows, each an image of one line. In front of the lines there may be
    `planes`: their taps, stride, distance and how many there are of results. Those of a result are
    an image of its own, whose channels are those of all its taps."""

    data: Tensor
    filters: Tensor
    order: tuple[int, ...]
    of: tuple[int, ...]
    taps: Pair
    strides: Pair
    dilation: Pair
    groups: int
    last: bool
    parts: int = 1
    planes: tuple[int, int, int, int] | None = None

    def pixel(self, *at: Any, source: Tensor | None = None) -> Any:
        """An element of the data, or of what that is made of, by (image, channel, line, pixel)."""
        place = self._within(at)
        if self.planes is not None:
            deep, stride, far, results = self.planes
            place[0] = at[0] // results
            place[2:2] = [at[0] % results * stride + at[1] % deep * far]
        read = self.data if source is None else source
        return read(*(place[self.order.index(d)] for d in range(len(place))))

    def _within(self, at: Sequence[Any]) -> list[Any]:
        """Indices of what there is: lines, and channels."""
        n, c, y, x = at
        if self.planes is not None:
            c = c // self.planes[0]
        return [n, c, x] if len(self.order) == 3 else [n, c, y, x]

    def weight(self, *at: Any) -> Any:
        """An element of the filters, by (filter, channel, line, pixel)."""
        if self.parts > 1:
            f, c, *tap = at
            many = const_int(self.filters.shape[self.of[0]]) or 1
            at = (f % many, f // many * self.channels + c, *tap)
        place = self._within(at)
        if self.planes is not None:
            place[2:2] = [at[1] % self.planes[0]]
        return self.filters(*(place[self.of.index(d)] for d in range(len(place))))

    @property
    def deep(self) -> int:
        """Taps in planes that lie behind each other."""
        return self.planes[0] if self.planes else 1

    @property
    def moves(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Taps, strides and distances of taps, of planes, lines and pixels."""
        first = self.planes or (1, 1, 1)
        each = zip(first, (self.taps, self.strides, self.dilation))
        taps, strides, dilation = ((n, *pair) for n, pair in each)
        return taps, strides, dilation

    @property
    def channels(self) -> int:
        """Those of a group."""
        own = const_int(self.filters.shape[self.of[1]]) or 0
        return own * self.deep // self.parts

    def of_few_filters(self, less: int) -> bool:
        """Whether NCHW data has fewer filters than so many, which read all channels."""
        filters = const_int(self.filters.shape[self.of[0]]) or 0
        return self.order == _FIRST and not self.last and self.groups == 1 and filters < less

    @property
    def lines(self) -> Pair:
        """Lines and pixels of the padded data."""
        y, x = self.lines_of(self.data)
        return y, x

    def lines_of(self, t: Tensor) -> Pair:
        """Lines and pixels of a tensor that lies as the data does."""
        *_, y, x = (1, *(const_int(t.shape[d]) or 0 for d in self.order[2:]))
        return y, x


def windows_of(op: Any) -> Windows | None:
    """How a convolution's windows move, where it is one of rows, images or volumes of constant
    sizes whose result has pixels next to each other, lines outside of them; how many images or
    rows there are need not be known."""
    loads = factors_of(op, True)
    if loads is None or not 3 <= len(op.axis) <= 5 or len(op.reduce_axis) != len(op.axis) - 1:
        return None
    sizes = [[const_int(d) for d in t.shape] for t in (*(e.producer for e in loads), op.output(0))]
    # the first dimension of data and results may be open
    if any(0 in x or None in x[1:] or len(x) != len(op.axis) for x in sizes):
        return None
    for data, filters in (loads, loads[::-1]):
        found = _moved(op, data, filters)
        if found is not None and (None not in (x[0] for x in sizes) or _may_be_open(found)):
            return found
    return None


def _may_be_open(w: Windows) -> bool:
    """Whether the first dimension of data counts images, and that of filters does not."""
    return const_int(w.filters.shape[0]) is not None and w.order[0] == 0 and w.planes is None


def _moved(op: Any, data: ProducerLoad, filters: ProducerLoad) -> Windows | None:
    axes, taps = [a.var for a in op.axis], [a.var for a in op.reduce_axis]
    own = [i for i in filters.indices if any(i is a for a in axes)]
    steps = [i for i in filters.indices if any(i is t for t in taps)]
    if len(own) != 1 or len({id(x) for x in steps}) != len(taps):
        return None
    (f,) = own
    images: list[int] = []
    channel: list[int] = []
    places: list[tuple[int, tuple[Any, Any, int, int]]] = []
    for d, index in enumerate(data.indices):
        used = free_vars(index)
        along = [v for v in used if any(v is a for a in axes) and v is not f]
        if not along:
            channel.append(d)
        elif len(along) == 1 and index is along[0]:
            images.append(d)
        else:
            pace = _pace(index, along, [v for v in used if v not in along])
            if pace is None:
                return None
            places.append((d, pace))
    if len(images) != 1 or len(channel) != 1:
        return None
    order = [data.indices[images[0]], *(p[0] for _, p in places)]
    place = {id(v): n for n, v in enumerate(axes)}
    at, rank = [place[id(v)] for v in (order[0], f, *order[1:])], len(places)
    if at not in ([*range(rank + 2)], [0, rank + 1, *range(1, rank + 1)]):
        return None
    moved = [p[1] for _, p in places]
    (rc,) = (s for s in steps if all(s is not t for t in moved))
    of = [next(n for n, i in enumerate(filters.indices) if i is v) for v in (f, rc, *moved)]
    taken = {id(a.var): extent_of(a) for a in op.reduce_axis}
    groups = _groups(data, channel[0], filters, (f, rc), (of[0], of[1]))
    if not groups:
        return None
    # of rows, those of one line
    *deep, y, x = ((1, 1, 1), *((taken[id(p[1])], p[2], p[3]) for _, p in places))[-max(rank, 2) :]
    return Windows(
        data.producer, filters.producer, (images[0], channel[0], *(d for d, _ in places)),
        tuple(of), (y[0], x[0]), (y[1], x[1]), (y[2], x[2]), groups, at[1] == rank + 1,
        planes=(*deep[0], extent_of(op.axis[at[2]])) if deep else None,
    )  # fmt: skip


def _pace(index: Any, along: list[Any], taps: list[Any]) -> tuple[Any, Any, int, int] | None:
    """The axis and the tap that an index is made of, and how far it goes with each."""
    if len(along) != 1 or len(taps) != 1:
        return None
    found = [const_int(x) for x in detect_linear_equation(index, [along[0], taps[0]])]
    if len(found) != 3 or None in found or found[2] != 0:
        return None
    return along[0], taps[0], found[0] or 0, found[1] or 0


def _groups(data: ProducerLoad, at: int, filters: ProducerLoad, v: Any, of: Pair) -> int:
    """How many groups there are of channels (index `at` of the data), of which each filter reads
    one; 0 where it reads others. `v`: filter and channel, which are dimensions `of` of filters."""
    f, rc = v
    index = data.indices[at]
    many, each = (const_int(filters.producer.shape[d]) or 1 for d in of)
    groups = (const_int(data.producer.shape[at]) or 0) // each
    if index is rc:
        return 1 if groups == 1 else 0
    if not groups or many % groups:
        return 0
    off = Analyzer().simplify(index - (f // (many // groups) * each + rc))
    return groups if const_int(off) == 0 else 0


class ConvolutionProduct:
    """The convolution's sums as a product (image and group, filter, place), or (.., place, filter)
    where filters are last, of filters and windows, which are no stage of their own, filled up to
    the shape of a plan. `on_cores`: whether tensor cores make it; `sides`: filters of a group, and
    places."""

    def __init__(
        self,
        op: Any,
        w: Windows,
        machine: GpuMachine,
        on_cores: bool,
        reduction: Reduction = UNCUT,
        plan: TilePlan | None = None,
    ) -> None:
        self.op, self.w, self.machine = op, w, machine
        self.on_cores, self.reduction = on_cores, reduction
        first, *others = op.axis
        shape = [extent_of(a) for a in others]
        if w.parts > 1:
            del shape[0]
        filters = shape.pop(-1 if w.last else 0)
        *planes, self.height, self.width = shape if len(shape) > 1 else (1, *shape)
        # a variable where it is not known how many there are
        self.batch: Any = extents_of(op)[0] * prod(planes)
        self.filters = filters * w.parts // w.groups
        self.kind, sums = w.data.dtype, op.output_dtype(0)
        rows, columns = self.sides[::-1] if w.last else self.sides
        count = self.count = max(extent_of(first), 1) * prod(planes) * w.groups
        self.plan = plan or (
            TilePlan.chosen(op.name, rows, columns, sums, True, count, machine, reduction)
            if on_cores
            else TilePlan.of(rows, columns, sums, True, count, machine.filling)
        )
        if not on_cores:
            self.plan = TilePlan(self.plan.block, self.plan.columns, (rows, columns))
        lanes = machine.lanes(self.kind)
        self.deep = -(-w.channels // lanes) * lanes
        fragment = depth(self.kind) if on_cores else 1
        if prod(w.taps) * self.deep < fragment:
            self.deep = fragment
        # whether the taps of a line are one run
        self.is_joined = w.dilation[1] == 1 or w.taps[1] == 1
        across = w.taps[1] if self.is_joined else 1
        self.run = across * self.deep
        self.runs = prod(w.taps) // across
        # whether data has nothing beside it, neither padding nor other channels
        plain = w.groups == w.parts and not w.data.op.tag.endswith("pad")
        self.is_whole = plain and self.deep == w.channels and w.order in (_LAST, _FIRST)
        self.is_turned = self.is_whole and w.order == _FIRST
        # pixels from line to line of a copy of the data, its first pixel, and what of that is more
        # than padding
        self.pitch, self.source, self.before = w.lines[1], w.data, (0, 0)
        self.more = 0
        if w.order == _FIRST and not self.is_turned:
            self._begin_in_vectors(lanes)
        self.cut: Steps | None = None
        self.length = self.run
        if on_cores and self.runs * across > 1:
            self.cut = Steps.of(
                self.run, self.runs, fragment, self.plan, (self.kind, sums), self._bytes, machine
            )
            self.length = self.cut.tiles * self.cut.deep

    def _begin_in_vectors(self, lanes: int) -> None:
        """Have lines of a copy begin where vectors of the data do, where its lines have whole ones,
        so that it is read in those. What is beyond a line's end is the padding of the next."""
        data, before, filler = unpadded(self.w.data)
        width = const_int(data.shape[-1]) or 1
        if width % lanes or not is_const(filler, 0):
            return
        beyond = self.w.lines[1] - width
        front = -(-beyond // lanes) * lanes
        self.source, self.before = data, (before[0], front)
        self.pitch, self.more = front + width, front - before[1]

    @property
    def sides(self) -> Pair:
        return self.filters, self.height * self.width

    def _bytes(self, deep: int) -> int:
        return pitch_of(deep * parse(self.kind).nbytes) * sum(self.plan.block)

    def restate(self, s: Schedule, conv: Tensor) -> Tensor:
        """Let the convolution read the product; returns that."""
        image, weights = self._image(), self.machine.ahead(self._weights())
        windows = self._windows(image)
        w, sums = self.w, self.op.output_dtype(0)
        groups, share, width = w.groups, self.filters, self.width
        k = reduce_axis((0, self.runs * self.length), "k")

        def element(b: Any, i: Any, j: Any) -> Any:
            f, p = (j, i) if w.last else (i, j)
            taken = weights(0 if groups == 1 else b % groups, f, k)
            read = windows(b, p, k)
            first, second = (read, taken) if w.last else (taken, read)
            return reduce_sum(cast(sums, first) * cast(sums, second), axis=k)

        shape = (self.batch * groups, *self.plan.shape)
        product: Tensor = compute(shape, element, f"{self.op.name}.product")
        sides = self.sides[::-1] if w.last else self.sides

        def again(*i: Any) -> Any:
            b, *place = i
            part = place.pop(0) if w.parts > 1 else 0
            f = place.pop(-1 if w.last else 0)
            *planes, y, x = place if len(place) > 1 else (0, *place)
            if w.planes is not None:
                b = b * w.planes[-1] + planes[0]
            p = y * width + x
            if groups > 1:
                group, f = (part, f) if w.parts > 1 else (f // share, f % share)
                b = b * groups + group
            return part_of(product, (b, p, f) if w.last else (b, f, p), sides)

        restated(s, conv, compute(extents_of(self.op), again, self.op.name))
        if isinstance(weights.op, ComputeOp):
            arrange_packed(s[weights], w.of[0] != 3, self.machine)  # neighbours may be filters
        if image is not w.data and self.is_turned:
            arrange(s[image], list(s[image].op.axis), self.machine)
        elif image is not w.data:
            arrange_packed(s[image], w.order[1] == 3, self.machine, self.pitch)
        s[windows].compute_inline()
        return s[product].op.output(0)

    def _image(self) -> Tensor:
        """Data (image and group, line, pixel, channel): the convolution's own, where it lies so,
        and every pixel where vectors do."""
        w, deep = self.w, self.deep
        if self.is_whole and w.order == _LAST:
            return w.data
        lines, line = w.lines
        name = f"{w.data.op.name}.packed"
        if self.is_turned:
            turned: Tensor = compute(
                (self.batch, lines, line, deep * w.parts),
                lambda n, y, x, c: w.pixel(n, c, y, x),
                name,
            )
            return turned

        source, (top, front), pitch = self.source, self.before, self.pitch

        def element(b: Any, p: Any, c: Any) -> Any:
            n, c_of = (b, c) if w.groups == 1 else (b // w.groups, b % w.groups * w.channels + c)
            at = (n, c_of, p // pitch - top, p % pitch - front)
            value, high = w.pixel(*at, source=source), w.lines_of(source)[0]
            inside = [c < w.channels] if w.channels < deep else []
            inside += [at[3] >= 0] if front else []
            if top or high < shape[1] // pitch:
                inside += [at[2] >= 0, at[2] < high]
            return if_then_else(all_of(*inside), value, cast(value.dtype, 0)) if inside else value

        # the last line's padding is beyond all lines
        shape = (self.batch * w.groups, (lines + (front > 0)) * pitch, deep)
        image: Tensor = compute(shape, element, name)
        return image

    def _weights(self) -> Tensor:
        """Filters (group, filter, reduction), zeros behind the channels and behind each run."""
        w, deep, length = self.w, self.deep, self.length
        high = self.plan.whole(1 if w.last else 0)
        across = w.taps[1]

        def element(g: Any, f: Any, k: Any) -> Any:
            tap, at = k // length, k % length
            y, x = (tap, at // deep) if self.is_joined else (tap // across, tap % across)
            value = w.weight(f if w.groups == 1 else g * self.filters + f, at % deep, y, x)
            inside = ((at, self.run, length), (at % deep, w.channels, deep))
            return or_zero(value, *inside, (f, self.filters, high))

        shape = (w.groups, high, self.runs * length)
        weights: Tensor = compute(shape, element, f"{w.filters.op.name}.packed")
        return weights

    def _windows(self, image: Tensor) -> Tensor:
        """Windows (image and group, place, reduction)."""
        w, deep, length = self.w, self.deep, self.length
        (down, right), (far_y, far_x), across = w.strides, w.dilation, w.taps[1]
        line = self.pitch
        places = self.plan.shape[0 if w.last else 1]

        def element(b: Any, p: Any, k: Any) -> Any:
            run, at = k // length, k % length
            y, x = p // self.width * down, p % self.width * right
            if self.is_joined:
                y = y + run * far_y
            else:
                y, x = y + run // across * far_y, x + run % across * far_x
            x, c = x + at // deep + self.more, at % deep
            if not self.is_whole:
                value = image(b, y * line + x, c)
            elif w.parts == 1:
                value = image(b, y, x, c)
            else:
                value = image(b // w.parts, y, x, b % w.parts * deep + c)
            inside = ((p, self.height * self.width, places), (at, self.run, length))
            return or_zero(value, *inside)

        shape = (self.batch * w.groups, places, self.runs * length)
        windows: Tensor = compute(shape, element, "windows")
        return windows


def or_zero(value: Any, *places: tuple[Any, int, int]) -> Any:
    """A value where each index, of so many, is inside."""
    inside = [i < own for i, own, size in places if own < size]
    return if_then_else(all_of(*inside), value, cast(value.dtype, 0)) if inside else value
