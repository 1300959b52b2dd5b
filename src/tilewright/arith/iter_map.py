"""Index maps as sums of digits (digits.py), and their inverses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.deep import deep_call
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.iter import IterVar, Range
from ..loopir.subst import substitute
from .analyzer import Analyzer
from .digits import IterMapError, IterMark, IterSum, Reader, check_digits, in_radix
from .linear import detect_linear_equation
from .smith import smith_normal_form


class IterMapResult:
    """What `detect_iter_map` found: one IterSum an index, or errors and no indices."""

    __slots__ = ("errors", "indices", "padded")

    def __init__(self, indices: list[IterSum], errors: list[str], padded: bool) -> None:
        self.indices = indices
        self.errors = errors
        self.padded = padded


def detect_iter_map(
    indices: Sequence[Any],
    input_iters: Mapping[Any, Range],
    predicate: Any = True,
    check_level: str = "bijective",
    analyzer: Analyzer | None = None,
) -> IterMapResult:
    """Read `indices` over iterators with known ranges as sums of digits.

    `check_level` "injective" asks that every digit of every iterator is used once, "bijective" also
    that each index runs through a whole interval; "none" allows unused digits. `padded` says that
    extents do not divide, so that the indices have room for more than the iterators' values.
    """
    analyzer = analyzer or Analyzer()
    ranges = {(k.var if isinstance(k, IterVar) else k): r for k, r in input_iters.items()}
    for var, r in ranges.items():
        analyzer.bind(var, r)

    def work(analyzer: Analyzer) -> IterMapResult:
        errors: list[str] = []
        with analyzer.enter_constraint(predicate):
            # simplified first: this takes apart what moves on its own. As written where that fails,
            # with divided sums taken apart where possible, or kept whole everywhere
            for prepare, whole in (
                (analyzer.simplify, False),
                (E.convert, False),
                (E.convert, True),
            ):
                reader = Reader(ranges, analyzer, whole)
                try:
                    sums = [reader.sum(prepare(e)) for e in indices]
                    padded = check_digits(sums, reader.marks, check_level)
                    return IterMapResult(sums, [], padded)
                except IterMapError as error:
                    errors.append(str(error))
        return IterMapResult([], errors, False)

    return deep_call(work, analyzer)


def inverse_affine_iter_map(
    iter_map: Sequence[IterSum], outputs: Sequence[Any], analyzer: Analyzer | None = None
) -> dict[E.Var, E.PrimExpr]:
    """Each input variable as an expression of the values `outputs` of the sums.

    The sums must be those of a bijective `detect_iter_map` (or an injective one: then the result
    holds for values that the map takes).
    """
    analyzer = analyzer or Analyzer()
    values: dict[int, tuple[IterMark, E.PrimExpr]] = {}
    for s, y in zip(iter_map, outputs, strict=True):
        _take_apart(s, E.convert(y), values)
    result: dict[E.Var, E.PrimExpr] = {}
    while values:
        key = _next_known(values)
        mark, value = values.pop(key)
        if isinstance(mark.source, E.Var):
            result[mark.source] = analyzer.simplify(value + mark.first)
        else:
            _take_apart(mark.source, value, values)
    return result


def _next_known(values: Mapping[int, tuple[IterMark, E.PrimExpr]]) -> int:
    """A mark all of whose digits are known: one that no pending fused mark still feeds."""
    fed: set[int] = set()
    for mark, _ in values.values():
        stack = [mark.source]
        while stack:
            source = stack.pop()
            if isinstance(source, IterSum):
                for d in source.args:
                    fed.add(id(d.mark))
                    stack.append(d.mark.source)
    return next(k for k in values if k not in fed)


def _take_apart(s: IterSum, y: E.PrimExpr, values: dict[int, tuple[IterMark, E.PrimExpr]]) -> None:
    """Add to each mark's value what the digits in `s` say of it, for s = y."""
    digits = in_radix(s.args) or []
    rest: Any = y - s.base
    for d in digits:
        if d.scale < 0:
            rest = rest - d.scale * ((d.extent or 1) - 1)
    for i, d in enumerate(digits):
        digit: Any = rest
        for higher in reversed(digits[i + 1 :]):  # whose scales may not divide each other
            digit = digit % abs(higher.scale)
        digit = digit // abs(d.scale)
        if d.scale < 0:
            digit = (d.extent or 1) - 1 - digit
        mark, value = values.get(id(d.mark), (d.mark, E.const(0, y.dtype)))
        values[id(d.mark)] = (mark, value + digit * d.lower)


def inverse_index_map(
    variables: Sequence[E.Var],
    ranges: Mapping[E.Var, Range],
    forward: Sequence[Any],
    new_variables: Sequence[E.Var],
    extents: Sequence[Any],
) -> list[E.PrimExpr]:
    """Each of `variables` in terms of `new_variables`, where these are the values of `forward`.

    The map has to be injective over `ranges`; new indices that it does not take (padding, gaps) are
    mapped anywhere. `extents` are those of the new indices. Raises TilewrightError with the reason.
    """
    result = detect_iter_map(forward, ranges, check_level="injective")
    if result.errors:
        linear = _inverse_linear(variables, ranges, forward, new_variables)
        if linear is None:
            raise TilewrightError(result.errors[0])
        return linear
    analyzer = Analyzer()
    for v, extent in zip(new_variables, extents, strict=True):
        analyzer.bind(v, Range.from_min_extent(E.const(0, v.dtype), extent))
    found = inverse_affine_iter_map(result.indices, new_variables, analyzer)
    return [found[v] if v in found else analyzer.simplify(ranges[v].min) for v in variables]


def _inverse_linear(
    variables: Sequence[E.Var],
    ranges: Mapping[E.Var, Range],
    forward: Sequence[Any],
    new_variables: Sequence[E.Var],
) -> list[E.PrimExpr] | None:
    """The inverse of a linear map with constant coefficients, as skews are; None where `forward` is
    none, or takes two points to one: with U M V = D in Smith normal form, x = V (U (y - b) / D).

    A variable of one value is no unknown: `forward`, simplified, may not even mention it.
    """
    analyzer = Analyzer()
    known = {v: ranges[v].min for v in variables if E.const_int(ranges[v].extent) == 1}
    unknown = [v for v in variables if v not in known]
    if not unknown:
        return [known[v] for v in variables]
    rows = [detect_linear_equation(substitute(e, known), unknown, analyzer) for e in forward]
    matrix = [[E.const_int(c) for c in row[:-1]] for row in rows]
    if not matrix or any(not row or None in row for row in matrix):
        return None
    u, d, v = smith_normal_form([[c or 0 for c in row] for row in matrix])
    count = len(unknown)
    if len(matrix) < count or any(d[k][k] == 0 for k in range(count)):
        return None
    moved = [y - row[-1] for y, row in zip(new_variables, rows)]
    digits = [_sum(u[k], moved) // d[k][k] for k in range(count)]
    found = {x: analyzer.simplify(_sum(v[k], digits)) for k, x in enumerate(unknown)}
    return [found[x] if x in found else known[x] for x in variables]


def _sum(factors: Sequence[int], terms: Sequence[Any]) -> Any:
    total: Any = E.const(0, terms[0].dtype)
    for k, x in zip(factors, terms):
        total = total + x * k
    return total
