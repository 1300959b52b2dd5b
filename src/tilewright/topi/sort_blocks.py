"""Sorting lines on a device, stably, by merging.

A thread sorts a few neighbours in its registers. Runs of neighbouring threads are merged in shared
memory until a line, or a tile of a long one, is in order; runs of tiles are merged by further
kernels, each block a part of what comes out. Every thread finds by halving where its part of two
runs begins and merges as many elements as all others (Green, McColl and Bader: GPU Merge Path,
2012). Where few elements of long lines are wanted, only as many of each tile are kept and sorted
again, in tiles of what was kept, until there is one.

A line is filled up with the last of all keys, which stand behind all others, as merging is stable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.dtype import parse
from ..loopir import op as O
from ..loopir.expr import cast, const
from ..loopir.ir_builder import IRBuilder
from .lines import bisected, kernel, threads_of, variable

Read = Callable[[Any, Any], tuple[Any, Any]]  # the key and the place at (line, index)
Write = Callable[[Any, Any, Any, Any], None]  # a key and a place to (line, index)

_THREADS = 256  # of a block: enough to hide the latency of shared memory
_LEAST, _EACH, _MOST = 5, 7, 9  # elements of a thread; odd, so that neighbours' are in other banks
_WARP = 32
_FEWER = 2  # as many times fewer elements a kernel that only keeps the first ones must leave


@dataclass(frozen=True)
class Tile:
    """How a block sorts: `each` elements of a thread, `group` threads for a line or a part of it,
    `runs` of these."""

    each: int
    group: int
    runs: int

    @property
    def length(self) -> int:
        return self.each * self.group

    @property
    def threads(self) -> int:
        return self.group * self.runs


def tile_of(dtype: str, count: Any, length: int) -> Tile:
    """What a block has of `count` lines of keys of a type: some whole ones, with as little as
    possible to fill up, or a part of a long one."""
    threads = threads_of(_THREADS, _MOST * (parse(dtype).nbytes + 4))
    if length > threads * _MOST:
        return Tile(_EACH, threads, 1)
    possible = range(min(length, _LEAST) | 1, _MOST + 1, 2)
    sizes = [(each << j, -each) for each in possible for j in range(threads.bit_length())]
    size, each = min(s for s in sizes if s[0] >= length)
    group = size // -each
    runs = 1
    many = count // threads if isinstance(count, int) else 1
    least = min(_WARP, threads)
    while group * runs < least or (group * runs < threads and runs < many):
        runs *= 2
    return Tile(-each, group, runs)


def room_of(dtype: str, count: Any, length: int, wanted: int) -> int:
    """Elements of a line that are kept between kernels, on either of two sides; none of a line that
    is no longer than a tile."""
    length, run = _rounds(dtype, count, length, wanted)[0]
    tiles = -(-length // tile_of(dtype, count, length).length)
    return tiles * run if tiles > 1 else 0


def sort_lines(
    ib: IRBuilder,
    dtype: str,
    shape: tuple[Any, int, int],
    key: Callable[[Any, Any], Any],
    write: Callable[[Any, Any, Any], None],
    between: Sequence[Any],
) -> None:
    """Kernels that write the places of the first elements of lines, in order, at (line, number).

    `shape`: lines, the length of each, and how many elements of it are wanted; `key(line, place)`
    is an integer of `dtype` to order by. `between`: keys and places, (lines, 2, room_of(dtype,
    *shape)), where there is room.
    """
    count, length, wanted = shape

    def read(line: Any, place: Any) -> tuple[Any, Any]:
        return key(line, place), place

    def finish(line: Any, index: Any, _: Any, place: Any) -> None:
        with ib.if_scope(index < wanted):
            write(line, index, place)

    def from_side(side: Any) -> Read:
        return lambda line, index: (between[0][line, side, index], between[1][line, side, index])

    def to_side(side: Any) -> Write:
        def keep(line: Any, index: Any, k: Any, place: Any) -> None:
            between[0][line, side, index] = k
            between[1][line, side, index] = place

        return keep

    source: Read = read
    rounds = _rounds(dtype, count, length, wanted)
    for n, (size, run) in enumerate(rounds):
        tile = tile_of(dtype, count, size)
        tiles = -(-size // tile.length)
        to = to_side(n % 2) if tiles > 1 else finish
        _sort_tiles(ib, dtype, tile, (count, size, run), source, to)
        source = from_side(n % 2)
    if tiles == 1:
        return
    levels = (tiles - 1).bit_length()
    first = (len(rounds) - 1) % 2
    if levels > 1:
        with ib.for_range(0, levels - 1, name="level") as level:
            side = ib.let("side", (level + first) & 1)
            whole = (count, tiles, tiles)
            _merge_runs(ib, dtype, tile, whole, level, from_side(side), to_side(1 - side))
    last = levels - 1
    shown = -(-wanted // tile.length)
    source = from_side((last + first) % 2)
    _merge_runs(ib, dtype, tile, (count, tiles, shown), const(last), source, finish)


def _rounds(dtype: str, count: Any, length: int, wanted: int) -> list[tuple[int, int]]:
    """The lengths of lines whose tiles are sorted one after another, and how many elements of a
    tile are kept: only the wanted ones, as long as that leaves much less."""
    found: list[tuple[int, int]] = []
    while True:
        tile = tile_of(dtype, count, length).length
        tiles = -(-length // tile)
        if tiles == 1 or tiles * wanted * _FEWER > length:
            return [*found, (length, tile)]
        found.append((length, wanted))
        length = tiles * wanted


def _sort_tiles(
    ib: IRBuilder,
    dtype: str,
    tile: Tile,
    shape: tuple[Any, int, int],
    read: Read,
    write: Write,
) -> None:
    """A kernel that leaves the first elements of each tile in order; `shape`: lines, the length of
    each, how many elements of a tile are wanted. Behind the first tile's ones stand the next's."""
    count, length, wanted = shape
    tiles = -(-length // tile.length)
    with kernel(ib, -(-count * tiles // tile.runs), tile.threads) as (block, t):
        own = _Own(ib, dtype, tile.each, tile.threads)
        for at in own.strided(t):
            run = ib.let("run", block * tile.runs + at // tile.length)
            place = ib.let("place", run % tiles * tile.length + at % tile.length)
            with ib.if_scope(O.all(run < count * tiles, place < length)):
                own.keys[at], own.places[at] = read(run // tiles, place)
            with ib.else_scope():
                own.keys[at], own.places[at] = O.max_value(dtype), place
        own.load(t)
        own.sort()
        own.store(t)
        with ib.for_range(0, tile.group.bit_length() - 1, name="level") as level:
            group = ib.let("group", const(1) << level)
            begin = ib.let("begin", (t & ~(2 * group - 1)) * tile.each)
            middle = ib.let("middle", begin + group * tile.each)
            own.merge((begin, middle, middle + group * tile.each), t * tile.each - begin)
            own.store(t)
        for at in own.strided(t):
            run = ib.let("run", block * tile.runs + at // tile.length)
            index = ib.let("index", at % tile.length)
            with ib.if_scope(O.all(run < count * tiles, index < wanted)):
                number = run % tiles * wanted + index
                write(run // tiles, number, own.keys[at], own.places[at])


def _merge_runs(
    ib: IRBuilder,
    dtype: str,
    size: Tile,
    shape: tuple[Any, int, int],
    level: Any,
    read: Read,
    write: Write,
) -> None:
    """A kernel that merges each two neighbours of the runs of lines, of 2^level tiles each; a block
    makes a tile. `shape`: lines, tiles of each, how many of what comes out are wanted."""
    count, tiles, wanted = shape
    length = size.length
    with kernel(ib, count * wanted, size.threads) as (block, t):
        own = _Own(ib, dtype, size.each, size.threads)
        ends = ib.allocate("int32", 2, name="ends", scope="shared")
        line = ib.let("line", block // wanted)
        tile = ib.let("tile", block % wanted)
        run = ib.let("run", const(1) << level)
        head = ib.let("head", tile & ~(2 * run - 1))
        begin = ib.let("begin", head * length)
        middle = ib.let("middle", O.min(head + run, tiles) * length)
        end = ib.let("end", O.min(head + 2 * run, tiles) * length)
        first = ib.let("first", (tile - head) * length)
        with ib.if_scope(t < 2):
            both = (begin, middle, end)
            ends[t] = _split(ib, lambda at: read(line, at)[0], both, first + t * length)
        ahead, border = ib.let("ahead", ends[0]), ib.let("border", ends[1] - ends[0])
        for at in own.strided(t):
            theirs = middle + (first - ahead) + (at - border)
            place = ib.let("place", O.select(at < border, begin + ahead + at, theirs))
            own.keys[at], own.places[at] = read(line, place)
        own.merge((const(0), border, const(length)), t * size.each)
        own.store(t)
        for at in own.strided(t):
            write(line, tile * length + at, own.keys[at], own.places[at])


def _split(ib: IRBuilder, key: Callable[[Any], Any], runs: tuple[Any, Any, Any], n: Any) -> Any:
    """How many of the first `n` elements of two merged runs are of the first run; where that and
    the second begin, and the second ends."""
    begin, middle, end = runs
    low, high = O.max(n - (end - middle), 0), O.min(n, middle - begin)
    return bisected(ib, low, high, lambda i: key(begin + i) <= key(middle + (n - 1 - i)))


class _Own:
    """Elements of a block in shared memory, and those of a thread in its registers."""

    def __init__(self, ib: IRBuilder, dtype: str, each: int, threads: int) -> None:
        self.ib, self.each, self.threads = ib, each, threads
        self.keys = ib.allocate(dtype, each * threads, name="keys", scope="shared")
        self.places = ib.allocate("int32", each * threads, name="places", scope="shared")
        self.own_keys = ib.allocate(dtype, each, name="own_keys", scope="local")
        self.own_places = ib.allocate("int32", each, name="own_places", scope="local")

    def strided(self, t: Any) -> Iterator[Any]:
        """The elements that a thread reads or writes together with its neighbours."""
        for n in range(self.each):
            with self.ib.new_scope():
                yield self.ib.let("at", t + n * self.threads)

    def load(self, t: Any) -> None:
        for n in range(self.each):
            self.own_keys[n] = self.keys[t * self.each + n]
            self.own_places[n] = self.places[t * self.each + n]

    def store(self, t: Any) -> None:
        for n in range(self.each):
            self.keys[t * self.each + n] = self.own_keys[n]
            self.places[t * self.each + n] = self.own_places[n]

    def sort(self) -> None:
        """Neighbours that are in the wrong order change places, even ones and odd ones by turns."""
        ib, keys, places = self.ib, self.own_keys, self.own_places
        for turn in range(self.each):
            for n in range(turn % 2, self.each - 1, 2):
                with ib.new_scope():
                    a, b = ib.let("a", keys[n]), ib.let("b", keys[n + 1])
                    p, q = ib.let("p", places[n]), ib.let("q", places[n + 1])
                    change = ib.let("change", b < a)
                    keys[n], keys[n + 1] = O.select(change, b, a), O.select(change, a, b)
                    places[n], places[n + 1] = O.select(change, q, p), O.select(change, p, q)

    def merge(self, runs: tuple[Any, Any, Any], n: Any) -> None:
        """The thread's elements of two runs in shared memory, from number `n` of both on."""
        ib, (begin, middle, end) = self.ib, runs
        n = ib.let("n", n)
        ahead = ib.let("ahead", _split(ib, lambda at: self.keys[at], runs, n))
        last = ib.let("last", end - 1)
        i = variable(ib, "int32", begin + ahead, "i")
        j = variable(ib, "int32", middle + (n - ahead), "j")
        mine = variable(ib, self.keys.dtype, self.keys[O.min(i[0], last)], "mine")
        theirs = variable(ib, self.keys.dtype, self.keys[O.min(j[0], last)], "theirs")
        for o in range(self.each):
            with ib.new_scope():
                left = O.any(j[0] >= end, O.all(i[0] < middle, mine[0] <= theirs[0]))
                left = ib.let("left", left)
                self.own_keys[o] = O.select(left, mine[0], theirs[0])
                at = ib.let("from", O.select(left, i[0], j[0]))
                self.own_places[o] = self.places[O.min(at, last)]
                if o + 1 < self.each:
                    more = ib.let("more", self.keys[O.min(at + 1, last)])
                    mine[0] = O.select(left, more, mine[0])
                    theirs[0] = O.select(left, theirs[0], more)
                    i[0] = i[0] + cast("int32", left)
                    j[0] = j[0] + cast("int32", O.bitwise_xor(left, const(True)))
