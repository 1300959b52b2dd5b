"""Sorting along an axis: sort, argsort, topk.

A line is sorted by merging, stably: n log n steps. Where few of many elements are wanted, those
that may be among them are collected until there are twice as many, and the better half of these
stays, which is found by halving the range of keys that its last one may lie in: counting those
below takes a step for a vector of them. So it takes hardly more than n steps, in whatever order the
line is. Very few are kept in order, and a better one is put in its place among them. On devices,
where a thread by itself is slow, blocks of threads sort tiles and merge them (sort_blocks.py); the
elements of lines whose length is not known are counted: how many come before each.
"""

from __future__ import annotations

from typing import Any

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import op as O
from ..loopir.expr import cast, const, const_int, convert
from ..loopir.ir_builder import IRBuilder, create
from ..tensor.axes import reduce_axis, size_var
from ..tensor.compute import compute
from ..tensor.extents import dimension
from ..tensor.extern import extern
from ..tensor.reduce import sum as reduce_sum
from ..tensor.tensor import Tensor
from .lines import Lines, each, on_device, variable
from .sort_blocks import room_of, sort_lines
from .utils import unravel_index

_ROOM = 64  # for candidates, beside twice as many as are wanted
_CHUNK = 16  # elements whose keys are made at a time, and counted
_INSERTED = 16  # as many are kept in order; each that is better moves half of them


def sort(data: Tensor, axis: int = -1, is_ascend: int = 1) -> Tensor:
    """The elements along an axis in order; what is not a number counts as the largest. Shape and
    type of `data` stay. Raises TilewrightError where `axis` is no integer, or no dimension of the
    tensor."""
    lines = Lines(data, axis, fixed=False)
    return taken(data, _places(data, lines, lines.length, bool(is_ascend)), lines.axis)


def argsort(
    data: Tensor,
    valid_count: Tensor | None = None,
    axis: int = -1,
    is_ascend: int = 1,
    dtype: str = "float32",
) -> Tensor:
    """The places of the elements along an axis in order, equal ones in the order in which they
    stand. Of elements from place valid_count[line] of their line on, if that is given (lines in
    memory's order), the places follow as they are; places are int32 then, whatever `dtype` is.
    Returns the shape of `data`, of `dtype`; takes any type. Raises TilewrightError where
    valid_count is given and the type of `data` has no number to put last, where `axis` is no
    integer, or no dimension of the tensor."""
    lines = Lines(data, axis, fixed=False)
    if valid_count is None:
        return _cast(_places(data, lines, lines.length, bool(is_ascend)), dtype)
    return _valid_places(data, lines, valid_count, bool(is_ascend))


def topk(
    data: Tensor,
    k: Any = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int64",
) -> Any:
    """The k largest elements along an axis (the smallest with is_ascend; all where k < 1), in
    order, and their places: "both", "values" or "indices". Where `k` is a tensor or an expression
    that is no number, the extent of the results is a variable, which their arrays tell. Both have
    the shape of `data` with k elements along the axis; values have its type, places `dtype`. Raises
    TilewrightError where ret_type is unknown, where `axis` is no integer, or no dimension of the
    tensor, and OperandError where `k` is neither a number nor an expression."""
    lines = Lines(data, axis, fixed=False)
    number = None if isinstance(k, Tensor) else const_int(convert(k))
    wanted: Any = lines.length if number is not None and number < 1 else number
    places = _places(data, lines, size_var("k") if number is None else wanted, is_ascend)
    values = taken(data, places, lines.axis)
    indices = _cast(places, dtype)
    found = {"both": [values, indices], "values": values, "indices": indices}
    if ret_type not in found:
        raise TilewrightError(f"topk: ret_type is one of {', '.join(found)}, got {ret_type!r}")
    return found[ret_type]


def _cast(places: Tensor, dtype: str) -> Tensor:
    result: Tensor = compute(
        places.shape, lambda *i: cast(dtype, places(*i)), "T_places", "elemwise"
    )
    return result


def taken(data: Tensor, places: Tensor, axis: int) -> Tensor:
    """The elements of data at places along an axis."""
    axis = dimension(axis, data.ndim)

    def element(*i: Any) -> Any:
        return data(*i[:axis], places(*i), *i[axis + 1 :])

    result: Tensor = compute(places.shape, element, "T_sorted", "injective")
    return result


