"""Schedule primitives and what they refuse."""

import numpy as np
import pytest
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


def test_schedule_create_and_queries():
    m, n, l = te.size_var("m"), te.size_var("n"), te.size_var("l")
    A = te.placeholder((m, l), name="A")
    B = te.placeholder((n, l), name="B")
    AA = te.compute((m, l), lambda i, j: A[i, j])
    T = te.compute((m, n, l), lambda i, j, k: AA(i, k) * B(j, k))
    s = te.create_schedule(T.op)
    s[AA].set_scope("shared")
    xo, xi = s[T].split(T.op.axis[0], factor=10)
    xi1, xi2 = s[T].split(xi, factor=2)
    s[AA].compute_at(s[T], xi1)
    _xo, xi = s[AA].split(AA.op.axis[0], factor=10)
    s[T].reorder(xi2, xi1)
    assert T.op.axis[1] in s[T].leaf_iter_vars
    s.normalize()
    assert len(s.stages) == 4
    assert s[T].op == T.op and s[T].origin_op == T.op
    assert isinstance(s.outputs[0], te.ComputeOp)
    assert len(s[T].relations) == 2 and len(s[T].all_iter_vars) == 3 + 4
    assert s[AA].scope == "shared"
    assert T.op in s.stage_map


def test_singleton_fuse():
    A = te.placeholder((), name="A")
    T = te.compute((), lambda: A() + 1)
    s = te.create_schedule(T.op)
    fused = s[T].fuse()
    assert fused in s[T].leaf_iter_vars
    xo, _xi = s[T].split(fused, factor=4)
    s[T].parallel(xo)
    f = tvm.build(s, [A, T], "llvm")
    o = tvm.nd.empty(())
    f(tvm.nd.array(np.float32(2)), o)
    assert o.numpy() == 3


def test_fuse_varieties():
    m, n = te.size_var("m"), te.size_var("n")
    A = te.placeholder((m, n), name="A")
    T = te.compute((m, n), lambda i, j: A[i, j] + 1)
    s = te.create_schedule(T.op)
    xo, yo, xi, yi = s[T].tile(T.op.axis[0], T.op.axis[1], x_factor=10, y_factor=5)
    fused = s[T].fuse(xo, yo)
    assert any(isinstance(x, tvm.te.schedule.Fuse) for x in s[T].relations)
    assert tuple(s[T].leaf_iter_vars) == (fused, xi, yi)
    with pytest.raises((tvm.TVMError, ValueError)):
        s[T].fuse(fused, yi)


def test_reorder_errors():
    A = te.placeholder((8, 8), name="A")
    T = te.compute((8, 8), lambda i, j: A[i, j] + 1)
    s = te.create_schedule(T.op)
    with pytest.raises(tvm.TVMError):
        s[T].reorder(T.op.axis[0], T.op.axis[1], T.op.axis[0])
    with pytest.raises((ValueError, TypeError, tvm.TVMError)):
        s[T].split(T.op.axis[0])
    with pytest.raises((ValueError, TypeError, tvm.TVMError)):
        s[T].split(T.op.axis[0], factor=2, nparts=2)
    with pytest.raises((ValueError, tvm.TVMError, TypeError)):
        s[T].bind(T.op.axis[0], T.op.axis[1])


def test_cache_read_write_rewrite():
    m, n = te.size_var("m"), te.size_var("n")
    A = te.placeholder((m, n), name="A")
    B = te.compute((m, n), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((m, n), lambda i, j: B[i, j] * A[i, j], name="C")
    s = te.create_schedule(C.op)
    AA = s.cache_read(A, "local", readers=[B, C])
    CC = s.cache_write(C, "global")
    assert AA.op.name == "A.local" and CC.op.name == "C.global"
    s[CC].compute_at(s[C], s[C].op.axis[0])
    f = tvm.build(s, [A, C], "llvm")
    a = np.random.rand(6, 7).astype("float32")
    c = tvm.nd.empty((6, 7))
    f(tvm.nd.array(a), c)
    tvm.testing.assert_allclose(c.numpy(), (a + 1) * a, rtol=1e-5)
    with pytest.raises(tvm.TVMError):
        s.cache_read(A, "local", readers=[C.op.output(0), te.compute((1,), lambda i: i).op])


def test_rfactor_forms():
    n, m = 12, 16
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    a = np.random.rand(n, m).astype("float32")
    for factor_axis in (0, 1, -1):
        s = te.create_schedule(B.op)
        ko, ki = s[B].split(B.op.reduce_axis[0], factor=4)
        BF = s.rfactor(B, ki, factor_axis) if factor_axis else s.rfactor(B, ki)
        shape = [int(x) for x in BF.shape]
        assert shape == ([4, n] if factor_axis == 0 else [n, 4])
        assert s[BF].op.body[0].axis[0].dom.extent.value == 4
        tvm.testing.assert_allclose(run(s, [A, B], a), a.sum(1), rtol=1e-5)
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], nparts=5)
    BF = s.rfactor(B, ko)
    tvm.testing.assert_allclose(run(s, [A, B], a), a.sum(1), rtol=1e-5)


def test_rfactor_argmax():
    def fcombine(x, y):
        lhs = tvm.tir.Select((x[1] >= y[1]), x[0], y[0])
        rhs = tvm.tir.Select((x[1] >= y[1]), x[1], y[1])
        return lhs, rhs

    def fidentity(t0, t1):
        return tvm.tir.const(-1, t0), tvm.te.min_value(t1)

    argmax = te.comm_reducer(fcombine, fidentity, name="argmax")
    nn, mm = 7, 33
    A0 = te.placeholder((nn, mm), name="A0", dtype="int32")
    A1 = te.placeholder((nn, mm), name="A1")
    k = te.reduce_axis((0, mm))
    B0, B1 = te.compute((nn,), lambda i: argmax((A0[i, k], A1[i, k]), axis=k), name="B")
    s = te.create_schedule(B0.op)
    _ko, ki = s[B0].split(k, factor=8)
    BF0, _BF1 = s.rfactor(B0, ki)
    s[BF0].compute_at(s[B0], s[B0].op.axis[0])
    i = np.tile(np.arange(mm, dtype="int32"), (nn, 1))
    v = np.random.rand(nn, mm).astype("float32")
    r0, r1 = run(s, [A0, A1, B0, B1], i, v)
    assert (r0 == v.argmax(1)).all()
    tvm.testing.assert_allclose(r1, v.max(1))


def test_compute_at_and_errors():
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] + 1, name="B")
    C = te.compute((64,), lambda i: B[i] * 2, name="C")
    s = te.create_schedule(C.op)
    xo, _xi = s[C].split(C.op.axis[0], factor=8)
    s[B].compute_at(s[C], xo)
    tvm.lower(s, [A, C])
    s2 = te.create_schedule(C.op)
    with pytest.raises(tvm.TVMError):
        s2[B].compute_at(s2[C], xo)
        tvm.lower(s2, [A, C])
    D = te.compute((64,), lambda i: C[i], name="D")
    s3 = te.create_schedule([C.op, D.op])
    with pytest.raises(tvm.TVMError):
        s3[C].compute_at(s3[D], D.op.axis[0])
        tvm.lower(s3, [A, C, D])


if __name__ == "__main__":
    tvm.testing.main()
