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


class TransformSpace:
    """The choices of one knob."""

    __slots__ = ("entities", "num_output")

    def __init__(self) -> None:
        self.entities: list[Any] = []
        self.num_output = 0

    @staticmethod
    def get_num_output(*args: Any, **kwargs: Any) -> int:
        """How many axes come out: none, unless a kind of space says otherwise."""
        return 0

    def __len__(self) -> int:
        return len(self.entities)

    def __getitem__(self, index: int) -> Any:
        return self.entities[index]

    def require_choices(self, what: str) -> None:
        """TilewrightError where no choice is left."""
        if not self.entities:
            raise TilewrightError(f"{what} leaves no choice at all; relax its filter or its limits")


class VirtualAxis(TransformSpace):
    """An axis that needs no tensor: `cfg.axis(512)`. `length`: -1 for one that has none yet. Raises
    TilewrightError where `var` has no constant length of 1 or more."""

    __slots__ = ("length", "name")

    _count = 0

    def __init__(self, var: Any, name: str | None = None) -> None:
        super().__init__()
        self.num_output = 1
        if name is None:
            name = f"axis_{VirtualAxis._count}"
            VirtualAxis._count += 1
        self.name = name
        if isinstance(var, IterVar):
            self.name = var.var.name
        bare = isinstance(var, IterVar) and var.dom is None
        self.length = -1 if bare else length_of(var)

    def __repr__(self) -> str:
        return f"vaxis({self.name})"

    @staticmethod
    def get_num_output(var: Any, name: str | None = None) -> int:
        """One: the axis itself."""
        return 1


def length_of(axis: Any) -> int:
    """The constant length of an axis (a number, IterVar, VirtualAxis); TilewrightError without."""
    value, name = axis, None
    if isinstance(axis, VirtualAxis):
        value, name = axis.length, axis.name
    elif isinstance(axis, IterVar):
        value, name = -1 if axis.dom is None else axis.dom.extent, axis.var.name
    if isinstance(value, IntImm):
        value = value.value
    if isinstance(value, bool) or not isinstance(value, int):
        raise TilewrightError(
            f"a knob takes an axis of constant length or a number, got {axis!r}: fix the shapes, "
            "or use cfg.axis(length)"
        )
    if value == -1 and name is not None:
        raise TilewrightError(f"axis {name} has no length yet; use cfg.axis(length)")
    if value < 1:
        raise TilewrightError(f"the length of an axis has to be at least 1, got {value}")
    return value
