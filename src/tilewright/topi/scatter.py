"""Reading and writing at places that the data says: gather and scatter.

An index below zero counts from the end of its dimension. One that is outside is moved to the first
or last element where it is read from, and writes nothing. Scattering is a loop over the updates on
CPUs; on GPUs all are made at once (scatter_at_once.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import prod
from typing import Any

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import op as O
from ..loopir.expr import PrimExpr, cast, const, const_int
from ..loopir.ir_builder import IRBuilder
from ..tensor.compute import compute
from ..tensor.extents import dimension
from ..tensor.extern import extern
from ..tensor.tensor import Tensor
from .elemwise import accumulator
from .elemwise import cast as cast_all
from .lines import on_device
from .scatter_at_once import Scatter, scatter_at_once
from .transform import INJECTIVE, index_within
from .utils import (
    AT_LEAST_1,
    get_const_int,
    get_const_tuple,
    of_rank,
    ravel_index,
    unravel_index,
)

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": O.min,
    "max": O.max,
    "mean": lambda old, new: (old + new) / const(2, old.dtype),
}


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """Of every place of `indices` the element of `data` there, but at the index along `axis`.
    Returns the shape of `indices`, which are integers, and the type of `data`, which is any. Raises
    TilewrightError where `axis` is no integer, or no dimension of the tensor."""
    at = dimension(axis, data.ndim)

    def element(*i: Any) -> Any:
        place = index_within(indices(*i), data.shape[at], "from_end")
        return data(*i[:at], place, *i[at + 1 :])

    result: Tensor = compute(indices.shape, element, "T_gather", INJECTIVE)
    return result


def _index_shape(indices: Tensor, index_axis: int) -> tuple[int, list[Any]]:
    """How many numbers an index has, and the shape of the places that have one."""
    shape = [*get_const_tuple(indices.shape)]
    return get_const_int(shape.pop(index_axis)), shape


@of_rank(indices=AT_LEAST_1)
def gather_nd(a: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Slices of `a` at the indices along the first dimension of `indices`, of which those of floats
    are cut off behind the point; its next `batch_dims` dimensions are the first ones of `a`. Raises
    TilewrightError where indices reach over more dimensions than data has."""
    return gather_at(a, indices, batch_dims, 0)


def gather_at(a: Tensor, indices: Tensor, batch_dims: int, index_axis: int) -> Tensor:
    """As gather_nd, with the indices along dimension `index_axis` of `indices` (0 or -1)."""
    depth, places = _index_shape(indices, index_axis)
    whole = parse(indices.dtype).is_integer
    rank = len(places)
    if batch_dims + depth > a.ndim:
        raise TilewrightError(f"gather_nd: {a!r} has no {depth} dimensions for {indices!r}")

    def element(*i: Any) -> Any:
        where = [
            index_within(p if whole else cast("int32", p), extent, "from_end")
            for p, extent in (
                (indices(*_number(i[:rank], k, index_axis)), a.shape[batch_dims + k])
                for k in range(depth)
            )
        ]
        return a(*i[:batch_dims], *where, *i[rank:])

    shape = (*places, *a.shape[batch_dims + depth :])
    result: Tensor = compute(shape, element, "T_gather_nd", INJECTIVE)
    return result


def _number(place: Sequence[Any], k: int, index_axis: int) -> tuple[Any, ...]:
    """Where number `k` of the index of a place stands."""
    return (const(k), *place) if index_axis == 0 else (*place, const(k))


@of_rank(data=1)
def invert_permutation(data: Tensor) -> Tensor:
    """The permutation that undoes `data`, one of 0, 1, ...: where each of these stands in it. Takes
    (n,) of integers, whose shape and type the result keeps."""
    n = data.shape[0]
    places: Tensor = compute((n,), lambda i: cast(data.dtype, i), "T_places")
    start: Tensor = compute((n,), lambda i: const(0, data.dtype), "T_start")
    return scatter_elements(start, data, places)


