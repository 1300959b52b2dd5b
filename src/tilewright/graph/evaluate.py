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

Array = np.ndarray[Any, Any]


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
    """The result of `op` on constants. Those that lie in files take no memory afterwards."""
    arrays = [v.data for v in inputs if v.data is not None]
    spec = OPS[op]
    if spec.numpy is not None:
        out: Any = spec.numpy(arrays, attrs)
    else:
        tensors = tensors_of(inputs)
        out = te_eval(spec.compute(tensors, attrs), dict(zip(tensors, arrays)))
    result = np.asarray(out[0] if isinstance(out, list) else out, order="C")
    for array in arrays:
        give_back(array)
    return result
