"""A recurrent layer as one scan over its steps.

The products of the state are computed for some rows of the batch and some columns of all gates at
once, and become the new state of these columns while they are in registers. So weights may lie in
blocks of columns (`pack_recurrent`), which a step reads from one end to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...loopir import op as O
from ...loopir.expr import cast, const_int
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute, placeholder
from ...tensor.reduce import sum as reduce_sum
from ...tensor.scan import scan
from ...tensor.tensor import Tensor
from ..elemwise import accumulator
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
    behind it. `weights`, by their numbers in `products_of`: (gates * hidden, hidden), or in blocks
    (blocks, hidden, gates, columns). `rows` of the batch are computed together. `backwards`: the
    first step reads the last inputs. `state_bias` (hidden): what a GRU resets with its product."""

    kind: str
    inputs: Tensor
    initial: Tensor
    weights: Mapping[int, Tensor]
    how: Functions
    clip: float | None = None
    state_bias: Tensor | None = None
    peepholes: Tensor | None = None
    lengths: Tensor | None = None
    backwards: bool = False
    rows: int = 1

    @property
    def rows_of_states(self) -> Any:
        """How many rows of states are computed: with the one before all steps."""
        return self.inputs.shape[0] + 1

    @property
    def batch(self) -> Any:
        return self.initial.shape[-3]

    @property
    def hidden(self) -> int:
        found = const_int(self.initial.shape[-1])
        assert found is not None  # the extent of weights
        return found

    def states(self) -> Tensor:
        """(steps + 1, batch, kept, hidden): before the first step, and after each one."""
        steps, initial = self.inputs.shape[0], self.initial
        shape = (steps + 1, *initial.shape)
        state = placeholder(shape, initial.dtype, "state")
        first = compute((1, *initial.shape), lambda t, b, q, j: initial(b, q, j), "T_first")
        result: Tensor = scan(first, self.update(state), state, name="T_layer", tag=LAYER)
        return result

    def update(self, state: Tensor) -> Tensor:
        """The states after steps, of those before them."""
        kinds = {"RNN": self._rnn, "LSTM": self._lstm, "GRU": self._gru}
        return kinds[self.kind](state)

    def step(self, t: Any) -> Any:
        """The index in the data of the step that computes row t of the states."""
        return self.inputs.shape[0] - t if self.backwards else t - 1

    def place(self, t: Any) -> Any:
        """That index, where there is such a step."""
        return self.step(t)

    def before(self, t: Any) -> Any:
        """The row of the states that row t is computed of."""
        return t - 1

    def _rnn(self, state: Tensor) -> Tensor:
        products = {0: self._product(0, self._whole(state))}

        def element(t: Any, b: Any, q: Any, j: Any) -> Any:
            new = rnn_element(_At(self, t, products), self.how)
            return self._kept(t, new, state, 0)(b, j)

        return self._updated(state, element)

    def _lstm(self, state: Tensor) -> Tensor:
        products = {0: self._product(0, self._whole(state))}

        def cell(t: Any, b: Any, j: Any) -> Any:
            at, before = _At(self, t, products), self._row(state, t, 1)
            new = lstm_cell_element(at, self.how, before, self.peepholes)
            return self._kept(t, new, state, 1)(b, j)

        cells = _stage(_flat(state), cell, "T_cell", INSIDE)

        def element(t: Any, b: Any, q: Any, j: Any) -> Any:
            at = _At(self, t, products)
            new = lstm_output_element(at, self.how, lambda b, j: cells(t, b, j), self.peepholes)
            new = self._kept(t, new, state, 0)
            return O.if_then_else(q.equal(0), new(b, j), cells(t, b, j))

        return self._updated(state, element)

    def _gru(self, state: Tensor) -> Tensor:
        if self.how.reset_after:
            products = {0: self._product(0, self._whole(state))}
        else:
            kept = self.reset(state)
            products = {
                1: self._product(1, self._whole(state)),
                2: self._product(2, lambda t, b, k: kept(t, b, k)),
            }

        def element(t: Any, b: Any, q: Any, j: Any) -> Any:
            at = _At(self, t, products)

            def moved(b: Any, j: Any) -> Any:
                found = at.product(b, j, 2)
                bias = self.state_bias
                return found if bias is None else found + cast(found.dtype, bias(j))

            new = gru_element(at, self.how, self._row(state, t, 0), moved)
            return self._kept(t, new, state, 0)(b, j)

        return self._updated(state, element)

    def reset(self, state: Tensor) -> Tensor:
        """What a GRU keeps of its state for the product of the hidden gate."""
        products = {0: self._product(0, self._whole(state))}

        def element(t: Any, b: Any, j: Any) -> Any:
            at, before = _At(self, t, products), self._row(state, t, 0)
            return cast(state.dtype, gru_reset_element(at, self.how, before)(b, j))

        return _stage(_flat(state), element, "T_reset", RESET)

    def _updated(self, state: Tensor, element: Callable[..., Any]) -> Tensor:
        def rounded(*i: Any) -> Any:
            return cast(state.dtype, element(*i))

        return _stage(state.shape, rounded, "T_update", UPDATE)

    def _kept(self, t: Any, element: Element, state: Tensor, which: int) -> Element:
        return unless_ended(self.lengths, self.step(t), element, self._row(state, t, which))

    def _whole(self, state: Tensor) -> Callable[[Any, Any, Any], Any]:
        """Elements of the state before a step."""
        return lambda t, b, k: state(self.before(t), b, 0, k)

    def _row(self, state: Tensor, t: Any, which: int) -> Element:
        """The state before a step, or the cell."""
        wide = accumulator(state.dtype)
        return lambda b, j: cast(wide, state(self.before(t), b, which, j))

    def _product(self, which: int, read: Callable[[Any, Any, Any], Any]) -> Tensor:
        """(rows of states, rows in whole tiles, blocks, gates, columns of a block) of the sums over
        elements that `read` gives of step, row and number."""
        weights, hidden, rows, batch = self.weights[which], self.hidden, self.rows, self.batch
        wide = accumulator(weights.dtype)
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
            return reduce_sum(cast(wide, read(t, row, k)) * cast(wide, weight), axis=k)

        whole = (batch + rows - 1) // rows * rows
        shape = (self.rows_of_states, whole, blocks, gates, columns)
        return _stage(shape, element, "T_product", PRODUCT, rows=rows)


