"""Normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...tensor.tensor import Tensor
from ...topi import nn
from .spec import OPAQUE, OpSpec


def _normalize(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """Inputs behind the data: the scale, then the shift, where `scaled` and `shifted` say so."""
    rest = iter(t[1:])
    scale = next(rest) if a["scaled"] else None
    shift = next(rest) if a["shifted"] else None
    how = (a["epsilon"], a["center"], a["period"], a["run"])
    return nn.normalize_rows(t[0], scale, shift, *how)


OPS: dict[str, OpSpec] = {
    "normalize": OpSpec(_normalize, OPAQUE),
    "lrn": OpSpec(
        lambda t, a: nn.lrn(t[0], a["size"], 1, a["alpha"], a["beta"], a["bias"]), OPAQUE
    ),
}
