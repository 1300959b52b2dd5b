"""Activations."""

from __future__ import annotations

from typing import Any

from ..ir import Value
from .convert import Builder, Converter, OnnxNode


def _activation(op: str, **defaults: Any) -> Converter:
    """An operation of one value, with its attributes and their defaults."""

    def convert(b: Builder, node: OnnxNode) -> Value:
        attrs = {name: node.get(name, default) for name, default in defaults.items()}
        return b.add(op, [node.input(0)], node.name, **attrs)

    return convert


def selu(b: Builder, node: OnnxNode) -> Value:
    """Operator sets before 6 had fewer digits."""
    alpha, gamma = (1.6732, 1.0507) if b.opset < 6 else (1.6732631921768188, 1.0507010221481323)
    alpha, gamma = node.get("alpha", alpha), node.get("gamma", gamma)
    return b.add("selu", [node.input(0)], node.name, alpha=alpha, gamma=gamma)


def gelu(b: Builder, node: OnnxNode) -> Value:
    how = node.get("approximate", "none")
    if how not in ("none", "tanh"):
        raise node.error(f"approximate is 'none' or 'tanh', got {how!r}")
    return b.add("gelu", [node.input(0)], node.name, approximate=how)


def prelu(b: Builder, node: OnnxNode) -> Value:
    """Before operator set 7, one slope or one for each channel."""
    x, slope = node.input(0), node.input(1)
    if b.opset < 7 and len(slope.shape) == 1 and len(x.shape) > 1:
        slope = b.add("reshape", [slope], shape=(*slope.shape, *[1] * (len(x.shape) - 2)))
    out = b.add("prelu", [x, slope], node.name)
    if out.shape != x.shape:
        raise node.error(f"slopes {slope!r} cannot be stretched to {x!r}")
    return out


def swiglu(b: Builder, node: OnnxNode) -> Value:
    gate, x = node.input(0), node.input(1)
    if gate.shape != x.shape:
        raise node.error(f"{gate!r} and {x!r} differ in shape")
    return b.add("swiglu", [gate, x], node.name, alpha=node.get("alpha", 1.0))


CONVERTERS: dict[str, Converter] = {
    "Celu": _activation("celu", alpha=1.0),
    "Elu": _activation("elu", alpha=1.0),
    "Selu": selu,
    "Gelu": gelu,
    "HardSigmoid": _activation("hard_sigmoid", alpha=0.20000000298023224, beta=0.5),
    "HardSwish": _activation("hard_swish"),
    "Softplus": _activation("softplus"),
    "Mish": _activation("mish"),
    "Swish": _activation("swish", alpha=1.0),
    "SwiGLU": swiglu,
    "Softsign": _activation("softsign"),
    "ThresholdedRelu": _activation("thresholded_relu", alpha=1.0),
    "Shrink": _activation("shrink", lambd=0.5, bias=0.0),
    "PRelu": prelu,
}
