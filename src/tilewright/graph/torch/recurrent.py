"""Recurrent layers, by ONNX's operators, whose gates come in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import Value
from .convert import Call, Converter

ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""PyTorch's gates (input, forget, cell, output; reset, update, new) as ONNX has them."""


def _in_order(c: Call, kind: str, v: Value) -> Value:
    """Weights or biases with their gates in ONNX's order, and a dimension of directions before."""
    rows = v.shape[0] // len(ORDER[kind])
    parts = [c.part(v, 0, g * rows, (g + 1) * rows) for g in ORDER[kind]]
    return c.reshape(c.join(parts, 0), (1, *v.shape))


def _layer(kind: str, activation: str = "") -> Converter:
    def convert(
        c: Call, x: Value, states: Value | Sequence[Value], params: Sequence[Value], biases: bool,
        layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> list[Value]:  # fmt: skip
        if train and dropout:
            raise c.error("dropout between layers draws numbers, in training")
        directions, each = 2 if bidirectional else 1, 4 if biases else 2
        if len(params) != layers * directions * each:
            return _projected(c, x, states, params, layers, directions, batch_first)
        given = [states] if isinstance(states, Value) else list(states)
        x = c.transpose(x, (1, 0, 2)) if batch_first else x
        attrs: dict[str, Any] = {"hidden_size": params[1].shape[1]}
        attrs["direction"] = "bidirectional" if bidirectional else "forward"
        if activation:
            attrs["activations"] = [activation] * directions
        if kind == "GRU":
            attrs["linear_before_reset"] = 1
        ends: list[list[Value]] = []
        for layer in range(layers):
            at = range(layer * directions * each, (layer + 1) * directions * each, each)
            weights = [c.join([_in_order(c, kind, params[k + n]) for k in at], 0) for n in (0, 1)]
            bias = None
            if biases:
                both = [_in_order(c, kind, params[k + n]) for k in at for n in (2, 3)]
                pairs = [c.join(both[k : k + 2], 1) for k in range(0, len(both), 2)]
                bias = c.join(pairs, 0)
            first, last = layer * directions, (layer + 1) * directions
            before = [c.part(v, 0, first, last) for v in given]
            inputs = [x, *weights, bias, None, *before]
            y, *after = c.onnx(kind, inputs, 1 + len(given), **attrs)
            steps, _, batch, hidden = y.shape
            x = c.reshape(c.transpose(y, (0, 2, 1, 3)), (steps, batch, directions * hidden))
            ends.append(after)
        x = c.transpose(x, (1, 0, 2)) if batch_first else x
        return [x, *(c.join([e[k] for e in ends], 0) for k in range(len(given)))]

    return convert


def _projected(
    c: Call, x: Value, states: Any, params: Sequence[Value], layers: int, directions: int,
    batch_first: bool,
) -> list[Value]:  # fmt: skip
    """LSTMs whose state is a product of what they give (proj_size), which ONNX has not: one step
    after another."""
    each = len(params) // (layers * directions)
    steps = [c.part(x, int(batch_first), t, t + 1) for t in range(x.shape[int(batch_first)])]
    rows = [c.reshape(v, (v.shape[1 - int(batch_first)], v.shape[2])) for v in steps]
    ends: list[list[Value]] = [[], []]
    for at in range(0, layers * directions, directions):
        found = []
        for k in range(at, at + directions):
            w, r, *biases, narrow = params[k * each : (k + 1) * each]
            h, cell = (c.reshape(c.part(v, 0, k, k + 1), v.shape[1:]) for v in states)
            order = range(len(rows))[:: -1 if k > at else 1]
            results: dict[int, Value] = {}
            for t in order:
                gates = c("add", c("dense", rows[t], w), c("dense", h, r))
                for bias in biases:
                    gates = c("bias_add", gates, bias, axis=1)
                i, f, g, o = c.parts(gates, 1, [gates.shape[1] // 4] * 4)
                kept = c("multiply", c("sigmoid", f), cell)
                cell = c("add", kept, c("multiply", c("sigmoid", i), c("tanh", g)))
                h = c("dense", c("multiply", c("sigmoid", o), c("tanh", cell)), narrow)
                results[t] = h
            for ended, v in zip(ends, (h, cell)):
                ended.append(c.reshape(v, (1, *v.shape)))
            found.append(results)
        rows = [c.join([results[t] for results in found], 1) for t in range(len(rows))]
    axis = int(batch_first)
    apart = [c.reshape(v, (*v.shape[:axis], 1, *v.shape[axis:])) for v in rows]
    return [c.join(apart, axis), *(c.join(v, 0) for v in ends)]


CONVERTERS: dict[str, Converter] = {
    "lstm.input": _layer("LSTM"),
    "gru.input": _layer("GRU"),
    "rnn_tanh.input": _layer("RNN"),
    "rnn_relu.input": _layer("RNN", "Relu"),
}
