"""Losses of classifiers."""

from __future__ import annotations

from ..ir import Value
from .convert import Builder, Converter, OnnxNode


def _loss(b: Builder, node: OnnxNode, x: Value) -> Value:
    """The loss of log-probabilities x, of narrow floats in float32."""
    target, weight = node.input(1), node.optional(2)
    reduction = node.get("reduction", "mean")
    if reduction not in ("none", "sum", "mean"):
        raise node.error(f"reduction is 'none', 'sum' or 'mean', got {reduction!r}")
    if len(x.shape) < 2 or target.shape != (x.shape[0], *x.shape[2:]):
        raise node.error(f"classes {target!r} do not fit {x!r}")
    if weight is not None and weight.shape != x.shape[1:2]:
        raise node.error(f"weights {weight!r} do not fit the classes of {x!r}")
    ignore = node.get("ignore_index")
    weights = [] if weight is None else [weight]
    loss = b.add("nll", [x, target, *weights], node.name, ignore=ignore)
    if reduction != "none":
        loss = _sum(b, loss, node.name)
    if reduction == "mean":
        counted = b.add("nll_weight", [target, *weights], node.name, ignore=ignore, dtype=x.dtype)
        loss = b.add("divide", [loss, _sum(b, counted, node.name)], node.name)
    return loss if loss.dtype == x.dtype else b.add("cast", [loss], dtype=x.dtype)


def _sum(b: Builder, v: Value, name: str) -> Value:
    axes = list(range(len(v.shape)))
    return b.add("reduce", [v], name + ".sum", type="sum", axes=axes, keepdims=False)


def negative_log_likelihood(b: Builder, node: OnnxNode) -> Value:
    return _loss(b, node, node.input(0))


def softmax_cross_entropy(b: Builder, node: OnnxNode) -> list[Value]:
    likely = b.add("log_softmax", [node.input(0)], node.name + ".log", axis=1)
    return [_loss(b, node, likely), likely]


CONVERTERS: dict[str, Converter] = {
    "NegativeLogLikelihoodLoss": negative_log_likelihood,
    "SoftmaxCrossEntropyLoss": softmax_cross_entropy,
}
