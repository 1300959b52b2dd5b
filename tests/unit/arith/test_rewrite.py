"""Rules of `rewrite_simplify`: each holds for all integers, and gives the shape it names."""

from __future__ import annotations

import ast
import random
from typing import Any

import numpy as np
import pytest

from tests.narrow import as_a
from tests.unit.arith.random_exprs import Maker, value
from tilewright import te, tir
from tilewright.arith import Analyzer, Extension, ProofStrength
from tilewright.arith.rewrite import Rule, table
from tilewright.arith.rewrite_compare import RULES as COMPARE
from tilewright.arith.rewrite_rules import RULES
from tilewright.ir import structural_equal
from tilewright.loopir import expr as E
from tilewright.loopir import op

EVERY = [r for text in (RULES, COMPARE) for rules in table(text).values() for r in rules]
LANES = ("l", "c4")


def truncated(a: Any, b: Any) -> Any:
    quotient = np.abs(a) // np.abs(b)
    return np.where((np.asarray(a) < 0) != (np.asarray(b) < 0), -quotient, quotient)


def positive(*values: Any) -> bool:
    return all(np.all(np.asarray(v) >= 0) for v in values)


NAMES: dict[str, Any] = {
    "tdiv": truncated,
    "tmod": lambda a, b: a - truncated(a, b) * b,
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.abs,
    "Sel": lambda c, a, b: np.where(c, a, b),
    "ramp": lambda b, s, n: b + s * np.arange(n),
    "bc": lambda v, n: np.full(n, v),
    "And": np.logical_and,
    "Or": np.logical_or,
    "Not": np.logical_not,
    "nn": positive,
    "always": lambda *e: True,
    "whole": lambda e: True,
    "inr": lambda e, c: bool(np.all((np.asarray(e) >= 0) & (np.asarray(e) < c))),
    "same": lambda a, b: bool(np.all(a == b)),
}


def truths(sides: tuple[Any, ...]) -> set[str]:
    """The letters that stand where conditions do."""
    calls = [c for t in sides for c in ast.walk(t) if isinstance(c, ast.Call)]
    whole = [c for c in calls if as_a(ast.Name, c.func).id in ("And", "Or", "Not")]
    chosen = [c.args[0] for c in calls if as_a(ast.Name, c.func).id == "Sel"]
    found = [a for c in whole for a in c.args] + chosen
    return {a.id for a in found if isinstance(a, ast.Name)}


def holds(rule: Rule, rng: random.Random) -> bool | None:
    """Whether a rule holds at a random point; None where its condition does not, or a division is
    by zero."""
    code = [compile(ast.Expression(t), "rule", "eval") for t in (rule.left, rule.right)]
    sides = (rule.left, rule.right)
    letters = {n.id for t in sides for n in ast.walk(t) if isinstance(n, ast.Name)}
    most = rng.choice((3, 9, 40))
    point = {n: rng.randint(-most, most) for n in sorted(letters) if n not in NAMES}
    if "ramp" in rule.text or "bc" in rule.text:
        point.update({n: rng.randint(1, 5) for n in LANES if n in point})
    for name in ("c2", "c3"):  # multiples and negatives are what conditions ask for
        if {name, "c1"} <= point.keys() and rng.random() < 0.6:
            point[name] = rng.choice((1, -1, 2, 3, 0)) * point["c1"] + rng.choice((0, 0, -1, 1))
    if {"c1", "c2", "c3"} <= point.keys() and rng.random() < 0.4:
        point["c3"] = point["c1"] * point["c2"]
    for name in truths(sides) & point.keys():
        point[name] = bool(rng.randint(0, 1))
    try:
        with np.errstate(divide="raise", invalid="raise"):
            if rule.condition is not None and not eval(rule.condition, {}, {**NAMES, **point}):
                return None
            left, right = (eval(c, {}, {**NAMES, **point}) for c in code)
    except (ZeroDivisionError, FloatingPointError):
        return None
    return bool(np.all(np.asarray(left) == np.asarray(right)))


@pytest.mark.parametrize("rule", EVERY, ids=lambda r: r.text)
def test_rule_holds_for_integers(rule: Rule) -> None:
    rng = random.Random(rule.text)
    seen = 0
    for _ in range(6000):
        found = holds(rule, rng)
        assert found is not False, rule.text
        seen += found is True
        if seen == 150:
            return
    assert seen > 3, f"no point of {rule.text} was found"


