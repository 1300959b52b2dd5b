"""Take guards out of hot loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..arith.deduce import deduce_bound
from ..arith.int_set import eval_set
from ..arith.same import same_expr
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.effects import is_pure
from ..loopir.expr import const, const_int
from ..loopir.iter import Range
from ..loopir.op import max as max_of
from ..loopir.op import min as min_of
from ..loopir.operators import logical_and
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import CHILDREN, walk
from .bounded import THREAD_KEYS, BoundedRewriter
from .copies import conjuncts, fold_pair, fresh_copy, is_likely, strip_likely
from .options import LowerOptions

MAX_GROWTH = 512
HINT = "pragma_loop_partition_hint"


def partition_loops(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Split loops where their `likely` guards stop to hold, so that the main part has none.

    A serial loop becomes up to three: steps before the guards hold, the main part without them, and
    the rest. A parallel loop or a block index stays one, with a branch in its body. A guard that
    has no limit in the loop's variable (a fused axis) is checked for a whole step of the loop at
    once. A loop whose body is one guard on its own variable is cut short instead; a vectorised or
    unrolled one only where its new extent is constant.

    In a rest whose number of steps is symbolic, loops are cut short, but not split again: it runs
    once at most, and what it would be split at is no longer simple. Loops of constant extent are
    split where a guard leaves an inner loop or an innermost body; `partition_const_loop` and
    AttrStmt "pragma_loop_partition_hint" split also for less. Code grows by at most 512 statements.

    Needs flat, simplified code with conditions hoisted. Guarantees nothing: what stays guarded is
    right. Stands before vectorize_loops: the main part becomes plain vector code, the rest
    predicated.
    """
    if options.simple_mode:
        return func
    if not any(type(x) is S.IfThenElse and is_likely(x.condition) for x in walk(func.body)):
        return func
    return func.with_body(_Partitioner(func, options).stmt(func.body))


class _Guard:
    """A guard below some loop, with the ranges of the variables between the two."""

    __slots__ = ("innermost", "relaxed", "stmt")

    def __init__(self, stmt: S.IfThenElse, relaxed: dict[E.Var, Range], innermost: bool) -> None:
        self.stmt = stmt
        self.relaxed = relaxed
        self.innermost = innermost

    @property
    def condition(self) -> Any:
        return strip_likely(self.stmt.condition)


def find_guards(body: S.Stmt, var: E.Var) -> list[_Guard]:
    """Guards in `body` that depend on `var`, and can be solved from outside."""
    found: list[_Guard] = []
    hidden: set[E.Var] = set()

    def visit(s: Any, relaxed: dict[E.Var, Range]) -> None:
        kind = type(s)
        if kind is S.For:
            visit(s.body, {**relaxed, s.loop_var: Range.from_min_extent(s.min, s.extent)})
        elif kind is S.AttrStmt and s.attr_key in THREAD_KEYS:
            visit(s.body, {**relaxed, s.node.var: Range(s.value)})
        elif kind is S.LetStmt:
            hidden.add(s.var)
            visit(s.body, relaxed)
        else:
            if kind is S.IfThenElse and is_likely(s.condition) and is_pure(s.condition):
                names = {x for x in walk(s.condition) if isinstance(x, E.Var)}
                if var in names and hidden.isdisjoint(names):
                    simple = not any(type(x) is S.For for x in walk(s.then_case))
                    used = {v: r for v, r in relaxed.items() if v in names}
                    found.append(_Guard(s, used, simple or bool(relaxed)))
            for part in CHILDREN[kind](s):
                if isinstance(part, S.Stmt):
                    visit(part, relaxed)

    visit(body, {})
    return found


