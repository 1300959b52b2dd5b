"""Keep what a reduction loop accumulates in registers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ..arith.analyzer import Analyzer
from ..base.deep import Recursive
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.copies import strip_likely, walk_stmts
from ..loopir.effects import CallEffectKind, is_pure, side_effect
from ..loopir.expr import const, const_int
from ..loopir.iter import IterVar
from ..loopir.op import likely
from ..loopir.rewrite import OverStatements, Rewriter, handles
from ..loopir.visit import CHILDREN, uses_var, walk
from .options import LowerOptions

MAX_GROUPS = 64
_SMALL = 1024


def promote_accumulators(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Around a serial loop that reads and writes fixed elements of a buffer, keep these in a local
    buffer.

        for k in range(n): C[i] = C[i] + A[k]
        =>  if n > 0: acc = C[i]
            for k in range(n): acc = acc + A[k]
            if n > 0: C[i] = acc

    The elements (or vectors) must not depend on anything that changes in the loop, and no other
    access of the loop may overlap them. One of their stores must be certain to be made if the loop
    runs (and the loops and fixed conditions around the store hold, which are checked before and
    after the loop as above): else an element could be touched that does not exist or belongs to
    another thread. Predicates must not change in the loop. LLVM does the same where it can see all
    this itself; here it is certain.

    Needs flat buffers and simplified indices. Stands after unroll_loops, which makes the elements
    of a register tile distinct, and before eliminate_common. `simple_mode` leaves it out.
    """
    if options.simple_mode or not func.attrs.get("tir.noalias", True):
        return func
    return func.with_body(_Promoter(_Facts(func.body)).stmt(func.body))


class _Facts:
    """What the promotion needs to know of the function as a whole."""

    def __init__(self, body: S.Stmt) -> None:
        self.analyzer = Analyzer()
        self.local: set[E.Var] = set()  # data of small buffers, which become registers anyhow
        for s in walk_stmts(body):
            if type(s) is S.Allocate and (const_int(s.buffer.shape[0]) or _SMALL) < _SMALL:
                self.local.add(s.buffer.data)
        if self.local:
            self._drop_indexed(body)

    def _drop_indexed(self, body: S.Stmt) -> None:
        """Keep in `local` only what is always used at constant places: the rest stays memory."""
        local, table = self.local, CHILDREN
        stack: list[Any] = [body]
        while stack:
            x = stack.pop()
            kind = type(x)
            used = kind is E.BufferLoad or kind is S.BufferStore
            if used and x.buffer.data in local and const_int(_base(x.indices[-1])) is None:
                local.discard(x.buffer.data)
            stack.extend(table[kind](x))

    def key(self, *exprs: Any) -> Any:
        """Equal for expressions of equal structure."""
        uid = self.analyzer.context.space.uid
        return tuple([None if e is None else uid(e) for e in exprs])


Needs = frozenset[Any]  # keys of the conditions that must hold for an access to be made


class _Access:
    """One element or vector that a loop uses throughout."""

    __slots__ = ("buffer", "certain", "index", "lanes", "local", "needs", "predicate")

    def __init__(self, buffer: Buffer, index: Any, predicate: Any) -> None:
        self.buffer = buffer
        self.index = index
        self.predicate = predicate
        self.lanes = parse(index.dtype).lanes
        element = parse(buffer.dtype)
        self.local = Buffer((self.lanes,), element.text, f"{buffer.name}.acc", scope="local")
        self.needs: Needs | None = None  # what all its accesses need
        self.certain: list[Needs] = []  # what is enough for one of its stores

    def condition(self) -> Needs | None:
        """What is both needed by each access and enough for a store, if there is such a thing."""
        return next((c for c in self.certain if self.needs is not None and c <= self.needs), None)

    @property
    def slot(self) -> tuple[Any, ...]:
        zero = const(0)
        return (zero if self.lanes == 1 else E.Ramp(zero, const(1), self.lanes),)


