"""Loops that fill several tiles ahead: rings of slots, and waits that leave copies under way."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import lcm
from typing import Any

from ..base.deep import recursive
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.calls import storage_sync
from ..loopir.copies import fold_pair, fresh_copy
from ..loopir.expr import const, const_int
from ..loopir.op import likely
from ..loopir.op import max as tir_max
from ..loopir.op import min as tir_min
from ..loopir.visit import children, nodes, uses_var, walk
from .fill_ahead import Ahead, Fill, fills_of
from .fill_late import Halves, at_once

STAGES = "pragma_software_pipeline_stages"
COMMIT_SCOPE = "async_commit_queue_scope"
WAIT_SCOPE, IN_FLIGHT = "async_wait_queue_scope", "async_wait_inflight_count"
_MOST = 16
_WRITTEN_OUT = 4  # slots of loops whose steps the source has, each of hundreds of lines
MOST_PRODUCTS = 512, 1024  # of a warp in steps written out: compilers take long over more
_BY_TENSOR_CORES = ("tir.tvm_mma_sync", "tir.ptx_mma")


def pipelined(
    s: S.Stmt, stages: int, inner: Callable[[S.Stmt], S.Stmt], registers: int = 0
) -> S.Stmt:
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
    computing them costs as much as the products do. Where addresses divide the number of the step,
    as those of windows do by the steps of a row of taps, there are so many more that quotients
    are constants too, as far as code does not grow too long; and twice as many where it stays
    short. Of many slots, or where the steps are
    not known, the device's compiler is told to do so.

    One barrier a step is enough: the slot that is filled in step i was used in step i - 1. Commits
    and waits are attributes, which inject_async_copy makes instructions of, or nothing. A loop
    that fills no such buffer stays what it is. `inner` treats the body of the loop first.

    Where nothing copies by itself and threads have `registers` to spare, what is filled under
    "async_scope" is loaded there before the slot of step i is used, and stored after that, so that
    threads do not wait for memory while they have products to make.
    """
    if stages < 1 or stages > _MOST:
        raise CompileError(f"software_pipeline_stages is 1 to {_MOST}, not {stages}")
    if type(s) is S.AttrStmt:  # other pragmas of the loop
        return S.AttrStmt(s.node, s.attr_key, s.value, pipelined(s.body, stages, inner, registers))
    if type(s) is not S.For or s.kind not in (S.ForKind.SERIAL, S.ForKind.UNROLLED):
        return inner(s)
    loop = s.with_parts(body=inner(s.body))
    steps = const_int(s.extent)
    stages = stages if steps is None else min(stages, steps)
    fills = fills_of(loop) if stages > 1 else []
    return _Ring(loop, fills, stages, registers).build() if fills else loop


