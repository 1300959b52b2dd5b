"""One analyzer through a random walk of scopes: what it remembers must fit the place."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.unit.arith.random_exprs import Maker, points_of, text, value
from tilewright.arith import Analyzer
from tilewright.loopir import expr as E
from tilewright.loopir.iter import Range
from tilewright.loopir.operators import logical_not
from tilewright.loopir.visit import uses_var


class Walk:
    """Enters loops and conditions at random, and asks the same questions at every depth."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.analyzer = Analyzer()
        self.n, self.i, self.j = E.SizeVar("n"), E.Var("i"), E.Var("j")
        ranges = {self.n: (0, 9), self.i: (0, 9), self.j: (-2, 5)}
        self.maker = Maker(self.rng, list(ranges))
        self.questions: list[Any] = [self.maker.integer(2) for _ in range(3)]
        self.questions += [self.maker.condition(1) for _ in range(3)]
        self.points = points_of(ranges, self.rng, 150)

    def ask(self, points: list[Any]) -> None:
        for e in self.rng.sample(self.questions, 3):
            r = self.analyzer.simplify(e)
            proved = e.dtype == "bool" and self.analyzer.can_prove(e)
            for p in points:
                where = f"seed {self.seed} {p} {text(e)} -> {text(r)}"
                assert value(r, p) == value(e, p), where
                assert not proved or value(e, p), where

    def enter(self, depth: int, points: list[Any], loops: list[Any]) -> None:
        self.ask(points)
        if depth == 0:
            return
        for _ in range(self.rng.randint(1, 2)):
            if loops and self.rng.random() < 0.5:
                var, bound, inside = loops[0]
                self.analyzer.bind(var, bound)
                self.enter(depth - 1, [p for p in points if inside(p)], loops[1:])
                # the loop ends: nothing may be concluded from it for questions without its variable
                self.questions_without(var, points)
                return
            cond = self.maker.condition(1)
            for c in (cond, logical_not(cond)):
                with self.analyzer.enter_constraint(c):
                    self.enter(depth - 1, [p for p in points if value(c, p)], loops)
            self.ask(points)

    def questions_without(self, var: E.Var, points: list[Any]) -> None:
        others = [v for v in (self.n, self.j) if v is not var]
        maker = Maker(self.rng, others)
        self.questions = [maker.integer(2), maker.condition(1), maker.condition(1)]
        self.ask(points)


@pytest.mark.parametrize("block", range(4))
def test_scopes(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        w = Walk(seed)
        w.analyzer.bind(w.j, Range.from_min_extent(-2, 8))
        # the loop is asked about only after it is bound: its variable has no value before
        w.questions = [q for q in w.questions if not _uses(q, w.i)] or [w.n + w.j] * 3
        w.questions = (w.questions * 3)[:6]
        loop = (w.i, Range(0, w.n), lambda p, w=w: p[w.i] < p[w.n])
        w.maker = Maker(w.rng, [w.n, w.j])
        w.enter(3, w.points, [loop])


def _uses(e: Any, var: E.Var) -> bool:
    return uses_var(e, lambda v: v is var)


@pytest.mark.parametrize("block", range(2))
def test_inside_a_loop_that_may_be_empty(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        w = Walk(seed)
        w.analyzer.bind(w.i, Range(0, w.n))
        w.analyzer.bind(w.j, Range.from_min_extent(-2, 8))
        inside = [p for p in w.points if p[w.i] < p[w.n]]
        w.enter(2, inside, [])
        # after the loop its limit is as unknown as before
        maker = Maker(w.rng, [w.n, w.j])
        for _ in range(4):
            c = maker.condition(1)
            r, proved = w.analyzer.simplify(c), w.analyzer.can_prove(c)
            for p in w.points:
                assert bool(value(r, p)) == bool(value(c, p)), f"seed {seed} {p} {text(c)}"
                assert not proved or value(c, p), f"seed {seed} {p} {text(c)}"
