"""Find stores that nothing sees: overwritten before they are read, or of what is there already."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from ..arith.linear import detect_linear_equation
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.copies import strip_likely
from ..loopir.effects import CallEffectKind, side_effect
from ..loopir.expr import const_int
from ..loopir.rewrite import handles
from ..loopir.subst import substitute
from ..loopir.visit import walk
from .bounded import BoundedRewriter


def remove_dead_stores(func: S.PrimFunc) -> S.PrimFunc:
    """Drop a statement of a sequence that stores what a later one stores over, or what an earlier
    one stored already, where none between reads, or writes, the buffer.

    The statements compared are single stores in loops and conditions. What a value may change
    besides is kept. Needs distinct memory behind distinct buffers, and variables that are defined
    once. No pass of the pipeline, where schedules make no such stores: users ask for it by the
    option "tir.RemoveNoOp": {"use_dataflow_analysis": True}.
    """
    return func.with_body(_DeadStores(func).stmt(func.body))


@dataclass
class _Nest:
    """A store in loops and conditions, which hold all of a statement."""

    store: S.BufferStore
    loops: list[S.For]
    conditions: list[Any]


def _nest(s: S.Stmt) -> _Nest | None:
    loops: list[S.For] = []
    conditions: list[Any] = []
    while True:
        if type(s) is S.For:
            loops.append(s)
            s = s.body
        elif type(s) is S.IfThenElse and s.else_case is None:
            conditions.append(strip_likely(s.condition))
            s = s.then_case
        elif type(s) is S.BufferStore and s.predicate is None:
            break
        else:
            return None
    places = [*s.indices, *conditions, *(e for loop in loops for e in (loop.min, loop.extent))]
    if any(side_effect(e) > CallEffectKind.Pure for e in places):
        return None  # what it reads may have changed before it runs
    return _Nest(s, loops, conditions)


class _DeadStores(BoundedRewriter):
    @handles(S.SeqStmt)
    def _seq(self, s: S.SeqStmt) -> Any:
        parts = [self.stmt(x) for x in s.seq]
        nests = [_nest(x) for x in parts]
        for i, nest in enumerate(nests):
            if nest is not None and (
                self._overwritten(i, parts, nests) or self._known(i, parts, nests)
            ):
                parts[i] = _without_store(parts[i])
                nests[i] = None
        return s if all(a is b for a, b in zip(parts, s.seq)) else S.seq(parts)

    def _overwritten(self, at: int, parts: list[Any], nests: list[_Nest | None]) -> bool:
        nest = nests[at]
        assert nest is not None
        for later in range(at + 1, len(parts)):
            over = nests[later]
            if _touches(parts[later], nest.store.buffer.data, writes=False):
                return False
            if over is not None and self._covers(over, nest) is not None:
                return True
        return False

    def _known(self, at: int, parts: list[Any], nests: list[_Nest | None]) -> bool:
        nest = nests[at]
        assert nest is not None
        if side_effect(nest.store.value) > CallEffectKind.Pure:
            return False
        for earlier in range(at - 1, -1, -1):
            first = nests[earlier]
            values = None if first is None else self._covers(first, nest)
            if first is not None and values is not None:
                if side_effect(first.store.value) > CallEffectKind.Pure:
                    return False
                fixed = [v for i in first.store.indices for v in walk(i)]
                free = [x.loop_var for x in first.loops if x.loop_var not in fixed]
                if any(x is v for x in walk(first.store.value) for v in free):
                    return False  # several steps store there, and the last one counts
                there = substitute(first.store.value, values)
                with self._inside(nest):
                    return self.analyzer.can_prove_equal(there, nest.store.value)
            if _touches(parts[earlier], nest.store.buffer.data, writes=True):
                return False
        return False

    def _inside(self, nest: _Nest) -> ExitStack:
        stack = ExitStack()
        for condition in nest.conditions:
            stack.enter_context(self.analyzer.enter_constraint(condition))
        return stack

    def _covers(self, over: _Nest, nest: _Nest) -> dict[E.Var, Any] | None:
        """The steps of `over` that store to the element of a step of `nest`, if each has one."""
        if over.store.buffer is not nest.store.buffer:
            return None
        loops = {loop.loop_var: loop for loop in over.loops}
        values: dict[E.Var, Any] = {}
        rest: list[Any] = []
        for mine, theirs in zip(over.store.indices, nest.store.indices, strict=True):
            used = [v for v in loops if any(x is v for x in walk(mine))]
            if len(used) != 1 or used[0] in values:
                rest.append((mine, theirs))
                continue
            linear = detect_linear_equation(mine, used)
            if not linear or const_int(linear[0]) != 1:
                return None
            values[used[0]] = theirs - linear[1]
        for var, loop in loops.items():
            values.setdefault(var, loop.min)
        proofs = [substitute(c, values) for c in over.conditions]
        for var, loop in loops.items():
            low, extent = (substitute(e, values) for e in (loop.min, loop.extent))
            proofs += [values[var] >= low, values[var] < low + extent]
        with self._inside(nest):
            same = all(self.analyzer.can_prove_equal(substitute(a, values), b) for a, b in rest)
            return values if same and all(map(self.analyzer.can_prove, proofs)) else None


def _touches(s: Any, data: E.Var, writes: bool) -> bool:
    """Whether a statement may read memory, or write it, by name or in a call that does more."""
    for x in walk(s):
        if x is data or (type(x) is E.BufferLoad and x.buffer.data is data and not writes):
            return True
        if type(x) is S.BufferStore and writes and x.buffer.data is data:
            return True
        if type(x) is E.Call and side_effect(x) > CallEffectKind.ReadState:
            return True
    return False


def _without_store(s: S.Stmt) -> S.Stmt:
    """A nest with its store's value evaluated only, if that changes anything."""
    nest = _nest(s)
    assert nest is not None
    if side_effect(nest.store.value) <= CallEffectKind.ReadState:
        return S.no_op()
    return _Evaluated().stmt(s)  # type: ignore[no-any-return]


class _Evaluated(BoundedRewriter):
    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        return S.Evaluate(s.value)
