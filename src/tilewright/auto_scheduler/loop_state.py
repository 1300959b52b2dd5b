"""States by the name under which TVM's sketch rules make theirs."""

from __future__ import annotations

from typing import Any

from . import state
from .rows import apply_row


class State(state.State):
    """`State(state_object, dag)`: a copy of a state, to be changed by a sketch rule."""

    def __init__(self, state_object: state.State, dag: Any) -> None:
        super().__init__(dag)
        for row in state_object.rows:
            apply_row(self, row)
