"""Barriers between threads of a block that share memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..arith.analyzer import Analyzer
from ..base.deep import Recursive
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.calls import storage_sync
from ..loopir.expr import const, const_int
from ..loopir.hopper_calls import ptx_fence_proxy_async
from ..loopir.iter import Range
from ..loopir.rewrite import Rewriter, handles
from ..loopir.subst import substitute
from ..loopir.visit import nodes
from .spread_conditions import Spreader, Uniformity
from .statement_accesses import ASYNC_SCOPES, StatementAccesses, is_barrier
from .thread_accesses import Access, Conflicts
from .unify_threads import is_launch

FENCE = ptx_fence_proxy_async()
_FAR = 1 << 20  # bounds beyond it are none


def sync_threads(func: S.PrimFunc) -> S.PrimFunc:
    """Put a barrier wherever a thread may read or write what another one of its block has
    written or read since the last barrier, and nowhere else.

    Two accesses of shared memory need a barrier between them unless they are of different
    elements or by the same thread, which is decided for each pair exactly where indices allow
    (thread_accesses). So do accesses of an array on the device that the kernel writes and reads,
    within a block: nothing orders blocks. A barrier stands as late as it can in its sequence;
    before a loop rather than in it, unless iterations need it of each other; never where some
    threads of a block could miss it: a condition that differs between threads moves into the parts
    around the barrier, and where that is impossible the program is refused with CompileError.
    Where products of warp groups read what threads have stored, each barrier, of those that were
    there too, stands behind a fence that lets them see it; a program that has such fences puts them
    where it wants them before barriers of its own.

    Needs unify_threads. Guarantees that all threads of a block reach every barrier. Stands after
    all that moves or repeats accesses, and before what splits kernels off.
    """
    return func.with_body(_Kernels(func.name).stmt(func.body))


class _Kernels(Rewriter):
    def __init__(self, name: str) -> None:
        self.name = name
        self.late = False  # whether what asks for late copies stands around the kernel

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if not is_launch(s):
            late, self.late = self.late, self.late or s.attr_key in ASYNC_SCOPES
            outside = super()._attr(s)
            self.late = late
            return outside
        axes = []
        inner: Any = s
        while is_launch(inner):
            axes.append((inner.node, inner.value))
            inner = inner.body
        in_block = sorted((x for x in axes if _in_block(x[0])), key=lambda x: x[0].thread_tag)
        threads = [(a.var, n) for a, n in in_block]
        blocks = {a.var: (0, n.value) for a, n in axes if isinstance(n, E.IntImm)}
        if self.late:
            synced: Any = S.AttrStmt(const(0), ASYNC_SCOPES[0], 1, inner)
            synced = sync_kernel(synced, threads, blocks, self.name)
            body = synced.body
        else:
            body = sync_kernel(inner, threads, blocks, self.name)
        if body is inner:
            return s
        for axis, extent in reversed(axes):
            body = S.AttrStmt(axis, "thread_extent", extent, body)
        return body


def _in_block(axis: Any) -> bool:
    return bool(axis.thread_tag.startswith("threadIdx"))


def sync_kernel(
    body: S.Stmt,
    threads: Sequence[tuple[E.Var, Any]],
    ranges: dict[E.Var, tuple[int, int]],
    name: str,
) -> S.Stmt:
    """The body of one kernel with its barriers. `threads`: variables and extents of the block;
    `ranges`: least value and number of values of block indices, where they are known."""
    waits = any(type(s) is S.AttrStmt and s.attr_key in ASYNC_SCOPES for s in nodes(body))
    if all(const_int(n) == 1 for _, n in threads) and not waits:
        return body
    _add_loops(body, threads, ranges)
    return _Sync(body, threads, ranges, name).flow(body, []).stmt


def _add_loops(
    body: S.Stmt, threads: Sequence[tuple[E.Var, Any]], ranges: dict[E.Var, tuple[int, int]]
) -> None:
    """Add what values the variables of loops have, where they are bounded by constants."""
    analyzer = Analyzer()
    for v, (low, extent) in ranges.items():
        analyzer.bind(v, Range.from_min_extent(low, extent))
    for v, n in threads:
        if const_int(n) is not None:
            analyzer.bind(v, Range(0, n))
    for s in nodes(body):
        if type(s) is not S.For or s.loop_var in ranges:
            continue
        first = analyzer.const_int_bound(s.min)
        last = analyzer.const_int_bound(s.min + s.extent - 1)
        low, extent = first.min_value, last.max_value - first.min_value + 1
        if max(abs(low), abs(extent)) < _FAR:
            ranges[s.loop_var] = (low, max(extent, 0))
            analyzer.bind(s.loop_var, Range.from_min_extent(*ranges[s.loop_var]))


class Flow(NamedTuple):
    """A statement with its barriers, and what is open at its ends.

    `head`: accesses that may happen before its first barrier; `tail`: those that may happen after
    its last one; `through`: whether it may pass without a barrier; `barrier`: whether it has one.
    """

    stmt: S.Stmt
    head: list[Access]
    tail: list[Access]
    through: bool = True
    barrier: bool = False


class _Sync(Recursive):
    recursive = ("flow",)

    def __init__(
        self,
        body: S.Stmt,
        threads: Sequence[tuple[E.Var, Any]],
        ranges: dict[E.Var, tuple[int, int]],
        name: str,
    ) -> None:
        self.conflicts = Conflicts(threads, ranges)
        self.accesses = StatementAccesses(body, threads)
        self.uniform = Uniformity(body, threads)
        self.spreader = Spreader(self.uniform, name, lambda s: self.alone(s).barrier)
        # whether the program has some of its own
        self.fences = any(type(x) is E.Call and x.op.name == FENCE.op.name for x in nodes(body))
        self.guards: list[Any] = []
        self.made: dict[tuple[int, bool], tuple[Any, Any]] = {}
        self.befores: dict[S.For, E.Var] = {}
        self.put_in: dict[tuple[int, int, str], tuple[Any, Any]] = {}
        self.others: dict[tuple[int, int, str], tuple[Access, S.For, Access]] = {}

    def alone(self, s: S.Stmt) -> Flow:
        return self.flow(s, [])

    def clash(self, before: Sequence[Access], after: Sequence[Access]) -> bool:
        between = self.conflicts.between
        return any(between(a, b) for b in after for a in before)

    # -- statements

    def flow(self, s: Any, pending: list[Access]) -> Flow:
        """`s` after accesses `pending`, which no barrier has separated from it yet."""
        kind = type(s)
        if kind is S.SeqStmt:
            return self.sequence(s, pending)
        if kind in (S.AttrStmt, S.Allocate, S.LetStmt, S.AssertStmt):
            return self.wrapper(s, pending)
        if not self.accesses.touches(s):
            return Flow(s, [], [])
        if is_barrier(s):
            return Flow(s if self.fences else self.fenced(s), [], [], False, True)
        if kind is S.IfThenElse:
            found = self.branch(s, pending)
        elif kind is S.For:
            found = self.loop(s, pending)
        elif kind is S.While:
            found = self.repeat(s)
        else:
            own = self.accesses.of(s, tuple(self.guards))
            found = Flow(s, own, own)
        if pending and self.clash(pending, found.head):
            stmt = S.seq(self.barrier(pending, found.head), found.stmt)
            return Flow(stmt, [], found.tail, False, True)
        return found

    def barrier(self, before: Sequence[Access], after: Sequence[Access]) -> S.Stmt:
        """A barrier for accesses that clash; one that orders accesses of arrays on the device as
        well has a second argument (OpenCL tells the two apart)."""
        sync = storage_sync("shared")
        if self.clash([a for a in before if not a.shared], after):
            sync = E.Call(sync.dtype, sync.op, (*sync.args, E.StringImm("global")))
        return self.fenced(S.Evaluate(sync))

    def fenced(self, barrier: S.Stmt) -> S.Stmt:
        return S.seq(S.Evaluate(FENCE), barrier) if self.accesses.multiplied else barrier

    def sequence(self, s: S.SeqStmt, pending: list[Access]) -> Flow:
        head: list[Access] = []
        tail: list[Access] = []
        through, barrier = True, False
        parts = []
        for part in s.seq:
            found = self.flow(part, [*pending, *tail] if through else tail)
            parts.append(found.stmt)
            barrier = barrier or found.barrier
            if through:
                head = _joined(head, found.head)
            tail = _joined(tail, found.tail) if found.through else found.tail
            through = through and found.through
        same = all(a is b for a, b in zip(parts, s.seq))
        return Flow(s if same else S.seq(parts), head, tail, through, barrier)

    def wrapper(self, s: Any, pending: list[Access]) -> Flow:
        own = self.accesses.of_values(s, tuple(self.guards))
        wait = bool(pending) and self.clash(pending, own)
        found = self.flow(s.body, own if wait else [*pending, *own])
        stmt = s.with_parts(body=found.stmt)
        tail = [*own, *found.tail] if found.through else found.tail
        if wait:
            sync = self.barrier(pending, own)
            return Flow(S.seq(sync, stmt), [], tail, False, True)
        return Flow(stmt, [*own, *found.head], tail, found.through, found.barrier)

    def branch(self, s: S.IfThenElse, pending: list[Access]) -> Flow:
        own = self.accesses.of_values(s, tuple(self.guards))
        sides = [self.side(s.condition, s.then_case)]
        if s.else_case is not None:
            sides.append(self.side(s.condition, s.else_case, False))
        if any(f.barrier for f in sides) and not self.uniform(s.condition):
            return self.flow(self.spreader.spread(s), [])
        stmt = s
        if sides[0].stmt is not s.then_case or (
            len(sides) > 1 and sides[1].stmt is not s.else_case
        ):
            stmt = S.IfThenElse(s.condition, sides[0].stmt, sides[1].stmt if sides[1:] else None)
        head = [*own, *(a for f in sides for a in f.head)]
        through = len(sides) < 2 or any(f.through for f in sides)
        tail = [*(own if through else ()), *(a for f in sides for a in f.tail)]
        return Flow(stmt, head, tail, through, any(f.barrier for f in sides))

    def side(self, condition: Any, body: S.Stmt, holds: bool = True) -> Flow:
        self.guards.append(self.guard(condition, holds))
        found = self.flow(body, [])
        self.guards.pop()
        return found

    def guard(self, condition: Any, holds: bool = True) -> Any:
        """A condition (or that it does not hold) without lets, always the same object."""
        key = (id(condition), holds)
        known = self.made.get(key)
        if known is None:
            inline = self.accesses.inline(condition)
            known = self.made[key] = (condition, inline if holds else E.Not(inline))
        return known[1]

    def repeat(self, s: S.While) -> Flow:
        own = self.accesses.of_values(s, tuple(self.guards))
        found = self.rounds(s.body, lambda a: a)
        if found.barrier:
            self.spreader.require_uniform(s.condition, "the condition of a while loop")
        stmt = s.with_parts(body=found.stmt)
        return Flow(stmt, [*own, *found.head], [*own, *found.tail], True, found.barrier)

    def loop(self, s: S.For, pending: list[Access]) -> Flow:
        extent = const_int(s.extent)
        own = self.accesses.of_values(s, tuple(self.guards))
        if extent is None or const_int(s.min) is None:
            self.guards.append(self.runs(s))
            found = self.iterations(s, extent)
            self.guards.pop()
        else:
            found = self.iterations(s, extent)
        if found.barrier and not self.uniform.loop(s):
            return self.flow(self.spreader.even_loop(s), [])
        head, tail = found.head, found.tail
        if found.through:
            head, tail = ([self.all_iterations(a, s) for a in x] for x in (head, tail))
        else:
            last = const(1, s.loop_var.dtype)
            head = [self.moved(a, s, "first", s.min) for a in head]
            tail = [self.moved(a, s, "last", s.min + s.extent - last) for a in tail]
        through = found.through or extent is None or extent < 1
        stmt = s.with_parts(body=found.stmt)
        return Flow(stmt, [*own, *head], [*own, *tail], through, found.barrier)

    def runs(self, s: S.For) -> Any:
        """That a loop's variable is within its bounds, always the same object."""
        known = self.made.get((id(s), True))
        if known is None:
            runs = E.And(E.GE(s.loop_var, s.min), E.LT(s.loop_var, s.min + s.extent))
            known = self.made[id(s), True] = (s, self.accesses.inline(runs))
        return known[1]

    def iterations(self, s: S.For, extent: int | None) -> Flow:
        """The body of a loop with the barriers that iterations need of each other."""
        var, last = s.loop_var, const(1, s.loop_var.dtype)
        if extent == 1:
            found = self.alone(s.body)
        else:
            # all that is open at the end of an iteration with a barrier, the next one meets
            found = self.rounds(s.body, lambda a: self.moved(a, s, "before", var - last))
            if found.through and self.clash(
                [self.earlier(a, s) for a in found.tail],
                [self.all_iterations(a, s) for a in found.head],
            ):
                found = self.rounds(s.body, lambda a: self.earlier(a, s))
        return found

    def rounds(self, body: S.Stmt, shift: Any) -> Flow:
        """The body of a loop, after what an earlier iteration has left open; `shift` makes an
        access that of the earlier iteration."""
        carried: list[Access] = []
        seen: set[int] = set()
        found = self.flow(body, [])
        while True:
            new = [a for a in found.tail if id(a) not in seen]
            seen.update(map(id, new))
            carried += map(shift, new)
            if not self.clash(carried, found.head):
                return found
            found = self.flow(body, carried)

    def moved(self, a: Access, s: S.For, which: str, value: Any) -> Access:
        """The access in another iteration of a loop around it."""
        key = (id(a), id(s), which)
        found = self.others.get(key)
        if found is None:
            other = a.at(self.putting(s, which, value))
            if which == "before":
                there = E.GT(s.loop_var, self.accesses.inline(s.min))
                other = replace(other, guards=(*other.guards, there))
            found = self.others[key] = (a, s, other)
        return found[2]

    def putting(self, s: S.For, which: str, value: Any) -> Callable[[Any], Any]:
        """Puts `value`, always the same of that name, in the place of a loop's variable: accesses
        share the long conditions around them."""
        values = {s.loop_var: self.accesses.inline(value)}

        def put(e: Any) -> Any:
            key = (id(e), id(s), which)
            found = self.put_in.get(key)
            if found is None:
                found = self.put_in[key] = (e, substitute(e, values))
            return found[1]

        return put

    def all_iterations(self, a: Access, s: S.For) -> Access:
        key = (id(a), id(s), "all")
        found = self.others.get(key)
        if found is None:
            low, extent = self.accesses.inline(s.min), self.accesses.inline(s.extent)
            found = self.others[key] = (a, s, a.with_loop(s.loop_var, low, extent))
        return found[2]

    def earlier(self, a: Access, s: S.For) -> Access:
        """The access in any iteration before the present one."""
        key = (id(a), id(s), "earlier")
        found = self.others.get(key)
        if found is None:
            other = self.befores.get(s)
            if other is None:
                other = self.befores[s] = E.Var(f"{s.loop_var.name}_before", s.loop_var.dtype)
            low, extent = self.accesses.inline(s.min), self.accesses.inline(s.extent)
            if a.late:  # clashes with its own thread's copies: those of this iteration do not count
                one = const(1, other.dtype)
                moved = a.at(self.putting(s, "ago", s.loop_var - other))
                there = E.GE(s.loop_var - other, low)
                moved = replace(moved, guards=(*moved.guards, there))
                moved = moved.with_loop(other, one, extent - one)
            else:
                moved = a.at(self.putting(s, "earlier", other)).with_loop(other, low, extent)
            found = self.others[key] = (a, s, moved)
        return found[2]


def _joined(a: list[Access], b: list[Access]) -> list[Access]:
    """All of both, each once."""
    return list(dict.fromkeys([*a, *b])) if b else a
