"""Products of few rows or columns, both of which lie along the reduction, by instructions that add
up products of neighbours: vectors of both sides are read as they lie, nothing is copied.

    sum over k of x[i, k] * y[j, k]   =>   sum over lanes l of
                                             sum over ko, t of x[i, ko, l, t] * y[j, ko, l, t]

What is left over of the last vectors is copied, with zeros behind it. Where bytes have the other
sign than the instruction wants, those of the row side are copied (regroup.py), and lanes have some
sums of the column too much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...loopir.construct import cast
from ...loopir.expr import const, const_int
from ...loopir.iter import IterVar, ProducerLoad
from ...loopir.op import if_then_else, likely
from ...loopir.subst import substitute
from ...loopir.visit import free_vars, walk
from ...schedule.api import Schedule
from ...target.dots import Dot, Fit, best_first
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..tensor_intrin.dot import HIGHEST, dot_along
from .contraction import Contraction, contraction_of, is_product, step_of
from .dots import Groups
from .few_rows import dot_tiles, in_dot_tiles
from .injective import arrange
from .machine import Machine, extent_of, work_of
from .regroup import turned_bytes
from .restated import Replaced, restated

# in products of vectors, as which they take as long
LANES_ADDED = 3.2  # those of one sum, in a tile of several
LOADED = 1.25  # one whose operands both come from memory, for a few others each
MOVED = 1.1  # a group of steps of a column, into a panel
TURNED = 1.0  # an element, that is copied by itself


@dataclass(frozen=True)
class Lanes:
    """An instruction and how it takes vectors along a reduction."""

    dot: Dot
    fit: Fit

    @property
    def steps(self) -> int:
        """Of the reduction, in a vector."""
        return self.dot.lanes * self.dot.terms


def lanes_of(op: Any, form: Contraction | None, machine: Machine) -> Lanes | None:
    """The best of the machine's instructions for a product of whole vectors at least along the
    reduction; None for none."""
    if form is None or len(op.axis) < 2 or not is_product(op) or form.panel:
        return None
    row, side, (k,) = form.row_side, form.vector_side, op.reduce_axis
    if row is None or side is None or row.producer == side.producer:
        return None
    if any(sum(x is k.var for x in e.indices) != 1 for e in (row, side)):
        return None
    if any(k.var in free_vars(x) and x is not k.var for e in (row, side) for x in e.indices):
        return None
    known = all(const_int(d) is not None for t in (row.producer, side.producer) for d in t.shape)
    widest = max((d.lanes for d in machine.dots), default=0)
    types = row.dtype, side.dtype, op.output_dtype(0)
    for dot, fit in best_first(machine.dots, widest, *types):
        found = Lanes(dot, fit)
        if known and extent_of(k) >= found.steps:
            return found
    return None


def worth_lanes(op: Any, lanes: Lanes, groups: Groups | None) -> bool:
    """Whether vectors along the reduction take less time than panels of columns: the lanes of each
    sum are added, and sides that do not lie so are turned first; of panels each group of steps of a
    column is moved once for all rows, and a few columns leave lanes empty."""
    form, k = contraction_of(op), extent_of(op.reduce_axis[0])
    m, n = extent_of(op.axis[-2]), extent_of(op.axis[-1])
    assert form is not None and form.row_side is not None and form.vector_side is not None
    uses = [(form.row_side, n), (form.vector_side, m)]
    turned = sum(1 / times for e, times in uses if not _lies_along(e, op.reduce_axis[0]))
    if groups is None:
        return not turned
    along = k / lanes.steps * LOADED + LANES_ADDED + k * turned * TURNED
    filled = -(-n // groups.dot.lanes) / n
    return along < k / groups.terms * (filled + MOVED / m)


def dots_in_lanes(
    s: Schedule, product: Tensor, out: Tensor, machine: Machine, lanes: Lanes
) -> None:
    """Tiles of rows and columns, the lanes of whose sums are added at the end."""
    op = s[product].op
    work, name, m = work_of(product), op.name, extent_of(op.axis[-2])
    parts, added, copies = _parts(s, product, lanes)
    total = s[product].op.output(0)
    out = total if product.op is out.op else out
    parts = [s[t].op.output(0) for t in parts]
    room = machine.working - (2 if len(parts) > 1 else 0)
    rows, columns = machine.choose(name, "dots", dot_tiles(m, room))
    io = in_dot_tiles(s[out], rows, columns, work, machine)
    if total.op is not out.op:
        s[total].compute_at(s[out], io)
        for axis in s[total].op.axis[-2:]:
            s[total].unroll(axis)
    s[total].pragma(s[total].op.reduce_axis[0], "tree_reduce")
    for t in added:
        stage = s[t]
        stage.compute_at(s[out], io)
        stage.vectorize(stage.op.axis[-1])
        for axis in stage.op.axis[-3:-1]:
            stage.unroll(axis)
    for t in parts:
        stage = s[t]
        stage.compute_at(s[out], io)
        *data, lane = stage.op.axis
        *around, group = stage.op.reduce_axis
        both = len(stage.op.input_tensors) > 1
        within = data[-2:] if both else data[-1:]
        stage.reorder(*data[: len(data) - len(within)], *around, *within, lane, group)
        for axis in within:
            stage.unroll(axis)
        source = stage.op.body[0].source[0]
        row = _row_of(stage.op) if both else None
        stage.tensorize(lane, dot_along(lanes.dot, source, row, lanes.fit.swapped))
    for t in copies:
        arrange(s[t], list(s[t].op.axis), machine)


def _row_of(op: Any) -> Tensor:
    """The row side of sums of lanes."""
    i = op.axis[-3].var
    loads = [e for e in walk(op.body[0].source[0]) if type(e) is ProducerLoad]
    found: Tensor = next(e.producer for e in loads if any(i in free_vars(x) for x in e.indices))
    return found


def _parts(
    s: Schedule, product: Tensor, lanes: Lanes
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """The product restated as a sum of lanes: the sums that these are of, those added up where
    there are several, and what is copied."""
    op, dot = s[product].op, lanes.dot
    form = contraction_of(op)
    assert form is not None and form.row_side is not None and form.vector_side is not None
    row, side, (k,) = form.row_side, form.vector_side, op.reduce_axis
    axes, size = [a.var for a in op.axis], extent_of(k)
    rest = size % lanes.steps
    sides = [_along(e, k) for e in (row, side)]
    flipped = turned_bytes(sides[0].producer) if lanes.fit.flipped else sides[0].producer
    columns = sides[1].producer
    ends = [_end(t, size, lanes.steps) for t in (flipped, columns)] if rest else []
    used = {v for x in side.indices for v in free_vars(x)}

    def sums(a: Tensor | None, b: Tensor, steps: int, name: str) -> Tensor:
        """Lanes of sums of that many steps; without `a`, of the other side's elements."""
        ko, t = reduce_axis((0, steps // lanes.steps), "ko"), reduce_axis((0, dot.terms), "t")
        own = [v for v in axes if a is not None or v in used]
        here: Any = const(HIGHEST - (256 if flipped.dtype == "int8" else 0), flipped.dtype)
        here = here if a is None else ProducerLoad(a, sides[0].indices)
        reads = {id(row): here, id(side): ProducerLoad(b, sides[1].indices)}
        source = Replaced(reads).expr(op.body[0].source[0])

        def element(*i: Any) -> Any:
            *place, lane = i
            step = ko.var * lanes.steps + lane * dot.terms + t.var
            return reduce_sum(substitute(source, {**dict(zip(own, place)), k.var: step}), [ko, t])

        shape = [extent_of(x) for x in op.axis if x.var in own]
        found: Tensor = compute([*shape, dot.lanes], element, f"{op.name}.{name}")
        return found

    whole = size - rest
    parts = [sums(flipped, columns, whole, "lanes")]
    parts += [sums(ends[0], ends[1], lanes.steps, "end")] if rest else []
    more = [sums(None, columns, whole, "more")] if lanes.fit.flipped else []
    more += [sums(None, ends[1], lanes.steps, "more.end")] if rest and more else []
    lane = reduce_axis((0, dot.lanes), "lane")
    at = [n for n, v in enumerate(axes) if v in used]

    def element(*i: Any) -> Any:
        total: Any = parts[0](*i)
        for t in parts[1:]:
            total = total + t(*i)
        for t in more:
            total = total - t(*[i[n] for n in at], i[-1])
        return total

    shape, every = [extent_of(a) for a in op.axis], parts[0]
    if rest or more:
        every = compute([*shape, dot.lanes], element, f"{op.name}.all")
    by = compute(shape, lambda *i: reduce_sum(every(*i, lane.var), axis=lane), op.name, op.tag)
    restated(s, product, by)
    added = [every] if rest or more else []
    given = (row.producer, side.producer)
    copies = [t for t in (sides[0].producer, flipped, columns) if t not in given]
    return [*parts, *more], added, [*dict.fromkeys(copies), *ends]


def _lies_along(load: ProducerLoad, k: IterVar) -> bool:
    """Whether steps of the reduction are neighbours in memory."""
    return load.indices[-1] is k.var and step_of(load, k.var) == 1


def _along(load: ProducerLoad, k: IterVar) -> ProducerLoad:
    """The read of a side, or the same of a copy that lies along the reduction."""
    if _lies_along(load, k):
        return load
    t, at = load.producer, next(d for d, x in enumerate(load.indices) if x is k.var)

    def element(*i: Any) -> Any:
        return t(*i[:at], i[-1], *i[at:-1])

    shape = [n for d, n in enumerate(t.shape) if d != at]
    turned: Tensor = compute([*shape, t.shape[at]], element, f"{t.op.name}.along")
    indices = [x for d, x in enumerate(load.indices) if d != at]
    return ProducerLoad(turned, [*indices, k.var])


def _end(t: Tensor, size: int, steps: int) -> Tensor:
    """What the last vectors of a tensor's rows have, with zeros behind it."""
    rest = size % steps

    def element(*i: Any) -> Any:
        *beside, k = i
        value = t(*beside, k + (size - rest))
        return if_then_else(likely(k < rest), value, cast(t.dtype, 0))

    end: Tensor = compute([*t.shape[:-1], steps], element, f"{t.op.name}.end")
    return end
