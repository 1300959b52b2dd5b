"""QuantizeLinear and DequantizeLinear of types that compiled code does not carry: numbers of 2, 4
and 8 bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from ..node import HostFunction, HostNode
from .cast import converted
from .common import Array, element_type, required


def _along(node: HostNode, x: Array, p: Array) -> Array:
    """Scales or zero points, one for each element of `x`."""
    if p.size == 1 and p.ndim < 2:
        return p.reshape(())
    axis = node.axis(node.get("axis", 1), x.ndim)
    block = node.get("block_size", 0)
    if p.ndim == 1 and p.size == x.shape[axis]:
        return p.reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    wanted = list(x.shape)
    if block > 0:
        wanted[axis] = -(-x.shape[axis] // block)
    if block <= 0 or list(p.shape) != wanted:
        raise node.error(
            f"scales of shape {list(p.shape)} do not fit data of shape {list(x.shape)} along axis "
            f"{axis} in blocks of {block}"
        )
    return np.repeat(p, block, axis).take(range(x.shape[axis]), axis)


def _dequantize(node: HostNode) -> list[Any]:
    x, scale, zero = required(node, 0), required(node, 1), node.input(2)
    to = node.get("output_dtype", 0)
    dtype = element_type(node, to) if to else scale.dtype
    wide = x.astype(np.float32)
    if zero is not None:
        wide = wide - _along(node, x, zero).astype(np.float32)
    return [converted(node, wide * _along(node, x, scale).astype(np.float32), dtype)]


def _quantize(node: HostNode) -> list[Any]:
    x, scale, zero = required(node, 0), required(node, 1), node.input(2)
    to = node.get("output_dtype", 0)
    dtype = zero.dtype if zero is not None else element_type(node, to or 2)
    precision = node.get("precision", 0)
    how = element_type(node, precision) if precision else np.dtype(np.float32)
    ratio = (x.astype(how) / _along(node, x, scale).astype(how)).astype(np.float32)
    point = np.float32(0) if zero is None else _along(node, x, zero).astype(np.float32)
    try:
        info = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    except ValueError:  # floats round where they are converted
        return [converted(node, ratio + point, dtype)]
    rounded = np.nan_to_num(np.rint(ratio)) + point
    return [np.clip(rounded, int(info.min), int(info.max)).astype(dtype)]


def _gather(node: HostNode) -> list[Any]:
    """Elements along an axis of a table that is quantised in blocks, along the same or another."""
    data, indices, scales = required(node, 0), required(node, 1), required(node, 2)
    given = node.inputs[3] if len(node.inputs) > 3 else None
    if data.dtype == np.uint8:
        raise node.error("bytes are gathered along axis 0, and quantised along another one")
    gather = node.axis(node.get("gather_axis", 0), data.ndim)
    axis = node.axis(node.get("quantize_axis", 1), data.ndim)
    block = node.get("block_size", 128)
    places = np.where(indices < 0, indices + data.shape[gather], indices)
    rows = np.take(data, places, gather)
    if axis == gather:
        places, after, block = places // block, axis, 1
    else:
        after = axis + indices.ndim - 1 if axis > gather else axis
    parameters = [p if p is None else np.take(p, places, gather) for p in (scales, given)]
    attrs = {"axis": after, "block_size": block}
    return _dequantize(replace(node, inputs=[rows, *parameters], attrs=attrs))


FUNCTIONS: dict[str, HostFunction] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "com.microsoft.GatherBlockQuantized": _gather,
}
