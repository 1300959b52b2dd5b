"""The order of sums that `Analyzer.canonical_simplify` gives: what `simplify` gives, with the terms
that are added first, then a constant above 0, then the terms that are subtracted, and a constant
below 0 last. Programs that divide rounding towards zero alone get such divisions back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.deep import Recursive
from ..loopir import expr as E
from ..loopir.iter import CommReducer, Reduce
from ..loopir.visit import walk

if TYPE_CHECKING:
    from .analyzer import Analyzer

_FLOORED = (E.FloorDiv, E.FloorMod)
_TRUNCATED = {E.FloorDiv: E.Div, E.FloorMod: E.Mod}
_INDEX = ("int32", "int64")


class _Order(Recursive):
    """Puts sums in order; `truncates`: divisions of what is not below 0 become truncated ones."""

    recursive = ("of",)

    def __init__(self, analyzer: Analyzer, truncates: bool) -> None:
        self.analyzer = analyzer
        self.truncates = truncates

    def of(self, e: Any) -> Any:
        """The expression with its sums in order; the same object where nothing changes."""
        kind = type(e)
        if kind in (E.Add, E.Sub) and e.dtype in _INDEX:
            return self._sum(e)
        if isinstance(e, (E.BinaryOp, E.CmpOp, E.And, E.Or)):
            a, b = self.of(e.a), self.of(e.b)
            if self.truncates and kind in _FLOORED and e.dtype in _INDEX and self._positive(a, b):
                kind = _TRUNCATED[kind]
            return e if a is e.a and b is e.b and kind is type(e) else kind(a, b)
        if kind is E.Cast:
            value = self.of(e.value)
            return e if value is e.value else E.Cast(e.dtype, value)
        return needed_parts(e) if kind is Reduce and len(e.source) > 1 else e

    def _positive(self, a: Any, b: Any) -> bool:
        return (E.const_int(b) or 0) > 0 and self.analyzer.const_int_bound(a).min_value >= 0

    def _sum(self, e: Any) -> Any:
        added: list[Any] = []
        taken: list[Any] = []
        constant, stack = 0, [(e, 1)]
        while stack:
            x, sign = stack.pop()
            number = E.const_int(x)
            if type(x) in (E.Add, E.Sub):
                stack += [(x.b, sign if type(x) is E.Add else -sign), (x.a, sign)]
            elif number is not None:
                constant += sign * number
            else:
                (added if sign > 0 else taken).append(self.of(x))
        if constant > 0:
            added.append(E.const(constant, e.dtype))
        made = added[0] if added else E.const(0, e.dtype)
        for x in added[1:]:
            made = E.Add(made, x)
        for x in taken:
            made = E.Sub(made, x)
        return made if constant >= 0 else E.Sub(made, E.const(-constant, e.dtype))


def needed_parts(e: Reduce) -> Reduce:
    """A reduction of several values with those alone that the one asked for is made of."""
    reducer = e.combiner
    place = {id(v): k for side in (reducer.lhs, reducer.rhs) for k, v in enumerate(side)}
    needed, waiting = set(), [e.value_index]
    while waiting:
        part = waiting.pop()
        if part not in needed:
            needed.add(part)
            read = (place.get(id(x)) for x in walk(reducer.result[part]))
            waiting += [k for k in read if k is not None]
    if len(needed) == len(e.source):
        return e
    kept = sorted(needed)

    def of(values: Any) -> tuple[Any, ...]:
        return tuple(values[k] for k in kept) if values else ()

    made = CommReducer(
        of(reducer.lhs), of(reducer.rhs), of(reducer.result), of(reducer.identity_element)
    )
    index = kept.index(e.value_index)
    return Reduce(made, of(e.source), e.axis, e.condition, index, of(e.init))


def canonical_simplify(analyzer: Analyzer, e: Any) -> Any:
    """`e` in normal form, its sums in TVM's order."""
    found = analyzer.simplify(e)
    kinds = {type(x) for x in walk(E.convert(e))}
    truncates = bool(kinds & {E.Div, E.Mod}) and not kinds & {*_FLOORED}
    return _Order(analyzer, truncates).of(found)
