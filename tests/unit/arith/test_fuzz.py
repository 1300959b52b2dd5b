"""Random expressions under random knowledge, against brute force."""

from __future__ import annotations

import random
from contextlib import ExitStack

import pytest

from tests.unit.arith.random_exprs import Maker, points_of, text, value
from tilewright.arith import Analyzer, IntervalSet, eval_set
from tilewright.loopir import expr as E
from tilewright.loopir.iter import Range

CASES = 160


class Setting:
    """Variables with ranges known to an analyzer, a constraint, and points where all that holds."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.analyzer = Analyzer()
        ranges = {}
        for name in "ijk"[: rng.randint(1, 3)]:
            low = rng.choice((0, 0, 0, 1, -3, -7, 4))
            size = rng.choice((2, 3, 4, 5, 8, 16, 17, 32, 40))
            var = E.Var(name)
            ranges[var] = (low, low + size - 1)
            if rng.random() < 0.9:
                self.analyzer.bind(var, Range.from_min_extent(low, size))
        symbolic = None
        if rng.random() < 0.5:
            n = E.SizeVar("n")
            ranges[n] = (0, 20)
            symbolic = E.Var("s")
            ranges[symbolic] = (0, 20)
            step = rng.choice((1, 1, 4, 8))
            self.analyzer.bind(symbolic, Range(0, n if step == 1 else (n + (step - 1)) // step))
        divisors: list[E.Var] = []
        if rng.random() < 0.3:
            divisors = [E.SizeVar("d")]
            ranges[divisors[0]] = (1, 6)
            if rng.random() < 0.3:
                self.analyzer.bind(divisors[0], Range(1, 7))
        points = points_of(ranges, rng, 60)
        if symbolic is not None:
            points = [p for p in points if p[symbolic] * step < p[n]]
        self.ranges = ranges
        self.maker = Maker(rng, [*ranges], divisors)
        self.constraints = []
        if rng.random() < 0.6:
            for _ in range(rng.randint(1, 2)):
                self.constraints.append(self.maker.condition(rng.randint(0, 2)))
        self.points = [p for p in points if all(value(c, p) for c in self.constraints)]

    def entered(self) -> ExitStack:
        stack = ExitStack()
        for c in self.constraints:
            stack.enter_context(self.analyzer.enter_constraint(c))
        return stack

    def describe(self, *exprs: object) -> str:
        known = {v.name: r for v, r in self.ranges.items()}
        return f"{known} under {[text(c) for c in self.constraints]}: {[text(e) for e in exprs]}"


@pytest.mark.parametrize("block", range(8))
def test_simplify_keeps_values(block: int) -> None:
    for seed in range(block * CASES, (block + 1) * CASES):
        s = Setting(seed)
        e = s.maker.integer(s.rng.randint(1, 4))
        with s.entered():
            r = s.analyzer.simplify(e)
            again = s.analyzer.simplify(r)
        for p in s.points:
            assert value(r, p) == value(e, p), f"seed {seed} {p} {s.describe(e, r)}"
            assert value(again, p) == value(e, p), f"seed {seed} {p} {s.describe(e, again)}"


@pytest.mark.parametrize("block", range(8))
def test_conditions_keep_values_and_proofs_are_true(block: int) -> None:
    for seed in range(block * CASES, (block + 1) * CASES):
        s = Setting(seed + 10**6)
        c = s.maker.condition(s.rng.randint(1, 3))
        with s.entered():
            r = s.analyzer.simplify(c)
            proved = s.analyzer.can_prove(c)
        for p in s.points:
            assert bool(value(r, p)) == bool(value(c, p)), f"seed {seed} {p} {s.describe(c, r)}"
            assert not proved or value(c, p), f"seed {seed} proved {p} {s.describe(c)}"


@pytest.mark.parametrize("block", range(8))
def test_bounds_and_residues_hold_all_values(block: int) -> None:
    for seed in range(block * CASES, (block + 1) * CASES):
        s = Setting(seed + 2 * 10**6)
        e = s.maker.integer(s.rng.randint(1, 4))
        with s.entered():
            bound = s.analyzer.const_int_bound(e)
            residue = s.analyzer.modular_set(e)
        for p in s.points:
            v = value(e, p)
            where = f"seed {seed} {p} {s.describe(e)}"
            assert bound.min_value <= v <= bound.max_value, f"{bound} {where}"
            gap = v - residue.base
            assert gap == 0 or (residue.coeff and gap % residue.coeff == 0), f"{residue} {where}"


@pytest.mark.parametrize("block", range(8))
def test_interval_sets_hold_all_values(block: int) -> None:
    for seed in range(block * CASES, (block + 1) * CASES):
        s = Setting(seed + 3 * 10**6)
        e = s.maker.integer(s.rng.randint(1, 4))
        moving = {v: r for v, r in s.ranges.items() if s.rng.random() < 0.5}
        moving = {v: r for v, r in moving.items() if v.name not in "nsd"}
        dom = {v: IntervalSet(low, high) for v, (low, high) in moving.items()}
        with s.entered():
            got = eval_set(e, dom, s.analyzer)
        for p in s.points:
            v = value(e, p)
            low = value(got.min_value, p) if got.has_lower_bound() else v
            high = value(got.max_value, p) if got.has_upper_bound() else v
            assert low <= v <= high, f"seed {seed} {p} {moving} {s.describe(e)} {got!r}"


@pytest.mark.parametrize("block", range(4))
def test_vectors_keep_values(block: int) -> None:
    for seed in range(block * CASES, (block + 1) * CASES):
        s = Setting(seed + 4 * 10**6)
        e = s.maker.vector(s.rng.randint(1, 2), s.rng.choice((2, 4)))
        if s.rng.random() < 0.3:
            e = s.maker.lane_condition(e, s.maker.vector(1, int(e.dtype[6:])))
        with s.entered():
            r = s.analyzer.simplify(e)
        assert r.dtype == e.dtype
        for p in s.points[:30]:
            assert value(r, p) == value(e, p), f"seed {seed} {p} {s.describe(e, r)}"
