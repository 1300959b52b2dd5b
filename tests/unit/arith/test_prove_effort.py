"""Questions whose goals multiply are given up after so many."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from tilewright.arith import Analyzer, decide
from tilewright.loopir import expr as E
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