def _places(data: Tensor, lines: Lines, count: Any, ascending: bool) -> Tensor:
    """The places of the first `count` elements of each line in order, int32."""
    known = isinstance(lines.length, int) and isinstance(count, int)
    if known and count > lines.length:
        raise TilewrightError(f"{count} of the {lines.length} elements of a line of {data!r}")
    if on_device():
        if known and count > 0:
            return _merged_places(data, lines, count, ascending)
        return _counted_places(data, lines, count, ascending)
    few = known and count <= _INSERTED
    whole = -(-(2 * count + _ROOM) // _CHUNK) * _CHUNK if known else 0
    some = known and whole < lines.length
    room: Any = count if few else whole if some else lines.length
    order = _order_of(data.dtype)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, out, keys, places = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
        steps = lines.count * lines.length * (max(1, room.bit_length()) if known else 1)
        # a thread a block: others could not be kept apart from it, for all that is known here
        with each(ib, lines.count, steps, 1) as line:

            def key(place: Any) -> Any:
                return _key(x[lines.at(line, place)], ascending)

            half = _Line(ib, keys, places, line, room)
            choose = half.insert if few else half.select if some else half.sort_all
            choose(key, lines.length, count)
            with ib.for_range(0, count if known else O.min(count, lines.length), name="k") as k:
                out[lines.at(line, k)] = half.place(k)
        return ib.get()

    shapes = [lines.with_length(count), [lines.count, 2, room], [lines.count, 2, room]]
    found = extern(shapes, [data], body, "T_argsort", ["int32", order, "int32"])
    result: Tensor = found[0]
    return result


def _merged_places(data: Tensor, lines: Lines, count: int, ascending: bool) -> Tensor:
    """As _places, by kernels of many threads."""
    shape = (lines.count, lines.length, count)
    dtype, room = _order_of(data.dtype), room_of(_order_of(data.dtype), *shape)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, out, *between = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))

        def key(line: Any, place: Any) -> Any:
            return _key(x[lines.at(line, place)], ascending)

        def write(line: Any, number: Any, place: Any) -> None:
            out[lines.at(line, number)] = place

        sort_lines(ib, dtype, shape, key, write, between)
        return ib.get()

    shapes = [lines.with_length(count)]
    if not room:
        single: Tensor = extern(shapes, [data], body, "T_argsort", "int32")
        return single
    shapes += [[lines.count, 2, room]] * 2
    found = extern(shapes, [data], body, "T_argsort", ["int32", dtype, "int32"])
    result: Tensor = found[0]
    return result


def _valid_places(data: Tensor, lines: Lines, valid: Tensor, ascending: bool) -> Tensor:
    """As _places, of the first valid(line) elements; the places of others stay."""
    floats = parse(data.dtype).is_float
    if not floats and parse(data.dtype).bits == 64:
        raise TilewrightError(f"argsort with valid_count: {data!r} has no number to put last")
    order = _order_of(data.dtype) if floats else "int64"
    most = const(parse(order).max_value, order)
    axis = lines.axis

    def key(*i: Any) -> Any:
        line: Any = const(0)
        for d, j in enumerate(i):
            line = line if d == axis else line * data.shape[d] + j
        count = valid(*unravel_index(line, valid.shape))
        inside = cast(count.dtype, i[axis]) < count
        mine = rising(data(*i)) if floats else cast("int64", data(*i))
        mine = mine if ascending else O.bitwise_not(mine)
        return O.select(inside, O.min(mine, most - 1), most)

    keys: Tensor = compute(data.shape, key, "T_keys", "elemwise")
    return _places(keys, lines, lines.length, True)


def _order_of(dtype: str) -> str:
    """The type of integers that are in the order of the numbers of a type."""
    t = parse(dtype)
    return "uint8" if t.is_bool else f"int{t.bits}" if t.is_float else dtype


def _key(x: Any, ascending: bool) -> Any:
    """An integer in the order of the numbers of a type, or the other way round."""
    key = rising(x)
    return key if ascending else O.bitwise_not(key)


def rising(x: Any) -> Any:
    """An integer in the order of the numbers of a type. The bits of floats are, but for negative
    ones, whose order is the other way round, the two zeros, which are equal, and what is not a
    number, which shall be the largest."""
    order = _order_of(x.dtype)
    if not parse(x.dtype).is_float:
        return cast(order, x)
    bits, zero, most = O.reinterpret(order, x), const(0, order), O.max_value(order)
    plain = O.select(bits < zero, O.bitwise_xor(bits, most), bits)
    return O.select(x != x, most, O.select(x.equal(const(0, x.dtype)), zero, plain))


