"""Which threads of a block touch which elements of its memory.

The indices of shared memory are small: for two accesses the elements that every thread touches are
enumerated with NumPy, over all threads and the iterations of loops that have ended. What is the
same for all threads (block indices, variables of loops that run) must cancel, if need be after
trying all residues, or all values where conditions depend on it; what has no known bound but a
factor leaves the indices modulo that factor. Where nothing can be said, accesses are taken to
conflict.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, lcm, prod
from typing import Any

import numpy as np

from ..arith.analyzer import Analyzer
from ..loopir import expr as E
from ..loopir.equal import structural_equal
from ..loopir.expr import const, const_int
from ..loopir.subst import substitute
from ..loopir.visit import nodes
from .index_values import Seen, Unknown, terms, values_of

MOST_POINTS = 1 << 22
_PRIVATE = (E.BufferLoad, E.Call, E.Let)
_MOST_CASES = 64

# of a variable, in a case that is looked at: a number, or a multiple of a factor and the remainder
_Value = int | tuple[E.Var, int, int]


@dataclass(frozen=True, eq=False)
class Access:
    """One read or write of `lanes` elements, `stride` apart, of the memory `data`.

    `index` None: any element. `guards`: conditions under which it happens. `loops`: variable,
    minimum and extent of loops that have run through all their iterations; other variables have
    one value for all threads. `nbytes`: of an element. Atomic accesses do not conflict. `shared`:
    of memory of the block, else of an array on the device. `late`: a write that not even its own
    thread sees before the next barrier, in no order with its other ones. `together`: made by the
    threads of a warp together, of which nobody knows who has which element, but that it is the same
    for all accesses of that name. `known`: the values of variables that are the same for all
    threads, in the case that is looked at.
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
    shared: bool = True
    late: bool = False
    together: str = ""
    known: Mapping[E.Var, int] = field(default_factory=dict)

    def with_loop(self, var: E.Var, low: Any, extent: Any) -> Access:
        """The access in all iterations of a loop around it."""
        return replace(self, loops=((var, low, extent), *self.loops))

    def at(self, put: Callable[[Any], Any]) -> Access:
        """The access where variables have other values, which `put` puts into an expression."""
        index = None if self.index is None else put(self.index)
        guards = tuple(map(put, self.guards))
        loops = tuple((v, put(low), put(extent)) for v, low, extent in self.loops)
        return replace(self, index=index, guards=guards, loops=loops)

    def in_elements_of(self, nbytes: int) -> Access:
        """The access as one of smaller elements, of which so many bytes make one of its own."""
        ratio = self.nbytes // nbytes
        if ratio == 1:
            return self
        index, part = self.index * ratio, E.Var("part", "int32")
        if self.stride == 1:
            return replace(self, index=index, nbytes=nbytes, lanes=self.lanes * ratio)
        finer = replace(self, index=index + part, nbytes=nbytes, stride=self.stride * ratio)
        return finer.with_loop(part, const(0), const(ratio))


@dataclass(frozen=True)
class _Owners:
    """For the elements first, first + 1, ...: the least and greatest thread that touches each;
    `low` is above `high` for one that none does. `exact`: no condition was left out."""

    first: int
    low: Any
    high: Any
    exact: bool = True


