"""define_knob: one of some values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import TilewrightError
from .transform import TransformSpace


class OtherOptionEntity:
    """`val`: the chosen value."""

    __slots__ = ("val",)

    def __init__(self, val: Any) -> None:
        self.val = val

    def encode(self) -> list[Any]:
        return ["ot", self.val]

    def __repr__(self) -> str:
        return str(self.val)


class OtherOptionSpace(TransformSpace):
    """The values in `candidate`; they have to be data that JSON can hold. Raises TilewrightError
    where a candidate is no number, text, boolean, None or list of such, where no choice is left."""

    __slots__ = ()

    def __init__(self, axes: Any, policy: str, candidate: Sequence[Any]) -> None:
        super().__init__()
        self.entities = [_entity(c) for c in candidate]
        self.require_choices("define_knob")

    @staticmethod
    def get_num_output(axes: Any, policy: str, **kwargs: Any) -> int:
        return 0

    def __repr__(self) -> str:
        return f"OtherOption({self.entities}) len={len(self)}"


def _entity(value: Any) -> OtherOptionEntity:
    if value is not None and not isinstance(value, (bool, int, float, str, list, tuple)):
        raise TilewrightError(
            f"define_knob takes numbers, texts, booleans and None, got {value!r}: choose by name, "
            "and look the thing up in the template"
        )
    return OtherOptionEntity(value)
