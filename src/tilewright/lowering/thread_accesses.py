"""Which threads of a block touch which elements of its memory.

The indices of shared memory are small: for two accesses the elements that every thread touches are
enumerated with NumPy, over all threads and the iterations of loops that have ended. What is the
same for all threads (block indices, variables of loops that run) must cancel, if need be after
trying all residues; where nothing can be said, accesses are taken to conflict.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import Any

import numpy as np

from ..arith.analyzer import Analyzer
from ..loopir import expr as E
from ..loopir.expr import const, const_int
from ..loopir.subst import substitute
from ..loopir.visit import nodes
from .index_values import Unknown, values_of

MOST_POINTS = 1 << 22
_PRIVATE = (E.BufferLoad, E.Call, E.Let)
_MOST_RESIDUES = 32


@dataclass(frozen=True, eq=False)
class Access:
    """One read or write of `lanes` elements, `stride` apart, of the memory `data`.

    `index` None: any element. `guards`: conditions under which it happens. `loops`: variable,
    minimum and extent of loops that have run through all their iterations; other variables have
    one value for all threads. `nbytes`: of an element. Atomic accesses do not conflict.
    """

    data: E.Var
    write: bool
    index: Any
    nbytes: int
    lanes: int = 1
    stride: int = 1
    guards: tuple[Any, ...] = ()
    loops: tuple[tuple[E.Var, Any, Any], ...] = ()
    atomic: bool = False

    def with_loop(self, var: E.Var, low: Any, extent: Any) -> Access:
        """The access in all iterations of a loop around it."""
        return replace(self, loops=((var, low, extent), *self.loops))

    def at(self, values: dict[E.Var, Any]) -> Access:
        """The access where variables have other values."""
        index = None if self.index is None else substitute(self.index, values)
        guards = tuple(substitute(g, values) for g in self.guards)
        loops = tuple((v, substitute(m, values), substitute(n, values)) for v, m, n in self.loops)
        return replace(self, index=index, guards=guards, loops=loops)


@dataclass(frozen=True)
class _Owners:
    """For the elements first, first + 1, ...: the least and greatest thread that touches each;
    `low` is above `high` for one that none does."""

    first: int
    low: Any
    high: Any


class Conflicts:
    """Answers whether two accesses may be of one element by different threads of a block."""

    def __init__(self, threads: Sequence[tuple[E.Var, Any]]) -> None:
        sizes = [const_int(n) for _, n in threads]
        self.known = all(n is not None for n in sizes)
        self.count = int(np.prod([n or 1 for n in sizes], dtype=np.int64)) if self.known else 0
        self.threads: dict[E.Var, Any] = {}
        if self.known and sizes:
            grid = np.indices([n or 1 for n in sizes]).reshape(len(sizes), -1)
            self.threads = {v: grid[i] for i, (v, _) in enumerate(threads)}
        self.answers: dict[tuple[int, int], tuple[Access, Access, bool]] = {}
        self.owners: dict[tuple[int, Any], tuple[Access, _Owners | None]] = {}

    def between(self, a: Access, b: Access) -> bool:
        """Whether a barrier must separate them."""
        if a.data is not b.data or not (a.write or b.write) or (a.atomic and b.atomic):
            return False
        key = (id(a), id(b))
        found = self.answers.get(key)
        if found is None:
            found = self.answers[key] = (a, b, self._conflict(a, b))
        return found[2]

    def _conflict(self, a: Access, b: Access) -> bool:
        if not self.known or a.index is None or b.index is None or a.nbytes != b.nbytes:
            return True
        free = [v for v in _variables(a) if not self._varies(a, v)]
        free += [v for v in _variables(b) if not self._varies(b, v) and v not in free]
        try:
            return any(self._overlap(a, b, residue) for residue in _residues(a, b, free))
        except Unknown:
            return True

    def _varies(self, a: Access, v: E.Var) -> bool:
        return v in self.threads or any(v is loop for loop, _, _ in a.loops)

    def _moves(self, a: Access, x: Any) -> bool:
        """Whether a node may have another value in each thread."""
        return type(x) in _PRIVATE if not isinstance(x, E.Var) else self._varies(a, x)

    def _overlap(self, a: Access, b: Access, residue: dict[E.Var, Any]) -> bool:
        ua, va = self._parts(a, residue)
        ub, vb = self._parts(b, residue)
        shift = const_int(Analyzer().simplify(ua - ub))
        if shift is None:
            raise Unknown
        x, y = self._owned(a, va, residue), self._owned(b, vb, residue)
        first = max(x.first + shift, y.first)
        end = min(x.first + shift + len(x.low), y.first + len(y.low))
        if first >= end:
            return False
        xs = slice(first - x.first - shift, end - x.first - shift)
        ys = slice(first - y.first, end - y.first)
        low, high = x.low[xs], x.high[xs]
        other_low, other_high = y.low[ys], y.high[ys]
        both = (low <= high) & (other_low <= other_high)
        one = (low == high) & (other_low == other_high) & (low == other_low)
        return bool(np.any(both & ~one))

    def _parts(self, a: Access, residue: dict[E.Var, Any]) -> tuple[Any, list[tuple[int, Any]]]:
        """The index as what is the same for all threads, and terms that are not."""
        index = a.index
        if residue:
            index = Analyzer().simplify(substitute(index, residue))
        same: Any = const(0)
        varying: list[tuple[int, Any]] = []
        for factor, term in _terms(index):
            if any(self._moves(a, x) for x in nodes(term)):
                varying.append((factor, term))
            else:
                same = same + term * factor
        return same, varying

    def _owned(
        self, a: Access, varying: list[tuple[int, Any]], residue: dict[E.Var, Any]
    ) -> _Owners:
        key = (id(a), tuple((v, str(r)) for v, r in residue.items()))
        found = self.owners.get(key)
        if found is None:
            found = self.owners[key] = (a, self._enumerate(a, varying))
        if found[1] is None:
            raise Unknown
        return found[1]

    def _enumerate(self, a: Access, varying: list[tuple[int, Any]]) -> _Owners | None:
        used = {v for _, t in varying for v in nodes(t) if isinstance(v, E.Var)}
        rank = 2 + len(a.loops)
        env = {v: ids.reshape(-1, *[1] * (rank - 1)) for v, ids in self.threads.items()}
        mask: Any = True
        points = self.count * a.lanes
        try:
            for axis, (v, low, extent) in enumerate(a.loops, 1):
                if v not in used:
                    continue
                most = int(np.max(values_of(extent, env)))
                points *= max(most, 1)
                if points > MOST_POINTS:
                    return None
                steps = np.arange(most).reshape([-1 if i == axis else 1 for i in range(rank)])
                mask = np.logical_and(mask, steps < values_of(extent, env))
                env[v] = steps + values_of(low, env)
            index: Any = np.zeros([1] * rank, np.int64)
            for factor, term in varying:
                index = index + factor * values_of(term, env)
        except Unknown:
            return None
        for guard in a.guards:
            try:
                mask = np.logical_and(mask, values_of(guard, env))
            except Unknown:
                continue
        index = index + np.arange(a.lanes) * a.stride
        return self._collect(index, mask)

    def _collect(self, index: Any, mask: Any) -> _Owners:
        shape = np.broadcast_shapes(
            index.shape, np.shape(mask), (self.count, *[1] * (index.ndim - 1))
        )
        elements = np.broadcast_to(index, shape).reshape(-1)
        ids = np.arange(self.count).reshape(-1, *[1] * (index.ndim - 1))
        owner = np.broadcast_to(ids, shape).reshape(-1)
        kept = np.broadcast_to(mask, shape).reshape(-1)
        if not kept.all():
            elements, owner = elements[kept], owner[kept]
        if not len(elements):
            return _Owners(0, np.empty(0, np.int64), np.empty(0, np.int64))
        first = int(elements.min())
        size = int(elements.max()) - first + 1
        low = np.full(size, self.count, np.int64)
        high = np.full(size, -1, np.int64)
        # of several values for one element NumPy keeps the last
        high[elements - first] = owner
        low[elements[::-1] - first] = owner[::-1]
        return _Owners(first, low, high)


def _variables(a: Access) -> list[E.Var]:
    return list(dict.fromkeys(v for v in nodes(a.index) if isinstance(v, E.Var)))


def _terms(e: Any, factor: int = 1) -> list[tuple[int, Any]]:
    """e as a sum of factor * term."""
    out: list[tuple[int, Any]] = []
    stack = [(factor, e)]
    while stack:
        k, x = stack.pop()
        kind = type(x)
        if kind is E.Add:
            stack += [(k, x.b), (k, x.a)]
        elif kind is E.Sub:
            stack += [(-k, x.b), (k, x.a)]
        elif kind is E.Mul and isinstance(x.b, E.IntImm):
            stack.append((k * x.b.value, x.a))
        elif kind is E.Mul and isinstance(x.a, E.IntImm):
            stack.append((k * x.a.value, x.b))
        else:
            out.append((k, x))
    return out


def _residues(a: Access, b: Access, free: list[E.Var]) -> list[dict[E.Var, Any]]:
    """The cases to look at: variables that stand under a division by a constant, as that
    constant times another variable plus each remainder."""
    periods: dict[E.Var, int] = {}
    for x in (*nodes(a.index), *nodes(b.index)):
        if type(x) in (E.FloorMod, E.FloorDiv, E.Mod, E.Div):
            divisor = const_int(x.b)
            for v in nodes(x.a):
                if v in free and divisor:
                    periods[v] = lcm(periods.get(v, 1), abs(divisor))
    count = int(np.prod(list(periods.values()), dtype=np.int64)) if periods else 1
    if count > _MOST_RESIDUES:
        return [{}]
    multiples = {v: E.Var(f"{v.name}_q", v.dtype) for v in periods}
    cases = []
    for rests in itertools.product(*(range(p) for p in periods.values())):
        cases.append({v: multiples[v] * p + r for (v, p), r in zip(periods.items(), rests)})
    return cases
