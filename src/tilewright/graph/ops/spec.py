"""What a row of the table of operations says: how it is computed, and how it may be fused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...loopir.expr import const
from ...tensor.tensor import Tensor
from ...topi.elemwise import accumulator, cast

ELEMWISE = "elemwise"  # same element of each input (broadcast): joins a group before or after it
INJECTIVE = "injective"  # moves elements: joins a group before it
ANCHOR = "anchor"  # expensive: at most one in a group
REARRANGED = "rearranged"  # as an anchor, but not worth a search
OPAQUE = "opaque"  # a group of its own

PRODUCT = "product"  # narrow floats are multiplied and summed in `out_dtype`
INSIDE = "inside"  # computed in float32 whatever type comes and goes
ORDER = "order"  # which elements are chosen hangs on the last digits
WIDE = "wide"  # the error or range of results in narrow floats would be too large
MOVED = "moved"  # results are elements of the inputs, whatever type these have
BITS = "bits"  # what is computed depends on the type of the inputs

Compute = Callable[[Sequence[Tensor], Mapping[str, Any]], Tensor]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class OpSpec:
    """One operation of networks. `precision`: what becomes of it where values are kept in narrow
    floats (see passes/narrow_floats); by default it takes them as they come. `reads_computed`:
    whether an anchor reads each element once, so that element-wise operations before it can join
    it."""

    compute: Compute
    kind: str = ELEMWISE
    numpy: Callable[[Sequence[Array], Mapping[str, Any]], Array] | None = None
    precision: str = ""
    reads_computed: bool = False


def follow(
    operation: Mapping[str, Compute], steps: Sequence[Any], values: list[Any], dtype: str
) -> None:
    """Append what each of `steps` (operation, inputs, attributes) makes of the values before it,
    which its inputs are by number, and of floats, which are of `dtype`."""
    for op, inputs, attrs in steps:
        reads: list[Any] = [values[n] if isinstance(n, int) else const(n, dtype) for n in inputs]
        values.append(operation[op](reads, dict(attrs)))


def elementwise(function: Callable[..., Tensor], precision: str = "") -> OpSpec:
    """A function of tensors, with no attributes."""
    return OpSpec(lambda t, a: function(*t), precision=precision)


def rounded_once(function: Compute, kind: str = ANCHOR, precision: str = "") -> OpSpec:
    """An operation that sums many elements: of narrow floats in float32, rounded once at the end,
    where the attribute `out_dtype` does not say otherwise."""

    def apply(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
        dtype = t[0].dtype
        wide = accumulator(dtype)
        if "out_dtype" in a or wide == dtype:
            return function(t, a)
        rounded: Tensor = cast(function(t, {**a, "out_dtype": wide}), dtype)
        return rounded

    return OpSpec(apply, kind, precision=precision)
