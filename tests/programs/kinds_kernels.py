"""Whole kernels: element-wise, reductions, matrix products."""

import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import te
from tvm.topi.utils import get_const_tuple


def build_run(s, args, *arrays):
    f = tvm.build(s, args, "llvm")
    outs = [tvm.nd.array(np.zeros(get_const_tuple(t.shape), t.dtype)) for t in args[len(arrays) :]]
    f(*[tvm.nd.array(a) for a in arrays], *outs)
    r = [o.numpy() for o in outs]
    return r if len(r) > 1 else r[0]


def test_ewise_exp_fused():
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute(A.shape, lambda *i: te.exp(A(*i)), name="B")
    s = te.create_schedule(B.op)
    num_thread = 8
    _bx, _tx = s[B].split(B.op.axis[0], factor=num_thread)

    def check_device(device, host="stackvm"):
        if not tvm.testing.device_enabled(host):
            return
        dev = tvm.device(device, 0)
        if not tvm.testing.device_enabled(device):
            print("skip because %s is not enabled.." % device)
            return
        print("found", dev)

    for d in ("cuda", "opencl", "metal", "rocm", "vulkan"):
        if not tvm.device(d, 0).exist:
            check_device(d, "llvm")
    fexp = tvm.build(s, [A, B], "llvm", name="myexp")
    a = tvm.nd.array(np.random.uniform(size=1024).astype(A.dtype))
    b = tvm.nd.array(np.zeros(1024, dtype=B.dtype))
    fexp(a, b)
    tvm.testing.assert_allclose(b.numpy(), np.exp(a.numpy()), rtol=1e-5)


def test_multiple_cache_write():
    A0 = te.placeholder((100, 65), name="A0")
    A1 = te.placeholder((100, 65), name="A1")
    B0, B1 = te.compute((100, 65), lambda *i: (A0(*i) + A1(*i), A0(*i) * A1(*i)), name="B")
    C = te.compute((100, 65), lambda *i: B0(*i) + B1(*i), name="C")
    s = te.create_schedule(C.op)
    xo, _xi = s[C].split(C.op.axis[0], factor=8)
    s[B0].compute_at(s[C], xo)
    BF0, _BF1 = s.cache_write([B0, B1], "local")
    s[BF0].compute_at(s[B0], s[B0].op.axis[1])
    a0, a1 = (np.random.rand(100, 65).astype("float32") for _ in range(2))
    tvm.testing.assert_allclose(build_run(s, [A0, A1, C], a0, a1), a0 + a1 + a0 * a1, rtol=1e-5)


def test_log_pow_and_popcount():
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute(A.shape, lambda *i: te.power(te.log(A(*i)), 2.0), name="B")
    s = te.create_schedule(B.op)
    _bx, tx = s[B].split(B.op.axis[0], factor=32)
    s[B].vectorize(tx)
    f = tvm.build(s, [A, B], "llvm")
    a = np.random.uniform(1, 2, size=1028).astype("float32")
    b = tvm.nd.empty((1028,))
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), np.power(np.log(a), 2.0), rtol=1e-4, atol=1e-6)
    for dt, val in (("int32", 5), ("uint32", 2**32 - 1), ("int64", 7), ("uint64", 2**63)):
        A = te.placeholder((8,), name="A", dtype=dt)
        B = te.compute((8,), lambda i: te.popcount(A[i]))
        out = build_run(te.create_schedule(B.op), [A, B], np.full(8, val, dt))
        assert (out == bin(val).count("1")).all()


def test_dot():
    nn = 12
    n = tvm.runtime.convert(nn)
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((), lambda: te.sum(A[k] * B[k], axis=k), name="C")
    s = te.create_schedule(C.op)
    a, b = (np.random.rand(nn).astype("float32") for _ in range(2))
    tvm.testing.assert_allclose(build_run(s, [A, B, C], a, b), a @ b, rtol=1e-4)


