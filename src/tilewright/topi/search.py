"""Searching: places where a condition holds, places in sorted sequences, distinct elements."""

from __future__ import annotations

from math import prod
from typing import Any

from ..base.errors import TilewrightError
from ..loopir import op as O
from ..loopir.expr import cast, const, const_int, convert
from ..loopir.ir_builder import create
from ..tensor.extents import same_extent
from ..tensor.extern import extern
from ..tensor.tensor import Tensor
from .chosen import gather_chosen, ranked
from .lines import bisected, each, on_device, variable
from .sorting import argsort
from .utils import get_const_int, get_const_tuple, unravel_index


def argwhere(output_shape: Tensor, condition: Tensor) -> Tensor:
    """The indices of the elements of `condition` that are not zero, a row for each, int32. The
    result has the shape of `output_shape`, (rows, dimensions), of which no element is read. Raises
    TilewrightError where `condition` is no tensor."""
    shape = condition.shape
    extents = get_const_tuple(shape)
    if on_device() and extents and all(isinstance(d, int) for d in extents) and prod(extents):
        return _argwhere_at_once(output_shape, condition, prod(extents))

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with each(ib, 1, 1):
            count = variable(ib, "int32", 0, "count")
            total: Any = 1
            for d in shape:
                total = total * d
            with ib.for_range(0, total, name="i") as i:
                at = unravel_index(i, shape)
                value = x[tuple(at)]
                with ib.if_scope(value != const(0, value.dtype)):
                    for k, j in enumerate(at):
                        out[count[0], k] = cast("int32", j)
                    count[0] = count[0] + 1
        return ib.get()

    result: Tensor = extern(output_shape.shape, [condition], body, "T_argwhere", "int32")
    return result


def _argwhere_at_once(output_shape: Tensor, condition: Tensor, total: int) -> Tensor:
    shape = condition.shape

    def holds(_: Any, i: Any) -> Any:
        value = condition(*unravel_index(i, shape))
        return value != const(0, value.dtype)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        flags, before, out = (ib.buffer_ptr(b) for b in (*ins, *outs))

        def move(_: Any, i: Any, to: Any, k: Any) -> None:
            *places, place = unravel_index(i, shape)
            for d in reversed(range(len(places))):
                place = O.select(k.equal(d), places[d], place)
            out[to, k] = cast("int32", place)

        gather_chosen(ib, (1, total, len(shape)), (flags, before), move)
        return ib.get()

    ranks = ranked((1, total), holds)
    result: Tensor = extern(output_shape.shape, ranks, body, "T_argwhere", "int32")
    return result


def searchsorted(
    sorted_sequence: Tensor, values: Tensor, right: bool = False, out_dtype: str = "int64"
) -> Tensor:
    """Where each value would stand in ascending numbers along the last dimension: in front of its
    equals, or behind them where `right`. The sequence has one dimension, or lines of its own, as
    many as values have. Takes numbers of any type; gives places of `out_dtype`. Raises
    TilewrightError where sorted_sequence and values have not the same lines."""
    (length,) = get_const_tuple(sorted_sequence.shape[-1:])
    lines = get_const_tuple(sorted_sequence.shape[:-1])
    others = values.shape[:-1]
    if lines and not (
        len(lines) == len(others) and all(same_extent(convert(a), b) for a, b in zip(lines, others))
    ):
        raise TilewrightError(
            f"searchsorted: the lines of {sorted_sequence!r} and {values!r} are not the same"
        )
    shape = get_const_tuple(values.shape)
    count = prod(shape)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        sequence, x, out = (ib.buffer_ptr(b) for b in (*ins, *outs))
        depth = max(1, length.bit_length()) if isinstance(length, int) else 1
        with each(ib, count, count * depth) as n:
            at = tuple(unravel_index(n, shape)) if shape else ()
            head = at[:-1] if lines else ()
            value = ib.let("value", x[at])

            def ahead(middle: Any, head: Any = head, value: Any = value) -> Any:
                there = sequence[(*head, middle)]
                return there <= value if right else there < value

            out[at] = cast(out_dtype, bisected(ib, 0, length, ahead))
        return ib.get()

    inputs = [sorted_sequence, values]
    result: Tensor = extern(values.shape, inputs, body, "T_searchsorted", out_dtype)
    return result


