"""Expressions of iterators read as sums of their parts, and whether the parts make a map.

Divisions take iterators apart: x // 4 and x % 4 are parts of x. Where an extent does not divide,
the iterator is padded: a first reading finds by how much (the same for all uses of one iterator),
a second one reads with the padded iterators.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.deep import Recursive
from ..loopir import expr as E
from ..loopir import op
from ..loopir.iter import Range
from ..loopir.visit import children
from .analyzer import Analyzer
from .iter_fuse import Fuser, Parts
from .iter_nodes import (
    IterMapExpr,
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


class _Padding:
    """What is added to an iterator on both sides so that all its divisors divide it."""

    def __init__(self, mark: IterMark) -> None:
        self.mark = mark
        self.factor: Any = E.const(1, mark.source.dtype)
        self.left: Any = E.const(0, mark.source.dtype)
        self.padded: IterMark | None = None


class IterReader(Fuser, Recursive):
    """Reads expressions over iterators; see the module's head. What cannot be read is told in
    `errors`, and stands in the result as it was."""

    recursive = ("read",)

    def __init__(
        self, ranges: Mapping[E.Var, Range], analyzer: Analyzer, level: str, trivial: bool = True
    ) -> None:
        super().__init__(analyzer, level)
        self.of_var: dict[E.Var, Any] = {}
        self.marks: list[IterMark] = []
        self.paddings: list[_Padding] = []
        self.finding = False  # whether paddings are found now, not used
        self.padded = False
        self.predicate: E.PrimExpr = E.const(False)
        for v, r in ranges.items():
            if trivial and is_one(r.extent):
                self.of_var[v] = r.min
                continue
            mark = IterMark(v if is_zero(r.min) else v - r.min, E.cast(v.dtype, r.extent))
            self.marks.append(mark)
            part = whole(mark)
            self.of_var[v] = part if is_zero(r.min) else IterSumExpr([part], r.min)

    # -- reading

    def sum(self, e: Any) -> IterSumExpr:
        """An expression as a sum of parts."""
        found = self.read(E.convert(e))
        if isinstance(found, IterSumExpr):
            return found
        if isinstance(found, IterSplitExpr):
            return IterSumExpr([found], E.const(0, found.dtype))
        return IterSumExpr([], found)

    def index(self, e: Any) -> IterSumExpr:
        """An expression as one iterator and a base."""
        s = self.sum(e)
        if not s.args:
            return s
        found = self.fuse(s, True)
        if found is None:
            self.errors.append(f"the parts of {s} are no iterator of equal steps")
        return s if found is None else found

    def read(self, e: Any) -> Any:
        """A sum, a part, or an expression without iterators."""
        if isinstance(e, IterMapExpr):
            return self.read(normalize_iter_map_to_expr(e))
        if isinstance(e, E.Var):
            return self.of_var.get(e, e)
        kind = type(e)
        if kind not in _READ or e.dtype not in ("int32", "int64"):
            self._need_none(e)
            return e
        a, b = self.read(e.a), self.read(e.b)
        if not isinstance(a, IterMapExpr) and not isinstance(b, IterMapExpr):
            return e if a is e.a and b is e.b else _READ[kind](a, b)
        if kind in (E.Add, E.Sub):
            return self._added(a, b, 1 if kind is E.Add else -1)
        if kind is E.Mul:
            return self._scaled(e, a, b)
        if isinstance(b, IterMapExpr):
            self.errors.append(f"{e} divides by an iterator")
            return e
        found = self._divided(e, a, b)
        return e if found is None else found

    def _need_none(self, e: Any) -> None:
        """Say so where an expression that is no sum of parts moves with iterators."""
        stack = list(children(e))
        while stack:
            x = stack.pop()
            if isinstance(x, E.Var):
                if isinstance(self.of_var.get(x), IterMapExpr):
                    self.errors.append(f"{e} is no sum of parts of the iterators")
                    return
            else:
                stack.extend(children(x))

    def _added(self, a: Any, b: Any, sign: int) -> IterSumExpr:
        zero = E.const(0, a.dtype)
        parts: Parts = list(a.args if isinstance(a, IterSumExpr) else [a] if _is_part(a) else [])
        base = a.base if isinstance(a, IterSumExpr) else zero if _is_part(a) else a
        more = b.args if isinstance(b, IterSumExpr) else [b] if _is_part(b) else []
        other = b.base if isinstance(b, IterSumExpr) else zero if _is_part(b) else b
        for new in more:
            for n, old in enumerate(parts):
                if same_split(old, new, False):
                    both = old.scale + new.scale if sign > 0 else old.scale - new.scale
                    parts[n] = new.with_(scale=both)
                    break
            else:
                parts.append(new if sign > 0 else new.with_(scale=0 - new.scale))
        return IterSumExpr(parts, base + other if sign > 0 else base - other)

    def _scaled(self, e: Any, a: Any, b: Any) -> Any:
        if isinstance(a, IterMapExpr) and isinstance(b, IterMapExpr):
            self.errors.append(f"{e} is a product of iterators")
            return e
        s, k = (a, b) if isinstance(a, IterMapExpr) else (b, a)
        if isinstance(s, IterSplitExpr):
            return s.with_(scale=self.times(s.scale, k))
        assert isinstance(s, IterSumExpr)
        return IterSumExpr([p.with_(scale=self.times(p.scale, k)) for p in s.args], s.base * k)

    # -- divisions

    def _divided(self, e: Any, a: Any, by: Any) -> Any:
        """a // by or a % by, for one iterator in `a`; None where it is none."""
        s = IterSumExpr([a], E.const(0, a.dtype)) if _is_part(a) else a
        limited = len(s.args) == 1 and any(
            same_split(s.args[0], c[-1], False) for c in self.constrained
        )
        if len(s.args) != 1 or limited:
            s = self.fuse(s, True) if s.args else None
            if s is None or len(s.args) != 1:
                self.errors.append(f"{e.a} is divided, and is no iterator of equal steps")
                return None
        part, base = s.args[0], s.base
        if is_one(by):
            return s if type(e) is E.FloorDiv else E.const(0, e.dtype)
        rest = type(e) is E.FloorMod
        if not is_one(part.scale):
            scale = part.scale
            if self.divides(scale, by) and self.divides(base, by):
                if rest:
                    return E.const(0, e.dtype)
                part = part.with_(scale=self._over(scale, by))
                return part if is_zero(base) else IterSumExpr([part], self._over(base, by))
            if not self.divides(by, scale) or not self.divides(base, scale):
                self.errors.append(f"in {e} neither of {scale} and {by} divides the other")
                return None
            by, base = self._over(by, scale), self._over(base, scale)
            part = part if rest else part.with_(scale=E.const(1, by.dtype))
        found = self._padded_for(part, base, by)
        if found is None:
            return None
        part, left = found
        if rest:
            return part.with_(extent=by)
        return self._quotient(part, base, by, left)

    def _over(self, a: Any, b: Any) -> Any:
        return self.analyzer.simplify(a // b)

    def _quotient(self, part: IterSplitExpr, base: Any, by: Any, left: Any) -> Any:
        up = self.analyzer.simplify(-((0 - part.extent) // by))
        if self.divides(part.extent, by):
            lower = self.times(part.lower_factor, by)
            made = part.with_(lower=lower, extent=self._over(part.extent, by))
        elif is_one(part.lower_factor) and self.analyzer.can_prove_equal(
            part.extent, part.source.extent
        ):
            made = part.with_(lower=by, extent=up)
        else:
            one = E.const(1, by.dtype)
            made = IterSplitExpr(IterMark(part, part.extent), by, up, one)
        moved = self._over(base - left, by)
        return made if is_zero(moved) else IterSumExpr([made], moved)

    def _padded_for(
        self, part: IterSplitExpr, base: Any, by: Any
    ) -> tuple[IterSplitExpr, Any] | None:
        """The part, filled up on both sides so that `by` divides it, and what stands before it;
        None where the paddings of an iterator do not agree."""
        simplify = self.analyzer.simplify
        left = simplify(base % by)
        edge = left + part.extent
        right = E.const(0, by.dtype) if self.divides(edge, by) else simplify((0 - edge) % by)
        info = next((p for p in self.paddings if same_mark(p.mark, part.source)), None)
        if self.finding:
            if info is None:
                info = _Padding(part.source)
                self.paddings.append(info)
            info.factor = self._common(info.factor, by * part.lower_factor)
            if is_zero(left) and is_zero(right):
                return part, left
            self.padded = True
            info.left = simplify(E.Max(*E.match_types(info.left, left * part.lower_factor)))
            return part.with_(extent=simplify(left + part.extent + right)), left
        if info is None or (is_zero(info.left) and self.divides(part.source.extent, info.factor)):
            return part, left
        padded = info.padded or self._pad(info)
        if not self.divides(info.left, part.lower_factor):
            self.errors.append(f"{part} begins elsewhere than what is added before {part.source}")
            return None
        left = self._over(info.left, part.lower_factor)
        extent = self._over(padded.extent, part.lower_factor)
        return part.with_(source=padded, extent=extent), left

    def _pad(self, info: _Padding) -> IterMark:
        """The padded iterator; where it has no value is added to `predicate`."""
        mark, simplify = info.mark, self.analyzer.simplify
        edge = mark.extent + info.left
        right = simplify((0 - edge) % info.factor)
        inside = IterSumExpr([whole(mark)], info.left)
        info.padded = IterMark(inside, simplify(edge + right))
        value: Any = normalize_iter_map_to_expr(inside, self.analyzer)
        place, rest = value // info.factor, value % info.factor
        zero = E.const(0, value.dtype)
        before = op.all(E.NE(info.left, zero), place.equal(0), rest < info.left)
        end = edge // info.factor
        after = op.all(E.NE(right, zero), place.equal(end), rest >= edge % info.factor)
        self.predicate = self.analyzer.simplify(op.any(self.predicate, before, after))
        return info.padded

    def _common(self, a: Any, b: Any) -> Any:
        """A common multiple."""
        x, y = E.const_int(a), E.const_int(b)
        if x is not None and y is not None:
            return E.const(math.lcm(x, y), a.dtype)
        if self.divides(a, b):
            return a
        return b if self.divides(b, a) else self.times(a, b)

    # -- maps

    def makes_map(self, sums: Sequence[IterSumExpr]) -> bool:
        """Whether the parts in sums fit together: those of one iterator do not overlap, and fill it
        as far as the level asks."""
        found: list[tuple[IterMark, Parts]] = []
        pending = [p for s in sums for p in s.args]
        while pending:
            part = pending.pop(0)
            row = next((r for r in found if same_mark(r[0], part.source)), None)
            if row is not None:
                row[1].append(part)
                continue
            found.append((part.source, [part]))
            if isinstance(part.source.source, IterSumExpr):
                pending += part.source.source.args
        if not all(self._fills(mark, parts) for mark, parts in found):
            return False
        if self.level != "bijective":
            return True
        used = [mark for mark, _ in found]
        return all(is_one(m.extent) or any(same_mark(m, u) for u in used) for m in self.marks)

    def _fills(self, mark: IterMark, parts: Parts) -> bool:
        analyzer, left = self.analyzer, list(parts)
        expected: Any = E.const(1, mark.source.dtype)
        while left:
            at = next((p for p in left if analyzer.can_prove_equal(p.lower_factor, expected)), None)
            if at is None:
                at = None if self.level == "bijective" else self._next_above(left, expected)
                if at is None:
                    return False
            left = [p for p in left if p is not at]
            expected = self.times(at.lower_factor, at.extent)
        full = analyzer.can_prove_equal(expected, mark.extent)
        info = next((p for p in self.paddings if p.padded and same_mark(p.padded, mark)), None)
        if self.level == "bijective":
            return info is None and full
        if info is None:
            return full or self.divides(mark.extent, expected)
        if self.level == "nocheck":
            return True
        if full:
            alone = analyzer.can_prove_equal(parts[0].extent, expected)
            enough = analyzer.can_prove_greater_equal(info.mark.extent, expected)
            return len(parts) == 1 and (enough or not alone)
        return self.divides(mark.extent, expected) and analyzer.can_prove_greater_equal(
            info.mark.extent, expected
        )

    def _next_above(self, parts: Parts, expected: Any) -> IterSplitExpr | None:
        """The lowest part, where all begin at multiples of what is filled."""
        lowest: IterSplitExpr | None = None
        for p in parts:
            if not self.divides(p.lower_factor, expected):
                return None
            if lowest is None or self.divides(lowest.lower_factor, p.lower_factor):
                lowest = p
        return lowest


_READ: dict[type, Any] = {
    E.Add: lambda a, b: a + b,
    E.Sub: lambda a, b: a - b,
    E.Mul: lambda a, b: a * b,
    E.FloorDiv: lambda a, b: a // b,
    E.FloorMod: lambda a, b: a % b,
}


def _is_part(e: Any) -> bool:
    return isinstance(e, IterSplitExpr)
