"""Barriers out of conditions that differ between threads.

`if c: A; barrier; B` with a c of each thread's own becomes `if c: A` `barrier` `if c: B`: what
follows is evaluated under c as before, and the barrier by all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ..arith.int_set import IntervalSet, eval_set
from ..base.deep import recursive
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.effects import is_pure
from ..loopir.expr import const
from ..loopir.operators import logical_and
from ..loopir.visit import free_vars, nodes
from .statement_accesses import is_barrier

_PRIVATE = ("local", "warp", "wmma", "m16n8k8")


class Uniformity:
    """Whether expressions have the same value in all threads of a block."""

    def __init__(self, body: S.Stmt, threads: Sequence[tuple[E.Var, Any]]) -> None:
        self.threads = list(threads)
        self.varying: set[E.Var] = {v for v, _ in threads}
        changed = True
        while changed:  # a let may use what a later walk finds to vary
            before = len(self.varying)
            for s in nodes(body):
                if type(s) is S.LetStmt and not self(s.value):
                    self.varying.add(s.var)
                elif type(s) is S.For and not self(s.min):
                    self.varying.add(s.loop_var)
                elif type(s) is E.Let and not self(s.value):
                    self.varying.add(s.var)
            changed = len(self.varying) > before

    def __call__(self, e: Any) -> bool:
        for x in nodes(e):
            kind = type(x)
            if isinstance(x, E.Var):
                if x in self.varying:
                    return False
            elif kind is E.BufferLoad:
                if x.buffer.scope().startswith(_PRIVATE):
                    return False
            elif kind is E.Call and not is_pure(E.Call(x.dtype, x.op, ())):
                return False
        return True

    def loop(self, s: S.For) -> bool:
        """Whether all threads run the same iterations."""
        return self(s.min) and self(s.extent)


class Spreader:
    """Moves conditions into the parts around barriers. `synced(s)`: whether s needs barriers."""

    def __init__(self, uniform: Uniformity, name: str, synced: Callable[[S.Stmt], bool]) -> None:
        self.uniform = uniform
        self.name = name
        self.synced = synced
        self.done: dict[int, tuple[S.Stmt, S.Stmt]] = {}

    def refuse(self, what: str) -> NoReturn:
        raise CompileError(
            f"function {self.name}: a barrier that threads could miss: threads of a block share "
            f"memory under {what}, which is not the same for all of them, and the barrier cannot "
            "be moved out of it; compute what is shared outside of the condition, or keep it in "
            'memory of the thread ("local")'
        )

    def require_uniform(self, e: Any, what: str) -> None:
        """Refuse an expression that differs between threads."""
        if not self.uniform(e):
            self.refuse(f"{what} {e}")

    def spread(self, s: S.IfThenElse) -> S.Stmt:
        """A conditional that needs barriers inside, with all threads at each barrier."""
        known = self.done.get(id(s))
        if known is None:
            known = self.done[id(s)] = (s, self._spread(s))
        return known[1]

    def _spread(self, s: S.IfThenElse) -> S.Stmt:
        condition: Any = s.condition
        keep: E.Var | None = None
        if not is_pure(condition) or reads_memory(condition):
            keep = E.Var("guard", "bool")
            self.uniform.varying.add(keep)
            condition = keep
        parts = [self.under(condition, s.then_case)]
        if s.else_case is not None:
            parts.append(self.under(E.Not(condition), s.else_case))
        body = S.seq(parts)
        return body if keep is None else S.LetStmt(keep, s.condition, body)

    @recursive
    def under(self, c: Any, s: Any) -> Any:
        """`if c: s`, such that all threads reach the barriers in s."""
        if not self.synced(s):
            return S.IfThenElse(c, s)
        kind = type(s)
        if kind is S.SeqStmt:
            return self.parts(c, s)
        if kind is S.For:
            even = s if self.uniform.loop(s) else self.even_loop(s)
            return even.with_parts(body=self.under(c, even.body))
        known = kind is S.LetStmt and is_pure(s.value) and not reads_memory(s.value)
        if known or kind in (S.Allocate, S.AttrStmt):
            return s.with_parts(body=self.under(c, s.body))
        if kind is S.IfThenElse:
            return self.nested(c, s)
        if is_barrier(s):
            return s
        self.refuse(f"the condition {c}")

    def parts(self, c: Any, s: S.SeqStmt) -> S.Stmt:
        """Neighbours that need no barrier stay under one condition."""
        out: list[S.Stmt] = []
        group: list[S.Stmt] = []
        for part in s.seq:
            joined = S.seq([*group, part])
            if self.synced(joined):
                if group:
                    out.append(S.IfThenElse(c, S.seq(group)))
                group = []
                if self.synced(part):
                    out.append(self.under(c, part))
                    continue
            group.append(part)
        if group:
            out.append(S.IfThenElse(c, S.seq(group)))
        return S.seq(out)

    def nested(self, c: Any, s: S.IfThenElse) -> S.Stmt:
        if self.uniform(s.condition):
            other = None if s.else_case is None else self.under(c, s.else_case)
            return S.IfThenElse(s.condition, self.under(c, s.then_case), other)
        if not is_pure(s.condition) or reads_memory(s.condition):
            self.refuse(f"the conditions {c} and {s.condition}")
        parts = [self.under(logical_and(c, s.condition), s.then_case)]
        if s.else_case is not None:
            parts.append(self.under(logical_and(c, E.Not(s.condition)), s.else_case))
        return S.seq(parts)

    def even_loop(self, s: S.For) -> S.For:
        """A loop whose number of iterations differs between threads, as one in which all take part
        until the last is done."""
        known = self.done.get(id(s))
        if known is not None:
            assert isinstance(known[1], S.For)
            return known[1]
        what = f"the loop over {s.loop_var.name} with {s.extent} iterations"
        if not self.uniform(s.min) or not is_pure(s.extent) or reads_memory(s.extent):
            self.refuse(what)
        domains = {
            v: IntervalSet(const(0, v.dtype), n - const(1, n.dtype))
            for v, n in self.uniform.threads
        }
        most = eval_set(s.extent, domains)
        if not most.has_upper_bound() or not self.uniform(most.max_value):
            self.refuse(what)
        if any(v not in domains for v in free_vars(s.extent) if v in self.uniform.varying):
            self.refuse(what)
        inside = s.loop_var < s.min + s.extent
        body = self.under(inside, s.body)
        new = s.with_parts(extent=most.max_value, body=body, thread_binding=None)
        self.done[id(s)] = (s, new)
        return new


def reads_memory(e: Any) -> bool:
    """Whether an expression loads from any memory."""
    return any(type(x) is E.BufferLoad for x in nodes(e))
