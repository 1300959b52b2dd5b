"""Operations that users' own passes make, on CPUs: records, workspaces, addresses, marks, lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.base.errors import CompileError, TargetError, TilewrightError
from tilewright.loopir import expr as E
from tilewright.loopir import op, runtime_calls
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer


def test_builders_of_per_axis_shifts_give_the_call(run_elementwise: Any) -> None:
    x = np.array([3, -70, 1 << 20, -1], np.int32)
    for shifts in (True, False):
        made = runtime_calls.q_multiply_shift_per_axis(E.Var("v", "int32"), 5, 3, 2, 30, shifts, 1)
        assert isinstance(made, E.Call) and made.op.name == "tir.q_multiply_shift_per_axis"
        assert made.dtype == "int32" and len(made.args) == 7

        def build(v: Any, given: bool = shifts) -> Any:
            y = E.const(1395864371)
            return runtime_calls.q_multiply_shift_per_axis(v, y, 3, 2, 31, given, True)

        got = run_elementwise(build, [x], "int32", 1)
        left = 3 if shifts else 0
        want = [((int(v) << left) * 1395864371 + (1 << 32)) >> 33 for v in x]
        np.testing.assert_array_equal(got, want)


def test_fields_of_records_on_the_stack(program: Any) -> None:
    """What one sets of an array's record is what one gets, and is where DLPack has it."""
    p = program(("int64", 16), ("uint8", 96))
    records = E.Var("records", "handle")
    values = {4: 3, 5: 2, 6: 32, 7: 4, 8: 1 << 40, 9: 7, 10: 1}
    types = {4: "int32", 5: "uint8", 6: "uint8", 7: "uint16", 8: "uint64", 9: "int32", 10: "int32"}
    sets = [
        S.Evaluate(runtime_calls.tvm_struct_set(records, 1, k, E.const(v, types[k])))
        for k, v in values.items()
    ]
    shape = runtime_calls.tvm_struct_set(records, 1, 2, p.buffers[0].data)
    gets = [
        S.BufferStore(
            p.buffers[0],
            runtime_calls.tvm_struct_get(records, 1, k, types[k]).astype("int64"),
            [E.const(k)],
        )
        for k in values
    ]
    same = E.EQ(
        op.reinterpret("uint64", runtime_calls.tvm_struct_get(records, 1, 2, "handle")),
        op.reinterpret("uint64", p.buffers[0].data),
    )
    i = E.Var("i", "int32")
    bytes_ = decl_buffer((96,), "uint8", "raw", data=records)
    raw = S.For(i, 0, 96, 0, S.BufferStore(p.buffers[1], E.BufferLoad(bytes_, [i]), [i]))
    body = S.seq(
        *sets, S.Evaluate(shape), *gets,
        S.BufferStore(p.buffers[0], same.astype("int64"), [E.const(0)]), raw,
    )  # fmt: skip
    stack = op.tvm_stack_alloca("array", 2)
    out, seen = np.zeros(16, np.int64), np.zeros(96, np.uint8)
    p.compile(S.LetStmt(records, stack, body))(out, seen)
    assert {k: out[k] for k in values} == values and out[0] == 1
    array = np.frombuffer(seen[48:].tobytes(), np.int32)
    assert array[2:5].tolist() == [1, 7, 3]  # type and number of the device, rank
    assert seen[48 + 20 : 48 + 24].tolist() == [2, 32, 4, 0]
    assert int.from_bytes(seen[48 + 40 :].tobytes(), "little") == 1 << 40
    wrong = S.LetStmt(
        records, stack, S.Evaluate(runtime_calls.tvm_struct_get(records, 0, 11, "int32"))
    )
    with pytest.raises(CompileError, match="no field 11 of an array"):
        program(("int64", 1)).compile(wrong)


