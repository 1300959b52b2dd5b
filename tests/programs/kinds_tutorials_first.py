"""The first tutorials: expressions, primitives, reductions, scans, tuples, math."""

import numpy as np
import tvm
import tvm.testing
from tvm import te
from tvm.contrib import cc, utils


def test_get_started_symbolic_add():
    tgt = tvm.target.Target(target="llvm", host="llvm")
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    fadd = tvm.build(s, [A, B, C], tgt, name="myadd")
    dev = tvm.device(tgt.kind.name, 0)
    n = 1024
    a = tvm.nd.array(np.random.uniform(size=n).astype(A.dtype), dev)
    b = tvm.nd.array(np.random.uniform(size=n).astype(B.dtype), dev)
    c = tvm.nd.array(np.zeros(n, dtype=C.dtype), dev)
    fadd(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
    log: list = []

    def evaluate_addition(func, target, optimization, log):
        dev = tvm.device(target.kind.name, 0)
        n = 32768
        a = tvm.nd.array(np.random.uniform(size=n).astype(A.dtype), dev)
        b = tvm.nd.array(np.random.uniform(size=n).astype(B.dtype), dev)
        c = tvm.nd.array(np.zeros(n, dtype=C.dtype), dev)
        evaluator = func.time_evaluator(func.entry_name, dev, number=10)
        mean_time = evaluator(a, b, c).mean
        print("%s: %f" % (optimization, mean_time))
        log.append((optimization, mean_time))

    evaluate_addition(fadd, tgt, "naive", log=log)
    s[C].parallel(C.op.axis[0])
    print(tvm.lower(s, [A, B, C], simple_mode=True))
    p = tvm.build(s, [A, B, C], tgt, name="myadd_parallel")
    p(a, b, c)
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    factor = 4
    outer, inner = s[C].split(C.op.axis[0], factor=factor)
    s[C].parallel(outer)
    s[C].vectorize(inner)
    fadd_vector = tvm.build(s, [A, B, C], tgt, name="myadd_parallel")
    evaluate_addition(fadd_vector, tgt, "vector", log=log)
    print(tvm.lower(s, [A, B, C], simple_mode=True))
    print(fadd.get_source())
    print(fadd_vector.get_source("asm")[:100])
    temp = utils.tempdir()
    fadd.save(temp.relpath("myadd.o"))
    cc.create_shared(temp.relpath("myadd.so"), [temp.relpath("myadd.o")])
    print(temp.listdir())
    fadd1 = tvm.runtime.load_module(temp.relpath("myadd.so"))
    if tgt.kind.name == "cuda":
        fadd1_dev = tvm.runtime.load_module(temp.relpath("myadd.ptx"))
        fadd1.import_module(fadd1_dev)
    fadd1(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
    fadd.export_library(temp.relpath("myadd_pack.so"))
    fadd2 = tvm.runtime.load_module(temp.relpath("myadd_pack.so"))
    fadd2(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())


def test_get_started_gpu_path():
    run_cuda = tvm.cuda(0).exist
    if run_cuda:
        tvm.target.Target(target="cuda", host="llvm")
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute(A.shape, lambda i: A[i] + 1, name="C")
    s = te.create_schedule(C.op)
    bx, tx = s[C].split(C.op.axis[0], factor=64)
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))
    print(tvm.lower(s, [A, C], simple_mode=True))
    for name in ("cuda", "opencl", "rocm", "metal", "vulkan"):
        dev = tvm.device(name, 0)
        assert dev.exist in (True, False)
    assert not tvm.runtime.enabled("nosuchtarget")
    assert tvm.runtime.enabled("llvm") and tvm.runtime.enabled("cpu")


