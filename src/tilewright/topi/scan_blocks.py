"""Running sums on a device: a block has a line, a tile of it at a time.

Each thread joins some neighbours; what comes before those it learns from the others through shared
memory, in which sums of twice as many threads stand after each step (Hillis and Steele: Data
Parallel Algorithms, 1986).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..loopir import op as O
from ..loopir.expr import cast
from ..loopir.ir_builder import IRBuilder
from ..tensor.axes import thread_axis
from .lines import Lines, variable

LEAST = 64  # elements of a line, that are work for a warp
MANY = 4096  # neighbouring lines that fill a device with a thread each
_THREADS = 256  # of a block
_EACH = 4  # elements of a thread


def in_blocks(lines: Lines) -> bool:
    """Whether a block has a line, rather than a thread: lines are long, and their threads would be
    few, or read far from each other."""
    known = isinstance(lines.length, int) and isinstance(lines.count, int)
    along = lines.axis == len(lines.shape) - 1
    return known and lines.length >= LEAST and (along or lines.count < MANY)


def scan_line(
    ib: IRBuilder,
    lines: Lines,
    read: Callable[[Any], Any],
    write: Callable[[Any, Any], None],
    join: Callable[[Any, Any], Any],
    start: Any,
    dtype: str,
    exclusive: bool,
    reverse: bool,
) -> None:
    """A kernel that writes at indices what running sums of `dtype` are of what is read there, from
    `start`, which is neutral."""
    threads = _THREADS
    while threads > 32 and threads * _EACH >= 2 * lines.length:
        threads //= 2
    block, thread = thread_axis("blockIdx.x"), thread_axis("threadIdx.x")
    ib.scope_attr(block, "thread_extent", lines.count)
    ib.scope_attr(thread, "thread_extent", threads)
    sums = ib.allocate(dtype, 2 * threads, name="sums", scope="shared")
    own = ib.allocate(dtype, _EACH, name="own", scope="local")
    start = cast(dtype, start)
    carry = variable(ib, dtype, start, "carry")
    t = thread.var

    def place(n: Any) -> Any:
        return lines.at(block.var, lines.length - 1 - n if reverse else n)

    with ib.for_range(0, -(-lines.length // (threads * _EACH)), name="tile") as tile:
        first = ib.let("first", (tile * threads + t) * _EACH)
        total = variable(ib, dtype, start, "total")
        for n in range(_EACH):
            if exclusive:
                own[n] = total[0]
            with ib.if_scope(first + n < lines.length):
                total[0] = join(total[0], read(place(first + n)))
            if not exclusive:
                own[n] = total[0]
        sums[t] = total[0]
        at, step = 0, 1
        while step < threads:
            before = O.if_then_else(t >= step, sums[at + O.max(t - step, 0)], start)
            sums[threads - at + t] = join(before, sums[at + t])
            at, step = threads - at, 2 * step
        last = ib.let("last", O.if_then_else(t > 0, sums[at + O.max(t - 1, 0)], start))
        ahead = ib.let("ahead", join(carry[0], last))
        for n in range(_EACH):
            with ib.if_scope(first + n < lines.length):
                write(place(first + n), join(ahead, own[n]))
        carry[0] = join(carry[0], sums[at + threads - 1])
