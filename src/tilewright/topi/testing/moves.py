"""Operators that move elements, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = Any  # of NumPy, whose types say little of dtypes and shapes


def slices(
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None,
    shape: Sequence[int],
    slice_mode: str = "end",
    axes: Sequence[int] | None = None,
) -> tuple[slice, ...]:
    """Python's slices of each dimension."""
    result = [slice(None)] * len(shape)
    which = range(len(shape)) if axes is None else axes
    for n, d in enumerate(which[: max(len(begin), len(end))]):
        b = begin[n] if n < len(begin) else None
        e: int | None = end[n] if n < len(end) else None
        steps = list(strides or (1,))
        s = steps[0] if len(steps) == 1 else steps[n] if n < len(steps) else 1
        if slice_mode == "size" and e is not None:
            start = b or 0
            start = start + shape[d] if start < 0 else start
            e, s = (None if e < 0 else start + e), 1
        result[d] = slice(b, e, s)
    return tuple(result)


def strided_slice_python(
    data: Array,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None,
    slice_mode: str = "end",
    axes: Sequence[int] | None = None,
) -> Array:
    """data[begin[0]:end[0]:strides[0], ...]."""
    steps = None if strides is None else [1 if s is None else s for s in strides]
    return data[slices(begin, end, steps, data.shape, slice_mode, axes)]


def strided_set_python(
    data: Array,
    v: Array,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None,
) -> Array:
    """`data` with data[begin[0]:end[0]:strides[0], ...] = v."""
    result = np.copy(data)
    places = []
    for d in range(data.ndim):
        s = 1 if strides is None or d >= len(strides) else strides[d]
        b = begin[d] if d < len(begin) else None
        places.append(slice(b, end[d] if d < len(end) else None, s))
    result[tuple(places)] = v
    return result


def slice_axis_python(data: Array, axis: int, begin: int, end: int | None = None) -> Array:
    """data[begin:end] along one dimension."""
    places = [slice(None)] * data.ndim
    places[axis] = slice(begin, end)
    return data[tuple(places)]


def gather_python(data: Array, axis: int, indices: Array) -> Array:
    """Of every place of `indices` the element there, but at the index along `axis`."""
    grid = list(np.indices(indices.shape))
    grid[axis] = indices.astype("int64")
    return data[tuple(grid)]


def gather_nd_python(a_np: Array, indices_np: Array) -> Array:
    """Slices at indices that stand along the first dimension."""
    return a_np[tuple(indices_np.astype("int64"))]


def sequence_mask(data: Array, valid_length: Array, mask_value: float, axis: int) -> Array:
    """`data` with `mask_value` from place valid_length[batch] on along `axis`, 0 or 1."""
    steps = np.arange(data.shape[axis])
    shape = [1] * data.ndim
    shape[axis], shape[1 - axis] = len(steps), len(valid_length)
    inside = np.expand_dims(steps, 1 - axis) < np.expand_dims(valid_length, axis)
    return np.where(inside.reshape(shape), data, np.asarray(mask_value, data.dtype))


def one_hot(
    indices: Array, on_value: Any, off_value: Any, depth: int, axis: int, dtype: str
) -> Array:
    """`on_value` where the index along a new dimension `axis` is that of `indices`."""
    last = np.where(np.arange(depth) == indices[..., None], on_value, off_value).astype(dtype)
    return np.moveaxis(last, -1, axis if axis >= 0 else indices.ndim)


def matrix_set_diag(
    input_np: Array, diagonal: Array, k: Any = 0, align: str = "RIGHT_LEFT"
) -> Array:
    """Matrices with the diagonals `k`, or from k[0] to k[1], of others."""
    first, last = (k, k) if isinstance(k, int) else (k[0], k[-1])
    result = np.array(input_np)
    above, below = align.split("_")
    for d in range(first, last + 1):
        rows = np.arange(max(0, -d), min(input_np.shape[-2], input_np.shape[-1] - d))
        values = diagonal
        if first != last:
            line = diagonal[..., last - d, :]
            right = (above if d >= 0 else below) == "RIGHT"
            gap = line.shape[-1] - len(rows)
            values = line[..., gap:] if right else line[..., : len(rows)]
        result[..., rows, rows + d] = values[..., : len(rows)]
    return result


def depth_to_space_python(data: Array, block_size: int, mode: str = "DCR") -> Array:
    """Channels of (n, c, h, w) as blocks of rows and columns."""
    n, c, h, w = data.shape
    b = block_size
    own = c // (b * b)
    if mode == "DCR":
        apart = data.reshape(n, b, b, own, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        apart = data.reshape(n, own, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return apart.reshape(n, own, h * b, w * b)


def space_to_depth_python(data: Array, block_size: int) -> Array:
    """Blocks of rows and columns of (n, c, h, w) as channels."""
    n, c, h, w = data.shape
    b = block_size
    apart = data.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return apart.reshape(n, c * b * b, h // b, w // b)


def space_to_batch_nd_python(
    data: Array,
    block_shape: Sequence[int],
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    pad_value: float = 0,
) -> Array:
    """Blocks of the dimensions from the second on as parts of the batch."""
    rank = len(block_shape)
    widths = [(0, 0), *zip(pad_before, pad_after), *[(0, 0)] * (data.ndim - 1 - rank)]
    x = np.pad(data, widths, constant_values=pad_value)
    n, *size = x.shape
    shape = [n]
    for d, b in zip(size, block_shape):
        shape += [d // b, b]
    inner = [2 + 2 * k for k in range(rank)]
    rest = list(range(1 + 2 * rank, 1 + 2 * rank + len(size) - rank))
    outer = [1 + 2 * k for k in range(rank)]
    apart = x.reshape(*shape, *size[rank:]).transpose(*inner, 0, *outer, *rest)
    blocks = int(np.prod(block_shape))
    return apart.reshape(n * blocks, *(d // b for d, b in zip(size, block_shape)), *size[rank:])


def batch_to_space_nd_python(
    data: Array,
    block_shape: Sequence[int],
    crop_begin_list: Sequence[int],
    crop_end_list: Sequence[int],
) -> Array:
    """What space_to_batch_nd_python makes, back."""
    rank = len(block_shape)
    n = data.shape[0] // int(np.prod(block_shape))
    size = data.shape[1 : 1 + rank]
    apart = data.reshape(*block_shape, n, *data.shape[1:])
    order = [rank]
    for k in range(rank):
        order += [rank + 1 + k, k]
    rest = list(range(2 * rank + 1, apart.ndim))
    whole = apart.transpose(*order, *rest).reshape(
        n, *(d * b for d, b in zip(size, block_shape)), *data.shape[1 + rank :]
    )
    kept = [
        slice(low, d * b - high)
        for d, b, low, high in zip(size, block_shape, crop_begin_list, crop_end_list)
    ]
    return whole[(slice(None), *kept)]


def searchsorted_ref(sorted_sequence: Array, values: Array, right: bool, out_dtype: str) -> Array:
    """Where each value would stand in ascending numbers, line by line."""
    side: Any = "right" if right else "left"
    if sorted_sequence.ndim == 1:
        return np.searchsorted(sorted_sequence, values, side).astype(out_dtype)
    lines = sorted_sequence.reshape(-1, sorted_sequence.shape[-1])
    wanted = values.reshape(-1, values.shape[-1])
    found = [np.searchsorted(a, v, side) for a, v in zip(lines, wanted)]
    return np.stack(found).reshape(values.shape).astype(out_dtype)
