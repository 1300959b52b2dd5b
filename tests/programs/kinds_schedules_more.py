"""Tensor intrinsics, groups, prefetch, pragmas, conditions, gradients."""

import numpy as np
import tvm
import tvm.testing
from tvm import te


def run(s, args, *arrays, target="llvm", **kw):
    f = tvm.build(s, args, target, **kw)
    n_in = len(arrays)
    outs = []
    for t in args[n_in:]:
        outs.append(tvm.nd.array(np.zeros([int(x) for x in t.shape], t.dtype)))
    f(*[tvm.nd.array(a) for a in arrays], *outs)
    res = [o.numpy() for o in outs]
    return res[0] if len(res) == 1 else res


def test_tensor_intrin_vadd():
    def intrin_vadd(n):
        x = te.placeholder((n,), name="vx")
        y = te.placeholder((n,), name="vy")
        z = te.compute(x.shape, lambda i: x[i] + y[i], name="z")

        def intrin_func(ins, outs):
            xx, yy = ins
            zz = outs[0]
            return zz.vstore(0, xx.vload(0, "float32x%d" % n) + yy.vload(0, "float32x%d" % n))

        return te.decl_tensor_intrin(z.op, intrin_func, default_buffer_params={"offset_factor": n})

    m, factor = 128, 16
    x = te.placeholder((m,), name="x")
    y = te.placeholder((m,), name="y")
    z = te.compute((m,), lambda i: x[i] + y[i], name="z")
    vadd = intrin_vadd(factor)
    s = te.create_schedule(z.op)
    xo, xi = s[z].split(z.op.axis[0], factor=factor)
    s[z].tensorize(xi, vadd)
    s = s.normalize()
    assert s[z].iter_var_attrs[xi].tensor_intrin == vadd
    assert s[z].iter_var_attrs[xi].iter_type == tvm.tir.IterVar.Tensorized
    a, b = (np.random.rand(m).astype("float32") for _ in range(2))
    s = te.create_schedule(z.op)
    _xo, xi = s[z].split(z.op.axis[0], factor=factor)
    s[z].tensorize(xi, vadd)
    tvm.testing.assert_allclose(run(s, [x, y, z], a, b), a + b, rtol=1e-6)


