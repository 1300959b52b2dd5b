"""Products of matrices, with whatever dimensions and types they come."""

from __future__ import annotations

from math import prod
from typing import Any

from ..ir import Value
from ..shapes import broadcast_shapes
from ..sizes import agree
from .convert import Builder, OnnxNode


def product(b: Builder, node: OnnxNode, x: Value, y: Value, out_dtype: str = "") -> Value:
    """NumPy's matmul: batch dimensions are broadcast, vectors are rows or columns. Products and
    sums are taken in `out_dtype`, which the result has; by default, in that of both."""
    if not x.shape or not y.shape:
        raise node.error(f"product of {x!r} and {y!r}: a number has no rows")
    if not agree(x.shape[-1], y.shape[max(len(y.shape) - 2, 0)]):
        raise node.error(f"the rows of {x!r} are not as long as the columns of {y!r}")
    row, column = len(x.shape) == 1, len(y.shape) == 1
    x = b.add("reshape", [x], shape=(1, *x.shape)) if row else x
    y = b.add("reshape", [y], shape=(*y.shape, 1)) if column else y
    how = {"out_dtype": out_dtype} if out_dtype else {}
    out = matrices(b, node.name, x, y, how)
    if row or column:
        shape = list(out.shape)
        del shape[len(shape) - 2 + (not row) : len(shape) - 1 + column]
        out = b.add("reshape", [out], shape=tuple(shape))
    return out


def matrices(b: Builder, name: str, x: Value, y: Value, how: dict[str, Any]) -> Value:
    """A product of matrices, in batches or not. A constant one on the right is turned beforehand,
    a single column is a row as it lies."""
    if len(y.shape) == 2:
        rows = prod(x.shape[:-1])
        flat = x if len(x.shape) == 2 else b.add("reshape", [x], shape=(rows, x.shape[-1]))
        if y.is_constant or y.shape[1] == 1:
            weight = (
                b.add("transpose", [y], name + ".t", axes=(1, 0))
                if y.is_constant
                else b.add("reshape", [y], shape=(1, y.shape[0]))
            )
            out = b.add("dense", [flat, weight], name, **how)
        else:
            out = b.add("matmul", [flat, y], name, **how)
        shape = (*x.shape[:-1], y.shape[1])
    else:
        batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
        both = []
        for v in (x, y):
            if v.shape[:-2] != batch:
                v = b.add("broadcast_to", [v], shape=(*batch, *v.shape[-2:]))
            both.append(b.add("reshape", [v], shape=(prod(batch), *v.shape[-2:])))
        out = b.add("batch_matmul", both, name, **how)
        shape = (*batch, x.shape[-2], y.shape[-1])
    return out if out.shape == shape else b.add("reshape", [out], shape=shape)
