"""Index maps in TVM's vocabulary: found by iter_reader.py, simplified, inverted."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.deep import deep_call
from ..base.errors import UsageError
from ..loopir import expr as E
from ..loopir.iter import IterVar, Range
from ..loopir.visit import uses_var, walk
from .analyzer import Analyzer
from .digits import IterMark as DigitMark
from .digits import IterSplit, IterSum
from .iter_map import inverse_affine_iter_map as inverse_of_digits
from .iter_nodes import IterMapExpr as IterMapExpr
from .iter_nodes import IterMark as IterMark
from .iter_nodes import IterSplitExpr as IterSplitExpr
from .iter_nodes import IterSumExpr as IterSumExpr
from .iter_nodes import normalize_iter_map_to_expr as _plain
from .iter_reader import IterReader
from .linear import conjuncts

LEVELS = ("nocheck", "surjective", "bijective")


class IterMapLevel(enum.IntEnum):
    """How much of a map of iterators is checked; functions take these or their names as text."""

    Bijective = 0
    Surjective = 1
    NoCheck = 3

    @staticmethod
    def from_str(name: str) -> IterMapLevel:
        """The level of a name, in small letters. Raises UsageError where `name` is no level."""
        found = {level.name.lower(): level for level in IterMapLevel}.get(name.lower())
        if found is None:
            raise UsageError(f"check_level is one of {', '.join(LEVELS)}, got {name!r}")
        return found


def level_name(level: str | IterMapLevel | None) -> str:
    """The name of a level, given as any of what functions take."""
    if isinstance(level, str):
        return IterMapLevel.from_str(level).name.lower()
    return "nocheck" if level is None else IterMapLevel(level).name.lower()


_BOUNDS = {E.LT: (1, 0), E.LE: (1, 1), E.GT: (-1, 1), E.GE: (-1, 0)}  # direction, margin


class IterMapResult:
    """What `detect_iter_map` found: one IterSumExpr an index, or errors and no indices.
    `padding_predicate` holds where an iterator has a value that was added to it."""

    __slots__ = ("errors", "indices", "padding_predicate")

    def __init__(self, indices: list[IterSumExpr], errors: list[str]) -> None:
        self.indices = indices
        self.errors = errors
        self.padding_predicate: E.PrimExpr = E.const(False)


def detect_iter_map(
    indices: Sequence[Any],
    input_iters: Mapping[Any, Range],
    predicate: Any = True,
    check_level: str | IterMapLevel = "surjective",
    simplify_trivial_iterators: bool = True,
) -> IterMapResult:
    """Read `indices` over iterators as iterators of their own: (x // 4, x % 4), (y * 3 + x,).

    `input_iters`: dict from variables to Ranges, whose ends may be symbols. `predicate`:
    comparisons of sums of the iterators, which limit these. `check_level`: "surjective" (each index
    takes every value of its interval, and no part of an iterator is in two of them), "bijective"
    (also, every iterator is used up, and nothing is added to one so that a divisor divides it),
    "nocheck".
    `simplify_trivial_iterators`: an iterator of one value counts as that value. Raises OperandError
    where `predicate` is neither a number nor an expression, and UsageError where `check_level` is
    no level.
    """
    found = deep_call(
        _detect, list(indices), ranges_of(input_iters), E.convert(predicate),
        level_name(check_level),
        simplify_trivial_iterators, Analyzer(),
    )  # fmt: skip
    result: IterMapResult = found
    return result


def ranges_of(input_iters: Mapping[Any, Range]) -> dict[E.Var, Range]:
    """Ranges by variable, whatever iterators are given as."""
    return {(k.var if isinstance(k, IterVar) else k): r for k, r in input_iters.items()}


def _detect(
    indices: list[Any], ranges: dict[E.Var, Range], predicate: Any, level: str, trivial: bool,
    analyzer: Analyzer,
) -> IterMapResult:  # fmt: skip
    if any(uses_var(e, ranges.__contains__) for r in ranges.values() for e in (r.min, r.extent)):
        return IterMapResult([], ["the range of an iterator depends on another one"])
    conditions: list[tuple[Any, Any, Any]] = []
    for part in conjuncts(predicate):
        if isinstance(part, E.IntImm) and part.value:
            continue
        if not _limited(part, ranges, conditions):
            return IterMapResult([], [f"the condition {part} is no comparison of iterators"])
    reader = IterReader(ranges, analyzer, level, trivial)
    conditions.sort(key=lambda c: sum(1 for _ in walk(c[0])))
    for e, low, high in conditions:
        reader.constrain(reader.sum(e), low, high)
        if reader.errors:
            return IterMapResult([], reader.errors)
    if not reader.conditions_fit():
        return IterMapResult([], ["two conditions limit sums that share only some iterators"])
    found: list[IterSumExpr] = []
    for reader.finding in (True, False) if level != "bijective" else (False,):
        if found and not reader.padded:
            break
        found = []
        for e in indices:
            found.append(reader.index(e))
            if reader.errors:
                return IterMapResult([], reader.errors)
    if not reader.makes_map(found):
        return IterMapResult([], ["the indices share parts of an iterator, or leave some out"])
    result = IterMapResult(found, [])
    result.padding_predicate = reader.predicate
    return result


def _limited(part: Any, ranges: dict[E.Var, Range], conditions: list[tuple[Any, Any, Any]]) -> bool:
    """Enter what a comparison says: a new range of an iterator, or a condition on a sum."""
    if type(part) not in _BOUNDS or part.a.dtype not in ("int32", "int64"):
        return False
    if not uses_var(part, ranges.__contains__):
        return True
    sign, margin = _BOUNDS[type(part)]
    e, limit = part.a, part.b
    if not uses_var(e, ranges.__contains__):
        e, limit, sign = limit, e, -sign
        margin = 1 - margin
    elif uses_var(limit, ranges.__contains__):
        e, limit = _apart(part.a - part.b, ranges)
    end = limit + margin if margin else limit
    low, high = (None, end) if sign > 0 else (end, None)
    if isinstance(e, E.Var):
        r = ranges[e]
        first, last = r.min, r.min + r.extent
        first = first if low is None else E.Max(*E.match_types(first, low))
        last = last if high is None else E.Min(*E.match_types(last, high))
        first, last = (Analyzer().simplify(x) for x in (first, last))
        ranges[e] = Range.from_min_extent(first, Analyzer().simplify(last - first))
        return True
    conditions.append((e, low, high))
    return True


def _apart(e: Any, ranges: dict[E.Var, Range]) -> tuple[Any, Any]:
    """The terms of a sum that move with the iterators, and the opposite of all others."""
    moving: Any = E.const(0, e.dtype)
    fixed: Any = E.const(0, e.dtype)
    stack = [(e, True)]
    while stack:
        x, plus = stack.pop()
        if type(x) in (E.Add, E.Sub):
            stack += [(x.b, plus is (type(x) is E.Add)), (x.a, plus)]
        elif uses_var(x, ranges.__contains__):
            moving = moving + x if plus else moving - x
        else:
            fixed = fixed - x if plus else fixed + x
    return Analyzer().simplify(moving), Analyzer().simplify(fixed)


def iter_map_simplify(
    indices: Sequence[Any],
    input_iters: Mapping[Any, Range],
    predicate: Any = True,
    check_level: str | IterMapLevel = "surjective",
    simplify_trivial_iterators: bool = True,
) -> list[Any]:
    """`indices` as the map that `detect_iter_map` finds has them; as they are if it finds none.
    Raises OperandError where `predicate` or one of `indices` is neither a number nor an expression,
    and UsageError where `check_level` is no level."""
    found = detect_iter_map(
        indices, input_iters, predicate, check_level, simplify_trivial_iterators
    )
    if (
        not found.indices
        and not E.is_const(E.convert(predicate), 1)
        and level_name(check_level) != "bijective"
    ):
        found = detect_iter_map(indices, input_iters, True, check_level, simplify_trivial_iterators)
    if not found.indices:
        return [E.convert(e) for e in indices]
    return [_plain(s) for s in found.indices]


def normalize_iter_map_to_expr(expr: Any) -> E.PrimExpr:
    """The value of an IterMapExpr as a plain expression of the iterators."""
    return _plain(expr)


def normalize_to_iter_sum(index: Any, input_iters: Mapping[Any, Range]) -> IterSumExpr:
    """An index as a sum of parts of the iterators, in the order of falling scales; what is no such
    part is in its base."""
    reader = IterReader(ranges_of(input_iters), Analyzer(), "nocheck")
    found = deep_call(lambda reader: reader.in_order(reader.sum(index)), reader)
    result: IterSumExpr = found
    return result


def inverse_affine_iter_map(
    iter_map: Sequence[IterSumExpr], outputs: Sequence[Any]
) -> dict[E.Var, E.PrimExpr]:
    """Each input variable as an expression of the values `outputs` of a bijective map."""
    back = _Back()
    sums = [back.sum(s) for s in iter_map]
    return deep_call(inverse_of_digits, sums, list(outputs))


class _Back:
    """Digits of nodes."""

    def __init__(self) -> None:
        self.marks: dict[int, DigitMark] = {}

    def sum(self, s: Any) -> IterSum:
        if not isinstance(s, IterSumExpr):
            raise UsageError(f"inverse_affine_iter_map takes IterSumExprs, got {s!r}")
        args = []
        for a in s.args:
            numbers = [E.const_int(x) for x in (a.lower_factor, a.extent, a.scale)]
            if numbers[0] is None or numbers[2] is None:
                raise UsageError(f"the factors of {a} are no constants")
            args.append(IterSplit(self.mark(a.source), numbers[0], numbers[1], numbers[2]))
        return IterSum(args, s.base)

    def mark(self, m: IterMark) -> DigitMark:
        made = self.marks.get(id(m))
        if made is None:
            source: Any = m.source
            first: Any = E.const(0, m.source.dtype)
            if isinstance(source, IterSumExpr):
                made = DigitMark(self.sum(source), E.const_int(m.extent))
            else:
                if type(source) is E.Sub:
                    source, first = source.a, source.b
                if not isinstance(source, E.Var):
                    raise UsageError(f"{m.source} is no iterator")
                made = DigitMark(source, E.const_int(m.extent), first)
            self.marks[id(m)] = made
        return made
