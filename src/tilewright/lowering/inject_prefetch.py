"""Ask for data some steps of a loop ahead."""

from __future__ import annotations

from functools import reduce
from itertools import product
from math import prod
from typing import Any

from ..arith.int_set import eval_set, union
from ..base.aligned import ALIGNMENT
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.calls import address_of, prefetch
from ..loopir.construct import cast
from ..loopir.copies import walk_stmts
from ..loopir.expr import const, const_int
from ..loopir.iter import Range
from ..loopir.rewrite import OverStatements, handles
from ..loopir.subst import substitute
from ..loopir.visit import children, nodes, walk
from .bounded import BoundedRewriter
from .options import LowerOptions

SCOPE = "prefetch_scope"
EVENLY = "pragma_prefetch_evenly"
MOST_AT_ONCE = 4  # lines that one step of the loops inside asks for
LEAST_IN_A_RUN, MOST_IN_A_RUN = 4, 8  # steps for each that asks, where a loop is made of them


def inject_prefetch(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Turn AttrStmt "prefetch_scope" (node: a buffer, value: how many steps ahead) in a loop into
    prefetches of what the loop's body will read of the buffer that many steps later: all at once,
    or with the pragma "prefetch_evenly" a little in each step of the loops within.

    The region is the box around all reads of the body, each 64 bytes asked for once. Prefetch
    statements become such calls too. A region that cannot be bounded or whose size is read from
    memory, and a buffer that only exists inside the loop, are not prefetched. Where a region is may
    be read from arrays that are given and not written here: where that many steps later there is
    something to read (a prefetch may name any address, but what it is made from is read).

    Asked for at once, the region keeps the loop waiting as reading it would: a core has some ten
    lines on their way at a time. Where the loop's axis has the pragma "prefetch_evenly", the steps
    of the serial loops inside around the reads ask for some of it each, so that it comes while the
    loop computes; its value, where it has one, says how many steps of the loop itself share in
    that, since they ask for the same. This takes a region that lies in few pieces, and as many
    steps as its lines or a fourth of them; other regions are then not asked for.

    Needs buffers with all their dimensions. Guarantees that no Prefetch and no "prefetch_scope" is
    left. Stands before flatten_buffers.
    """
    if not any(_asks(s) for s in walk_stmts(func.body)):
        return func
    return func.with_body(_Prefetcher(func).stmt(func.body))


def _asks(s: Any) -> bool:
    return type(s) is S.Prefetch or (type(s) is S.AttrStmt and s.attr_key in (SCOPE, EVENLY))


def _scopes_of(s: S.Stmt) -> list[S.AttrStmt]:
    """What one loop, or its body where it is no loop any more, is to ask for ahead."""
    found: list[S.AttrStmt] = []
    loop = False
    while type(s) is S.AttrStmt or (type(s) is S.For and not loop):
        if type(s) is S.AttrStmt and s.attr_key == SCOPE:
            found.append(s)
        loop = loop or type(s) is S.For
        s = s.body
    return found


class _Prefetcher(OverStatements, BoundedRewriter):
    def __init__(self, func: S.PrimFunc) -> None:
        super().__init__(func)
        self.given = _only_read(func)
        self.loop: E.Var | None = None
        self.evenly: list[tuple[S.AttrStmt, int]] = []

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        outer, self.loop = self.loop, s.loop_var
        result = super()._for(s)
        self.loop = outer
        return result

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key == EVENLY:
            self.evenly += [(x, const_int(s.value) or 1) for x in _scopes_of(s.body)]
            return self.stmt(s.body)
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
        shares = next((n for x, n in self.evenly if x is s), 0)
        if shares:
            share = self.loop % shares if shares > 1 else 0
            return _evenly(s.node, moved, body, share, shares)
        return S.seq(self._where_readable(moved, _calls(s.node, moved)), body)

    def _where_readable(self, region: list[Range], calls: S.Stmt) -> S.Stmt:
        """`calls`, where what the places of a region are read from exists."""
        # parents come first, so that the guard of what an index is read from goes around its own
        for load in (x for r in region for x in walk(r.min) if type(x) is E.BufferLoad):
            inside = [
                c
                for i, n in zip(load.indices, load.buffer.shape)
                for c in (i >= 0, i < n)
                if not self.analyzer.can_prove(c)
            ]
            if inside:
                calls = S.IfThenElse(reduce(E.And, inside), calls)
        return calls

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
        declared = {*inner, *(x.var for x in walk(body) if type(x) in (S.LetStmt, E.Let))}
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
            if covered is None or not self._known(covered, declared):
                return None
            region.append(covered)
        return region

    def _known(self, r: Range, declared: set[E.Var]) -> bool:
        """Whether a range can be told before a step that declares some variables."""
        if any(type(x) is E.BufferLoad for x in walk(r.extent)):
            return False
        return all(
            x not in declared if isinstance(x, E.Var) else x.buffer.data in self.given
            for e in (r.min, r.extent)
            for x in walk(e)
            if isinstance(x, (E.Var, E.BufferLoad))
        )


def _only_read(func: S.PrimFunc) -> set[E.Var]:
    """The data of arrays that are given and that nothing here may write."""
    written: set[Any] = set()
    for x in nodes(func.body):
        if type(x) is S.BufferStore:
            written.add(x.buffer.data)
        elif type(x) is E.Call:  # of pointers
            written.update(a.buffer.data if type(a) is E.BufferLoad else a for a in x.args)
    return {b.data for b in func.buffer_map.values()} - written


def _calls(buffer: Buffer, region: list[Range]) -> S.Stmt:
    """Loops over a box of a buffer that ask for each cache line of its rows."""
    per_line = _per_line(buffer)
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


def _evenly(buffer: Buffer, region: list[Range], body: S.Stmt, share: Any, shares: int) -> S.Stmt:
    """`body` with each step of its serial loops around the reads of a buffer asking for a few lines
    of a region, one after the other: of one of so many shares."""
    lengths = [n for r in region if (n := const_int(r.extent)) is not None]
    if buffer.strides or len(lengths) < len(region):
        return body
    first = len(region) - 1  # the dimension from which on a piece lies in order
    while first and lengths[first] == const_int(buffer.shape[first]):
        first -= 1
    pieces, length = prod(lengths[:first]), prod(lengths[first:])
    loops = _around_reads(buffer, body)
    extents = [const_int(x.extent) or 0 for x in loops]
    lines = -(-length // _per_line(buffer))
    while len(extents) > 1 and shares * prod(extents[:-1]) >= lines * pieces:
        extents.pop()  # steps of the loops around suffice
    loops = loops[: len(extents)]
    steps = shares * prod(extents)
    if loops and steps >= 2 * lines * pieces:
        most = min(MOST_IN_A_RUN, steps // (lines * pieces))
        run = max(n for n in range(1, most + 1) if extents[-1] % n == 0)
        if run >= LEAST_IN_A_RUN:
            body, loops[-1] = _in_runs(body, loops[-1], run)
            extents[-1] //= run
            steps //= run
    if not loops or not 0 < lines * pieces <= steps * MOST_AT_ONCE or pieces > MOST_AT_ONCE:
        return body
    at_once = -(-lines // steps)
    each = -(-length // (steps * at_once))
    done: Any = share
    for loop, n in zip(loops, extents):
        done = done * n + (loop.loop_var - loop.min)
    calls = []
    for piece in product(*map(range, lengths[:first])):
        for k in range(at_once):
            point = [r.min for r in region]
            point[:first] = [low + d for low, d in zip(point, piece)]
            point[-1] = point[-1] + (done * at_once + k) * each
            calls.append(S.Evaluate(prefetch(address_of(E.BufferLoad(buffer, point)), 0, 2, 1)))
    asking = loops[-1].with_parts(body=S.seq(*calls, loops[-1].body))
    result: S.Stmt = _Instead(loops[-1], asking).stmt(body)
    return result


def _around_reads(buffer: Buffer, body: S.Stmt) -> list[S.For]:
    """The serial loops around a read of a buffer, outermost first."""
    stack: list[tuple[Any, tuple[S.For, ...]]] = [(body, ())]
    while stack:
        node, around = stack.pop()
        if type(node) is E.BufferLoad and node.buffer is buffer:
            return list(around)
        if type(node) is S.For and node.kind == S.ForKind.SERIAL:
            around = (*around, node)
        stack.extend((part, around) for part in reversed(children(node)))
    return []


def _in_runs(body: S.Stmt, loop: S.For, run: int) -> tuple[S.Stmt, S.For]:
    """`body` with one of its loops as two, and the outer one of these."""
    var = loop.loop_var
    zero = const(0, var.dtype)
    outer, inner = E.Var(f"{var.name}.outer", var.dtype), E.Var(f"{var.name}.inner", var.dtype)
    steps = substitute(loop.body, {var: loop.min + outer * run + inner})
    within = S.For(inner, zero, const(run, var.dtype), S.ForKind.SERIAL, steps)
    extent = const((const_int(loop.extent) or 0) // run, var.dtype)
    new = loop.with_parts(loop_var=outer, min=zero, extent=extent, body=within)
    return _Instead(loop, new).stmt(body), new


class _Instead(OverStatements):
    """Puts one loop in the place of another."""

    def __init__(self, loop: S.For, new: S.For) -> None:
        self.loop, self.new = loop, new

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        return self.new if s is self.loop else s.with_parts(body=self.stmt(s.body))


def _per_line(buffer: Buffer) -> int:
    """Elements of a line of the caches."""
    return max(1, ALIGNMENT // parse(buffer.dtype).nbytes)