class _Partitioner(BoundedRewriter):
    def __init__(self, func: S.PrimFunc, options: LowerOptions) -> None:
        super().__init__(func)
        self.eager = options.partition_const_loop
        self.ranges: dict[E.Var, Range] = {}
        self.grown = 0
        self.in_rest = False

    @handles(S.BufferStore, S.Evaluate)
    def _leaf_stmt(self, s: Any) -> Any:
        return s

    def expr(self, e: Any) -> Any:
        return e

    # -- the statements that own a variable

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key == HINT:
            kept, self.eager = self.eager, True
            body = self.stmt(s.body)
            self.eager = kept
            return body
        if s.attr_key == "thread_extent" and s.node.thread_tag.startswith("blockIdx"):
            var: E.Var = s.node.var
            self._bind(var, const(0, s.value.dtype), s.value)
            guards = self._worth(find_guards(s.body, var))
            return S.AttrStmt(s.node, s.attr_key, s.value, self._branch(var, s.body, guards))
        return super()._attr(s)

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        cut = self._cut_short(s)
        if cut is not s:
            return self.stmt(cut)
        self._bind(s.loop_var, s.min, s.extent)
        fixed = s.kind == S.ForKind.VECTORIZED or s.kind == S.ForKind.UNROLLED
        if fixed or self.in_rest:
            return s.with_body(self.stmt(s.body))
        guards = self._worth(find_guards(s.body, s.loop_var))
        if s.kind != S.ForKind.SERIAL:
            return s.with_body(self._branch(s.loop_var, s.body, guards))
        return self._split(s, guards)

    def _bind(self, var: E.Var, low: Any, extent: Any) -> None:
        self.ranges[var] = Range.from_min_extent(low, extent)
        self.analyzer.bind(var, self.ranges[var])

    def _worth(self, guards: list[_Guard]) -> list[_Guard]:
        """The guards, if copies of the body for their sake pay."""
        if self.eager or any(g.innermost for g in guards):
            return guards
        return []

    # -- cutting a loop short

    def _cut_short(self, s: S.For) -> S.For:
        body = s.body
        if type(body) is not S.IfThenElse or body.else_case is not None:
            return s
        condition = strip_likely(body.condition)
        own = s.loop_var
        if not is_pure(condition) or not any(x is own for x in walk(condition)):
            return s
        limits = _limits(own, condition, self.ranges, {})
        if limits is None:
            return s
        low, high = limits
        simplify = self.analyzer.simplify
        start, end = s.min, fold_pair(E.Add, s.min, s.extent)
        if low is not None:
            start = max_of(start, low)
        if high is not None:
            end = min_of(end, high + 1)
        start = simplify(start)
        extent = simplify(end - start)
        fixed = s.kind not in (S.ForKind.SERIAL, S.ForKind.PARALLEL)
        if fixed and const_int(extent) is None:
            return s
        return S.For(own, start, extent, s.kind, body.then_case, None, s.annotations)

    # -- splitting a loop

    def _split(self, s: S.For, guards: list[_Guard]) -> S.Stmt:
        var, end = s.loop_var, fold_pair(E.Add, s.min, s.extent)
        low, high, solved = self._main_range(s, guards)
        rest = [g for g in guards if g not in solved]
        if not solved or not self._afford(s.body, (low is not None) + (high is not None)):
            return s.with_body(self._branch(var, s.body, rest))
        simplify = self.analyzer.simplify
        start = s.min if low is None else simplify(min_of(max_of(low, s.min), end))
        stop = end if high is None else simplify(max_of(min_of(high + 1, end), start))
        main_body = _without(s.body, solved)
        parts = []
        if low is not None:
            parts.append(self._part(s, s.min, start))
        main_extent = simplify(stop - start)
        main = S.For(var, start, main_extent, s.kind, main_body, None, s.annotations)
        self._bind(var, start, main_extent)
        rest = [g for g in find_guards(main_body, var) if any(g.stmt is r.stmt for r in rest)]
        parts.append(main.with_body(self._branch(var, main_body, rest)))
        if high is not None:
            parts.append(self._part(s, stop, end))
        return S.seq(parts)

    def _main_range(self, s: S.For, guards: list[_Guard]) -> tuple[Any, Any, list[_Guard]]:
        """Limits in which the solvable guards hold (None: no limit within the loop), and those."""
        low: Any = None
        high: Any = None
        solved: list[_Guard] = []
        first, last = s.min, fold_pair(E.Add, s.min, s.extent) - 1
        prove = self.analyzer.can_prove
        for g in guards:
            limits = _limits(s.loop_var, g.condition, self.ranges, g.relaxed)
            if limits is None:
                continue
            below, above = limits
            if below is not None and prove(below <= first):
                below = None
            if above is not None and prove(above >= last):
                above = None
            none_left = (below is not None and prove(below > last)) or (
                above is not None and prove(above < first)
            )
            if none_left:
                continue
            solved.append(g)
            if below is not None:
                low = below if low is None else max_of(low, below)
            if above is not None:
                high = above if high is None else min_of(high, above)
        return low, high, solved

    def _part(self, s: S.For, start: Any, end: Any) -> S.Stmt:
        """The steps of a loop from start to end (excluded), in which guards stay."""
        extent = _rounded_rest(start, end)
        if extent is None:
            extent = self.analyzer.simplify(end - start)
        size = const_int(extent)
        if size is not None and size <= 0:
            return S.no_op()
        if size == 1:
            copy = fresh_copy(s.body, {s.loop_var: start})
            result: S.Stmt = self.stmt(copy)
            return result
        var = E.Var(s.loop_var.name, s.loop_var.dtype)
        self._bind(var, const(0, var.dtype), extent)
        kept, self.in_rest = self.in_rest, True
        body = self.stmt(fresh_copy(s.body, {s.loop_var: fold_pair(E.Add, start, var)}))
        self.in_rest = kept
        return S.For(var, const(0, var.dtype), extent, s.kind, body, None, s.annotations)

    # -- a branch in the body

    def _branch(self, var: E.Var, body: S.Stmt, guards: list[_Guard]) -> S.Stmt:
        """`body`, or `if no guard can fail in this step: body without guards; else: body`."""
        checks: dict[str, Any] = {}
        solved: list[_Guard] = []
        for g in guards:
            check = self._step_condition(var, g) if g.relaxed or self.eager else None
            if check is not None:
                solved.append(g)
                if not self.analyzer.can_prove(check):
                    checks.setdefault(str(check), check)
        result: S.Stmt
        if not solved or (checks and not self._afford(body, 1)):
            result = self.stmt(body)
            return result
        main = _without(body, solved)
        if not checks:
            result = self.stmt(main)
            return result
        condition: Any = None
        for check in checks.values():
            condition = check if condition is None else logical_and(condition, check)
        own = self.ranges[var]
        with self.analyzer.enter_constraint(condition):
            main = self.stmt(main)
        self._bind(var, own.min, own.extent)
        return S.IfThenElse(condition, main, self._other_steps(var, body, condition))

    def _other_steps(self, var: E.Var, body: S.Stmt, condition: Any) -> S.Stmt:
        """The body with its guards, where `condition` does not hold."""
        own = self.ranges[var]
        values: dict[E.Var, Any] = {}
        if type(condition) is E.LT and condition.a is var:
            start = self.analyzer.simplify(condition.b)
            end = fold_pair(E.Add, own.min, own.extent)
            extent = self.analyzer.simplify(end - start)
            if const_int(extent) == 1 and self.analyzer.can_prove(start >= own.min):
                values[var] = start
        result: S.Stmt = self.stmt(fresh_copy(body, values))
        return result

    def _step_condition(self, var: E.Var, g: _Guard) -> Any:
        """A condition on `var` under which a guard holds throughout one step; None for none."""
        limits = _limits(var, g.condition, self.ranges, g.relaxed)
        if limits is not None:
            low, high = limits
            check: Any = const(1, "bool")
            if low is not None:
                check = logical_and(check, var >= low)
            if high is not None:
                check = logical_and(check, var < self.analyzer.simplify(high + 1))
            return check
        check = const(1, "bool")
        for part in conjuncts(g.condition):
            gap = _gap(part)
            if gap is None:
                return None
            low = eval_set(gap, g.relaxed, self.analyzer).min_value
            if not isinstance(low, E.PrimExpr) or _uses(low, g.relaxed) or not is_pure(low):
                return None
            check = logical_and(check, self.analyzer.simplify(low >= 0))
        return None if _never(check) else check

    def _afford(self, body: S.Stmt, copies: int) -> bool:
        """Whether `copies` more of `body` fit in the limit of growth; counts them if so."""
        size = copies * statement_count(body)
        if self.grown + size > MAX_GROWTH:
            return False
        self.grown += size
        return True


