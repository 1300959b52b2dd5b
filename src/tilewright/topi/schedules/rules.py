"""The schedules of one kind of machine, by families of operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...loopir.iter import IterVar
from ...schedule.api import Schedule, Stage
from ...tensor.tensor import Tensor

M = TypeVar("M")


@dataclass(frozen=True)
class Rules(Generic[M]):
    """`anchors`: (schedule, expensive tensor, tensor that ends its group, machine) by tag;
    `reduction` the same for any other reduction; `arrange` for the axes of an element-wise stage;
    `whole` for all stages before an output at once, by its tag, which says False where they are not
    of its kind; `padded`: how the tags of those anchors begin that read padding from memory;
    `ends_several`: whether `reduction` has what follows reductions of several outputs."""

    anchors: Mapping[str, Callable[[Schedule, Tensor, Tensor, M], None]]
    reduction: Callable[[Schedule, Tensor, Tensor, M], None]
    arrange: Callable[[Stage, list[IterVar], M], None]
    whole: Mapping[str, Callable[[Schedule, Tensor, M], bool | None]]
    padded: tuple[str, ...] = ("conv", "group_conv", "depthwise")
    ends_several: bool = False
