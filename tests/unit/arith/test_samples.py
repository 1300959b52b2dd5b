"""Samples: points where all that is known holds, and what is false there is not proved."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.assume import learn
from tilewright.arith.forms import Lin, combined
from tilewright.arith.prove import PROOF_STEPS, Search
from tilewright.arith.samples import is_refuted
from tilewright.loopir import expr as E
from tilewright.loopir.iter import Range


def var(name: str) -> E.Var:
    return E.Var(name, "int32")


def refuted(analyzer: Analyzer, low: Any, high: Any) -> bool:
    """Whether low <= high is."""
    ctx = analyzer.context
    return is_refuted(ctx, combined(ctx.lin(E.convert(high)), -1, ctx.lin(E.convert(low))))


def test_what_holds_is_not_refuted_and_what_may_not_is() -> None:
    analyzer, n, i, j = Analyzer(), var("n"), var("i"), var("j")
    analyzer.bind(i, Range.from_min_extent(0, n))
    analyzer.bind(j, Range.from_min_extent(0, 4))
    assert not refuted(analyzer, i * 4 + j, n * 4 - 1)
    assert refuted(analyzer, i * 4 + j, n * 4 - 2)
    assert refuted(analyzer, n, 5)
    assert not refuted(analyzer, E.FloorMod(i * 3 + j, E.const(8)), 7)
    assert refuted(analyzer, E.FloorMod(i * 3 + j, E.const(8)), 2)


def test_conditions_hold_within_their_place_alone() -> None:
    analyzer, n, m = Analyzer(), var("n"), var("m")
    assert refuted(analyzer, n * 37, m)
    with analyzer.enter_constraint(n * 37 <= m):
        assert not refuted(analyzer, n * 37, m)
        assert refuted(analyzer, n * 37, m - 1)
    assert refuted(analyzer, n * 37, m)


def test_a_place_that_is_never_reached_refutes_nothing() -> None:
    analyzer, n, m = Analyzer(), var("n"), var("m")
    ctx = analyzer.context
    gap = combined(ctx.lin(m), -1, ctx.lin(n * 2))
    learn(ctx, Lin(gap.terms, gap.const - 1))
    assert refuted(analyzer, n, m - 1)
    learn(ctx, combined(Lin({}, -1), -1, gap))
    assert not refuted(analyzer, n, m - 1)


def test_selections_are_left_to_proofs() -> None:
    analyzer, n = Analyzer(), var("n")
    value = E.Select(n < 5, E.const(1), E.const(2))
    assert not refuted(analyzer, value, 0)
    assert analyzer.can_prove(value <= 2)


def _term(draw: random.Random, variables: list[E.Var], depth: int = 2) -> Any:
    if not depth or draw.random() < 0.3:
        return draw.choice(variables) * draw.choice((-3, -1, 1, 2, 4))
    a, b = _term(draw, variables, depth - 1), _term(draw, variables, depth - 1)
    kind = draw.choice((E.Add, E.Sub, E.Min, E.Max, E.FloorDiv, E.FloorMod, E.Mul))
    divides = kind in (E.FloorDiv, E.FloorMod)
    return kind(a, E.const(draw.choice((2, 3, 8)))) if divides else kind(a, b)


@pytest.mark.parametrize("seed", range(8))
def test_nothing_that_has_a_proof_is_refuted(seed: int) -> None:
    draw, told = random.Random(seed), 0
    for _ in range(25):
        analyzer = Analyzer()
        n, m, i, j = variables = [var(x) for x in "nmij"]
        analyzer.bind(i, Range.from_min_extent(0, n))
        analyzer.bind(j, Range.from_min_extent(draw.choice((0, 3)), draw.choice((n, m, 16))))
        a, b = _term(draw, variables), _term(draw, variables)
        with analyzer.enter_constraint(a <= b), analyzer.enter_constraint(n > 0):
            ctx = analyzer.context
            for _ in range(4):
                c, d = _term(draw, variables), _term(draw, variables)
                gap = combined(ctx.lin(d), -1, ctx.lin(c))
                # what is known, and forms near it: most of what is drawn has no proof
                known = combined(ctx.lin(b), -1, ctx.lin(a))
                for form in (gap, known, Lin(known.terms, known.const - 1)):
                    no = is_refuted(ctx, form)
                    told += no
                    assert not no or not Search(ctx, form, PROOF_STEPS).proves(form, 8), form.terms
    assert told > 50, "too few are refuted to say anything"