def test_random_expressions_keep_their_values() -> None:
    rng = random.Random(5)
    variables = [E.Var(n) for n in "abc"]
    maker = Maker(rng, variables)
    changed = 0
    for _ in range(400):
        e = maker.integer(4) if rng.random() < 0.8 else maker.condition(3)
        found = Analyzer().rewrite_simplify(e)
        changed += not structural_equal(e, found)
        for _ in range(12):
            point = {v: rng.randint(-9, 9) for v in variables}
            try:
                wanted = value(e, point)
            except ZeroDivisionError:
                continue
            assert value(found, point) == wanted, f"{e} became {found} at {point}"
    assert changed > 100


x, y, z = E.Var("x"), E.Var("y"), E.Var("z")
C, D = E.Var("C", "bool"), E.Var("D", "bool")
CASES = [
    (x + (y - x), y),
    (x * y + x * 10, x * (y + 10)),
    (op.max(0, 1 - x * 4) + x * 4, op.max(x * 4, 1)),
    (x + 10 - 20, E.Add(x, E.const(-10))),
    (op.floordiv(x * 8 + 39, 16), op.floordiv(x, 2) + 2),
    (op.truncmod(y + z, 5) + op.truncdiv(y + z, 5) * 5, E.Add(y, z)),
    (E.Ramp(x, 1, 4) + E.Ramp(y, 2, 4), E.Ramp(x + y, 3, 4)),
    (x > y, E.LT(y, x)),
    (x * 2 >= -3, E.LE(E.const(-1), x)),
    (op.all(op.floordiv(x, 8) == 3, op.floormod(x, 8) == 4), E.EQ(x, E.const(28))),
    (op.min(op.max(x, y), op.max(z, x)), op.max(op.min(y, z), x)),
    (E.Select(x < 0, y, z) - z, E.Select(x < 0, y - z, 0)),
    (E.Not(E.Not(C)), C),
    (E.And(C, E.And(D, C)), E.And(D, C)),
    (E.Or(E.Or(C, D), C), E.Or(C, D)),
]


@pytest.mark.parametrize(("before", "after"), CASES, ids=[str(c[0]) for c in CASES])
def test_shape(before: Any, after: Any) -> None:
    found = Analyzer().rewrite_simplify(before)
    assert structural_equal(found, after), found


def test_what_an_analyzer_is_told() -> None:
    ana = Analyzer()
    assert ana.enabled_extensions == Extension.NoExtensions
    ana.enabled_extensions = Extension.TransitivelyProveInequalities
    assert ana.enabled_extensions == Extension.TransitivelyProveInequalities
    with ana.constraint_scope(x >= 0):
        assert ana.can_prove(x + 1 > 0, ProofStrength.SYMBOLIC_BOUND)
        assert str(ana.rewrite_simplify(op.truncdiv(x * 4 + 2, 2))) == "x * 2 + 1"
    assert not ana.can_prove(x + 1 > 0)
    data = E.Cast("int32", E.Var("f", "float32"))
    assert str(ana.rewrite_simplify(data - data + 0)) in ("0", str(ana.simplify(data - data)))


def test_the_opposite_of_a_comparison() -> None:
    analyzer = Analyzer()
    a, b, f = E.Var("a"), E.Var("b"), E.Var("f", "float32")
    for before, after in (
        (E.Not(a < b), b <= a),
        (E.Not(a <= b), b < a),
        (E.Not(a.equal(b)), E.NE(a, b)),
        (E.Not(op.all(a < b, E.NE(a, 3))), op.any(b <= a, a.equal(3))),
    ):
        assert structural_equal(analyzer.rewrite_simplify(before), after)
    of_nan = E.Not(f < 1.0)  # true of NaN, unlike 1.0 <= f
    assert structural_equal(analyzer.rewrite_simplify(of_nan), of_nan)


@pytest.mark.parametrize("way", ["simplify", "canonical_simplify", "rewrite_simplify"])
def test_reductions_know_the_domains_of_their_axes(way: str) -> None:
    k, j = te.reduce_axis((0, 10), "k"), te.reduce_axis((-5, 3), "j")
    both = k.var + j.var
    total = te.sum(tir.Select(both < 12, both, 0), [k, j])
    made = getattr(Analyzer(), way)(total)
    assert structural_equal(made, te.sum(both, [k, j]))
    less = te.sum(tir.Select(both < 11, both, 0), [k, j])  # 9 + 2 is not below 11
    assert structural_equal(getattr(Analyzer(), way)(less), less)


def test_vectors_that_climb_alike_are_compared_by_their_beginnings() -> None:
    a, b = te.var("a"), te.var("b")
    low, high = E.Ramp(a, 2, 4), E.Ramp(b, 2, 4)
    for kind in (E.LT, E.LE):
        found = Analyzer().rewrite_simplify(kind(low, high))
        assert structural_equal(found, E.Broadcast(kind(a, b), 4)), found
    steeper = E.LT(low, E.Ramp(b, 3, 4))
    assert structural_equal(Analyzer().rewrite_simplify(steeper), steeper)
