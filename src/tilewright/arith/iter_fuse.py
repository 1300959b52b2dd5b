"""Sums of parts of iterators as one iterator, with what conditions say of such sums.

x*4 + y with y in [0, 4) is one iterator: the part of the smallest scale comes first, and each next
part has the scale that those before it span. Parts of one iterator melt together first. A condition
on a sum (j*2 + k < 9) makes that sum an iterator of its own, whose extent the next scale follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..loopir import expr as E
from .analyzer import Analyzer
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

Parts = list[IterSplitExpr]


class Fused:
    """An iterator made of a sum: its parts as they are and grouped, its mark, and the sum's least
    value."""

    __slots__ = ("flat", "mark", "offset")

    def __init__(self, flat: Parts, mark: IterMark, offset: Any) -> None:
        self.flat, self.mark, self.offset = flat, mark, offset


class _Match:
    """The parts of a sum that are taken in turn, outermost last, and what they span so far."""

    def __init__(self, dtype: str, base_scale: Any) -> None:
        self.flat: Parts = []
        self.groups: Parts = []
        self.offset: Any = E.const(0, dtype)
        self.tail: Any = E.const(0, dtype)
        self.scale = base_scale


def factors_of(e: Any) -> list[Any]:
    """The factors of a product."""
    found, stack = [], [e]
    while stack:
        x = stack.pop()
        if type(x) is E.Mul:
            stack += [x.b, x.a]
        else:
            found.append(x)
    return found


class Fuser:
    """Makes one iterator of sums; remembers those it has made."""

    def __init__(self, analyzer: Analyzer, level: str) -> None:
        self.analyzer = analyzer
        self.level = level
        self.errors: list[str] = []
        self.fused: list[Fused] = []
        self.constrained: list[Parts] = []

    def times(self, a: Any, b: Any) -> Any:
        """A product in normal form."""
        return self.analyzer.simplify(a * b)

    def divides(self, a: Any, b: Any) -> bool:
        """Whether b is known to divide a."""
        x, y = E.const_int(a), E.const_int(b)
        if y == 0:
            return False
        if x is not None and y is not None:
            return x % y == 0
        a, b = (normalize_iter_map_to_expr(e, self.analyzer) for e in (a, b))
        zero = E.const(0, a.dtype)
        return self.analyzer.can_prove_equal(a, b) or self.analyzer.can_prove_equal(a % b, zero)

    # -- choosing parts

    def _smallest(self, args: Parts, open_: list[int], source: Any = None) -> int:
        """The open part of the least constant scale, a part of one value before others; of symbolic
        scales, that with the fewest factors. -1 if there is none."""
        places = [i for i in open_ if source is None or same_mark(args[i].source, source)]
        numbers = [(i, E.const_int(args[i].scale)) for i in reversed(places)]
        known = [
            (n, not is_one(args[i].extent), k) for k, (i, n) in enumerate(numbers) if n is not None
        ]
        if known:
            return numbers[min(known)[2]][0]
        return min(reversed(places), key=lambda i: len(factors_of(args[i].scale)), default=-1)

    def _of_scale(self, args: Parts, open_: list[int], scale: Any, source: Any = None) -> int:
        """The last open part of a scale, one of one value before others; -1 if there is none."""
        found = -1
        for i in reversed(open_):
            if source is not None and not same_mark(args[i].source, source):
                continue
            if self.analyzer.can_prove_equal(args[i].scale, scale):
                if is_one(args[i].extent):
                    return i
                found = i if found < 0 else found
        return found

    def _below(self, args: Parts, open_: list[int], scale: Any) -> int:
        """The open part whose scale is the greatest below a given one; -1 if there is none."""
        found, prove = -1, self.analyzer
        for i in reversed(open_):
            here = args[i].scale
            fits = prove.can_prove_greater_equal(scale, here)
            fits = fits and prove.can_prove_greater_equal(here, 0)
            if fits and (found < 0 or prove.can_prove_less(args[found].scale, here)):
                found = i
        return found

    # -- parts of one iterator

    def combined(self, args: Sequence[IterSplitExpr]) -> Parts:
        """Neighbouring parts of one iterator as one part: x//4%8*4 + x%4 is x%32."""
        parts, open_ = list(args), list(range(len(args)))
        result: Parts = []
        while open_:
            last = open_[-1]
            mark = parts[last].source
            if sum(same_mark(a.source, mark) for a in parts) == 1:
                result.append(parts[last])
                open_.remove(last)
                continue
            at = self._smallest(parts, open_, mark)
            low = parts[at]
            open_.remove(at)
            while True:
                at = self._of_scale(parts, open_, self.times(low.extent, low.scale), mark)
                if at < 0:
                    break
                above = self.times(low.lower_factor, low.extent)
                if not self.analyzer.can_prove_equal(parts[at].lower_factor, above):
                    break
                open_.remove(at)
                low = low.with_(extent=self.times(parts[at].extent, low.extent))
            result.append(low)
        return result[::-1]

    # -- sums

    def fuse(self, s: IterSumExpr, early: bool) -> IterSumExpr | None:
        """A sum as one iterator of one scale and a base; None if it is none. `early`: a single part
        may stay as it is."""
        args = self.combined(s.args)
        if len(args) <= 1 < len(s.args) and early:
            return IterSumExpr(args, s.base)
        open_ = list(range(len(args)))
        at = self._smallest(args, open_)
        if at < 0:
            return None
        base = args[at].scale
        match = _Match(s.dtype, base)
        while open_:
            exact = at >= 0
            if not exact:
                if self.level == "bijective" or not is_one(base):
                    return None
                at = self._below(args, open_, match.scale)
                if at < 0:
                    return None
            scale = match.scale if exact else args[at].scale
            if not exact:
                match.tail = match.tail + (match.scale - scale)
            if not self._take(match, args, open_, at, scale, base):
                return None
            at = self._of_scale(args, open_, match.scale)
        flat = match.flat[::-1]
        for known in self.fused:
            if len(known.flat) == len(flat) and all(map(same_split, known.flat, flat)):
                if not self.analyzer.can_prove_equal(match.offset, known.offset * base):
                    return None
                return IterSumExpr([whole(known.mark, base)], s.base + match.offset)
        extent = self.analyzer.simplify(match.scale // base + match.tail)
        mark = IterMark(IterSumExpr(match.groups[::-1], E.const(0, s.dtype)), extent)
        self.fused.append(Fused(flat, mark, match.offset))
        return IterSumExpr([whole(mark, base)], s.base + match.offset)

    def _take(
        self, match: _Match, args: Parts, open_: list[int], at: int, scale: Any, base: Any
    ) -> bool:
        """Take the part at a place, or all of the longest conditioned sum that begins there."""
        begin = [c for c in self.constrained if same_split(args[at], c[-1], False)]
        if not begin:
            open_.remove(at)
            part = args[at].with_(scale=self.analyzer.simplify(args[at].scale // base))
            match.flat.append(part)
            match.groups.append(part)
            match.scale = self.times(args[at].extent, scale)
            return True
        longest = max(begin, key=len)
        for want in reversed(longest):
            for k in open_:
                if same_split(args[k], want, False) and self.analyzer.can_prove_equal(
                    want.scale * scale, args[k].scale
                ):
                    break
            else:
                return False
            open_.remove(k)
            match.flat.append(args[k])
        known = next(f for f in self.fused if f.flat is longest)
        match.groups.append(whole(known.mark, self.analyzer.simplify(scale // base)))
        match.offset = match.offset + known.offset * scale
        match.scale = self.times(known.mark.extent, scale)
        return True

    def constrain(self, s: IterSumExpr, low: Any, high: Any) -> None:
        """Learn low <= s < high, of which one may be None."""
        if not is_zero(s.base):
            low = None if low is None else low - s.base
            high = None if high is None else high - s.base
        found = self.fuse(IterSumExpr(s.args, E.const(0, s.dtype)), False) if s.args else None
        if found is None or not is_one(found.args[0].scale):
            self.errors.append(f"a condition on {s}, which is no iterator of steps of one")
            return
        mark = found.args[0].source
        known = next(f for f in self.fused if f.mark is mark)
        first: Any = known.offset
        end: Any = first + mark.extent
        if low is not None:
            first = self.analyzer.simplify(E.Max(*E.match_types(low, first)))
        if high is not None:
            less = self.analyzer.can_prove_less_equal(high, end)
            end = high if less else E.Min(*E.match_types(high, end))
        moved = self.analyzer.simplify(first - known.offset)
        source = mark.source
        if not is_zero(moved):
            source = IterSumExpr(source.args, source.base - moved)
        known.mark = IterMark(source, self.analyzer.simplify(end - first))
        known.offset = first
        self.constrained.append(known.flat)

    def conditions_fit(self) -> bool:
        """Whether of two conditioned sums one is a part of the other, or they share nothing."""
        for n, short in enumerate(self.constrained):
            for other in self.constrained[n + 1 :]:
                shared = {any(same_split(a, b, False) for b in other) for a in short}
                if len(shared) > 1:
                    return False
        return True

    def in_order(self, s: IterSumExpr) -> IterSumExpr:
        """A sum with its parts in the order of falling constant factors, then of symbols."""
        items = []
        for a in self.combined(s.args):
            number, symbols, scale = 1, 0, E.const(1, a.dtype)
            for f in factors_of(a.scale):
                k = E.const_int(f)
                if k is None:
                    scale, symbols = scale * f, symbols + 1
                else:
                    number *= k
            scale = scale if number == 1 else scale * E.const(number, a.dtype)
            items.append((-number, -symbols, a.with_(scale=scale)))
        items.sort(key=lambda item: item[:2])
        return IterSumExpr([item[2] for item in items], s.base)