class _Ring:
    def __init__(self, loop: S.For, fills: list[Fill], stages: int, registers: int) -> None:
        self.loop, self.stages, self.registers = loop, stages, registers
        self.ahead = Ahead(fills, stages, aligned=True)
        var = loop.loop_var
        step = fold_pair(E.Sub, var, loop.min)
        self.slot = E.FloorMod(step, const(stages, var.dtype))
        scopes = [b.scope() for f in fills for b in f.buffers]
        self.shared = any(x.startswith("shared") for x in scopes)
        self.is_split = registers > 0 and Halves.of(self._fill(var), registers) is not None

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
        return at_once(body) if self.is_split else _commit(body)

    def _main(self, extent: Any) -> S.Stmt:
        loop, var = self.loop, self.loop.loop_var
        later = fold_pair(E.Add, var, const(self.stages - 1, var.dtype))
        use = self._step(var)
        body = self._around(use, self._fill(later))
        steps = const_int(extent)
        products = _products_of(use)
        if products:
            if steps is not None and const_int(loop.min) == 0 and self.stages <= _WRITTEN_OUT:
                return self._written_out(body, steps, self._several(products))
            said = {**loop.annotations, S.UNROLL_BY: const(self.stages)}
        else:
            said = dict(loop.annotations)
        new = E.Var(var.name, var.dtype)
        body = fresh_copy(body, {var: new})
        return S.For(new, loop.min, extent, loop.kind, body, None, said)

    def _around(self, use: S.Stmt, fill: S.Stmt) -> S.Stmt:
        """A step that uses one slot and fills another."""
        wait = self._wait(self.stages - 2)
        halves = Halves.of(fill, self.registers) if self.is_split else None
        if halves is None:
            return S.seq(wait, _commit(fill), use)
        body = S.seq(wait, halves.load, use, halves.store)
        for kept in halves.registers:
            body = S.Allocate(kept, body)
        return body

    def _several(self, products: int) -> int:
        """Steps to write out, of so many products each: where the slots count as the quotients do,
        only a part of the steps changes those anyway, and it takes more to be worth it."""
        n, var = self.stages, self.loop.loop_var
        period = lcm(*(period_of(f.body, var) for f in self.ahead.fills))
        every = lcm(n, period)
        every = every if every * products <= MOST_PRODUCTS[period % n != 0] else n
        # pointers go on once in so many steps: small tiles have few products to go with that
        return every if 2 * every * products > MOST_PRODUCTS[0] else 2 * every

    def _written_out(self, body: S.Stmt, steps: int, n: int) -> S.Stmt:
        """So many steps at a time, then the rest: each step's constants are part of the addresses
        in its instructions."""
        loop, var = self.loop, self.loop.loop_var
        new = E.Var(var.name, var.dtype)
        first = fold_pair(E.Mul, new, const(n, var.dtype))
        turns = [
            fresh_copy(body, {var: fold_pair(E.Add, first, const(r, var.dtype))}) for r in range(n)
        ]
        said = {**loop.annotations, S.UNROLL_BY: const(1)}
        count = const(steps // n, var.dtype)
        parts: list[S.Stmt] = []
        if steps >= n:
            parts.append(S.For(new, loop.min, count, loop.kind, S.seq(turns), None, said))
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


@recursive
def _products_of(s: S.Stmt) -> int:
    """How often a statement has tensor cores multiply, whichever way its branches go."""
    if type(s) is S.For:
        return (const_int(s.extent) or 1) * _products_of(s.body)
    if type(s) is S.Evaluate:
        return sum(isinstance(x, E.Call) and x.op.name in _BY_TENSOR_CORES for x in walk(s.value))
    return sum(_products_of(x) for x in children(s) if isinstance(x, S.Stmt))


def period_of(s: S.Stmt, var: E.Var) -> int:
    """How many steps of a loop are a whole number of all that the statement's quotients and rests
    count of its variable: by so many at a time, they change by constants."""
    found = _Rates(var)
    for x in nodes(s):
        if type(x) in (E.FloorDiv, E.FloorMod):
            found.of(x)
    return found.period


class _Rates:
    """By how much an expression grows with each step of `var`, where that is known once `period`
    steps are taken at a time."""

    def __init__(self, var: E.Var) -> None:
        self.var, self.period = var, 1

    @recursive
    def of(self, e: Any) -> Fraction | None:
        if e is self.var:
            return Fraction(1)
        if type(e) in (E.Add, E.Sub):
            a, b = self.of(e.a), self.of(e.b)
            return None if a is None or b is None else a + b if type(e) is E.Add else a - b
        if type(e) is E.Mul:
            for factor, other in ((e.a, e.b), (e.b, e.a)):
                if const_int(factor) is not None:
                    rate = self.of(other)
                    return None if rate is None else rate * (const_int(factor) or 0)
        if type(e) in (E.FloorDiv, E.FloorMod):
            rate, by = self.of(e.a), const_int(e.b) or 0
            if rate is None or by <= 0:
                return None
            self.period = lcm(self.period, (rate / by).denominator)
            return rate / by if type(e) is E.FloorDiv else Fraction(0)
        return None if uses_var(e, lambda v: v is self.var) else Fraction(0)


def _commit(body: S.Stmt) -> S.Stmt:
    return S.AttrStmt(const(0), COMMIT_SCOPE, const(0), body)
