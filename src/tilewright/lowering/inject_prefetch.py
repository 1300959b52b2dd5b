"""Ask for data some steps of a loop ahead."""

from __future__ import annotations

from typing import Any

from ..arith.int_set import eval_set, union
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.calls import address_of, prefetch
from ..loopir.construct import cast
from ..loopir.copies import walk_stmts
from ..loopir.expr import const
from ..loopir.iter import Range
from ..loopir.rewrite import handles
from ..loopir.subst import substitute
from ..loopir.visit import walk
from .bounded import BoundedRewriter
from .options import LowerOptions

SCOPE = "prefetch_scope"
LINE_BYTES = 64


def inject_prefetch(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Turn AttrStmt "prefetch_scope" (node: a buffer, value: how many steps ahead) in a loop into
    prefetches of what the loop's body will read of the buffer that many steps later.

    The region is the box around all reads of the body, each 64 bytes asked for once. Prefetch
    statements become such calls too. A region that cannot be bounded, and
    a buffer that only exists inside the loop, are not prefetched.

    Needs buffers with all their dimensions. Guarantees that no Prefetch and no "prefetch_scope" is
    left. Stands before flatten_buffers.
    """
    if not any(_asks(s) for s in walk_stmts(func.body)):
        return func
    return func.with_body(_Prefetcher(func).stmt(func.body))


def _asks(s: Any) -> bool:
    return type(s) is S.Prefetch or (type(s) is S.AttrStmt and s.attr_key == SCOPE)


class _Prefetcher(BoundedRewriter):
    def __init__(self, func: S.PrimFunc) -> None:
        super().__init__(func)
        self.loop: E.Var | None = None

    def expr(self, e: Any) -> Any:
        return e

    @handles(S.BufferStore, S.Evaluate)
    def _leaf_stmt(self, s: Any) -> Any:
        return s

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        outer, self.loop = self.loop, s.loop_var
        result = super()._for(s)
        self.loop = outer
        return result

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key != SCOPE:
            return super()._attr(s)
        body: S.Stmt = self.stmt(s.body)
        if self.loop is None:
            return body
        region = self._region(s.node, s.body)
        if region is None:
            return body
        ahead = {self.loop: self.loop + s.value}
        moved = [
            Range.from_min_extent(substitute(r.min, ahead), substitute(r.extent, ahead))
            for r in region
        ]
        return S.seq(_calls(s.node, moved), body)

    @handles(S.Prefetch)
    def _prefetch(self, s: S.Prefetch) -> Any:
        return _calls(s.buffer, list(s.bounds))

    def _region(self, buffer: Buffer, body: S.Stmt) -> list[Range] | None:
        """The box of `buffer` that one step of the loop reads."""
        if any(type(x) is S.Allocate and x.buffer is buffer for x in walk(body)):
            return None
        inner = {
            x.loop_var: Range.from_min_extent(x.min, x.extent)
            for x in walk(body)
            if type(x) is S.For
        }
        for x in walk(body):  # threads launched inside run as well
            if type(x) is S.AttrStmt and x.attr_key in ("thread_extent", "virtual_thread"):
                inner[x.node.var] = Range(x.value)
        sets: list[list[Any]] = [[] for _ in buffer.shape]
        for x in walk(body):
            if type(x) is E.BufferLoad and x.buffer is buffer:
                for d, i in enumerate(x.indices):
                    used = {v: r for v, r in inner.items() if any(y is v for y in walk(i))}
                    sets[d].append(eval_set(i, used, self.analyzer))
        if not sets or not sets[0]:
            return None
        region = []
        for found in sets:
            covered = union(found, self.analyzer).cover_range(None, self.analyzer)
            if covered is None or any(
                x in inner
                for e in (covered.min, covered.extent)
                for x in walk(e)
                if isinstance(x, E.Var)
            ):
                return None
            region.append(covered)
        return region


def _calls(buffer: Buffer, region: list[Range]) -> S.Stmt:
    """Loops over a box of a buffer that ask for each cache line of its rows."""
    per_line = max(1, LINE_BYTES // parse(buffer.dtype).nbytes)
    loops: list[tuple[E.Var, Any]] = []
    point = []
    for d, r in enumerate(region):
        # what indices are read from may be narrower than their loops
        dtype = "int32" if parse(r.extent.dtype).bits < 32 else r.extent.dtype
        extent = r.extent if dtype == r.extent.dtype else cast(dtype, r.extent)
        var = E.Var(f"{buffer.name}.p{d}", dtype)
        last = d == len(region) - 1
        step = const(per_line if last else 1, dtype)
        loops.append((var, (extent + (step - 1)) // step))
        point.append(r.min + var * step)
    call = prefetch(address_of(E.BufferLoad(buffer, point)), 0, 3, 1)
    body: S.Stmt = S.Evaluate(call)
    for var, extent in reversed(loops):
        body = S.For(var, const(0, var.dtype), extent, S.ForKind.SERIAL, body)
    return body
