"""Parts of tensors: slices with constant, symbolic or computed bounds, and writing into slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..loopir import op as O
from ..loopir.expr import PrimExpr, cast, const, const_int, convert
from ..tensor.axes import var
from ..tensor.compute import compute
from ..tensor.extents import dimension
from ..tensor.tensor import Tensor
from .transform import INJECTIVE
from .utils import const_vector, get_const_int, simplify


def strided_slice(
    a: Tensor,
    begin: Any,
    end: Any,
    strides: Any = None,
    axes: Sequence[int] | None = None,
    slice_mode: str = "end",
    assume_inbound: bool = True,
) -> Tensor:
    """a[begin[0]:end[0]:strides[0], ...], as Python slices: numbers below zero count from the end.

    For dimensions `axes`, by default the first ones; a bound of None is the end of the dimension
    that the stride comes from or goes to. With slice_mode "size" `end` holds sizes (-1:
    all that is left) and strides do not count. Bounds may be expressions, or tensors of integers
    (then all are, see dynamic_strided_slice). Expressions are taken as they are, inside and of
    either sign's own meaning, where `assume_inbound`; else they count and are cut as Python does.
    Raises TilewrightError where slice_mode is unknown, or a slice has a step of 0 or no place in
    the tensor, where end has not one dimension.
    """
    if slice_mode not in ("end", "size"):
        raise TilewrightError(f"strided_slice: slice_mode is 'end' or 'size', got {slice_mode!r}")
    if any(isinstance(x, Tensor) for x in (begin, end, strides)):
        if axes is not None or slice_mode != "end":
            raise TilewrightError("strided_slice by tensors takes neither axes nor sizes")
        return _sliced_by_tensors(a, begin, end, strides)
    steps: list[Any] = [1] * a.ndim
    starts: list[Any] = [0] * a.ndim
    shape: list[Any] = list(a.shape)
    named = axes if axes is not None else range(len(begin))
    which = [dimension(d, a.ndim) for d in named]
    given = list(strides) if strides is not None and slice_mode == "end" else []
    given += [1] * (len(begin) - len(given))
    for k, b, e, s in zip(which, begin, end, map(get_const_int, given)):
        if s == 0:
            raise TilewrightError(f"strided_slice: [{b}:{e}:{s}] of dimension {k} of {a!r}")
        if b is None:
            b = 0 if s > 0 else a.shape[k] - 1
        if e is None:
            e = -1 if slice_mode == "size" else a.shape[k] if s > 0 else -1 - a.shape[k]
        bounds = [const_int(convert(x)) for x in (b, e, a.shape[k])]
        numbers = [x for x in bounds if x is not None]
        if len(numbers) == 3:
            starts[k], shape[k] = _known((numbers[0], numbers[1], numbers[2]), s, slice_mode)
        else:
            starts[k], shape[k] = _unknown(b, e, a.shape[k], s, slice_mode, assume_inbound)
        steps[k] = s

    def element(*i: Any) -> Any:
        return a(*[j * s + b for j, b, s in zip(i, starts, steps)])

    result: Tensor = compute(shape, element, "T_strided_slice", INJECTIVE)
    return result


def _known(bounds: tuple[int, int, int], s: int, mode: str) -> tuple[int, int]:
    """Start and count of begin, end and extent."""
    b, e, size = bounds
    if mode == "size":
        e = size if e < 0 else (b if b >= 0 else b + size) + e
    taken = range(size)[b:e:s]
    return taken.start, len(taken)


def _unknown(b: Any, e: Any, size: Any, s: int, mode: str, inbound: bool) -> tuple[Any, Any]:
    """Start and count of a slice of which something is an expression."""
    b, e = convert(b), convert(e)
    if mode == "size":
        return b, (size - b if const_int(e) == -1 else e)
    known = [const_int(x) for x in (b, e)]
    low, high = (0, size) if s > 0 else (-1, size - 1)

    def place(x: PrimExpr, number: int | None) -> Any:
        if number is None and inbound:
            return x
        if number is not None and number >= 0 and inbound:
            return O.min(number, high) if number >= 1 << 30 else convert(number)
        if number is not None and number < 0 and inbound:
            return O.max(x + size, low) if number < -(1 << 30) else x + size
        counted = O.select(x < 0, x + size, x)
        return O.max(O.min(counted, high), low)

    start, stop = place(b, known[0]), place(e, known[1])
    length = (stop - start + s - 1) // s if s > 0 else (start - stop - s - 1) // -s
    return simplify(start), simplify(O.max(length, 0) if not inbound else length)


def _sliced_by_tensors(a: Tensor, begin: Any, end: Any, strides: Any) -> Tensor:
    """Bounds in tensors: the result's extents are variables of the caller's arrays."""
    count = next(get_const_int(x.shape[0]) for x in (begin, end, strides) if isinstance(x, Tensor))
    steps = [1] * count if strides is None else strides
    shape = [*(var("dim") for _ in range(count)), *a.shape[count:]]
    return dynamic_strided_slice(a, begin, end, steps, shape)


def dynamic_strided_slice(
    a: Tensor, begin: Any, end: Any, strides: Any, output_shape: Sequence[Any]
) -> Tensor:
    """As strided_slice of the first dimensions, with bounds in tensors of one dimension, or lists
    of numbers. The result has `output_shape`, which has to agree with `end`. Raises TilewrightError
    where end has not one dimension, and UsageError where `begin` has an extent or a value that has
    to be constant and is not."""
    begin, end, strides = (
        x if isinstance(x, Tensor) else const_vector(np.asarray(x, "int64"))
        for x in (begin, end, strides)
    )
    if end.ndim != 1:
        raise TilewrightError(f"dynamic_strided_slice: end has one dimension, got {end!r}")
    count = get_const_int(begin.shape[0])

    def element(*i: Any) -> Any:
        at = list(i)
        for k in range(count):
            size = cast(begin.dtype, a.shape[k])
            given, s = begin(k), cast(begin.dtype, strides(k))
            b = O.select(given < 0, given + size, given)
            first = O.select(s < 0, O.min(b, size - 1), O.max(O.min(b, size), const(0, b.dtype)))
            at[k] = cast(i[k].dtype, first + cast(b.dtype, i[k]) * s)
        return a(*at)

    result: Tensor = compute(output_shape, element, "T_strided_slice_dynamic", INJECTIVE)
    return result


def strided_set(
    a: Tensor, v: Tensor, begin: Tensor, end: Tensor, strides: Tensor | None = None
) -> Tensor:
    """`a` with a[begin[0]:end[0]:strides[0], ...] = v. Bounds are tensors of int32 of one
    dimension; where they end, slices take all. Raises TilewrightError where begin, end or strides
    is no vector of int32."""
    for name, x in (("begin", begin), ("end", end), ("strides", strides)):
        if x is not None and (x.ndim != 1 or x.dtype != "int32"):
            raise TilewrightError(f"strided_set: {name} is a vector of int32, got {x!r}")

    def bounds(k: int) -> tuple[Any, Any, Any]:
        size = a.shape[k]

        def given(x: Tensor | None, other: Any) -> Any:
            return x(k) if x is not None and k < get_const_int(x.shape[0]) else other

        s = given(strides, const(1))
        b: Any = given(begin, O.select(s > 0, const(0), size - 1))
        e = given(end, O.select(s > 0, size, -(size + 1)))
        b, e = O.select(b < 0, b + size, b), O.select(e < 0, e + size, e)
        top, low = O.select(s > 0, size, size - 1), O.select(s > 0, const(0), const(-1))
        return O.max(O.min(b, top), low), O.max(O.min(e, top), low), s

    def element(*i: Any) -> Any:
        inside, places = [], []
        for k, j in enumerate(i):
            b, e, s = bounds(k)
            away, size = O.select(s > 0, j - b, b - j), O.max(O.abs(s), 1)
            before_end = O.select(s > 0, j < e, j > e)
            inside += [away >= 0, before_end, O.floormod(away, size).equal(0)]
            places.append(O.max(O.min(O.floordiv(away, size), v.shape[k] - 1), 0))
        return O.if_then_else(O.all(*inside), v(*places), a(*i))

    result: Tensor = compute(a.shape, element, "strided_set", "injective,strided_set")
    return result


def split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """A tensor in parts along an axis: in so many equal ones, or at these indices. Gives tensors of
    the type of `ary`, which is any, and of its shape but for that axis. Raises TilewrightError
    where the dimension does not divide, or the indices do not ascend, where `axis` is no integer,
    or no dimension of the tensor."""
    at = dimension(axis, ary.ndim)
    size = ary.shape[at]
    if isinstance(indices_or_sections, int):
        count, known = indices_or_sections, const_int(size)
        if count < 1 or (known is not None and known % count):
            raise TilewrightError(f"split: dimension {at} of {ary!r} does not divide by {count}")
        step: Any = known // count if known is not None else size // count
        starts = [step * k for k in range(count)]
    else:
        starts = [0, *indices_or_sections]
        numbers = [x for x in (const_int(convert(x)) for x in starts) if x is not None]
        if numbers != sorted(numbers):
            raise TilewrightError(f"split: the indices {indices_or_sections} have to ascend")
    ends = [*starts[1:], size]
    return [_part(ary, at, b, simplify(convert(e) - b)) for b, e in zip(starts, ends)]


def _part(ary: Tensor, at: int, start: Any, length: Any) -> Tensor:
    shape = [*ary.shape[:at], length, *ary.shape[at + 1 :]]
    result: Tensor = compute(
        shape, lambda *i: ary(*i[:at], i[at] + start, *i[at + 1 :]), "T_split", INJECTIVE
    )
    return result


def sliding_window(
    data: Tensor, axis: int, window_shape: Sequence[int], strides: Sequence[int]
) -> Tensor:
    """All windows over the dimensions from `axis` on: those before it, how many windows there are
    in each, the window's own. Takes any type, which the result keeps. Raises TilewrightError where
    the window has not the dimensions from axis on, where `axis` is no integer, or no dimension of
    the tensor."""
    at = dimension(axis, data.ndim)
    if not len(window_shape) == len(strides) == data.ndim - at:
        raise TilewrightError(
            f"sliding_window: a window has the dimensions from {at} on of {data!r}"
        )
    rest = data.shape[at:]
    counts = [(d - w) // s + 1 for d, w, s in zip(rest, window_shape, strides)]

    def element(*i: Any) -> Any:
        windows, inner = i[at : at + len(counts)], i[at + len(counts) :]
        return data(*i[:at], *(w * s + j for w, s, j in zip(windows, strides, inner)))

    shape = [*data.shape[:at], *map(simplify, counts), *window_shape]
    result: Tensor = compute(shape, element, "T_sliding_window", INJECTIVE)
    return result
