"""A recurrent layer as one scan over its steps.

The products of the state are computed for some rows of the batch and some columns of all gates at
once, and become the new state of these columns while they are in registers. So weights may lie in
blocks of columns (`pack_recurrent`), which a step reads from one end to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...loopir import op as O
from ...loopir.expr import const_int
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute, placeholder
from ...tensor.reduce import sum as reduce_sum
from ...tensor.scan import scan
from ...tensor.tensor import Tensor
from .recurrent import (
    Element,
    Functions,
    gru_element,
    gru_reset_element,
    lstm_cell_element,
    lstm_output_element,
    rnn_element,
    unless_ended,
)

LAYER = "recurrent_layer"
"""The tag of a layer's scan, by which default schedules know it."""
UPDATE, INSIDE, RESET, PRODUCT = (
    f"recurrent_{what}" for what in ("update", "inside", "reset", "product")
)
"""Tags of the stages of a step: the new state, what is computed with it, what is computed of all of
it before, and sums of products."""

PRODUCTS = {"RNN": ((0,),), "LSTM": ((0, 1, 2, 3),), "GRU": ((1,), (0,), (2,))}
RESET_AFTER = ((0, 1, 2),)


def products_of(kind: str, how: Functions) -> tuple[tuple[int, ...], ...]:
    """The gates of each product of the state that is computed at once."""
    return RESET_AFTER if kind == "GRU" and how.reset_after else PRODUCTS[kind]


@dataclass(frozen=True)
class Layer:
    """`inputs` (steps, batch, gates * hidden): the input's products with the weights, and all
    biases; `initial` (batch, kept, hidden): the state before the first step, and an LSTM's cell
    behind it. `weights`, one of each of `products_of`: (gates * hidden, hidden), or in blocks
    (blocks, hidden, gates, columns). `rows` of the batch are computed together. `backwards`: the
    first step reads the last inputs. `state_bias` (hidden): what a GRU resets with its product."""

    kind: str
    inputs: Tensor
    initial: Tensor
    weights: Sequence[Tensor]
    how: Functions
    clip: float | None = None
    state_bias: Tensor | None = None
    peepholes: Tensor | None = None
    lengths: Tensor | None = None
    backwards: bool = False
    rows: int = 1

    @property
    def hidden(self) -> int:
        found = const_int(self.initial.shape[2])
        assert found is not None  # the extent of weights
        return found

    def states(self) -> Tensor:
        """(steps + 1, batch, kept, hidden): before the first step, and after each one."""
        steps, initial = self.inputs.shape[0], self.initial
        shape = (steps + 1, *initial.shape)
        state = placeholder(shape, initial.dtype, "state")
        first = compute((1, *initial.shape), lambda t, b, q, j: initial(b, q, j), "T_first")
        if self.kind == "LSTM":
            update = self._lstm(state)
        else:
            update = self._gru(state) if self.kind == "GRU" else self._rnn(state)
        result: Tensor = scan(first, update, state, name="T_layer", tag=LAYER)
        return result

    def step(self, t: Any) -> Any:
        """The index in the data of the step that computes row t of the states."""
        return self.inputs.shape[0] - t if self.backwards else t - 1

    def _rnn(self, state: Tensor) -> Tensor:
        products = [self._product(0, _before(state))]

        def element(t: Any, b: Any, q: Any, j: Any) -> Any:
            new = rnn_element(_At(self, t, products), self.how)
            return self._kept(t, new, state, 0)(b, j)

        return _stage(state.shape, element, "T_update", UPDATE)

    def _lstm(self, state: Tensor) -> Tensor:
        products = [self._product(0, _before(state))]

        def cell(t: Any, b: Any, j: Any) -> Any:
            at, before = _At(self, t, products), _row(state, t - 1, 1)
            new = lstm_cell_element(at, self.how, before, self.peepholes)
            return self._kept(t, new, state, 1)(b, j)

        cells = _stage(_flat(state), cell, "T_cell", INSIDE)

        def element(t: Any, b: Any, q: Any, j: Any) -> Any:
            at = _At(self, t, products)
            new = lstm_output_element(at, self.how, lambda b, j: cells(t, b, j), self.peepholes)
            new = self._kept(t, new, state, 0)
            return O.if_then_else(q.equal(0), new(b, j), cells(t, b, j))

        return _stage(state.shape, element, "T_update", UPDATE)

    def _gru(self, state: Tensor) -> Tensor:
        products = [self._product(0, _before(state))]
        if not self.how.reset_after:

            def reset(t: Any, b: Any, j: Any) -> Any:
                at, before = _At(self, t, products[:1]), _row(state, t - 1, 0)
                return gru_reset_element(at, self.how, before)(b, j)

            kept = _stage(_flat(state), reset, "T_reset", RESET)
            products.append(self._product(1, _before(state)))
            products.append(self._product(2, lambda t, b, k: kept(t, b, k)))

        def element(t: Any, b: Any, q: Any, j: Any) -> Any:
            at = _At(self, t, products)

            def moved(b: Any, j: Any) -> Any:
                found = at.product(b, j, 2)
                return found if self.state_bias is None else found + self.state_bias(j)

            new = gru_element(at, self.how, _row(state, t - 1, 0), moved)
            return self._kept(t, new, state, 0)(b, j)

        return _stage(state.shape, element, "T_update", UPDATE)

    def _kept(self, t: Any, element: Element, state: Tensor, which: int) -> Element:
        return unless_ended(self.lengths, self.step(t), element, _row(state, t - 1, which))

    def _product(self, which: int, read: Callable[[Any, Any, Any], Any]) -> Tensor:
        """(steps + 1, rows in whole tiles, blocks, gates, columns of a block) of the sums over
        elements that `read` gives of step, row and number."""
        weights, hidden, rows = self.weights[which], self.hidden, self.rows
        batch: Any = self.initial.shape[0]
        gates = len(products_of(self.kind, self.how)[which])
        packed = weights.ndim == 4
        blocks, columns = (weights.shape[0], weights.shape[3]) if packed else (hidden, 1)
        k = reduce_axis((0, hidden), "k")

        def element(t: Any, b: Any, block: Any, gate: Any, j: Any) -> Any:
            # rows beyond the last are computed of that one, and not read
            row = O.min(b, batch - 1) if rows > 1 else b
            if packed:
                weight = weights(block, k, gate, j)
            else:
                weight = weights(gate * hidden + block, k)
            return reduce_sum(read(t, row, k) * weight, axis=k)

        steps, whole = self.inputs.shape[0] + 1, (batch + rows - 1) // rows * rows
        shape = (steps, whole, blocks, gates, columns)
        return _stage(shape, element, "T_product", PRODUCT, rows=rows)