def unique(data: Tensor, is_sorted: bool = True, return_counts: bool = False) -> list[Tensor]:
    """The distinct elements of a tensor of one dimension, ascending, or in the order in which they
    first stand.

    Returns [elements, where each first stands, for each of the data its number among the elements,
    (1,) how many there are], and how often each stands where `return_counts`; int32 but for the
    elements. All but the fourth have room for as many as the data; what is behind is not written.
    Raises TilewrightError where data has not one dimension, or no elements, where valid_count is
    given and the type of `data` has no number to put last, where `data` is no tensor.
    """
    if data.ndim != 1 or const_int(data.shape[0]) == 0:
        raise TilewrightError(f"unique: data has one dimension and elements, got {data!r}")
    n = data.shape[0]
    order = argsort(data, dtype="int32")
    if on_device() and isinstance(const_int(n), int):
        found = _unique_at_once(data, order, is_sorted)
        return found[: 5 if return_counts else 4]

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, places = (ib.buffer_ptr(b) for b in ins)
        values, first, inverse, total, counts, number = (ib.buffer_ptr(b) for b in outs)
        with each(ib, 1, 1):
            group = variable(ib, "int32", -1, "group")
            with ib.for_range(0, n, name="i") as i:
                here = ib.let("here", places[i])
                before = places[O.max(i - 1, 0)]
                with ib.if_scope(O.any(i.equal(0), x[here] != x[before])):
                    group[0] = group[0] + 1
                    first[group[0]] = here
                    counts[group[0]] = const(0)
                    values[group[0]] = x[here]
                counts[group[0]] = counts[group[0]] + 1
                inverse[here] = group[0]
            total[0] = group[0] + 1
            if not is_sorted:
                _in_order_of_first(ib, n, x, (values, first, inverse, counts, number))
        return ib.get()

    shapes = [(n,), (n,), (n,), (1,), (n,), (2, n)]
    dtypes = [data.dtype, *["int32"] * 5]
    result: list[Tensor] = extern(shapes, [data, order], body, "T_unique", dtypes)
    return result[: 5 if return_counts else 4]


def _in_order_of_first(ib: Any, n: Any, x: Any, parts: Any) -> None:
    """Number groups, which are in the order of their elements, by where they first stand. `number`
    holds the new numbers of groups, and counts by these."""
    values, first, inverse, counts, number = parts
    found = variable(ib, "int32", 0, "found")
    with ib.for_range(0, n, name="i") as i:
        group = ib.let("group", inverse[i])
        with ib.if_scope(first[group].equal(i)):
            number[0, group] = found[0]
            number[1, found[0]] = counts[group]
            values[found[0]] = x[i]
            found[0] = found[0] + 1
    place = variable(ib, "int32", 0, "place")
    with ib.for_range(0, n, name="i") as i:
        new = ib.let("new", number[0, inverse[i]])
        inverse[i] = new
        with ib.if_scope(new.equal(place[0])):
            first[new] = i
            counts[new] = number[1, new]
            place[0] = place[0] + 1


def _unique_at_once(data: Tensor, order: Tensor, is_sorted: bool) -> list[Tensor]:
    """As `unique`, with all five, by kernels of many threads."""
    n = get_const_int(data.shape[0])

    def begins(_: Any, i: Any) -> Any:
        return O.any(i.equal(0), data(order(i)) != data(order(O.max(i - 1, 0))))

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, places, flags, before = (ib.buffer_ptr(b) for b in ins)
        values, first, inverse, total, counts, begin = (ib.buffer_ptr(b) for b in outs)
        with each(ib, n, n) as i:
            here = ib.let("here", places[i])
            group = ib.let("group", before[0, i] + flags[0, i] - 1)
            inverse[here] = group
            with ib.if_scope(flags[0, i] > 0):
                first[group] = here
                values[group] = x[here]
                begin[group] = i
            with ib.if_scope(i.equal(n - 1)):
                total[0] = group + 1
        with each(ib, n, n) as g, ib.if_scope(g < total[0]):
            end = O.if_then_else(g + 1 < total[0], begin[O.min(g + 1, n - 1)], const(n))
            counts[g] = end - begin[g]
        return ib.get()

    ranks = ranked((1, n), begins)
    shapes = [(n,), (n,), (n,), (1,), (n,), (n,)]
    dtypes = [data.dtype, *["int32"] * 5]
    found: list[Tensor] = extern(shapes, [data, order, *ranks], body, "T_unique", dtypes)
    return found[:5] if is_sorted else _by_first_place(data, found)


def _by_first_place(data: Tensor, groups: list[Tensor]) -> list[Tensor]:
    """What `unique` gives, its groups in the order in which they first stand."""
    n = get_const_int(data.shape[0])
    _, firsts, inverses, total, numbers, _ = groups

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, old_first, old_inverse, old_counts, before = (ib.buffer_ptr(b) for b in ins)
        values, first, inverse, counts = (ib.buffer_ptr(b) for b in outs)
        with each(ib, n, n) as i:
            group = ib.let("group", old_inverse[i])
            leader = ib.let("leader", old_first[group])
            new = ib.let("new", before[0, leader])
            inverse[i] = new
            with ib.if_scope(leader.equal(i)):
                first[new] = i
                values[new] = x[i]
                counts[new] = old_counts[group]
        return ib.get()

    before = ranked((1, n), lambda _, i: firsts(inverses(i)).equal(i))[1]
    inputs = [data, firsts, inverses, numbers, before]
    dtypes = [data.dtype, "int32", "int32", "int32"]
    values, first, inverse, counts = extern([(n,)] * 4, inputs, body, "T_unique_first", dtypes)
    return [values, first, inverse, total, counts]
