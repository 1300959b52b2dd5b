"""What all knobs share: a space is a list of entities, an entity is one choice."""

from __future__ import annotations

from typing import Any

from ..base.errors import TilewrightError
from ..loopir.expr import IntImm
from ..loopir.iter import IterVar


class Axis:
    """An axis that a knob makes, before there is a schedule: output `index` of `space`."""

    __slots__ = ("index", "space")

    def __init__(self, space: Any, index: int) -> None:
        self.space = space
        self.index = index

    def __repr__(self) -> str:
        return f"Axis({self.index})"


class VirtualAxis:
    """An axis of known length that needs no tensor: `cfg.axis(512)`."""

    __slots__ = ("length", "name")

    _count = 0

    def __init__(self, var: Any, name: str | None = None) -> None:
        if name is None:
            name = f"axis_{VirtualAxis._count}"
            VirtualAxis._count += 1
        self.name = name
        self.length = length_of(var)

    def __repr__(self) -> str:
        return f"vaxis({self.name})"

    @staticmethod
    def get_num_output(var: Any, name: str | None = None) -> int:
        return 1


def length_of(axis: Any) -> int:
    """The constant length of an axis (a number, IterVar, VirtualAxis); TilewrightError without."""
    if isinstance(axis, VirtualAxis):
        return axis.length
    value = axis
    if isinstance(axis, IterVar):
        if axis.dom is None:
            raise TilewrightError(f"axis {axis.var.name} has no length yet; use cfg.axis(length)")
        value = axis.dom.extent
    if isinstance(value, IntImm):
        value = value.value
    if isinstance(value, bool) or not isinstance(value, int):
        raise TilewrightError(
            f"a knob takes an axis of constant length or a number, got {axis!r}: fix the shapes, "
            "or use cfg.axis(length)"
        )
    if value < 1:
        raise TilewrightError(f"the length of an axis has to be at least 1, got {value}")
    return value


class TransformSpace:
    """The choices of one knob."""

    __slots__ = ("entities", "num_output")

    def __init__(self) -> None:
        self.entities: list[Any] = []
        self.num_output = 0

    def __len__(self) -> int:
        return len(self.entities)

    def __getitem__(self, index: int) -> Any:
        return self.entities[index]

    def require_choices(self, what: str) -> None:
        if not self.entities:
            raise TilewrightError(f"{what} leaves no choice at all; relax its filter or its limits")
