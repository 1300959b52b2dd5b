"""The operations of networks: how each is computed, and how it may be fused.

An operation is described once, as a tensor expression (`compute`); shapes are read off it, default
schedules and constant folding follow from it. `numpy`, where given, computes constants faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .. import topi
from ..base.errors import TilewrightError
from ..loopir.expr import const_int
from ..tensor.compute import compute, placeholder
from ..tensor.tensor import Tensor
from ..topi import nn
from ..topi.elemwise import accumulator, cast
from .ir import Value

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


def _elementwise(function: Callable[..., Tensor]) -> OpSpec:
    return OpSpec(lambda t, a: function(*t))


def _numpy_pack_kernel(x: Sequence[Array], a: Mapping[str, Any]) -> Array:
    f, c, kh, kw = x[0].shape
    fb, cb = a["out_block"], a["in_block"]
    blocks = x[0].reshape(f // fb, fb, c // cb, cb, kh, kw)
    return np.ascontiguousarray(blocks.transpose(0, 2, 4, 5, 3, 1))


def _pack_dense(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    n, k = t[0].shape
    b = a["block"]
    result: Tensor = compute(
        ((n + b - 1) // b, k, b), lambda i, kk, v: t[0](i * b + v, kk), "packed_weight", "injective"
    )
    return result


def _numpy_pack_dense(x: Sequence[Array], a: Mapping[str, Any]) -> Array:
    n, k = x[0].shape
    b = a["block"]
    return np.ascontiguousarray(x[0].reshape(n // b, b, k).transpose(0, 2, 1))


def _rounded_once(function: Compute, kind: str = ANCHOR) -> OpSpec:
    """An operation that sums many elements: of narrow floats in float32, rounded once at the end,
    where the attribute `out_dtype` does not say otherwise."""

    def apply(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
        dtype = t[0].dtype
        wide = accumulator(dtype)
        if "out_dtype" in a or wide == dtype:
            return function(t, a)
        return cast(function(t, {**a, "out_dtype": wide}), dtype)

    return OpSpec(apply, kind)


def _sum(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    result: Tensor = topi.sum(t[0], a["axes"], a["keepdims"], a.get("out_dtype"))
    return result


_SUM = _rounded_once(_sum)


def _reduce(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    if a["type"] == "sum":
        return _SUM.compute(t, a)
    result: Tensor = getattr(topi, a["type"])(t[0], a["axes"], a["keepdims"])
    return result


def _dense_packed(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    return nn.dense_packed(t[0], t[1], a.get("out_dtype"))


def _conv2d(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    how = (a["strides"], a["padding"], a["dilation"], a["groups"], a.get("out_dtype"))
    return nn.conv2d_nchw(t[0], t[1], *how)


def _conv2d_nchwc(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    how = (a["strides"], a["padding"], a["dilation"], a.get("out_dtype"))
    return nn.conv2d_nchwc(t[0], t[1], *how)


def _depthwise_nchwc(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    how = (a["strides"], a["padding"], a["dilation"], a.get("out_dtype"))
    return nn.depthwise_nchwc(t[0], t[1], *how)


def _numpy_pack_depthwise(x: Sequence[Array], a: Mapping[str, Any]) -> Array:
    c, _, kh, kw = x[0].shape
    b = a["block"]
    return np.ascontiguousarray(x[0].reshape(c // b, b, kh, kw).transpose(0, 2, 3, 1))


def _pool(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    return nn.pool2d(
        t[0],
        a["kernel"],
        a["strides"],
        a.get("dilation", (1, 1)),
        a["padding"],
        a["type"],
        a["ceil_mode"],
        count_include_pad=a["count_include_pad"],
    )


def _slice(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """Here an end of -1 means up to and with the first element, where steps go backwards."""
    steps = a["strides"]
    ends = [-(1 << 31) if e == -1 and s < 0 else e for e, s in zip(a["end"], steps)]
    result: Tensor = topi.strided_slice(t[0], a["begin"], ends, steps)
    return result


OPS: dict[str, OpSpec] = {
    "conv2d": _rounded_once(_conv2d),
    "conv2d_nchwc": _rounded_once(_conv2d_nchwc),
    "depthwise_nchwc": _rounded_once(_depthwise_nchwc),
    "winograd_input": OpSpec(
        lambda t, a: nn.winograd_input(t[0], a["tile"], a["padding"]), REARRANGED
    ),
    "winograd_product": OpSpec(lambda t, a: nn.winograd_product(t[0], t[1]), ANCHOR),
    "winograd_output": OpSpec(
        lambda t, a: nn.winograd_output(t[0], a["tile"], a["batch"], a["size"]), REARRANGED
    ),
    "pack_depthwise": OpSpec(
        lambda t, a: nn.pack_depthwise(t[0], a["block"]), INJECTIVE, _numpy_pack_depthwise
    ),
    "pack_kernel": OpSpec(
        lambda t, a: nn.pack_kernel(t[0], a["in_block"], a["out_block"]),
        INJECTIVE,
        _numpy_pack_kernel,
    ),
    "dense": _rounded_once(lambda t, a: nn.dense(t[0], t[1], out_dtype=a.get("out_dtype"))),
    "dense_packed": _rounded_once(_dense_packed),
    "pack_dense": OpSpec(_pack_dense, INJECTIVE, _numpy_pack_dense),
    "matmul": _rounded_once(lambda t, a: nn.matmul(t[0], t[1], out_dtype=a.get("out_dtype"))),
    "batch_matmul": _rounded_once(
        lambda t, a: nn.batch_matmul(t[0], t[1], None, a.get("out_dtype"), transpose_b=False)
    ),
    "pool2d": OpSpec(_pool, ANCHOR),
    "global_pool": OpSpec(lambda t, a: nn.global_pool(t[0], a["type"]), ANCHOR),
    "softmax": OpSpec(lambda t, a: nn.softmax(t[0], a["axis"]), OPAQUE),
    "log_softmax": OpSpec(lambda t, a: nn.log_softmax(t[0], a["axis"]), OPAQUE),
    "reduce": OpSpec(_reduce, ANCHOR),
    "bias_add": OpSpec(lambda t, a: nn.bias_add(t[0], t[1], a["axis"])),
    "scale_shift": OpSpec(lambda t, a: nn.scale_shift(t[0], t[1], t[2], a["axis"])),
    "relu": _elementwise(nn.relu),
    "leaky_relu": OpSpec(lambda t, a: nn.leaky_relu(t[0], a["alpha"])),
    "clip": OpSpec(lambda t, a: topi.clip(t[0], a["min"], a["max"])),
    "cast": OpSpec(lambda t, a: topi.cast(t[0], a["dtype"])),
    "identity": _elementwise(topi.identity),
    **{
        name: _elementwise(getattr(topi, name))
        for name in (
            *("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "where"),
            *("exp", "log", "sqrt", "tanh", "sigmoid", "erf", "abs", "negative", "floor", "ceil"),
            *("sin", "cos", "round", "less", "greater", "equal"),
        )
    },
    "reshape": OpSpec(
        lambda t, a: topi.reshape(t[0], a["shape"]),
        INJECTIVE,
        lambda x, a: x[0].reshape(a["shape"]),
    ),
    "transpose": OpSpec(
        lambda t, a: topi.transpose(t[0], a["axes"]),
        INJECTIVE,
        lambda x, a: x[0].transpose(a["axes"]),
    ),
    "concat": OpSpec(
        lambda t, a: topi.concatenate(t, a["axis"]),
        OPAQUE,
        lambda x, a: np.concatenate(x, a["axis"]),
    ),
    "pad": OpSpec(lambda t, a: topi.pad(t[0], a["before"], a["after"], a["value"]), INJECTIVE),
    "take": OpSpec(
        lambda t, a: topi.take(t[0], t[1], a["axis"], mode="from_end"),
        INJECTIVE,
        lambda x, a: np.take(x[0], x[1], a["axis"]),
    ),
    "broadcast_to": OpSpec(
        lambda t, a: topi.broadcast_to(t[0], a["shape"]),
        INJECTIVE,
        lambda x, a: np.broadcast_to(x[0], a["shape"]),
    ),
    "slice": OpSpec(_slice, INJECTIVE),
    "pack_channels": OpSpec(lambda t, a: topi.pack_channels(t[0], a["block"]), INJECTIVE),
    "unpack_channels": OpSpec(lambda t, a: topi.unpack_channels(t[0], a["channels"]), INJECTIVE),
}


def tensors_of(values: Sequence[Value]) -> list[Tensor]:
    """A placeholder for each value."""
    return [placeholder(v.shape, v.dtype, f"p{i}") for i, v in enumerate(values)]


def infer(op: str, inputs: Sequence[Value], attrs: Mapping[str, Any]) -> tuple[Any, str]:
    """Shape and dtype of the result of an operation."""
    types = tuple((v.shape, v.dtype) for v in inputs)
    shape, dtype = _infer(op, types, tuple((k, _frozen(v)) for k, v in attrs.items()))
    if any(d is None or d < 0 for d in shape):
        raise TilewrightError(f"{op} of {', '.join(map(repr, inputs))} gives shape {list(shape)}")
    return shape, dtype


@lru_cache(maxsize=4096)
def _infer(op: str, types: Any, attrs: Any) -> tuple[tuple[int | None, ...], str]:
    """As infer; layers of one kind and size are many in a network, and are looked at once."""
    tensors = [placeholder(shape, dtype, f"p{i}") for i, (shape, dtype) in enumerate(types)]
    result = OPS[op].compute(tensors, dict(attrs))
    return tuple(const_int(d) for d in result.shape), result.dtype


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
