"""Running sums and products along an axis: cumsum, cumprod, scanop."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import add, mul
from typing import Any

from ..loopir.expr import cast
from ..loopir.ir_builder import create
from ..tensor.extern import extern
from ..tensor.tensor import Tensor
from .elemwise import accumulator
from .lines import Lines, each, on_device
from .scan_blocks import Sums, in_blocks, parts_of, scan_lines
from .transform import reshape

_WIDTH = 16  # neighbouring lines that are taken together, as lanes of a vector


def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
) -> Tensor:
    """Sums of all elements up to each, along an axis (of all in memory, without one); without the
    element itself where `exclusive`. Takes numbers of any type; the result is of `dtype` (None:
    that of `data`)."""
    return scanop(data, add, 0, "T_cumsum", axis, dtype, exclusive)


def cumprod(
    data: Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
) -> Tensor:
    """As cumsum, of products. Takes numbers of any type; the result is of `dtype` (None: that of
    `data`)."""
    return scanop(data, mul, 1, "T_cumprod", axis, dtype, exclusive)


def scanop(
    data: Tensor,
    binop: Callable[[Any, Any], Any],
    identity_value: Any,
    op_name: str,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
) -> Tensor:
    """As cumsum, with an associative operation of the user's own and its neutral element. Takes
    numbers of any type; the result is of `dtype` (None: that of `data`)."""
    return running(data, binop, identity_value, op_name, axis, dtype, bool(exclusive), False)


def running(
    data: Tensor,
    join: Callable[[Any, Any], Any],
    start: Any,
    name: str,
    axis: int | None,
    dtype: str | None,
    exclusive: bool,
    reverse: bool,
) -> Tensor:
    """As scanop, from the last element on where `reverse`. Narrow floats are joined in float32,
    each result rounded once. The shape stays."""
    x = reshape(data, (-1,)) if axis is None else data
    lines = Lines(x, 0 if axis is None else axis, fixed=False)
    kind = x.dtype if dtype in (None, "") else str(dtype)
    wide = accumulator(kind)

    along = lines.axis == x.ndim - 1
    last = 1 if along else lines.shape[-1]
    width = max(1, min(_WIDTH, last)) if isinstance(last, int) and not on_device() else 1

    blocks = on_device() and in_blocks(lines)
    parts = parts_of(lines) if blocks else 1

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        source, out, *between = (ib.buffer_ptr(b) for b in (*ins, *outs))

        def read(at: Any) -> Any:
            return cast(wide, cast(kind, source[at]))

        def write(at: Any, value: Any) -> None:
            out[at] = cast(kind, value)

        if blocks:
            sums = Sums(read, write, join, start, wide, exclusive, reverse)
            scan_lines(ib, lines, sums, between[0] if between else None)
            return ib.get()

        def piece(line: Any, lanes: int) -> None:
            """The lines from one on, of which `lanes` are neighbours."""
            total = ib.allocate(wide, lanes, name="total", scope="local")
            with ib.for_range(0, lanes, name="lane", kind="vectorize") as v:
                total[v] = cast(wide, start)
            with ib.for_range(0, lines.length, name="step") as step:
                *head, end = lines.at(line, lines.length - 1 - step if reverse else step)
                with ib.for_range(0, lanes, name="lane", kind="vectorize") as v:
                    at = (*head, end if along else end + v)
                    more = ib.let("more", join(total[v], read(at)))
                    write(at, total[v] if exclusive else more)
                    total[v] = more

        whole, rest = (last, 0) if width == 1 else divmod(last, width)
        steps = lines.count * lines.length
        rows = lines.count if along else prod(lines.others[:-1])
        with each(ib, rows * whole, steps) as n:
            piece(n // whole * last + n % whole * width, width)
        if rest:
            with each(ib, rows, steps) as n:
                piece(n * last + whole * width, rest)
        return ib.get()

    if parts > 1:
        shapes = [lines.shape, [lines.count, parts]]
        found: list[Tensor] = extern(shapes, [x], body, name, [kind, wide])
        return found[0]
    result: Tensor = extern(lines.shape, [x], body, name, kind)
    return result
