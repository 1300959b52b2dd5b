"""One step of a recurrent layer by itself, for devices, whose launches are what steps wait for.

A step is one computation, its sums of products included; a GRU that resets its state before the
product is two, since all of what is reset has to be there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ..transform import index_within
from .recurrent_layer import Layer

STEP = "recurrent_step"
"""The tag of what a step computes, by which default schedules know it."""


@dataclass(frozen=True)
class OneStep(Layer):
    """A layer's step whose number is data (`number`, of no dimensions). Of `initial` (1, batch,
    kept, hidden), the states before it, those after it are computed. `kept` (1, batch, hidden):
    what `reset` has given of them."""

    number: Tensor | None = None
    kept: Tensor | None = None

    @property
    def rows_of_states(self) -> int:
        return 1

    def states(self) -> Tensor:
        """(1, batch, kept, hidden), after the step."""
        return _step(self.update(self.initial))

    def kept_state(self) -> Tensor:
        """(1, batch, hidden): what a GRU keeps of its state for the product of the hidden gate."""
        return _step(Layer.reset(self, self.initial))

    def reset(self, state: Tensor) -> Tensor:
        assert self.kept is not None  # a GRU's that resets before the product
        return self.kept

    def step(self, t: Any) -> Any:
        assert self.number is not None
        return self.number()

    def place(self, t: Any) -> Any:
        return index_within(self.step(t), self.inputs.shape[0], "clip")

    def before(self, t: Any) -> Any:
        return t


def _step(t: Tensor) -> Tensor:
    found: Tensor = compute(t.shape, lambda *i: t(*i), "T_step", STEP)
    return found
