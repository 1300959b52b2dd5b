"""Keep register tiles in registers where the edge of a tensor cuts their vectors."""

from __future__ import annotations

from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.copies import walk_stmts
from ..loopir.equal import structural_equal
from ..loopir.expr import const_int, is_const
from ..loopir.rewrite import Rewriter, handles
from .options import LowerOptions

# Where vectors of a buffer begin, by their lanes.
Places = set[tuple[int, int]]


def blend_stores(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """A store of some lanes to memory that the thread has for itself becomes one of all lanes, the
    others as they were.

        acc[0:8] = acc[0:8] + x[...] where m   =>   acc[0:8] = Select(m, acc[0:8] + x[...] where m,
                                                                      acc[0:8])

    The code generator keeps vectors in registers, but not what is stored to in part: a tile of
    sums, one vector of which is cut, would go through memory at each step. Only vectors at constant
    places that are stored whole elsewhere, where the sums begin, and only in memory allocated in
    the innermost parallel loop around: other threads store nothing between. Predicates that always
    hold are dropped.

    Needs flat buffers, and constant places. Stands after unroll_loops and simplify_statements,
    which make them, and before promote_accumulators. GPUs have no predicates.
    """
    return func.with_body(_Blender().stmt(func.body))


def _place(access: S.BufferStore | E.BufferLoad) -> tuple[int, int] | None:
    """(first element, lanes) of a vector at a constant place."""
    at = access.indices[-1] if len(access.indices) == 1 else None
    if type(at) is not E.Ramp or not is_const(at.stride, 1):
        return None
    base = const_int(at.base)
    return None if base is None else (base, at.lanes)


def _whole_stores(s: S.Allocate) -> Places:
    """The places of vectors that are stored whole, within the buffer."""
    size = const_int(s.buffer.shape[0]) if len(s.buffer.shape) == 1 else None
    found: Places = set()
    for x in walk_stmts(s.body) if size else ():
        if type(x) is S.BufferStore and x.buffer.data is s.buffer.data:
            place = _place(x) if x.predicate is None or _holds(x.predicate) else None
            if place is not None and place[0] >= 0 and place[0] + place[1] <= (size or 0):
                found.add(place)
    return found


def _holds(predicate: Any) -> bool:
    return type(predicate) is E.Broadcast and is_const(predicate.value, 1)


class _Blender(Rewriter):
    def __init__(self) -> None:
        self.own: dict[Any, Places] = {}
        self.mask: Any = None

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        kept = self.own
        self.own = {**kept, s.buffer.data: _whole_stores(s)}
        result = super()._allocate(s)
        self.own = kept
        return result

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        kept = self.own
        if s.kind == S.ForKind.PARALLEL:
            self.own = {}
        result = super()._for(s)
        self.own = kept
        return result

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        if s.predicate is None:
            return super()._store(s)
        if _holds(s.predicate):
            return S.BufferStore(s.buffer, self.expr(s.value), s.indices)
        if _place(s) not in self.own.get(s.buffer.data, ()):
            return super()._store(s)
        self.mask = s.predicate
        value = self.expr(s.value)
        self.mask = None
        old = E.BufferLoad(s.buffer, s.indices)
        return S.BufferStore(s.buffer, E.Select(s.predicate, value, old), s.indices)

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        mine = self.mask is not None and _place(e) in self.own.get(e.buffer.data, ())
        if e.predicate is not None and (
            _holds(e.predicate) or (mine and structural_equal(e.predicate, self.mask))
        ):
            return E.BufferLoad(e.buffer, e.indices)  # lanes beyond are not taken
        return super()._load(e)
