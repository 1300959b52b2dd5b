"""Whether both branches of an If may be computed, of which a selection takes one.

A branch may not fail where it is not taken: it reads and writes at no places that data says, but
for those that are moved into the tensor (and whole numbers divided by 0 are 0). Both take less time
than Python does between two graphs.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from ..ir import Node, Value
from ..ops import OPS
from ..ops.spec import ELEMWISE
from ..sizes import same
from .model import weights_of

_MOST = 1 << 17
"""Elements that branches read, compute or multiply: tens of microseconds, in which
Python goes from one graph to the next."""

_FEW = 64
"""Nodes of a branch that are tried."""

_PRODUCTS = ("dense", "matmul", "batch_matmul")
_SAFE = {
    *("reshape", "transpose", "pad", "mirror_pad", "broadcast_to", "tile", "slice", "concat"),
    *("take", "roll", "arange", "extents", "diagonal", "one_hot", "reduce", "arg"),
    *("softmax", "log_softmax", "cumsum", *_PRODUCTS),
}
"""Operations beside the element-wise ones: `take` puts places that do not exist to the ends."""


def may_be_little(graph: Any) -> bool:
    """Whether a branch is worth importing for that."""
    sizes = (prod(t.dims) for t in weights_of(graph))
    return len(graph.node) <= _FEW and sum(sizes) <= _MOST


def is_little(nodes: Iterable[Node]) -> bool:
    """Whether these may be computed whether or not their results are wanted."""
    total: Any = 0
    for node in nodes:
        if node.op not in _SAFE and OPS[node.op].kind != ELEMWISE:
            return False
        total += _work(node)
    return bool(total <= _MOST)


def are_alike(a: Value, b: Value) -> bool:
    """Whether a selection of two values is either of them."""
    ranks = len(a.shape) == len(b.shape)
    return ranks and a.dtype == b.dtype and all(map(same, a.shape, b.shape))


def _work(node: Node) -> Any:
    if node.op in _PRODUCTS:
        return prod(node.output.shape) * node.inputs[0].shape[-1]
    return sum(prod(v.shape) for v in (*node.inputs, *node.outputs))
