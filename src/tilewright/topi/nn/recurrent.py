"""One step of recurrent layers. The input's products with the weights are there for all steps:
`inputs` (steps, batch, gates * hidden) at index `step`, with all biases; `states` (batch, gates *
hidden) holds those of the state before. Results are (batch, hidden).

Where `lengths` (batch) says that a sequence has ended before `step`, its state stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ..transform import index_within

Activation = tuple[str, float, float]
"""A function's name, its alpha and its beta."""

ACTIVATIONS: dict[str, tuple[int, float, float, Callable[[Any, float, float], Any]]] = {
    "relu": (0, 0.0, 0.0, lambda x, a, b: O.max(x, 0)),
    "tanh": (0, 0.0, 0.0, lambda x, a, b: O.tanh(x)),
    "sigmoid": (0, 0.0, 0.0, lambda x, a, b: O.sigmoid(x)),
    "affine": (2, 1.0, 0.0, lambda x, a, b: x * a + b),
    "leakyrelu": (1, 0.01, 0.0, lambda x, a, b: O.select(x < 0, x * a, x)),
    "thresholdedrelu": (1, 1.0, 0.0, lambda x, a, b: O.select(x > a, x, x * 0)),
    "scaledtanh": (2, 1.0, 1.0, lambda x, a, b: O.tanh(x * b) * a),
    "hardsigmoid": (2, 0.2, 0.5, lambda x, a, b: O.max(O.min(x * a + b, 1), 0)),
    "elu": (1, 1.0, 0.0, lambda x, a, b: O.select(x < 0, (O.exp(O.min(x, 0)) - 1) * a, x)),
    "softsign": (0, 0.0, 0.0, lambda x, a, b: x / (O.abs(x) + 1)),
    "softplus": (0, 0.0, 0.0, lambda x, a, b: O.max(x, 0) + O.log(O.exp(-O.abs(x)) + 1)),
}
"""By name: how many of alpha and beta it has, their defaults, the function."""


@dataclass(frozen=True)
class Step:
    """What all steps read. `clip` bounds what gates' activations are given."""

    inputs: Tensor
    step: Tensor
    states: Tensor
    lengths: Tensor | None
    hidden: int
    clip: float | None

    def gate(self, b: Any, j: Any, number: int) -> Any:
        """A gate before its activation."""
        place = index_within(self.step(), self.inputs.shape[0], "clip")
        column = number * self.hidden + j
        return self.inputs(place, b, column) + self.states(b, column)

    def input(self, b: Any, j: Any, number: int) -> Any:
        """What the input alone gives a gate."""
        place = index_within(self.step(), self.inputs.shape[0], "clip")
        return self.inputs(place, b, number * self.hidden + j)

    def active(self, which: Activation, x: Any) -> Any:
        """An activation of a clipped gate."""
        if self.clip is not None:
            limit = const(self.clip, x.dtype)
            x = O.max(O.min(x, limit), -limit)
        return apply(which, x)

    def result(self, name: str, element: Callable[[Any, Any], Any], before: Tensor) -> Tensor:
        """The new state, or the one before where the sequence has ended."""

        def kept(b: Any, j: Any) -> Any:
            new = element(b, j)
            if self.lengths is None:
                return new
            length = self.lengths(b)
            return O.select(cast(length.dtype, self.step()) < length, new, before(b, j))

        shape = (self.states.shape[0], self.hidden)
        result: Tensor = compute(shape, kept, name, "elemwise")
        return result


def apply(which: Activation, x: Any) -> Any:
    """An activation."""
    name, alpha, beta = which
    if name not in ACTIVATIONS:
        raise TilewrightError(f"activation {name!r} is none of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name][3](x, alpha, beta)


def rnn_cell(s: Step, before: Tensor, f: Activation) -> Tensor:
    """The state after a step of a plain recurrent layer."""
    return s.result("T_rnn", lambda b, j: s.active(f, s.gate(b, j, 0)), before)


def lstm_cell(
    s: Step,
    cell: Tensor,
    peepholes: Tensor | None,
    f: Activation,
    g: Activation,
    coupled: bool = False,
) -> Tensor:
    """The cell after a step of an LSTM, whose gates are input, output, forget and cell;
    `peepholes` (3 * hidden) those of input, output and forget. `coupled`: what is not taken in is
    kept."""

    def gate(b: Any, j: Any, number: int, peephole: int) -> Any:
        x = s.gate(b, j, number)
        if peepholes is not None:
            x = x + peepholes(peephole * s.hidden + j) * cell(b, j)
        return s.active(f, x)

    def element(b: Any, j: Any) -> Any:
        taken = gate(b, j, 0, 0)
        kept = const(1, taken.dtype) - taken if coupled else gate(b, j, 2, 2)
        return kept * cell(b, j) + taken * s.active(g, s.gate(b, j, 3))

    return s.result("T_lstm_cell", element, cell)


def lstm_output(
    s: Step,
    before: Tensor,
    cell: Tensor,
    peepholes: Tensor | None,
    f: Activation,
    h: Activation,
) -> Tensor:
    """The state after a step of an LSTM, of its cell after it."""

    def element(b: Any, j: Any) -> Any:
        x = s.gate(b, j, 1)
        if peepholes is not None:
            x = x + peepholes(s.hidden + j) * cell(b, j)
        return s.active(f, x) * apply(h, cell(b, j))  # the cell is not clipped, as in ONNX Runtime

    return s.result("T_lstm_output", element, before)


def gru_reset(s: Step, before: Tensor, f: Activation) -> Tensor:
    """What a GRU, whose gates are update, reset and hidden, keeps of its state for the product of
    the hidden gate."""
    free = Step(s.inputs, s.step, s.states, None, s.hidden, s.clip)
    return free.result(
        "T_gru_reset", lambda b, j: s.active(f, s.gate(b, j, 1)) * before(b, j), before
    )


def gru_cell(
    s: Step,
    before: Tensor,
    product: Tensor,
    f: Activation,
    g: Activation,
    reset_after: bool = False,
) -> Tensor:
    """The state after a step of a GRU. `product`: the hidden gate's of what gru_reset keeps, or
    with `reset_after` of the state, which is reset then; of the last columns."""
    ahead = product.shape[1] - s.hidden

    def element(b: Any, j: Any) -> Any:
        moved = product(b, ahead + j)
        if reset_after:
            moved = moved * s.active(f, s.gate(b, j, 1))
        new = s.active(g, s.input(b, j, 2) + moved)
        update = s.active(f, s.gate(b, j, 0))
        return (const(1, update.dtype) - update) * new + update * before(b, j)

    return s.result("T_gru", element, before)
