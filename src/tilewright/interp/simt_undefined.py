"""Which values rest on memory that nobody has written, or on lanes that did not take part.

Reading such a thing is common and harmless where the result is thrown away (a thread beyond the
edge of a matrix computes, and stores nothing), so it is told only when a value is used: stored in
global memory, or as a condition or index. As in Memcheck (Seward and Nethercote, USENIX 2005),
undefinedness goes with values through local and shared memory. A value's undefinedness is a number
for each lane: 0, or 1 + the place in `State.origins`. It is computed by functions of its own, only
in batches of blocks where something undefined has been read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.deep import Recursive
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir.visit import children
from .simt_access import taint_at
from .simt_expr import Fn, under
from .simt_state import State

_OPAQUE = ("tir.tvm_access_ptr", "tir.address_of", "tir.tvm_warp_activemask")


class Undefined(Recursive):
    """Makes functions for the undefinedness of expressions; `code` makes those for values."""

    recursive = ("of",)

    def __init__(self, code: Any) -> None:
        self.code = code

    def later(self, e: Any) -> Fn:
        """The function for `e`, made when first run."""
        made: list[Fn] = []

        def run(st: State) -> Any:
            if not made:
                made.append(self.of(e) or _never)
            st.cache.extend([None] * (self.code.caches - len(st.cache)))
            quiet, st.quiet = st.quiet, True
            try:
                return made[0](st)
            finally:
                st.quiet = quiet

        return run

    def of(self, e: Any) -> Fn | None:
        """The function for `e`; None if it is always defined."""
        kind = type(e)
        if kind in (E.IntImm, E.FloatImm, E.StringImm) or self.code.invariant(e):
            return None
        if kind in (E.Var, E.SizeVar):
            return lambda st: st.taint_env.get(e, 0)
        if kind is E.BufferLoad:
            return self._load(e)
        if kind is E.Select:
            return self._choice(e.condition, e.true_value, e.false_value)
        if kind in (E.And, E.Or):
            true = E.IntImm("bool", 1)
            sides = (e.b, true) if kind is E.And else (true, e.b)
            return self._choice(e.a, *sides)
        if kind is E.Let:
            return self._let(e)
        if kind is E.Call:
            name = e.op.name
            if name == "tir.if_then_else":
                return self._choice(*e.args)
            if name in self.code.shuffle_sources:
                return self._shuffle(e)
            if name in _OPAQUE or name.startswith("tir.atomic"):
                return None
            if f"extern {getattr(e.args[0], 'value', '')}" in self.code.calls:
                return None
        return self._all(e)

    def _all(self, e: Any) -> Fn | None:
        """Undefined where one of the parts is; a chain of operations is a loop."""
        parts: list[tuple[Fn, bool]] = []
        stack = [e]
        lanes = parse(e.dtype).lanes
        while stack:
            x = stack.pop()
            plain = isinstance(x, (E.BinaryOp, E.Not)) or type(x) in (E.Cast, E.EQ, E.LT, E.GE)
            if x is e or plain:
                stack.extend(children(x))
                continue
            f = self.of(x)
            if f is not None:
                parts.append((f, parse(x.dtype).lanes != lanes))
        if not parts:
            return None

        def run(st: State) -> Any:
            t: Any = 0
            for f, narrower in parts:
                other = f(st)
                if type(other) is int:
                    continue
                if narrower and other.ndim == 2:
                    other = other.max(axis=0)
                t = other if type(t) is int else np.maximum(t, other)
            return t

        return run

    def _load(self, e: E.BufferLoad) -> Fn:
        data, dtype = e.buffer.data, e.buffer.dtype
        flat = self.code.index(e.buffer, e.indices)
        index, of_index = self.code.value(flat), self.of(flat)
        limit = self.code.limit(e.buffer)
        where = self.code.value(e.predicate) if e.predicate is not None else lambda st: None

        def run(st: State) -> Any:
            if of_index is not None:
                st.use(of_index(st), "as an index")
            return taint_at(st, st.memory[data], dtype, index(st), limit(st), where(st))

        return run

    def _choice(self, condition: Any, a: Any, b: Any) -> Fn | None:
        of_condition, value = self.of(condition), self.code.value(condition)
        x, y = self.of(a) or _never, self.of(b) or _never
        if of_condition is None and x is _never and y is _never:
            return None
        c_taint = of_condition or _never

        def run(st: State) -> Any:
            t, c = c_taint(st), value(st)
            if c.ndim == 0:
                chosen = x(st) if c else y(st)
            elif c.ndim == 2:
                chosen = np.where(c, x(st), y(st))
            else:
                first, second = under(st, c, x), under(st, ~c, y)
                chosen = np.where(c, _array(first), _array(second))
            result = np.maximum(_array(t), _array(chosen))
            return result if result.any() else 0

        return run

    def _let(self, e: E.Let) -> Fn:
        of_value, value = self.of(e.value) or _never, self.code.value(e.value)
        body = self.of(e.body) or _never
        n, var = self.code.slot(e.var), e.var

        def run(st: State) -> Any:
            st.taint_env[var] = of_value(st)
            st.put(n, value(st))
            return body(st)

        return run

    def _shuffle(self, e: E.Call) -> Fn:
        """A lane has what the lane that it reads has, or the number of the failed shuffle."""
        source, of_value = self.code.shuffle_sources[e.op.name](self.code, e), self.of(e.args[1])
        key = id(e)

        def run(st: State) -> Any:
            own = st.shuffle_taint.get(key, 0)
            if of_value is None:
                return own
            t = of_value(st)
            if type(t) is int or t.ndim == 0:
                return own
            taken = t[..., source(st)]
            return taken if type(own) is int else np.maximum(taken, own)

        return run


def _never(st: State) -> int:
    return 0


def _array(t: Any) -> Any:
    return np.asarray(0 if t is None else t, np.int16)
