"""On a device, boxes one after another, each kept where it is not too near to one kept before.

A block has a line of boxes, the best first, and takes some at a time: its threads compare those
with all that were kept before, and among each other; then every thread goes over them by the bits
of who is near to whom. So no matrix of all pairs is in memory, and boxes that are not kept cost no
more comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...loopir import op as O
from ...loopir.calls import call_intrin
from ...loopir.expr import StringImm, cast, const
from ...loopir.ir_builder import IRBuilder
from ..lines import kernel, threads_of, variable

_AT_ONCE = 64  # boxes: the bits of a word
_PARTS = 8  # threads for each of them, on most targets
_BITS = "uint64"
_BOTH = ("shared", "global")  # memories whose accesses a barrier orders


def sweep(
    ib: IRBuilder,
    lines: Any,
    used: Callable[[Any], Any],
    most: Any,
    counts: Callable[[Any, Any], Any],
    near: Callable[[Any, Any, Any], Any],
    kept: Any,
    tell: Callable[[Any, Any, Any], None] | None = None,
    total: Callable[[Any, Any], None] | None = None,
) -> None:
    """A kernel that goes over the first `used(line)` boxes of lines.

    A box that `counts(line, j)` is kept where it is `near(line, j, k)` to no `k` kept before, at
    most `most` of a line. `tell(line, j, whether)` learns of each whether it is kept, `total(line,
    number)` how many are; kept[line, n] becomes the n-th of them.
    """
    threads = threads_of(_AT_ONCE * _PARTS)
    at_once = min(_AT_ONCE, threads)
    parts = threads // at_once
    each = at_once // parts  # of the boxes at once, that a thread compares with one
    with kernel(ib, lines, threads) as (line, t):
        partly = ib.allocate(_BITS, threads, name="partly", scope="shared")
        bits = ib.allocate(_BITS, at_once, name="bits", scope="shared")
        found = variable(ib, "int32", 0, "found")
        own, part = ib.let("own", t % at_once), ib.let("part", t // at_once)
        count, limit = ib.let("count", used(line)), ib.let("limit", most)
        one, none = const(1, _BITS), const(0, _BITS)
        with ib.for_range(0, -(-count // at_once), name="some") as some:
            begin = ib.let("begin", some * at_once)
            j = ib.let("j", begin + own)
            # all bits stand for a box that cannot be kept
            mine = variable(ib, _BITS, O.max_value(_BITS), "mine")
            with ib.if_scope(O.all(j < count, found[0] < limit)), ib.if_scope(counts(line, j)):
                mine[0] = none
                n = variable(ib, "int32", part, "n")
                with ib.while_loop(n[0] < found[0]):
                    with ib.if_scope(near(line, j, kept[line, n[0]])):
                        mine[0] = O.max_value(_BITS)
                    n[0] = n[0] + parts
                before = ib.for_range(part * each, O.min(part * each + each, own), name="k")
                with before as k, ib.if_scope(near(line, j, begin + k)):
                    mine[0] = mine[0] | (one << cast(_BITS, k))
            partly[t] = mine[0]
            with ib.if_scope(part < 1):
                both = partly[t]
                for n in range(1, parts):
                    both = both | partly[t + n * at_once]
                bits[t] = both
            stay = variable(ib, _BITS, none, "stay")
            left = O.select(found[0] < limit, const(at_once), const(0))
            with ib.for_range(0, left, name="k") as k:
                other = ib.let("other", bits[k])
                free = O.all(
                    other != O.max_value(_BITS), (other & stay[0]).equal(none), found[0] < limit
                )
                with ib.if_scope(free):
                    with ib.if_scope(t < 1):
                        kept[line, found[0]] = begin + k
                    stay[0] = stay[0] | (one << cast(_BITS, k))
                    found[0] = found[0] + 1
            if tell:
                with ib.if_scope(O.all(part < 1, j < count)):
                    tell(line, j, ((stay[0] >> cast(_BITS, own)) & one).equal(one))
            # what is kept is read next by all threads, of memory that passes do not look at
            ib.emit(call_intrin("int32", "tir.tvm_storage_sync", *map(StringImm, _BOTH)))
        if total:
            with ib.if_scope(t < 1):
                total(line, found[0])
