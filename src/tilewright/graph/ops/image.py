"""Operations of images and of regions in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...tensor.tensor import Tensor
from ...topi.image import resize, roi, roi_align, sampling
from .spec import INJECTIVE, OPAQUE, REARRANGED, OpSpec


def _places(a: Mapping[str, Any]) -> tuple[int, int, str, str, bool]:
    return a["number"], a["size"], a["method"], a["padding"], a["align_corners"]


def _grid_sample(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """Inputs: data, the places of each dimension, the weights of each."""
    rank = t[0].ndim - 2
    return sampling.grid_sample(t[0], t[1 : 1 + rank], t[1 + rank :])


def _roi_align(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    how = (a["size"], a["scale"], a["mode"], a["samples"], a["half_pixel"])
    return roi_align.roi_align(t[0], t[1], t[2], *how)


OPS: dict[str, OpSpec] = {
    "resample": OpSpec(lambda t, a: resize.resample(t[0], t[1], t[2], a["axis"]), REARRANGED),
    "grid_places": OpSpec(lambda t, a: sampling.grid_places(t[0], *_places(a)), REARRANGED),
    "grid_weights": OpSpec(
        lambda t, a: sampling.grid_weights(t[0], *_places(a), a["dtype"]), REARRANGED
    ),
    "grid_sample": OpSpec(_grid_sample, REARRANGED),
    "roi_pool_rows": OpSpec(
        lambda t, a: roi.roi_pool_rows(t[0], t[1], a["size"][0], a["scale"]), OPAQUE
    ),
    "roi_pool_columns": OpSpec(
        lambda t, a: roi.roi_pool_columns(t[0], t[1], a["size"][1], a["scale"]), OPAQUE
    ),
    "roi_align": OpSpec(_roi_align, OPAQUE),
    "affine_grid": OpSpec(lambda t, a: sampling.affine_grid(t[0], t[1]), INJECTIVE),
}
