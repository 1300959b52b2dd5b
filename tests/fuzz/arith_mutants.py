"""Mistakes seeded into the simplifier: the arithmetic fuzzer must catch each.

`python -m tests.fuzz.arith --mutants --cases 5000` runs each against up to so many expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tests.fuzz.arith import run
from tilewright.arith import forms, interval, modular, prove, wrap
from tilewright.arith.forms import Lin, combined, constant
from tilewright.arith.simplify import add, cmp, divmod, minmax, mul, table
from tilewright.loopir import expr as E
from tilewright.loopir import fold
from tilewright.lowering import lower_division


@contextmanager
def _replaced(places: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """One function replaced in every module that has it."""
    places = places if isinstance(places, tuple) else (places,)
    patches = [patch.object(p, name, make(getattr(p, name))) for p in places]
    for p in patches:
        p.start()
    try:
        yield
    finally:
        for p in patches:
            p.stop()


def data_never_wraps() -> Any:
    """All forms count as fitting their type, as if data did not wrap."""
    everywhere = (wrap, add, cmp, minmax)
    return _replaced(everywhere, "fits", lambda old: lambda ctx, x, dtype: True)


def operands_need_not_fit() -> Any:
    """Rules divide forms of data that may have wrapped."""
    return _replaced(divmod, "fitting", lambda old: lambda ctx, x, dtype: x)


def minima_need_not_fit() -> Any:
    """Common terms leave a minimum though what stays may not fit."""
    return _replaced(minmax, "fits", lambda old: lambda ctx, x, dtype: True)


def comparisons_need_not_fit() -> Any:
    """Common terms leave a comparison though what stays may not fit."""
    return _replaced(cmp, "fits", lambda old: lambda ctx, x, dtype: True)


def products_do_not_wrap() -> Any:
    """A product of data is taken for its exact value."""
    return _replaced(mul, "in_type", lambda old: lambda ctx, x, dtype: x)


def divisor_is_never_zero() -> Any:
    """Data is divided by data as if that were not zero."""
    return _replaced(divmod, "_divisible", lambda old: lambda ctx, x, y: None)


def quotient_of_negated() -> Any:
    """(-x) // c is taken for -(x // c)."""

    def make(old: Any) -> Any:
        def wrong(ctx: Any, x: Lin, c: int, dtype: str) -> Lin:
            if all(k < 0 for k in x.terms.values()) and not x.const:
                inner = old(ctx, combined(constant(0), -1, x), c, dtype)
                return combined(constant(0), -1, inner)
            return old(ctx, x, c, dtype)

        return wrong

    return _replaced(divmod, "_rest_quotient", make)


def digits_join_too_soon() -> Any:
    """x // c * c + x % d becomes x for any d."""

    def make(old: Any) -> Any:
        def wrong(ctx: Any, terms: Any, const: int, p: Any, q: Any) -> Any:
            kp, kq = terms[p], terms[q]
            if p.upper and not q.upper and p.lower == 1 and kq == kp * q.lower:
                return add._replace(ctx, terms, const, p, q, add._Digit(p, 1, 0, kp))
            return old(ctx, terms, const, p, q)

        return wrong

    return _replaced(add, "_join", make)


def carry_of_any_step() -> Any:
    """(x + d)//c - x//c loses what d is more than c."""

    def make(old: Any) -> Any:
        def wrong(ctx: Any, terms: Any, const: int, p: Any, q: Any) -> Any:
            found = old(ctx, terms, const, p, q)
            return (found[0], found[1] + 1) if found is not None else None

        return wrong

    return _replaced(add, "_carry", make)


def strict_is_not_strict() -> Any:
    """x < y is decided like x <= y."""

    def make(old: Any) -> Any:
        def wrong(ctx: Any, cls: Any, x: Any, y: Any, *rest: Any) -> Any:
            return old(ctx, E.LE if cls is E.LT else cls, x, y, *rest)

        return wrong

    return _replaced(cmp, "decide", make)


def factor_rounded_up() -> Any:
    """A comparison divided by a common factor rounds its constant the wrong way."""

    def make(old: Any) -> Any:
        def wrong(ctx: Any, cls: Any, x: Lin, y: Lin, dtype: str) -> Any:
            return old(ctx, E.LE if cls is E.LT else cls, x, y, dtype)

        return wrong

    return _replaced(cmp, "_rebuilt", make)


def bound_of_remainder() -> Any:
    """The largest remainder by c is taken to be c - 2."""

    def make(old: Any) -> Any:
        def wrong(x: Any, lower: int, upper: int) -> Any:
            low, high = old(x, lower, upper)
            return (low, high - 1) if upper > 2 and high > low else (low, high)

        return wrong

    return _replaced(interval, "split_bound", make)


def residue_survives_wrapping() -> Any:
    """x*3 modulo 2^bits is taken for a multiple of 3."""
    return _replaced(modular, "_wrapped", lambda old: lambda x, dtype: x)


def truncated_like_floored() -> Any:
    """Division towards zero is taken for division rounded down."""

    def make(old: Any) -> Any:
        def wrong(ctx: Any, e: Any) -> Any:
            divide = divmod.divide if type(e) is E.Div else divmod.modulo
            return divide(ctx, ctx.lin(e.a), ctx.lin(e.b), e.dtype)

        return wrong

    @contextmanager
    def swapped() -> Iterator[None]:
        rules = {k: make(table.LIN_RULES[k]) for k in (E.Div, E.Mod)}
        with patch.dict(table.LIN_RULES, rules):
            yield

    return swapped()


def narrowing_keeps_values() -> Any:
    """int32(x) is x, whatever x is."""
    return _replaced(table, "_fits_int32", lambda old: lambda ctx, x: True)


def constants_truncated() -> Any:
    """Constants divided rounding down are divided rounding to zero."""

    def make(old: Any) -> Any:
        def wrong(op: str, dtype: str, a: int, b: int) -> Any:
            return old({"floordiv": "div", "floormod": "mod"}.get(op, op), dtype, a, b)

        return wrong

    return _replaced(fold, "_fold_int", make)


def sums_of_data_not_negative() -> Any:
    """A sum of data that is not negative is taken not to be negative."""
    return _replaced(lower_division, "is_data", lambda old: lambda e, lets=(): False)


def minimum_for_maximum() -> Any:
    """A minimum is known to be at least both of its sides."""

    def make(old: Any) -> Any:
        return {**old, forms.MinAtom: old[forms.MaxAtom]}

    return _replaced(prove, "ATOM_FACTS", make)


MUTANTS = (
    data_never_wraps,
    operands_need_not_fit,
    minima_need_not_fit,
    comparisons_need_not_fit,
    products_do_not_wrap,
    divisor_is_never_zero,
    quotient_of_negated,
    digits_join_too_soon,
    carry_of_any_step,
    strict_is_not_strict,
    factor_rounded_up,
    bound_of_remainder,
    residue_survives_wrapping,
    truncated_like_floored,
    narrowing_keeps_values,
    constants_truncated,
    sums_of_data_not_negative,
    minimum_for_maximum,
)


def survivors(cases: int, seed: int) -> list[str]:
    """The mutants that so many expressions do not catch; prints how many each one took."""
    left = []
    for mutant in MUTANTS:
        with mutant():
            done, failures = run(cases, seed, 1, shrink=False)
        name = mutant.__name__
        print(f"{name}: caught after {done}" if failures else f"{name}: not caught", flush=True)
        if not failures:
            left.append(name)
    return left