def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "update"
) -> Tensor:
    """`data` with each element of `updates` written at its own place, but at the index along
    `axis`; combined with what is there by `reduction` (update, add, mul, min, max, or of floats
    mean: each update with what those before it gave). Of updates of one place, the last counts. On
    GPUs floats are added in no fixed order: sums may differ in their last bits from run to run.
    Raises TilewrightError where `axis` is no integer, or no dimension of the tensor, where the mean
    is asked for of integers, where reduction is unknown, or the mean is asked for where there is
    none."""
    at = dimension(axis, data.ndim)
    whole = get_const_tuple(data.shape)

    def along(i: Sequence[Any], k: Any) -> list[Any]:
        return [*i[:at], k, *i[at + 1 :]]

    plan = Scatter(
        data,
        indices,
        lambda read, u: along(u, _from_start(read(u), whole[at])),
        depth=data.ndim,
        lead=data.ndim,
        number=lambda u: u[at],
        source=along,
    )
    return _scatter(plan, updates, reduction, "T_scatter_elements")


@of_rank(indices=AT_LEAST_1)
def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str) -> Tensor:
    """`data` with the slices of `updates` written at the indices along the first dimension of
    `indices`, combined with what is there by `mode` (update, add, mul, min, max). Of updates of one
    place, the last counts; on GPUs floats are added in no fixed order. The result has shape and
    type of `data`, which is any; indices are integers. Raises TilewrightError where indices reach
    over more dimensions than data has, where reduction is unknown, or the mean is asked for where
    there is none."""
    return scatter_at(data, indices, updates, mode, 0)


def scatter_at(
    data: Tensor, indices: Tensor, updates: Tensor, mode: str, index_axis: int, first: int = 0
) -> Tensor:
    """As scatter_nd, with the indices along dimension `index_axis` of `indices` (0 or -1), of the
    dimensions from `first` on; updates have the places in their stead, behind those before them."""
    depth, places = _index_shape(indices, index_axis)
    whole = get_const_tuple(data.shape)
    rank = len(places)
    if first + depth > data.ndim:
        raise TilewrightError(f"scatter_nd: {data!r} has no {depth} dimensions for {indices!r}")

    def apart(k: Any) -> list[Any]:
        found: list[Any] = []
        for extent in reversed(places):
            found.insert(0, k % max(extent, 1))
            k = k // max(extent, 1)
        return found

    def at(read: Any, u: Sequence[Any]) -> list[Any]:
        numbers = [read(_number(u, n, index_axis)) for n in range(depth)]
        return [_from_start(p, d) for p, d in zip(numbers, whole[first:])]

    plan = Scatter(
        data,
        indices,
        lambda read, u: [*u[:first], *at(read, u[first : first + rank]), *u[first + rank :]],
        depth=first + depth,
        lead=first + rank,
        number=lambda u: ravel_index(u[first : first + rank], places) if places else const(0),
        source=lambda i, k: [*i[:first], *apart(k), *i[first + depth :]],
        first=first,
    )
    return _scatter(plan, updates, mode, "T_scatter_nd")


def _from_start(index: PrimExpr, extent: Any) -> PrimExpr:
    """An index that may count from the end, as one that counts from the start."""
    if index.dtype.startswith("uint"):
        return index
    zero = const(0, index.dtype)
    counted: PrimExpr = index + O.select(index < zero, cast(index.dtype, extent), zero)
    return counted


def _scatter(plan: Scatter, updates: Tensor, reduction: str, name: str) -> Tensor:
    """Sums and products of narrow floats are taken in float32 and rounded once."""
    if reduction not in _COMBINE:
        raise TilewrightError(
            f"scatter: reduction is one of {', '.join(_COMBINE)}, got {reduction!r}"
        )
    dtype = plan.data.dtype
    if reduction == "mean" and not parse(dtype).is_float:
        raise TilewrightError(f"{name}: there is no mean of {dtype}")
    wide = accumulator(dtype) if reduction in ("add", "mul", "mean") else dtype
    method = _at_once if on_device() else _in_order
    if wide == dtype:
        return method(plan, plan.data, updates, reduction, name)
    both = cast_all(plan.data, wide), cast_all(updates, wide)
    result: Tensor = cast_all(method(plan, *both, reduction, name), dtype)
    return result


def _at_once(plan: Scatter, data: Tensor, updates: Tensor, reduction: str, name: str) -> Tensor:
    return scatter_at_once(plan, data, updates, reduction, _COMBINE[reduction], name)


