"""Long reductions of few tiles, cut in parts (split-K).

A product with fewer tiles than a GPU has multiprocessors leaves some idle for all of its reduction.
Parts of that are products of their own, as a batch of them; what they sum is added, in order, by a
kernel that has what follows the product too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base.dtype import parse
from ....loopir.construct import cast
from ....loopir.expr import const_int
from ....loopir.op import if_then_else
from ....loopir.subst import substitute
from ....schedule.api import Schedule
from ....tensor.axes import reduce_axis
from ....tensor.compute import compute
from ....tensor.reduce import sum as reduce_sum
from ....tensor.tensor import Tensor
from ..machine import extent_of
from ..restated import restated
from .injective import arrange
from .machine import GpuMachine
from .operands import Operand
from .packing import product_of
from .tile_plan import TilePlan

MOST_PARTS = 8
LEAST_STEPS = 128  # of a part: fewer pay for no tile that is written and read again
LONG = 1024  # steps of a reduction that is cut where nobody decides
_ROUND = 64  # steps that parts are whole numbers of, so that tiles and vectors are


def parts_of(
    product: Tensor, sides: tuple[Operand, Operand], plan: TilePlan, count: int, machine: GpuMachine
) -> int:
    """Into how many parts the reduction of `count` products is cut: 1 where tiles fill the GPU, or
    steps are few, unless that is decided otherwise."""
    (k,) = product.op.reduce_axis
    steps = extent_of(k)
    whole = all(const_int(d) for x in sides for d in x.tensor.shape)
    if not count or not whole or parse(product.dtype).nbytes < 4 or steps < 2 * LEAST_STEPS:
        return 1
    if any(x.along and steps % x.widest for x in sides):  # parts would begin between vectors
        return 1
    tiles = [plan.whole(side) // plan.block[side] for side in (0, 1)]
    blocks = tiles[0] * tiles[1] * count
    fit = [n for n in (1, 2, 4, MOST_PARTS) if steps // n >= LEAST_STEPS]
    most = max(n for n in fit if n * blocks <= machine.filling or n == 1) if steps >= LONG else 1
    (parts,) = machine.choose(product.op.name, "parts", [(most,), *((n,) for n in fit)])
    return parts


def in_parts(
    s: Schedule,
    product: Tensor,
    out: Tensor,
    sides: tuple[Operand, Operand],
    parts: int,
    machine: GpuMachine,
) -> Tensor:
    """The products of parts, a batch, still to be scheduled; what adds them up is."""
    op = s[product].op
    steps = extent_of(op.reduce_axis[0])
    length = -(-steps // parts)
    length += -length % _ROUND
    parts = -(-steps // length)
    views = [_view(x, parts, length, steps) for x in sides]
    element = product_of(op, [(view, False) for view in views], length, leading=1)
    return _added(s, product, out, element, parts, views, machine)


def in_place(
    s: Schedule, product: Tensor, out: Tensor, parts: int, length: int, machine: GpuMachine
) -> Tensor:
    """As `in_parts`, of products that read their part where it lies: each `length` steps, of which
    those of the last reach over the end."""
    op = s[product].op
    steps = extent_of(op.reduce_axis[0])
    k = reduce_axis((0, length), "k")

    def element(p: Any, *i: Any) -> Any:
        at = p * length + k.var
        values = {a.var: v for a, v in zip((*op.axis, *op.reduce_axis), (*i, at))}
        where = at < steps if parts * length > steps else None
        return reduce_sum(substitute(op.body[0].source[0], values), axis=k, where=where)

    return _added(s, product, out, element, parts, [], machine)


def _added(
    s: Schedule,
    product: Tensor,
    out: Tensor,
    element: Any,
    parts: int,
    views: Sequence[Tensor],
    machine: GpuMachine,
) -> Tensor:
    """The products of parts by an element of them, and what adds them up in the place of the whole
    one; views are part of those who read them."""
    op = s[product].op
    shape = [extent_of(a) for a in op.axis]
    partial: Tensor = compute([parts, *shape], element, f"{op.name}.parts")

    def added(*i: Any) -> Any:
        total: Any = partial(0, *i)
        for p in range(1, parts):
            total = total + partial(p, *i)
        return total

    last = product.op is out.op
    restated(s, product, compute(shape, added, op.name))
    for view in views:
        s[view].compute_inline()
    if not last:
        s[product].compute_inline()
    end = s[product if last else out]
    arrange(end, list(end.op.axis), machine)
    return s[partial].op.output(0)


def _view(side: Operand, parts: int, length: int, steps: int) -> Tensor:
    """An operand (part, ...), whose reduction is that of a part: zeros beyond the last."""
    t, at = side.tensor, (-1 if side.along else -2)
    shape: list[Any] = list(t.shape)
    shape[at] = length

    def element(p: Any, *i: Any) -> Any:
        place = list(i)
        place[at] = p * length + i[at]
        value = t(*place)
        whole = parts * length == steps
        return value if whole else if_then_else(place[at] < steps, value, cast(t.dtype, 0))

    view: Tensor = compute([parts, *shape], element, f"{t.op.name}.parts")
    return view