def test_tensor_compute_op_intrin_call():
    M, factor = 64, 16
    A = te.placeholder((M // factor, factor), name="A")
    B = te.placeholder((M // factor, factor), name="B")

    def intrin_vadd(n):
        x = te.placeholder((n,), name="vx")
        y = te.placeholder((n,), name="vy")
        z = te.compute(x.shape, lambda i: x[i] + y[i], name="z")

        def intrin_func(ins, outs):
            ib = tvm.tir.ir_builder.create()
            ib.emit(
                outs[0].vstore(
                    [0], ins[0].vload([0], "float32x%d" % n) + ins[1].vload([0], "float32x%d" % n)
                )
            )
            return ib.get()

        return te.decl_tensor_intrin(z.op, intrin_func, default_buffer_params={"offset_factor": n})

    vadd = intrin_vadd(factor)
    C = te.compute((M // factor, factor), lambda i: vadd(A[i, 0:factor], B[i, 0:factor]))
    s = te.create_schedule(C.op)
    a, b = (np.random.rand(M // factor, factor).astype("float32") for _ in range(2))
    tvm.testing.assert_allclose(run(s, [A, B, C], a, b), a + b, rtol=1e-6)


def test_group_and_env_threads():
    m, n = te.size_var("m"), te.size_var("n")
    x = te.compute((m, n), lambda i, j: tvm.tir.const(1, "float32"), name="x")
    s_state = te.placeholder((m, n))
    s_init = te.compute((1, n), lambda _, i: x[0, i])
    s_update = te.compute((m, n), lambda t, i: s_state[t - 1, i] + x[t, i])
    s_scan = te.scan(s_init, s_update, s_state)
    s = te.create_schedule(s_scan.op)
    _px, tx = te.thread_axis((0, 4), "pipeline"), te.thread_axis("threadIdx.x")
    _xo, _xi = s[s_init].split(s_init.op.axis[1], nparts=4)
    bx = te.thread_axis("blockIdx.x")
    s[s_scan].env_threads([bx, tx])
    assert s[s_scan].env_threads is not None
    A = te.placeholder((16, 16), name="A")
    B = te.compute((16, 16), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((16, 16), lambda i, j: B[i, j] * 2, name="C")
    D = te.compute((16, 16), lambda i, j: C[i, j] - 1, name="D")
    s = te.create_schedule(D.op)
    g = s.create_group(outputs=C, inputs=A, include_inputs=False)
    g.compute_at(s[D], D.op.axis[0])
    assert len(s.groups) == 1 and s[B].group == g
    a = np.random.rand(16, 16).astype("float32")
    tvm.testing.assert_allclose(run(s, [A, D], a), (a + 1) * 2 - 1, rtol=1e-5)


def test_prefetch_any_tensor():
    A = te.placeholder((32, 32), name="A")
    B = te.compute((32, 32), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((32, 32), lambda i, j: B[i, j] + A[i, j], name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[C].prefetch(A, C.op.axis[0], 1)
    a = np.random.rand(32, 32).astype("float32")
    tvm.testing.assert_allclose(run(s, [A, C], a), 2 * a + 1, rtol=1e-5)
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    yo, _yi = s[C].split(C.op.axis[1], 8)
    s[C].prefetch(B, yo, 1)
    s[B].compute_root()
    tvm.testing.assert_allclose(run(s, [A, C], a), 2 * a + 1, rtol=1e-5)
    D = te.compute((32, 32), lambda i, j: C[i, j] * 2, name="D")
    s = te.create_schedule(D.op)
    s[D].prefetch(A, D.op.axis[0], 2)
    tvm.testing.assert_allclose(run(s, [A, D], a), 4 * a + 2, rtol=1e-5)


def test_all_pragmas():
    A = te.placeholder((64, 64), name="A")
    B = te.compute((64, 64), lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B.op)
    xo, xi = s[B].split(B.op.axis[0], 16)
    s[B].pragma(xo, "parallel_launch_point")
    s[B].pragma(xo, "parallel_stride_pattern")
    s[B].pragma(xo, "parallel_barrier_when_finish")
    s[B].parallel(xo)
    s[B].pragma(xi, "auto_unroll_max_step", 16)
    s[B].pragma(xi, "unroll_explicit", False)
    s[B].pragma(B.op.axis[1], "vectorize")
    a = np.random.rand(64, 64).astype("float32")
    tvm.testing.assert_allclose(run(s, [A, B], a), a * 2)
    s = te.create_schedule(B.op)
    s[B].pragma(B.op.axis[0], "loop_partition_hint")
    s[B].pragma(B.op.axis[1], "debug_skip_region")
    tvm.lower(s, [A, B])


def test_compute_with_let_and_select_any_all():
    A = te.placeholder((10, 10), name="A", dtype="bool")
    k = te.reduce_axis((0, 10), "k")
    any_ = te.compute((10,), lambda i: te.sum(A[i, k].astype("int32"), axis=k), name="cnt")
    a = np.random.rand(10, 10) > 0.5
    assert (run(te.create_schedule(any_.op), [A, any_], a) == a.sum(1)).all()
    x = te.placeholder((10,), name="x")
    y = te.compute(
        (10,),
        lambda i: te.if_then_else(
            te.any(i < 2, i > 7), x[i], tvm.tir.Select(te.all(i > 3, i < 6), -x[i], 0.0)
        ),
    )
    v = np.random.rand(10).astype("float32")
    i = np.arange(10)
    want = np.where((i < 2) | (i > 7), v, np.where((i > 3) & (i < 6), -v, 0))
    tvm.testing.assert_allclose(run(te.create_schedule(y.op), [x, y], v), want)
    mn = te.compute((), lambda: te.min(x[k], axis=k))
    mx = te.compute((), lambda: te.max(x[k], axis=k))
    assert run(te.create_schedule(mn.op), [x, mn], v) == v.min()
    assert run(te.create_schedule(mx.op), [x, mx], v) == v.max()


def test_specialized_condition():
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i], name="C")
    te.create_schedule(C.op)
    with te.SpecializedCondition(n > 3):
        assert te.SpecializedCondition.current() is not None
    assert te.SpecializedCondition.current() is None


def test_gradient_kinds():
    np.random.seed(0)  # finite differences are wrong across the kink of the Select

    def check(out, inputs, rng=(0.5, 1.5)):
        grads = te.gradient(out, inputs, head=None)
        s = te.create_schedule([out.op] + [g.op for g in grads])
        f = tvm.build(s, list(inputs) + [out] + grads, "llvm")
        fout = tvm.build(te.create_schedule(out.op), list(inputs) + [out], "llvm")
        vals = [
            np.random.uniform(rng[0], rng[1], size=[int(d) for d in t.shape]).astype("float64")
            for t in inputs
        ]
        o = tvm.nd.empty([int(d) for d in out.shape], out.dtype)
        gs = [tvm.nd.empty([int(d) for d in g.shape], g.dtype) for g in grads]
        f(*[tvm.nd.array(v) for v in vals], o, *gs)

        def forward(*xs):
            fout(*[tvm.nd.array(np.asarray(x, "float64")) for x in xs], o)
            return o.numpy().sum()

        # gradient of the sum: add up over the output's axes
        grad_values = [
            g.numpy().reshape((-1,) + tuple(int(d) for d in t.shape)).sum(0)
            for g, t in zip(gs, inputs)
        ]
        tvm.testing.check_numerical_grads(forward, vals, grad_values)

    X = te.placeholder((4, 5), name="X", dtype="float64")
    W = te.placeholder((3, 5), name="W", dtype="float64")
    k = te.reduce_axis((0, 5), "k")
    check(te.compute((4, 3), lambda i, j: te.sum(X[i, k] * W[j, k], axis=k)), [X, W])
    check(
        te.compute(
            (4, 5), lambda i, j: te.exp(X[i, j]) * te.log(X[i, j]) + te.sqrt(X[i, j]) / X[j % 4, i]
        ),
        [X],
    )
    check(te.compute((4, 5), lambda i, j: te.sigmoid(X[i, j]) + te.tanh(X[3 - i, j])), [X])
    check(te.compute((4,), lambda i: te.max(X[i, k], axis=k)), [X])
    check(
        te.compute(
            (4, 5),
            lambda i, j: te.power(X[i, j], 3.0) + tvm.tir.Select(X[i, j] > 1.0, X[i, j], X[i, 0]),
        ),
        [X],
    )


if __name__ == "__main__":
    tvm.testing.main()
