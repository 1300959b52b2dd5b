"""Load the next tile while the present one is used."""

from __future__ import annotations

from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.expr import const, const_int
from ..loopir.op import likely
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import walk
from .copies import Folder, fold_pair, fresh_copy
from .options import LowerOptions

SCOPE = "double_buffer_scope"


def inject_double_buffer(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Turn a buffer marked by AttrStmt "double_buffer_scope" into two halves used in turns.

    The statement in the attribute fills the buffer; the loop around the allocation carries it:

        fill half 0 for the first step
        for i in range(n - 1):
            fill half (i + 1) % 2 for step i + 1
            use half i % 2
        use half (n - 1) % 2

    `double_buffer_split_loop` = 0 keeps one loop with a condition around the filling; k > 1 takes k
    steps of the loop at a time. A buffer that is not filled directly inside a serial loop, or
    filled from what the loop itself writes, stays single.

    Needs flat buffers. Guarantees that no "double_buffer_scope" is left. Stands after
    vectorize_loops, so that halves are taken of vector code, and before rewrite_storage, which sees
    the final sizes.
    """
    if not any(type(s) is S.AttrStmt and s.attr_key == SCOPE for s in walk(func.body)):
        return func
    body = _DoubleBuffers(options.double_buffer_split_loop).stmt(func.body)
    return func.with_body(_RemoveScopes().stmt(body))


class _DoubleBuffers(Rewriter):
    """Innermost loops first: each carries the buffers filled directly inside it."""

    def __init__(self, split: int) -> None:
        self.split = split

    @handles(S.BufferStore, S.Evaluate)
    def _leaf_stmt(self, s: Any) -> Any:
        return s

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        loop = s.with_body(self.stmt(s.body))
        steps = const_int(s.extent)
        # with one step there is nothing to overlap; with none, nothing may be filled beforehand
        few = steps is not None and steps <= 1
        if few or loop.kind not in (S.ForKind.SERIAL, S.ForKind.UNROLLED):
            return loop
        fills: list[_Fill] = []
        _find_fills(loop.body, {}, fills)
        fills = [f for f in fills if _independent(f, loop)]
        return _Pipeline(loop, fills).build(self.split) if fills else loop


class _RemoveScopes(Rewriter):
    """Takes away the attributes that could not be used."""

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        return self.stmt(s.body) if s.attr_key == SCOPE else super()._attr(s)


class _Fill:
    """Double buffers that one statement fills (several for a stage with several outputs): their
    allocations, the outermost attribute, and the statement in the innermost."""

    __slots__ = ("allocations", "attr", "body")

    def __init__(self, allocations: list[S.Allocate], attr: S.AttrStmt, body: S.Stmt) -> None:
        self.allocations, self.attr, self.body = allocations, attr, body

    @property
    def buffers(self) -> list[Buffer]:
        return [a.buffer for a in self.allocations]


def _find_fills(s: S.Stmt, allocated: dict[E.Var, S.Allocate], found: list[_Fill]) -> None:
    """Fillings that run in each step of the loop whose body `s` is."""
    if type(s) is S.SeqStmt:
        for part in s.seq:
            _find_fills(part, allocated, found)
    elif type(s) is S.Allocate:
        _find_fills(s.body, {**allocated, s.buffer.data: s}, found)
    elif type(s) is S.AttrStmt and s.attr_key == SCOPE:
        nodes, body = [s.node], s.body
        while type(body) is S.AttrStmt and body.attr_key == SCOPE:
            nodes.append(body.node)
            body = body.body
        filled = [node.data if isinstance(node, Buffer) else node for node in nodes]
        own = [allocated[data] for data in filled if data in allocated]
        if len(own) == len(nodes):
            found.append(_Fill(own, s, body))  # what is filled for this filling is a part of it
        else:
            _find_fills(body, allocated, found)
    elif type(s) is S.AttrStmt:
        _find_fills(s.body, allocated, found)


def _independent(fill: _Fill, loop: S.For) -> bool:
    """Whether filling for the next step gives the same before and after the present one."""
    inside = {id(x) for x in walk(fill.body)}
    filled = {b.data for b in fill.buffers}
    read: set[E.Var] = set()
    for x in walk(fill.body):
        if type(x) is E.BufferLoad:
            read.add(x.buffer.data)
        elif type(x) is S.Evaluate or (isinstance(x, E.Var) and x.dtype == "handle"):
            return False
    read -= filled
    for x in walk(loop.body):
        if id(x) in inside:
            continue
        if type(x) is S.BufferStore and x.buffer.data in read:
            return False
        if isinstance(x, E.Var) and (x in read or x in filled):
            return False
    return True


class _Pipeline:
    """Builds the loop that fills ahead."""

    def __init__(self, loop: S.For, fills: list[_Fill]) -> None:
        self.loop = loop
        self.fills = fills
        self.of_attr = {id(f.attr): f for f in fills}
        buffers = [b for f in fills for b in f.buffers]
        self.sizes = {b.data: b.shape[0] for b in buffers}
        self.both = {b: b.with_(shape=(fold_pair(E.Mul, b.shape[0], const(2)),)) for b in buffers}

    def build(self, split: int) -> S.Stmt:
        loop = self.loop
        low, extent, dtype = loop.min, loop.extent, loop.loop_var.dtype
        one = const(1, dtype)
        first = S.seq(self.fill(f, low) for f in self.fills)
        if split <= 0:
            loops = self._for(loop.extent, self.step(loop.loop_var, "guarded"))
        elif split == 1:
            main = self._for(fold_pair(E.Sub, extent, one), self.step(loop.loop_var, "plain"))
            last = fold_pair(E.Sub, fold_pair(E.Add, low, extent), one)
            loops = S.seq(main, self.step(last, "last"))
        else:
            loops = self._strips(split)
        result = S.seq(first, loops)
        if const_int(extent) is None:
            result = S.IfThenElse(likely(extent > 0), result)
        for a in [a for f in reversed(self.fills) for a in reversed(f.allocations)]:
            result = S.Allocate(self.both[a.buffer], result, a.annotations)
        return result

    def _for(self, extent: Any, body: S.Stmt) -> S.Stmt:
        s = self.loop
        return S.For(s.loop_var, s.min, extent, s.kind, body, None, s.annotations)

    def _strips(self, split: int) -> S.Stmt:
        """`split` steps at a time while there are as many ahead, then one at a time."""
        s, dtype = self.loop, self.loop.loop_var.dtype
        width = const(split, dtype)
        count = fold_pair(E.FloorDiv, fold_pair(E.Sub, s.extent, const(1, dtype)), width)
        outer = E.Var(f"{s.loop_var.name}.strip", dtype)
        start = fold_pair(E.Add, s.min, outer * width)
        steps = [self.step(start + j, "plain") for j in range(split)]
        main = S.For(outer, const(0, dtype), count, S.ForKind.SERIAL, S.seq(steps))
        done = fold_pair(E.Mul, count, width)
        rest_var = E.Var(s.loop_var.name, dtype)
        rest_low = fold_pair(E.Add, s.min, done)
        rest_extent = fold_pair(E.Sub, s.extent, done)
        body = self.step(rest_var, "guarded")
        return S.seq(main, S.For(rest_var, rest_low, rest_extent, S.ForKind.SERIAL, body))

    def step(self, at: Any, mode: str) -> S.Stmt:
        """One step of the loop with the filling for the next, for the step after which none
        follows ("last") without, or with a condition ("guarded")."""
        body: S.Stmt = _Halves(self, mode).stmt(self.loop.body)
        return fresh_copy(body, {self.loop.loop_var: at})

    def fill(self, f: _Fill, at: Any) -> S.Stmt:
        body: S.Stmt = _Halves(self, "").stmt(f.body)
        return fresh_copy(body, {self.loop.loop_var: at})


class _Halves(Folder):
    """Moves accesses to the half of the present step, and replaces fillings by those of the
    next."""

    def __init__(self, pipeline: _Pipeline, mode: str) -> None:
        self.p = pipeline
        self.mode = mode
        var = pipeline.loop.loop_var
        self.half = E.FloorMod(var, const(2, var.dtype))

    def buffer(self, b: Buffer) -> Buffer:
        return self.p.both.get(b, b)

    def _at(self, data: E.Var, index: Any) -> Any:
        shift = self.half * self.p.sizes[data]
        if type(index) is E.Ramp:
            return E.Ramp(index.base + shift, index.stride, index.lanes)
        return index + shift

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        new = super()._load(e)
        if e.buffer.data not in self.p.sizes:
            return new
        index = self._at(e.buffer.data, new.indices[0])
        return E.BufferLoad(new.buffer, (index,), new.predicate)

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        new = super()._store(s)
        if s.buffer.data not in self.p.sizes:
            return new
        index = self._at(s.buffer.data, new.indices[0])
        return S.BufferStore(new.buffer, new.value, (index,), new.predicate)

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        return self.stmt(s.body) if s.buffer.data in self.p.sizes else super()._allocate(s)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        f = self.p.of_attr.get(id(s))
        if f is None:
            return super()._attr(s)
        if self.mode == "last":
            return S.no_op()
        loop = self.p.loop
        following = fold_pair(E.Add, loop.loop_var, const(1, loop.loop_var.dtype))
        body = self.p.fill(f, following)
        if self.mode == "plain":
            return body
        end = fold_pair(E.Add, loop.min, loop.extent)
        return S.IfThenElse(likely(following < end), body)
