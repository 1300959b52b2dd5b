"""Guards of loops: where they stand, and for which steps of a loop they hold.

Used by partition_loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..arith import detect_linear_equation
from ..arith.deduce import limits_where
from ..arith.int_set import eval_set
from ..arith.same import same_expr
from ..base.deep import recursive
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.copies import is_likely, strip_likely
from ..loopir.effects import is_pure
from ..loopir.expr import const, const_int
from ..loopir.iter import THREAD_KEYS, Range
from ..loopir.visit import CHILDREN, walk

LONG = 32
"""Steps of a loop that may take some less: copies for them are worth less than short code is."""


class Guard:
    """A guard below some loop, with the ranges of the variables between the two. `repeated`:
    whether a loop that is not written out stands between them. `ends`: whether it stands around
    the loops of a tile and is all that a long loop between them has in its body, which ends where
    it stops to hold."""

    __slots__ = ("ends", "innermost", "relaxed", "repeated", "stmt")

    def __init__(
        self,
        stmt: S.IfThenElse,
        relaxed: dict[E.Var, Range],
        innermost: bool,
        repeated: bool,
        ends: bool = False,
    ) -> None:
        self.ends = ends
        self.stmt = stmt
        self.relaxed = relaxed
        self.innermost = innermost
        self.repeated = repeated

    @property
    def condition(self) -> Any:
        return strip_likely(self.stmt.condition)


def find_guards(
    body: S.Stmt, var: E.Var, threads: Mapping[E.Var, Range] | None = None
) -> list[Guard]:
    """Guards in `body` that depend on `var`, and can be solved from outside.

    `threads`: variables from around `body` that run all the same, as those of a loop inside do.
    """
    found: list[Guard] = []
    hidden: set[E.Var] = set()
    ending: dict[int, E.Var] = {}

    @recursive
    def visit(s: Any, relaxed: dict[E.Var, Range], repeated: bool) -> None:
        kind = type(s)
        if kind is S.For:
            if s.kind == S.ForKind.SERIAL and (const_int(s.extent) or 0) >= LONG:
                ending[id(s.body)] = s.loop_var
            runs = range_of(s, relaxed, hidden)
            repeated = repeated or s.kind == S.ForKind.SERIAL
            if runs is None:
                hidden.add(s.loop_var)
                visit(s.body, relaxed, repeated)
            else:
                visit(s.body, {**relaxed, s.loop_var: runs}, repeated)
        elif kind is S.AttrStmt and s.attr_key in THREAD_KEYS:
            visit(s.body, {**relaxed, s.node.var: Range(s.value)}, repeated)
        elif kind is S.LetStmt:
            hidden.add(s.var)
            visit(s.body, relaxed, repeated)
        else:
            if kind is S.IfThenElse and is_likely(s.condition) and is_pure(s.condition):
                names = {x for x in walk(s.condition) if isinstance(x, E.Var)}
                if var in names and hidden.isdisjoint(names):
                    simple = not any(type(x) is S.For for x in walk(s.then_case))
                    used = {v: r for v, r in relaxed.items() if v in names}
                    inside = simple or len(relaxed) > len(threads or {})
                    ends = not simple and s.else_case is None and ending.get(id(s)) in used
                    found.append(Guard(s, used, inside, repeated, ends))
            for part in CHILDREN[kind](s):
                if isinstance(part, S.Stmt):
                    visit(part, relaxed, repeated)

    visit(body, dict(threads or {}), False)
    return found


def range_of(s: S.For, relaxed: Mapping[E.Var, Range], hidden: set[E.Var]) -> Range | None:
    """What a loop's variable runs over, whatever the values of relaxed ones; None if unknown."""
    used = {x for e in (s.min, s.extent) for x in walk(e) if isinstance(x, E.Var)}
    if not hidden.isdisjoint(used):
        return None
    moving = {v: r for v, r in relaxed.items() if v in used}
    if not moving:
        return Range.from_min_extent(s.min, s.extent)
    low = eval_set(s.min, moving).min_value
    high = eval_set(s.min + s.extent - 1, moving).max_value
    for end in (low, high):
        if not isinstance(end, E.PrimExpr) or uses_any(end, moving):
            return None
    return Range.from_min_extent(low, high - low + 1)


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


def rounded_rest(start: Any, end: Any) -> Any:
    """(x % d + c) // d for the steps from x // d to (x + c) // d: the rest of a rounded-up loop."""
    if type(start) is not E.FloorDiv or type(end) is not E.FloorDiv or type(end.a) is not E.Add:
        return None
    width, more = const_int(end.b), const_int(end.a.b)
    if not width or not more or const_int(start.b) != width or not same_expr(start.a, end.a.a):
        return None
    return E.FloorDiv(E.FloorMod(start.a, end.b) + more, end.b)


def limits_of(
    var: E.Var, condition: Any, ranges: Mapping[E.Var, Range], relaxed: Mapping[E.Var, Range]
) -> tuple[Any, Any] | None:
    """First and last value of `var` for which `condition` holds for all relaxed values; None where
    that is not known."""
    names = {x for x in walk(condition) if isinstance(x, E.Var)}
    hints = {v: r for v, r in ranges.items() if v in names and v is not var}
    found = limits_where(var, condition, {**hints, **relaxed}, relaxed)
    if found.is_nothing() or found.is_everything():
        return None
    low = found.min_value if found.has_lower_bound() else None
    high = found.max_value if found.has_upper_bound() else None
    for end in (low, high):
        if end is not None and (uses_any(end, {**relaxed, var: None}) or not is_pure(end)):
            return None
    return low, high


def ends_of(var: E.Var, gap: Any) -> tuple[Any, Any]:
    """First and last value of `var` for which `gap` is zero or more, exactly: at least one of them
    None, both where the gap is not so many times the variable and something else."""
    found = detect_linear_equation(gap, [var])
    step = const_int(found[0]) if len(found) == 2 else None
    if not step:
        return None, None
    rest = found[1]
    if step < 0:
        return None, E.FloorDiv(rest, const(-step, rest.dtype))
    return E.FloorDiv(const(step - 1, rest.dtype) - rest, const(step, rest.dtype)), None


def uses_any(e: Any, variables: Mapping[E.Var, Any]) -> bool:
    return any(isinstance(x, E.Var) and x in variables for x in walk(e))


def gap_of(part: Any) -> Any:
    """An expression that is zero or more just where a comparison holds."""
    kind = type(part)
    if kind not in (E.LT, E.LE, E.GT, E.GE) or part.a.dtype not in ("int32", "int64"):
        return None
    a, b = (part.a, part.b) if kind in (E.LT, E.LE) else (part.b, part.a)
    return b - a - 1 if kind in (E.LT, E.GT) else b - a


def is_never(check: Any) -> bool:
    return type(check) is E.IntImm and not check.value