def _in_order(plan: Scatter, data: Tensor, updates: Tensor, reduction: str, name: str) -> Tensor:
    """A copy of the data, then one update after another, the elements of each at once."""

    def loops(build: IRBuilder, stack: ExitStack, shape: Sequence[Any]) -> list[Any]:
        kinds = ["parallel" if _pays(shape) else "serial", *["serial"] * len(shape)]
        each = (build.for_range(0, d, f"i{k}", kind=kinds[k]) for k, d in enumerate(shape))
        return [stack.enter_context(one) for one in each]

    def body(ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        build = IRBuilder()
        old, index, new = (build.buffer_ptr(x) for x in ins)
        out = build.buffer_ptr(outs[0])
        if data.ndim == 0:
            out[()] = old[()]
        with ExitStack() as stack:
            if i := loops(build, stack, _copied(data.shape)):
                place = _apart(i, data.shape)
                out[place] = old[place]
        with ExitStack() as stack:
            alike = plan.first and _pays(updates.shape)  # the first loop's turns are apart
            u = [
                stack.enter_context(build.for_range(0, d, f"u{k}", kind=kind))
                for k, d in enumerate(updates.shape[: plan.lead])
                for kind in ["parallel" if alike and k == 0 else "serial"]
            ]
            behind = [const(0)] * (updates.ndim - plan.lead)
            to = plan.target(lambda at: index[tuple(at)], [*u, *behind])
            to = [build.let(f"at{k}", p) for k, p in enumerate(to[: data.ndim - len(behind)])]
            sides = [(p >= 0, p < cast(p.dtype, d)) for p, d in zip(to, data.shape)]
            inside = O.all(const(1, "bool"), *(c for pair in sides for c in pair))
            stack.enter_context(build.if_scope(inside))
            shape = updates.shape[plan.lead :]
            part = _apart(loops(build, stack, _copied(shape)), shape) if shape else ()
            where, source = (*to, *part), (*u, *part)
            out[where] = _COMBINE[reduction](out[where], new[source])
        return build.get()

    inputs = [data, plan.indices, updates]
    result: Tensor = extern(data.shape, inputs, body, name, data.dtype)
    return result


_PARALLEL = 1 << 15  # elements that are worth waking threads for
_PIECE = 4096  # of them, that a thread does at once


def _size(shape: Sequence[Any]) -> int | None:
    """Elements of a shape; None where an extent is not known."""
    sizes = [const_int(d) for d in shape]
    return None if None in sizes else prod(n or 0 for n in sizes)


def _pays(shape: Sequence[Any]) -> bool:
    return (_size(shape) or 0) >= _PARALLEL


def _copied(shape: Sequence[Any]) -> Sequence[Any]:
    """The extents of loops over all elements: two, of pieces for threads, where they are many and
    divide into such; else those of the shape."""
    size = _size(shape) or 0
    piece = next((n for n in range(_PIECE, _PIECE // 8, -1) if size % n == 0), 0)
    return (size // piece, piece) if _pays(shape) and piece else tuple(shape)


def _apart(i: Sequence[Any], shape: Sequence[Any]) -> tuple[Any, ...]:
    """The indices of an element by loops over `_copied(shape)`."""
    loops = _copied(shape)
    if tuple(loops) == tuple(shape):
        return tuple(i)
    return tuple(unravel_index(i[0] * loops[1] + i[1], shape))


def tensor_scatter(data: Tensor, update: Tensor, start: Tensor, axis: int, mode: str) -> Tensor:
    """`data` with `update` written from index start[b] on along `axis`, b being the first
    dimension's index; mode "circular" goes on at the front, "linear" ends with the data. The result
    has the type of `data`, which is any. Raises TilewrightError where `axis` is no integer, or no
    dimension of the tensor."""
    at = dimension(axis, data.ndim)
    size, count = data.shape[at], update.shape[at]

    def element(*i: Any) -> Any:
        first = start(i[0])
        ahead = cast(first.dtype, i[at]) - first
        if mode == "circular":
            ahead = O.floormod(ahead, cast(first.dtype, size))
        inside = O.all(ahead >= 0, ahead < cast(first.dtype, count))
        return O.if_then_else(inside, update(*i[:at], ahead, *i[at + 1 :]), data(*i))

    result: Tensor = compute(data.shape, element, "T_tensor_scatter", INJECTIVE)
    return result