def _counted_places(data: Tensor, lines: Lines, count: Any, ascending: bool) -> Tensor:
    """As _places, by the number of elements before each."""
    axis = lines.axis
    j, k = (reduce_axis((0, lines.length), name) for name in ("j", "k"))

    def before(*i: Any) -> Any:
        mine = _key(data(*i), ascending)
        other = _key(data(*i[:axis], j, *i[axis + 1 :]), ascending)
        ahead = O.any(other < mine, O.all(other.equal(mine), j.var < i[axis]))
        return reduce_sum(cast("int32", ahead), axis=j)

    rank = compute(data.shape, before, "T_rank", "comm_reduce")

    def place(*i: Any) -> Any:
        here = rank(*i[:axis], k, *i[axis + 1 :]).equal(i[axis])
        return reduce_sum(O.select(here, k.var, const(0)), axis=k)

    result: Tensor = compute(lines.with_length(count), place, "T_argsort", "comm_reduce")
    return result


def _lanes(ib: IRBuilder) -> Any:
    """A loop over the elements of a chunk, at a time on a CPU."""
    return ib.for_range(0, _CHUNK, name="lane", kind="serial" if on_device() else "vectorize")


class _Line:
    """The statements that sort one line. It has two halves of `room` keys with their places, the
    elements are in half `side`, merged into the other."""

    def __init__(self, ib: IRBuilder, keys: Any, places: Any, line: Any, room: Any) -> None:
        self.ib, self.keys, self.places = ib, keys, places
        self.line, self.room = line, room
        self.side = variable(ib, "int32", 0, "side")
        self.used = variable(ib, "int32", 0, "used")

    def at(self, index: Any, other: bool = False) -> Any:
        return self.line, 1 - self.side[0] if other else self.side[0], index

    def place(self, index: Any) -> Any:
        return self.places[self.at(index)]

    def sort_all(self, key: Any, length: Any, _count: Any) -> None:
        """All keys, in order."""
        with self.ib.for_range(0, length, name="read") as read:
            self._append(key(read), read)
        self.sort()

    def select(self, key: Any, length: int, count: int) -> None:
        """The first `count` of all keys, in order; there is room for more than twice as many."""
        ib, t = self.ib, self.keys.dtype
        last = O.max_value(t)
        fresh = ib.allocate(t, (_CHUNK,), name="fresh", scope="local")
        read = variable(ib, "int32", 0, "read")
        full = variable(ib, "bool", False, "full")
        worst = variable(ib, t, 0, "worst")
        with ib.while_loop(read[0] < length):
            with ib.while_loop(O.all(read[0] < length, self.used[0] <= self.room - _CHUNK)):
                with _lanes(ib) as lane:
                    place = read[0] + lane
                    fresh[lane] = O.if_then_else(place < length, key(place), last)
                with ib.for_range(0, O.min(_CHUNK, length - read[0]), name="lane") as lane:
                    value = fresh[lane]
                    with ib.if_scope(O.any(O.bitwise_xor(full[0], const(True)), value < worst[0])):
                        self._append(value, read[0] + lane)
                read[0] = read[0] + _CHUNK
            with ib.if_scope(self.used[0] > count):
                worst[0] = self._keep(count)
                full[0] = const(True)
        self.sort()

    def _append(self, value: Any, place: Any) -> None:
        self.keys[self.at(self.used[0])] = value
        self.places[self.at(self.used[0])] = place
        self.used[0] = self.used[0] + 1

    def _keep(self, count: int) -> Any:
        """Leave the first `count` keys in order of their places; no less than the last of them, and
        less than others."""
        ib, t = self.ib, self.keys.dtype
        last = O.max_value(t)
        with ib.for_range(0, self.room - self.used[0], name="beyond") as more:
            self.keys[self.at(self.used[0] + more)] = last
        low = variable(ib, t, O.min_value(t), "low")
        high = variable(ib, t, last, "high")
        with ib.while_loop(low[0] < high[0]):
            # their mean, rounded down; never the last of all, that stands behind what is used
            middle = (low[0] & high[0]) + ((low[0] ^ high[0]) >> const(1, t))
            middle = ib.let("middle", middle)
            found = self._count(lambda keys: keys <= middle)
            with ib.if_scope(found < count):
                low[0] = middle + const(1, t)
            with ib.else_scope():
                high[0] = middle
                with ib.if_scope(found.equal(const(count))):
                    low[0] = middle
        equal = variable(ib, "int32", count - self._count(lambda keys: keys < high[0]), "equal")
        kept = variable(ib, "int32", 0, "kept")
        with ib.for_range(0, self.used[0], name="k") as k:
            value = ib.let("value", self.keys[self.at(k)])
            place = ib.let("place", self.places[self.at(k)])
            same = ib.let("same", value.equal(high[0]))
            stays = ib.let("stays", O.any(value < high[0], O.all(same, equal[0] > 0)))
            self.keys[self.at(kept[0])] = value
            self.places[self.at(kept[0])] = place
            kept[0] = kept[0] + cast("int32", stays)
            equal[0] = equal[0] - cast("int32", same)
        self.used[0] = kept[0]
        return high[0]

    def _count(self, true: Any) -> Any:
        """Of how many keys a comparison is true, with those that fill up the last chunk."""
        ib = self.ib
        sums = ib.allocate("int32", (_CHUNK,), name="sums", scope="local")
        with _lanes(ib) as lane:
            sums[lane] = const(0)
        chunks = -(-self.used[0] // _CHUNK)
        with ib.for_range(0, chunks, name="chunk") as chunk, _lanes(ib) as lane:
            keys = self.keys[self.at(chunk * _CHUNK + lane)]
            sums[lane] = sums[lane] + cast("int32", true(keys))
        total = variable(ib, "int32", 0, "total")
        with ib.for_range(0, _CHUNK, name="lane", kind="unroll") as lane:
            total[0] = total[0] + sums[lane]
        return ib.let("found", total[0])

    def insert(self, key: Any, length: int, count: int) -> None:
        """As select, for so few that those found so far are always in order."""
        ib = self.ib
        with ib.for_range(0, count, name="read") as read:
            self._put(ib.let("value", key(read)), read, read)
        worst = variable(ib, self.keys.dtype, self.keys[self.at(count - 1)], "worst")
        with ib.for_range(0, length - count, name="read") as more:
            value = ib.let("value", key(more + count))
            with ib.if_scope(value < worst[0]):
                self._put(value, more + count, const(count - 1))
                worst[0] = self.keys[self.at(count - 1)]

    def _put(self, value: Any, place: Any, last: Any) -> None:
        """An element behind those that are as good, which others move for; that at `last` goes."""
        ib = self.ib
        free = variable(ib, "int32", last, "free")
        before = self.keys[self.at(free[0] - 1)]
        with ib.while_loop(O.if_then_else(free[0] > 0, before > value, const(False))):
            self.keys[self.at(free[0])] = before
            self.places[self.at(free[0])] = self.places[self.at(free[0] - 1)]
            free[0] = free[0] - 1
        self.keys[self.at(free[0])] = value
        self.places[self.at(free[0])] = place

    def sort(self) -> None:
        """By merging runs of 1, 2, 4, ... elements."""
        ib, used = self.ib, self.used
        width = variable(ib, "int32", 1, "width")
        with ib.while_loop(width[0] < used[0]):
            begin = variable(ib, "int32", 0, "begin")
            with ib.while_loop(begin[0] < used[0]):
                middle = ib.let("middle", O.min(begin[0] + width[0], used[0]))
                end = ib.let("end", O.min(middle + width[0], used[0]))
                self._merge(begin[0], middle, end)
                begin[0] = end
            self.side[0] = 1 - self.side[0]
            width[0] = width[0] * 2

    def _merge(self, begin: Any, middle: Any, end: Any) -> None:
        """Two runs into one of the other half; of equals, the first run's is the first. Without
        branches, half of which would be taken wrongly: the last element stands for those behind."""
        ib, last = self.ib, self.room - 1
        i, j = variable(ib, "int32", begin, "i"), variable(ib, "int32", middle, "j")
        with ib.for_range(0, end - begin, name="o") as o:
            mine = ib.let("mine", self.keys[self.at(O.min(i[0], last))])
            theirs = ib.let("theirs", self.keys[self.at(O.min(j[0], last))])
            left = O.all(i[0] < middle, O.any(j[0] >= end, mine <= theirs))
            first = ib.let("first", left)
            self.keys[self.at(begin + o, True)] = O.select(first, mine, theirs)
            place = self.places[self.at(O.select(first, i[0], j[0]))]
            self.places[self.at(begin + o, True)] = place
            i[0] = i[0] + cast("int32", first)
            j[0] = j[0] + cast("int32", O.bitwise_xor(first, const(True)))
