"""Give arrays of matrix fragments in registers the size that threads use of them."""

from __future__ import annotations

import re
from typing import Any

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.expr import const, const_int
from ..loopir.hopper_calls import WAIT_GROUP, WGMMA, WGMMA_RS
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import children

_MMA, _LOAD = "tir.ptx_mma", "tir.ptx_ldmatrix"
_WARP, _GROUP = 32, 128


def trim_fragments(func: S.PrimFunc) -> S.PrimFunc:
    """Cut arrays that `ptx_mma`, `ptx_ldmatrix` and `ptx_wgmma` work on down to the elements that
    are used.

    A stage in scope "local" that holds tiles for mma has as many elements as the tiles of a warp,
    or of a warp group; a thread holds a part of each, at the start of the array (mma and wgmma of
    topi.tensor_intrin). Compilers keep large arrays out of registers. Arrays used at places that
    are no constants stay as they are.

    Stands after unrolling.
    """
    survey = _Survey()
    survey.look(func.body)
    ends = {v: n for v, n in survey.ends.items() if v in survey.fragments and v not in survey.lost}
    return func.with_body(_Trim(ends).stmt(func.body)) if ends else func


class _Survey:
    """The end of what is used of each array, where every use is at a constant place."""

    def __init__(self) -> None:
        self.ends: dict[E.Var, int] = {}
        self.fragments: set[E.Var] = set()
        self.lost: set[E.Var] = set()

    def look(self, body: S.Stmt) -> None:
        stack: list[Any] = [body]
        while stack:
            x = stack.pop()
            kind = type(x)
            if kind is E.Call and x.op.name in (_MMA, _LOAD, WGMMA, WGMMA_RS, WAIT_GROUP):
                stack.extend(self._call(x))
                continue
            if kind is E.BufferLoad or kind is S.BufferStore:
                self._access(x.buffer, x.indices)
            elif isinstance(x, E.Var) and x.dtype == "handle":
                self.lost.add(x)
            stack.extend(children(x))

    def _call(self, e: E.Call) -> list[Any]:
        """Notes the arrays of a call; gives the arguments that are left to look at."""
        if e.op.name == _LOAD:
            each = 4 // parse(e.dtype).nbytes  # elements of a register
            return [*self._part(e, 3, each * (const_int(e.args[1]) or 4)), *e.args[5:]]
        if e.op.name == WAIT_GROUP:  # (groups under way [, accumulator, how many of it, after])
            if len(e.args) > 2 and isinstance(e.args[1], E.Var):
                self._use(e.args[1], const_int(e.args[2]) or 0)
            return list(e.args[3:])
        found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", str(getattr(e.args[0], "value", "")))
        if found is None:
            return list(e.args)
        m, n, k = map(int, found.groups())
        if e.op.name in (WGMMA, WGMMA_RS):
            rest = self._part(e, 2, m * n // _GROUP)
            if e.op.name == WGMMA:
                return [*rest, *e.args[4:]]
            return [*rest, *self._part(e, 4, m * k // _GROUP), *e.args[6:]]
        counts = (m * k // _WARP, k * n // _WARP, m * n // _WARP)
        return [x for i, size in enumerate(counts) for x in self._part(e, 6 + 2 * i, size)]

    def _part(self, e: E.Call, at: int, count: int) -> list[Any]:
        data, start = e.args[at], const_int(e.args[at + 1])
        if not isinstance(data, E.Var) or start is None:
            return list(e.args[at : at + 2])
        self.fragments.add(data)
        self._use(data, start + count)
        return []

    def _access(self, b: Buffer, indices: Any) -> None:
        index, lanes = indices[0], 1
        if type(index) is E.Ramp:
            lanes = index.lanes if const_int(index.stride) == 1 else 0
            index = index.base
        start = const_int(index) if len(indices) == 1 else None
        if start is None or not lanes or parse(b.dtype).lanes != 1:
            self.lost.add(b.data)
        else:
            self._use(b.data, start + lanes)

    def _use(self, data: E.Var, end: int) -> None:
        self.ends[data] = max(self.ends.get(data, 0), end)


class _Trim(Rewriter):
    def __init__(self, ends: dict[E.Var, int]) -> None:
        self.ends = ends
        self.made: dict[Buffer, Buffer] = {}

    def buffer(self, b: Buffer) -> Buffer:
        end = self.ends.get(b.data)
        if end is None:
            return b
        found = self.made.get(b)
        if found is None:
            found = self.made[b] = b.with_(shape=(const(end),))
        return found

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        new: Any = super()._allocate(s)
        size = const_int(s.buffer.shape[0])
        if s.buffer.data not in self.ends or s.buffer.scope() != "local" or size is None:
            return new
        return S.Allocate(self.buffer(s.buffer), new.body, s.annotations)