def test_workspaces_addresses_and_marks(program: Any) -> None:
    p = program(("float32", 100), ("float32", 100))
    memory = E.Var("memory", "handle")
    held = decl_buffer((100,), "float32", "held", data=memory)
    i = E.Var("i", "int32")
    there = S.For(i, 0, 100, 0, S.BufferStore(held, E.BufferLoad(p.buffers[0], [i]) * 2.0, [i]))
    shifted = E.Var("shifted", "handle")
    view = decl_buffer((100,), "float32", "view", data=shifted)
    keeps = runtime_calls.tvm_thread_invariant(E.LT(i, 97))
    value = op.if_then_else(keeps, E.BufferLoad(view, [i]), E.const(-1, "float32"))
    back = S.For(i, 0, 97, 0, S.BufferStore(p.buffers[1], value, [i]))
    give = S.Evaluate(runtime_calls.TVMBackendFreeWorkspace(1, 0, memory))
    address = runtime_calls.handle_add_byte_offset(memory, 12)
    marks = [runtime_calls.start_profile_intrinsic(3), runtime_calls.end_profile_intrinsic(3)]
    body = S.seq(
        S.Evaluate(marks[0]), there, S.LetStmt(shifted, address, back), S.Evaluate(marks[1]), give
    )
    taken = runtime_calls.TVMBackendAllocWorkspace(1, 0, E.const(400, "uint64"), 2, 32)
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    module = p.compile(S.LetStmt(memory, taken, body))
    for _ in range(3):
        module(x, out)
    np.testing.assert_array_equal(out[:97], 2 * x[3:])
    assert "call ptr @aligned_alloc(i64 64, i64 %" in module.get_source("ll")


def test_a_workspace_beside_memory_of_the_function(program: Any) -> None:
    """Both come from the same functions of C, which a module declares once."""
    p = program(("float32", 1 << 16), ("float32", 1 << 16))
    memory, i = E.Var("memory", "handle"), E.Var("i", "int32")
    held = decl_buffer((1 << 16,), "float32", "held", data=memory)
    own = decl_buffer((1 << 16,), "float32", "own")

    def copy(to: Any, source: Any) -> S.Stmt:
        store = S.BufferStore(to, E.BufferLoad(source, [i]) + 1.0, [i])
        return S.For(i, 0, 1 << 16, 0, store)

    moves = [copy(held, p.buffers[0]), copy(own, held), copy(p.buffers[1], own)]
    give = S.Evaluate(runtime_calls.TVMBackendFreeWorkspace(1, 0, memory))
    taken = runtime_calls.TVMBackendAllocWorkspace(1, 0, E.const(1 << 18, "uint64"), 2, 32)
    body = S.LetStmt(memory, taken, S.Allocate(own, S.seq(*moves, give)))
    x, out = np.arange(1 << 16, dtype=np.float32), np.zeros(1 << 16, np.float32)
    p.compile(body)(x, out)
    np.testing.assert_array_equal(out, x + 3)


def test_a_call_that_returns_something_else_ends_the_function(program: Any) -> None:
    p = program(("int32", 2))
    size = op.call_extern("int32", "abs", E.BufferLoad(p.buffers[0], [E.const(0)]))
    check = S.Evaluate(runtime_calls.tvm_check_return(3, -1, size))
    after = S.BufferStore(p.buffers[0], E.const(7), [E.const(1)])
    module = p.compile(S.seq(check, after))
    good, bad = np.array([-3, 0], np.int32), np.array([4, 0], np.int32)
    module(good)
    assert good.tolist() == [-3, 7]
    with pytest.raises(TilewrightError, match="a call returned something else than 3"):
        module(bad)
    assert bad.tolist() == [4, 0]


def test_vectors_of_unknown_length_are_counted_where_there_are_such(program: Any) -> None:
    p = program(("int32", 4))
    store = S.BufferStore(p.buffers[0], runtime_calls.get_vscale_expr("float32"), [E.const(0)])
    sve = "llvm -mtriple=aarch64-linux-gnu -mattr=+sve"
    asm = p.compile(store, target=sve).get_source("asm")
    assert "cntw" in asm or "rdvl" in asm or "cntd" in asm
    with pytest.raises((CompileError, TargetError), match="vscale"):
        p.compile(store)


@pytest.mark.parametrize(("first", "end"), [(0, 4), (2, 4), (5, 4), (-3, 0)])
def test_lanes_below_an_end(program: Any, first: int, end: int) -> None:
    p = program(("int32", 4), ("int32", 2))
    base, limit = (E.BufferLoad(p.buffers[1], [E.const(k)]) for k in range(2))
    mask = runtime_calls.get_active_lane_mask("boolx4", base, limit)
    out = np.full(4, -1, np.int32)
    at = [E.Ramp(0, 1, 4)]
    p.compile(S.BufferStore(p.buffers[0], mask.astype("int32x4"), at))(
        out, np.array([first, end], np.int32)
    )
    # LLVM compares without sign, and a sum that wraps is not below
    low, high = first % 2**32, end % 2**32
    assert out.tolist() == [int(low + k < high) for k in range(4)]
