"""The order of sums that `Analyzer.canonical_simplify` gives: what `simplify` gives, with the terms
that are added first, then a constant above 0, then the terms that are subtracted, and a constant
below 0 last. Programs that divide rounding towards zero alone get such divisions back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.deep import Recursive
from ..loopir import expr as E
from ..loopir.iter import CommReducer, Reduce
from ..loopir.visit import free_vars, walk

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
    result = _Order(analyzer, truncates).of(found)
    if truncates and (other := _as_above_zero(analyzer, result)) is not None:
        return other
    return result


def _as_above_zero(analyzer: Analyzer, e: Any) -> Any:
    """The normal form of truncated divisions of one variable of any sign. Where all operations are
    odd functions, f(-x) = -f(x), what holds of the variable from 0 on holds of all its values."""
    variables = free_vars(e)
    if len(variables) != 1 or not _is_odd(e) or not {E.Div, E.Mod} & {type(x) for x in walk(e)}:
        return None
    with analyzer.constraint_scope(variables[0] >= 0):
        found = _Order(analyzer, True).of(analyzer.simplify(e))
    return found if _is_odd(found) else None


def _is_odd(e: Any) -> bool:
    """Whether -1 times all variables is -1 times the value: sums, products with numbers, quotients
    and remainders by numbers, rounded towards zero."""
    stack = [e]
    while stack:
        x = stack.pop()
        if type(x) in (E.Add, E.Sub):
            stack += [x.a, x.b]
        elif type(x) is E.Mul:
            parts = [y for y in (x.a, x.b) if E.const_int(y) is None]
            if len(parts) != 1:
                return False
            stack += parts
        elif type(x) in (E.Div, E.Mod):
            if not E.const_int(x.b):
                return False
            stack.append(x.a)
        elif type(x) is not E.Var and E.const_int(x) != 0:
            return False
    return True
