"""Load the next tile while the present one is used."""

from __future__ import annotations

from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.copies import fold_pair, walk_stmts
from ..loopir.expr import const, const_int
from ..loopir.op import likely
from ..loopir.rewrite import OverStatements, Rewriter, handles
from .fill_ahead import SCOPE, Ahead, Fill, fills_of
from .fill_late import registers_for
from .options import LowerOptions
from .software_pipeline import STAGES, pipelined


def inject_double_buffer(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Turn a buffer marked by AttrStmt "double_buffer_scope" into two halves used in turns.

    The statement in the attribute fills the buffer; the loop around the allocation carries it:

        fill half 0 for the first step
        for i in range(n - 1):
            fill half (i + 1) % 2 for step i + 1
            use half i % 2
        use half (n - 1) % 2

    `double_buffer_split_loop` = 0 keeps one loop with a condition around the filling; k > 1 takes k
    steps of the loop at a time. A buffer that is not filled directly inside a serial loop (with
    threads launched around the loop, not in it), or filled from what the loop itself writes, stays
    single. Under the pragma
    "software_pipeline_stages" there are as many slots as it says: see software_pipeline.

    Needs flat buffers. Guarantees that no "double_buffer_scope" is left. Stands after
    vectorize_loops, so that halves are taken of vector code, and before rewrite_storage, which sees
    the final sizes.
    """
    marks = (SCOPE, STAGES)
    if not any(type(s) is S.AttrStmt and s.attr_key in marks for s in walk_stmts(func.body)):
        return func
    registers = registers_for(options.target)
    body = _DoubleBuffers(options.double_buffer_split_loop, registers).stmt(func.body)
    return func.with_body(_RemoveScopes().stmt(body))


class _DoubleBuffers(OverStatements):
    """Innermost loops first: each carries the buffers filled directly inside it."""

    def __init__(self, split: int, registers: int) -> None:
        self.split, self.registers = split, registers

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        loop = s.with_parts(body=self.stmt(s.body))
        steps = const_int(s.extent)
        # with one step there is nothing to overlap; with none, nothing may be filled beforehand
        few = steps is not None and steps <= 1
        if few or loop.kind not in (S.ForKind.SERIAL, S.ForKind.UNROLLED):
            return loop
        fills = fills_of(loop)
        return _Pipeline(loop, fills).build(self.split) if fills else loop

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        stages = const_int(s.value) if s.attr_key == STAGES else None
        if stages is None:
            return super()._attr(s)
        return pipelined(s.body, stages, self.stmt, self.registers)


class _RemoveScopes(Rewriter):
    """Takes away the attributes that could not be used, and those of pipelines."""

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        return self.stmt(s.body) if s.attr_key in (SCOPE, STAGES) else super()._attr(s)


class _Pipeline:
    """Builds the loop that fills ahead."""

    def __init__(self, loop: S.For, fills: list[Fill]) -> None:
        self.loop = loop
        self.fills = fills
        self.ahead = Ahead(fills, 2)
        self.half = E.FloorMod(loop.loop_var, const(2, loop.loop_var.dtype))

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
        return self.ahead.allocated(result)

    def _for(self, extent: Any, body: S.Stmt) -> S.Stmt:
        s = self.loop
        return s.with_parts(extent=extent, body=body, thread_binding=None)

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
        loop = self.loop
        refill = lambda f: self.refill(f, mode)  # noqa: E731
        return self.ahead.use(loop.body, self.half, loop.loop_var, at, refill)

    def fill(self, f: Fill, at: Any) -> S.Stmt:
        return self.ahead.fill(f, self.half, self.loop.loop_var, at)

    def refill(self, f: Fill, mode: str) -> S.Stmt:
        """What stands in the place of a filling: that for the next step."""
        if mode == "last":
            return S.no_op()
        loop = self.loop
        following = fold_pair(E.Add, loop.loop_var, const(1, loop.loop_var.dtype))
        body = self.fill(f, following)
        if mode == "plain":
            return body
        end = fold_pair(E.Add, loop.min, loop.extent)
        return S.IfThenElse(likely(following < end), body)
