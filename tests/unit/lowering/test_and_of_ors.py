"""Conditions as conjunctions of disjunctions, and variables that keep their names."""

from __future__ import annotations

from itertools import product

import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.arith import Analyzer
from tilewright.ir import structural_equal
from tilewright.loopir import expr as E
from tilewright.loopir.operators import logical_not
from tilewright.lowering.and_of_ors import MOST, AndOfOrs
from tilewright.script import tir as T
from tilewright.tir.stmt_functor import substitute

A, B, C = (te.var(n, "bool") for n in "abc")
I = te.var("i")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (E.Or(A, E.And(B, C)), E.And(E.Or(A, B), E.Or(A, C))),
        (E.Or(E.And(A, B), C), E.And(E.Or(A, C), E.Or(B, C))),
        (
            E.And(E.Or(A, E.And(B, C)), E.Or(B, E.And(A, C))),
            E.And(E.And(E.Or(A, B), E.Or(A, C)), E.Or(B, C)),
        ),
        (E.And(A, E.Or(A, B)), A),
        (E.Or(E.LT(I, 3), E.And(E.LE(3, I), A)), E.Or(E.LT(I, 3), A)),
        (E.Not(E.And(A, E.Or(B, C))), E.And(E.Or(E.Not(A), E.Not(B)), E.Or(E.Not(A), E.Not(C)))),
        (E.LT(I, 3), E.LT(I, 3)),
    ],
)
def test_forms(given, wanted):
    found = AndOfOrs(Analyzer()).of(given)
    assert structural_equal(found, wanted), found


def test_values_stay():
    """For every choice of the variables the form has the value of the condition."""
    given = E.Or(E.And(A, logical_not(B)), E.And(E.Or(B, C), E.Or(E.Not(A), E.And(C, B))))
    found = AndOfOrs(Analyzer()).of(given)
    for values in product((False, True), repeat=3):
        there = {v: tir.const(x, "bool") for v, x in zip((A, B, C), values)}
        both = [Analyzer().simplify(substitute(e, there)).value for e in (given, found)]
        assert both[0] == both[1], values


def test_what_would_be_too_long_stays():
    pairs = [E.And(te.var(f"p{k}", "bool"), te.var(f"q{k}", "bool")) for k in range(8)]
    given: E.PrimExpr = pairs[0]
    for pair in pairs[1:]:
        given = E.Or(given, pair)
    assert 2 ** len(pairs) > MOST
    assert AndOfOrs(Analyzer()).of(given) is given


def test_the_option_of_the_pass():
    @T.prim_func(private=True)
    def before(a: T.Buffer((3,), "bool")):
        T.evaluate(a[0] or (a[1] and a[2]))

    @T.prim_func(private=True)
    def after(a: T.Buffer((3,), "bool")):
        T.evaluate((a[0] or a[1]) and (a[0] or a[2]))

    assert structural_equal(tir.transform.Simplify()(before), before)
    with tvm.transform.PassContext(
        config={"tir.Simplify": {"convert_boolean_to_and_of_ors": True}}
    ):
        assert structural_equal(tir.transform.Simplify()(before), after)


def test_variables_keep_their_names():
    @T.prim_func(private=True)
    def before(a: T.Buffer((16,), "int32")):
        for i in range(16):
            if i == 5:
                if i < 7:
                    a[i] = i + 0
            else:
                a[i] = T.if_then_else(i == 5, 1, i + 3 - 1)

    @T.prim_func(private=True)
    def after(a: T.Buffer((16,), "int32")):
        for i in range(16):
            if i == 5:
                a[i] = i
            else:
                a[i] = i + 2

    found = tir.transform.Simplify()(before)
    assert structural_equal(found, after), found
    analyzer = Analyzer()
    with analyzer.enter_constraint(E.EQ(I, 5)):
        assert analyzer.simplify(I).value == 5
        analyzer.keep_variables()
        assert analyzer.simplify(I + 0) is I
        assert analyzer.can_prove(E.LT(I, 6))


def test_buffers_that_nobody_needs_go():
    @T.prim_func(private=True)
    def before(a: T.Buffer((16,), "int32")):
        b = T.decl_buffer((16,), "int32")
        c = T.decl_buffer((4, 4), "int32", data=b.data)  # noqa: F841
        for i in range(16):
            a[i] = 3

    @T.prim_func(private=True)
    def after(a: T.Buffer((16,), "int32")):
        for i in range(16):
            a[i] = 3

    found = tir.transform.RemoveNoOp()(before)
    assert structural_equal(found, after), found

    @T.prim_func(private=True)
    def read(a: T.Buffer((16,), "int32")):
        b = T.decl_buffer((16,), "int32")
        b[0] = 1
        a[0] = b[0]

    assert structural_equal(tir.transform.RemoveNoOp()(read), read)
