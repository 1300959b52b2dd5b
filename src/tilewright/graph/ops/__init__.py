"""The operations of networks: how each is computed, and how it may be fused.

An operation is described once, as a tensor expression (`compute`); shapes are read off it, default
schedules and constant folding follow from it. `numpy`, where given, computes constants faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ...base.errors import TilewrightError
from ...loopir.expr import const_int
from ...tensor.compute import placeholder
from ...tensor.tensor import Tensor
from ..ir import Node, Value
from ..shapes import broadcast_shapes, symbols_in, with_exprs
from ..sizes import Symbols
from . import (
    activations,
    attention,
    image,
    linear,
    lines,
    logic,
    loss,
    math,
    move,
    norm,
    quantize,
    recurrent,
    reduce,
    scatter,
    special,
    weights,
)
from .spec import ANCHOR, ELEMWISE, INJECTIVE, OPAQUE, REARRANGED, OpSpec

__all__ = [
    "ANCHOR",
    "ELEMWISE",
    "INJECTIVE",
    "OPAQUE",
    "OPS",
    "REARRANGED",
    "OpSpec",
    "infer",
    "node_of",
    "tensors_of",
]

OPS: dict[str, OpSpec] = {
    **activations.OPS,
    **attention.OPS,
    **image.OPS,
    **linear.OPS,
    **lines.OPS,
    **logic.OPS,
    **loss.OPS,
    **math.OPS,
    **move.OPS,
    **norm.OPS,
    **quantize.OPS,
    **recurrent.OPS,
    **reduce.OPS,
    **scatter.OPS,
    **special.OPS,
    **weights.OPS,
}
_COMPUTED = {name: spec.compute for name, spec in OPS.items()}
OPS["attention"] = attention.attention_op(_COMPUTED)
OPS["divide_by"] = math.divide_by_op(_COMPUTED)
OPS["rows"] = norm.rows_op(_COMPUTED)


def tensors_of(values: Sequence[Value]) -> list[Tensor]:
    """A placeholder for each value."""
    return [placeholder(with_exprs(v.shape), v.dtype, f"p{i}") for i, v in enumerate(values)]


def infer(op: str, inputs: Sequence[Value], attrs: Mapping[str, Any]) -> tuple[Any, str]:
    """Shape and dtype of the result of an operation."""
    symbols = symbols_in([[v.shape for v in inputs], list(attrs.values())])
    if symbols is not None:
        return _infer_open(op, inputs, attrs, symbols)
    types = tuple((v.shape, v.dtype) for v in inputs)
    shape, dtype = _infer(op, types, tuple((k, frozen(v)) for k, v in attrs.items()))
    if any(d is None or d < 0 for d in shape):
        raise TilewrightError(f"{op} of {', '.join(map(repr, inputs))} gives shape {list(shape)}")
    return shape, dtype


def node_of(
    op: str, inputs: Sequence[Value], name: str, attrs: Mapping[str, Any], output: str = ""
) -> Node:
    """An operation that gives a new value, named as it is unless `output` says otherwise."""
    shape, dtype = infer(op, inputs, attrs)
    return Node(op, name, inputs, [Value(output or name, shape, dtype)], attrs)


def _infer_open(
    op: str, inputs: Sequence[Value], attrs: Mapping[str, Any], symbols: Symbols
) -> tuple[Any, str]:
    """As infer, of extents that are not known. TilewrightError where such an extent meets a number
    that it would have to be."""
    if OPS[op].kind == ELEMWISE and "axis" not in attrs:
        try:
            broadcast_shapes(*(v.shape for v in inputs))
        except ValueError as error:
            raise TilewrightError(f"{op} of {', '.join(map(repr, inputs))}: {error}") from None
    how = {k: with_exprs(v) for k, v in attrs.items()}
    result = OPS[op].compute(tensors_of(inputs), how)
    shape = tuple(map(symbols.of_expr, result.shape))
    if any(d is None for d in shape):
        raise TilewrightError(
            f"{op} of {', '.join(map(repr, inputs))} gives shape {list(result.shape)}"
        )
    return shape, result.dtype


@lru_cache(maxsize=4096)
def _infer(op: str, types: Any, attrs: Any) -> tuple[tuple[int | None, ...], str]:
    """As infer; layers of one kind and size are many in a network, and are looked at once."""
    tensors = [placeholder(shape, dtype, f"p{i}") for i, (shape, dtype) in enumerate(types)]
    result = OPS[op].compute(tensors, dict(attrs))
    return tuple(const_int(d) for d in result.shape), result.dtype


def frozen(value: Any) -> Any:
    """An attribute as what can be a key, its lists as tuples."""
    return tuple(map(frozen, value)) if isinstance(value, (list, tuple)) else value