def _stage(shape: Any, element: Any, name: str, tag: str, **attrs: Any) -> Tensor:
    result: Tensor = compute(shape, element, name, tag, attrs)
    return result


def _flat(state: Tensor) -> tuple[Any, ...]:
    return (state.shape[0], state.shape[1], state.shape[3])


@dataclass(frozen=True)
class _At:
    """The gates of the step that computes row `t` of a layer's states."""

    layer: Layer
    t: Any
    products: Mapping[int, Tensor]

    @property
    def hidden(self) -> int:
        return self.layer.hidden

    @property
    def clip(self) -> float | None:
        return self.layer.clip

    def gate(self, b: Any, j: Any, number: int) -> Any:
        return self.input(b, j, number) + self.product(b, j, number)

    def input(self, b: Any, j: Any, number: int) -> Any:
        inputs = self.layer.inputs
        value = inputs(self.layer.place(self.t), b, number * self.hidden + j)
        return cast(accumulator(inputs.dtype), value)

    def product(self, b: Any, j: Any, number: int) -> Any:
        """What the state before gives a gate."""
        kinds = products_of(self.layer.kind, self.layer.how)
        found, gates = next((p, kinds[n]) for n, p in self.products.items() if number in kinds[n])
        columns = found.shape[4]
        return found(self.t, b, j // columns, gates.index(number), j % columns)
