"""Operations that repeat, mirror, crop or reorder elements, at places known ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import TilewrightError
from ..loopir import op as O
from ..loopir.expr import cast, const, const_int
from ..tensor.compute import compute
from ..tensor.extents import dimension
from ..tensor.tensor import Tensor
from .transform import INJECTIVE
from .utils import get_const_tuple


def tile(a: Tensor, reps: Sequence[int]) -> Tensor:
    """`a` repeated reps[k] times along dimension k; as in NumPy, the shorter of shape and reps is
    filled up with ones in front. Takes any type, which the result keeps."""
    rank = max(a.ndim, len(reps))
    times = [1] * (rank - len(reps)) + list(reps)
    sizes = [const(1)] * (rank - a.ndim) + list(a.shape)

    def element(*i: Any) -> Any:
        triples = list(zip(i, sizes, times))[rank - a.ndim :]
        return a(*[j if r == 1 else j % O.max(d, 1) for j, d, r in triples])

    result: Tensor = compute([d * r for d, r in zip(sizes, times)], element, "T_tile", INJECTIVE)
    return result


def mirror_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """Padding by elements of the data, as much behind as in front by default: mirrored at the
    edges' elements ("REFLECT") or at the edges ("SYMMETRIC"), the outermost element ("EDGE"), or
    the data over again ("WRAP"). Each extent grows by its padding. Takes any type, which the result
    keeps. Raises TilewrightError where mode is unknown, or data has no elements to pad with."""
    if mode not in ("REFLECT", "SYMMETRIC", "EDGE", "WRAP"):
        raise TilewrightError(f"mirror_pad: mode {mode!r} is unknown")
    pad_after = pad_before if pad_after is None else pad_after
    sizes = get_const_tuple(data.shape)
    shape = [d + b + a for d, b, a in zip(sizes, pad_before, pad_after)]
    if any(isinstance(n, int) and n == 0 and m > 0 for n, m in zip(sizes, shape)):
        raise TilewrightError(f"mirror_pad: {data!r} has no elements to pad with")

    def place(j: Any, size: Any, before: int, after: int) -> Any:
        if not before and not after:
            return j
        j, known = j - before, isinstance(size, int)
        if mode == "EDGE" or (known and size == 1):
            return O.max(O.min(j, size - 1), 0)
        if mode == "WRAP":
            return O.floormod(j, size)
        if not known:  # what follows lies within, but that is not proved of any size
            period = 2 * size - (0 if mode == "SYMMETRIC" else 2)
            j = O.floormod(j, O.max(period, 1))
            return O.max(
                O.min(O.min(j, 2 * size - (1 if mode == "SYMMETRIC" else 2) - j), size - 1), 0
            )
        if mode == "SYMMETRIC":
            j = O.floormod(j, 2 * size)
            return O.min(j, 2 * size - 1 - j)
        if max(before, after) >= size:
            j = O.floormod(j, 2 * size - 2)
            return O.min(j, 2 * size - 2 - j)
        return size - 1 - O.abs(size - 1 - O.abs(j))

    def element(*i: Any) -> Any:
        return data(*[place(*x) for x in zip(i, sizes, pad_before, pad_after)])

    result: Tensor = compute(shape, element, name, INJECTIVE)
    return result


def reverse_sequence(
    a: Tensor, seq_lengths: Tensor, seq_axis: int = 1, batch_axis: int = 0
) -> Tensor:
    """Of each index of `batch_axis` the first seq_lengths[index] elements along `seq_axis` in
    reverse; a length below 1 counts as 1, one above the extent as the extent. Shape and type of `a`
    stay; lengths are integers. Raises TilewrightError where seq_lengths has not one length for each
    index of the batch axis, where `batch_axis` or `seq_axis` is no integer, or no dimension of the
    tensor."""
    seq, batch = dimension(seq_axis, a.ndim), dimension(batch_axis, a.ndim)
    sizes = [const_int(d) for d in (a.shape[batch], *seq_lengths.shape)]
    if len(sizes) != 2 or (None not in sizes and sizes[0] != sizes[1]):
        raise TilewrightError(
            "reverse_sequence: seq_lengths has one length for each index of the batch axis, but "
            f"got dimension of batch_axis = {a.shape[batch]}, and seq_length size = "
            f"{', '.join(map(str, seq_lengths.shape))}"
        )

    def element(*i: Any) -> Any:
        length = O.min(cast(i[seq].dtype, seq_lengths(i[batch])), a.shape[seq])
        place = O.max(O.select(i[seq] < length, length - 1 - i[seq], i[seq]), 0)
        return a(*i[:seq], place, *i[seq + 1 :])

    result: Tensor = compute(a.shape, element, "T_reverse_sequence", INJECTIVE)
    return result
