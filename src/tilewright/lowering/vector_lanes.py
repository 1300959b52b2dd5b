"""One lane of a vector expression as a scalar."""

from __future__ import annotations

from typing import Any

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir.expr import cast
from ..loopir.rewrite import Rewriter, handles


def lane_of(e: Any, lane: Any) -> Any:
    """What lane number `lane` (an expression of type int32) of a vector of integers or conditions
    has; None where that cannot be said without reading memory."""
    try:
        return _Lane(lane).expr(e)
    except _NoLane:
        return None


class _NoLane(Exception):
    """The lanes of the expression are not known one by one."""


class _Lane(Rewriter):
    def __init__(self, lane: Any) -> None:
        self.lane = lane

    @handles(E.Ramp)
    def _ramp(self, e: E.Ramp) -> Any:
        return e.base + e.stride * cast(parse(e.base.dtype).element, self.lane)

    @handles(E.Broadcast)
    def _broadcast(self, e: E.Broadcast) -> Any:
        return e.value

    @handles(E.Var, E.SizeVar)
    def _var(self, e: E.Var) -> Any:
        return self._scalar(e)

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        return self._scalar(e)

    def _scalar(self, e: Any) -> Any:
        if parse(e.dtype).lanes > 1:
            raise _NoLane
        return e

    @handles(E.Cast)
    def _cast(self, e: E.Cast) -> Any:
        return E.Cast(parse(e.dtype).element, self.expr(e.value))

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        lanes = parse(e.dtype).lanes
        if lanes == 1:
            return e
        if not e.op.row.lanewise or any(parse(a.dtype).lanes not in (1, lanes) for a in e.args):
            raise _NoLane
        return E.Call(parse(e.dtype).element, e.op, self.exprs(e.args))

    @handles(E.Let, E.Shuffle)
    def _other(self, e: Any) -> Any:
        raise _NoLane