class _Survey(Recursive):
    """All accesses of a loop to buffers it stores to, and what decides whether they are made."""

    recursive = ("_visit",)

    def __init__(self, loop: S.For, facts: _Facts) -> None:
        self.facts = facts
        self.varying: set[E.Var] = set()
        self.stored: set[E.Var] = set()
        self.loaded: set[E.Var] = set()
        self.rejected: set[E.Var] = set()
        self.groups: dict[E.Var, dict[Any, _Access]] = {}
        self.conditions: dict[Any, Any] = {}
        self.opaque = False
        for s in walk_stmts(loop):
            if type(s) is S.BufferStore:
                known = s.buffer.data in facts.local and const_int(_base(s.indices[-1])) is not None
                (self.rejected if known else self.stored).add(s.buffer.data)
        self.stored -= self.rejected
        if self.stored:
            self._visit(loop, frozenset(), True)

    def _visit(self, s: Any, needs: Needs, certain: bool) -> None:
        """`needs`: conditions around `s` in the loop; `certain`: these are all there are."""
        kind = type(s)
        if kind is S.For:
            self._exprs((s.min, s.extent), needs)
            if s.kind not in (S.ForKind.SERIAL, S.ForKind.UNROLLED):
                self.opaque = True
            size = const_int(s.extent)
            if size is None:
                needs, certain = self._with(s.extent > 0, needs, certain)
            self.varying.add(s.loop_var)
            self._visit(s.body, needs, certain and (size is None or size > 0))
        elif kind is S.IfThenElse:
            self._exprs((s.condition,), needs)
            condition = strip_likely(s.condition)
            self._visit(s.then_case, *self._with(condition, needs, certain))
            if s.else_case is not None:
                self._visit(s.else_case, needs, False)
        elif kind is S.BufferStore:
            self._access(s.buffer, s.indices, s.predicate, needs, certain)
            self._exprs(CHILDREN[kind](s), needs)
        elif kind is S.Evaluate:
            self.opaque = self.opaque or side_effect(s.value) > CallEffectKind.ReadState
            self._exprs((s.value,), needs)
        elif kind in (S.While, S.AssertStmt, S.Prefetch):
            self.opaque = True
        else:
            if kind is S.LetStmt:
                self.varying.add(s.var)
            elif kind is S.AttrStmt and isinstance(s.node, IterVar):
                self.varying.add(s.node.var)  # has its value inside this launch only
            elif kind is S.Allocate:
                self.rejected.add(s.buffer.data)
            for part in CHILDREN[kind](s):
                if isinstance(part, S.Stmt):
                    self._visit(part, needs, certain)
                else:
                    self._exprs((part,), needs)

    def _with(self, condition: Any, needs: Needs, certain: bool) -> tuple[Needs, bool]:
        """Needs and certainty under one more condition; one that changes is uncertain."""
        fixed = is_pure(condition) and not uses_var(condition, self.varying.__contains__)
        if not fixed:
            return needs, False
        key = self.facts.key(condition)
        self.conditions[key] = condition
        return needs | {key}, certain

    def _exprs(self, exprs: Any, needs: Needs) -> None:
        for e in exprs:
            for x in walk(e):
                kind = type(x)
                if kind is E.BufferLoad:
                    if x.buffer.data in self.stored:
                        self.loaded.add(x.buffer.data)
                        self._access(x.buffer, x.indices, x.predicate, needs, False)
                elif kind is E.Let:
                    self.varying.add(x.var)
                elif kind is E.Var and x.dtype == "handle":
                    self.rejected.add(x)

    def _access(self, b: Buffer, indices: Any, predicate: Any, needs: Needs, certain: bool) -> None:
        data = b.data
        if data in self.rejected:
            return
        if len(indices) != 1 or parse(b.dtype).lanes != 1:
            self.rejected.add(data)
            return
        groups = self.groups.setdefault(data, {})
        key = self.facts.key(indices[0], predicate)
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Access(b, indices[0], predicate)
            if len(groups) > MAX_GROUPS:
                self.rejected.add(data)
        group.needs = needs if group.needs is None else group.needs & needs
        if certain and needs not in group.certain:
            group.certain.append(needs)

    def promotable(self) -> list[_Access]:
        """The accesses that can be kept in local buffers over the loop."""
        if self.opaque:
            return []
        found: list[_Access] = []
        for data, by_key in self.groups.items():
            if data in self.rejected or data not in self.loaded:
                continue
            groups = list(by_key.values())
            fixed = all(self._fixed(g) and g.condition() is not None for g in groups)
            if fixed and _disjoint(groups, self.facts.analyzer):
                found.extend(groups)
        return found

    def _fixed(self, g: _Access) -> bool:
        for e in (g.index, g.predicate):
            if e is None:
                continue
            for x in walk(e):
                if isinstance(x, E.Var) and x in self.varying:
                    return False
                if type(x) is E.BufferLoad or type(x) is E.Call:
                    return False
        return True

    def guarded(self, g: _Access, s: S.Stmt) -> S.Stmt:
        """`s` where it is certain that the loop stores the element."""
        keys = g.condition() or ()
        for key in sorted(keys, key=list(self.conditions).index, reverse=True):
            s = S.IfThenElse(likely(self.conditions[key]), s)
        return s


