"""RoiAlign: regions that the data names, sampled between the elements.

A point's value is a sum over the two rows and the two columns next to it, whose shares depend on
the region and the place in it, never on the channel. On CPUs they are worked out once a region;
averages then take a bin's rows first, vectors of neighbouring columns at a time, and the columns of
what is left afterwards. On devices each thread has an element and does all of it.

Points outside of the image are zero, and count. A region may have any number of them: loops are
over the others, of which no direction has more than two an element, since points are as dense as
elements or denser by less than two (`samples` points a bin, where they are told, are all visited).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from ...base.dtype import parse
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...loopir.ir_builder import IRBuilder, create
from ...target.target import Target
from ...tensor.extern import extern
from ...tensor.tensor import Tensor
from ..elemwise import accumulator
from ..lines import each, on_device, variable
from ..transform import index_within
from ..utils import get_const_int, get_const_tuple, unravel_index

_LEAST = 16  # channels that are worth a region's shares


@dataclass(frozen=True)
class _Points:
    """The points of regions: which there are and what is next to them, in each direction (0: down,
    1: across)."""

    extents: tuple[int, int]
    size: tuple[int, int]
    scale: float
    samples: int
    half_pixel: bool
    wide: str

    def room(self, d: int) -> int:
        """Points of all bins that are inside of the image, at most."""
        if self.samples:
            return self.size[d] * self.samples
        return 2 * (self.extents[d] + 2) + 2 * self.size[d]

    def region(self, ib: IRBuilder, rois: Any, r: Any, d: int) -> tuple[Any, Any, Any]:
        """Where region r begins, the size of its bins, and how many points they have."""
        wide, offset = self.wide, 0.5 if self.half_pixel else 0.0
        start, end = (
            cast(wide, rois[r, k]) * const(self.scale, wide) - const(offset, wide)
            for k in (1 - d, 3 - d)
        )
        extent = end - start if self.half_pixel else O.max(end - start, const(1, wide))
        bins = ib.let("bins", extent / const(self.size[d], wide))
        points = const(self.samples, wide)
        if not self.samples:
            points = O.max(O.ceil(bins), const(0, wide))
        return ib.let("start", start), bins, ib.let("points", points)

    @contextmanager
    def inside(
        self, ib: IRBuilder, region: tuple[Any, Any, Any], which: Any, d: int
    ) -> Iterator[list[tuple[Any, Any]]]:
        """A loop over the points of a bin that are inside of the image: the elements on both sides
        of each, with their shares in it."""
        wide, extent = self.wide, self.extents[d]
        start, bins, points = region
        step = ib.let("step", bins / points)
        base = ib.let("base", start + cast(wide, which) * bins)

        def near(end: float) -> Any:
            """The points of the bin before `end`, or one or two more or fewer."""
            found = (const(end, wide) - base) / step
            return O.max(O.min(found, points), const(0, wide))

        low, high = (ib.let("near", near(end)) for end in (-1.0, float(extent)))
        first = ib.let("first", cast("int32", O.max(O.min(low, high) - 2, const(0, wide))))
        count = O.min(O.max(low, high) + 2, points) - cast(wide, first)
        with ib.for_range(0, cast("int32", count), name="k") as k:
            at = ib.let("at", base + (cast(wide, first + k) + const(0.5, wide)) * step)
            with ib.if_scope(O.all(at >= -1.0, at <= float(extent))):
                held = O.max(O.min(at, const(extent - 1, wide)), const(0, wide))
                before = ib.let("before", O.max(O.min(cast("int32", held), extent - 1), 0))
                share = ib.let("share", held - cast(wide, before))
                after = O.min(before + 1, extent - 1)
                yield [(before, const(1, wide) - share), (after, share)]

    def finished(self, value: Any, counts: list[Any], dtype: str, mode: str) -> Any:
        """The value of an element from the sum of its points or the largest."""
        wide = self.wide
        total = counts[0] * counts[1]
        if mode == "avg":
            value = value / O.max(total, const(1, wide))
        return cast(dtype, O.select(total > 0, value, const(0, wide)))


def roi_align(
    data: Tensor,
    rois: Tensor,
    images: Tensor,
    size: tuple[int, int],
    scale: float,
    mode: str,
    samples: int,
    half_pixel: bool,
    of_corners: bool = True,
) -> Tensor:
    """Of each region (x1, y1, x2, y2) of an image of data (N, C, H, W) the average ("avg") or the
    maximum ("max") of points in each of its bins, in between the neighbours: (regions, C, *size).

    `samples`: points of a bin in each direction; 0: as many as the bin is wide. `of_corners`:
    whether maxima are of the weighted neighbours, not of the points.
    Source: He et al., "Mask R-CNN", 2017.
    """
    extents = get_const_int(data.shape[2]), get_const_int(data.shape[3])
    points = _Points(extents, size, scale, samples, half_pixel, accumulator(data.dtype))
    mode = mode if mode == "avg" or of_corners else "points"
    shape = [*get_const_tuple(rois.shape[:1]), get_const_int(data.shape[1]), *size]

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        arrays = [ib.buffer_ptr(buffer) for buffer in (*ins, *outs)]

        def image(r: Any) -> Any:
            return ib.let("image", index_within(arrays[2][r], data.shape[0], "clip"))

        if on_device():
            with each(ib, prod(shape), prod(shape)) as element:
                r, ch, p, q = unravel_index(element, shape)
                value, counts = _one(ib, arrays, points, (image(r), r, ch, p, q), mode)
                arrays[3][r, ch, p, q] = points.finished(value, counts, data.dtype, mode)
            return ib.get()
        channels = shape[1]
        parts = (g for g in (8, 4, 2) if channels % g == 0 and channels >= g * _LEAST)
        groups = next(parts, 1)
        tasks, work = shape[0] * groups, prod(shape[1:])
        with each(ib, tasks, tasks * work if isinstance(tasks, int) else 0) as task:
            r, first = task // groups, task % groups * (channels // groups)
            region = _Region(ib, arrays, points, r, image(r))
            with ib.for_range(0, channels // groups, name="channel") as c:
                region.channel(first + c, mode, data.dtype)
        return ib.get()

    found: Tensor = extern([shape], [data, rois, images], body, "T_roi_align", [data.dtype])
    return found


def _combined(mode: str, before: Any, data: Any, sides: list[list[tuple[Any, Any]]]) -> Any:
    """What was found before and the value of one more point; `data` of a row and a column."""
    parts = [data(iy, ix) * (wy * wx) for iy, wy in sides[0] for ix, wx in sides[1]]
    if mode == "max":
        return O.max(before, O.max(O.max(parts[0], parts[1]), O.max(parts[2], parts[3])))
    point = parts[0] + parts[1] + parts[2] + parts[3]
    return before + point if mode == "avg" else O.max(before, point)


def _one(
    ib: IRBuilder, arrays: list[Any], points: _Points, place: tuple[Any, ...], mode: str
) -> tuple[Any, list[Any]]:
    """One element's sum of points or the largest, and how many there are in each direction."""
    data, rois = arrays[:2]
    image, r, ch, p, q = place
    wide = points.wide
    regions = [points.region(ib, rois, r, d) for d in range(2)]
    best = variable(ib, wide, _empty(mode, wide), "value")
    seen = variable(ib, wide, const(0, wide), "seen")
    with points.inside(ib, regions[0], p, 0) as down, points.inside(ib, regions[1], q, 1) as across:

        def read(y: Any, x: Any) -> Any:
            return cast(wide, data[image, ch, y, x])

        best[0] = _combined(mode, best[0], read, [down, across])
        seen[0] = seen[0] + const(1, wide)
    counts = [region[2] for region in regions]
    return _with_outside(best[0], seen[0], counts, mode), counts


