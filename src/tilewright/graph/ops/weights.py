"""Operations on weights: convolutions, products, pooling; how weights are packed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...base.mapped import compact
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ...topi import nn
from ...topi.nn.pool_adaptive import adaptive
from ...topi.nn.pooling import pool
from .spec import (
    ANCHOR,
    INJECTIVE,
    INSIDE,
    OPAQUE,
    PRODUCT,
    REARRANGED,
    Array,
    OpSpec,
    rounded_once,
)


def _numpy_pack_kernel(x: Sequence[Array], a: Mapping[str, Any]) -> Array:
    f, c, *window = x[0].shape
    fb, cb = a["out_block"], a["in_block"]
    terms = a.get("terms", 1)
    fours = x[0].reshape(f // fb, fb, c // cb, cb // terms, terms, *window)
    taps = range(5, 5 + len(window))
    packed = compact(fours.transpose(0, 2, *taps, 3, 1, 4))
    return packed if terms > 1 else packed[..., 0]


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
    return compact(x[0].reshape(n // b, b, k).transpose(0, 2, 1))


def _dense(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    return nn.dense(t[0], t[1], out_dtype=a.get("out_dtype"))


def _matmul(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    return nn.matmul(t[0], t[1], out_dtype=a.get("out_dtype"))


def _batch_matmul(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    return nn.batch_matmul(t[0], t[1], None, a.get("out_dtype"), transpose_b=False)


def _dense_packed(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    return nn.dense_packed(t[0], t[1], a.get("out_dtype"))


def _conv2d(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    how = (a["strides"], a["padding"], a["dilation"], a["groups"], a.get("out_dtype"))
    return nn.grouped_conv2d(t[0], t[1], *how)


def _conv_nchwc(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    how = (a["strides"], a["padding"], a["dilation"], a.get("out_dtype"), a.get("groups", 1))
    return nn.conv_nchwc(t[0], t[1], *how)


def _conv2d_nhwc(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    how = (a["strides"], a["padding"], a["dilation"])
    if a["groups"] == 1:
        return nn.conv2d_nhwc(t[0], t[1], *how, a.get("out_dtype"))
    return nn.group_conv2d_nhwc(t[0], t[1], *how, a["groups"], a.get("out_dtype"))


def _depthwise_nhwc(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    how = (a["strides"], a["padding"], a["dilation"])
    return nn.depthwise_conv2d_nhwc(t[0], t[1], *how, out_dtype=a.get("out_dtype"))


def _depthwise_nchwc(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    how = (a["strides"], a["padding"], a["dilation"], a.get("out_dtype"))
    return nn.depthwise_nchwc(t[0], t[1], *how)


def _numpy_pack_depthwise(x: Sequence[Array], a: Mapping[str, Any]) -> Array:
    c, _, *window = x[0].shape
    b = a["block"]
    return compact(np.moveaxis(x[0].reshape(c // b, b, *window), 1, -1))


def _pool(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    how = (a["kernel"], a["strides"], a.get("dilation", (1, 1)), a["padding"], a["type"])
    space = a.get("space", (2, 3))
    return pool(t[0], *how, a["ceil_mode"], space, a["count_include_pad"], whole_windows=False)


def _windows(a: Mapping[str, Any]) -> tuple[Any, Any, Any, Any]:
    return a["kernel"], a["strides"], a["dilation"], a["padding"]


def _pool_nd(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    how = (a["type"], a["ceil_mode"], a["count_include_pad"], a["p"])
    return nn.pool_nd(t[0], *_windows(a), *how, space=a.get("space"))


def _adaptive_pool(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    sizes = a["sizes"]
    return adaptive(t[0], sizes, a["type"], range(t[0].ndim - len(sizes), t[0].ndim))


def _max_pool_index(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    return nn.max_pool_index(t[0], *_windows(a), a["ceil_mode"], a["column_major"])


def _conv_nd(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    how = (a["strides"], a["padding"], a["dilation"], a["groups"], a.get("out_dtype"))
    return nn.conv_nd(t[0], t[1], *how)


def _conv3d_ndhwc(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    how = (a["strides"], a["padding"], a["dilation"], a["groups"])
    return nn.conv3d_ndhwc(t[0], t[1], *how, a.get("out_dtype", t[0].dtype))


def _deformable_columns(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """Inputs: data, offsets and, if there is one, the mask."""
    mask = t[2] if len(t) > 2 else None
    how = (a["kernel"], a["strides"], a["padding"], a["dilation"], a["offset_groups"])
    return nn.deformable_columns(t[0], t[1], mask, *how)


def _col2im(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    how = (a["block"], a["strides"], a["padding"], a["dilation"])
    return nn.col2im(t[0], a["image"], *how)


OPS: dict[str, OpSpec] = {
    "conv2d": rounded_once(_conv2d, precision=PRODUCT),
    "conv_nd": rounded_once(_conv_nd, precision=PRODUCT),
    "deformable_columns": OpSpec(_deformable_columns, OPAQUE),
    "col2im": OpSpec(_col2im, ANCHOR),
    "conv_nchwc": rounded_once(_conv_nchwc),
    "depthwise_nchwc": rounded_once(_depthwise_nchwc),
    "conv2d_nhwc": rounded_once(_conv2d_nhwc),
    "conv3d_ndhwc": rounded_once(_conv3d_ndhwc),
    "depthwise_nhwc": rounded_once(_depthwise_nhwc),
    "winograd_input": OpSpec(
        lambda t, a: nn.winograd_input(t[0], a["tile"], a["padding"]), REARRANGED
    ),
    "winograd_product": OpSpec(
        lambda t, a: nn.winograd_product(t[0], t[1], a["strides"], a["padding"], a["dilation"]),
        ANCHOR,
    ),
    "winograd_output": OpSpec(
        lambda t, a: nn.winograd_output(t[0], a["tile"], a["batch"], a["size"]), REARRANGED
    ),
    "pack_depthwise": OpSpec(
        lambda t, a: nn.pack_depthwise(t[0], a["block"]), INJECTIVE, _numpy_pack_depthwise
    ),
    "pack_kernel": OpSpec(
        lambda t, a: nn.pack_kernel(t[0], a["in_block"], a["out_block"], a.get("terms", 1)),
        INJECTIVE,
        _numpy_pack_kernel,
    ),
    "dense": rounded_once(_dense, precision=PRODUCT),
    "dense_packed": rounded_once(_dense_packed),
    "pack_dense": OpSpec(_pack_dense, INJECTIVE, _numpy_pack_dense),
    "matmul": rounded_once(_matmul, precision=PRODUCT),
    "batch_matmul": rounded_once(_batch_matmul, precision=PRODUCT),
    "pool2d": OpSpec(_pool, ANCHOR),
    "pool_nd": OpSpec(_pool_nd, ANCHOR),
    "adaptive_pool": OpSpec(_adaptive_pool, ANCHOR, precision=INSIDE),
    "max_pool_index": OpSpec(_max_pool_index, OPAQUE),
    "global_pool": OpSpec(
        lambda t, a: nn.global_pool(t[0], a["type"], a.get("layout", "NCHW")),
        ANCHOR,
        precision=INSIDE,
    ),
}
