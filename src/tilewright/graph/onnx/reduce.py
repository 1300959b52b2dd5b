"""Reductions, and norms made of them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...base.dtype import parse
from ..ir import Value
from .convert import Builder, Converter, OnnxNode


def _axes(node: OnnxNode, rank: int) -> list[int]:
    """The dimensions of a reduction. None listed means all, unless that is to mean none."""
    given = node.numbers("axes" if "axes" in node.attrs else 1) or []
    listed = node.axes(given, rank)
    if not listed and node.get("noop_with_empty_axes", 0):
        return []
    return listed or list(range(rank))


def _reduce(kind: str) -> Converter:
    """Over no dimension, what is done to each element before and after a reduction is still
    done."""

    def convert(b: Builder, node: OnnxNode) -> Value:
        x = node.input(0)
        axes = _axes(node, len(x.shape))
        keep = bool(node.get("keepdims", 1))
        if not axes and kind in ("sum", "mean", "max", "min", "prod"):
            return x
        if x.dtype == "bool":  # the largest is "any", the smallest "all"
            x = b.add("cast", [x], dtype="uint8")
        if kind == "log_sum_exp":
            out = b.add(kind, [x], node.name, axes=axes, keepdims=keep) if axes else x
        else:
            out = b.add("reduce", [x], node.name, type=kind, axes=axes, keepdims=keep)
        same = out.dtype == node.input(0).dtype
        return out if same else b.add("cast", [out], dtype=node.input(0).dtype)

    return convert


def _arg(kind: str) -> Converter:
    def convert(b: Builder, node: OnnxNode) -> Value:
        x = node.input(0)
        axis = node.axis(node.get("axis", 0), len(x.shape))
        if not x.shape[axis]:
            raise node.error(f"dimension {axis} of {x!r} has no elements")
        keep, last = bool(node.get("keepdims", 1)), bool(node.get("select_last_index", 0))
        return b.add("arg", [x], node.name, type=kind, axes=(axis,), keepdims=keep, last=last)

    return convert


def hardmax(b: Builder, node: OnnxNode) -> Value:
    """Before operator set 13, over all dimensions from the axis on."""
    x = node.input(0)
    axis = node.axis(node.get("axis", 1 if b.opset < 13 else -1), len(x.shape))
    if 0 in x.shape:
        return x
    shape = x.shape
    if b.opset < 13:
        x = b.add("reshape", [x], shape=(prod(shape[:axis]), prod(shape[axis:])))
        axis = 1
    first: dict[str, Any] = {"type": "max", "axes": (axis,), "keepdims": False, "last": False}
    place = b.add("arg", [x], node.name + ".place", **first)
    values = b.constant(np.array([0, 1], parse(x.dtype).numpy), node.name + ".values")
    out = b.add("one_hot", [place, values], node.name, axis=axis, depth=x.shape[axis])
    return out if out.shape == shape else b.add("reshape", [out], shape=shape)


def lp_normalization(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    p = node.get("p", 2)
    if p not in (1, 2):
        raise node.error(f"p is 1 or 2, got {p}")
    axis = node.axis(node.get("axis", -1), len(x.shape))
    return b.add("lp_normalize", [x], node.name, axis=axis, p=p)


def mean_variance_normalization(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    axes = node.axes(node.numbers("axes") or [0, 2, 3], len(x.shape))
    return b.add("mean_variance", [x], node.name, axes=tuple(axes))


CONVERTERS: dict[str, Converter] = {
    "ReduceMean": _reduce("mean"),
    "ReduceSum": _reduce("sum"),
    "ReduceMax": _reduce("max"),
    "ReduceMin": _reduce("min"),
    "ReduceProd": _reduce("prod"),
    "ReduceL1": _reduce("l1"),
    "ReduceL2": _reduce("l2"),
    "ReduceLogSum": _reduce("log_sum"),
    "ReduceLogSumExp": _reduce("log_sum_exp"),
    "ReduceSumSquare": _reduce("sum_square"),
    "ArgMax": _arg("max"),
    "ArgMin": _arg("min"),
    "Hardmax": hardmax,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
}
