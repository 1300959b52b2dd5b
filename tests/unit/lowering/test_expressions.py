"""simplify_statements, remove_no_ops, eliminate_common, narrow_types, rewrite_unsafe_select."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.lowering.builders import checked, function, lines, loop, nodes, thread
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.visit import walk
from tilewright.lowering.eliminate_common import eliminate_common
from tilewright.lowering.narrow_types import narrow_types
from tilewright.lowering.options import LowerOptions
from tilewright.lowering.remove_no_ops import remove_no_ops
from tilewright.lowering.rewrite_unsafe_select import rewrite_unsafe_select
from tilewright.lowering.simplify_statements import simplify_statements

A = Buffer((64,), "float32", "A")
B = Buffer((64,), "float32", "B")
I = Buffer((64,), "int32", "I")
DATA = {
    "A": np.arange(64, dtype="float32"),
    "B": np.zeros(64, "float32"),
    "I": np.arange(64, dtype="int32")[::-1].copy(),
}


def store(at: object, value: object = 1.0) -> S.Stmt:
    return S.BufferStore(B, value, [at])


# -- simplify_statements


def test_guards_that_always_or_never_hold() -> None:
    def body_of(i: E.Var) -> S.Stmt:
        sure = S.IfThenElse(op.likely(i < 8), store(i))
        never = S.IfThenElse(i >= 8, store(i + 1), store(i + 2))
        return S.seq(sure, never)

    new = checked(simplify_statements, function(loop("i", 8, body_of), B), DATA)
    assert not nodes(new, S.IfThenElse) and len(nodes(new, S.BufferStore)) == 2


def test_conditions_are_known_in_their_branches() -> None:
    n = E.Var("n")

    def body_of(i: E.Var) -> S.Stmt:
        inner = S.IfThenElse(i < n + 1, store(i), store(i + 9))
        other = S.IfThenElse(i < n, store(i + 20), store(i + 30))
        return S.IfThenElse(i < n, inner, other)

    func = function(loop("i", 8, body_of), B, scalars=(n,))
    new = checked(simplify_statements, func, DATA, n=5)
    assert len(nodes(new, S.IfThenElse)) == 1


def test_loops_of_one_and_no_steps() -> None:
    n = E.Var("n")
    one = loop("i", 1, lambda i: store(i + 3), S.ForKind.PARALLEL)
    gone = loop("j", n - n, lambda j: store(j))
    new = checked(simplify_statements, function(S.seq(one, gone), B, scalars=(n,)), DATA, n=4)
    assert lines(new) == ["B[3] = T.float32(1)"]


def test_lets_of_constants_and_variables_are_replaced() -> None:
    x, y, z = E.Var("x"), E.Var("y"), E.Var("z", "float32")

    def body_of(i: E.Var) -> S.Stmt:
        return S.LetStmt(x, 3, S.LetStmt(y, i, S.LetStmt(z, A[i], store(x + y, z + z))))

    new = checked(simplify_statements, function(loop("i", 8, body_of), A, B), DATA)
    (let,) = nodes(new, S.LetStmt)
    assert let.var is z


def test_a_replaced_variable_in_the_size_of_a_buffer() -> None:
    def body_of(i: E.Var) -> S.Stmt:
        tmp = Buffer((i + 3,), "float32", "T")
        return S.Allocate(tmp, S.seq(S.BufferStore(tmp, A[i], [i]), store(i, tmp[i])))

    new = checked(simplify_statements, function(loop("i", 1, body_of), A, B), DATA)
    (allocation,) = nodes(new, S.Allocate)
    assert not any(isinstance(x, E.Var) for x in walk(allocation.buffer.shape[0]))
    assert {x.buffer for x in nodes(new, E.BufferLoad)} >= {allocation.buffer}


def test_asserts_and_predicates() -> None:
    n = E.Var("n")
    kept = S.AssertStmt(n < 9, "small", store(1))
    gone = S.AssertStmt(n < n + 1, "sure", store(2))
    all_lanes = S.BufferStore(
        B,
        E.Broadcast(E.const(2.0), 4),
        [E.Ramp(4, 1, 4)],
        E.LT(E.Ramp(0, 1, 4), E.Broadcast(E.const(9), 4)),
    )
    no_lane = S.BufferStore(
        B,
        E.Broadcast(E.const(2.0), 4),
        [E.Ramp(8, 1, 4)],
        E.LT(E.Ramp(10, 1, 4), E.Broadcast(E.const(9), 4)),
    )
    func = function(S.seq(kept, gone, all_lanes, no_lane), B, scalars=(n,))
    new = checked(simplify_statements, func, DATA, n=4)
    assert len(nodes(new, S.AssertStmt)) == 1
    vectors = [s for s in nodes(new, S.BufferStore) if type(s.indices[0]) is E.Ramp]
    assert len(vectors) == 1 and vectors[0].predicate is None


# -- remove_no_ops


def test_what_does_nothing_goes() -> None:
    n, x = E.Var("n"), E.Var("x")
    tmp = Buffer((4,), "float32", "T")
    parts = [
        loop("i", n, lambda i: S.no_op()),
        S.IfThenElse(n < 3, S.no_op()),
        S.Allocate(tmp, S.Evaluate(A[0])),
        S.LetStmt(x, n + 1, store(1)),
        S.AttrStmt(x, "pragma_anything", 1, S.no_op()),
        S.BufferStore(B, B[n + 2], [n + 2]),
        S.Evaluate(op.exp(A[1])),
    ]
    new = checked(remove_no_ops, function(S.seq(parts), A, B, scalars=(n,)), DATA, n=4)
    assert lines(new) == ["B[1] = T.float32(1)"]


def test_an_empty_branch_with_an_else() -> None:
    n = E.Var("n")
    body = S.IfThenElse(n < 3, S.no_op(), store(1))
    new = checked(remove_no_ops, function(body, B, scalars=(n,)), DATA, n=4)
    (branch,) = nodes(new, S.IfThenElse)
    assert branch.else_case is None


def test_asserts_go_on_demand() -> None:
    func = function(S.AssertStmt(E.Var("n") < 3, "small", store(1)), B)
    assert nodes(remove_no_ops(func, LowerOptions()), S.AssertStmt)
    assert not nodes(remove_no_ops(func, LowerOptions(disable_assert=True)), S.AssertStmt)


def test_effects_stay() -> None:
    x = E.Var("x")
    call = op.call_extern("int32", "note", 1)
    for body in (
        S.Evaluate(call),
        S.LetStmt(x, call, S.no_op()),
        loop("i", 3, lambda i: S.Evaluate(call)),
        S.IfThenElse(call > 0, S.no_op()),
    ):
        new = remove_no_ops(function(body), LowerOptions())
        assert [c.op.name for c in nodes(new, E.Call)] == ["tir.call_extern"]


# -- eliminate_common


def test_largest_expressions_first() -> None:
    def body_of(i: E.Var) -> S.Stmt:
        def inner(j: E.Var) -> S.Stmt:
            at = i * 8 + j
            return store(at, A[at] + A[at + 1] + A[i * 8 + 3])

        return loop("j", 4, inner)

    new = checked(eliminate_common, function(loop("i", 6, body_of), A, B), DATA)
    assert [x.strip() for x in lines(new)[1:]] == [
        "cse_var_2: T.int32 = i * 8",
        "cse_var_1: T.int32 = cse_var_2 + j",
        "B[cse_var_1] = A[cse_var_1] + A[cse_var_1 + 1] + A[cse_var_2 + 3]",
    ]


def test_shapes_threads_and_reads_stay_in_place() -> None:
    n, tx = E.Var("n"), thread("threadIdx.x")

    def body_of(i: E.Var) -> S.Stmt:
        a, b, c = i * n, i + tx.var, I[i] - 1
        return store(0, A[a] + A[a] + A[b] + A[b] + A[c] + A[c])

    body = S.AttrStmt(tx, "thread_extent", 4, loop("i", 6, body_of))
    new = checked(eliminate_common, function(body, A, B, I, scalars=(n,)), DATA, n=2)
    assert not nodes(new, S.LetStmt)


def test_division_by_a_variable_is_not_moved() -> None:
    def body_of(i: E.Var) -> S.Stmt:
        q = E.FloorDiv(E.const(7), i)
        value = op.if_then_else(i > 0, A[q] + A[q], 0.0)
        return store(i, value)

    new = checked(eliminate_common, function(loop("i", 6, body_of), A, B), DATA)
    assert not nodes(new, S.LetStmt)


def test_names_of_a_function_differ() -> None:
    def body_of(i: E.Var) -> S.Stmt:
        return S.seq(*(store(i + k, A[i + k] + A[i + k]) for k in (1, 2)))

    new = checked(eliminate_common, function(loop("i", 6, body_of), A, B), DATA)
    assert [s.var.name for s in nodes(new, S.LetStmt)] == ["cse_var_1", "cse_var_2"]


def test_common_in_predicates_and_ramps() -> None:
    def body_of(i: E.Var) -> S.Stmt:
        at = E.Ramp(i * 4 + 1, 1, 4)
        mask = E.LT(at, E.Broadcast(E.const(20), 4))
        return S.BufferStore(B, E.BufferLoad(A, [at], mask), [at], mask)

    new = checked(eliminate_common, function(loop("i", 6, body_of), A, B), DATA)
    assert len(nodes(new, S.LetStmt)) == 1


def test_elimination_disabled() -> None:
    func = function(loop("i", 6, lambda i: store(i + 1, A[i + 1])), A, B)
    assert eliminate_common(func, LowerOptions(disable_cse=True)) is func


def test_large_statement_is_linear() -> None:
    def body_of(i: E.Var) -> S.Stmt:
        value: E.PrimExpr = A[i]
        for k in range(150):
            value = value + A[(i * 3 + k) % 64]
        return store(i, value)

    new = checked(eliminate_common, function(loop("i", 2, body_of), A, B), DATA)
    assert len(nodes(new, S.LetStmt)) == 1


# -- narrow_types


def test_bounded_int64_becomes_int32() -> None:
    i, j = E.Var("i", "int64"), E.Var("j", "int64")
    at = i * 8 + j
    guard = S.IfThenElse(op.likely(at < E.const(50, "int64")), S.BufferStore(B, A[at], [at]))
    body = S.For(i, 0, E.const(8, "int64"), 0, S.For(j, 0, E.const(8, "int64"), 0, guard))
    new = checked(narrow_types, function(body, A, B), DATA)
    assert not [x for x in nodes(new, E.Add) + nodes(new, E.Mul) if x.dtype == "int64"]
    assert {s.loop_var.dtype for s in nodes(new, S.For)} == {"int32"}
    assert nodes(new, S.BufferStore)[0].indices[0].dtype == "int32"


@pytest.mark.parametrize("factor", [1 << 27, 1 << 40])
def test_what_may_overflow_stays_wide(factor: int) -> None:
    i = E.Var("i", "int64")
    at = E.FloorMod(i * E.const(factor, "int64"), E.const(64, "int64"))
    body = S.For(i, 0, E.const(60, "int64"), 0, S.BufferStore(B, 1.0, [at]))
    new = checked(narrow_types, function(body, B), DATA)
    assert any(x.dtype == "int64" for x in nodes(new, E.Mul))


def test_symbolic_int64_stays() -> None:
    i, n = E.Var("i", "int64"), E.Var("n", "int64")
    body = S.For(i, E.const(0, "int64"), n, 0, S.BufferStore(B, 1.0, [i]))
    new = checked(narrow_types, function(body, B, scalars=(n,)), DATA, n=5)
    assert nodes(new, S.For)[0].loop_var is i


def test_stored_values_keep_their_type() -> None:
    wide = Buffer((8,), "int64", "W")
    i = E.Var("i", "int64")
    body = S.For(i, E.const(0, "int64"), E.const(8, "int64"), 0, S.BufferStore(wide, i * 3, [i]))
    new = checked(narrow_types, function(body, wide), {"W": np.zeros(8, "int64")})
    assert nodes(new, S.BufferStore)[0].value.dtype == "int64"


# -- rewrite_unsafe_select


def test_select_that_reads_out_of_bounds() -> None:
    def body_of(i: E.Var) -> S.Stmt:
        return store(i, E.Select(i >= 2, A[i - 2], E.const(0.0)))

    func = function(loop("i", 8, body_of), A, B)
    new = rewrite_unsafe_select(func, LowerOptions())
    assert not nodes(new, E.Select)
    (call,) = nodes(new, E.Call)
    assert call.op.name == "tir.if_then_else"


def test_select_between_safe_values_stays() -> None:
    def body_of(i: E.Var) -> S.Stmt:
        nested = op.if_then_else(i < 7, E.Select(i >= 2, A[i + 57], E.const(1.0)), 0.0)
        return store(i, E.Select(A[i] > 3.0, A[i] * 2.0, nested))

    new = checked(rewrite_unsafe_select, function(loop("i", 8, body_of), A, B), DATA)
    assert len(nodes(new, E.Select)) == 2


def test_select_with_division_or_effect() -> None:
    n = E.Var("n")
    for value in (E.FloorDiv(E.const(8), n), op.call_extern("int32", "note", 1)):
        body = S.BufferStore(I, E.Select(n > 0, value, E.const(0)), [0])
        new = rewrite_unsafe_select(function(body, I, scalars=(n,)), LowerOptions())
        assert not nodes(new, E.Select)
