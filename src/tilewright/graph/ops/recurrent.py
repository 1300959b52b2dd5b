"""One step of recurrent layers.

Inputs of each: the products of the input at all steps, the number of the step, the product of the
state, the state before; then what the attributes `peepholes` and `lengths` say is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...tensor.tensor import Tensor
from ...topi.nn import recurrent as R
from .spec import OPAQUE, OpSpec

Tensors = Sequence[Tensor]
Attrs = Mapping[str, Any]


def _step(t: Tensors, a: Attrs) -> R.Step:
    lengths = t[-1] if a["lengths"] else None
    return R.Step(t[0], t[1], t[2], lengths, a["hidden"], a["clip"])


def _rnn(t: Tensors, a: Attrs) -> Tensor:
    return R.rnn_cell(_step(t, a), t[3], a["f"])


def _lstm_cell(t: Tensors, a: Attrs) -> Tensor:
    peepholes = t[4] if a["peepholes"] else None
    return R.lstm_cell(_step(t, a), t[3], peepholes, a["f"], a["g"], a["coupled"])


def _lstm_output(t: Tensors, a: Attrs) -> Tensor:
    """The fifth input is the cell after the step."""
    peepholes = t[5] if a["peepholes"] else None
    return R.lstm_output(_step(t, a), t[3], t[4], peepholes, a["f"], a["h"])


def _gru_reset(t: Tensors, a: Attrs) -> Tensor:
    return R.gru_reset(_step(t, a), t[3], a["f"])


def _gru_cell(t: Tensors, a: Attrs) -> Tensor:
    """The fifth input is the product of the hidden gate."""
    return R.gru_cell(_step(t, a), t[3], t[4], a["f"], a["g"], a["reset_after"])


OPS: dict[str, OpSpec] = {
    "rnn_cell": OpSpec(_rnn, OPAQUE),
    "lstm_cell": OpSpec(_lstm_cell, OPAQUE),
    "lstm_output": OpSpec(_lstm_output, OPAQUE),
    "gru_reset": OpSpec(_gru_reset, OPAQUE),
    "gru_cell": OpSpec(_gru_cell, OPAQUE),
}
