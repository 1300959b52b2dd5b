"""Steps of optimizers: ai.onnx.preview.training.

`Gradient` is not among them. It names a part of the graph that stands around it and asks for that
part's derivatives, so it is a transformation of graphs: for each operator between `xs` and `y` the
nodes of its derivative would be added, in the order opposite to the graph's, before conversion.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from ..node import HostFunction, HostNode
from .common import Array, one


def _groups(node: HostNode, count: int) -> list[list[Array]]:
    """The tensors, their gradients and what else there is of each, by tensor."""
    given = list(node.inputs[2:])
    if not given or len(given) % count or any(x is None for x in given):
        raise node.error(f"{len(given)} tensors after R and T, expected {count} for each")
    each = len(given) // count
    groups = [given[k::each] for k in range(each)]
    for group in groups:
        if len({x.shape for x in group}) != 1:
            shapes = ", ".join(str(list(x.shape)) for x in group)
            raise node.error(f"shapes {shapes} of what belongs to one tensor")
    return groups


def _steps(node: HostNode) -> tuple[float, int]:
    rate, updates = one(node, 0), one(node, 1)
    if rate is None or updates is None:
        raise node.error("it needs a learning rate and a number of updates")
    return float(rate), int(updates)


def _by_kind(results: list[list[Array]]) -> list[Any]:
    """All new tensors, then all of the next kind, as ONNX orders them."""
    return [np.asarray(x) for kind in zip(*results) for x in kind]


def _adagrad(node: HostNode) -> list[Any]:
    rate, updates = _steps(node)
    rate /= 1 + updates * node.get("decay_factor", 0.0)
    results = []
    for x, gradient, squares in _groups(node, 3):
        slope = node.get("norm_coefficient", 0.0) * x + gradient
        squares = squares + slope * slope
        x = x - rate * slope / (np.sqrt(squares) + node.get("epsilon", 1e-6))
        results.append([x, squares])
    return _by_kind(results)


def _adam(node: HostNode) -> list[Any]:
    rate, updates = _steps(node)
    alpha, beta = node.get("alpha", 0.9), node.get("beta", 0.999)
    if updates > 0:
        rate *= sqrt(1 - beta**updates) / (1 - alpha**updates)
    results = []
    for x, gradient, mean, squares in _groups(node, 4):
        slope = node.get("norm_coefficient", 0.0) * x + gradient
        mean = alpha * mean + (1 - alpha) * slope
        squares = beta * squares + (1 - beta) * slope * slope
        x = x - rate * mean / (np.sqrt(squares) + node.get("epsilon", 1e-6))
        x = (1 - node.get("norm_coefficient_post", 0.0)) * x
        results.append([x, mean, squares])
    return _by_kind(results)


def _momentum(node: HostNode) -> list[Any]:
    rate, updates = _steps(node)
    mode = node.get("mode")
    if mode not in ("standard", "nesterov"):
        raise node.error(f"mode {mode!r}; there are standard, nesterov")
    alpha, beta = node.get("alpha", 0.0), node.get("beta", 1.0) if updates > 0 else 1.0
    results = []
    for x, gradient, momentum in _groups(node, 3):
        slope = node.get("norm_coefficient", 0.0) * x + gradient
        momentum = alpha * momentum + beta * slope
        x = x - rate * (momentum if mode == "standard" else slope + alpha * momentum)
        results.append([x, momentum])
    return _by_kind(results)


_DOMAIN = "ai.onnx.preview.training."

FUNCTIONS: dict[str, HostFunction] = {
    _DOMAIN + "Adagrad": _adagrad,
    _DOMAIN + "Adam": _adam,
    _DOMAIN + "Momentum": _momentum,
}
