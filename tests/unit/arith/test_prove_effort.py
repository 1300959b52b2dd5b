"""Questions whose goals multiply are given up after so many."""

from __future__ import annotations

from functools import reduce
from itertools import product
from typing import Any

import pytest

from tilewright.arith import Analyzer, decide, prove
from tilewright.arith import analyzer as analyzer_module
from tilewright.arith.assume import assume
from tilewright.arith.forms import MulAtom
from tilewright.arith.simplify import cmp
from tilewright.loopir import expr as E
from tilewright.loopir.iter import Range
from tilewright.loopir.operators import logical_and, logical_or


def variables(name: str, count: int) -> list[E.Var]:
    return [E.Var(f"{name}{k}", "int32") for k in range(count)]


@pytest.mark.parametrize("parts", [4, 8])
def test_unproved_disjunctions_under_others(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    holds = decide.condition_holds

    def asking(context: Any, goal: Any, *rest: Any) -> Any:
        asked.append(goal)
        return holds(context, goal, *rest)

    monkeypatch.setattr(decide, "condition_holds", asking)
    x, y, z = (variables(name, parts) for name in "xyz")
    analyzer = Analyzer()
    with (
        analyzer.enter_constraint(logical_or(x[0] < 3, y[0] < 4)),
        analyzer.enter_constraint(logical_or(x[1] < 5, y[1] < 6)),
    ):
        goal = reduce(logical_or, [logical_and(a < b, b < c) for a, b, c in zip(x, y, z)])
        assert not decide.condition_holds(analyzer.context, goal)
        # each goal that is raised after the last one is given up at once
        assert decide.MAX_GOALS <= len(asked) < 5 * decide.MAX_GOALS
        # a new question has all the effort again
        assert analyzer.can_prove(logical_or(x[2] < 7, logical_or(y[2] < 0, x[2] >= 7)))


def test_disjunctions_are_still_proved_by_cases() -> None:
    a, b, c = variables("v", 3)
    analyzer = Analyzer()
    with (
        analyzer.enter_constraint(logical_or(a < 3, b < 4)),
        analyzer.enter_constraint(logical_or(c < 1, b < 2)),
    ):
        assert analyzer.can_prove(logical_or(a < 5, logical_or(b < 4, c < 9)))


def test_the_same_question_is_searched_once_until_more_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches = 0
    search = prove.Search.__init__

    def count(self: Any, *args: Any) -> None:
        nonlocal searches
        searches += 1
        search(self, *args)

    monkeypatch.setattr(prove.Search, "__init__", count)
    n, m, k = (E.SizeVar(x) for x in "nmk")
    assert not Analyzer().can_prove_less_equal(n * m, n * k)
    assert searches == 0  # a sample says so
    monkeypatch.setattr(prove, "is_refuted", lambda *question: False)
    analyzer = Analyzer()
    for _ in range(2):  # a new expression each time
        assert not analyzer.can_prove_less_equal(n * m, n * k)
    assert searches == 1
    with analyzer.enter_constraint(m <= k):
        assert analyzer.can_prove_less_equal(n * m, n * k)
    searches = 0
    assert not analyzer.can_prove_less_equal(n * m, n * k)  # what was known is known no more
    assert searches == 0
    analyzer.bind(k, Range(m, m + 5))
    assert analyzer.can_prove_less_equal(n * m, n * k)


def test_facts_of_an_atom_stay_as_they_are() -> None:
    """The facts of a factor are those of a product's, multiplied: who multiplies adds none."""
    n, m, i = E.SizeVar("n"), E.SizeVar("m"), E.Var("i")
    ctx = Analyzer().context
    form = ctx.lin(n * (i // m))
    search = prove.Search(ctx, form, 10)
    (atom,) = form.terms
    assert isinstance(atom, MulAtom)
    before = [len(search.facts(f, 1)) for f in atom.factors]
    search.facts(atom, 1)
    assert [len(search.facts(f, 1)) for f in atom.factors] == before


@pytest.mark.parametrize("kind", [E.LT, E.LE, E.EQ, E.NE])
def test_what_holds_is_what_is_decided_to_be_true(kind: Any) -> None:
    n, i, j = E.SizeVar("n"), E.Var("i"), E.Var("j")
    analyzer = Analyzer()
    analyzer.bind(i, Range(0, n))
    analyzer.bind(j, Range(2, 3))
    sides = [i, n, j, E.const(0), i * 2 + 1, i * 2, n * n, i * n + j, n - i, i // 4, E.const(3)]
    answers = set()
    for a, b in product(sides, repeat=2):
        x, y = analyzer.context.lin(E.convert(a)), analyzer.context.lin(E.convert(b))
        known = cmp.decide(analyzer.context, kind, x, y)
        assert cmp.holds(analyzer.context, kind, x, y) is (known is True)
        answers.add(known)
    assert answers == {True, False, None}


def test_conditions_are_learned_when_something_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[Any] = []

    def learning(context: Any, cond: Any) -> None:
        learned.append(cond)
        assume(context, cond)

    monkeypatch.setattr(analyzer_module, "assume", learning)
    i, n = E.Var("i"), E.SizeVar("n")
    analyzer = Analyzer()
    with analyzer.enter_constraint(i < n):
        with analyzer.enter_constraint(i > 4):
            analyzer.bind(E.Var("j"), Range(0, n))
        assert not learned
        assert analyzer.can_prove(i + 1 <= n) and not analyzer.can_prove(i > 4)
        assert len(learned) == 1
        with analyzer.enter_constraint(i > 4):
            assert analyzer.can_prove(i >= 5) and len(learned) == 2
        assert not analyzer.can_prove(i >= 5)
    assert not analyzer.can_prove(i + 1 <= n)