def statement_count(s: S.Stmt) -> int:
    """Stores and evaluations below a statement, each step of an unrolled loop counted."""
    total = 0
    stack: list[tuple[Any, int]] = [(s, 1)]
    while stack:
        x, times = stack.pop()
        if isinstance(x, (S.BufferStore, S.Evaluate)):
            total += times
            continue
        if type(x) is S.For and x.kind == S.ForKind.UNROLLED:
            times *= max(1, const_int(x.extent) or 1)
        stack.extend((c, times) for c in CHILDREN[type(x)](x) if isinstance(c, S.Stmt))
    return total


def _rounded_rest(start: Any, end: Any) -> Any:
    """(x % d + c) // d for the steps from x // d to (x + c) // d: the rest of a rounded-up loop."""
    if type(start) is not E.FloorDiv or type(end) is not E.FloorDiv or type(end.a) is not E.Add:
        return None
    width, more = const_int(end.b), const_int(end.a.b)
    if not width or not more or const_int(start.b) != width or not same_expr(start.a, end.a.a):
        return None
    return E.FloorDiv(E.FloorMod(start.a, end.b) + more, end.b)


def _limits(
    var: E.Var, condition: Any, ranges: Mapping[E.Var, Range], relaxed: Mapping[E.Var, Range]
) -> tuple[Any, Any] | None:
    """First and last value of `var` for which `condition` holds for all relaxed values; None where
    that is not known."""
    names = {x for x in walk(condition) if isinstance(x, E.Var)}
    hints = {v: r for v, r in ranges.items() if v in names and v is not var}
    found = deduce_bound(var, condition, {**hints, **relaxed}, relaxed)
    if found.is_nothing() or found.is_everything():
        return None
    low = found.min_value if found.has_lower_bound() else None
    high = found.max_value if found.has_upper_bound() else None
    for end in (low, high):
        if end is not None and (_uses(end, {**relaxed, var: None}) or not is_pure(end)):
            return None
    return low, high


def _uses(e: Any, variables: Mapping[E.Var, Any]) -> bool:
    return any(isinstance(x, E.Var) and x in variables for x in walk(e))


def _gap(part: Any) -> Any:
    """An expression that is zero or more just where a comparison holds."""
    kind = type(part)
    if kind not in (E.LT, E.LE, E.GT, E.GE) or part.a.dtype not in ("int32", "int64"):
        return None
    a, b = (part.a, part.b) if kind in (E.LT, E.LE) else (part.b, part.a)
    return b - a - 1 if kind in (E.LT, E.GT) else b - a


def _never(check: Any) -> bool:
    return type(check) is E.IntImm and not check.value


def _without(body: S.Stmt, guards: list[_Guard]) -> S.Stmt:
    """`body` with some guards taken as true."""
    result: S.Stmt = _DropGuards({id(g.stmt) for g in guards}).stmt(body)
    return result


class _DropGuards(Rewriter):
    def __init__(self, dropped: set[int]) -> None:
        self.dropped = dropped

    @handles(S.BufferStore, S.Evaluate)
    def _leaf_stmt(self, s: Any) -> Any:
        return s

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        return self.stmt(s.then_case) if id(s) in self.dropped else super()._if(s)
