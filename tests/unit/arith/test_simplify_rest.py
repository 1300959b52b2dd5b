"""The simplifier on nodes that are no index arithmetic: what may change, and what may not."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import te
from tilewright.arith import Analyzer, ConstIntBound, IntervalSet, ModularSet
from tilewright.ir import structural_equal
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.expr import (
    EQ,
    GE,
    LE,
    LT,
    NE,
    And,
    Broadcast,
    BufferLoad,
    Call,
    FloatImm,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
    cast,
    const,
)
from tilewright.loopir.iter import Range
from tilewright.loopir.visit import walk

x, y = Var("x"), Var("y")
f, g = Var("f", "float32"), Var("g", "float32")
b, c = Var("b", "bool"), Var("c", "bool")
u, v = Var("u", "uint8"), Var("v", "uint8")
A = decl_buffer((64,), name="A")
table = decl_buffer((64,), "int32", name="table")
vb = Var("vb", "boolx4")


def lanes(value: Any) -> Broadcast:
    return Broadcast(value, 4)


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (Sub(u, u), "T.uint8(0)"),
        (Mul(const(0, "uint8"), u), "T.uint8(0)"),
        (u * const(1, "uint8") + const(0, "uint8"), "u"),
        (1 * f, "f"),
        (Min(u, u), "u"),
        (Max(f + g, f + g), "f + g"),
        (u < 256 - 0 * x, "T.bool(True)"),
        (LT(u, const(0, "uint8")), "T.bool(False)"),
        (LE(const(0, "uint8"), u), "T.bool(True)"),
        (EQ(u, u), "T.bool(True)"),
        (NE(u, u), "T.bool(False)"),
        (LT(u, u), "T.bool(False)"),
        (EQ(u % const(4, "uint8"), const(9, "uint8")), "T.bool(False)"),
        (EQ(u * const(0, "uint8"), const(0, "uint8")), "T.bool(True)"),
        (u < v, "u < v"),
        (u > v, "v < u"),
        (f > g, "g < f"),
        (FloatImm("float32", 2.0) < f * 1.0, "T.float32(2) < f"),
        (EQ(const(1, "float32"), const(2, "float32") * 0.5 * f), "T.float32(1) == f"),
        (cast("float32", x * 0 + 3), "T.float32(3)"),
        (cast("int32", u), 'T.Cast("int32", u)'),
        (cast("bool", x), 'T.Cast("bool", x)'),
        (op.shift_left(x * 0 + 3, 2), "12"),
        (op.shift_right(x + 0 * y, 0), "x"),
        (op.bitwise_and(x, x * 0), "0"),
        (op.bitwise_or(x, 0), "x"),
        (op.bitwise_xor(x - x + 5, 1), "4"),
        (op.exp(f * 1.0), "T.exp(f)"),
        (Not(op.any(b, c)), "not b and not c"),
        (Not(Not(b)), "b"),
        (Not(f < g), "not f < g"),
        (Not(EQ(f, g)), "f != g"),
        (op.all(b, op.any(b, c)), "b"),
        (op.any(op.all(x < 3, b), op.all(x < 3, b)), "x < 3 and b"),
        (Select(b, f * 1.0, g), "T.Select(b, f, g)"),
        (
            Select(vb, lanes(f * 1.0), lanes(g)),
            "T.Select(vb, T.Broadcast(f, 4), T.Broadcast(g, 4))",
        ),
        (Let(g, op.exp(f), g + f * 1.0), "T.Let(g + f, where={g: T.exp(f)})"),
        (op.vectorlow("float32x2", lanes(f * 1.0)), 'T.vectorlow("float32x2", T.Broadcast(f, 4))'),
        (Shuffle([Ramp(x - x, 1, 4)], [1, 2]), "T.Shuffle([T.Ramp(0, 1, 4)], [1, 2])"),
        (lanes(b) & lanes(const(True)), "T.Broadcast(b, 4)"),
        (op.any(lanes(b), lanes(const(True))), "T.Broadcast(T.bool(True), 4)"),
        (lanes(f) * 1.0, "T.Broadcast(f, 4)"),
        (Ramp(x, 1, 4).equal(Ramp(x + 9, 1, 4)), "T.Broadcast(T.bool(False), 4)"),
        (NE(Ramp(x, 1, 4), Ramp(x - 9, 1, 4)), "T.Broadcast(T.bool(True), 4)"),
        (Ramp(x * 4, y, 4) // lanes(2), "T.Ramp(x * 4, y, 4) // T.Broadcast(2, 4)"),
        (Ramp(x, 1, 4) * Ramp(y, 1, 4), "T.Ramp(x, 1, 4) * T.Ramp(y, 1, 4)"),
        (Ramp(table[x * 1], 1, 4) * 2, "T.Ramp(table[x] * 2, 2, 4)"),
    ],
    ids=str,
)
def test_other_nodes(e: Any, expected: str) -> None:
    result = Analyzer().simplify(e)
    assert str(result) == expected
    assert result.dtype == e.dtype


def test_predicated_loads() -> None:
    load = BufferLoad(A, [Ramp(x - x, 1, 4)], lanes(x < x + 1))
    result = Analyzer().simplify(load)
    assert str(result.indices[0]) == "T.Ramp(0, 1, 4)"
    assert str(result.predicate) == "T.Broadcast(T.bool(True), 4)"


def test_reads_do_not_learn_the_other_parts_of_a_condition() -> None:
    """Each part may be evaluated where another one is false already."""
    ana = Analyzer()
    ana.bind(x, Range(0, 16))
    read = LT(BufferLoad(A, (op.floormod(x, 8),)), f)
    for late in (True, False):
        for whole, few in ((And, LT(x, 8)), (Or, GE(x, 8))):
            found = ana.simplify(whole(read, few) if late else whole(few, read))
            loads = [e for e in walk(found) if type(e) is BufferLoad]
            assert [str(e) for e in loads] == [str(read.a)]
    assert str(ana.simplify(And(LT(x, 8), LT(op.floormod(x, 8), y)))) == "x < 8 and x < y"


def test_reductions_and_tensor_reads() -> None:
    t = te.placeholder((8, 8), name="t")
    k = te.reduce_axis((0, 8), "k")
    s = te.compute((8,), lambda i: te.sum(t[i + 0 * k, k - i + i], axis=k), name="s")
    body = Analyzer().simplify(s.op.body[0])
    assert str(body.source[0]) == "t[i, k]"
    assert Analyzer().simplify(body) is body


def test_impure_and_equal_calls() -> None:
    a = Analyzer()
    pure = lambda: op.call_pure_extern("int32", "p", x)  # noqa: E731
    assert str(a.simplify(pure() - pure())) == "0"
    impure = Call("int32", "tir.call_extern", ("q", x))
    assert str(a.simplify(impure - impure)) == "0"  # one node is evaluated once
    assert not a.can_prove_equal(impure, op.call_extern("int32", "q", x))


def test_bool_variables_can_be_bound() -> None:
    a = Analyzer()
    a.bind(b, x < 3)
    assert str(a.simplify(op.any(b, c))) == "x < 3 or c"
    with a.enter_constraint(c):
        assert str(a.simplify(op.all(b, c))) == "x < 3"
        assert str(a.simplify(c)) == "T.bool(True)"
    with a.enter_constraint(Not(c)):
        assert str(a.simplify(c)) == "T.bool(False)"


def test_known_equalities_of_other_types() -> None:
    a = Analyzer()
    with a.enter_constraint(EQ(f, g)):
        assert str(a.simplify(EQ(f, g))) == "T.bool(True)"
        assert str(a.simplify(NE(f, g))) == "T.bool(False)"


def test_answers_are_values() -> None:
    a = Analyzer()
    assert hash(a.const_int_bound(u)) == hash(ConstIntBound(0, 255))
    assert hash(a.modular_set(x * 2)) == hash(ModularSet(2, 0))
    assert repr(a.modular_set(x * 2 + 1)) == "ModularSet(coeff=2, base=1)"
    assert a.modular_set(f) == ModularSet(1, 0)
    assert a.const_int_bound(f) == ConstIntBound(ConstIntBound.NEG_INF, ConstIntBound.POS_INF)
    assert a.can_prove_less(u, 300)
    got = a.int_set(x + 1, {x: IntervalSet(0, 3)})
    assert (int(got.min_value), int(got.max_value)) == (1, 4)


def test_a_sum_that_is_narrowed_is_narrowed_part_by_part_where_the_parts_fit() -> None:
    i, j = E.Var("i", "int64"), E.Var("j", "int64")
    analyzer = Analyzer()
    for v in (i, j):
        analyzer.bind(v, Range(E.const(0, "int64"), E.const(43, "int64")))
    narrow = (i + j + E.const(1, "int64")).astype("int32") - i.astype("int32")
    assert structural_equal(analyzer.simplify(narrow), j.astype("int32") + 1)
    wide = Analyzer()
    wide.bind(i, Range(E.const(0, "int64"), E.const(1 << 31, "int64")))
    wide.bind(j, Range(E.const(0, "int64"), E.const(1 << 31, "int64")))
    difference = (i - j).astype("int32")  # whose parts fit, but not what is between
    assert str(wide.simplify(difference + 0)) == 'T.Cast("int32", i - j)'
