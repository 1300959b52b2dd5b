"""RNN, GRU and LSTM: the input's products of all steps at once, then a layer for each direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...topi.nn.recurrent import ACTIVATIONS, Activation, Functions
from ...topi.nn.recurrent_layer import products_of
from ..ir import Value
from ..ops.recurrent import OPTIONAL
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


def _recurrent(gates: int, default: list[str]) -> Converter:
    """A layer with so many gates, and by default such activations."""

    def convert(b: Builder, node: OnnxNode) -> list[Value | None]:
        direction = node.get("direction", "forward")
        if direction not in _DIRECTIONS:
            raise node.error(f"direction {direction!r} is unknown")
        whole = _Inputs(Compose(b, node), node, gates, _DIRECTIONS[direction])
        functions = _activations(node, default, whole.directions)
        backwards = [direction == "reverse", True]
        results = [
            _Result(whole.layer(k, functions[k], backwards[k]), backwards[k])
            for k in range(whole.directions)
        ]
        return whole.outputs(results)

    return convert


@dataclass(frozen=True)
class _Result:
    """The states of one direction in the order in which they are computed: (steps + 1, batch, kept,
    hidden), the first of which was there before."""

    states: Value
    backwards: bool


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

    def layer(self, k: int, functions: list[Activation], backwards: bool) -> Value:
        """The states of direction `k`."""
        c, kind, n = self.c, self.node.kind, self.hidden
        reset_after = kind == "GRU" and bool(self.node.get("linear_before_reset", 0))
        coupled = kind == "LSTM" and bool(self.node.get("input_forget", 0))
        how = Functions(tuple(functions), coupled, reset_after)
        more: dict[str, Value | None] = {"lengths": self.lengths}
        inputs, more["state_bias"] = self._products(k, reset_after)
        if self.peepholes is not None:
            more["peepholes"] = self._of(self.peepholes, k)
        recurrent = self._of(self.recurrent, k)
        weights = [
            c.join([c.part(recurrent, 0, g * n, (g + 1) * n) for g in numbers], 0)
            for numbers in products_of(kind, how)
        ]
        optional = {name: more.get(name) for name in OPTIONAL}
        clip = self.node.get("clip")
        return c(
            "recurrent_layer",
            inputs,
            self._initial(k),
            *weights,
            *(v for v in optional.values() if v is not None),
            kind=kind,
            functions=how.activations,
            coupled=coupled,
            reset_after=reset_after,
            clip=None if clip is None else float(clip),
            backwards=backwards,
            **{name: v is not None for name, v in optional.items()},
        )

    def _products(self, k: int, reset_after: bool) -> tuple[Value, Value | None]:
        """What the input gives the gates, (steps, batch, gates * hidden), with all biases but the
        second: the hidden gate's, which is reset with the state."""
        c, rows = self.c, self.gates * self.hidden
        flat = c.reshape(self.x, (self.steps * self.batch, self.size))
        products = c("dense", flat, self._of(self.weights, k))
        state_bias: Value | None = None
        if self.bias is not None:
            first, second = c.parts(self._of(self.bias, k), 0, [rows, rows])
            if reset_after:
                gates, state_bias = c.parts(second, 0, [rows - self.hidden, self.hidden])
                second = c.join([gates, c.full((self.hidden,), 0, first.dtype)], 0)
            products = c("bias_add", products, c("add", first, second), axis=1)
        return c.reshape(products, (self.steps, self.batch, rows)), state_bias

    def _initial(self, k: int) -> Value:
        """What direction `k` keeps before the first step, (batch, kept, hidden)."""
        found, one = [], (self.batch, 1, self.hidden)
        for index in (5, 6) if self.node.kind == "LSTM" else (5,):
            if self.node.optional(index) is None:
                found.append(self.c.full(one, 0, self.x.dtype))
                continue
            outer = (self.directions, self.batch)
            shape = (*(outer[::-1] if self.batch_first else outer), self.hidden)
            given = self._checked(index, shape)
            given = self.c.transpose(given, (1, 0, 2)) if self.batch_first else given
            found.append(self.c.reshape(self._of(given, k), one))
        return self.c.join(found, 1)

    def outputs(self, results: list[_Result]) -> list[Value | None]:
        """Y, Y_h and Y_c, as far as they are asked for."""
        c, node = self.c, self.node
        found: list[Value | None] = [self._every_step(results) if node.outputs[0] else None]
        for which, name in enumerate(node.outputs[1:]):
            if not name:
                found.append(None)
                continue
            last = [c.part(r.states, 0, self.steps, self.steps + 1) for r in results]
            last = [c.part(v, 2, which, which + 1) for v in last]
            joined = c.join([c.reshape(v, (1, self.batch, self.hidden)) for v in last], 0)
            joined = c.transpose(joined, (1, 0, 2)) if self.batch_first else joined
            found.append(c.cast(joined, self.dtype))
        return found

    def _every_step(self, results: list[_Result]) -> Value:
        """(steps, directions, batch, hidden), zeros behind the ends of sequences."""
        c = self.c
        lines = []
        for r in results:
            order = (self.steps, 0, -1) if r.backwards else (1, self.steps + 1, 1)
            states = c.part(c.part(r.states, 0, *order), 2, 0, 1)
            lines.append(c.reshape(states, (self.steps, 1, self.batch, self.hidden)))
        y = c.join(lines, 1)
        if self.lengths is not None:
            how = {"start": 0, "step": 1, "count": self.steps, "dtype": "int64"}
            steps = c.b.add("arange", [], self.node.name, **how)
            ends = c.reshape(c.cast(self.lengths, "int64"), (1, 1, self.batch, 1))
            inside = c("less", c.reshape(steps, (self.steps, 1, 1, 1)), ends)
            y = c("where", inside, y, c.number(0, y.dtype))
        y = c.transpose(y, (2, 0, 1, 3)) if self.batch_first else y
        return c.cast(y, self.dtype)


CONVERTERS: dict[str, Converter] = {
    "RNN": _recurrent(1, ["Tanh"]),
    "GRU": _recurrent(3, ["Sigmoid", "Tanh"]),
    "LSTM": _recurrent(4, ["Sigmoid", "Tanh", "Tanh"]),
}
