"""tvm.script: functions and modules as decorated Python, as text, and through passes."""

import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import te, tir
from tvm.script import from_source
from tvm.script import ir as I
from tvm.script import tir as T


def test_function_runs():
    @T.prim_func
    def gemm(a: T.handle, b: T.handle, c: T.handle) -> None:
        T.func_attr({"global_symbol": "gemm", "tir.noalias": True})
        A = T.match_buffer(a, (16, 16), "float32")
        B = T.match_buffer(b, [16, 16], dtype="float32")
        C = T.match_buffer(c, [16, 16])
        for i, j in T.grid(16, 16):
            C[i, j] = T.float32(0)
            for k in T.serial(0, 16):
                C[i, j] = C[i, j] + A[i, k] * B[k, j]

    f = tvm.build(gemm, target="llvm")
    x, y = (np.random.rand(16, 16).astype("float32") for _ in range(2))
    z = tvm.nd.array(np.zeros((16, 16), "float32"))
    f(tvm.nd.array(x), tvm.nd.array(y), z)
    tvm.testing.assert_allclose(z.numpy(), x @ y, rtol=1e-4)


def test_module_and_passes():
    @I.ir_module
    class Before:
        @T.prim_func
        def main(A: T.Buffer((16,), "int32"), n: T.int32):
            for i in T.serial(4):
                for j in T.vectorized(4):
                    A[i * 4 + j + 0] = n

    @I.ir_module
    class After:
        @T.prim_func
        def main(A: T.Buffer((16,), "int32"), n: T.int32):
            for i in T.serial(4):
                A[T.Ramp(i * 4, 1, 4)] = T.Broadcast(n, 4)

    tvm.ir.assert_structural_equal(tir.transform.VectorizeLoop()(Before), After)
    assert isinstance(Before, tvm.IRModule)
    assert isinstance(Before["main"], tir.PrimFunc)


def test_text_of_a_schedule():
    A = te.placeholder((128,), name="A")
    B = te.compute((128,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    xo, xi = s[B].split(B.op.axis[0], factor=32)
    s[B].vectorize(xi)
    mod = tvm.lower(s, [A, B])
    again = from_source(mod.script())
    tvm.ir.assert_structural_equal(mod, again)
    a = tvm.nd.array(np.arange(128, dtype="float32"))
    b = tvm.nd.array(np.zeros(128, "float32"))
    tvm.build(again, target="llvm")(a, b)
    np.testing.assert_array_equal(b.numpy(), np.arange(128) + 1)


def test_metaprogramming():
    def make(n, dtype, scale):
        @T.prim_func
        def scaled(A: T.Buffer((n,), dtype)):
            for i in range(n):
                A[i] = A[i] * T.Cast(dtype, scale)

        return scaled

    for n, dtype in ((3, "int32"), (7, "float64")):
        a = tvm.nd.array(np.ones(n, dtype))
        tvm.build(make(n, dtype, 5), target="llvm")(a)
        assert (a.numpy() == 5).all()


def test_private_functions_and_blocks():
    @T.prim_func(private=True)
    def hidden(A: T.Buffer((4,), "int32")):
        A[0] = 1

    assert not hidden.attrs or "global_symbol" not in hidden.attrs
    with pytest.raises(tvm.error.DiagnosticError):

        @T.prim_func
        def blocks(A: T.Buffer((4,), "int32")):
            for i in range(4):
                with T.block("b"):
                    vi = T.axis.spatial(4, i)
                    A[vi] = 1


def test_arith_keeps_the_shape_of_rules():
    x, y = te.var("x"), te.var("y")
    ana = tvm.arith.Analyzer()
    assert tvm.ir.structural_equal(ana.rewrite_simplify(x * y + x * 10), x * (y + 10))
    assert tvm.ir.structural_equal(ana.rewrite_simplify(x - 3 < y - 2), x <= y)
    res = tvm.arith.detect_iter_map([x * 4 + y], {x: tvm.ir.Range(0, 8), y: tvm.ir.Range(0, 4)})
    assert isinstance(res.indices[0], tvm.arith.IterSumExpr)
    tvm.testing.assert_prim_expr_equal(res.indices[0].args[0].extent, 32)


if __name__ == "__main__":
    tvm.testing.main()
