"""Normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import topi
from ...loopir.expr import cast
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ...topi import nn
from ...topi.elemwise import accumulator
from ...topi.nn.norm import ROWS
from .spec import OPAQUE, Compute, OpSpec, follow


def _normalize(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """Inputs behind the data: the scale, then the shift, where `scaled` and `shifted` say so."""
    rest = iter(t[1:])
    scale = next(rest) if a["scaled"] else None
    shift = next(rest) if a["shifted"] else None
    how = (a["epsilon"], a["center"], a["period"], a["run"])
    return nn.normalize_rows(t[0], scale, shift, *how)


def rows_op(operation: Mapping[str, Compute]) -> OpSpec:
    """Steps of which each is element-wise or a reduction along the last dimension, which stays with
    extent 1; they are looked up by name.

    `steps` (operation, inputs, attributes) read inputs and steps before, by their numbers, and
    floats. All is computed in float32 or wider and rounded once, to `dtype`, or the type of input 0
    where that is None.
    """

    def apply(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
        dtype = a["dtype"] or t[0].dtype
        wide = accumulator(dtype)
        values = [v if v.dtype == wide else topi.cast(v, wide) for v in t]
        follow(operation, a["steps"], values, wide)
        last = values[-1]
        result: Tensor = compute(last.shape, lambda *i: cast(dtype, last(*i)), "T_rows", ROWS)
        return result

    return OpSpec(apply, OPAQUE)


OPS: dict[str, OpSpec] = {
    "normalize": OpSpec(_normalize, OPAQUE),
    "lrn": OpSpec(
        lambda t, a: nn.lrn(t[0], a["size"], 1, a["alpha"], a["beta"], a["bias"]), OPAQUE
    ),
}
