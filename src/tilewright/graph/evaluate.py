"""The value of an operation on known arrays: constant folding's arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..base.mapped import give_back
from ..interp.te_eval import te_eval
from ..loopir.expr import const_int
from ..tensor.graph import post_order
from ..tensor.op import ComputeOp, domain
from .ir import Value
from .ops import OPS, tensors_of
from .sizes import larger, same, smaller

Array = np.ndarray[Any, Any]

_ON_SIZES: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "equal": np.vectorize(same, otypes=[object]),
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "where": lambda c, x, y: np.where(c.astype(bool), x, y),
    "maximum": np.vectorize(larger, otypes=[object]),
    "minimum": np.vectorize(smaller, otypes=[object]),
    "identity": lambda x: x,
    "negative": np.negative,
}
"""What is done to whole numbers that may be sizes. Quotients: `_quotient`."""
_CONDITIONS = frozenset(("equal", "less", "less_equal", "greater", "greater_equal"))


def evaluate_sizes(op: str, inputs: Sequence[Value], attrs: Mapping[str, Any]) -> Array | None:
    """The result of `op` on constants of which some hold sizes; None where it is no constant."""
    arrays = [np.asarray(v.data) for v in inputs]
    if op == "cast":
        return arrays[0] if attrs["dtype"] in ("int64", "int32") else None
    if op == "reduce":
        if attrs["type"] not in ("prod", "sum"):
            return None
        function = np.multiply if attrs["type"] == "prod" else np.add
        how: dict[str, Any] = {"axis": tuple(attrs["axes"]), "keepdims": bool(attrs["keepdims"])}
        return np.asarray(function.reduce(arrays[0], **how), object)
    if op == "divide" and all(v.dtype in ("int64", "int32") for v in inputs):
        return np.asarray(np.vectorize(_quotient, otypes=[object])(*arrays), object)
    if op in _ON_SIZES and not any("float" in v.dtype for v in inputs):
        result = np.asarray(_ON_SIZES[op](*arrays))
        return result.astype(bool) if op in _CONDITIONS else result.astype(object)
    if op in ("reshape", "transpose", "concat", "take", "broadcast_to", "tile", "slice"):
        numpy = OPS[op].numpy
        assert numpy is not None, "these have one"
        return np.asarray(numpy(arrays, attrs))
    return None


def _quotient(a: Any, b: Any) -> Any:
    """Of whole numbers, rounded towards zero."""
    return -(-a // b) if a < 0 < b else a // b


_QUICK = 1 << 26
"""Steps of a reduction that are done ahead; longer ones are left to the network."""


def is_quick(op: str, inputs: Sequence[Value], attrs: Mapping[str, Any]) -> bool:
    """Whether an operation on constants is worth computing ahead."""
    if OPS[op].numpy is not None:
        return True
    for stage in post_order([OPS[op].compute(tensors_of(inputs), attrs)]):
        if isinstance(stage, ComputeOp) and stage.reduce_axis:
            extents = [domain(axis).extent for axis in (*stage.axis, *stage.reduce_axis)]
            if prod(const_int(e) or 0 for e in extents) > _QUICK:
                return False
    return True


def evaluate(op: str, inputs: Sequence[Value], attrs: Mapping[str, Any]) -> Array:
    """The result of `op` on constants. Those that lie in files take no memory afterwards.

    What only moves elements may give a view, so that a weight which is transposed is read from its
    file in that order, and copied once, when a kernel has it in its own.
    """
    arrays = [v.data for v in inputs if v.data is not None]
    spec = OPS[op]
    if spec.numpy is not None:
        out: Any = spec.numpy(arrays, attrs)
    else:
        tensors = tensors_of(inputs)
        out = te_eval(spec.compute(tensors, attrs), dict(zip(tensors, arrays)))
    result = np.asarray(out[0] if isinstance(out, list) else out)
    for array in arrays:
        give_back(array)
    return result