def test_add_div_add_and_shift():
    for dtype in ("int32", "int64"):
        n = te.size_var("n")
        A = te.placeholder((n,), name="A", dtype=dtype)
        B = te.placeholder((n,), name="B", dtype=dtype)
        C = te.compute(
            (n,), lambda i: te.indexdiv(A[i] + B[i], 2) + (A[i] << 1) - (B[i] >> 1), name="C"
        )
        f = tvm.build(te.create_schedule(C.op), [A, B, C], "llvm")
        a = np.random.randint(1, 50, 64).astype(dtype)
        b = np.random.randint(1, 50, 64).astype(dtype)
        c = tvm.nd.empty((64,), dtype)
        f(tvm.nd.array(a), tvm.nd.array(b), c)
        np.testing.assert_array_equal(c.numpy(), ((a + b) // 2 + (a << 1) - (b >> 1)).astype(dtype))


@pytest.mark.parametrize(
    "reducer,ref,init", [(te.sum, np.sum, 0), (te.min, np.amin, 0), (te.max, np.amax, 0)]
)
def test_reduce_prims(reducer, ref, init):
    n, m = te.size_var("n"), te.size_var("m")
    A = te.placeholder((n, m), name="A")
    R = te.compute((n,), lambda i: tvm.tir.Select((i > 1), 1, 0), name="R")
    k = te.reduce_axis((0, m))
    B = te.compute((n,), lambda i: reducer(A[i, k], axis=k, where=(R[i] == 1)), name="B")
    s = te.create_schedule(B.op)
    _xo, xi = s[B].split(B.op.axis[0], 8)
    s[B].unroll(xi)
    s[R].compute_inline()
    f = tvm.build(s, [A, B], "llvm")
    a = np.random.rand(9, 12).astype("float32")
    b = tvm.nd.empty((9,))
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy()[2:], ref(a, axis=1)[2:], rtol=1e-4)


def test_init_imm():
    A = te.placeholder((13,), name="A")
    k = te.reduce_axis((0, 13))
    C = te.compute((), lambda: te.sum(A[k], axis=k, init=10.0), name="C")
    a = np.random.rand(13).astype("float32")
    tvm.testing.assert_allclose(
        build_run(te.create_schedule(C.op), [A, C], a), 10 + a.sum(), rtol=1e-5
    )
    B = te.placeholder((4,), name="B")
    D = te.compute((4,), lambda i: te.sum(A[k] * 1.0, axis=k, init=B[i]), name="D")
    b = np.random.rand(4).astype("float32")
    tvm.testing.assert_allclose(
        build_run(te.create_schedule(D.op), [A, B, D], a, b), b + a.sum(), rtol=1e-5
    )


def test_rfactor_threads_lowering_and_elemwise():
    nn, mm = 1027, 10
    n, m = tvm.runtime.convert(nn), tvm.runtime.convert(mm)
    A = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n))
    nthread = 16
    B = te.compute((m,), lambda i: te.sum(A[i, k], axis=k, where=(i > 1)), name="B")
    s = te.create_schedule(B.op)
    _ko, kf = s[B].split(k, factor=nthread)
    BF = s.rfactor(B, kf)
    bx, ty = s[B].split(s[B].op.axis[0], factor=nthread)
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(ty, te.thread_axis("threadIdx.y"))
    tx = s[B].op.reduce_axis[0]
    thread_x = te.thread_axis("threadIdx.x")
    s[B].bind(tx, thread_x)
    s[BF].compute_at(s[B], tx)
    s[B].set_store_predicate(thread_x.var.equal(0))
    print(tvm.lower(s, [A, B], simple_mode=True))


def test_gemm_gpu_schedule_lowers_and_cpu_runs():
    nn = 64
    n = te.var("n")
    n, m, l = tvm.runtime.convert(nn), tvm.runtime.convert(nn), tvm.runtime.convert(nn)
    A = te.placeholder((n, l), name="A")
    B = te.placeholder((m, l), name="B")
    k = te.reduce_axis((0, l), name="k")
    C = te.compute((n, m), lambda ii, jj: te.sum(A[ii, k] * B[jj, k], axis=k), name="CC")
    s = te.create_schedule(C.op)
    _xtile, _ytile = 32, 32
    scale, num_thread = 4, 8
    block_factor = scale * num_thread
    block_x, thread_x = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    block_y, thread_y = te.thread_axis("blockIdx.y"), te.thread_axis("threadIdx.y")
    CC = s.cache_write(C, "local")
    AA = s.cache_read(A, "shared", [CC])
    BB = s.cache_read(B, "shared", [CC])
    by, yi = s[C].split(C.op.axis[0], factor=block_factor)
    bx, xi = s[C].split(C.op.axis[1], factor=block_factor)
    s[C].reorder(by, bx, yi, xi)
    s[C].bind(by, block_y)
    s[C].bind(bx, block_x)
    ty, yi = s[C].split(yi, nparts=num_thread)
    tx, xi = s[C].split(xi, nparts=num_thread)
    s[C].reorder(ty, tx, yi, xi)
    s[C].bind(ty, thread_y)
    s[C].bind(tx, thread_x)
    yo, xo = CC.op.axis
    s[CC].reorder(k, yo, xo)
    s[CC].compute_at(s[C], tx)
    s[AA].compute_at(s[CC], k)
    s[BB].compute_at(s[CC], k)
    ty, xi = s[AA].split(s[AA].op.axis[0], nparts=num_thread)
    tx, xi = s[AA].split(xi, nparts=num_thread)
    s[AA].bind(ty, thread_y)
    s[AA].bind(tx, thread_x)
    ty, xi = s[BB].split(s[BB].op.axis[0], nparts=num_thread)
    tx, xi = s[BB].split(xi, nparts=num_thread)
    s[BB].bind(ty, thread_y)
    s[BB].bind(tx, thread_x)
    max_auto_unroll_step = 8
    with tvm.transform.PassContext(
        config={"tir.UnrollLoop": {"auto_max_step": max_auto_unroll_step, "explicit_unroll": True}}
    ):
        text = str(tvm.lower(s, [A, B, C], simple_mode=True))
    assert "threadIdx.x" in text
    a, b = np.random.rand(nn, nn).astype("float32"), np.random.rand(nn, nn).astype("float32")
    for target in ("cuda", "opencl"):
        if not tvm.testing.device_enabled(target):
            print("skip because %s is not enabled.." % target)
            continue
        dev = tvm.device(target, 0)
        f = tvm.build(s, [A, B, C], target)
        c = tvm.nd.array(np.zeros((nn, nn), "float32"), dev)
        f(tvm.nd.array(a, dev), tvm.nd.array(b, dev), c)
        tvm.testing.assert_allclose(c.numpy(), a @ b.T, rtol=1e-4)


if __name__ == "__main__":
    tvm.testing.main()
