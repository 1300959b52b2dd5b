"""Stages that compute other tensors of the same values, and expressions with other reads."""

from __future__ import annotations

from typing import Any

from ...loopir.iter import ProducerLoad
from ...loopir.rewrite import Rewriter, handles
from ...schedule.api import Schedule
from ...schedule.primitives.restate import restate
from ...tensor.tensor import Tensor


class Replaced(Rewriter):
    """Other reads in the place of some."""

    def __init__(self, table: dict[int, ProducerLoad]) -> None:
        self.reads = table

    @handles(ProducerLoad)
    def _read(self, e: ProducerLoad) -> Any:
        return self.reads.get(id(e), e)


def restated(s: Schedule, tensor: Tensor, by: Tensor) -> list[Tensor]:
    """Let a stage compute another tensor of the same values; the new ones in between."""

    def apply(sch: Any, t: Tensor) -> list[Tensor]:
        return restate(sch, t, by)

    found: list[Tensor] = s.record("restate", None, apply, [tensor], {})
    return found