def test_schedule_primitives_tour():
    n = te.var("n")
    m = te.var("m")
    A = te.placeholder((m, n), name="A")
    B = te.placeholder((m, n), name="B")
    C = te.compute((m, n), lambda i, j: A[i, j] * B[i, j], name="C")
    s = te.create_schedule([C.op])
    print(tvm.lower(s, [A, B, C], simple_mode=True))
    A = te.placeholder((m,), name="A")
    B = te.compute((m,), lambda i: A[i] * 2, name="B")
    s = te.create_schedule(B.op)
    xo, xi = s[B].split(B.op.axis[0], factor=32)
    print(tvm.lower(s, [A, B], simple_mode=True))
    B = te.compute((m,), lambda i: A[i], name="B")
    s = te.create_schedule(B.op)
    bx, tx = s[B].split(B.op.axis[0], nparts=32)
    print(tvm.lower(s, [A, B], simple_mode=True))
    A = te.placeholder((m, n), name="A")
    B = te.compute((m, n), lambda i, j: A[i, j], name="B")
    s = te.create_schedule(B.op)
    xo, yo, xi, yi = s[B].tile(B.op.axis[0], B.op.axis[1], x_factor=10, y_factor=5)
    s[B].fuse(xi, yi)
    print(tvm.lower(s, [A, B], simple_mode=True))
    s = te.create_schedule(B.op)
    xo, yo, xi, yi = s[B].tile(B.op.axis[0], B.op.axis[1], x_factor=10, y_factor=5)
    s[B].reorder(xi, yo, xo, yi)
    print(tvm.lower(s, [A, B], simple_mode=True))
    A = te.placeholder((n,), name="A")
    B = te.compute(A.shape, lambda i: A[i] * 2, name="B")
    s = te.create_schedule(B.op)
    bx, tx = s[B].split(B.op.axis[0], factor=64)
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    print(tvm.lower(s, [A, B], simple_mode=True))
    A = te.placeholder((m,), name="A")
    B = te.compute((m,), lambda i: A[i] + 1, name="B")
    C = te.compute((m,), lambda i: B[i] * 2, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    print(tvm.lower(s, [A, B, C], simple_mode=True))
    s[B].compute_root()
    print(tvm.lower(s, [A, B, C], simple_mode=True))
    s = te.create_schedule(C.op)
    s[B].compute_inline()
    print(tvm.lower(s, [A, B, C], simple_mode=True))


def test_reduction_rowsum():
    n = te.var("n")
    m = te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    print(tvm.lower(s, [A, B], simple_mode=True))
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    xo, xi = s[B].split(B.op.axis[0], factor=32)
    print(tvm.lower(s, [A, B], simple_mode=True))
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.x"))
    print(tvm.lower(s, [A, B], simple_mode=True))
    s = te.create_schedule(B.op)
    _ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    BF = s.rfactor(B, ki)
    print(tvm.lower(s, [A, B], simple_mode=True))
    print(s[B].op.body)
    xo, xi = s[B].split(s[B].op.axis[0], factor=32)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
    print(tvm.lower(s, [A, B], simple_mode=True))
    n = te.var("n")
    Input = te.placeholder((n, n), name="Input")
    Filter = te.placeholder((3, 3), name="Filter")
    di = te.reduce_axis((0, 3), name="di")
    dj = te.reduce_axis((0, 3), name="dj")
    Output = te.compute(
        (n - 2, n - 2),
        lambda i, j: te.sum(Input[i + di, j + dj] * Filter[di, dj], axis=[di, dj]),
        name="Output",
    )
    s = te.create_schedule(Output.op)
    print(tvm.lower(s, [Input, Filter, Output], simple_mode=True))
    product = te.comm_reducer(
        lambda x, y: x * y, lambda t: tvm.tir.const(1, dtype=t), name="product"
    )
    n = te.var("n")
    m = te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: product(A[i, k], axis=k), name="B")
    f = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
    a = np.random.rand(4, 6).astype("float32")
    b = tvm.nd.empty((4,))
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), a.prod(1), rtol=1e-5)


def test_scan_cumsum():
    m = te.var("m")
    n = te.var("n")
    X = te.placeholder((m, n), name="X")
    s_state = te.placeholder((m, n))
    s_init = te.compute((1, n), lambda _, i: X[0, i])
    s_update = te.compute((m, n), lambda t, i: s_state[t - 1, i] + X[t, i])
    s_scan = tvm.te.scan(s_init, s_update, s_state, inputs=[X])
    s = te.create_schedule(s_scan.op)
    num_thread = 256
    block_x = te.thread_axis("blockIdx.x")
    thread_x = te.thread_axis("threadIdx.x")
    xo, xi = s[s_init].split(s_init.op.axis[1], factor=num_thread)
    s[s_init].bind(xo, block_x)
    s[s_init].bind(xi, thread_x)
    xo, xi = s[s_update].split(s_update.op.axis[1], factor=num_thread)
    s[s_update].bind(xo, block_x)
    s[s_update].bind(xi, thread_x)
    print(tvm.lower(s, [X, s_scan], simple_mode=True))
    s = te.create_schedule(s_scan.op)
    f = tvm.build(s, [X, s_scan], "llvm", name="myscan")
    x = np.random.uniform(size=(7, 10)).astype(s_scan.dtype)
    b = tvm.nd.array(np.zeros((7, 10), dtype=s_scan.dtype))
    f(tvm.nd.array(x), b)
    tvm.testing.assert_allclose(b.numpy(), np.cumsum(x, axis=0), rtol=1e-5)
    # multi-stage scan cell
    s_update_s1 = te.compute((m, n), lambda t, i: s_state[t - 1, i] * 2, name="s1")
    s_update_s2 = te.compute((m, n), lambda t, i: s_update_s1[t, i] + X[t, i], name="s2")
    s_scan = tvm.te.scan(s_init, s_update_s2, s_state, inputs=[X])
    s = te.create_schedule(s_scan.op)
    xo, xi = s[s_update_s2].split(s_update_s2.op.axis[1], factor=32)
    s[s_update_s1].compute_at(s[s_update_s2], xo)
    print(tvm.lower(s, [X, s_scan], simple_mode=True))
    f = tvm.build(s, [X, s_scan], "llvm")
    f(tvm.nd.array(x), b)
    want = x.copy()
    for t in range(1, 7):
        want[t] = want[t - 1] * 2 + x[t]
    tvm.testing.assert_allclose(b.numpy(), want, rtol=1e-5)


