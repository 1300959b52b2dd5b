"""Index maps made of digits: which indices are sums of split and fused iterators.

An iterator that runs over [0, extent) is cut into digits like a number in mixed radix: `i//8` and
`i%8` are the two digits of i at 8. An index is a sum of digits with scales; where each scale is the
extent of everything below it (`i*32 + j`, j in [0, 32)), the sum runs through an interval, every
value once: it is an iterator itself (a *fused* one) and can be cut again. A map whose indices use
every digit of every iterator exactly once is a bijection, and is undone digit by digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ..base.deep import recursive
from ..loopir import expr as E
from ..loopir.iter import Range
from ..loopir.subst import substitute
from ..loopir.visit import uses_var
from .analyzer import Analyzer


class IterMark:
    """An iterator over [0, extent): a variable less its first value, or a sum of digits.

    `extent` is None where it is not a constant; such an iterator can have digits, but only its
    highest digit is without limit. The values below `unused` are not taken.
    """

    __slots__ = ("extent", "first", "source", "unused")

    def __init__(
        self, source: E.Var | IterSum, extent: int | None, first: Any = None, unused: int = 0
    ) -> None:
        self.source = source
        self.extent = extent
        self.first = first if first is not None else E.const(0)
        self.unused = unused


class IterSplit:
    """The digit (mark // lower) % extent, times `scale` (below zero: it runs backwards)."""

    __slots__ = ("extent", "lower", "mark", "scale")

    def __init__(self, mark: IterMark, lower: int, extent: int | None, scale: int) -> None:
        self.mark = mark
        self.lower = lower
        self.extent = extent
        self.scale = scale

    def scaled(self, k: int) -> IterSplit:
        return IterSplit(self.mark, self.lower, self.extent, self.scale * k)

    def span(self) -> int | None:
        """How far the digit moves the sum, plus one step; None: without limit."""
        return None if self.extent is None else abs(self.scale) * self.extent


class IterSum:
    """A sum of digits and a base that moves with no iterator."""

    __slots__ = ("args", "base")

    def __init__(self, args: Sequence[IterSplit], base: Any) -> None:
        self.args = tuple(args)
        self.base = E.convert(base)

    def key(self) -> Any:
        """Equal for equal sums of the same marks."""
        return frozenset((id(a.mark), a.lower, a.extent, a.scale) for a in self.args)


class IterMapError(Exception):
    """Why an index is no sum of digits."""


def in_radix(args: Sequence[IterSplit]) -> list[IterSplit] | None:
    """Digits from low to high if no two sums of them are equal by construction, else None."""
    digits = sorted(args, key=lambda a: (abs(a.scale), a.extent or 0))
    for low, high in pairwise(digits):
        span = low.span()
        if span is None or abs(high.scale) < span:
            return None
    return digits


def is_whole(digits: Sequence[IterSplit]) -> bool:
    """Whether a sum of digits in radix order runs through an interval without gaps."""
    expected: int | None = 1
    for d in digits:
        if d.scale != expected and -d.scale != expected:
            return False
        expected = d.span()
    return True


def check_digits(sums: Sequence[IterSum], marks: Sequence[IterMark], level: str) -> bool:
    """Raise IterMapError unless the digits used fit together; whether extents leave padding.

    For the levels see `detect_iter_map`.
    """
    used: dict[int, list[IterSplit]] = {}
    owners: dict[int, IterMark] = {id(m): m for m in marks}
    pending = list(sums)
    seen: set[int] = set()
    while pending:
        s = pending.pop()
        digits = in_radix(s.args)
        if digits is None:
            raise IterMapError(
                "the iterators of an index overlap (as in i + j): in a sum that can be inverted "
                "each has a place of its own, as in i * 4 + j with j below 4"
            )
        if level == "bijective" and not is_whole(digits):
            raise IterMapError("an index does not run through a whole interval")
        for d in s.args:
            used.setdefault(id(d.mark), []).append(d)
            owners[id(d.mark)] = d.mark
            if isinstance(d.mark.source, IterSum) and id(d.mark) not in seen:
                seen.add(id(d.mark))
                pending.append(d.mark.source)
    padded = False
    for ident, mark in owners.items():
        padded = _check_mark(mark, used.get(ident, []), level != "none") or padded
    return padded


def _name(mark: IterMark) -> str:
    return mark.source.name if isinstance(mark.source, E.Var) else "a fused iterator"


def _check_mark(mark: IterMark, digits: list[IterSplit], complete: bool) -> bool:
    digits = sorted((d for d in digits if d.extent != 1), key=lambda d: d.lower)
    expected: int | None = 1
    for d in digits:
        if expected is None or d.lower < expected:
            raise IterMapError(f"a digit of {_name(mark)} is used twice")
        if complete and d.lower != expected:
            raise IterMapError(f"a digit of {_name(mark)} is not used")
        expected = None if d.extent is None else d.lower * d.extent
    if not complete:
        return False
    if mark.extent is None:
        if expected is not None:
            raise IterMapError(f"the high digit of {_name(mark)} is not used")
        return any(d.lower > 1 for d in digits)
    if expected is None or expected < mark.extent:
        raise IterMapError(f"{_name(mark)} is not used, or its high digit is not")
    return expected > mark.extent or mark.unused > 0


class Reader:
    """Reads expressions as sums of digits."""

    def __init__(self, ranges: Mapping[E.Var, Range], analyzer: Analyzer, whole: bool) -> None:
        self.analyzer = analyzer
        self.keeps_whole = whole
        self.marks: list[IterMark] = []
        self.of_var: dict[E.Var, IterMark] = {}
        self.fused: dict[Any, IterMark] = {}
        self.fixed: dict[E.Var, E.PrimExpr] = {}  # iterators of one value
        for var, r in ranges.items():
            extent = E.const_int(analyzer.simplify(r.extent))
            if extent == 1:
                self.fixed[var] = E.convert(r.min)
                continue
            mark = IterMark(var, extent, r.min)
            self.marks.append(mark)
            self.of_var[var] = mark

    @recursive
    def sum(self, e: Any) -> IterSum:
        """The sum of digits that an expression is; IterMapError if it is none."""
        t = type(e)
        if isinstance(e, E.Var) and e in self.of_var:
            mark = self.of_var[e]
            return IterSum([IterSplit(mark, 1, mark.extent, 1)], mark.first)
        if t is E.Add or t is E.Sub:
            return self._add(self.sum(e.a), self.sum(e.b), 1 if t is E.Add else -1)
        if t is E.Mul:
            a, b = (e.b, e.a) if isinstance(e.a, E.IntImm) else (e.a, e.b)
            k = E.const_int(b)
            if k is not None:
                s = self.sum(a)
                return IterSum([d.scaled(k) for d in s.args] if k else [], s.base * k)
        if t in (E.FloorDiv, E.FloorMod):
            c = E.const_int(e.b)
            if c is not None and c > 0:
                s = self.sum(e.a)
                return self._cut(s, c, t is E.FloorDiv) if s.args else IterSum((), t(s.base, e.b))
        if not uses_var(e, self.of_var.__contains__):
            return IterSum((), substitute(e, self.fixed) if self.fixed else e)
        raise IterMapError(f"{e} is no sum of quotients and remainders of the iterators")

    def _add(self, x: IterSum, y: IterSum, sign: int) -> IterSum:
        args = list(x.args)
        for d in y.args:
            new = d.scaled(sign)
            for i, old in enumerate(args):
                if (old.mark, old.lower, old.extent) == (new.mark, new.lower, new.extent):
                    k = old.scale + new.scale
                    args[i : i + 1] = [IterSplit(old.mark, old.lower, old.extent, k)] if k else []
                    break
            else:
                args.append(new)
        return IterSum(args, x.base + y.base if sign > 0 else x.base - y.base)

    def _cut(self, s: IterSum, c: int, quotient: bool) -> IterSum:
        """The digits of s at c and above (as s // c), or those below (as s % c)."""
        base = E.const_int(self.analyzer.simplify(s.base))
        if base is None or base % c or (self.keeps_whole and len(s.args) > 1):
            s, base = self._fuse(s, c)
        whole = [d for d in s.args if d.scale % c == 0]
        rest = [d for d in s.args if d.scale % c]
        low, high = self._below(rest, c)
        if low is None:
            mark = self._fuse(IterSum(rest, 0), c)[0].args[0].mark
            low, high = self._digit_at(IterSplit(mark, 1, mark.extent, 1), c)
        if quotient:
            args = [IterSplit(d.mark, d.lower, d.extent, d.scale // c) for d in (*whole, *high)]
            return IterSum(args, base // c)
        return IterSum(low, 0)

    def _below(
        self, rest: list[IterSplit], c: int
    ) -> tuple[list[IterSplit] | None, list[IterSplit]]:
        """Digits of a sum below c and those above; (None, []) if c cuts no digit evenly."""
        digits = in_radix(rest)
        if digits is None:
            raise IterMapError("the iterators under a division overlap")
        if any(d.scale < 0 for d in digits):
            return None, []
        low: list[IterSplit] = []
        high: list[IterSplit] = []
        room = 0  # the largest sum of the low digits
        for i, d in enumerate(digits):
            span = d.span()
            if span is not None and room + span - d.scale < c:
                low.append(d)
                room += span - d.scale
            elif i + 1 == len(digits) and c % d.scale == 0 and room < d.scale:
                below, above = self._digit_at(d, c)
                return low + below, above
            else:
                return None, []
        return low, high

    def _digit_at(self, d: IterSplit, c: int) -> tuple[list[IterSplit], list[IterSplit]]:
        """A digit cut in two where its scaled value reaches c, a multiple of its scale."""
        step = c // d.scale
        rest = None if d.extent is None else -(-d.extent // step)
        if d.extent is not None and d.extent % step and d.mark.extent is not None:
            top = -(-d.mark.extent // d.lower)
            if d.extent != top:
                raise IterMapError(f"{step} does not divide the extent {d.extent} of a digit")
        if rest == 1:
            return [d], []
        below = IterSplit(d.mark, d.lower, step, d.scale)
        return [below], [IterSplit(d.mark, d.lower * step, rest, c)]

    def _fuse(self, s: IterSum, c: int) -> tuple[IterSum, int]:
        """The sum as one new iterator over [0, extent), and a multiple of c beside it."""
        digits = in_radix(s.args)
        low = E.const_int(self.analyzer.simplify(s.base))
        if digits is None or low is None or not is_whole(digits):
            raise IterMapError("a divided index does not run through a whole interval")
        for d in digits:
            if d.scale < 0:
                low += d.scale * ((d.extent or 1) - 1)
        base = low - low % c
        key = (s.key(), low, base)
        mark = self.fused.get(key)
        if mark is None:
            span = digits[-1].span()
            source = IterSum(s.args, s.base - base)
            extent = None if span is None else span + low % c
            mark = self.fused[key] = IterMark(source, extent, unused=low % c)
        return IterSum([IterSplit(mark, 1, mark.extent, 1)], base), base
