"""Operands that are laid anew before they are multiplied, each by a kernel of its own.

The fragments of tensor cores, and copies of 16 bytes, want rows along the reduction that start at
multiples of 16 bytes. An operand that lies the other way round, or has rows of odd lengths, is
copied so once, which reads and writes each element once; a product reads it as often as it has
tiles. Rows end with zeros then, which add nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....base.dtype import parse
from ....loopir.construct import cast
from ....loopir.expr import const_int
from ....loopir.iter import ProducerLoad, Reduce
from ....loopir.op import all as all_of
from ....loopir.op import if_then_else
from ....loopir.op import min as min_of
from ....loopir.subst import substitute
from ....schedule.api import Schedule, Stage
from ....schedule.auto_inline import loads_of
from ....tensor.axes import reduce_axis
from ....tensor.compute import compute
from ....tensor.op import ComputeOp, domain
from ....tensor.reduce import sum as reduce_sum
from ....tensor.tensor import Tensor
from ...tensor_intrin.mma import depth
from ..contraction import contraction_of
from ..machine import extent_of, known_extent
from ..restated import Replaced, restated
from .machine import VECTOR_BYTES, GpuMachine, bind_rows, fused
from .operands import Operand, steps_of_tile
from .tile_plan import FRAGMENT, TilePlan


def pack_operands(
    s: Schedule,
    product: Tensor,
    out: Tensor,
    sides: tuple[Operand, Operand],
    plan: TilePlan,
    machine: GpuMachine,
) -> tuple[Tensor, Tensor]:
    """The product, filled up to the plan's shape, of operands that are copied beforehand where
    tensor cores cannot take them as they lie; and the stage that ends its group."""
    op = s[product].op
    steps, fragment = extent_of(op.reduce_axis[0]), depth(sides[0].tensor.dtype)
    deep = steps_of_tile(steps, fragment)
    kept = [steps >= fragment and _is_taken(x, n) for n, x in enumerate(sides)]
    if steps % sides[0].widest:  # rows of what is packed have as many steps as those of the other
        kept = [False, False]
    shape: list[Any] = [domain(a).extent for a in op.axis]
    sizes = [known_extent(a) for a in op.axis[-2:]]
    grown = [size is not None and size < n for size, n in zip(sizes, plan.shape)]
    if all(kept) and not any(grown):
        return product, out
    new = [*shape[:-2], *(n if g else d for g, n, d in zip(grown, plan.shape, shape[-2:]))]
    length = steps if any(kept) else -(-steps // deep) * deep
    packed = [
        _filled(x, plan.shape[n])
        if keep
        else machine.ahead(packed_rows(x, plan.whole(n), steps, length))
        for n, (x, keep) in enumerate(zip(sides, kept))
    ]
    element = product_of(op, [(t, not keep) for t, keep in zip(packed, kept)], length)
    last = product.op is out.op
    if not any(grown):
        restated(s, product, compute(shape, element, op.name))
        result = product
    else:
        result = compute(new, element, f"{op.name}.product")
        restated(s, product, compute(shape, lambda *i: part_of(result, i, sizes), op.name))
        if not last:
            s[product].compute_inline()
    for side, tensor, keep in zip(sides, packed, kept):
        if not keep:
            if isinstance(tensor.op, ComputeOp):
                arrange_packed(s[tensor], side.along, machine)
        elif tensor is not side.tensor:
            s[tensor].compute_inline()
    return s[result].op.output(0), s[product if last else out].op.output(0)


def part_of(product: Tensor, place: Sequence[Any], shape: Sequence[int | None]) -> Any:
    """An element of a product that was filled up from that shape. Where it has more columns, its
    last one is read too, as far as anybody can tell before there are loops, so that what is kept of
    it in shared memory are whole tiles; so is its last row where there are fewer than a fragment
    has."""
    other, inside = list(place), []
    for at in (-2, -1):
        end, size = const_int(product.shape[at]) or 0, shape[at]
        if size is not None and size < end and (at == -1 or size < FRAGMENT):
            inside.append(place[at] < size)
            other[at] = end - 1
    value = product(*place)
    return if_then_else(all_of(*inside), value, product(*other)) if inside else value


def product_of(
    op: Any, operands: Sequence[tuple[Tensor, bool]], length: int, leading: int = 0
) -> Callable[..., Any]:
    """Elements of a product of other operands, of rows and of columns, in the place of its own, and
    of a reduction of that length. With each operand: whether its reduction is last, whichever it
    was of the product's own. The first so many `leading` axes are those of both operands."""
    k = reduce_axis((0, length), "k")
    old, body = op.reduce_axis[0].var, op.body[0]
    form = contraction_of(op)
    assert form is not None and type(body) is Reduce
    axes = [a.var for a in op.axis]

    def element(*i: Any) -> Any:
        reads: dict[int, ProducerLoad] = {}
        for (tensor, is_last), load in zip(operands, (form.row_side, form.vector_side)):
            assert load is not None
            *batch, first, last = load.indices
            row = last if first is old else first
            place = (row, k.var) if is_last or last is old else (k.var, row)
            reads[id(load)] = ProducerLoad(tensor, [*i[:leading], *batch, *place])
        source = Replaced(reads).expr(body.source[0])
        return reduce_sum(substitute(source, dict(zip(axes, i[leading:]))), axis=k)

    return element


