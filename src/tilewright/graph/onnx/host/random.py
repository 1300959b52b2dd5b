"""Random numbers. A node with a seed gives the same numbers at each run; the others draw from one
generator of the process."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import HostFunction, HostNode
from .common import Array, check_room, element_type, one, required

_SHARED = np.random.default_rng()


def _generator(node: HostNode) -> np.random.Generator:
    seed = node.get("seed")
    if seed is None:
        return _SHARED
    # seeds may be no whole numbers, and negative
    return np.random.default_rng(np.array(seed, np.float64).view(np.uint64).item())


def _type(node: HostNode, default: np.dtype[Any]) -> np.dtype[Any]:
    number = node.get("dtype")
    return default if number is None else element_type(node, number)


def _shape(node: HostNode) -> list[int]:
    shape = node.numbers("shape")
    if shape is None:
        raise node.error("the shape is missing")
    return shape


def _uniform(node: HostNode, shape: Any, dtype: np.dtype[Any]) -> list[Any]:
    low, high = node.get("low", 0.0), node.get("high", 1.0)
    check_room(node, shape, np.dtype(np.float64))
    return [np.asarray(low + (high - low) * _generator(node).random(shape)).astype(dtype)]


def _normal(node: HostNode, shape: Any, dtype: np.dtype[Any]) -> list[Any]:
    check_room(node, shape, np.dtype(np.float64))
    drawn = _generator(node).standard_normal(shape)
    return [np.asarray(node.get("mean", 0.0) + node.get("scale", 1.0) * drawn).astype(dtype)]


def _random_uniform(node: HostNode) -> list[Any]:
    return _uniform(node, _shape(node), _type(node, np.dtype(np.float32)))


def _random_normal(node: HostNode) -> list[Any]:
    return _normal(node, _shape(node), _type(node, np.dtype(np.float32)))


def _random_uniform_like(node: HostNode) -> list[Any]:
    x: Array = required(node, 0)
    return _uniform(node, x.shape, _type(node, x.dtype))


def _random_normal_like(node: HostNode) -> list[Any]:
    x: Array = required(node, 0)
    return _normal(node, x.shape, _type(node, x.dtype))


def _bernoulli(node: HostNode) -> list[Any]:
    x: Array = required(node, 0)
    drawn = np.asarray(_generator(node).random(x.shape))
    return [np.asarray(drawn < x.astype(np.float64)).astype(_type(node, x.dtype))]


def _multinomial(node: HostNode) -> list[Any]:
    x: Array = required(node, 0)
    count = node.get("sample_size", 1)
    if x.ndim != 2 or not x.shape[1] or count < 0:
        raise node.error(f"{count} samples of logarithms of shape {list(x.shape)}")
    rows, kinds = x.shape
    dtype = _type(node, np.dtype(np.int32))
    check_room(node, (rows, count), np.dtype(np.float64))
    logs = x.astype(np.float64)
    chances = np.exp(logs - logs.max(1, keepdims=True))
    if not np.isfinite(chances).all():
        raise node.error("a row of logarithms has no sum")
    below = chances.cumsum(1)
    # one search in all rows: each lies above the one before it
    start = np.arange(rows)[:, None]
    drawn = start + _generator(node).random((rows, count))
    found = np.searchsorted((start + below / below[:, -1:]).reshape(-1), drawn, "right")
    last = kinds - 1 - (chances[:, ::-1] > 0).argmax(1)
    return [np.minimum(found - start * kinds, last[:, None]).astype(dtype)]


def _dropout(node: HostNode) -> list[Any]:
    x: Array = required(node, 0)
    if node.opset < 7:
        ratio, training = node.get("ratio", 0.5), not node.get("is_test", 0)
    elif node.opset < 12:
        ratio, training = 0.0, False
    else:
        ratio, training = float(one(node, 1, 0.5)), bool(one(node, 2, False))
    if not 0 <= ratio < 1:
        raise node.error(f"the ratio must be at least 0 and less than 1, got {ratio}")
    mask_type = np.dtype(bool) if node.opset >= 10 else x.dtype
    if not training or not ratio:
        return [x, np.ones(x.shape, mask_type)]
    mask = np.asarray(_generator(node).random(x.shape) >= ratio)
    with np.errstate(all="ignore"):
        scaled = np.asarray(x * x.dtype.type(1 / (1 - ratio)), x.dtype)
    return [np.where(mask, scaled, x.dtype.type(0)), mask.astype(mask_type)]


FUNCTIONS: dict[str, HostFunction] = {
    "Bernoulli": _bernoulli,
    "Dropout": _dropout,
    "Multinomial": _multinomial,
    "RandomNormal": _random_normal,
    "RandomNormalLike": _random_normal_like,
    "RandomUniform": _random_uniform,
    "RandomUniformLike": _random_uniform_like,
}