class Conflicts:
    """Answers whether two accesses may be of one element by different threads of a block."""

    def __init__(
        self,
        threads: Sequence[tuple[E.Var, Any]],
        ranges: Mapping[E.Var, tuple[int, int]] | None = None,
    ) -> None:
        """`threads`: variables and extents of the block; `ranges`: least value and number of
        values of other variables, where they are constants."""
        self.ranges = ranges or {}
        given = [const_int(n) for _, n in threads]
        self.known = None not in given
        sizes = [max(n or 1, 1) for n in given]
        self.count = int(np.prod(sizes, dtype=np.int64)) if self.known else 0
        self.threads: dict[E.Var, Any] = {}
        if self.known and sizes:
            grid = np.indices(sizes).reshape(len(sizes), -1)
            self.threads = {v: grid[i] for i, (v, _) in enumerate(threads)}
        self.answers: dict[tuple[int, int], tuple[Access, Access, bool]] = {}
        self.finer: dict[tuple[int, int], tuple[Access, Access]] = {}
        self.owners: dict[int, tuple[Access, _Owners | None]] = {}
        self.cases: dict[tuple[Any, ...], tuple[Access, Access]] = {}
        self.seen = Seen(self.threads)
        self.asked: dict[int, tuple[Access, dict[E.Var, None]]] = {}
        self.parts: dict[tuple[int, ...], tuple[Any, Any, list[tuple[int, Any]]]] = {}
        self.bounded: dict[int, tuple[Access, set[E.Var]]] = {}
        self.reached: dict[tuple[Any, ...], tuple[Access, _Owners | None]] = {}

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
        if not self.known or a.index is None or b.index is None:
            return a.shared
        if a.nbytes != b.nbytes:
            return self.between(*self._alike(a, b))
        overlap = False
        for cases in (self._residues, self._values):
            try:
                maybe = False
                for c in cases(a, b):
                    yes, exact = self._overlap(self._case(a, c), self._case(b, c))
                    if yes and exact:
                        return True
                    maybe = maybe or yes
            except Unknown:
                continue
            if not maybe:
                return False
            overlap = True
        try:
            return self._overlap_modulo(a, b)
        except Unknown:
            return overlap or a.shared or self._apart(a, b)

    def _alike(self, a: Access, b: Access) -> tuple[Access, Access]:
        """Both as accesses of elements of one size."""
        size = gcd(a.nbytes, b.nbytes)
        made = []
        for x in (a, b):
            found = self.finer.get((id(x), size))
            if found is None:
                found = self.finer[id(x), size] = (x, x.in_elements_of(size))
            made.append(found[1])
        return made[0], made[1]

    def _apart(self, a: Access, b: Access) -> bool:
        """Whether indices of an array on the device depend on the threads in different ways, or not
        on some of those that make both accesses, as far as can be seen: its strides are often
        unknown, and different elements of a thread's own are what they then reach."""
        threads = list(self.threads)
        mine, theirs = self.seen.coefficients(a.index), self.seen.coefficients(b.index)
        if not all(structural_equal(x, y) for x, y in zip(mine[:-1], theirs[:-1])):
            return True
        places: list[tuple[int, Any]] = []
        for v, k in zip(threads, mine):
            if const_int(k) != 0:
                places.append((prod(int(self.threads[x].max()) + 1 for _, x in places), v))
        # as if each of these threads had an element of its own
        x, y = self._reached(a, places), self._reached(b, places)
        return x is None or y is None or _clash(a, b, (x.low, x.high), (y.low, y.high))

    def _reached(self, a: Access, places: list[tuple[int, Any]]) -> _Owners | None:
        """Who makes an access, as if its element were the number that `places` give a thread."""
        key = (id(a), *places)
        found = self.reached.get(key)
        if found is None:
            owners = self._enumerate(replace(a, lanes=1), places, self.count)
            found = self.reached[key] = (a, owners)
        return found[1]

    def _residues(self, a: Access, b: Access) -> Iterator[dict[E.Var, _Value]]:
        """The cases to look at: variables that stand under a division by a constant, as that
        constant times another variable plus each remainder."""
        periods: dict[E.Var, int] = {}
        divisions = (*self.seen.divisions(a.index), *self.seen.divisions(b.index))
        if divisions:
            free = {
                v for x in (a, b) for v in self.seen.variables(x.index) if not self._varies(x, v)
            }
            for divisor, variables in divisions:
                for v in variables:
                    if v in free:
                        periods[v] = lcm(periods.get(v, 1), divisor)
        if prod(periods.values()) > _MOST_CASES:
            yield {}
            return
        multiples = {v: E.Var(f"{v.name}_q", v.dtype) for v in periods}
        for rests in itertools.product(*(range(p) for p in periods.values())):
            yield {v: (multiples[v], p, r) for (v, p), r in zip(periods.items(), rests)}

    def _values(self, a: Access, b: Access) -> Iterator[dict[E.Var, _Value]]:
        """All values of the variables, where they are few."""
        free = [v for v in {**self._asked(a), **self._asked(b)} if v in self.ranges]
        spans = [self.ranges[v] for v in free]
        if not free or prod(n for _, n in spans) > _MOST_CASES:
            raise Unknown
        for case in itertools.product(*(range(low, low + n) for low, n in spans)):
            yield dict(zip(free, case))

    def _case(self, a: Access, values: dict[E.Var, _Value]) -> Access:
        """The access where variables have other values: numbers, or expressions of others.

        Only the index gets them put in, and only where that may tell more than its values do:
        conditions are long, and what is not a number they do not need.
        """
        values = {v: values[v] for v in self._asked(a) if v in values} if values else {}
        if not values:
            return a
        key = (id(a), *((v, x if isinstance(x, int) else x[1:]) for v, x in values.items()))
        found = self.cases.get(key)
        if found is None:
            known = {v: x for v, x in values.items() if type(x) is int}
            index = a.index
            free = (v for v in self.seen.variables(index) if not self._varies(a, v))
            if not all(v in known for v in free):
                inside = {
                    v: const(x, v.dtype) if isinstance(x, int) else x[0] * x[1] + x[2]
                    for v, x in values.items()
                }
                index = Analyzer().simplify(substitute(index, inside))
            found = self.cases[key] = (a, replace(a, index=index, known=known))
        return found[1]

    def _asked(self, a: Access) -> dict[E.Var, None]:
        """Variables of an access with one value for all threads."""
        found = self.asked.get(id(a))
        if found is None:
            parts = (a.index, *a.guards, *(e for _, low, n in a.loops for e in (low, n)))
            used = (v for e in parts for v in self.seen.variables(e) if not self._varies(a, v))
            found = self.asked[id(a)] = (a, dict.fromkeys(used))
        return found[1]

    def _varies(self, a: Access, v: E.Var) -> bool:
        return v in self.threads or any(v is loop for loop, _, _ in a.loops)

    def _moves(self, a: Access, x: Any) -> bool:
        """Whether a node may have another value in each thread."""
        return type(x) in _PRIVATE if not isinstance(x, E.Var) else self._varies(a, x)

    def _overlap(self, a: Access, b: Access) -> tuple[bool, bool]:
        """Whether different threads may touch one element, and whether conditions count in that."""
        same_a, varying_a = self._parts(a)
        same_b, varying_b = self._parts(b)
        shift = self._shift(a, b, same_a, same_b)
        x, y = self._owned(a, varying_a), self._owned(b, varying_b)
        exact = x.exact and y.exact
        first = max(x.first + shift, y.first)
        end = min(x.first + shift + len(x.low), y.first + len(y.low))
        if first >= end:
            return False, exact
        xs = slice(first - x.first - shift, end - x.first - shift)
        ys = slice(first - y.first, end - y.first)
        return _clash(a, b, (x.low[xs], x.high[xs]), (y.low[ys], y.high[ys])), exact

    def _shift(self, a: Access, b: Access, same_a: Any, same_b: Any) -> int:
        numbers = all(
            v in x.known for x, e in ((a, same_a), (b, same_b)) for v in self.seen.variables(e)
        )
        if numbers:
            return int(values_of(same_a, a.known)) - int(values_of(same_b, b.known))
        shift = const_int(self.seen.difference(same_a, same_b))
        if shift is None:
            raise Unknown
        return shift

    def _overlap_modulo(self, a: Access, b: Access) -> bool:
        """`_overlap` of the remainders by what all factors of unbounded terms have in common."""
        bounded_a, bounded_b = self._bounded(a), self._bounded(b)
        same_a, varying_a = self._parts(a)
        same_b, varying_b = self._parts(b)
        shift, period = 0, 0
        for factor, term in terms(self.seen.difference(same_a, same_b)):
            if isinstance(term, E.IntImm):
                shift += factor * term.value
            else:
                period = gcd(period, factor)
        kept = []
        for varying, bounded in ((varying_a, bounded_a), (varying_b, bounded_b)):
            kept.append([(f, t) for f, t in varying if not isinstance(t, E.Var) or t in bounded])
            for factor, term in varying:
                if isinstance(term, E.Var) and term not in bounded:
                    period = gcd(period, factor)
        if period < 2 or period > MOST_POINTS:
            raise Unknown
        x = self._enumerate(a, kept[0], period, shift)
        y = self._enumerate(b, kept[1], period, 0)
        if x is None or y is None:
            raise Unknown
        return _clash(a, b, (x.low, x.high), (y.low, y.high))

    def _bounded(self, a: Access) -> set[E.Var]:
        """Threads, and loops of which the bounds are known."""
        known = self.bounded.get(id(a))
        if known is not None:
            return known[1]
        found = set(self.threads)
        env = {v: ids.reshape(-1, 1) for v, ids in self.threads.items()}
        for v, low, extent in a.loops:
            try:
                values_of(low, env), values_of(extent, env)
            except Unknown:
                continue
            found.add(v)
        self.bounded[id(a)] = (a, found)
        return found

    def _parts(self, a: Access) -> tuple[Any, list[tuple[int, Any]]]:
        """The index as what is the same for all threads, and terms that are not."""
        key = (id(a.index), *(id(v) for v, _, _ in a.loops))
        found = self.parts.get(key)
        if found is None:
            same: Any = const(0)
            varying: list[tuple[int, Any]] = []
            for factor, term in terms(a.index):
                if any(self._moves(a, x) for x in nodes(term)):
                    varying.append((factor, term))
                else:
                    same = same + term * factor
            found = self.parts[key] = (a.index, same, varying)
        return found[1:]

    def _owned(self, a: Access, varying: list[tuple[int, Any]]) -> _Owners:
        found = self.owners.get(id(a))
        if found is None:
            found = self.owners[id(a)] = (a, self._enumerate(a, varying))
        if found[1] is None:
            raise Unknown
        return found[1]

    def _enumerate(
        self, a: Access, varying: list[tuple[int, Any]], period: int = 0, shift: int = 0
    ) -> _Owners | None:
        """Who touches which elements (plus `shift`); with a period: elements 0 to period - 1."""
        used = {v for _, t in varying for v in self.seen.variables(t)}
        asked = {v for g in a.guards for v in self.seen.variables(g)}
        rank = 2 + len(a.loops)
        env: dict[E.Var, Any] = dict(a.known)
        env.update((v, ids.reshape(-1, *[1] * (rank - 1))) for v, ids in self.threads.items())
        mask: Any = True
        points = self.count * a.lanes
        try:
            for axis, (v, low, extent) in enumerate(a.loops, 1):
                if v not in used and v not in asked:
                    continue
                try:
                    counts, start = values_of(extent, env), values_of(low, env)
                except Unknown:
                    if v in used:
                        raise
                    continue
                most = int(np.max(counts, initial=0))
                if points * max(most, 1) > MOST_POINTS:
                    if v in used:
                        return None
                    continue
                points *= max(most, 1)
                steps = np.arange(most).reshape([-1 if i == axis else 1 for i in range(rank)])
                mask = np.logical_and(mask, steps < counts)
                env[v] = steps + start
            index: Any = np.zeros([1] * rank, np.int64)
            for factor, term in varying:
                index = index + factor * values_of(term, env)
        except Unknown:
            return None
        exact = True
        for guard in a.guards:
            try:
                mask = np.logical_and(mask, self._holds(a, guard, env))
            except Unknown:
                exact = False
            if not np.any(mask):
                break
        index = index + np.arange(a.lanes) * a.stride
        if period:
            index = (index + shift) % period
        found = self._collect(index, mask, period)
        return found if found is None else replace(found, exact=exact)

    def _holds(self, a: Access, guard: Any, env: Mapping[E.Var, Any]) -> Any:
        used = self.seen.variables(guard)
        if any(v in used for v, _, _ in a.loops):
            return values_of(guard, env)
        value = self.seen.value(guard, a.known)
        return value if np.ndim(value) == 0 else value.reshape(-1, *[1] * (len(a.loops) + 1))

    def _collect(self, index: Any, mask: Any, period: int) -> _Owners | None:
        shape = np.broadcast_shapes(
            index.shape, np.shape(mask), (self.count, *[1] * (index.ndim - 1))
        )
        elements = np.broadcast_to(index, shape).reshape(-1)
        ids = np.arange(self.count).reshape(-1, *[1] * (index.ndim - 1))
        owner = np.broadcast_to(ids, shape).reshape(-1)
        kept = np.broadcast_to(mask, shape).reshape(-1)
        if not kept.all():
            elements, owner = elements[kept], owner[kept]
        if not len(elements) and not period:
            return _Owners(0, np.empty(0, np.int64), np.empty(0, np.int64))
        first = 0 if period else int(elements.min())
        size = period or int(elements.max()) - first + 1
        if size > MOST_POINTS:
            return None
        low = np.full(size, self.count, np.int64)
        high = np.full(size, -1, np.int64)
        # of several values for one element NumPy keeps the last
        high[elements - first] = owner
        low[elements[::-1] - first] = owner[::-1]
        return _Owners(first, low, high)


def _clash(a: Access, b: Access, x: tuple[Any, Any], y: tuple[Any, Any]) -> bool:
    """Whether an element is touched by both accesses and not by one thread alone; `x` and `y`: the
    least and greatest thread of the same elements."""
    both = (x[0] <= x[1]) & (y[0] <= y[1])
    if a.late or b.late or a.together != b.together:
        return bool(np.any(both))
    one = (x[0] == x[1]) & (y[0] == y[1]) & (x[0] == y[0])
    return bool(np.any(both & ~one))
