"""Recurrent layers, and single steps of them.

Inputs of a layer: the products of the input at all steps, the state before the first step, the
weights of each product of the state; then what the attributes say is there. Inputs of a step: the
products of the input at all steps, the number of the step, the product of the state, the state
before; then what the attributes `peepholes` and `lengths` say is there. Of a step that computes its
products, `recurrent_step`: the products of the input, the number of the step, the states before;
what `recurrent_reset` gives of them, of a GRU that resets before the product; then as of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...tensor.tensor import Tensor
from ...topi.nn import recurrent as R
from ...topi.nn.recurrent_layer import Layer, products_of
from ...topi.nn.recurrent_step import OneStep
from .spec import OPAQUE, WIDE, OpSpec

Tensors = Sequence[Tensor]
Attrs = Mapping[str, Any]
OPTIONAL = ("state_bias", "peepholes", "lengths")
"""Inputs of a layer that may be there, in their order."""


def functions_of(a: Attrs) -> R.Functions:
    """What a layer's or a step's attributes say of its functions."""
    return R.Functions(tuple(map(tuple, a["functions"])), a["coupled"], a["reset_after"])


def _layer(t: Tensors, a: Attrs) -> Tensor:
    how, given = functions_of(a), iter(t)
    inputs, initial = next(given), next(given)
    weights = {n: next(given) for n, _ in enumerate(products_of(a["kind"], how))}
    bias, peepholes, lengths = (next(given) if a[name] else None for name in OPTIONAL)
    more = (bias, peepholes, lengths, a["backwards"], a.get("rows", 1))
    return Layer(a["kind"], inputs, initial, weights, how, a["clip"], *more).states()


def _one_step(t: Tensors, a: Attrs) -> Tensor:
    how, given = functions_of(a), iter(t)
    inputs, number, states = next(given), next(given), next(given)
    numbers = range(len(products_of(a["kind"], how)))
    kept = next(given) if len(numbers) > 1 else None
    weights = {n: next(given) for n in (numbers[1:] if kept is not None else numbers)}
    bias, peepholes, lengths = (next(given) if a[name] else None for name in OPTIONAL)
    layer = (a["kind"], inputs, states, weights, how, a["clip"], bias, peepholes, lengths)
    return OneStep(*layer, number=number, kept=kept).states()


def _reset(t: Tensors, a: Attrs) -> Tensor:
    inputs, number, states, weights = t
    layer = (a["kind"], inputs, states, {0: weights}, functions_of(a), a["clip"])
    return OneStep(*layer, number=number).kept_state()


def _step(t: Tensors, a: Attrs) -> R.Step:
    lengths = t[-1] if a["lengths"] else None
    return R.Step(t[0], t[1], t[2], lengths, a["hidden"], a["clip"])


def _rnn(t: Tensors, a: Attrs) -> Tensor:
    s = _step(t, a)
    return s.result("T_rnn", R.rnn_element(s, functions_of(a)), t[3])


def _lstm_cell(t: Tensors, a: Attrs) -> Tensor:
    s, peepholes = _step(t, a), t[4] if a["peepholes"] else None
    element = R.lstm_cell_element(s, functions_of(a), t[3], peepholes)
    return s.result("T_lstm_cell", element, t[3])


def _lstm_output(t: Tensors, a: Attrs) -> Tensor:
    """The fifth input is the cell after the step."""
    s, peepholes = _step(t, a), t[5] if a["peepholes"] else None
    element = R.lstm_output_element(s, functions_of(a), t[4], peepholes)
    return s.result("T_lstm_output", element, t[3])


def _gru_reset(t: Tensors, a: Attrs) -> Tensor:
    s = _step(t, {**a, "lengths": False})
    return s.result("T_gru_reset", R.gru_reset_element(s, functions_of(a), t[3]), t[3])


def _gru_cell(t: Tensors, a: Attrs) -> Tensor:
    """The fifth input is the product of the hidden gate, its last columns."""
    s, product = _step(t, a), t[4]
    ahead = product.shape[1] - s.hidden
    element = R.gru_element(s, functions_of(a), t[3], lambda b, j: product(b, ahead + j))
    return s.result("T_gru", element, t[3])


OPS: dict[str, OpSpec] = {
    "recurrent_layer": OpSpec(_layer, OPAQUE, precision=WIDE),
    "recurrent_step": OpSpec(_one_step, OPAQUE),
    "recurrent_reset": OpSpec(_reset, OPAQUE),
    "rnn_cell": OpSpec(_rnn, OPAQUE),
    "lstm_cell": OpSpec(_lstm_cell, OPAQUE),
    "lstm_output": OpSpec(_lstm_output, OPAQUE),
    "gru_reset": OpSpec(_gru_reset, OPAQUE),
    "gru_cell": OpSpec(_gru_cell, OPAQUE),
}
