"""Index maps over two groups of iterators, as one over each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.deep import Recursive, deep_call
from ..loopir import expr as E
from ..loopir import op
from ..loopir.iter import IterVar, Range
from .analyzer import Analyzer
from .iter_affine_map import IterMapLevel, detect_iter_map
from .iter_fuse import Parts
from .iter_nodes import (
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    is_one,
    is_zero,
    normalize_iter_map_to_expr,
    same_mark,
    same_split,
    whole,
)


def subspace_divide(
    bindings: Sequence[Any],
    input_iters: Mapping[Any, Range],
    sub_iters: Sequence[E.Var],
    predicate: Any = True,
    check_level: str | IterMapLevel = "surjective",
    simplify_trivial_iterators: bool = True,
) -> list[list[IterMark]]:
    """Each binding as outer * extent of inner + inner, where `sub_iters` alone move the inner part.

    Gives [outer, inner] for each binding, as IterMarks with their extents, then two marks whose
    `extent` is the condition on the outer and on the inner space. Empty where there is no such
    form: `[z*12 + y*3 + x]` with sub_iters [x] gives `[z*4 + y, x]`. Raises OperandError where
    `predicate` is neither a number nor an expression.
    """
    found = detect_iter_map(
        bindings, input_iters, predicate, check_level, simplify_trivial_iterators
    )
    inner = {v.var if isinstance(v, IterVar) else v for v in sub_iters}
    try:
        return deep_call(lambda d: d.marks(found.indices), _Divider(found.indices, inner))
    except _Mixed:
        return []


class _Mixed(Exception):
    """Something moves with both groups, and is no sum of a part of each."""


class _Division:
    """outer * (extent of inner) + inner; `only` names the group if there is one alone."""

    __slots__ = ("inner", "only", "outer")

    def __init__(self, outer: tuple[Any, Any], inner: tuple[Any, Any], only: str = "") -> None:
        self.outer, self.inner, self.only = outer, inner, only

    @staticmethod
    def of(e: Any, extent: Any, only: str) -> _Division:
        """What lies in one group."""
        nothing = (IterSumExpr([], E.const(0, e.dtype)), E.const(1, e.dtype))
        here = (e, extent)
        outer, inner = (nothing, here) if only == "inner" else (here, nothing)
        return _Division(outer, inner, only)


class _Divider(Recursive):
    recursive = ("sum", "part")

    def __init__(self, sums: Sequence[IterSumExpr], inner: set[Any]) -> None:
        self.analyzer = Analyzer()
        self.inner_vars = inner
        self.conditions: dict[str, Any] = {"outer": E.const(True), "inner": E.const(True)}
        self.found: list[tuple[IterSplitExpr, _Division]] = []
        self.uses: list[tuple[IterMark, Parts]] = []
        pending = [p for s in sums for p in s.args]
        while pending:
            part = pending.pop(0)
            row = next((r for r in self.uses if same_mark(r[0], part.source)), None)
            if row is not None:
                row[1].append(part)
                continue
            self.uses.append((part.source, [part]))
            if isinstance(part.source.source, IterSumExpr):
                pending += part.source.source.args

    def marks(self, sums: Sequence[IterSumExpr]) -> list[list[IterMark]]:
        if not sums:
            return []
        result = []
        for s in sums:
            d = self.sum(s, None)
            result.append([IterMark(*d.outer), IterMark(*d.inner)])
        nothing = IterSumExpr([], E.const(0))
        ends = [IterMark(nothing, self.conditions[k]) for k in ("outer", "inner")]
        return [*result, ends]

    def sum(self, s: IterSumExpr, extent: Any) -> _Division:
        """Divide a sum; `extent` is that of its mark, if it has one."""
        one = E.const(1, s.dtype)
        if not s.args:
            nothing = IterSumExpr([], E.const(0, s.dtype))
            return _Division((nothing, one), (IterSumExpr([], s.base), one))
        if len(s.args) == 1:
            if not is_one(s.args[0].scale):
                raise _Mixed
            d = self.part(s.args[0])
            return d if is_zero(s.base) else self._moved(d, s.base)
        groups: dict[str, Parts] = {"outer": [], "inner": []}
        span: Any = one
        for p in reversed(s.args):
            d = self.part(p)
            if not d.only or (d.only == "inner" and groups["outer"]):
                raise _Mixed
            e, size = d.inner if d.only == "inner" else d.outer
            made = e if isinstance(e, IterSplitExpr) else whole(IterMark(e, size))
            groups[d.only].append(made)
            span = span * made.extent
        if not any(is_one(p.scale) for p in s.args):
            raise _Mixed
        outer = self._gathered(groups["outer"], E.const(0, s.dtype))
        inner = self._gathered(groups["inner"], s.base)
        if extent is not None and self.analyzer.can_prove_equal(span, extent):
            return _Division(outer, inner)
        if groups["outer"] and groups["inner"]:
            raise _Mixed
        only, source = ("inner", inner[0]) if groups["inner"] else ("outer", outer[0])
        size = span if extent is None else extent
        value: Any = normalize_iter_map_to_expr(source, self.analyzer)
        self.conditions[only] = op.all(self.conditions[only], value < size)
        return _Division.of(source, size, only)

    def _moved(self, d: _Division, base: Any) -> _Division:
        e, extent = d.inner
        parts, old = ([e], None) if isinstance(e, IterSplitExpr) else (e.args, e.base)
        moved = IterSumExpr(parts, base if old is None or is_zero(old) else old + base)
        return _Division(d.outer, (moved, extent), d.only)

    def _gathered(self, parts: Parts, base: Any) -> tuple[IterSumExpr, Any]:
        """Parts, innermost first, one after the other."""
        span: Any = E.const(1, base.dtype)
        placed = []
        for p in parts:
            placed.append(p.with_(scale=span))
            span = self.analyzer.simplify(span * p.extent)
        return IterSumExpr(placed[::-1], base), span

    def part(self, p: IterSplitExpr) -> _Division:
        """Divide a part of an iterator."""
        for known, d in self.found:
            if same_split(known, p):
                return d
        parts = next(row[1] for row in self.uses if same_mark(row[0], p.source))
        source = p.source.source
        if isinstance(source, IterSumExpr):
            whole_division = self.sum(source, p.source.extent)
            if len(parts) == 1:
                return whole_division
            self._split(whole_division, parts)
        else:
            only = "inner" if any(v is source for v in self.inner_vars) else "outer"
            if not isinstance(source, E.Var):
                raise _Mixed
            self.found += [(x, _Division.of(x, x.extent, only)) for x in parts]
        return next(d for known, d in self.found if same_split(known, p))

    def _split(self, d: _Division, parts: Parts) -> None:
        """The parts of a divided iterator: the lower ones are of the inner group, the others of the
        outer one, if a border of parts lies between them."""
        marks = {"outer": IterMark(*d.outer), "inner": IterMark(*d.inner)}
        left, expected = list(parts), E.const(1, parts[0].dtype)
        only, first = ("outer" if d.only == "outer" else "inner"), None
        while left:
            at = next(
                (x for x in left if self.analyzer.can_prove_equal(x.lower_factor, expected)), None
            )
            if at is None:
                raise _Mixed
            left = [x for x in left if x is not at]
            lower = at.lower_factor
            if only == "outer":
                first = lower if first is None else first
                lower = self.analyzer.simplify(lower // first)
            made = at.with_(source=marks[only], lower=lower)
            self.found.append((at, _Division.of(made, at.extent, only)))
            expected = self.analyzer.simplify(expected * at.extent)
            if self.analyzer.can_prove_equal(expected, d.inner[1]):
                only = "outer"
        if only != "outer":
            raise _Mixed