def _stage(shape: Any, element: Any, name: str, tag: str, **attrs: Any) -> Tensor:
    result: Tensor = compute(shape, element, name, tag, attrs)
    return result


def _before(state: Tensor) -> Callable[[Any, Any, Any], Any]:
    """Elements of the state before a step."""
    return lambda t, b, k: state(t - 1, b, 0, k)


def _row(state: Tensor, t: Any, which: int) -> Element:
    """The state at one row of it, or the cell there."""
    return lambda b, j: state(t, b, which, j)


def _flat(state: Tensor) -> tuple[Any, ...]:
    return (state.shape[0], state.shape[1], state.shape[3])


@dataclass(frozen=True)
class _At:
    """The gates of the step that computes row `t` of a layer's states."""

    layer: Layer
    t: Any
    products: Sequence[Tensor]

    @property
    def hidden(self) -> int:
        return self.layer.hidden

    @property
    def clip(self) -> float | None:
        return self.layer.clip

    def gate(self, b: Any, j: Any, number: int) -> Any:
        return self.input(b, j, number) + self.product(b, j, number)

    def input(self, b: Any, j: Any, number: int) -> Any:
        return self.layer.inputs(self.layer.step(self.t), b, number * self.hidden + j)

    def product(self, b: Any, j: Any, number: int) -> Any:
        """What the state before gives a gate."""
        kinds = products_of(self.layer.kind, self.layer.how)
        found, gates = next((p, g) for p, g in zip(self.products, kinds) if number in g)
        columns = found.shape[4]
        return found(self.t, b, j // columns, gates.index(number), j % columns)
