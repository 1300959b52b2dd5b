"""What converters and host operators are given: one node of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ...base.errors import TilewrightError
from ..sizes import Size

Kept = TypeVar("Kept")


class Asked:
    """What both ask of their node."""

    kind: str
    name: str
    attrs: Mapping[str, Any]
    fault: type[TilewrightError] = TilewrightError

    def array(self, index: int) -> Any:
        """An input as an array, None where it is left out."""
        raise NotImplementedError

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attrs.get(name, default)

    def numbers(
        self, source: int | str, count: int | None = None, scalar: bool = False
    ) -> list[Any] | None:
        """A list of whole numbers (or sizes), `count` of them if given: an attribute by its name,
        or an input that has to be known, by its index; `scalar`: one number does too, as
        definitions of the standard have it. None where it is left out."""
        data = self.get(source) if isinstance(source, str) else self.array(source)
        if data is None:
            return None
        listed = np.asarray(data)
        if scalar and listed.ndim == 0:
            listed = listed.reshape(1)
        if listed.ndim != 1 or (count is not None and listed.size != count):
            what = source if isinstance(source, str) else f"input {source}"
            wanted = "a list of numbers" if count is None else f"a list of {count}"
            raise self.error(f"{what} must be {wanted}, got {listed.tolist()}")
        return [n if isinstance(n, Size) else int(n) for n in listed]

    def axis(self, axis: int, rank: int) -> int:
        """A dimension of `rank`; negative ones count from behind."""
        if not -rank <= axis < rank:
            raise self.error(f"axis {axis} of {rank} dimensions")
        return int(axis) % rank

    def axes(self, axes: Iterable[int], rank: int) -> list[int]:
        """Dimensions of `rank`, each once."""
        given = [int(a) for a in axes]
        found = [self.axis(a, rank) for a in given]
        if len({*found}) != len(found):
            raise self.error(f"axes {given} name a dimension of {rank} twice")
        return found

    def error(self, text: str) -> TilewrightError:
        return self.fault(f"{self.kind} node {self.name!r}: {text}")


@dataclass(frozen=True)
class HostNode(Asked):
    """One with the values of its inputs; `outputs` has a name, or "", for each result that is
    wanted. `memory` is the same at all calls of a node."""

    kind: str
    name: str
    inputs: Sequence[Any]
    outputs: Sequence[str]
    attrs: Mapping[str, Any]
    opset: int
    memory: dict[str, Any] = field(default_factory=dict)

    def kept(self, name: str, make: Callable[[HostNode], Kept]) -> Kept:
        """What depends on the attributes alone, made at the first call of the node."""
        if name not in self.memory:
            self.memory[name] = make(self)
        found: Kept = self.memory[name]
        return found

    def input(self, index: int, default: Any = None) -> Any:
        """An input, `default` where it is left out."""
        found = self.inputs[index] if index < len(self.inputs) else None
        return default if found is None else found

    array = input


HostFunction = Callable[[HostNode], list[Any]]
