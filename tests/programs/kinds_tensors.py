"""Tensors: computes, reductions, scans, extern stages, several outputs, tags."""

import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import te, topi


def run(s, args, *arrays, target="llvm", **kw):
    f = tvm.build(s, args, target, **kw)
    n_in = len(arrays)
    outs = []
    for t in args[n_in:]:
        outs.append(tvm.nd.array(np.zeros([int(x) for x in t.shape], t.dtype)))
    f(*[tvm.nd.array(a) for a in arrays], *outs)
    res = [o.numpy() for o in outs]
    return res[0] if len(res) == 1 else res


def test_tensor_basics():
    m, n, l = te.size_var("m"), te.size_var("n"), te.size_var("l")
    A = te.placeholder((m, l), name="A")
    B = te.placeholder((n, l), name="B")
    T = te.compute((m, n, l), lambda i, j, k: A[i, k] * B[j, k])
    print(T)
    print(T.op.body)
    assert tuple(T.shape) == (m, n, l)
    assert isinstance(A.op, tvm.te.PlaceholderOp)
    assert (A == A and A != B) or A.same_as(A)
    assert T.op.output(0) == T
    assert T.op.output(0).__hash__() == T.__hash__()
    d = {T.op.output(0): 1}
    assert d[T] == 1
    assert T[0][0][0].astype("float16").dtype == "float16"
    assert T.op.axis[0].var.name == "i" and T.op.num_outputs == 1
    assert len(T.op.input_tensors) == 2 and T.op.input_tensors[0] == A
    assert T.op.attrs is not None and T.op.tag == "" and T.value_index == 0
    assert T.ndim == 3 and T.dtype == "float32" and T.op.name == "compute"


def test_rank_zero():
    m = te.size_var("m")
    A = te.placeholder((m,), name="A")
    scale = te.placeholder((), name="s")
    k = te.reduce_axis((0, m), name="k")
    T = te.compute((), lambda: te.sum(A[k] * scale(), axis=k))
    print(T.op.body)
    assert tuple(T.shape) == ()
    s = te.create_schedule(T.op)
    a = np.random.rand(10).astype("float32")
    f = tvm.build(s, [A, scale, T], "llvm")
    out = tvm.nd.empty((), "float32")
    f(tvm.nd.array(a), tvm.nd.array(np.array(2.0, "float32")), out)
    tvm.testing.assert_allclose(out.numpy(), a.sum() * 2, rtol=1e-5)


def test_conv1d_and_slice():
    n = te.size_var("n")
    A = te.placeholder((n + 2), name="A")

    def computeB(ii):
        i = ii + 1
        return A[i - 1] + A[i] + A[i + 1]

    B = te.compute((n,), computeB)
    a = np.random.rand(12).astype("float32")
    f = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
    b = tvm.nd.empty((10,))
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), a[:-2] + a[1:-1] + a[2:], rtol=1e-5)
    n = te.size_var("n")
    A = te.compute((n, n), lambda i, j: 1)
    B = te.compute((n,), lambda i: A[0][i] + A[0][i])
    assert B.dtype == "int32"


def test_reduce_multi_axis_and_where():
    m, n = te.size_var("m"), te.size_var("n")
    A = te.placeholder((m, n), name="A")
    k1, k2 = te.reduce_axis((0, n), "k1"), te.reduce_axis((0, m), "k2")
    C = te.compute((1,), lambda _: te.sum(A[k2, k1], axis=(k1, k2)))
    D = te.compute((1,), lambda _: te.sum(A[k2, k1], axis=(k1, k2), where=k1 < 2))
    a = np.random.rand(4, 5).astype("float32")
    f = tvm.build(te.create_schedule([C.op, D.op]), [A, C, D], "llvm")
    c, d = tvm.nd.empty((1,)), tvm.nd.empty((1,))
    f(tvm.nd.array(a), c, d)
    tvm.testing.assert_allclose(c.numpy()[0], a.sum(), rtol=1e-5)
    tvm.testing.assert_allclose(d.numpy()[0], a[:, :2].sum(), rtol=1e-5)


def test_reduce_checks():
    A = te.placeholder((10, 10), name="A")
    k = te.reduce_axis((0, 10), "k")
    with pytest.raises((tvm.TVMError, ValueError, TypeError)):
        te.create_schedule(te.compute((10,), lambda i: te.sum(A[i, k], axis=k) + 1).op)
    with pytest.raises((tvm.TVMError, ValueError)):
        te.compute((10,), lambda i: (te.sum(A[i, k], axis=k), A[i, 0]))
    with pytest.raises((tvm.TVMError, ValueError)):
        A[1, 2, 3]
        te.compute((10,), lambda i: A[i, i, i])
    with pytest.raises((tvm.TVMError, ValueError)):
        te.compute((10, 10), lambda i: A[i, 0, 0])


