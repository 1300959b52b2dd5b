"""Loops that fill several tiles ahead: rings of slots, and waits that leave copies under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.calls import storage_sync
from ..loopir.copies import fold_pair, fresh_copy
from ..loopir.expr import const, const_int
from ..loopir.op import likely
from ..loopir.op import max as tir_max
from ..loopir.op import min as tir_min
from ..loopir.visit import nodes
from .fill_ahead import Ahead, Fill, fills_of

STAGES = "pragma_software_pipeline_stages"
COMMIT_SCOPE = "async_commit_queue_scope"
WAIT_SCOPE, IN_FLIGHT = "async_wait_queue_scope", "async_wait_inflight_count"
_MOST = 16
_WRITTEN_OUT = 4  # steps that the source has, each of hundreds of lines
_BY_TENSOR_CORES = ("tir.tvm_mma_sync", "tir.ptx_mma")


def pipelined(s: S.Stmt, stages: int, inner: Callable[[S.Stmt], S.Stmt]) -> S.Stmt:
    """The statement under the pragma "software_pipeline_stages": its loop, with `stages` slots for
    each buffer that is filled in it under "double_buffer_scope".

        for p in range(stages - 1): fill slot p for step p, commit
        for i in range(n - stages + 1):
            wait until all but stages - 2 fillings are there; barrier
            fill slot (i + stages - 1) % stages for step i + stages - 1, commit
            use slot i % stages
        wait for all; barrier; use the slots of the last steps

    Where tensor cores work as many steps of the main loop are written out as there are slots: what
    differs between them are constants then, which the machine adds to addresses for nothing, where
    computing them costs as much as the products do. Of many slots, or where the steps are not
    known, the device's compiler is told to do so.

    One barrier a step is enough: the slot that is filled in step i was used in step i - 1. Commits
    and waits are attributes, which inject_async_copy makes instructions of, or nothing. A loop
    that fills no such buffer stays what it is. `inner` treats the body of the loop first.
    """
    if stages < 1 or stages > _MOST:
        raise CompileError(f"software_pipeline_stages is 1 to {_MOST}, not {stages}")
    if type(s) is S.AttrStmt:  # other pragmas of the loop
        return S.AttrStmt(s.node, s.attr_key, s.value, pipelined(s.body, stages, inner))
    if type(s) is not S.For or s.kind not in (S.ForKind.SERIAL, S.ForKind.UNROLLED):
        return inner(s)
    loop = s.with_body(inner(s.body))
    steps = const_int(s.extent)
    stages = stages if steps is None else min(stages, steps)
    fills = fills_of(loop) if stages > 1 else []
    return _Ring(loop, fills, stages).build() if fills else loop


class _Ring:
    def __init__(self, loop: S.For, fills: list[Fill], stages: int) -> None:
        self.loop, self.stages = loop, stages
        self.ahead = Ahead(fills, stages, aligned=True)
        var = loop.loop_var
        step = fold_pair(E.Sub, var, loop.min)
        self.slot = E.FloorMod(step, const(stages, var.dtype))
        scopes = [b.scope() for f in fills for b in f.buffers]
        self.shared = any(x.startswith("shared") for x in scopes)

    def build(self) -> S.Stmt:
        loop, dtype = self.loop, self.loop.loop_var.dtype
        ahead = const(self.stages - 1, dtype)
        parts = [self._first(p) for p in range(self.stages - 1)]
        if const_int(loop.extent) is None:
            main = tir_max(loop.extent - ahead, const(0, dtype))
            rest = tir_min(loop.extent, ahead)
        else:
            main, rest = fold_pair(E.Sub, loop.extent, ahead), ahead
        parts.append(self._main(main))
        parts.append(self._wait(0))
        start = fold_pair(E.Add, loop.min, fold_pair(E.Sub, loop.extent, rest))
        t = E.Var(f"{loop.loop_var.name}.last", dtype)
        use = self._step(fold_pair(E.Add, start, t))
        parts.append(S.For(t, const(0, dtype), rest, S.ForKind.SERIAL, use))
        return self.ahead.allocated(S.seq(parts))

    def _first(self, p: int) -> S.Stmt:
        """The filling of slot `p` before the loop."""
        loop = self.loop
        number = const(p, loop.loop_var.dtype)
        body = self._fill(fold_pair(E.Add, loop.min, number))
        if const_int(loop.extent) is None:
            body = S.IfThenElse(likely(number < loop.extent), body)
        return _commit(body)

    def _main(self, extent: Any) -> S.Stmt:
        loop, var = self.loop, self.loop.loop_var
        later = fold_pair(E.Add, var, const(self.stages - 1, var.dtype))
        fill = _commit(self._fill(later))
        use = self._step(var)
        body = S.seq(self._wait(self.stages - 2), fill, use)
        steps = const_int(extent)
        if any(isinstance(x, E.Call) and x.op.name in _BY_TENSOR_CORES for x in nodes(use)):
            if steps is not None and const_int(loop.min) == 0 and self.stages <= _WRITTEN_OUT:
                return self._written_out(body, steps)
            said = {**loop.annotations, S.UNROLL_BY: const(self.stages)}
        else:
            said = dict(loop.annotations)
        new = E.Var(var.name, var.dtype)
        body = fresh_copy(body, {var: new})
        return S.For(new, loop.min, extent, loop.kind, body, None, said)

    def _written_out(self, body: S.Stmt, steps: int) -> S.Stmt:
        """As many steps at a time as there are slots, then the rest: each step's constants are
        part of the addresses in its instructions."""
        loop, var, n = self.loop, self.loop.loop_var, self.stages
        new = E.Var(var.name, var.dtype)
        first = fold_pair(E.Mul, new, const(n, var.dtype))
        turns = [
            fresh_copy(body, {var: fold_pair(E.Add, first, const(r, var.dtype))}) for r in range(n)
        ]
        said = {**loop.annotations, S.UNROLL_BY: const(1)}
        count = const(steps // n, var.dtype)
        parts: list[S.Stmt] = [S.For(new, loop.min, count, loop.kind, S.seq(turns), None, said)]
        for step in range(steps - steps % n, steps):
            parts.append(fresh_copy(body, {var: const(step, var.dtype)}))
        return S.seq(parts)

    def _wait(self, most: int) -> S.Stmt:
        """Until all but `most` fillings are there, for all threads."""
        barrier = S.Evaluate(storage_sync("shared")) if self.shared else S.no_op()
        zero = const(0)
        inner = S.AttrStmt(zero, IN_FLIGHT, const(most), barrier)
        return S.AttrStmt(zero, WAIT_SCOPE, zero, inner) if self.shared else barrier

    def _step(self, at: Any) -> S.Stmt:
        loop = self.loop
        return self.ahead.use(loop.body, self.slot, loop.loop_var, at, lambda f: S.no_op())

    def _fill(self, at: Any) -> S.Stmt:
        var = self.loop.loop_var
        return S.seq(self.ahead.fill(f, self.slot, var, at) for f in self.ahead.fills)


def _commit(body: S.Stmt) -> S.Stmt:
    return S.AttrStmt(const(0), COMMIT_SCOPE, const(0), body)
