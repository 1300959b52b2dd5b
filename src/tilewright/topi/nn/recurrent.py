"""What recurrent layers compute: elements of new states, made of gates.

Where the gates come from differs between a step alone (`Step`, for devices) and a whole layer
(recurrent_layer.py). Where `lengths` (batch) says that a sequence has ended before a step, its
state stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

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


Element = Callable[[Any, Any], Any]
"""Of a row of the batch and a column of the state."""


class Gates(Protocol):
    """What an element of a new state is made of. `clip` bounds what gates' activations are
    given."""

    @property
    def hidden(self) -> int: ...
    @property
    def clip(self) -> float | None: ...
    def gate(self, b: Any, j: Any, number: int) -> Any:
        """A gate before its activation."""

    def input(self, b: Any, j: Any, number: int) -> Any:
        """What the input alone gives a gate."""


@dataclass(frozen=True)
class Step:
    """The gates of one step: `inputs` (steps, batch, gates * hidden), the input's products with the
    weights and all biases, at index `step`, and `states` (batch, gates * hidden), the products of
    the state before. Results are (batch, hidden)."""

    inputs: Tensor
    step: Tensor
    states: Tensor
    lengths: Tensor | None
    hidden: int
    clip: float | None

    def gate(self, b: Any, j: Any, number: int) -> Any:
        return self.input(b, j, number) + self.states(b, number * self.hidden + j)

    def input(self, b: Any, j: Any, number: int) -> Any:
        place = index_within(self.step(), self.inputs.shape[0], "clip")
        return self.inputs(place, b, number * self.hidden + j)

    def result(self, name: str, element: Element, before: Tensor) -> Tensor:
        """The new state, or the one before where the sequence has ended."""

        def kept(b: Any, j: Any) -> Any:
            return unless_ended(self.lengths, self.step(), element, before)(b, j)

        shape = (self.states.shape[0], self.hidden)
        result: Tensor = compute(shape, kept, name, "elemwise")
        return result


def unless_ended(lengths: Tensor | None, step: Any, element: Element, before: Any) -> Element:
    """An element of a new state, or of the one before where the sequence has ended."""
    if lengths is None:
        return element

    def kept(b: Any, j: Any) -> Any:
        length = lengths(b)
        return O.select(cast(length.dtype, step) < length, element(b, j), before(b, j))

    return kept


def _active(s: Gates, which: Activation, x: Any) -> Any:
    """An activation of a clipped gate."""
    if s.clip is not None:
        limit = const(s.clip, x.dtype)
        x = O.max(O.min(x, limit), -limit)
    return apply(which, x)


def apply(which: Activation, x: Any) -> Any:
    """An activation."""
    name, alpha, beta = which
    if name not in ACTIVATIONS:
        raise TilewrightError(f"activation {name!r} is none of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name][3](x, alpha, beta)


@dataclass(frozen=True)
class Functions:
    """What a layer's gates become: activations in ONNX's order, and for an LSTM whether what is not
    taken in is kept (`coupled`), for a GRU whether the state is reset behind its product."""

    activations: tuple[Activation, ...]
    coupled: bool = False
    reset_after: bool = False


def rnn_element(s: Gates, how: Functions) -> Element:
    """The state after a step of a plain recurrent layer."""
    return lambda b, j: _active(s, how.activations[0], s.gate(b, j, 0))


def _peeping(s: Gates, peepholes: Tensor | None, cell: Any) -> Callable[[Any, Any, int, int], Any]:
    """Gates of an LSTM with what they see of the cell; `peepholes` (3 * hidden) are those of input,
    output and forget."""

    def gate(b: Any, j: Any, number: int, peephole: int) -> Any:
        x = s.gate(b, j, number)
        if peepholes is None:
            return x
        return x + cast(x.dtype, peepholes(peephole * s.hidden + j)) * cell(b, j)

    return gate


def lstm_cell_element(s: Gates, how: Functions, cell: Any, peepholes: Tensor | None) -> Element:
    """The cell after a step of an LSTM, whose gates are input, output, forget and cell."""
    f, g = how.activations[:2]
    gate = _peeping(s, peepholes, cell)

    def element(b: Any, j: Any) -> Any:
        taken = _active(s, f, gate(b, j, 0, 0))
        kept = const(1, taken.dtype) - taken if how.coupled else _active(s, f, gate(b, j, 2, 2))
        return kept * cell(b, j) + taken * _active(s, g, s.gate(b, j, 3))

    return element


def lstm_output_element(s: Gates, how: Functions, after: Any, peepholes: Tensor | None) -> Element:
    """The state after a step of an LSTM, of its cell after it, which is not clipped, as in ONNX
    Runtime."""
    gate = _peeping(s, peepholes, after)
    f, h = how.activations[0], how.activations[2]
    return lambda b, j: _active(s, f, gate(b, j, 1, 1)) * apply(h, after(b, j))


def gru_reset_element(s: Gates, how: Functions, before: Any) -> Element:
    """What a GRU, whose gates are update, reset and hidden, keeps of its state for the product of
    the hidden gate."""
    return lambda b, j: _active(s, how.activations[0], s.gate(b, j, 1)) * before(b, j)


def gru_element(s: Gates, how: Functions, before: Any, product: Element) -> Element:
    """The state after a step of a GRU. `product`: the hidden gate's of what gru_reset_element
    keeps, or with `reset_after` of the state, which is reset then."""
    f, g = how.activations

    def element(b: Any, j: Any) -> Any:
        moved = product(b, j)
        if how.reset_after:
            moved = moved * _active(s, f, s.gate(b, j, 1))
        new = _active(s, g, s.input(b, j, 2) + moved)
        update = _active(s, f, s.gate(b, j, 0))
        return (const(1, update.dtype) - update) * new + update * before(b, j)

    return element