def _filled(side: Operand, rows: int) -> Tensor:
    """An operand with more rows (or columns) than it has, where there have to be more."""
    t, at = side.tensor, -2 if side.along else -1
    size = const_int(t.shape[at])
    if size is None or size >= rows:
        return t
    shape: list[Any] = list(t.shape)
    shape[at] = rows

    def element(*i: Any) -> Any:
        if not side.along:
            return if_then_else(i[at] < size, t(*i), cast(t.dtype, 0))
        place = list(i)  # nobody looks at what comes of them: the last row serves
        place[at] = min_of(i[at], size - 1)
        return t(*place)

    filled: Tensor = compute(shape, element, f"{t.op.name}.filled")
    return filled


def _is_taken(side: Operand, number: int) -> bool:
    """Whether rows of an operand (`number` 0: of rows, 1: of columns) start where vectors do, and
    ldmatrix brings them into order: it turns pairs of bytes, of columns."""
    nbytes = parse(side.tensor.dtype).nbytes
    if side.lanes * nbytes < VECTOR_BYTES:
        return False
    return side.along or (number == 1 and nbytes == 2)


def lay_along(
    s: Schedule, product: Tensor, out: Tensor, sides: tuple[Operand, Operand], machine: GpuMachine
) -> tuple[Tensor, Tensor]:
    """The product of operands of which those that do not lie so (`kept_as_they_lie`) are copied
    beforehand, rows along the reduction, which end with zeros up to a multiple of 16 bytes; and the
    stage that ends its group."""
    op = s[product].op
    steps, last = extent_of(op.reduce_axis[0]), product.op is out.op
    length = steps + -steps % sides[0].widest
    laid: list[tuple[Tensor, bool]] = []
    for side, keep in zip(sides, kept_as_they_lie(sides, steps)):
        rows = const_int(side.tensor.shape[-2 if side.along else -1]) or 0
        copy = side.tensor if keep else machine.ahead(packed_rows(side, rows, steps, length))
        laid.append((copy, not keep))
    element = product_of(op, laid, length)
    restated(s, product, compute([domain(a).extent for a in op.axis], element, op.name))
    for side, (tensor, is_copy) in zip(sides, laid):
        if is_copy and isinstance(tensor.op, ComputeOp):
            arrange_packed(s[tensor], side.along, machine)
    result = s[product].op.output(0)
    return result, (result if last else s[out].op.output(0))


def kept_as_they_lie(sides: Sequence[Operand], steps: int) -> list[bool]:
    """Of which operands all rows start at multiples of 16 bytes, and run along the reduction where
    elements are bytes; where that has no whole number of 16 bytes, of none: both have as many
    steps."""
    if steps % sides[0].widest:
        return [False for _ in sides]
    nbytes = parse(sides[0].tensor.dtype).nbytes
    return [x.lanes * nbytes == VECTOR_BYTES and (x.along or nbytes > 1) for x in sides]


def packed_rows(side: Operand, rows: int, steps: int, length: int) -> Tensor:
    """An operand with that many rows, or its own where their number is not known, of that length
    along the reduction, zeros behind its own, of which so many steps are used."""
    t = side.tensor
    own = t.shape[-2 if side.along else -1]
    count = const_int(own)
    high: Any = own if count is None else rows

    def element(*i: Any) -> Any:
        *b, row, k = i
        value = t(*b, row, k) if side.along else t(*b, k, row)
        inside = [k < steps] if steps < length else []
        if count is not None and count < rows:
            inside.append(row < count)
        return if_then_else(all_of(*inside), value, cast(t.dtype, 0)) if inside else value

    packed: Tensor = compute([*t.shape[:-2], high, length], element, f"{t.op.name}.packed")
    return packed


def arrange_packed(stage: Stage, along: bool, machine: GpuMachine, line: int = 0) -> None:
    """A vector of a row a thread; neighbours read neighbours: along rows, or across where those
    were columns, a square of vectors a thread where both sides have whole ones. `line`: so many
    rows have neighbouring places in what is read, where not all have."""
    *outer, row, k = stage.op.axis
    lanes = machine.lanes(stage.op.output_dtype(0))
    if not along and lanes > 1 and _turn_packed(stage, lanes, machine, line):
        return
    rest, vector = stage.split(k, factor=min(lanes, extent_of(k)))
    order = [row, rest] if along else [rest, row]
    stage.reorder(*outer, *order, vector)
    stage.vectorize(vector)
    bind_rows(stage, fused(stage, [*outer, *order]), machine.threads)


def _turn_packed(stage: Stage, lanes: int, machine: GpuMachine, line: int) -> bool:
    """Read what is turned in vectors too, where its rows in memory have whole ones."""
    assert isinstance(stage.op, ComputeOp)
    reads = loads_of(stage.op)
    *outer, row, k = stage.op.axis
    if len(reads) != 1 or extent_of(k) % lanes or extent_of(row) % lanes:
        return False
    source = reads[0].producer
    if (const_int(source.shape[-1]) or 1) % lanes or line % lanes:
        return False
    made = stage.schedule.cache_write(stage.op.output(0), "local")
    *outer, row, k = stage.op.axis
    if line:  # all of it is made, from where a line begins, whatever is read
        *outer, row, k = stage.transform_layout(lambda b, p, c: [b, p // line, p % line, c])
    row, r = stage.split(row, factor=lanes)
    k, vector = stage.split(k, factor=lanes)
    stage.reorder(*outer, k, row, r, vector)
    stage.unroll(r)
    stage.vectorize(vector)
    thread = bind_rows(stage, fused(stage, [*outer, k, row]), machine.threads)
    load = stage.schedule[made]
    load.compute_at(stage, thread)
    *outer, row, k = load.op.axis
    load.reorder(*outer, k, row)
    load.unroll(k)
    load.vectorize(row)
    return True
