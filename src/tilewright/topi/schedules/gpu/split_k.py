"""Long reductions of few tiles, cut in parts (split-K).

A product with fewer tiles than a GPU has multiprocessors leaves some idle for all of its reduction.
Parts of that are products of their own, as a batch of them, or, of a convolution's channels, groups
of filters; what they sum is added, in order, by a kernel that has what follows the product too.
Where that is worth it, and into how many parts, follows from clocks (tile_plan.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
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
from ..machine import extent_of, extents_of
from ..restated import restated
from .injective import arrange
from .machine import CUTS, GpuMachine
from .operands import Operand
from .packing import product_of
from .tile_plan import UNCUT, Reduction
from .windows import Windows

LEAST_STEPS = 128  # of a part: fewer pay for no tile that is written and read again
_ROUND = 64  # steps that parts are whole numbers of, so that tiles and vectors are


def reduction_of(product: Tensor, sides: tuple[Operand, Operand], together: int) -> Reduction:
    """The reduction of products, `together` of it a step of their clocks, and how it may be cut."""
    steps, nbytes = extent_of(product.op.reduce_axis[0]), parse(product.dtype).nbytes
    known = all(const_int(d) for x in sides for d in (*x.tensor.shape, *product.shape))
    if not known or nbytes < 4:
        return UNCUT
    return cut_of(steps, together, nbytes * prod(map(extent_of, product.op.axis)))


def cut_of(steps: int, together: int, nbytes: int, channels: int = 0, lanes: int = 1) -> Reduction:
    """A reduction of so many steps, `together` a step of clocks, and of sums of `nbytes` in all;
    parts have as many channels each, where it is one of channels, in whole vectors."""
    fit = [n for n in CUTS if steps // n >= LEAST_STEPS and channels % (n * lanes) == 0]
    return Reduction(-(-steps // together), tuple(fit) or (1,), nbytes)


def chosen_parts(operation: str, best: int, reduction: Reduction, machine: GpuMachine) -> int:
    """Into how many parts a reduction is cut, unless that is decided otherwise into the best."""
    if reduction.parts == (1,):
        return 1
    (parts,) = machine.choose(operation, "parts", [(best,), *((n,) for n in reduction.parts)])
    return parts


def in_parts(
    s: Schedule,
    product: Tensor,
    out: Tensor,
    sides: tuple[Operand, Operand],
    parts: int,
    machine: GpuMachine,
) -> tuple[Tensor, tuple[Operand, Operand]]:
    """The products of parts, a batch, still to be scheduled, and their operands; what adds them up
    is."""
    op = s[product].op
    steps = extent_of(op.reduce_axis[0])
    length = -(-steps // parts)
    length += -length % _ROUND
    parts = -(-steps // length)
    views = [_view(x, parts, length, steps) for x in sides]
    element = product_of(op, [(view, False) for view in views], length, leading=1)
    partial: Tensor = compute([parts, *extents_of(op)], element, f"{op.name}.parts")
    added = _added(s, product, out, partial, partial, parts, machine)
    for view in views:
        s[view].compute_inline()
    first, second = (Operand(v, x.along, x.tensor) for v, x in zip(views, sides))
    return added, (first, second)


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

    partial: Tensor = compute([parts, *extents_of(op)], element, f"{op.name}.parts")
    return _added(s, product, out, partial, partial, parts, machine)


def channels_in_parts(
    s: Schedule, conv: Tensor, out: Tensor, w: Windows, parts: int, machine: GpuMachine
) -> tuple[Tensor, Windows]:
    """As `in_parts`, of a convolution without groups: those of parts of the channels, each a group
    with all filters; and how their windows move."""
    op, sums = s[conv].op, conv.dtype
    own = replace(w, groups=parts, parts=parts)
    images, *shape = extents_of(op)
    at = len(shape) - 1 if w.last else 0
    filters, steps = shape[at], [reduce_axis((0, n), "k") for n in (own.channels, *w.taps)]
    c, dy, dx = (k.var for k in steps)

    def element(n: Any, p: Any, *i: Any) -> Any:
        f, place = i[at], [v for d, v in enumerate(i) if d != at]
        *planes, y, x = place if len(place) > 1 else (0, *place)
        if planes:
            n = n * shape[0 if w.last else 1] + planes[0]
        places = [
            v * stride + tap * far
            for v, tap, stride, far in zip((y, x), (dy, dx), w.strides, w.dilation)
        ]
        read = own.pixel(n, p * own.channels + c, *places)
        weight = own.weight(p * filters + f, c, dy, dx)
        return reduce_sum(cast(sums, read) * cast(sums, weight), axis=steps)

    partial: Tensor = compute([images, parts, *shape], element, f"{op.name}.parts")

    def part(p: int, n: Any, *i: Any) -> Any:
        return partial(n, p, *i)

    return _added(s, conv, out, partial, part, parts, machine), own


def _added(
    s: Schedule,
    product: Tensor,
    out: Tensor,
    partial: Tensor,
    part: Callable[..., Any],
    parts: int,
    machine: GpuMachine,
) -> Tensor:
    """The products of parts, a tensor in which `part(p, *place)` is an element of one, and what
    adds them up in the place of the whole one."""
    op = s[product].op

    def added(*i: Any) -> Any:
        total: Any = part(0, *i)
        for p in range(1, parts):
            total = total + part(p, *i)
        return total

    last = product.op is out.op
    restated(s, product, compute(extents_of(op), added, op.name))
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
