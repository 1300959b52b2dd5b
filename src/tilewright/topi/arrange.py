"""Operations that repeat, mirror, crop or reorder elements, at places known ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import TilewrightError
from ..loopir import op as O
from ..loopir.expr import cast
from ..tensor.compute import compute
from ..tensor.tensor import Tensor
from .transform import INJECTIVE
from .utils import get_const_int


def tile(a: Tensor, reps: Sequence[int]) -> Tensor:
    """`a` repeated reps[k] times along dimension k."""
    if len(reps) != a.ndim:
        raise TilewrightError(f"tile: {len(reps)} repetitions for {a!r}")

    def element(*i: Any) -> Any:
        pairs = zip(i, a.shape, reps)
        return a(*[j if r == 1 else j % O.max(d, 1) for j, d, r in pairs])

    result: Tensor = compute([d * r for d, r in zip(a.shape, reps)], element, "T_tile", INJECTIVE)
    return result


def mirror_pad(
    data: Tensor, pad_before: Sequence[int], pad_after: Sequence[int], mode: str = "REFLECT"
) -> Tensor:
    """Padding by elements of the data: mirrored at the edges' elements ("REFLECT") or at the edges
    ("SYMMETRIC"), the outermost element ("EDGE"), or the data over again ("WRAP")."""
    if mode not in ("REFLECT", "SYMMETRIC", "EDGE", "WRAP"):
        raise TilewrightError(f"mirror_pad: mode {mode!r} is unknown")
    sizes = [get_const_int(d) for d in data.shape]
    shape = [d + b + a for d, b, a in zip(sizes, pad_before, pad_after)]
    if any(n == 0 and m > 0 for n, m in zip(sizes, shape)):
        raise TilewrightError(f"mirror_pad: {data!r} has no elements to pad with")

    def place(j: Any, size: int, before: int, after: int) -> Any:
        if not before and not after:
            return j
        j = j - before
        if mode == "EDGE" or size == 1:
            return O.max(O.min(j, size - 1), 0)
        if mode == "WRAP":
            return O.floormod(j, size)
        if mode == "SYMMETRIC":
            j = O.floormod(j, 2 * size)
            return O.min(j, 2 * size - 1 - j)
        if max(before, after) >= size:
            j = O.floormod(j, 2 * size - 2)
            return O.min(j, 2 * size - 2 - j)
        return size - 1 - O.abs(size - 1 - O.abs(j))

    def element(*i: Any) -> Any:
        return data(*[place(*x) for x in zip(i, sizes, pad_before, pad_after)])

    result: Tensor = compute(shape, element, "T_mirror_pad", INJECTIVE)
    return result


def reverse_sequence(
    a: Tensor, seq_lengths: Tensor, seq_axis: int = 1, batch_axis: int = 0
) -> Tensor:
    """Of each index of `batch_axis` the first seq_lengths[index] elements along `seq_axis` in
    reverse."""
    seq, batch = seq_axis % a.ndim, batch_axis % a.ndim

    def element(*i: Any) -> Any:
        length = cast(i[seq].dtype, seq_lengths(i[batch]))
        place = O.select(i[seq] < length, length - 1 - i[seq], i[seq])
        place = O.max(O.min(place, a.shape[seq] - 1), 0)  # of lengths that are too large
        return a(*i[:seq], place, *i[seq + 1 :])

    result: Tensor = compute(a.shape, element, "T_reverse_sequence", INJECTIVE)
    return result
