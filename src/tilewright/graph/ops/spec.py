"""What a row of the table of operations says: how it is computed, and how it may be fused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ...topi.elemwise import accumulator, cast

ELEMWISE = "elemwise"  # same element of each input (broadcast): joins a group before or after it
INJECTIVE = "injective"  # moves elements: joins a group before it
ANCHOR = "anchor"  # expensive: at most one in a group
REARRANGED = "rearranged"  # as an anchor, but not worth a search
OPAQUE = "opaque"  # a group of its own

Compute = Callable[[Sequence[Tensor], Mapping[str, Any]], Tensor]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class OpSpec:
    """One operation of networks."""

    compute: Compute
    kind: str = ELEMWISE
    numpy: Callable[[Sequence[Array], Mapping[str, Any]], Array] | None = None


def elementwise(function: Callable[..., Tensor]) -> OpSpec:
    """A function of tensors, with no attributes."""
    return OpSpec(lambda t, a: function(*t))


def rounded_once(function: Compute, kind: str = ANCHOR) -> OpSpec:
    """An operation that sums many elements: of narrow floats in float32, rounded once at the end,
    where the attribute `out_dtype` does not say otherwise."""

    def apply(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
        dtype = t[0].dtype
        wide = accumulator(dtype)
        if "out_dtype" in a or wide == dtype:
            return function(t, a)
        return cast(function(t, {**a, "out_dtype": wide}), dtype)

    return OpSpec(apply, kind)
