"""RNN, GRU and LSTM: the input's products of all steps at once, then one step after another.

Steps are unrolled. Their kernels are the same code, since the number of the step is data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...topi.nn.recurrent import ACTIVATIONS, Activation
from ..ir import Value
from .compose import Compose
from .convert import Builder, Converter, OnnxNode

_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def _activations(node: OnnxNode, default: list[str], directions: int) -> list[list[Activation]]:
    """Of each direction. Alphas and betas are given for functions that have them, in order."""
    names = node.get("activations") or default * directions
    if len(names) != len(default) * directions:
        raise node.error(f"activations {names} for {directions} directions")
    alphas, betas = (iter(node.get(f"activation_{k}") or []) for k in ("alpha", "beta"))
    found: list[Activation] = []
    for name in names:
        if name.lower() not in ACTIVATIONS:
            raise node.error(f"activation {name!r} is unknown")
        count, alpha, beta, _ = ACTIVATIONS[name.lower()]
        alpha = next(alphas, alpha) if count > 0 else alpha
        beta = next(betas, beta) if count > 1 else beta
        found.append((name.lower(), float(alpha), float(beta)))
    return [found[k : k + len(default)] for k in range(0, len(found), len(default))]


@dataclass(frozen=True)
class _Layer:
    """One direction of a layer. `inputs`: the products of the input, (steps, batch, gates *
    hidden), biases included but `state_bias`; `recurrent` (gates * hidden, hidden)."""

    c: Compose
    inputs: Value
    recurrent: Value
    state_bias: Value | None
    peepholes: Value | None
    lengths: Value | None
    hidden: int
    clip: float | None
    functions: list[Activation]

    def cell(self, op: str, step: Value, product: Value, *more: Value, **attrs: Any) -> Value:
        lengths = [] if self.lengths is None else [self.lengths]
        return self.c(
            op,
            self.inputs,
            step,
            product,
            *more,
            *lengths,
            lengths=self.lengths is not None,
            hidden=self.hidden,
            clip=self.clip,
            **attrs,
        )


States = tuple[Value, ...]
Advance = Callable[[_Layer, Value, States], States]


def _rnn_step(layer: _Layer, step: Value, states: States) -> States:
    (h,) = states
    product = layer.c("dense", h, layer.recurrent)
    return (layer.cell("rnn_cell", step, product, h, f=layer.functions[0]),)


def _lstm_step(coupled: bool) -> Advance:
    def advance(layer: _Layer, step: Value, states: States) -> States:
        h, cell = states
        product = layer.c("dense", h, layer.recurrent)
        peepholes = [] if layer.peepholes is None else [layer.peepholes]
        f, g, last = layer.functions
        how: dict[str, Any] = {"peepholes": layer.peepholes is not None, "f": f}
        after = layer.cell(
            "lstm_cell", step, product, cell, *peepholes, g=g, coupled=coupled, **how
        )
        out = layer.cell("lstm_output", step, product, h, after, *peepholes, h=last, **how)
        return out, after

    return advance


def _gru_step(reset_after: bool) -> Advance:
    def advance(layer: _Layer, step: Value, states: States) -> States:
        (h,) = states
        c, n = layer.c, layer.hidden
        f, g = layer.functions
        if reset_after:
            product = gates = c("dense", h, layer.recurrent)
            if layer.state_bias is not None:
                product = gates = c("bias_add", product, layer.state_bias, axis=1)
        else:
            gates = c("dense", h, c.part(layer.recurrent, 0, 0, 2 * n))
            kept = layer.cell("gru_reset", step, gates, h, f=f)
            product = c("dense", kept, c.part(layer.recurrent, 0, 2 * n, 3 * n))
        how = {"f": f, "g": g, "reset_after": reset_after}
        return (layer.cell("gru_cell", step, gates, h, product, **how),)

    return advance


def _recurrent(gates: int, default: list[str]) -> Converter:
    """A layer with so many gates, and by default such activations."""

    def convert(b: Builder, node: OnnxNode) -> list[Value | None]:
        c = Compose(b, node)
        direction = node.get("direction", "forward")
        if direction not in _DIRECTIONS:
            raise node.error(f"direction {direction!r} is unknown")
        reset_after = bool(node.get("linear_before_reset", 0))
        advance: Advance = _rnn_step
        if node.kind == "LSTM":
            advance = _lstm_step(bool(node.get("input_forget", 0)))
        elif node.kind == "GRU":
            advance = _gru_step(reset_after)
        whole = _Inputs(c, node, gates, _DIRECTIONS[direction])
        functions = _activations(node, default, whole.directions)
        results = []
        for k in range(whole.directions):
            layer = whole.layer(k, functions[k], reset_after and node.kind == "GRU")
            backwards = direction == "reverse" or k == 1
            results.append(_run(layer, whole.states(k), advance, whole.steps, backwards))
        return whole.outputs(results)

    return convert


def _run(
    layer: _Layer, states: States, advance: Advance, steps: int, backwards: bool
) -> tuple[list[Value], States]:
    """The state after each step, in the order of the steps in the data, and the last states."""
    found: list[Value] = []
    order = range(steps)
    for t in reversed(order) if backwards else order:
        step = layer.c.constant(np.asarray(t, np.int32))
        states = advance(layer, step, states)
        found.append(states[0])
    return found[::-1] if backwards else found, states


class _Inputs:
    """What a node reads, in the type in which steps are computed, and what it gives."""

    def __init__(self, c: Compose, node: OnnxNode, gates: int, directions: int) -> None:
        self.c, self.node, self.gates, self.directions = c, node, gates, directions
        self.dtype = node.input(0).dtype
        self.batch_first = bool(node.get("layout", 0))
        x = c.wide(node.input(0))
        if len(x.shape) != 3:
            raise node.error(f"the input {x!r} is not (steps, batch, elements)")
        self.x = c.transpose(x, (1, 0, 2)) if self.batch_first else x
        self.steps, self.batch, self.size = self.x.shape
        self.hidden = node.get("hidden_size", node.input(2).shape[-1])
        rows = gates * self.hidden
        self.weights = self._checked(1, (directions, rows, self.size))
        self.recurrent = self._checked(2, (directions, rows, self.hidden))
        self.bias = self._optional(3, (directions, 2 * rows))
        self.peepholes = None
        if node.kind == "LSTM":
            self.peepholes = self._optional(7, (directions, 3 * self.hidden))
        lengths = node.optional(4)
        if lengths is not None and lengths.shape != (self.batch,):
            raise node.error(f"sequence_lens {lengths!r} do not fit {self.batch} sequences")
        if lengths is not None and lengths.data is not None and np.all(lengths.data >= self.steps):
            lengths = None
        self.lengths = lengths

    def _checked(self, index: int, shape: tuple[int, ...]) -> Value:
        value = self.node.input(index)
        if value.shape != shape:
            raise self.node.error(f"input {index} is {value!r}, shape {list(shape)} was expected")
        return self.c.wide(value)

    def _optional(self, index: int, shape: tuple[int, ...]) -> Value | None:
        return None if self.node.optional(index) is None else self._checked(index, shape)

    def _of(self, v: Value, direction: int) -> Value:
        part = self.c.part(v, 0, direction, direction + 1)
        return self.c.reshape(part, v.shape[1:])

    def layer(self, k: int, functions: list[Activation], reset_after: bool) -> _Layer:
        """Direction `k`."""
        c, rows = self.c, self.gates * self.hidden
        flat = c.reshape(self.x, (self.steps * self.batch, self.size))
        products = c("dense", flat, self._of(self.weights, k))
        state_bias: Value | None = None
        if self.bias is not None:
            first, second = c.parts(self._of(self.bias, k), 0, [rows, rows])
            if reset_after:  # the hidden gate's bias is reset with the state
                zeros = c.full((self.hidden,), 0, first.dtype)
                gates, last = c.parts(second, 0, [rows - self.hidden, self.hidden])
                second = c.join([gates, zeros], 0)
                state_bias = c.join([c.full((rows - self.hidden,), 0, last.dtype), last], 0)
            products = c("bias_add", products, c("add", first, second), axis=1)
        inputs = c.reshape(products, (self.steps, self.batch, rows))
        peepholes = None if self.peepholes is None else self._of(self.peepholes, k)
        clip = self.node.get("clip")
        return _Layer(
            c,
            inputs,
            self._of(self.recurrent, k),
            state_bias,
            peepholes,
            self.lengths,
            self.hidden,
            None if clip is None else float(clip),
            functions,
        )

    def states(self, k: int) -> States:
        """The states of direction `k` before the first step."""
        found = []
        for index in (5, 6) if self.node.kind == "LSTM" else (5,):
            if self.node.optional(index) is None:
                zeros = self.c.full((self.batch, self.hidden), 0, self.x.dtype)
                found.append(zeros)
                continue
            outer = (self.directions, self.batch)
            shape = (*(outer[::-1] if self.batch_first else outer), self.hidden)
            given = self._checked(index, shape)
            given = self.c.transpose(given, (1, 0, 2)) if self.batch_first else given
            found.append(self._of(given, k))
        return tuple(found)

    def outputs(self, results: list[tuple[list[Value], States]]) -> list[Value | None]:
        """Y, Y_h and Y_c, as far as they are asked for."""
        c, node = self.c, self.node
        found: list[Value | None] = []
        if node.outputs[0]:
            found.append(self._every_step([states for states, _ in results]))
        else:
            found.append(None)
        for k, name in enumerate(node.outputs[1:]):
            if not name:
                found.append(None)
                continue
            last = [c.reshape(s[k], (1, self.batch, self.hidden)) for _, s in results]
            joined = c.join(last, 0)
            joined = c.transpose(joined, (1, 0, 2)) if self.batch_first else joined
            found.append(c.cast(joined, self.dtype))
        return found

    def _every_step(self, each: list[list[Value]]) -> Value:
        """(steps, directions, batch, hidden), zeros behind the ends of sequences."""
        c = self.c
        shape = (self.steps, self.directions, self.batch, self.hidden)
        if not self.steps:
            y = c.full(shape, 0, self.x.dtype)
        else:
            one = (1, 1, self.batch, self.hidden)
            lines = [c.join([c.reshape(h, one) for h in states], 0) for states in each]
            y = c.join(lines, 1)
        if self.lengths is not None:
            steps = np.arange(self.steps, dtype=np.int64).reshape(-1, 1, 1, 1)
            ends = c.reshape(c.cast(self.lengths, "int64"), (1, 1, self.batch, 1))
            inside = c("less", c.constant(steps), ends)
            y = c("where", inside, y, c.number(0, y.dtype))
        y = c.transpose(y, (2, 0, 1, 3)) if self.batch_first else y
        return c.cast(y, self.dtype)


CONVERTERS: dict[str, Converter] = {
    "RNN": _recurrent(1, ["Tanh"]),
    "GRU": _recurrent(3, ["Sigmoid", "Tanh"]),
    "LSTM": _recurrent(4, ["Sigmoid", "Tanh", "Tanh"]),
}
