"""Expressions of the loop IR as Python functions of the state, on all lanes at once.

`Code.value(e)` gives a function from State to a value (see simt_state). A part that is the same all
through a batch of blocks, such as one of thread indices only, is computed once for it; others are
kept until their variables change (simt_keep).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..base.deep import Recursive
from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.data import is_data
from ..loopir.stmt import Stmt
from . import np_ops
from .simt_keep import Keeper
from .simt_report import DIVISION
from .simt_state import Array, State

Fn = Callable[[State], Any]

_PURE = (*np_ops.BINARY, *np_ops.COMPARE)


class Code(Recursive):
    """Makes functions of expressions; `slots` has the place of each variable's value."""

    recursive = ("invariant",)
    table: ClassVar[dict[type, Callable[[Any, Any], Fn]]] = {}
    calls: ClassVar[dict[str, Callable[[Any, E.Call], Fn]]] = {}
    shuffle_sources: ClassVar[dict[str, Callable[[Any, E.Call], Fn]]] = {}

    def __init__(self) -> None:
        self.slots: dict[E.Var, int] = {}
        self.fixed: set[E.Var] = set()  # variables with one value for a batch
        self.caches = 0
        self.sites: list[Stmt] = []
        self.same: dict[int, bool] = {}
        self.keep: list[Any] = []  # nodes whose ids are keys of `same`
        self.keeper = Keeper(self)
        self.lets: set[E.Var] = set()  # variables that stand for data
        self.undefined: Any = None  # the maker of functions for undefinedness

    def slot(self, v: E.Var) -> int:
        """The place of a variable's value, made when first asked for."""
        return self.slots.setdefault(v, len(self.slots))

    # -- what stays the same

    def invariant(self, e: Any) -> bool:
        """Whether an expression has one value for a batch, and computing it cannot fail."""
        known = self.same.get(id(e))
        if known is None:
            self.keep.append(e)
            known = self.same[id(e)] = self._invariant(e)
        return known

    def _invariant(self, e: Any) -> bool:
        kind = type(e)
        if kind in (E.IntImm, E.FloatImm):
            return True
        if kind in (E.Var, E.SizeVar):
            return e in self.fixed
        if kind in np_ops.DIVISIONS and parse(e.dtype).is_integer:
            return isinstance(e.b, E.IntImm) and e.b.value != 0 and self.invariant(e.a)
        if kind in _PURE:
            return self.invariant(e.a) and self.invariant(e.b)
        if kind is E.Cast or kind is E.Broadcast:
            return self.invariant(e.value)
        if kind is E.Ramp:
            return self.invariant(e.base) and self.invariant(e.stride)
        return False

    # -- making functions

    def value(self, e: Any) -> Fn:
        """The function that gives the value of `e`."""
        kind = type(e)
        if kind in (E.IntImm, E.FloatImm, E.Var, E.SizeVar):
            return self.raw(e)
        if self.invariant(e):
            return self._cached(self.raw(e))
        return self.keeper.kept(e, self.raw)

    def _cached(self, f: Fn) -> Fn:
        n = self.caches
        self.caches += 1

        def cached(st: State) -> Any:
            v = st.cache[n]
            if v is None:
                v = st.cache[n] = f(st)
            return v

        return cached

    def raw(self, e: Any) -> Fn:
        handler = self.table.get(type(e))
        if handler is None:
            raise TilewrightError(f"simt: {type(e).__name__} must be lowered first: {e}")
        return handler(self, e)

    def _child(self, parent: Any, e: Any) -> Fn:
        """A part of `parent`, kept for the batch unless `parent` is so itself."""
        return self.raw(e) if self.invariant(parent) else self.value(e)

    def _var(self, v: E.Var) -> Fn:
        n = self.slots.get(v)
        if n is None:
            raise TilewrightError(f"simt: variable {v.name} is used where it has no value")
        return lambda st: st.env[n]

    def _imm(self, e: Any) -> Fn:
        constant = parse(e.dtype).numpy.type(e.number)
        return lambda st: constant

    def _string(self, e: E.StringImm) -> Fn:
        return lambda st: e.value

    def _binary(self, e: Any) -> Fn:
        """A chain of operations, which may be long, as a loop."""
        chain: list[tuple[Any, Fn]] = []
        whole = e
        while type(e) in np_ops.BINARY and (e is whole or not self._kept_part(whole, e)):
            chain.append((self._operation(e), self._child(whole, e.b)))
            e = e.a
        first = self._child(whole, e)
        if len(chain) == 1:
            f, right = chain[0]
            return lambda st: f(st, first(st), right(st))
        chain.reverse()

        def run(st: State) -> Any:
            v = first(st)
            for f, right in chain:
                v = f(st, v, right(st))
            return v

        return run

    def _kept_part(self, whole: Any, e: Any) -> bool:
        return not self.invariant(whole) and (self.invariant(e) or self.keeper.keeps(e))

    def _operation(self, e: Any) -> Callable[[State, Any, Any], Any]:
        kind, t = type(e), parse(e.dtype)
        f = np_ops.BINARY[kind]
        if kind not in np_ops.DIVISIONS or t.is_float:
            if t.is_float and kind in (E.Mod, E.FloorDiv, E.FloorMod):
                raise TilewrightError(f"simt: {kind.__name__} of floats: {e}")
            return lambda st, a, b: f(a, b)
        if isinstance(e.b, E.IntImm) and e.b.value > 0:
            power = e.b.value & (e.b.value - 1) == 0
            number = t.numpy.type
            if power and kind is E.FloorDiv:
                bits = number(e.b.value.bit_length() - 1)
                return lambda st, a, b: np.right_shift(a, bits)
            if power and kind is E.FloorMod:
                mask = number(e.b.value - 1)
                return lambda st, a, b: np.bitwise_and(a, mask)
            return lambda st, a, b: f(a, b)

        if is_data(e.b, self.lets) or E.is_const(e.b, 0):
            return lambda st, a, b: f(a, b)

        def divide(st: State, a: Any, b: Any) -> Any:
            zero = b == 0
            if np.any(zero):
                self.no_zero(st, zero)
                b = np.where(zero, b.dtype.type(1), b)
            return f(a, b)

        return divide

    def no_zero(self, st: State, zero: Any) -> None:
        """Report a division by zero in lanes that run."""
        if st.mask is not None:
            zero = zero & st.mask
        where = np.broadcast_to(zero, np.shape(zero)[:-1] + (st.lanes,))
        if where.any() and not st.quiet:
            lane = int(np.flatnonzero(where.reshape(-1))[0]) % st.lanes
            number = int(st.number[lane])
            who = st.geometry.thread(number)
            st.log.add(DIVISION, f"{who} divides by zero", st.site, "", None, (number,))

    def _compare(self, e: Any) -> Fn:
        f = np_ops.COMPARE[type(e)]
        a, b = self._child(e, e.a), self._child(e, e.b)
        return lambda st: f(a(st), b(st))

    def _logic(self, e: Any) -> Fn:
        a, b = self._child(e, e.a), self._child(e, e.b)
        if self.invariant(e.b):
            f = np_ops.COMPARE[type(e)]
            return lambda st: f(a(st), b(st))
        both = isinstance(e, E.And)

        def run(st: State) -> Any:
            x = a(st)
            if x.ndim == 0:
                return b(st) if bool(x) == both else x
            if x.ndim == 2:
                y = b(st)
                return (x & y) if both else (x | y)
            y = under(st, x if both else ~x, b)
            if y is None:
                return x
            return (x & y) if both else (x | y)

        return run

    def _not(self, e: E.Not) -> Fn:
        a = self.value(e.a)
        return lambda st: np.logical_not(a(st))

    def _select(self, e: E.Select) -> Fn:
        parts = [self.value(x) for x in (e.condition, e.true_value, e.false_value)]
        c, a, b = parts
        return lambda st: np.where(c(st), a(st), b(st))

    def _cast(self, e: E.Cast) -> Fn:
        x, element = self._child(e, e.value), parse(e.dtype).element
        if parse(e.value.dtype).element == element:
            return x
        return lambda st: np_ops.cast(x(st), element)

    def _let(self, e: E.Let) -> Fn:
        v, n = self.value(e.value), self.slot(e.var)
        if is_data(e.value, self.lets):
            self.lets.add(e.var)
        body = self.value(e.body)

        def run(st: State) -> Any:
            st.put(n, held(v(st)))
            return body(st)

        return run

    # -- vectors

    def _ramp(self, e: E.Ramp) -> Fn:
        base, stride = self._child(e, e.base), self._child(e, e.stride)
        steps = np.arange(e.lanes).astype(parse(e.dtype).numpy)[:, None]
        return lambda st: base(st) + stride(st) * steps

    def _broadcast(self, e: E.Broadcast) -> Fn:
        v, n = self._child(e, e.value), e.lanes
        return lambda st: rows(v(st), n)

    def _shuffle(self, e: E.Shuffle) -> Fn:
        parts = [(self.value(v), parse(v.dtype).lanes) for v in e.vectors]
        indices = list(e.indices)
        scalar = len(indices) == 1

        def run(st: State) -> Any:
            vectors = [rows(f(st), n) for f, n in parts]
            width = max([v.shape[1] for v in vectors])
            whole = np.concatenate([np.broadcast_to(v, (len(v), width)) for v in vectors])
            if not scalar:
                return whole[indices]
            one = whole[indices[0]]
            return one if width > 1 else one[0]

        return run

    def _call(self, e: E.Call) -> Fn:
        handler = self.calls.get(e.op.name)
        return handler(self, e) if handler is not None else self.plain_call(e)

    def plain_call(self, e: E.Call) -> Fn:
        """An operation on values alone; simt_calls replaces this."""
        raise NotImplementedError

    def _load(self, e: E.BufferLoad) -> Fn:
        raise NotImplementedError


