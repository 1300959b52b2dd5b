"""What a name of a hybrid script stands for while it is read: memory, numbers, declarations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...base.errors import UsageError
from ...loopir.buffer import Buffer
from ...loopir.expr import BufferLoad, IntImm, PrimExpr, const, convert


class Memory:
    """An array of a script, or with `scalar` a variable that is assigned more than once."""

    def __init__(self, buffer: Buffer, scalar: bool = False) -> None:
        self.buffer = buffer
        self.scalar = scalar

    @property
    def shape(self) -> tuple[PrimExpr, ...]:
        return self.buffer.shape

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    @property
    def name(self) -> str:
        return self.buffer.name

    def at(self, indices: Sequence[Any]) -> Any:
        """An element; with fewer indices than dimensions what waits for the rest."""
        if len(indices) < len(self.shape):
            return Part(self, tuple(indices))
        return BufferLoad(self.buffer, self.checked(indices))

    def checked(self, indices: Sequence[Any]) -> list[PrimExpr]:
        """One index for each dimension."""
        if len(indices) != len(self.shape):
            raise UsageError(
                f"{self.name} has {len(self.shape)} dimensions, got {len(indices)} indices"
            )
        return [convert(i) for i in indices]


class Part(NamedTuple):
    """An array with some indices given."""

    memory: Memory
    indices: tuple[Any, ...]

    @property
    def shape(self) -> tuple[PrimExpr, ...]:
        return self.memory.shape[len(self.indices) :]


class Declared(NamedTuple):
    """What `output_tensor` and `allocate` give until it has a name."""

    shape: tuple[PrimExpr, ...]
    dtype: str
    scope: str


class Loop(NamedTuple):
    """What stands after `in`: a kind of loop, where it begins and how many steps it has."""

    kind: Any
    low: Any
    extent: Any
    tag: str = ""


def is_number(value: Any) -> bool:
    """Whether a value is known while the script is read."""
    return isinstance(value, (int, float, bool, str))


def known_int(value: Any, what: str) -> int:
    """An integer that has to be known while the script is read."""
    if isinstance(value, IntImm):
        return int(value.value)
    if isinstance(value, int):
        return value
    raise UsageError(f"{what} has to be a constant, got {value}")


def scalar_memory(name: str, dtype: str) -> Memory:
    """Memory for one value."""
    return Memory(Buffer([const(1)], dtype, name), scalar=True)
