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
    return known and lines.length >= LEAST and (along or lines.count < MANY) and lines.count > 0


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

    vectors = lines.length % _EACH == 0 and lines.axis == len(lines.shape) - 1 and not reverse

    def each(first: Any, body: Callable[[Any, Any], None]) -> None:
        """A body for all elements of a thread from the first on, of which some may be none."""
        if vectors:
            lanes = ib.for_range(0, _EACH, name="lane", kind="vectorize")
            with ib.if_scope(first < lines.length), lanes as lane:
                body(lane, lines.at(block.var, first + lane))
            return
        for n in range(_EACH):
            at = lines.length - 1 - (first + n) if reverse else first + n
            with ib.if_scope(first + n < lines.length):
                body(n, lines.at(block.var, at))

    def load(n: Any, at: Any) -> None:
        own[n] = read(at)

    with ib.for_range(0, -(-lines.length // (threads * _EACH)), name="tile") as tile:
        first = ib.let("first", (tile * threads + t) * _EACH)
        for n in range(_EACH):
            own[n] = start
        each(first, load)
        total = variable(ib, dtype, start, "total")
        for n in range(_EACH):
            more = ib.let("more", join(total[0], own[n]))
            own[n] = total[0] if exclusive else more
            total[0] = more
        sums[t] = total[0]
        at = _join_threads(sums, t, threads, join, start)
        last = O.if_then_else(t > 0, sums[at + O.max(t - 1, 0)], start)
        ahead = ib.let("ahead", join(carry[0], last))
        each(first, lambda n, at: write(at, join(ahead, own[n])))
        carry[0] = join(carry[0], sums[at + threads - 1])


def _join_threads(
    sums: Any, t: Any, threads: int, join: Callable[[Any, Any], Any], start: Any
) -> int:
    """Have sums of all threads up to each stand in one half of shared memory; where that begins."""
    at, step = 0, 1
    while step < threads:
        before = O.if_then_else(t >= step, sums[at + O.max(t - step, 0)], start)
        sums[threads - at + t] = join(before, sums[at + t])
        at, step = threads - at, 2 * step
    return at