def rows(v: Any, n: int) -> Array:
    """A value as vector of n, of shape (n, lanes) or (n, 1)."""
    if v.ndim == 2:
        return np.asarray(v)
    return np.broadcast_to(v, (n, v.shape[0] if v.ndim else 1))


def held(v: Any) -> Any:
    """A value that stays as it is when memory changes."""
    return v.copy() if isinstance(v, np.ndarray) and v.ndim else v


def under(st: State, condition: Any, f: Fn) -> Any:
    """`f` in the lanes where a condition holds as well; None if there are none."""
    old = st.mask
    mask = condition if old is None else condition & old
    count = np.count_nonzero(mask)
    if count == 0:
        return None
    st.mask = None if count == st.lanes else mask
    try:
        return f(st)
    finally:
        st.mask = old


Code.table.update(dict.fromkeys(np_ops.BINARY, Code._binary))
Code.table.update(dict.fromkeys(np_ops.COMPARE, Code._compare))
Code.table.update(
    {
        E.Var: Code._var,
        E.SizeVar: Code._var,
        E.IntImm: Code._imm,
        E.FloatImm: Code._imm,
        E.StringImm: Code._string,
        E.And: Code._logic,
        E.Or: Code._logic,
        E.Not: Code._not,
        E.Select: Code._select,
        E.Cast: Code._cast,
        E.Let: Code._let,
        E.Ramp: Code._ramp,
        E.Broadcast: Code._broadcast,
        E.Shuffle: Code._shuffle,
        E.Call: lambda code, e: code._call(e),
        E.BufferLoad: lambda code, e: code._load(e),
    }
)
