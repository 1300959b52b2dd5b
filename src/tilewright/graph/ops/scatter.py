"""Operations that read or write at places that the data says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import topi
from ...topi.elemwise import accumulator
from ...topi.scatter import gather_at, scatter_at
from .spec import INJECTIVE, MOVED, OPAQUE, Array, OpSpec

_AT: dict[str, Any] = {
    "add": np.add.at,
    "mul": np.multiply.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}


def _combine(data: Array, at: Any, updates: Array, reduction: str) -> Array:
    """The updates in order, of narrow floats in float32; those outside of the data do not count."""
    out = data.astype(accumulator(str(data.dtype)))
    inside = np.ones(updates.shape, bool)
    for index, extent in zip(at, data.shape):
        inside &= (index >= -extent) & (index < extent)
    places = tuple(np.broadcast_to(index, updates.shape)[inside] for index in at)
    if reduction == "update":
        for place, value in zip(zip(*places), updates[inside]):
            out[place] = value
    else:
        _AT[reduction](out, places, updates[inside].astype(out.dtype))
    return out.astype(data.dtype)


def _numpy_elements(x: Sequence[Array], a: Mapping[str, Any]) -> Array:
    data, indices, updates = x
    at = list(np.ogrid[tuple(slice(d) for d in updates.shape)])
    at[a["axis"]] = indices
    return _combine(data, at, updates, a["reduction"])


def _numpy_nd(x: Sequence[Array], a: Mapping[str, Any]) -> Array:
    data, indices, updates = x
    depth, rank, first = indices.shape[-1], indices.ndim - 1, a.get("first", 0)
    whole = np.ogrid[tuple(slice(d) for d in updates.shape)]
    behind = (1,) * (updates.ndim - rank - first)
    at = [indices[..., k].reshape(indices.shape[:-1] + behind) for k in range(depth)]
    places = [*whole[:first], *at, *whole[first + rank :]]
    return _combine(data, places, updates, a["reduction"])


OPS: dict[str, OpSpec] = {
    "gather_elements": OpSpec(
        lambda t, a: topi.gather(t[0], a["axis"], t[1]), INJECTIVE, precision=MOVED
    ),
    "gather_nd": OpSpec(
        lambda t, a: gather_at(t[0], t[1], a["batch_dims"], -1), INJECTIVE, precision=MOVED
    ),
    "scatter_elements": OpSpec(
        lambda t, a: topi.scatter_elements(t[0], t[1], t[2], a["axis"], a["reduction"]),
        OPAQUE,
        _numpy_elements,
    ),
    "scatter_nd": OpSpec(
        lambda t, a: scatter_at(t[0], t[1], t[2], a["reduction"], -1, a.get("first", 0)),
        OPAQUE,
        _numpy_nd,
    ),  # `first`: the dimension from which on indices say where, 0 by default
    "tensor_scatter": OpSpec(
        lambda t, a: topi.tensor_scatter(t[0], t[1], t[2], a["axis"], a["mode"]), INJECTIVE
    ),
}