def test_tuple_argmax():
    def fcombine(x, y):
        lhs = tvm.tir.Select((x[1] >= y[1]), x[0], y[0])
        rhs = tvm.tir.Select((x[1] >= y[1]), x[1], y[1])
        return lhs, rhs

    def fidentity(t0, t1):
        return tvm.tir.const(-1, t0), tvm.te.min_value(t1)

    argmax = te.comm_reducer(fcombine, fidentity, name="argmax")
    m = te.var("m")
    n = te.var("n")
    idx = te.placeholder((m, n), name="idx", dtype="int32")
    val = te.placeholder((m, n), name="val", dtype="int32")
    k = te.reduce_axis((0, n), "k")
    T0, T1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
    s = te.create_schedule(T0.op)
    print(tvm.lower(s, [idx, val, T0, T1], simple_mode=True))
    f = tvm.build(s, [idx, val, T0, T1])
    i_ = np.tile(np.arange(9, dtype="int32"), (5, 1))
    v_ = np.random.permutation(45).reshape(5, 9).astype("int32")
    o0, o1 = tvm.nd.empty((5,), "int32"), tvm.nd.empty((5,), "int32")
    f(tvm.nd.array(i_), tvm.nd.array(v_), o0, o1)
    assert (o0.numpy() == v_.argmax(1)).all() and (o1.numpy() == v_.max(1)).all()
    n = te.var("n")
    m = te.var("m")
    A0 = te.placeholder((m, n), name="A0")
    B0, _B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A0[i, j] * 3), name="B")
    A1 = te.placeholder((m, n), name="A1")
    C = te.compute((m, n), lambda i, j: A1[i, j] + B0[i, j], name="C")
    s = te.create_schedule(C.op)
    s[B0].compute_at(s[C], C.op.axis[0])
    print(tvm.lower(s, [A0, A1, C], simple_mode=True))


def test_intrin_math():
    from tvm.ir import register_intrin_lowering, register_op_attr

    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute(A.shape, lambda i: tvm.tir.call_pure_extern("float32", "expf", A[i]), name="B")
    s = te.create_schedule(B.op)
    f = tvm.build(s, [A, B], "llvm", name="myexp")
    B = te.compute(A.shape, lambda i: te.exp(A[i]), name="B")
    s = te.create_schedule(B.op)
    f = tvm.build(s, [A, B], "llvm", name="myexp")

    def my_math_rule(op):
        if op.dtype == "float32":
            return tvm.tir.call_pure_extern("float32", "%sf" % op.op.name[4:], op.args[0])
        elif op.dtype == "float64":
            return tvm.tir.call_pure_extern("float32", op.op.name[4:], op.args[0])
        else:
            return op

    register_intrin_lowering("tir.exp", target="c", f=my_math_rule, level=99)

    def mylog(x):
        return tvm.tir.call_intrin(x.dtype, "tir.mylog2u", x)

    def rule(op):
        if op.dtype == "float32":
            return tvm.tir.call_pure_extern("float32", "logf", op.args[0])
        elif op.dtype == "float64":
            return tvm.tir.call_pure_extern("float64", "log", op.args[0])
        else:
            return op

    register_op_attr("tir.mylog2u", "TCallEffectKind", tvm.tir.CallEffectKind.Pure)
    register_intrin_lowering("tir.mylog2u", target="llvm", f=rule, level=99)
    for dt in ("float32", "float64"):
        A = te.placeholder((n,), name="A", dtype=dt)
        B = te.compute(A.shape, lambda i: mylog(A[i]), name="B")
        f = tvm.build(te.create_schedule(B.op), [A, B], "llvm", name="mylog")
        a = np.random.rand(10).astype(dt) + 0.5
        b = tvm.nd.empty((10,), dt)
        f(tvm.nd.array(a), b)
        tvm.testing.assert_allclose(b.numpy(), np.log(a), rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    tvm.testing.main()
