"""Functions written as scripts, compiled and run; and text of lowered schedules, read and run."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te
from tilewright.script import from_source
from tilewright.script import ir as I
from tilewright.script import tir as T


def run(function, *arrays):
    """The arrays after a call; numbers are passed as they are."""
    given = [tvm.nd.array(a) if isinstance(a, np.ndarray) else a for a in arrays]
    tvm.build(function, target="llvm")(*given)
    return [a.numpy() if hasattr(a, "numpy") else a for a in given]


@pytest.mark.parametrize(("m", "n", "k"), [(7, 5, 3), (1, 1, 1), (4, 0, 2), (8, 16, 11)])
def test_matrix_product(m: int, n: int, k: int) -> None:
    @T.prim_func
    def product(a: T.handle, b: T.handle, c: T.handle) -> None:
        T.func_attr({"tir.noalias": True})
        A = T.match_buffer(a, (m, k), "int32")
        B = T.match_buffer(b, [k, n], dtype="int32")
        C = T.match_buffer(c, [m, n], "int32")
        for i, j in T.grid(m, n):
            C[i, j] = 0
            for r in range(k):
                C[i, j] += A[i, r] * B[r, j]

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, s, dtype="int32") for s in ((m, k), (k, n)))
    assert np.array_equal(run(product, a, b, np.ones((m, n), "int32"))[2], a @ b)


def test_vectors_and_lets() -> None:
    @T.prim_func
    def scaled(A: T.Buffer((24,), "float32"), B: T.Buffer((24,), "float32"), s: T.float32):
        for i in T.parallel(6):
            start: T.int32 = i * 4
            B[start : start + 4] = A[start : start + 4] * T.Broadcast(s, 4) + T.Cast(
                "float32x4", T.Ramp(start, 1, 4)
            )

    x = np.arange(24, dtype="float32")
    assert np.array_equal(run(scaled, x, np.zeros_like(x), 3.0)[1], x * 3 + x)


def test_while_branches_and_memory() -> None:
    @T.prim_func
    def collatz(A: T.Buffer((10,), "int32"), most: T.int32):
        x = T.decl_buffer((1,), "int32", scope="local")
        steps = T.decl_buffer((1,), "int32", scope="local")
        for i in T.serial(10):
            x[0] = i + 1
            steps[0] = 0
            while x[0] != 1 and steps[0] < most:
                if x[0] % 2 == 0:
                    x[0] = x[0] // 2
                else:
                    x[0] = 3 * x[0] + 1
                steps[0] = steps[0] + 1
            A[i] = steps[0]

    def count(x: int) -> int:
        return 0 if x == 1 else 1 + count(x // 2 if x % 2 == 0 else 3 * x + 1)

    found = run(collatz, np.zeros(10, "int32"), 12)[0]
    assert found.tolist() == [min(12, count(x)) for x in range(1, 11)]


def test_tables_predicates_and_sizes_of_the_call() -> None:
    @T.prim_func
    def table(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (n,), "float32")
        data = T.allocate_const([0.5, 1.5, 2.5], "float32", [3])
        D = T.Buffer((3,), "float32", data=data)
        for i in range(n):
            B[i] = T.Select(A[i] < 3, D[T.min(A[i], 2)], T.sqrt(T.Cast("float32", A[i])))

    a = np.array([0, 2, 9, 1, 16], "int32")
    assert run(table, a, np.zeros(5, "float32"))[1].tolist() == [0.5, 2.5, 3.0, 1.5, 4.0]


def test_assertions_are_checked_at_run_time() -> None:
    @T.prim_func
    def even(A: T.Buffer((4,), "int32"), n: T.int32):
        assert n % 2 == 0, "n must be even"
        A[0] = n

    assert run(even, np.zeros(4, "int32"), 4)[0][0] == 4
    with pytest.raises(tvm.TVMError, match="n must be even"):
        run(even, np.zeros(4, "int32"), 3)


def test_packed_functions_and_modules() -> None:
    seen = []
    tvm.register_func("tests.script_seen", lambda *args: seen.append(args), override=True)

    @I.ir_module
    class Module:
        @T.prim_func
        def double(A: T.Buffer((4,), "int32")):
            for i in range(4):
                A[i] = A[i] * 2

        @T.prim_func
        def tell(n: T.int32):
            T.call_packed("tests.script_seen", n, 7)

    built = tvm.build(Module, target="llvm")
    a = tvm.nd.array(np.arange(4, dtype="int32"))
    built["double"](a)
    built["tell"](5)
    assert a.numpy().tolist() == [0, 2, 4, 6] and seen == [(5, 7)]


def test_threads_and_shared_memory() -> None:
    @T.prim_func
    def reverse(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        bx = T.env_thread("blockIdx.x")
        tx = T.env_thread("threadIdx.x")
        T.launch_thread(bx, 4)
        T.launch_thread(tx, 16)
        memory = T.allocate([16], "float32", "shared")
        S = T.Buffer((16,), data=memory, scope="shared")
        S[tx] = A[bx * 16 + tx]
        T.tvm_storage_sync("shared")
        B[bx * 16 + tx] = S[15 - tx]

    device = tvm.simt(0)
    x = np.arange(64, dtype="float32")
    a, b = tvm.nd.array(x, device), tvm.nd.array(np.zeros_like(x), device)
    tvm.build(reverse, target="cuda")(a, b)
    assert np.array_equal(b.numpy(), x.reshape(4, 16)[:, ::-1].ravel())


def test_lowered_schedules_run_from_their_text() -> None:
    a, b = te.placeholder((13, 17), name="A"), te.placeholder((17, 9), name="B")
    k = te.reduce_axis((0, 17), "k")
    c = te.compute((13, 9), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    i, j, io, _ = s[c].tile(c.op.axis[0], c.op.axis[1], 4, 8)
    s[c].parallel(i)
    s[c].unroll(io)
    module = from_source(tvm.lower(s, [a, b, c]).script())
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-4, 4, n).astype("float32") for n in ((13, 17), (17, 9)))
    assert np.array_equal(run(module, x, y, np.zeros((13, 9), "float32"))[2], x @ y)
    assert j is not None
