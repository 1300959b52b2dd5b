"""Take guards out of hot loops."""

from __future__ import annotations

from typing import Any

from ..arith.int_set import eval_set
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.copies import conjuncts, fold_pair, fresh_copy, is_likely, strip_likely, walk_stmts
from ..loopir.effects import is_pure
from ..loopir.expr import const, const_int
from ..loopir.iter import Range
from ..loopir.op import max as max_of
from ..loopir.op import min as min_of
from ..loopir.operators import logical_and
from ..loopir.rewrite import OverStatements, handles
from ..loopir.visit import walk
from .bounded import BoundedRewriter
from .guards import (
    Guard,
    find_guards,
    gap_of,
    is_never,
    limits_of,
    rounded_rest,
    statement_count,
    uses_any,
)
from .idle_steps import first_busy, last_busy
from .options import LowerOptions
from .software_pipeline import STAGES

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
    once at most, and what it would be split at is no longer simple; without launches it ends where
    no guard holds any more. Loops of constant extent are
    split where a guard leaves an inner loop or an innermost body; `partition_const_loop` and
    AttrStmt "pragma_loop_partition_hint" split also for less. Code grows by at most 512 statements.

    Needs flat, simplified code with conditions hoisted. Guarantees nothing: what stays guarded is
    right. Pipelines are not copied for guards outside of their loops, which are asked once a
    thread. For OpenCL, blocks with barriers have no branches on their index: compilers that make
    loops of the threads of a block (PoCL 3.1) go wrong at barriers in branches. Stands before
    vectorize_loops: the main part becomes plain vector code, the rest predicated.
    """
    if options.simple_mode:
        return func
    if not any(type(x) is S.IfThenElse and is_likely(x.condition) for x in walk_stmts(func.body)):
        return func
    return func.with_body(_Partitioner(func, options).stmt(func.body))


class _Partitioner(OverStatements, BoundedRewriter):
    def __init__(self, func: S.PrimFunc, options: LowerOptions) -> None:
        super().__init__(func)
        self.eager = options.partition_const_loop
        target = options.target
        self.one_flow = target is not None and target.kind.name == "opencl"
        self.ranges: dict[E.Var, Range] = {}
        self.grown = 0
        self.in_rest = False
        self.launches = any(_is_launch(s) for s in walk_stmts(func.body))
        self.threads: dict[E.Var, Range] = {}  # those of a block, which leave a loop together
        self.blocks: list[tuple[E.Var, dict[E.Var, Range]]] = []

    # -- the statements that own a variable

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key == HINT:
            kept, self.eager = self.eager, True
            body = self.stmt(s.body)
            self.eager = kept
            return body
        if _is_launch(s):
            return self._launch(s)
        return super()._attr(s)

    def _launch(self, s: Any) -> S.Stmt:
        """Branches on block indices, inside of all launches that stand together."""
        launches: list[S.AttrStmt] = []
        while _is_launch(s):
            launches.append(s)
            self._bind(s.node.var, const(0, s.value.dtype), s.value)
            s = s.body
        known, blocks = self.threads, self.blocks
        axes = {x.node.var: Range(x.value) for x in launches}
        own = [x.node.var for x in launches if x.node.thread_tag.startswith("blockIdx")]
        self.threads = {**known, **{v: r for v, r in axes.items() if v not in own}}
        self.blocks = [(v, self._together(v, axes)) for v in own]
        body = self._step(s)
        self.threads, self.blocks = known, blocks
        for x in reversed(launches):
            self.ranges.pop(x.node.var, None)  # the next launch may be of more threads
            self.analyzer.forget(x.node.var)
            body = S.AttrStmt(x.node, x.attr_key, x.value, body)
        return body

    def _together(self, block: E.Var, axes: dict[E.Var, Range]) -> dict[E.Var, Range]:
        """The axes that go one way at a branch on a block index: those launched within it, and all
        threads of a block, wherever they are launched, for they share its memory."""
        names = list(axes)
        inner = {i: axes[i] for i in names[names.index(block) + 1 :]}
        return {**{v: r for v, r in self.threads.items() if v not in inner}, **inner}

    def _step(self, body: S.Stmt) -> S.Stmt:
        """What is left to do with the body of launches, or of one step of a loop."""
        result: S.Stmt
        if not self.blocks:
            result = self.stmt(body)
            return result
        blocks = self.blocks
        if self.one_flow and _may_wait(body):
            self.blocks = []
            result = self.stmt(body)
            self.blocks = blocks
            return result
        (var, inner), self.blocks = blocks[0], blocks[1:]
        guards = find_guards(body, var, inner)
        if not (inner or self.eager or any(g.innermost for g in guards)):
            guards = []
        if any(map(_is_pipeline, walk_stmts(body))):
            guards = [g for g in guards if g.repeated]
        result = self._branch(var, body, guards)
        self.blocks = blocks
        return result

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        s = self._without_idle(s)
        cut = self._cut_short(s)
        if cut is not s:
            return self.stmt(cut)
        self._bind(s.loop_var, s.min, s.extent)
        fixed = s.kind == S.ForKind.VECTORIZED or s.kind == S.ForKind.UNROLLED
        if fixed or self.in_rest:
            return s.with_parts(body=self.stmt(s.body))
        found = find_guards(s.body, s.loop_var, self.threads)
        guards = self._worth([g for g in found if self.threads or not g.ends])
        if s.kind != S.ForKind.SERIAL:
            return s.with_parts(body=self._branch(s.loop_var, s.body, guards))
        return self._split(s, guards)

    def _bind(self, var: E.Var, low: Any, extent: Any) -> None:
        self.ranges[var] = Range.from_min_extent(low, extent)
        self.analyzer.bind(var, self.ranges[var])

    def _worth(self, guards: list[Guard]) -> list[Guard]:
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
        if uses_any(condition, self.threads):
            return s  # threads of a block leave a loop together
        limits = limits_of(own, condition, self.ranges, {})
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

    def _without_idle(self, s: S.For) -> S.For:
        """A loop of constant extent without the steps at its ends in which nothing is done: those
        of a tile that lies beyond the edge."""
        start, size = const_int(s.min), const_int(s.extent)
        if s.kind != S.ForKind.SERIAL or start is None or size is None:
            return s
        own = s.loop_var
        limits = [end(s.body, own, self.analyzer, self.threads) for end in (first_busy, last_busy)]
        low, high = (None if x is None else const_int(x) for x in limits)
        first = start if low is None else max(start, low)
        last = start + size - 1 if high is None else min(start + size - 1, high)
        count = max(0, last - first + 1)
        if count == size:
            return s
        ends = (const(first, own.dtype), const(count, own.dtype))
        return S.For(own, *ends, s.kind, s.body, None, s.annotations)

    # -- splitting a loop

    def _split(self, s: S.For, guards: list[Guard]) -> S.Stmt:
        var, end = s.loop_var, fold_pair(E.Add, s.min, s.extent)
        low, high, solved = self._main_range(s, guards)
        rest = [g for g in guards if g not in solved]
        if not solved or not self._afford(s.body, (low is not None) + (high is not None)):
            return s.with_parts(body=self._branch(var, s.body, rest))
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
        left = find_guards(main_body, var, self.threads)
        rest = [g for g in left if any(g.stmt is r.stmt for r in rest)]
        parts.append(main.with_parts(body=self._branch(var, main_body, rest)))
        if high is not None:
            parts.append(self._part(s, stop, end))
        return S.seq(parts)

    def _main_range(self, s: S.For, guards: list[Guard]) -> tuple[Any, Any, list[Guard]]:
        """Limits in which the solvable guards hold (None: no limit within the loop), and those."""
        low: Any = None
        high: Any = None
        solved: list[Guard] = []
        first, last = s.min, fold_pair(E.Add, s.min, s.extent) - 1
        prove = self.analyzer.can_prove
        for g in guards:
            limits = limits_of(s.loop_var, g.condition, self.ranges, g.relaxed)
            if limits is None:
                continue
            below, above = limits
            if any(x is not None and x.dtype != s.loop_var.dtype for x in limits):
                continue  # a loop cannot be split at what its variable may not hold
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
        extent = rounded_rest(start, end)
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
        body = fresh_copy(s.body, {s.loop_var: fold_pair(E.Add, start, var)})
        if size is None:
            extent = self._busy_extent(var, extent, body)
        self._bind(var, const(0, var.dtype), extent)
        kept, self.in_rest = self.in_rest, True
        body = self.stmt(body)
        self.in_rest = kept
        return S.For(var, const(0, var.dtype), extent, s.kind, body, None, s.annotations)

    def _busy_extent(self, var: E.Var, extent: Any, body: S.Stmt) -> Any:
        """The steps of a part of a loop, or fewer, after which its body does nothing. The body's
        variables have to be new: what is known of those of another copy need not hold."""
        if self.launches:  # threads of a block leave a loop together
            return extent
        self._bind(var, const(0, var.dtype), extent)
        last = last_busy(body, var, self.analyzer)
        return extent if last is None else self.analyzer.simplify(min_of(extent, last + 1))

    # -- a branch in the body

    def _branch(self, var: E.Var, body: S.Stmt, guards: list[Guard]) -> S.Stmt:
        """`body`, or `if no guard can fail in this step: body without guards; else: body`."""
        checks: dict[str, Any] = {}
        solved: list[Guard] = []
        for g in guards:
            check = self._step_condition(var, g) if g.relaxed or self.eager else None
            if check is not None:
                solved.append(g)
                if not self.analyzer.can_prove(check):
                    checks.setdefault(str(check), check)
        result: S.Stmt
        if not solved or (checks and not self._afford(body, 1)):
            result = self._step(body)
            return result
        main = _without(body, solved)
        if not checks:
            result = self._step(main)
            return result
        condition: Any = None
        for check in checks.values():
            condition = check if condition is None else logical_and(condition, check)
        own = self.ranges[var]
        with self.analyzer.enter_constraint(condition):
            main = self._step(main)
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
        result: S.Stmt = self._step(fresh_copy(body, values))
        return result

    def _step_condition(self, var: E.Var, g: Guard) -> Any:
        """A condition on `var` under which a guard holds throughout one step; None for none."""
        limits = limits_of(var, g.condition, self.ranges, g.relaxed)
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
            gap = gap_of(part)
            if gap is None:
                return None
            low = eval_set(gap, g.relaxed, self.analyzer).min_value
            if not isinstance(low, E.PrimExpr) or uses_any(low, g.relaxed) or not is_pure(low):
                return None
            check = logical_and(check, self.analyzer.simplify(low >= 0))
        return None if is_never(check) else check

    def _afford(self, body: S.Stmt, copies: int) -> bool:
        """Whether `copies` more of `body` fit in the limit of growth; counts them if so."""
        size = copies * statement_count(body)
        if self.grown + size > MAX_GROWTH:
            return False
        self.grown += size
        return True


def _is_launch(s: S.Stmt) -> bool:
    return type(s) is S.AttrStmt and s.attr_key == "thread_extent"


def _is_pipeline(s: S.Stmt) -> bool:
    """Whether a statement is a loop of several stages, or brings barriers for such a one."""
    if type(s) is S.Evaluate:
        return type(s.value) is E.Call and s.value.op.name == "tir.create_barriers"
    return type(s) is S.AttrStmt and s.attr_key == STAGES


def _may_wait(body: S.Stmt) -> bool:
    """Whether threads of a block meet in `body`, or will once barriers are in place."""
    for s in walk_stmts(body):
        kind = type(s)
        if kind is S.Allocate and s.buffer.scope_name.startswith("shared"):
            return True
        if kind is S.AttrStmt and s.attr_key == "reduce_scope":
            return True
        call = s.value if kind is S.Evaluate else None
        if type(call) is E.Call and call.op.name == "tir.tvm_storage_sync":
            return True
    return False


def _without(body: S.Stmt, guards: list[Guard]) -> S.Stmt:
    """`body` with some guards taken as true."""
    result: S.Stmt = _DropGuards({id(g.stmt) for g in guards}).stmt(body)
    return result


class _DropGuards(OverStatements):
    def __init__(self, dropped: set[int]) -> None:
        self.dropped = dropped

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        return self.stmt(s.then_case) if id(s) in self.dropped else super()._if(s)
