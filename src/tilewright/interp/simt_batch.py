"""Loops that only store to memory of a thread, all iterations in one go.

In such a loop the variable takes all its values at once, as the lanes of a vector, and each
statement runs for all of them before the next one does. That is right where an element that the
loop writes belongs to one iteration: each written buffer has, of all indices that stand in the
body, no element twice, which is seen from their values; and its elements are read at these indices
alone. The same goes for nests of loops with nothing between them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.equal import structural_equal
from ..loopir.expr import const
from ..loopir.subst import substitute
from ..loopir.visit import nodes, walk
from . import np_ops
from .simt_access import running
from .simt_memory import is_shared, is_warp
from .simt_state import Array, State
from .simt_traffic import enough

if TYPE_CHECKING:
    from .simt_stmt import KernelCode

_FEWEST = 8  # iterations that pay
_ELEMENTS = 1 << 16  # of a value
_PARTS = 64  # that are remembered
_PLAIN = (*np_ops.BINARY, *np_ops.COMPARE, E.Not, E.Select, E.Cast, E.IntImm, E.FloatImm, E.Var)


class Loop(NamedTuple):
    """A loop as it has been made: the place of its variable, its bounds, its body."""

    loop: S.For
    slot: int
    low: Callable[[State], Any]
    extent: Callable[[State], Any]
    body: Callable[[State], None]


class _Body:
    """What the statements of an innermost loop do; `fits` is False where they do not fit."""

    def __init__(self, code: KernelCode, s: S.Stmt) -> None:
        self.code = code
        self.lets: dict[E.Var, Any] = {}
        self.stores: list[S.BufferStore] = []
        self.values: list[tuple[S.Stmt, Any]] = []  # with the statement they are of
        self.once: list[E.Var] = []  # memories of loads that are the same in all iterations
        self.fits = self._look(s)

    def _look(self, s: Any) -> bool:
        todo = [s]
        while todo:
            s = todo.pop()
            kind = type(s)
            if kind is S.SeqStmt:
                todo.extend(reversed(s.seq))
            elif kind is S.LetStmt and parse(s.var.dtype).lanes == 1 and s.var.dtype != "handle":
                self.values.append((s, s.value))
                self.lets[s.var] = substitute(s.value, self.lets)
                todo.append(s.body)
            elif kind is S.BufferStore and self._private(s):
                self.values += [(s, e) for e in (s.value, *s.indices)]
                self.stores.append(s)
            else:
                return False
        return bool(self.stores)

    def _private(self, s: S.BufferStore) -> bool:
        scope = self.code.scopes.get(s.buffer.data)
        if scope is None or is_shared(scope) or is_warp(scope) or s.predicate is not None:
            return False
        return parse(s.buffer.dtype).lanes == 1 and parse(s.value.dtype).lanes == 1

    def index(self, x: Any) -> Any:
        """The index of a load or store without lets of the body."""
        return substitute(self.code.index(x.buffer, x.indices), self.lets)


def together(code: KernelCode, s: S.For) -> Callable[[State], bool] | None:
    """The function that runs a loop in one go, if it can: False where it has not run.

    None for loops that it is not right for. Those of a nest inside must have been made.
    """
    loops = [s]
    while type(loops[-1].body) is S.For:
        loops.append(loops[-1].body)
    if any(id(x) not in code.loops for x in loops):
        return None
    body = _Body(code, loops[-1].body)
    own = {x.loop_var for x in loops}
    if not body.fits or not _steady(body, loops, own):
        return None
    indices = _written(body, own)
    if indices is None:
        return None
    sites = [
        (site, e.buffer.data)
        for x, value in body.values
        for e in nodes(value)
        for site in (code.site_of.get(id(x), 0),)
        if type(e) is E.BufferLoad
    ]
    made = [code.loops[id(x)] for x in loops]
    indices = [_without_common(group, own) for group in indices]
    apart = [[code.value(i) for i in group] for group in indices]
    alone = all(_variables(i) <= own for group in indices for i in group)
    return _Batch(made, apart, alone, sites, body.once).run


def _steady(body: _Body, loops: list[S.For], own: set[E.Var]) -> bool:
    """Whether all values can be computed for all iterations, and bounds are the same in them."""
    for x in loops[1:]:
        for e in (*nodes(x.min), *nodes(x.extent)):
            if e in own if isinstance(e, E.Var) else type(e) not in _PLAIN:
                return False
    varying = set(own)
    for s, value in body.values:
        if not all(_allowed(e, varying) for e in nodes(value)):
            return False
        body.once += [e.buffer.data for e in _fixed(value, varying)]
        if type(s) is S.LetStmt and _uses(value, varying):
            varying.add(s.var)
    return True


def _allowed(e: Any, varying: set[E.Var]) -> bool:
    """Whether a node may have a value in each iteration; `varying` are variables that do."""
    kind = type(e)
    if kind is E.SizeVar:
        return True
    if parse(e.dtype).lanes > 1:
        return False
    if kind is E.BufferLoad:
        return e.predicate is None
    if kind in (E.And, E.Or):  # what the first part leaves out may not be there to be read
        return not any(type(x) is E.BufferLoad for x in nodes(e.b))
    if kind in np_ops.DIVISIONS and parse(e.dtype).is_integer:
        return isinstance(e.b, E.IntImm) and e.b.value != 0
    if kind is E.Call:
        if e.op.name == "tir.if_then_else":  # how many lanes read a side would not be known
            return not _uses(e.args[0], varying) and not any(_fixed(x, varying) for x in e.args[1:])
        return e.op.row.numpy is not None
    return kind in _PLAIN


def _variables(e: Any) -> set[E.Var]:
    return {x for x in nodes(e) if isinstance(x, E.Var)}


def _uses(e: Any, variables: set[E.Var]) -> bool:
    return not variables.isdisjoint(_variables(e))


def _fixed(e: Any, varying: set[E.Var]) -> list[Any]:
    """The loads in an expression that are the same in all iterations."""
    return [x for x in walk(e) if type(x) is E.BufferLoad and not _uses(x, varying)]


def _written(body: _Body, own: set[E.Var]) -> list[list[Any]] | None:
    """The different indices of each buffer written; None if one is read elsewhere, or if an index
    does not tell iterations apart."""
    found: dict[E.Var, list[Any]] = {}
    for s in body.stores:
        index = body.index(s)
        if any(type(x) not in _PLAIN and not isinstance(x, E.Var) for x in nodes(index)):
            return None
        if not own <= _variables(index):
            return None
        group = found.setdefault(s.buffer.data, [])
        if not any(structural_equal(index, x) for x in group):
            group.append(index)
    for _, value in body.values:
        for x in nodes(value):
            if type(x) is E.BufferLoad and x.buffer.data in found:
                index = body.index(x)
                if not any(structural_equal(index, y) for y in found[x.buffer.data]):
                    return None
    return list(found.values())


def _without_common(group: list[Any], own: set[E.Var]) -> list[Any]:
    """Indices without the terms that all of them have and that are the same in all iterations."""
    sums = [_terms(i) for i in group]
    for part in list(sums[0]):
        places = [_place(part, s) for s in sums]
        if not _uses(part[1], own) and min(places) >= 0:
            for s, n in zip(sums, places):
                del s[n]
    return [_total(s, i.dtype) for s, i in zip(sums, group)]


def _place(part: tuple[bool, Any], terms: list[tuple[bool, Any]]) -> int:
    for n, (negative, term) in enumerate(terms):
        if negative == part[0] and structural_equal(term, part[1]):
            return n
    return -1


def _terms(e: Any) -> list[tuple[bool, Any]]:
    """The parts of a sum, each with whether it is taken off."""
    out: list[tuple[bool, Any]] = []
    todo = [(False, e)]
    while todo:
        negative, e = todo.pop()
        if type(e) in (E.Add, E.Sub):
            todo += [(negative ^ (type(e) is E.Sub), e.b), (negative, e.a)]
        else:
            out.append((negative, e))
    return out


def _total(terms: list[tuple[bool, Any]], dtype: str) -> Any:
    total: Any = const(0, dtype)
    for negative, term in terms:
        total = total - term if negative else total + term
    return total


class _Batch:
    """A nest that may run in one go; given up where its indices are seen to meet."""

    def __init__(
        self,
        loops: list[Loop],
        indices: list[list[Callable[[State], Any]]],
        alone: bool,
        loads: list[tuple[int, E.Var]],
        once: list[E.Var],
    ) -> None:
        """`alone`: the indices are of the variables of the loops, of nothing else; `once`: memories
        of loads that run once for all iterations."""
        self.loops = loops
        self.indices = indices
        self.alone = alone
        self.loads = loads
        self.once = once
        self.given_up = False
        self.parts: dict[Any, tuple[Array, ...]] = {}  # of which the indices are known apart

    def run(self, st: State) -> bool:
        if self.given_up or st.tainted:
            return False
        most = _ELEMENTS // st.lanes
        if most < _FEWEST:
            return False
        lows, extents = [], []
        for loop in self.loops:
            low, extent = loop.low(st), loop.extent(st)
            if low.ndim or extent.ndim:
                return False
            lows.append(int(low))
            extents.append(int(extent))
        if min(extents) < 1 or prod(extents) < _FEWEST or not self._sampled(st):
            return False
        count = prod(extents)
        for first in range(0, count, most):
            if not self._part(st, lows, extents, first, min(first + most, count)):
                self.given_up = True
                if first == 0:
                    return False
                self._rest(st, lows, extents, first)
                break
        return True

    def _sampled(self, st: State) -> bool:
        """Whether accesses have been looked at that stand for all: a vector is one of them."""
        return all(enough(st, site, st.memory[data]) for site, data in self.loads)

    def _part(self, st: State, lows: list[int], extents: list[int], first: int, end: int) -> bool:
        """Run some iterations, unless their indices meet."""
        key = (*lows, *extents, first, end)
        values = self.parts.get(key)
        known = values is not None
        if values is None:
            steps = np.unravel_index(np.arange(first, end), extents)
            values = tuple(
                (step + low).astype(parse(loop.loop.loop_var.dtype).numpy)[:, None]
                for loop, low, step in zip(self.loops, lows, steps)
            )
        for loop, value in zip(self.loops, values):
            if st.env[loop.slot] is not value:
                st.put(loop.slot, value)
        if not known and not all(_apart([f(st) for f in group]) for group in self.indices):
            return False
        if self.alone and len(self.parts) < _PARTS:
            self.parts[key] = values
        self.loops[-1].body(st)
        for data in self.once:
            st.memory[data].traffic.loads += (end - first - 1) * running(st)
        return True

    def _rest(self, st: State, lows: list[int], extents: list[int], first: int) -> None:
        for n in range(first, prod(extents)):
            for loop, low, step in zip(self.loops, lows, np.unravel_index(n, extents)):
                st.put(loop.slot, parse(loop.loop.loop_var.dtype).numpy.type(low + int(step)))
            self.loops[-1].body(st)


def _apart(values: list[Array]) -> bool:
    """Whether in each lane no number is there twice."""
    if any(v.ndim != 2 for v in values):
        return False
    if len(values) > 1:
        lanes = max([v.shape[1] for v in values])
        values = [np.broadcast_to(v, (len(v), lanes)) for v in values]
    ordered = np.sort(np.concatenate(values), axis=0)
    return bool((ordered[1:] != ordered[:-1]).all())