def _empty(mode: str, wide: str) -> Any:
    return const(0.0 if mode == "avg" else float("-inf"), wide)


def _with_outside(value: Any, seen: Any, counts: list[Any], mode: str) -> Any:
    """The largest of what was seen, and of zeros for the points that were not."""
    if mode == "avg":
        return value
    zero = const(0, value.dtype)
    return O.select(seen < counts[0] * counts[1], O.max(value, zero), value)


class _Region:
    """The statements for one region: tables of what its points are next to, then its channels."""

    def __init__(
        self, ib: IRBuilder, arrays: list[Any], points: _Points, r: Any, image: Any
    ) -> None:
        self.ib, self.points, self.r, self.image = ib, points, r, image
        self.data, rois, _, self.out = arrays
        self.begins: list[Any] = []  # of the points of each bin, in the tables
        self.places: list[Any] = []
        self.shares: list[Any] = []
        self.counts: list[Any] = []
        self.first = variable(ib, "int32", points.extents[1], "from_column")
        self.last = variable(ib, "int32", -1, "to_column")
        for d in range(2):
            self.begins.append(ib.allocate("int32", (points.size[d] + 1,), name="begin"))
            self.places.append(ib.allocate("int32", (points.room(d), 2), name="place"))
            self.shares.append(ib.allocate(points.wide, (points.room(d), 2), name="share"))
            region = points.region(ib, rois, r, d)
            self.counts.append(region[2])
            self._fill(d, region)

    def _fill(self, d: int, region: tuple[Any, Any, Any]) -> None:
        ib, points = self.ib, self.points
        used = variable(ib, "int32", 0, "used")
        self.begins[d][0] = const(0)
        with ib.for_range(0, points.size[d], name="bin") as which:
            with points.inside(ib, region, which, d) as sides:
                for side, (place, share) in enumerate(sides):
                    self.places[d][used[0], side] = place
                    self.shares[d][used[0], side] = share
                    if d == 1:
                        self.first[0] = O.min(self.first[0], place)
                        self.last[0] = O.max(self.last[0], place)
                used[0] = used[0] + 1
            self.begins[d][which + 1] = used[0]

    @contextmanager
    def _each(self, d: int, which: Any) -> Iterator[list[tuple[Any, Any]]]:
        """A loop over the points of a bin that are inside of the image, by the tables."""
        begin = self.ib.let("begin", self.begins[d][which])
        with self.ib.for_range(0, self.begins[d][which + 1] - begin, name="k") as k:
            at = begin + k
            yield [(self.places[d][at, side], self.shares[d][at, side]) for side in range(2)]

    def channel(self, ch: Any, mode: str, dtype: str) -> None:
        """All bins of one channel."""
        ib = self.ib
        rows, columns = self.points.size
        with ib.for_range(0, rows, name="p") as p:
            sums = self._rows(ch, p) if mode == "avg" else None
            with ib.for_range(0, columns, name="q") as q:
                value = self._sum(sums, q) if mode == "avg" else self._largest(ch, p, q, mode)
                value = self.points.finished(value, self.counts, dtype, mode)
                self.out[self.r, ch, p, q] = value

    def _rows(self, ch: Any, p: Any) -> Any:
        """The sum of a bin's rows by their shares, of all columns that the region has points at."""
        ib, wide, width = self.ib, self.points.wide, self.points.extents[1]
        target = Target.current(allow_none=True)
        lanes = (target.vector_bytes if target is not None else 16) // parse(wide).nbytes
        while lanes > width:
            lanes //= 2
        sums = ib.allocate(wide, width, name="row")
        part = ib.allocate(wide, lanes, name="part")
        first = self.first[0]
        with ib.for_range(0, (self.last[0] - first + lanes) // lanes, name="chunk") as c:
            begin = ib.let("begin", O.min(first + c * lanes, width - lanes))

            def over_lanes() -> Any:
                return ib.for_range(0, lanes, name="lane", kind="vectorize")

            with over_lanes() as v:
                part[v] = const(0, wide)
            with self._each(0, p) as sides:
                for place, share in sides:
                    with over_lanes() as v:
                        x = cast(wide, self.data[self.image, ch, place, begin + v])
                        part[v] = part[v] + share * x
            with over_lanes() as v:
                sums[begin + v] = part[v]
        return sums

    def _sum(self, rows: Any, q: Any) -> Any:
        total = variable(self.ib, self.points.wide, const(0, self.points.wide), "total")
        with self._each(1, q) as ((left, first), (right, second)):
            total[0] = total[0] + first * rows[left] + second * rows[right]
        return total[0]

    def _largest(self, ch: Any, p: Any, q: Any, mode: str) -> Any:
        ib, wide = self.ib, self.points.wide
        best = variable(ib, wide, _empty(mode, wide), "best")

        def read(y: Any, x: Any) -> Any:
            return cast(wide, self.data[self.image, ch, y, x])

        with self._each(0, p) as down, self._each(1, q) as across:
            best[0] = _combined(mode, best[0], read, [down, across])
        seen = [self.begins[d][i + 1] - self.begins[d][i] for d, i in enumerate((p, q))]
        return _with_outside(best[0], cast(wide, seen[0] * seen[1]), self.counts, mode)