def _base(index: Any) -> Any:
    return index.base if type(index) is E.Ramp else index


def _disjoint(groups: list[_Access], analyzer: Analyzer) -> bool:
    """Whether no two of the elements or vectors can overlap."""
    if len(groups) == 1:
        index = groups[0].index
        return groups[0].lanes == 1 or type(index) is E.Ramp
    first = _base(groups[0].index)
    spans = []
    for g in groups:
        if g.lanes > 1 and not (type(g.index) is E.Ramp and const_int(g.index.stride) == 1):
            return False
        gap = const_int(analyzer.simplify(_base(g.index) - first))
        if gap is None:
            return False
        spans.append((gap, gap + g.lanes))
    spans.sort()
    return all(a[1] <= b[0] for a, b in pairwise(spans))


class _Promoter(OverStatements):
    def __init__(self, facts: _Facts) -> None:
        self.facts = facts

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        if s.kind not in (S.ForKind.SERIAL, S.ForKind.UNROLLED):
            return s.with_parts(body=self.stmt(s.body))
        survey = _Survey(s, self.facts)
        found = survey.promotable()
        loop = s if not found else _UseLocals(found, self.facts).stmt(s)
        loop = loop.with_parts(body=self.stmt(loop.body))
        if not found:
            return loop
        before, after = [], []
        for g in found:
            value = E.BufferLoad(g.buffer, (g.index,), g.predicate)
            before.append(survey.guarded(g, S.BufferStore(g.local, value, g.slot)))
            kept = E.BufferLoad(g.local, g.slot)
            store = S.BufferStore(g.buffer, kept, (g.index,), g.predicate)
            after.append(survey.guarded(g, store))
        result = S.seq(before, loop, after)
        for g in reversed(found):
            result = S.Allocate(g.local, result)
        return result


class _UseLocals(Rewriter):
    def __init__(self, found: list[_Access], facts: _Facts) -> None:
        self.facts = facts
        self.by_key = {(g.buffer.data, facts.key(g.index, g.predicate)): g for g in found}
        self.data = {g.buffer.data for g in found}

    def _find(self, b: Buffer, indices: Any, predicate: Any) -> _Access | None:
        if b.data not in self.data:
            return None
        return self.by_key.get((b.data, self.facts.key(indices[0], predicate)))

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        g = self._find(e.buffer, e.indices, e.predicate)
        return super()._load(e) if g is None else E.BufferLoad(g.local, g.slot)

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        g = self._find(s.buffer, s.indices, s.predicate)
        if g is None:
            return super()._store(s)
        return S.BufferStore(g.local, self.expr(s.value), g.slot)