def test_scan_multi_and_fixpoint():
    m, n = te.size_var("m"), te.size_var("n")
    x = te.placeholder((m, n), name="x")
    st = te.placeholder((m, n), name="st")
    res = tvm.te.scan(
        te.compute((1, n), lambda _, i: x[0, i]),
        te.compute((m, n), lambda t, i: st[t - 1, i] + x[t, i]),
        st,
    )
    assert tuple(res.shape) == (m, n)
    zz = te.schedule.ScanFixPointAnalysis(res.op)
    assert zz[res.op.spatial_axis_[0]].value == 1
    body = te.schedule.ScanGetBody(res.op)
    assert len(body) == 1
    assert res.op.scan_axis.dom is not None
    g = te.schedule.CreateReadGraph([res.op])
    order = te.schedule.PostDFSOrder([res.op], g)
    assert order[-1] == res.op


def test_extern_forms():
    m = te.size_var("m")
    A = te.placeholder((m,), name="A")

    def extern_func(ins, outs):
        assert isinstance(ins[0], tvm.tir.Buffer)
        return tvm.tir.call_packed("myadd_k", ins[0].data, outs[0].data, m)

    B = te.extern((m,), [A], extern_func)
    assert tuple(B.shape) == (m,) and isinstance(B.op, te.ExternOp)

    def two(ins, outs):
        ib = tvm.tir.ir_builder.create()
        a = ib.buffer_ptr(ins[0])
        b, c = ib.buffer_ptr(outs[0]), ib.buffer_ptr(outs[1])
        with ib.for_range(0, 10, "i") as i:
            b[i] = a[i] + 1.0
            c[i] = a[i] * 2.0
        return ib.get()

    A = te.placeholder((10,), name="A")
    B, C = te.extern([A.shape, A.shape], [A], two, name="two", dtype=["float32", "float32"])
    s = te.create_schedule([B.op])
    a = np.random.rand(10).astype("float32")
    b, c = run(s, [A, B, C], a)
    tvm.testing.assert_allclose(b, a + 1, rtol=1e-6)
    tvm.testing.assert_allclose(c, a * 2, rtol=1e-6)
    D = te.compute((10,), lambda i: B[i] + C[i])
    s = te.create_schedule(D.op)
    tvm.testing.assert_allclose(run(s, [A, D], a), a * 3 + 1, rtol=1e-5)
    with pytest.raises((ValueError, tvm.TVMError)):
        te.extern((10,), [], lambda i, o: tvm.tir.call_packed("x"))


def test_tuple_inputs_and_outputs():
    m, n = te.size_var("m"), te.size_var("n")
    A0 = te.placeholder((m, n), name="A0")
    A1 = te.placeholder((m, n), name="A1")
    T0, T1 = te.compute((m, n), lambda i, j: (A0[i, j] * 2, A1[i, j] * 3), name="T")
    te.create_schedule(T0.op)
    for i in range(len(T0.shape)):
        assert T0.shape[i] == T1.shape[i]
    assert T0.op == T1.op
    assert T0.value_index == 0 and T1.value_index == 1


def test_implicit_and_varargs_and_attrs():
    A = te.placeholder((4, 5, 6), name="A")
    B = te.compute(
        (4, 5, 6), lambda *i: A(*i) + 1, name="B", attrs={"flag": 1, "name": "x"}, tag="elemwise"
    )
    assert B.op.tag == "elemwise" and int(B.op.attrs["flag"]) == 1
    with te.tag_scope(tag="conv"):
        C = te.compute((4,), lambda i: A[i, 0, 0], name="C")
    assert C.op.tag == "conv"

    @tvm.te.tag_scope(tag="matmul")
    def mm(A, B):
        k = te.reduce_axis((0, 6), "k")
        return te.compute((4, 4), lambda i, j: te.sum(A[i, 0, k] * B[j, 1, k], axis=k))

    assert mm(A, A).op.tag == "matmul"


def test_tensor_overloads():
    A = te.placeholder((4, 5), name="A")
    B = te.placeholder((5,), name="B")
    for t in (A + B, A - 1, 2 * A, A / B, -A, A * B, topi.exp(A)):
        assert isinstance(t, te.Tensor) and tuple(int(x) for x in t.shape) == (4, 5)
    a, b = np.random.rand(4, 5).astype("float32"), np.random.rand(5).astype("float32")
    out = topi.tanh(A * 2.0 + B)
    tvm.testing.assert_allclose(
        run(te.create_schedule(out.op), [A, B, out], a, b), np.tanh(a * 2 + b), rtol=1e-5
    )
    assert isinstance(A[0, 1] + 1, tvm.tir.PrimExpr)


if __name__ == "__main__":
    tvm.testing.main()
