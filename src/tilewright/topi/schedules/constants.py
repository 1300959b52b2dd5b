"""What of a computation is known before any call: its constants, and what schedules make of them.

A default schedule may want an operand laid anew, by a kernel of its own. Of a constant that is done
once: the schedule reads an argument in its place, and says of what it is made.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...tensor.op import ComputeOp, PlaceholderOp
from ...tensor.tensor import Tensor


class Constants:
    """The inputs that are `known`, and what was `made`: of each new argument the constant that it
    is computed from, and the tensor of it that stands for the argument."""

    __slots__ = ("known", "made")

    def __init__(self, known: Iterable[Tensor] = ()) -> None:
        self.known = frozenset(known)
        self.made: dict[Tensor, tuple[Tensor, Tensor]] = {}

    def ahead(self, t: Tensor) -> Tensor:
        """An argument in the place of what is computed from a constant alone; others as they
        are."""
        reads = t.op.input_tensors
        if not isinstance(t.op, ComputeOp) or len(reads) != 1 or reads[0] not in self.known:
            return t
        new = PlaceholderOp(t.op.name, t.shape, t.dtype).output(0)
        self.made[new] = (reads[0], t)
        return new
