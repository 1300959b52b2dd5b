"""Reductions over threads: shuffles within warps, shared memory between them."""

from __future__ import annotations

from typing import Any

from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.copies import walk_stmts
from ..loopir.expr import const_int
from ..loopir.iter import CommReducer
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import uses_var, walk
from ..target.capability import shuffled
from ..target.target import Target
from .allreduce import Allreduce
from .allreduce_shared import reduce_in_shared
from .allreduce_warp import reduce_in_warps
from .block_threads import BlockThreads, warp_size_of

ALLREDUCE = "tir.tvm_thread_allreduce"


def lower_thread_allreduce(func: S.PrimFunc, target: Target) -> S.PrimFunc:
    """Replace `tvm_thread_allreduce(count, values, condition, results, threads)`, which stands in
    AttrStmt(reducer, "reduce_scope"), by code that every thread of the block runs.

    Let n threads reduce together, in warps of w. Values of 32 and 64 bits and of float16 go by
    shuffles if the n threads are neighbours (the axes from threadIdx.x on) and

    - n divides w: groups of lanes, without shared memory;
    - w divides n, and blocks have at most w * w threads: each warp, then one value a warp through
      shared memory, and each warp again;
    - n is less than w and the block has no other threads.

    All else, and targets whose threads cannot shuffle, takes a tree in shared memory. Each result
    is then in the register (a local buffer of one element) of every thread.

    Needs unify_threads and flat buffers. Guarantees that no allreduce is left, and barriers for the
    memory added here. Stands after sync_threads, which puts barriers between the statements of
    the user. CompileError where some of the threads would not come to the reduction.
    """
    if not any(_is_scope(x) for x in walk_stmts(func.body)):
        return func
    return func.with_body(_Kernels(target).stmt(func.body))


def _is_scope(s: Any) -> bool:
    return type(s) is S.AttrStmt and s.attr_key == "reduce_scope"


def _by_shuffles(r: Allreduce, warp: int, most_threads: int) -> bool:
    """The rule of the pass's docstring."""
    if warp <= 1 or not r.neighbours or not all(map(shuffled, r.dtypes)):
        return False
    if warp % r.extent == 0:
        return True
    if r.extent % warp == 0:
        return most_threads <= warp * warp
    return r.groups == 1 and r.extent < warp


def _is_allreduce(e: Any) -> bool:
    return type(e) is E.Call and e.op.name == ALLREDUCE


class _Kernels(Rewriter):
    def __init__(self, target: Target) -> None:
        self.target = target
        self.block: BlockThreads | None = None
        self.kernel: S.AttrStmt | None = None
        self.renamed: dict[E.Var, E.Var] = {}
        self.shared: list[Buffer] = []
        self.free: list[Buffer] = []  # of `shared`, what the other branch of a condition uses
        self.loops = 0
        self.conditions: list[Any] = []
        self.combiner: CommReducer | None = None

    # -- kernels

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if _is_scope(s):
            self.combiner = s.node
            body = self.stmt(s.body)
            self.combiner = None
            return body
        if s.attr_key != "thread_extent" or self.kernel is not None:
            return super()._attr(s)
        self.kernel, self.block, self.shared, self.free = s, None, [], []
        result = self._launched(s)
        self.kernel = None
        return result

    def _launched(self, s: Any) -> S.Stmt:
        if type(s) is S.AttrStmt and s.attr_key == "thread_extent":
            return S.AttrStmt(s.node, s.attr_key, s.value, self._launched(s.body))
        for x in walk(s):
            if _is_allreduce(x):
                self._name_results(x)
        body: S.Stmt = self.stmt(s)
        for b in reversed(self.shared):
            body = S.Allocate(b, body)
        return body

    def _name_results(self, call: E.Call) -> None:
        count = const_int(call.args[0]) or 0
        results: tuple[Any, ...] = call.args[2 + count : 2 + 2 * count]
        for i, r in enumerate(results):
            data = r.buffer.data
            if data not in self.renamed:
                self.renamed[data] = E.Var(f"red_buf{i}", data.dtype)

    def buffer(self, b: Buffer) -> Buffer:
        data = self.renamed.get(b.data)
        return b if data is None else b.with_(data=data, name=data.name)

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        if s.buffer.data in self.renamed:
            return S.Allocate(self.buffer(s.buffer), self.stmt(s.body), s.annotations)
        return super()._allocate(s)

    # -- where a reduction stands

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        self.loops += 1
        self.conditions.append(s.extent)
        result = super()._for(s)
        self.conditions.pop()
        self.loops -= 1
        return result

    @handles(S.While)
    def _while(self, s: S.While) -> Any:
        self.loops += 1
        self.conditions.append(s.condition)
        result = super()._while(s)
        self.conditions.pop()
        self.loops -= 1
        return result

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        condition, else_case = self.expr(s.condition), s.else_case
        self.conditions.append(s.condition)
        free, start = self.free, len(self.shared)
        self.free = list(free)
        then_case = self.stmt(s.then_case)
        left = self.free
        if else_case is not None:
            # a block runs one of the branches: both use the same memory
            self.free = free + self.shared[start:]
            else_case = self.stmt(else_case)
            left = [b for b in left if b in self.free]
        self.free = left
        self.conditions.pop()
        return s.with_parts(condition=condition, then_case=then_case, else_case=else_case)

    # -- the reduction

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        result = super()._evaluate(s)
        value = result.value
        return self._lower(value) if _is_allreduce(value) else result

    def _lower(self, call: E.Call) -> S.Stmt:
        if self.combiner is None:
            raise CompileError(
                'tvm_thread_allreduce must stand in AttrStmt(reducer, "reduce_scope"), which says '
                "how values are combined"
            )
        if self.kernel is None:
            raise CompileError(
                "cross thread reduction outside of a kernel: bind the reduction axis to threadIdx.x"
            )
        if self.block is None:
            self.block = BlockThreads.of_kernel(self.kernel)
        r = Allreduce(self.combiner, call, self.block)
        r.repeated = self.loops > 0
        r.free, r.taken = self.free, self.shared
        warp = warp_size_of(self.target)
        if r.extent == 1:
            return r.store(r.inputs())
        shuffled = _by_shuffles(r, warp, self.target.max_num_threads)
        self._check_reached(r, whole_block=not (shuffled and r.extent <= warp))
        return reduce_in_warps(r, warp) if shuffled else reduce_in_shared(r, warp)

    def _check_reached(self, r: Allreduce, whole_block: bool) -> None:
        """All threads that meet must come to the reduction, or none."""
        assert self.block is not None
        axes = self.block.axes if whole_block else r.axes
        for c in self.conditions:
            for a in axes:
                if uses_var(c, a.var.same_as):
                    raise CompileError(
                        f"not all threads come to a cross thread reduction: it stands under {c}, "
                        f"which differs between the threads of {a.tag}; move the condition into "
                        "the values that are reduced"
                    )
