"""vectorize_loops: rarer statements and expressions, and what makes it give up."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.lowering.builders import K, checked, function, loop, nodes
from tests.unit.lowering.evaluator import Machine
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.lowering.options import LowerOptions
from tilewright.lowering.vectorize_loops import vectorize_loops

A = Buffer((64,), "float32", "A")
B = Buffer((64,), "float32", "B")
I = Buffer((64,), "int32", "idx")
DATA = {
    "A": np.arange(64, dtype="float32"),
    "B": np.full(64, 5, "float32"),
    "idx": np.arange(64, dtype="int32")[::-1].copy(),
}


def vector(body_of: object, extent: int = 8) -> S.For:
    return loop("v", extent, body_of, K.VECTORIZED)  # type: ignore[arg-type]


def result(body: S.Stmt) -> S.PrimFunc:
    new = checked(vectorize_loops, function(body, A, B, I), DATA)
    assert not any(s.kind == K.VECTORIZED for s in nodes(new, S.For))
    return new


def store(at: object, value: object) -> S.Stmt:
    return S.BufferStore(B, value, [at])


def has_ramp_store(new: S.PrimFunc) -> bool:
    return any(type(s.indices[0]) is E.Ramp for s in nodes(new, S.BufferStore))


def test_gather_and_scatter() -> None:
    new = result(vector(lambda v: store(I[v], A[I[v] // 2])))
    (one,) = nodes(new, S.BufferStore)
    assert one.indices[0].dtype == "int32x8"


def test_else_under_uniform_and_varying_conditions() -> None:
    def body_of(o: E.Var) -> S.Stmt:
        def inner(v: E.Var) -> S.Stmt:
            condition = E.And(o < 2, v < 5)
            return S.IfThenElse(condition, store(o * 8 + v, 1.0), store(o * 8 + v, A[v]))

        return vector(inner)

    assert has_ramp_store(result(loop("o", 3, body_of)))


def test_else_under_a_condition_on_memory() -> None:
    def body_of(o: E.Var) -> S.Stmt:
        def inner(v: E.Var) -> S.Stmt:
            condition = E.And(o < 2, B[v] < A[v])
            return S.IfThenElse(condition, store(v, B[v] + 1.0), store(v, B[v] - 1.0))

        return vector(inner)

    new = result(loop("o", 3, body_of))
    assert [s.var.dtype for s in nodes(new, S.LetStmt)] == ["boolx8"]


def test_nested_guards() -> None:
    def body_of(v: E.Var) -> S.Stmt:
        inner = S.IfThenElse(v > 2, store(v, A[v] * A[0]), store(v, 7.0))
        return S.IfThenElse(I[v] > 58, inner)

    assert has_ramp_store(result(vector(body_of)))


def test_lane_loop_under_a_condition_on_memory() -> None:
    """An effect needs lanes one by one, with the mask taken before the store changes it."""

    def body_of(v: E.Var) -> S.Stmt:
        note = S.Evaluate(op.call_extern("int32", "note", v))
        return S.IfThenElse(B[v] < A[v], S.seq(store(v, 99.0), note))

    new = vectorize_loops(function(vector(body_of), A, B, I), LowerOptions())
    machine = Machine()
    machine.memory.update({A.data: DATA["A"].copy(), B.data: DATA["B"].copy()})
    machine.stmt(new.body)
    assert machine.trace == [("note", 6), ("note", 7)]
    assert list(machine.memory[B.data][:8]) == [5, 5, 5, 5, 5, 5, 99, 99]


def test_pure_call_alone_in_some_lanes() -> None:
    def body_of(v: E.Var) -> S.Stmt:
        value = op.call_pure_extern("float32", "plus", A[v], A[0])
        same = op.call_pure_extern("float32", "triple", A[3])
        chosen = op.if_then_else(I[v] > 58, value + same, 0.0)
        return S.IfThenElse(v < 7, store(v, chosen + same))

    assert has_ramp_store(result(vector(body_of)))


def test_lets_in_expressions() -> None:
    x, y = E.Var("x", "float32"), E.Var("y", "int32")

    def body_of(v: E.Var) -> S.Stmt:
        inner = E.Let(x, A[v], x * x + op.call_pure_extern("float32", "triple", x))
        return store(v, E.Let(y, I[0] - 50, inner + A[y]))

    assert has_ramp_store(result(vector(body_of)))


def test_uniform_work_is_done_once() -> None:
    tmp = Buffer((2,), "float32", "T")

    def body_of(v: E.Var) -> S.Stmt:
        return S.seq(S.BufferStore(tmp, A[3] * 2.0, [0]), store(v, tmp[0] + A[v]))

    new = result(S.Allocate(tmp, vector(body_of)))
    assert [s.value.dtype for s in nodes(new, S.BufferStore)] == ["float32", "float32x8"]


def test_private_buffer_with_an_index_that_varies() -> None:
    tmp = Buffer((8,), "float32", "T")

    def body_of(v: E.Var) -> S.Stmt:
        fill = loop("j", 8, lambda j: S.BufferStore(tmp, A[j] + v.astype("float32"), [j]))
        return S.Allocate(tmp, S.seq(fill, store(v, tmp[I[v] - 56])))

    assert has_ramp_store(result(vector(body_of)))


def test_private_buffer_in_a_lane_loop() -> None:
    tmp = Buffer((4,), "float32", "T")

    def body_of(v: E.Var) -> S.Stmt:
        fill = S.BufferStore(tmp, A[v], [1])
        more = loop("k", v + 1, lambda k: S.BufferStore(tmp, tmp[1] + A[k], [1]))
        return S.Allocate(tmp, S.seq(fill, more, store(v, tmp[1])))

    new = result(vector(body_of))
    assert has_ramp_store(new)


def test_private_buffer_passed_on_makes_the_loop_serial() -> None:
    tmp = Buffer((4,), "float32", "T")

    def body_of(v: E.Var) -> S.Stmt:
        call = S.Evaluate(op.call_extern("int32", "note", tmp.access_ptr("r")))
        return S.Allocate(tmp, S.seq(S.BufferStore(tmp, A[v], [1]), call))

    new = vectorize_loops(function(vector(body_of), A, B), LowerOptions())
    assert [s.kind for s in nodes(new, S.For)] == [K.SERIAL]
    assert not has_ramp_store(new)


def test_asserts_and_while_loops() -> None:
    ints = Buffer((1,), "int32", "T")

    def sure(v: E.Var) -> S.Stmt:
        return S.AssertStmt(A[0] < A[1], "fixed", store(v, A[v]))

    def each(v: E.Var) -> S.Stmt:
        return S.AssertStmt(A[v] < A[v + 1], "varies", store(v, A[v]))

    def count(v: E.Var) -> S.Stmt:
        step = S.seq(S.BufferStore(ints, ints[0] + 1, [0]), store(v, B[v] + 1.0))
        start = S.BufferStore(ints, v, [0])
        return S.Allocate(ints, S.seq(start, S.While(ints[0] < 6, step)))

    assert has_ramp_store(result(vector(sure)))
    assert not has_ramp_store(result(vector(each)))
    result(vector(count))


def test_prefetch_asks_once() -> None:
    def body_of(v: E.Var) -> S.Stmt:
        return S.seq(S.Evaluate(op.prefetch(A[v + 8])), store(v, A[v]))

    new = result(vector(body_of))
    calls = [c for c in nodes(new, E.Call) if c.op.name == "tir.prefetch"]
    assert len(calls) == 1


def test_vectors_inside_make_the_loop_serial() -> None:
    def body_of(v: E.Var) -> S.Stmt:
        value = E.BufferLoad(A, [E.Ramp(v * 4, 1, 4)])
        return S.BufferStore(B, value, [E.Ramp(v * 4, 1, 4)])

    assert [s.kind for s in nodes(result(vector(body_of)), S.For)] == [K.SERIAL]


def test_vectorised_loop_in_a_vectorised_loop() -> None:
    new = result(vector(lambda v: vector(lambda w: store(v * 8 + w, A[v * 8 + w] + 1.0))))
    assert [s.kind for s in nodes(new, S.For)] == [K.SERIAL] and has_ramp_store(new)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int64", "bool"])
def test_casts_of_the_loop_variable(dtype: str) -> None:
    out = Buffer((8,), dtype, "B")
    func = function(vector(lambda v: S.BufferStore(out, (v % 3).astype(dtype), [v])), out)
    new = checked(vectorize_loops, func, {"B": np.zeros(8, dtype)})
    assert has_ramp_store(new)


def test_llvm_intrinsic_by_name() -> None:
    def body_of(v: E.Var) -> S.Stmt:
        return store(v, op.call_llvm_pure_intrin("float32", "llvm.fabs.f32", 1, A[v]))

    new = vectorize_loops(function(vector(body_of), A, B), LowerOptions())
    (call,) = nodes(new, E.Call)
    assert call.dtype == "float32x8" and call.args[2].dtype == "float32x8"


def test_users_intrinsic_that_is_vectorisable() -> None:
    op.register_op_attr("tir.test_vector_op", "TCallEffectKind", op.CallEffectKind.Pure)
    op.register_op_attr("tir.test_vector_op", "TVectorizable", True)

    def body_of(v: E.Var) -> S.Stmt:
        return store(v, op.call_intrin("float32", "tir.test_vector_op", A[v], 2.0))

    new = vectorize_loops(function(vector(body_of), A, B), LowerOptions())
    (call,) = nodes(new, E.Call)
    assert call.dtype == "float32x8" and [a.dtype for a in call.args] == ["float32x8"] * 2


def test_uniform_division_under_a_guard() -> None:
    """No lane is active where the divisor is zero."""

    def body_of(o: E.Var) -> S.Stmt:
        return vector(lambda v: S.IfThenElse(v < o, store(v, (I[v] // o).astype("float32"))))

    result(loop("o", 4, body_of))


def test_condition_that_holds_in_some_lanes_in_the_middle() -> None:
    short = Buffer((1,), "float32", "S")

    def body_of(v: E.Var) -> S.Stmt:
        return S.IfThenElse(v % 3 == 1, store(v, short[0]))

    data = {"S": np.ones(1, "float32") * 3, "B": DATA["B"]}
    new = checked(vectorize_loops, function(vector(body_of), short, B), data)
    (guard,) = nodes(new, S.IfThenElse)
    assert type(guard.condition) is not E.Call
