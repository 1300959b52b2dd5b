"""Regions that statements touch, proofs that indices exist, and counterexamples."""

from __future__ import annotations

from typing import Any

from tilewright.arith import Analyzer, domain_touched, find_violation, prove_bounds
from tilewright.loopir import op
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.expr import Broadcast, Ramp, SizeVar, Var
from tilewright.loopir.iter import IterVar, Range
from tilewright.loopir.stmt import AttrStmt, BufferStore, For, ForKind, IfThenElse, seq

n = SizeVar("n")
i, j, k = Var("i"), Var("j"), Var("k")


def loop(var: Var, extent: Any, body: Any, low: Any = 0) -> For:
    return For(var, low, extent, ForKind.SERIAL, body)


def texts(region: Any) -> list[tuple[str, str]]:
    return [(str(r.min), str(r.extent)) for r in region]


def test_prove_bounds() -> None:
    a = Analyzer()
    a.bind(i, Range(0, n))
    a.bind(j, Range(0, 8))
    assert prove_bounds([i, j * 2 + 1], [n, 16], a)
    assert not prove_bounds([i, j * 2 + 2], [n, 16], a)
    assert not prove_bounds([i - 1], [n], a)
    with a.enter_constraint(i >= 1):
        assert prove_bounds([i - 1], [n], a)
    assert prove_bounds([Ramp(j * 4, 1, 4)], [32], a)
    assert not prove_bounds([Ramp(j * 4, 1, 5)], [32], a)
    assert prove_bounds([Broadcast(j, 4)], [8], a)
    assert not prove_bounds([i], [n, n], a)


def test_find_violation_gives_a_point_outside() -> None:
    ranges = {i: Range(0, 8), j: Range(0, 3)}
    point = find_violation([i * 2 + j], [16], ranges)
    assert point is not None
    assert point[i] * 2 + point[j] >= 16
    assert find_violation([i * 2 + j], [17], ranges) is None
    assert find_violation([i * 2 + j], [16], ranges, [i * 2 + j < 16]) is None
    point = find_violation([i - 1], [8], ranges, [op.likely(j < 2)])
    assert point is not None
    assert point[i] == 0


def test_find_violation_needs_constants() -> None:
    table = decl_buffer((8,), "int32", name="T")
    ranges = {i: Range(0, 8)}
    assert find_violation([i + n], [8], ranges) is None
    assert find_violation([table[i]], [8], ranges) is None
    assert find_violation([i + 1], [8], {i: Range(0, n)}) is None


def test_domain_touched_over_loops() -> None:
    a, b = decl_buffer((64, n), name="A"), decl_buffer((64, n), name="B")
    body = BufferStore(b, a[i * 2, j + 1] + a[i * 2 + 3, j], [i, j])
    stmt = loop(i, 16, loop(j, n - 1, body))
    assert texts(domain_touched(stmt, a)) == [("0", "34"), ("0", "n")]
    assert texts(domain_touched(stmt, b)) == [("0", "16"), ("0", "n - 1")]
    assert domain_touched(stmt, b, stores=False) == ()
    assert domain_touched(stmt, a, loads=False) == ()
    assert texts(domain_touched(stmt.body, a)) == [("i * 2", "4"), ("0", "n")]


def test_domain_touched_with_dependent_loops_threads_and_conditions() -> None:
    a = decl_buffer((128,), name="A")
    stmt = loop(i, 8, loop(j, i + 1, BufferStore(a, 1.0, [i * 4 + j])))
    assert texts(domain_touched(stmt, a)) == [("0", "36")]
    axis = IterVar(Range(0, 32), "threadIdx_x", IterVar.ThreadIndex, "threadIdx.x")
    guarded = IfThenElse(a[axis.var] < 1.0, BufferStore(a, 1.0, [axis + 32]))
    stmt2 = AttrStmt(axis, "thread_extent", 32, guarded)
    assert texts(domain_touched(stmt2, a)) == [("0", "64")]
    assert texts(domain_touched(stmt2, a, stores=False)) == [("0", "32")]


def test_domain_touched_takes_whole_dimensions_where_ends_are_unknown() -> None:
    a, table = decl_buffer((128,), name="A"), decl_buffer((8,), "int32", name="T")
    stmt = seq(BufferStore(a, 1.0, [table[i]]), BufferStore(a, 1.0, [0]))
    assert texts(domain_touched(loop(i, 8, stmt), a)) == [("0", "128")]
    assert texts(domain_touched(loop(i, 8, stmt), table)) == [("0", "8")]
    vector = BufferStore(a, Broadcast(a[0], 4), [Ramp(i * 4, 1, 4)])
    assert texts(domain_touched(loop(i, 8, vector), a)) == [("0", "32")]


def test_a_condition_on_a_sum_tells_its_quotient() -> None:
    a = Analyzer()
    a.bind(i, Range(0, 2))
    a.bind(j, Range(0, 8))
    place = i * 32 + j
    with a.enter_constraint(place < 33):
        assert str(a.simplify(place // 33)) == "0" and str(a.simplify((place + 3) // 36)) == "0"
    assert str(a.simplify(place // 33)) != "0"
