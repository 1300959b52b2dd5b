"""Threads that go different ways, barriers that some of them miss."""

import numpy as np
import pytest

from tests.unit.interp.simt_kernels import kinds, make_kernel, numbers, problems, sync, zeros
from tilewright import tir
from tilewright.interp.simt import run_kernel
from tilewright.loopir import stmt as S

I32 = ("int32", 32)


def run(write, arrays, *args, **options):
    kernel = make_kernel(write, arrays, **options)
    run_kernel(kernel, None, args)


def test_branches():
    def write(ib, k):
        with ib.if_scope(k.tx < 10):
            k.A[k.tx] = 1
            with ib.if_scope(k.tx % 2 == 0):
                k.A[k.tx] = k.A[k.tx] + 1
        with ib.else_scope():
            k.A[k.tx] = 7

    a = zeros(32, "int32")
    run(write, {"A": I32}, a)
    np.testing.assert_array_equal(a, [2, 1] * 5 + [7] * 22)


def test_loops_of_different_lengths():
    def write(ib, k):
        with ib.for_range(k.tx // 2, k.tx, name="i") as i:
            k.A[k.tx] = k.A[k.tx] + i
        with ib.for_range(0, k.tx - 3, name="i"):
            k.A[k.tx] = k.A[k.tx] + 100

    a = zeros(32, "int32")
    run(write, {"A": I32}, a)
    expected = [sum(range(t // 2, t)) + 100 * max(t - 3, 0) for t in range(32)]
    np.testing.assert_array_equal(a, expected)


def test_while_loops():
    def write(ib, k):
        with ib.while_loop(k.A[k.tx] != 1):
            k.A[k.tx] = tir.Select(
                k.A[k.tx] % 2 == 0, tir.floordiv(k.A[k.tx], 2), k.A[k.tx] * 3 + 1
            )
            k.B[k.tx] = k.B[k.tx] + 1

    def collatz(n):
        steps = 0
        while n != 1:
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        return steps

    b = zeros(32, "int32")
    run(write, {"A": I32, "B": I32}, numbers(32, "int32"), b)
    np.testing.assert_array_equal(b, [collatz(n) for n in range(1, 33)])


def test_loops_inside_branches_and_variables():
    def write(ib, k):
        with ib.if_scope(k.tx >= 16):
            twice = ib.let("twice", k.tx * 2)
            with ib.for_range(0, twice - 32, name="i") as i:
                k.A[k.tx] = k.A[k.tx] + i + twice

    a = zeros(32, "int32")
    run(write, {"A": I32}, a)
    expected = [0] * 16 + [sum(i + 2 * t for i in range(2 * t - 32)) for t in range(16, 32)]
    np.testing.assert_array_equal(a, expected)


def test_all_thread_axes():
    def write(ib, k):
        thread = k.tx + 4 * (k.ty + 3 * k.tz)
        block = k.bx + 2 * (k.by + 2 * k.bz)
        k.A[block * 24 + thread] = block * 1000 + k.tz * 100 + k.ty * 10 + k.tx

    a = zeros(24 * 8, "int32")
    run(write, {"A": ("int32", 24 * 8)}, a, block=(4, 3, 2), grid=(2, 2, 2))
    b, z, y, x = np.meshgrid(range(8), range(2), range(3), range(4), indexing="ij")
    np.testing.assert_array_equal(a, (b * 1000 + z * 100 + y * 10 + x).reshape(-1))


def test_an_axis_may_be_bound_twice_and_loops_may_be_bound():
    def write(ib, k):
        axis = tir.IterVar((0, 32), "other", tir.IterVar.ThreadIndex, "threadIdx.x")
        ib.scope_attr(axis, "thread_extent", 32)
        k.A[k.tx] = axis.var

    a = zeros(32, "int32")
    run(write, {"A": I32}, a)
    np.testing.assert_array_equal(a, np.arange(32))
    i = tir.Var("i", "int32")
    buffer = tir.decl_buffer((8,), "int32", name="A")
    axis = tir.IterVar((0, 8), "t", tir.IterVar.ThreadIndex, "threadIdx.x")
    body = S.BufferStore(buffer, i, [i])
    loop = S.For(i, 0, 8, S.ForKind.THREAD_BINDING, body, axis)
    a = zeros(8, "int32")
    run_kernel(S.PrimFunc([buffer.data], loop, None, {}, {"global_symbol": "k"}), None, [a])
    np.testing.assert_array_equal(a, np.arange(8))


def test_virtual_threads_are_loops():
    def write(ib, k):
        axis = tir.IterVar((0, 4), "v", tir.IterVar.ThreadIndex, "vthread")
        ib.scope_attr(axis, "virtual_thread", 4)
        k.A[axis.var * 8 + k.tx] = axis.var

    a = zeros(32, "int32")
    run(write, {"A": I32}, a, block=(8,))
    np.testing.assert_array_equal(a, np.repeat(np.arange(4), 8))


def test_a_grid_from_scalars():
    def make():
        n = tir.Var("n", "int32")
        axis = tir.IterVar(None, "bx", tir.IterVar.ThreadIndex, "blockIdx.x")
        lane = tir.IterVar((0, 32), "tx", tir.IterVar.ThreadIndex, "threadIdx.x")
        buffer = tir.decl_buffer((n,), "int32", name="A")
        at = axis.var * 32 + lane.var
        store = S.IfThenElse(at < n, S.BufferStore(buffer, at, [at]))
        body = S.AttrStmt(lane, "thread_extent", 32, store)
        body = S.AttrStmt(axis, "thread_extent", tir.floordiv(n + 31, 32), body)
        return S.PrimFunc([buffer.data, n], body, None, {}, {"global_symbol": "k"})

    a = zeros(70, "int32")
    report = run_kernel(make(), None, [a, 70])
    assert (report.blocks, report.threads) == (3, 32)
    np.testing.assert_array_equal(a, np.arange(70))
    assert run_kernel(make(), {"blockIdx.x": 2}, [a, 70]).blocks == 2
    assert run_kernel(make(), None, [a, 0]).blocks == 0


@pytest.mark.parametrize("same", [True, False])
def test_a_loop_that_never_ends_for_what_was_found(same):
    """Its counter is out of bounds, and so never changes."""

    def write(ib, k):
        first = 0 if same else k.tx
        with ib.while_loop(k.A[first] < 3):
            k.B[32] = k.B[32] + 1
            k.A[first] = k.B[32]

    error = problems(
        make_kernel(write, {"A": I32, "B": I32}), zeros(32, "int32"), zeros(32, "int32")
    )
    assert {"out of bounds"} <= {f.kind for f in error.findings}


@pytest.mark.parametrize("where", ["branch", "loop", "while"])
def test_barriers_that_threads_miss(where):
    def write(ib, k):
        if where == "branch":
            with ib.if_scope(k.tx < 16):
                sync(ib)
        elif where == "loop":
            with ib.for_range(0, k.tx, name="i"):
                sync(ib)
        else:
            with ib.while_loop(k.A[k.tx] > 5):
                k.A[k.tx] = k.A[k.tx] - 1
                sync(ib)

    error = problems(make_kernel(write, {"A": I32}), numbers(32, "int32"))
    (found,) = error.findings
    assert found.kind == "barrier under divergence"
    assert found.line == 'T.tvm_storage_sync("shared")'
    assert "waits for all of its block" in found.message


def test_barriers_that_all_threads_of_a_block_reach():
    """A condition on the block, a loop of one length, a condition that holds for all."""

    def write(ib, k):
        with ib.if_scope(k.bx % 2 == 0):
            sync(ib)
        with ib.for_range(0, k.bx, name="i"):
            sync(ib)
        with ib.if_scope(k.A[k.tx] > 0):
            sync(ib)

    kernel = make_kernel(write, {"A": I32}, grid=(4,))
    report = run_kernel(kernel, None, [numbers(32, "int32")])
    assert report.barriers == 2 + (0 + 1 + 2 + 3) + 4


def test_warp_barriers_under_divergence():
    def write(limit):
        def body(ib, k):
            with ib.if_scope(k.tx < limit):
                sync(ib, "warp")

        return make_kernel(body, {"A": I32}, (64,))

    a = zeros(32, "int32")
    assert kinds(write(32), a) == []
    assert kinds(write(33), a) == ["barrier under divergence"]


def test_grid_barriers_under_divergence():
    def write(ib, k):
        with ib.if_scope(k.bx == 0):
            sync(ib, "global")

    assert kinds(make_kernel(write, {"A": I32}, grid=(2,)), zeros(32, "int32")) == [
        "barrier under divergence"
    ]


def test_asserts():
    def write(ib, k):
        ib.emit(lambda body: S.AssertStmt(k.A[k.tx] < 32, "too large", body))
        k.A[k.tx] = 0

    (found,) = problems(make_kernel(write, {"A": I32}), numbers(32, "int32")).findings
    assert found.kind == "assertion failed" and found.threads[0].thread == (31, 0, 0)
    assert found.message.startswith("too large")


def test_long_chains_of_statements_and_operations():
    def write(ib, k):
        e = k.A[k.tx]
        for n in range(3000):
            e = e + (k.tx if n % 2 else k.A[k.tx])
        last = ib.let("first", k.tx)
        for n in range(1, 1500):
            last = ib.let(f"v{n}", last + 1)
        k.A[k.tx] = e + last

    a = zeros(32, "int32")
    run(write, {"A": I32}, a)
    np.testing.assert_array_equal(a, np.arange(32) * 1501 + 1499)
