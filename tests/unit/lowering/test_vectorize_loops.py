"""vectorize_loops: value preserved, and vector code where vector code is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.lowering.evaluator import run
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.verify import verify
from tilewright.loopir.visit import walk
from tilewright.lowering.options import LowerOptions
from tilewright.lowering.vectorize_loops import vectorize_loops

V, SERIAL = S.ForKind.VECTORIZED, S.ForKind.SERIAL
OPTIONS = LowerOptions()


def function(body: S.Stmt, *buffers: Buffer, scalars: tuple[E.Var, ...] = ()) -> S.PrimFunc:
    params = [E.Var(b.name, "handle") for b in buffers]
    return S.PrimFunc((*params, *scalars), body, None, dict(zip(params, buffers)))


def check(func: S.PrimFunc, arrays: dict[str, np.ndarray], **scalars: int) -> S.PrimFunc:
    want = run(func, arrays, scalars)
    new = vectorize_loops(func, OPTIONS)
    assert not any(type(x) is S.For and x.kind == V for x in walk(new.body))
    got = run(new, arrays, scalars)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)
    return new


def nodes(func: S.PrimFunc, kind: type) -> list[Any]:
    return [x for x in walk(func.body) if type(x) is kind]


A = Buffer((64,), "float32", "A")
B = Buffer((64,), "float32", "B")
DATA = {"A": np.arange(64, dtype="float32"), "B": np.full(64, 5, "float32")}


@pytest.mark.parametrize("lanes", [1, 2, 3, 7, 8, 16])
def test_contiguous(lanes: int) -> None:
    o, v = E.Var("o"), E.Var("v")
    at = o * lanes + v
    store = S.BufferStore(B, A[at] * 2.0 + o.astype("float32"), [at])
    body = S.For(o, 0, 64 // lanes, SERIAL, S.For(v, 0, lanes, V, store))
    new = check(function(body, A, B), DATA)
    if lanes > 1:
        (load,) = nodes(new, E.BufferLoad)
        assert type(load.indices[0]) is E.Ramp and load.predicate is None


def test_guard_becomes_a_predicate() -> None:
    o, v, n = E.Var("o"), E.Var("v"), E.Var("n")
    at = o * 8 + v
    store = S.BufferStore(B, A[at] + 1.0, [at])
    guarded = S.IfThenElse(op.likely(at < n), store)
    body = S.For(o, 0, (n + 7) // 8, SERIAL, S.For(v, 0, 8, V, guarded))
    for n_value in (0, 1, 7, 8, 9, 61):
        new = check(function(body, A, B, scalars=(n,)), DATA, n=n_value)
    (store,) = nodes(new, S.BufferStore)
    assert store.predicate is not None and store.value.a.predicate is not None
    assert not nodes(new, S.IfThenElse)


def test_uniform_load_under_a_guard_is_not_made_without_active_lanes() -> None:
    o, v, n = E.Var("o"), E.Var("v"), E.Var("n")
    short = Buffer((2,), "float32", "A")
    at = o * 8 + v
    store = S.BufferStore(B, short[o] + 1.0, [at])
    body = S.For(o, 0, 4, SERIAL, S.For(v, 0, 8, V, S.IfThenElse(op.likely(at < n), store)))
    data = {"A": np.arange(2, dtype="float32"), "B": DATA["B"]}
    check(function(body, short, B, scalars=(n,)), data, n=13)


@pytest.mark.parametrize("place", [0, 1, None])
def test_an_element_of_all_lanes_is_read_once_inside_of_its_buffer(place: int | None) -> None:
    """Whether a lane is active or none is; what is divided by stands for active lanes alone."""
    o, v, n = E.Var("o"), E.Var("v"), E.Var("n")
    short, at = Buffer((2,), "int32", "S"), o * 8 + v
    divisor = short[o if place is None else place]
    value = op.if_then_else(at < n, E.FloorDiv(at, divisor), -1)
    ints = Buffer((64,), "int32", "I")
    body = S.For(o, 0, 4, SERIAL, S.For(v, 0, 8, V, S.BufferStore(ints, value, [at])))
    func = function(body, short, ints, scalars=(n,))
    for count, given in ((13, [3, 5]), (0, [0, 0]), (64, [3, 5])):
        if place is None and count == 64:  # which would read beyond the end
            continue
        data = {"S": np.array(given, "int32"), "I": np.zeros(64, "int32")}
        new = check(func, data, n=count)
    assert all(x.predicate is None for x in nodes(new, E.BufferLoad))


def test_if_else_with_varying_condition() -> None:
    v = E.Var("v")
    then = S.BufferStore(B, A[v] + 1.0, [v])
    other = S.BufferStore(B, A[v + 8] * 3.0, [v])
    body = S.For(v, 0, 8, V, S.IfThenElse(A[v] < E.const(3.5, "float32"), then, other))
    check(function(body, A, B), DATA)


def test_condition_on_memory_that_the_branch_changes() -> None:
    v = E.Var("v")
    then = S.seq(S.BufferStore(B, B[v] + 1.0, [v]), S.BufferStore(B, B[v] * 2.0, [v]))
    other = S.BufferStore(B, B[v] - 1.0, [v])
    body = S.For(v, 0, 8, V, S.IfThenElse(B[v] < E.const(6.0, "float32"), then, other))
    check(function(body, A, B), {**DATA, "B": np.arange(64, dtype="float32")})


def test_padding_by_if_then_else() -> None:
    v, h = E.Var("v"), E.Var("h")
    condition = E.And(E.And(h >= 1, v >= 2), v < 6)
    value = op.if_then_else(condition, A[(h - 1) * 8 + v - 2], 0.0)
    store = S.BufferStore(B, value, [h * 8 + v])
    body = S.For(h, 0, 2, SERIAL, S.For(v, 0, 8, V, store))
    new = check(function(body, A, B), DATA)
    assert all(x.predicate is not None for x in nodes(new, E.BufferLoad))


def test_mixed_types_and_casts() -> None:
    v = E.Var("v")
    ints = Buffer((16,), "int8", "I")
    half = Buffer((16,), "float64", "H")
    value = ints[v].astype("float64") * 0.5 + v.astype("float64")
    first = S.BufferStore(half, value, [v])
    second = S.BufferStore(B, E.Select(v > 3, half[v].astype("float32"), A[v]), [v])
    body = S.For(v, 0, 16, V, S.seq(first, second))
    data = {**DATA, "I": np.arange(-8, 8, dtype="int8"), "H": np.zeros(16)}
    check(function(body, ints, half, A, B), data)


def test_allocation_is_expanded_and_inner_loops_stay() -> None:
    v, k, j = E.Var("v"), E.Var("k"), E.Var("j")
    tmp = Buffer((4,), "float32", "T")
    fill = S.For(j, 0, 4, SERIAL, S.BufferStore(tmp, A[v * 4 + j], [j]))
    add = S.BufferStore(B, B[v] + tmp[k], [v])
    body = S.seq(S.BufferStore(B, 0.0, [v]), fill, S.For(k, 0, 4, SERIAL, add))
    new = check(function(S.For(v, 0, 8, V, S.Allocate(tmp, body)), A, B), DATA)
    (allocation,) = nodes(new, S.Allocate)
    assert int(allocation.buffer.shape[0]) == 32
    assert len(nodes(new, S.For)) == 2


def test_an_allocation_of_a_64_bit_size_is_expanded_in_its_type() -> None:
    v, n = E.Var("v"), E.Var("n", "int64")
    tmp = Buffer((n,), "float32", "T")
    body = S.seq(S.BufferStore(tmp, A[v], [0]), S.BufferStore(B, tmp[0], [v]))
    func = function(S.For(v, 0, 8, V, S.Allocate(tmp, body)), A, B, scalars=(n,))
    new = check(func, DATA, n=1)
    (allocation,) = nodes(new, S.Allocate)
    assert allocation.buffer.shape[0].dtype == "int64"
    verify(new)


def test_inner_loop_with_varying_bounds_runs_lane_by_lane() -> None:
    v, k = E.Var("v"), E.Var("k")
    add = S.BufferStore(B, B[v] + A[k], [v])
    body = S.seq(S.BufferStore(B, 0.0, [v]), S.For(k, 0, v + 1, SERIAL, add))
    new = check(function(S.For(v, 0, 8, V, body), A, B), DATA)
    assert any(type(s.indices[0]) is E.Ramp for s in nodes(new, S.BufferStore))


def test_pure_call_without_vector_form_alone_is_scalar() -> None:
    v = E.Var("v")
    value = op.call_pure_extern("float32", "triple", A[v]) + op.exp(A[v])
    guarded = S.IfThenElse(v < 5, S.BufferStore(B, value, [v]))
    data = {**DATA, "A": np.linspace(0, 1, 64, dtype="float32")}
    new = check(function(S.For(v, 0, 8, V, guarded), A, B), data)
    exps = [c for c in nodes(new, E.Call) if c.op.name == "tir.exp"]
    assert [c.dtype for c in exps] == ["float32x8"]


def test_lanes_that_depend_on_each_other_stay_serial() -> None:
    v = E.Var("v")
    body = S.For(v, 0, 8, V, S.BufferStore(B, B[0] + A[v], [0]))
    new = check(function(body, A, B), DATA)
    assert [s.kind for s in nodes(new, S.For)] == [SERIAL]


def test_vector_let() -> None:
    v, x = E.Var("v"), E.Var("x", "float32")
    body = S.LetStmt(x, A[v] * A[v], S.BufferStore(B, x + x, [v]))
    new = check(function(S.For(v, 0, 8, V, body), A, B), DATA)
    assert [s.var.dtype for s in nodes(new, S.LetStmt)] == ["float32x8"]


def test_division_in_inactive_lanes() -> None:
    v = E.Var("v")
    ints = Buffer((16,), "int32", "I")
    store = S.BufferStore(ints, E.FloorDiv(E.const(12), v), [v])
    body = S.For(v, 0, 8, V, S.IfThenElse(v > 0, store))
    check(function(body, ints), {"I": np.zeros(16, "int32")})


@pytest.mark.parametrize("n", [-3, 0, 1, 15, 16, 17, 50])
def test_symbolic_extent(n: int) -> None:
    v, size = E.Var("v"), E.Var("n")
    body = S.For(v, 0, size, V, S.BufferStore(B, A[v] + 1.0, [v]))
    new = check(function(body, A, B, scalars=(size,)), DATA, n=n)
    assert any(type(s.indices[0]) is E.Ramp for s in nodes(new, S.BufferStore))


@pytest.mark.parametrize("extent", [65, 96, 127, 128, 509])
def test_long_loops_run_in_strips(extent: int) -> None:
    v = E.Var("v")
    big = Buffer((extent,), "float32", "A")
    out = Buffer((extent,), "float32", "B")
    body = S.For(v, 0, extent, V, S.BufferStore(out, big[v] + 1.0, [v]))
    data = {"A": np.arange(extent, dtype="float32"), "B": np.zeros(extent, "float32")}
    new = check(function(body, big, out), data)
    ramps = [i for s in nodes(new, S.BufferStore) if type(i := s.indices[0]) is E.Ramp]
    assert ramps and all(i.lanes <= 64 for i in ramps)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("extent", [5, 11, 17, 24, 34, 53])
def test_a_vector_fills_registers_evenly_or_fits_in_one(extent: int, dtype: str) -> None:
    """LLVM holds others as scalars from one block to the next: a tile of 11 columns ran at a fifth
    of the speed of one of 8."""
    k, v = E.Var("k"), E.Var("v")
    big, out = Buffer((4, extent), dtype, "A"), Buffer((extent,), dtype, "B")
    flat = Buffer((4 * extent,), dtype, "A", data=big.data)
    add = S.BufferStore(out, out[v] + flat[k * extent + v], [v])
    body = S.For(k, 0, 4, SERIAL, S.For(v, 0, extent, V, add))
    data = {"A": (np.arange(4 * extent) % 7).astype(dtype), "B": np.zeros(extent, dtype)}
    new = check(function(body, flat, out), data)
    register = 32 // np.dtype(dtype).itemsize
    lanes = [s.indices[0].lanes for s in nodes(new, S.BufferStore) if type(s.indices[0]) is E.Ramp]
    assert lanes and all(n < register or n.bit_count() == 1 for n in lanes)


def test_division_of_a_ramp_within_a_block() -> None:
    o, v = E.Var("o"), E.Var("v")
    at = o * 8 + v
    store = S.BufferStore(B, A[at // 8 * 2 + at % 8], [at])
    body = S.For(o, 0, 4, SERIAL, S.For(v, 0, 8, V, store))
    new = check(function(body, A, B), DATA)
    assert not [x for x in nodes(new, E.FloorDiv) if x.dtype != "int32"]
    (load,) = nodes(new, E.BufferLoad)
    assert type(load.indices[0]) is E.Ramp


def test_disabled() -> None:
    v = E.Var("v")
    func = function(S.For(v, 0, 8, V, S.BufferStore(B, A[v], [v])), A, B)
    new = vectorize_loops(func, LowerOptions(disable_vectorize=True))
    assert [s.kind for s in nodes(new, S.For)] == [SERIAL]


def test_effects_run_lane_by_lane_under_guards() -> None:
    v = E.Var("v")
    call = S.Evaluate(op.call_extern("int32", "note", v * 2))
    store = S.BufferStore(B, A[v], [v])
    body = S.For(v, 0, 4, V, S.IfThenElse(v < 3, S.seq(call, store)))
    new = check(function(body, A, B), DATA)
    from tests.unit.lowering.evaluator import Machine

    machine = Machine()
    machine.memory.update({A.data: DATA["A"].copy(), B.data: DATA["B"].copy()})
    machine.stmt(new.body)
    assert machine.trace == [("note", 0), ("note", 2), ("note", 4)]
