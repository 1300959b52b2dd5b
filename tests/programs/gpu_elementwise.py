"""Element-wise programs on GPUs: layouts, vectors, types, intrinsics, several kernels."""

import numpy as np
import tvm
import tvm.testing
from gpu_kit import rand, run_everywhere
from tvm import te, topi


def bind(s, B, factor=64):
    bx, tx = s[B].split(s[B].fuse(*s[B].op.axis), factor=factor)
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))


def test_exp_with_the_thread_name_kept():
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute(A.shape, lambda *i: te.exp(A(*i)), name="B")
    s = te.create_schedule(B.op)
    bind(s, B, 8)
    a = rand(103)
    mod = run_everywhere(s, [A, B], [a], [np.exp(a)], name="myexp")
    assert "__expf" in mod.imported_modules[0].get_source()


def test_transpose_through_shared_memory():
    n, m, tile = 70, 50, 16
    A = te.placeholder((n, m), name="A")
    B = te.compute((m, n), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    AS = s.cache_read(A, "shared", [B])
    i, j = s[B].op.axis
    io, jo, ii, ji = s[B].tile(i, j, tile, tile)
    s[B].bind(io, te.thread_axis("blockIdx.y"))
    s[B].bind(jo, te.thread_axis("blockIdx.x"))
    ty, tx = te.thread_axis((0, tile), "threadIdx.y"), te.thread_axis((0, tile), "threadIdx.x")
    s[B].bind(ii, ty)
    s[B].bind(ji, tx)
    s[AS].compute_at(s[B], jo)
    s[AS].storage_align(s[AS].op.axis[0], tile, 1)
    s[AS].bind(s[AS].op.axis[0], ty)
    s[AS].bind(s[AS].op.axis[1], tx)
    a = rand(n, m)
    run_everywhere(s, [A, B], [a], [a.T.copy()])


def test_vectors_of_four():
    n = 1024
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0 + 1.0, name="B")
    s = te.create_schedule(B.op)
    xo, xi = s[B].split(B.op.axis[0], factor=4)
    bx, tx = s[B].split(xo, factor=32)
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    s[B].vectorize(xi)
    a = rand(n)
    mod = run_everywhere(s, [A, B], [a], [a * 2 + 1])
    assert "float4" in mod.imported_modules[0].get_source()


def test_types():
    n = 96
    for dtype in ("float64", "int8", "uint8", "int32", "int64", "float16"):
        A = te.placeholder((n,), name="A", dtype=dtype)
        B = te.compute((n,), lambda i: A[i] * A[i] + tvm.tir.const(1, dtype), name="B")
        s = te.create_schedule(B.op)
        bind(s, B, 32)
        a = (np.arange(n) % 8).astype(dtype)
        simt_only = dtype == "float16"
        if simt_only:
            out = np.zeros(n, dtype)
            tvm.build(s, [A, B], "cuda").run_simt(a, out)
            tvm.testing.assert_allclose(out, a * a + 1)
        else:
            run_everywhere(s, [A, B], [a], [a * a + np.array(1, dtype)])


def test_stages_in_kernels_of_their_own():
    n = 200
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + B[n - 1 - i], name="C")
    s = te.create_schedule(C.op)
    bind(s, B)
    bind(s, C)
    a = rand(n)
    mod = run_everywhere(s, [A, C], [a], [a * 2 + a[::-1] * 2])
    assert mod.imported_modules[0].get_source().count("__global__") == 2


def test_extern_of_the_device():
    n = 64
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: tvm.tir.call_pure_extern("float32", "__expf", A[i]), name="B")
    s = te.create_schedule(B.op)
    bind(s, B)
    f = tvm.build(s, [A, B], "cuda", name="myexp")
    assert "__expf(A[" in f.imported_modules[0].get_source()


def test_rules_for_two_targets():
    def my_cuda_rule(op):
        if op.dtype == "float32":
            return tvm.tir.call_pure_extern("float32", "expm1f", op.args[0])
        return op

    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute(A.shape, lambda i: te.log1p(A[i]) if hasattr(te, "log1p") else te.log(A[i]))
    s = te.create_schedule(B.op)
    bind(s, B)
    assert "log" in tvm.build(s, [A, B], "cuda").imported_modules[0].get_source()
    tvm.ir.register_op_attr("tir.gpu_expm1", "TCallEffectKind", tvm.tir.CallEffectKind.Pure)
    tvm.ir.register_intrin_lowering("tir.gpu_expm1", target="cuda", f=my_cuda_rule, level=99)
    C = te.compute(A.shape, lambda i: tvm.tir.call_intrin("float32", "tir.gpu_expm1", A[i]))
    s = te.create_schedule(C.op)
    bind(s, C)
    assert "expm1f(" in tvm.build(s, [A, C], "cuda").imported_modules[0].get_source()


def test_topi_on_the_gpu():
    A, B = te.placeholder((6, 10), name="A"), te.placeholder((10,), name="B")
    a, b = rand(6, 10), rand(10)
    for C, want in (
        (topi.add(A, B), a + b),
        (topi.nn.relu(topi.subtract(A, B)), np.maximum(a - b, 0)),
        (topi.transpose(A, (1, 0)), a.T.copy()),
    ):
        with tvm.target.Target("cuda"):
            s = topi.cuda.schedule_injective(C)
        args = [A, C] if want.shape == (10, 6) else [A, B, C]
        run_everywhere(s, args, [a, b][: len(args) - 1], [want])
    S = topi.sum(A, axis=1)
    run_everywhere(topi.default_schedule(S, "cuda"), [A, S], [a], [a.sum(1)], rtol=1e-4)


def test_warp_shuffle_by_scope():
    n = 128
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[(i // 32) * 32 + (i % 32 + 1) % 32], name="B")
    s = te.create_schedule(B.op)
    AW = s.cache_read(A, "warp", [B])
    xo, xi = s[B].split(B.op.axis[0], 32)
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(xi, tx)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[AW].compute_at(s[B], xo)
    _, ai = s[AW].split(s[AW].op.axis[0], 32)
    s[AW].bind(ai, tx)
    f = tvm.build(s, [A, B], "cuda")
    a, out = rand(n), np.zeros(n, "float32")
    f.run_simt(a, out)
    tvm.testing.assert_allclose(out, np.roll(a.reshape(4, 32), -1, axis=1).reshape(n))
    assert "__shfl_sync" in f.imported_modules[0].get_source()


if __name__ == "__main__":
    tvm.testing.main()
