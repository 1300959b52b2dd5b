"""Running sums on a device: a block has a line, or a part of a long one, a tile of it at a time.

Each thread joins some neighbours; what comes before those it learns from the others through shared
memory, in which sums of twice as many threads stand after each step (Hillis and Steele: Data
Parallel Algorithms, 1986). Where lines are too few for all blocks, these have parts of them: a
kernel joins the elements of each part, one makes running sums of these, and a third goes on from
them, always in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..loopir import op as O
from ..loopir.expr import cast, const
from ..loopir.ir_builder import IRBuilder
from ..target.target import Target
from ..tensor.compute import placeholder
from .lines import Lines, kernel, threads_of, variable
from .schedules.gpu.machine import GpuMachine

LEAST = 64  # elements of a line, that are work for a warp
MANY = 4096  # neighbouring lines that fill a device with a thread each
_THREADS = 256  # of a block
_EACH = 4  # elements of a thread
_LEAST_TILES = 4  # of a part: it is read twice
_BLOCKS = 2  # at once on a processor


def in_blocks(lines: Lines) -> bool:
    """Whether a block has a line, rather than a thread: lines are long, and their threads would be
    few, or read far from each other."""
    known = isinstance(lines.length, int) and isinstance(lines.count, int)
    along = lines.axis == len(lines.shape) - 1
    return known and lines.length >= LEAST and (along or lines.count < MANY) and lines.count > 0


def parts_of(lines: Lines) -> int:
    """Into how many parts lines are cut, each of which is work for a block."""
    tiles = -(-lines.length // (threads_of(_THREADS) * _EACH))
    target = Target.current(allow_none=False)
    assert target is not None, "asked for on a device"
    enough = _BLOCKS * GpuMachine.of(target).filling
    parts: int = max(1, min(tiles // _LEAST_TILES, enough // lines.count))
    return parts


@dataclass(frozen=True)
class Sums:
    """Running sums of `dtype` of what `read` finds at indices, which `write` gets at the same ones;
    `join` has the neutral `start`."""

    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None]
    join: Callable[[Any, Any], Any]
    start: Any
    dtype: str
    exclusive: bool
    reverse: bool


def scan_lines(ib: IRBuilder, lines: Lines, sums: Sums, between: Any) -> None:
    """Kernels that make running sums of lines; `between` has a number of their type for each line
    and part, where there are several parts."""
    parts = parts_of(lines)
    if parts == 1:
        _scan(ib, lines, sums, 1)
        return
    whole = Lines(placeholder((lines.count, parts), sums.dtype), 1)
    of_parts = replace(
        sums,
        read=lambda at: between[at],
        write=lambda at, value: between.__setitem__(at, value),
        exclusive=True,
        reverse=False,
    )
    _scan(ib, lines, sums, parts, total=lambda at, value: between.__setitem__(at, value))
    _scan(ib, whole, of_parts, 1)
    _scan(ib, lines, sums, parts, ahead=lambda at: between[at])


def _scan(
    ib: IRBuilder,
    lines: Lines,
    sums: Sums,
    parts: int,
    total: Callable[[Any, Any], None] | None = None,
    ahead: Callable[[Any], Any] | None = None,
) -> None:
    """A kernel whose blocks have parts of lines. It gives `total` what a part comes to, at (line,
    part), and writes nothing else, or goes on from what is `ahead` of it."""
    dtype, join, start = sums.dtype, sums.join, cast(sums.dtype, sums.start)
    threads = threads_of(_THREADS)
    while threads > 32 and threads * _EACH >= 2 * lines.length:
        threads //= 2
    tiles = -(-lines.length // (threads * _EACH))
    each_part = -(-tiles // parts)
    vectors = lines.length % _EACH == 0 and lines.axis == len(lines.shape) - 1 and not sums.reverse
    with kernel(ib, lines.count * parts, threads) as (block, t):
        together = ib.allocate(dtype, 2 * threads, name="sums", scope="shared")
        own = ib.allocate(dtype, _EACH, name="own", scope="local")
        line, part = (block, const(0)) if parts == 1 else (block // parts, block % parts)
        carry = variable(ib, dtype, ahead((line, part)) if ahead else start, "carry")

        def each(first: Any, body: Callable[[Any, Any], None]) -> None:
            """A body for all elements of a thread from the first on, of which some may be none."""
            if vectors:
                lanes = ib.for_range(0, _EACH, name="lane", kind="vectorize")
                with ib.if_scope(first < lines.length), lanes as lane:
                    body(lane, lines.at(line, first + lane))
                return
            for n in range(_EACH):
                at = lines.length - 1 - (first + n) if sums.reverse else first + n
                with ib.if_scope(first + n < lines.length):
                    body(n, lines.at(line, at))

        def load(n: Any, at: Any) -> None:
            own[n] = sums.read(at)

        with ib.for_range(0, each_part, name="tile") as tile:
            first = ib.let("first", ((part * each_part + tile) * threads + t) * _EACH)
            for n in range(_EACH):
                own[n] = start
            each(first, load)
            mine = variable(ib, dtype, start, "total")
            for n in range(_EACH):
                more = ib.let("more", join(mine[0], own[n]))
                own[n] = mine[0] if sums.exclusive else more
                mine[0] = more
            together[t] = mine[0]
            at = _join_threads(together, t, threads, join, start)
            if not total:
                last = O.if_then_else(t > 0, together[at + O.max(t - 1, 0)], start)
                before = ib.let("ahead", join(carry[0], last))
                each(first, lambda n, at: sums.write(at, join(before, own[n])))
            carry[0] = join(carry[0], together[at + threads - 1])
        if total:
            with ib.if_scope(t < 1):
                total((line, part), carry[0])


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
