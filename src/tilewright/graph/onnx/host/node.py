"""What a host operator is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....base.errors import TilewrightError


@dataclass(frozen=True)
class HostNode:
    """One node of the file, with the values of its inputs; `outputs` has a name, or "", for each
    result that is wanted."""

    kind: str
    name: str
    inputs: Sequence[Any]
    outputs: Sequence[str]
    attrs: Mapping[str, Any]
    opset: int

    def input(self, index: int, default: Any = None) -> Any:
        """An input, `default` where it is left out."""
        found = self.inputs[index] if index < len(self.inputs) else None
        return default if found is None else found

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attrs.get(name, default)

    def error(self, text: str) -> TilewrightError:
        return TilewrightError(f"{self.kind} node {self.name!r}: {text}")


HostFunction = Callable[[HostNode], list[Any]]
