"""The value of an operation on known arrays: constant folding's arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..interp.te_eval import te_eval
from .ir import Value
from .ops import OPS, tensors_of

Array = np.ndarray[Any, Any]


def evaluate(op: str, inputs: Sequence[Value], attrs: Mapping[str, Any]) -> Array:
    """The result of `op` on constants."""
    arrays = [v.data for v in inputs if v.data is not None]
    spec = OPS[op]
    if spec.numpy is not None:
        return np.asarray(spec.numpy(arrays, attrs), order="C")
    tensors = tensors_of(inputs)
    result = spec.compute(tensors, attrs)
    out = te_eval(result, dict(zip(tensors, arrays)))
    return np.asarray(out[0] if isinstance(out, list) else out, order="C")
