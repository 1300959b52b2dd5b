"""Sums of products restated as sums that an instruction takes: of copies with its groups.

    sum over k < 255 of x[i, k] * y[k, j]        xg[i, k] = turned(x[i, k] if k < 255 else 0)
                                           =>    yg[k, j] = y[k, j] if k < 255 else 0
                                                 sum over k < 256 of xg[i, k] * yg[k, j] - more[j]

A copy of the row side has the steps of groups innermost and ends with zeros, as the packed copy of
the other side does. Where the instruction wants bytes of the other sign, the highest bit of those
of the row side is turned over, which adds 128 to each or takes it off: sums have as many times the
sum of a column `more`, which is one for all rows. Arithmetic is modulo 2^32, in which that is exact
whatever the bytes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...loopir.construct import cast
from ...loopir.expr import const, const_int
from ...loopir.iter import ProducerLoad
from ...loopir.op import if_then_else, likely, reinterpret
from ...loopir.subst import substitute
from ...loopir.visit import free_vars
from ...schedule.api import Schedule, Stage
from ...target.dots import FLIPPED
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..tensor_intrin.dot import HIGHEST
from .contraction import contraction_of
from .dots import Groups
from .machine import extent_of
from .restated import Replaced, restated


def regroup(
    s: Schedule, product: Tensor, out: Tensor, groups: Groups
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The sum of products that stands for `product` now, and the stage `out` that ends its group;
    the copy of the row side, and what its sums have too much, if anything."""
    op = s[product].op
    form = contraction_of(op)
    assert form is not None and form.row_side is not None and form.vector_side is not None
    row, side = form.row_side, form.vector_side
    shape = [extent_of(a) for a in op.axis]
    whole = extent_of(groups.steps)
    length = whole + -whole % groups.terms
    copy = _copied(row, groups, whole, length)
    filled = side.producer
    if groups.filled and not form.panel:
        filled = _filled(side, groups, whole, length)
    axes = [a.var for a in op.axis]
    place = next(d for d, x in enumerate(row.indices) if x is groups.steps.var)
    beside = [x for d, x in enumerate(row.indices) if d != place]

    def sums(row_too: bool) -> Any:
        """Elements of sums over own axes: of products, or of `more`."""
        new = [
            reduce_axis((0, length if a is groups.steps else extent_of(a)), a.var.name)
            for a in op.reduce_axis
        ]
        steps = {a.var: n.var for a, n in zip(op.reduce_axis, new)}
        there = ProducerLoad(filled, side.indices)
        here: Any = ProducerLoad(copy, [*beside, groups.steps.var])
        if not row_too:
            here = const(HIGHEST - (256 if copy.dtype == "int8" else 0), copy.dtype)
        source = Replaced({id(row): here, id(side): there}).expr(op.body[0].source[0])

        def element(*i: Any) -> Any:
            table = {**steps, **dict(zip(axes if row_too else own, i))}
            return reduce_sum(substitute(source, table), axis=new)

        return element

    used = {v for x in side.indices for v in free_vars(x)}
    own = [v for v in axes if v in used]
    last = product.op is out.op
    if not groups.fit.flipped:
        restated(s, product, compute(shape, sums(True), op.name, op.tag))
        if filled is not side.producer:
            s[filled].compute_inline()
        product = s[product].op.output(0)
        return product, product if last else out, _now(s, copy), None
    result = compute(shape, sums(True), f"{op.name}.groups")
    sizes = [n for n, v in zip(shape, axes) if v in used]
    more = compute(sizes, sums(False), f"{op.name}.more")
    at = [n for n, v in enumerate(axes) if v in used]
    by = compute(shape, lambda *i: result(*i) - more(*[i[n] for n in at]), op.name)
    restated(s, product, by)
    if filled is not side.producer:
        s[filled].compute_inline()
    if not last:
        s[product].compute_inline()
    out = s[product].op.output(0) if last else out
    s[result].set_scope("local")
    return _now(s, result), out, _now(s, copy), _now(s, more)


def _now(s: Schedule, t: Tensor) -> Tensor:
    return s[t].op.output(0)


def _copied(row: ProducerLoad, groups: Groups, whole: int, length: int) -> Tensor:
    """The row side with the steps of groups innermost, bytes turned, and zeros behind them."""
    place = next(d for d, x in enumerate(row.indices) if x is groups.steps.var)
    t, flipped = row.producer, groups.fit.flipped
    shape = [const_int(d) for d in t.shape]
    dtype = FLIPPED[t.dtype] if flipped else t.dtype

    def element(*i: Any) -> Any:
        *beside, k = i
        value = t(*beside[:place], k, *beside[place:])
        value = reinterpret(dtype, _turned(value)) if flipped else value
        return if_then_else(likely(k < whole), value, cast(dtype, 0)) if length > whole else value

    others = [n for d, n in enumerate(shape) if d != place]
    copy: Tensor = compute([*others, length], element, f"{t.op.name}.rows")
    return copy


def turned_bytes(t: Tensor) -> Tensor:
    """A tensor of bytes of the other sign: the highest bits turned over."""
    dtype = FLIPPED[t.dtype]

    def element(*i: Any) -> Any:
        return reinterpret(dtype, _turned(t(*i)))

    turned: Tensor = compute(t.shape, element, f"{t.op.name}.turned")
    return turned


def _turned(value: Any) -> Any:
    """A byte with its highest bit turned over."""
    bit = HIGHEST - (256 if value.dtype == "int8" else 0)
    return value ^ const(bit, value.dtype)


def _filled(side: ProducerLoad, groups: Groups, whole: int, length: int) -> Tensor:
    """The vector side with zeros behind the steps of groups."""
    place = next(d for d, x in enumerate(side.indices) if x is groups.steps.var)
    t = side.producer
    shape = [length if d == place else n for d, n in enumerate(t.shape)]

    def element(*i: Any) -> Any:
        return if_then_else(likely(i[place] < whole), t(*i), cast(t.dtype, 0))

    filled: Tensor = compute(shape, element, f"{t.op.name}.filled")
    return filled


def inlined_into(s: Schedule, copy: Tensor, computed: Sequence[Stage]) -> list[Stage]:
    """Of the stages that sums read, those that are not for the copy alone, and so computed as they
    are copied."""
    readers, left = s.consumers(), []
    for stage in computed:
        if readers.get(stage.op.output(0)) == [s[copy]]:
            stage.compute_inline()
        else:
            left.append(stage)
    return left


def add_more(s: Schedule, more: Tensor, product: Tensor, groups: Groups, panel: bool) -> Stage:
    """The sums of the columns of a panel, by the instruction."""
    stage = s[more]
    axes, steps = list(stage.op.axis), list(stage.op.reduce_axis)
    at = list(s[product].op.reduce_axis).index(groups.steps)
    jp, jv = stage.split(axes[-1], factor=groups.dot.lanes)
    k = steps[at]
    steps[at], kt = stage.split(k, factor=groups.terms)
    stage.reorder(*axes[:-1], *steps, jp, jv, kt)
    stage.unroll(jp)
    stage.tensorize(jv, groups.sums_of_columns(stage.op, k, panel))
    return stage
