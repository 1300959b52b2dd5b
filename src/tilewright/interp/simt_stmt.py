"""Statements of the loop IR as functions of the state, run by all lanes in step.

Where lanes go different ways, `State.mask` narrows. A list of functions stands for a block, so that
chains of statements need no deep recursion.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.data import is_data
from ..loopir.iter import IterVar
from .simt_access import store
from .simt_batch import Loop, together
from .simt_calls import CallCode
from .simt_copies import async_store
from .simt_expr import Fn, held
from .simt_memory import give_address, new_memory
from .simt_report import ASSERTION, Abandoned
from .simt_shadow import FragmentShadow
from .simt_state import State
from .simt_undefined import Undefined

Step = Callable[[State], None]
_PATIENCE = 4096  # turns of a loop of a kernel that is known to be wrong


class KernelCode(CallCode):
    """Makes the function of a kernel.

    `units` has the element types each memory is used by, `scopes` where what is allocated lives,
    `threads` the slots of thread axes, `fragments` the sizes of matrices, `accumulators` the
    registers that products of warp groups write.
    """

    recursive = ("block",)

    statements: ClassVar[dict[type, Callable[[Any, Any, list[Step]], Any]]] = {}
    attributes: ClassVar[dict[str, Callable[[Any, Any, list[Step]], Any]]] = {}
    effects: ClassVar[dict[str, Callable[[Any, E.Call], Fn]]] = {}

    def __init__(
        self,
        units: dict[E.Var, tuple[str, ...]],
        scopes: dict[E.Var, str],
        threads: dict[str, int],
    ) -> None:
        super().__init__()
        self.units = units
        self.scopes = scopes
        self.fragments: dict[E.Var, tuple[int, int]] = {}
        self.accumulators: set[E.Var] = set()
        self.threads = threads
        self.undefined = Undefined(self)
        self.loops: dict[int, Loop] = {}  # that have been made, and statements' numbers
        self.site_of: dict[int, int] = {}

    def site(self, s: S.Stmt) -> int:
        """The number of a statement, for shadow memory and messages."""
        self.sites.append(s)
        self.site_of[id(s)] = len(self.sites) - 1
        return len(self.sites) - 1

    def block(self, s: Any) -> Step:
        """The function that runs a statement."""
        steps: list[Step] = []
        while s is not None:
            if isinstance(s, S.SeqStmt):
                for x in s.seq[:-1]:
                    steps.append(self.block(x))
                s = s.seq[-1] if s.seq else None
                continue
            handler = self.statements.get(type(s))
            if handler is None:
                raise TilewrightError(f"simt does not know the statement {type(s).__name__}")
            s = handler(self, s, steps)
        if len(steps) == 1:
            return steps[0]

        def run(st: State) -> None:
            for step in steps:
                step(st)

        return run

    # -- statements; each adds steps, and gives the statement that goes on in its place

    def _store(self, s: S.BufferStore, steps: list[Step]) -> None:
        site, b = self.site(s), s.buffer
        data, dtype = b.data, b.dtype
        flat = self.index(b, s.indices)
        index, value = self.value(flat), self.value(s.value)
        limit = self.limit(b)
        where: Fn = self.value(s.predicate) if s.predicate is not None else lambda st: None
        taint = self.undefined.later(s.value)
        at = self.undefined.later(flat)

        def run(st: State) -> None:
            st.site = site
            i, v = index(st), value(st)
            m = st.memory[data]
            t: Any = 0
            if st.tainted:
                st.use(at(st), "as an index")
                t = taint(st)
                if m.scope == "global":
                    st.use(t, "in a store to global memory")
                    t = 0
            if st.in_async and m.scope == "shared":
                async_store(st, m, dtype, i, v, limit(st))
            else:
                store(st, m, dtype, i, v, limit(st), where(st), t)

        steps.append(run)

    def _evaluate(self, s: S.Evaluate, steps: list[Step]) -> None:
        if not isinstance(s.value, (E.Call, E.BufferLoad)):
            return
        site = self.site(s)
        effect = self.effect(s.value)

        def run(st: State) -> None:
            st.site = site
            effect(st)

        steps.append(run)

    def effect(self, e: Any) -> Fn:
        """The function of an expression whose value nobody needs."""
        name = e.op.name if isinstance(e, E.Call) else ""
        if name in ("tir.call_extern", "tir.call_pure_extern") and e.args:
            name = f"extern {getattr(e.args[0], 'value', '')}"
        own = self.effects.get(name)
        return self.value(e) if own is None else own(self, e)

    def _let_stmt(self, s: S.LetStmt, steps: list[Step]) -> S.Stmt:
        if s.var.dtype == "handle":
            raise TilewrightError(f"simt: pointers cannot be variables: {s.var.name}")
        site, value = self.site(s), self.value(s.value)
        n, var = self.slot(s.var), s.var
        if is_data(s.value, self.lets):
            self.lets.add(s.var)
        taint = self.undefined.later(s.value)

        def run(st: State) -> None:
            st.site = site
            st.put(n, held(value(st)))
            if st.tainted:
                st.taint_env[var] = taint(st)

        steps.append(run)
        return s.body

    def _allocate(self, s: S.Allocate, steps: list[Step]) -> S.Stmt:
        b, site = s.buffer, self.site(s)
        extents = [self.value(d) for d in (b.shape or (E.IntImm("int32", 1),))]
        units = self.units.get(b.data, ())
        data, t = b.data, parse(b.dtype)

        def run(st: State) -> None:
            st.site = site
            count = t.lanes
            for f in extents:
                d = f(st)
                if d.ndim:
                    raise TilewrightError(f"simt: the size of {b.name} differs between threads")
                count *= int(d)
            known = st.memory.get(data)
            if known is not None and known.size == max(count, 0) * t.numpy.itemsize:
                known.forget(st)
            else:
                scope = b.scope_name
                m = st.memory[data] = new_memory(st, b.name, scope, t.element, count, units)
                if m.scope == "shared":
                    give_address(st, m, b.data_alignment)
                if data in self.accumulators:
                    m.row_type = ""  # every access is looked at
                    m.shadow = FragmentShadow(len(m.shadow.written), st.lanes)

        steps.append(run)
        return s.body

    def _attr(self, s: S.AttrStmt, steps: list[Step]) -> S.Stmt | None:
        key = s.attr_key
        if key == "thread_extent" and isinstance(s.node, IterVar):
            tag = s.node.thread_tag or s.node.var.name
            if tag in self.threads:
                self.slots[s.node.var] = self.threads[tag]
                self.fixed.add(s.node.var)
                return s.body
            key = "virtual_thread"
        if key == "virtual_thread" and isinstance(s.node, IterVar):
            zero = E.IntImm(s.node.var.dtype, 0)
            return S.For(s.node.var, zero, s.value, S.ForKind.SERIAL, s.body)
        attribute = self.attributes.get(key)
        if attribute is not None:
            following: S.Stmt | None = attribute(self, s, steps)
            return following
        return s.body

    def _assert(self, s: S.AssertStmt, steps: list[Step]) -> S.Stmt:
        site, condition = self.site(s), self.value(s.condition)
        message = s.message.value if isinstance(s.message, E.StringImm) else str(s.message)

        def run(st: State) -> None:
            st.site = site
            wrong = np.broadcast_to(np.logical_not(condition(st)), (st.lanes,))
            if st.mask is not None:
                wrong = wrong & st.mask
            if wrong.any():
                number = int(st.number[int(np.flatnonzero(wrong)[0])])
                who = st.geometry.thread(number)
                st.log.add(ASSERTION, f"{message} ({who})", site, "", None, (number,))

        steps.append(run)
        return s.body

    def _prefetch(self, s: S.Prefetch, steps: list[Step]) -> None:
        pass

    # -- control

    def condition(self, s: Any, e: Any) -> Fn:
        """A condition, told of if it rests on undefined values."""
        site, value, taint = self.site(s), self.value(e), self.undefined.later(e)

        def run(st: State) -> Any:
            st.site = site
            c = value(st)
            if st.tainted:
                st.use(taint(st), "in a condition")
            return c

        return run

    def _if(self, s: S.IfThenElse, steps: list[Step]) -> None:
        condition = self.condition(s, s.condition)
        then = self.block(s.then_case)
        other = self.block(s.else_case) if s.else_case is not None else None

        def run(st: State) -> None:
            c = condition(st)
            if c.ndim == 0:
                if c:
                    then(st)
                elif other is not None:
                    other(st)
                return
            old = st.mask
            self.narrow(st, c if old is None else c & old, then)
            if other is not None:
                self.narrow(st, ~c if old is None else ~c & old, other)
            st.mask = old

        steps.append(run)

    @staticmethod
    def narrow(st: State, mask: Any, body: Step) -> bool:
        """Run `body` in the lanes of a mask; False if there are none. The caller restores."""
        count = np.count_nonzero(mask)
        if not count:
            return False
        st.mask = None if count == st.lanes else mask
        body(st)
        return True

    def _for(self, s: S.For, steps: list[Step]) -> S.Stmt | None:
        binding = s.thread_binding
        if binding is not None and binding.thread_tag in self.threads:
            self.slots[s.loop_var] = self.threads[binding.thread_tag]
            self.fixed.add(s.loop_var)
            return s.body
        low, extent = self.condition(s, s.min), self.condition(s, s.extent)
        n, var = self.slot(s.loop_var), s.loop_var
        number = parse(var.dtype).numpy.type
        around, self.keeper.inner = self.keeper.inner, var
        body = self.block(s.body)
        self.keeper.inner = around
        self.loops[id(s)] = Loop(s, n, low, extent, body)
        at_once = together(self, s)

        def run(st: State) -> None:
            if at_once is not None and at_once(st):
                return
            a, e = low(st), extent(st)
            if st.tainted:
                st.taint_env.pop(var, None)
            if a.ndim == 0 and e.ndim == 0:
                for i in range(int(a), int(a) + min(int(e), st.most_steps)):
                    st.put(n, number(i))
                    body(st)
                return
            old = st.mask
            steps_of = np.broadcast_to(e, (st.lanes,))
            most = int(steps_of.max() if old is None else steps_of[old].max(initial=0))
            for i in range(min(most, st.most_steps)):
                st.put(n, a + number(i))
                mask = i < steps_of
                self.narrow(st, mask if old is None else mask & old, body)
            st.mask = old

        steps.append(run)
        return None

    def _while(self, s: S.While, steps: list[Step]) -> None:
        condition, body = self.condition(s, s.condition), self.block(s.body)

        def run(st: State) -> None:
            old = st.mask
            for turn in itertools.count():
                # what the loop waits for may be what went wrong
                if turn > _PATIENCE and st.log.report.findings:
                    raise Abandoned
                c = condition(st)
                if c.ndim == 0:
                    if not c:
                        break
                    body(st)
                elif not self.narrow(st, c if st.mask is None else c & st.mask, body):
                    break
            st.mask = old

        steps.append(run)


KernelCode.statements.update(
    {
        S.BufferStore: KernelCode._store,
        S.Evaluate: KernelCode._evaluate,
        S.LetStmt: KernelCode._let_stmt,
        S.Allocate: KernelCode._allocate,
        S.AttrStmt: KernelCode._attr,
        S.AssertStmt: KernelCode._assert,
        S.Prefetch: KernelCode._prefetch,
        S.IfThenElse: KernelCode._if,
        S.For: KernelCode._for,
        S.While: KernelCode._while,
    }
)
