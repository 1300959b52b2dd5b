"""Bounds, loops of schedules, helpers for tests, other libraries' arrays."""

from importlib import import_module

import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import te
from tvm._ffi.base import TVMError
from tvm.te.schedule import InferBound
from tvm.tir.stmt_functor import post_order_visit

MODULES = (
    "tvm.contrib.cblas tvm.contrib.clang tvm.contrib.dlpack tvm.contrib.nvcc tvm.contrib.tar "
    "tvm.contrib.utils tvm.driver.build_module tvm.error tvm.ir.container tvm.ir.instrument "
    "tvm.ir.module tvm.ir.transform tvm.runtime.module tvm.runtime.ndarray tvm.support "
    "tvm.target.codegen tvm.te.operation tvm.te.tensor tvm.tir.analysis tvm.tir.buffer "
    "tvm.tir.expr tvm.tir.ir_builder tvm.tir.stmt tvm.tir.transform tvm.topi.testing"
)
dtype = tvm.testing.parameter("float32", "float64", "int32")
size = tvm.testing.parameter(1, 7)


@pytest.mark.parametrize("name", MODULES.split())
def test_modules_stand_where_programs_import_them(name):
    assert import_module(name).__doc__


def test_bounds_simple():
    m, l = te.size_var("m"), te.size_var("l")
    A = te.placeholder((m, l), name="A")
    A1 = te.compute((m, l), lambda i, j: A[i, j], name="A1")
    A2 = te.compute((m, l), lambda i, j: A1[i, j] + 3, name="A2")
    s = te.create_schedule([A2.op])
    xo, _xi = s[A2].split(s[A2].op.axis[0], 8)
    s[A1].compute_at(s[A2], xo)
    bounds = InferBound(s)
    assert isinstance(bounds, tvm.ir.container.Map)
    assert bounds[A1.op.axis[0]].extent.value == 8
    assert bounds[A2.op.axis[0]].extent.same_as(m) or tvm.ir.structural_equal(
        bounds[A2.op.axis[0]].extent, m
    )


def test_bounds_conv_and_tile():
    n = te.size_var("n")
    A = te.placeholder((n + 2), name="A")

    def computeB(ii):
        i = ii + 1
        return A[i - 1] + A[i] + A[i + 1]

    B = te.compute((n,), computeB, name="B")
    s = te.create_schedule(B.op)
    xo, xi = s[B].split(B.op.axis[0], 8)
    b = InferBound(s)
    assert b[xi].extent.value == 8
    m = 64
    A = te.placeholder((m, m), name="A")
    A1 = te.compute((m, m), lambda i, j: A[i, j], name="A1")
    A2 = te.compute((m, m), lambda i, j: A1[i, j] + A1[i, j], name="A2")
    s = te.create_schedule(A2.op)
    _yo, xo, _yi, xi = s[A2].tile(A2.op.axis[0], A2.op.axis[1], 8, 8)
    s[A1].compute_at(s[A2], xo)
    b = InferBound(s)
    assert b[A1.op.axis[0]].extent.value == 8 and b[A1.op.axis[1]].extent.value == 8
    s = te.create_schedule(A2.op)
    f = s[A2].fuse(A2.op.axis[0], A2.op.axis[1])
    xo, xi = s[A2].split(f, 4)
    s[A1].compute_at(s[A2], xo)
    b = InferBound(s)
    assert b[A1.op.axis[1]].extent.value == 4 and b[A1.op.axis[0]].extent.value == 1


def test_bounds_threads_and_scan():
    m, l = te.size_var("m"), te.size_var("l")
    A = te.placeholder((m, l), name="A")
    A1 = te.compute((m, l), lambda i, j: A[i, j], name="A1")
    A2 = te.compute((m, l), lambda i, j: A1[i, j] + 3, name="A2")
    s = te.create_schedule(A2.op)
    s[A1].set_scope("shared")
    xo, xi = s[A2].split(A2.op.axis[0], 32)
    xi0, xi1 = s[A2].split(xi, nparts=16)
    s[A2].bind(xi0, te.thread_axis("threadIdx.x"))
    yo, yi = s[A2].split(A2.op.axis[1], 16)
    s[A2].reorder(yo, xo, xi0, xi1, yi)
    s[A2].bind(xo, te.thread_axis("blockIdx.x"))
    s[A1].compute_at(s[A2], yo)
    xo, xi = s[A1].split(A1.op.axis[0], factor=16)
    s[A1].bind(xi, te.thread_axis("threadIdx.x"))
    b = InferBound(s)
    # a stage at yo, outside of the blocks' loop, has the whole of the first dimension
    assert b[A1.op.axis[1]].extent.value == 16
    X = te.placeholder((10, 20), name="X")
    st = te.placeholder((10, 20))
    s1 = te.compute((10, 20), lambda t, i: st[t - 1, i] * 2, name="s1")
    up = te.compute((10, 20), lambda t, i: s1[t, i] + X[t, i], name="up")
    scan = te.scan(te.compute((1, 20), lambda _, i: X[0, i]), up, st)
    s = te.create_schedule(scan.op)
    xo, xi = s[up].split(up.op.axis[1], 5)
    s[s1].compute_at(s[up], xo)
    b = InferBound(s)
    assert b[s1.op.axis[1]].extent.value == 5
    assert b[scan.op.scan_axis].extent.value == 9


def test_gemm_bound():
    nn = 1024
    n = tvm.runtime.convert(nn)
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda ii, jj: te.sum(A[ii, k] * B[jj, k], axis=k), name="CC")
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "global")
    by, yi = s[C].split(C.op.axis[0], factor=64)
    bx, xi = s[C].split(C.op.axis[1], factor=64)
    s[C].reorder(by, bx, yi, xi)
    ty, yi = s[C].split(yi, nparts=8)
    tx, xi = s[C].split(xi, nparts=8)
    s[C].reorder(ty, tx, yi, xi)
    s[CC].compute_at(s[C], tx)
    AA = s.cache_read(A, "global", [CC])
    s[CC].reorder(s[CC].op.reduce_axis[0], *s[CC].op.axis)
    s[AA].compute_at(s[CC], s[CC].op.reduce_axis[0])
    s = s.normalize()
    bounds = InferBound(s)
    assert bounds[s[CC].op.axis[0]].extent.value == 8
    assert bounds[s[AA].op.axis[0]].extent.value == 8 and bounds[s[AA].op.axis[1]].extent.value == 1
    assert bounds[C.op.axis[0]].extent.value == nn or bounds[s[C].op.axis[0]].extent.value == nn


def test_schedule_ops_shapes():
    def collect(stmt, kind):
        found = []
        post_order_visit(stmt, lambda x: found.append(x) if isinstance(x, kind) else None)
        return found

    n, m = te.size_var("n"), te.size_var("m")
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((n, m), lambda i, j: B[i, j] * 2, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_inline()
    s = s.normalize()
    stmt = te.schedule.ScheduleOps(s, InferBound(s))
    assert len(collect(stmt, tvm.tir.For)) == 2
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    stmt = te.schedule.ScheduleOps(s, InferBound(s))
    assert len(collect(stmt, tvm.tir.ProducerRealize)) == 2
    func = te.schedule.SchedulePostProcToPrimFunc([A, C], stmt, None)
    mod = tvm.IRModule.from_expr(func)
    f = tvm.build(mod, target="llvm")
    a = np.random.rand(3, 5).astype("float32")
    c = tvm.nd.empty((3, 5))
    f(tvm.nd.array(a), c)
    tvm.testing.assert_allclose(c.numpy(), (a + 1) * 2, rtol=1e-6)
    Ab = tvm.tir.decl_buffer(A.shape, A.dtype, name="Ab")
    func = te.schedule.SchedulePostProcToPrimFunc([Ab, C], stmt, {A: Ab})
    f = tvm.build(tvm.IRModule.from_expr(func), target="llvm")
    f(tvm.nd.array(a), c)
    tvm.testing.assert_allclose(c.numpy(), (a + 1) * 2, rtol=1e-6)
    path = te.schedule.CreateAttachPath(s)
    assert len(path[s[B].op]) == 1 if s[B].op in path else True


def test_inline_variants():
    m = te.size_var("m")
    A = te.placeholder((m,), name="A")
    T = te.compute((m,), lambda i: A[i] + 10, name="T")
    X = te.compute((m,), lambda i: T[i] * te.exp(T[i]), name="X")
    s = te.create_schedule(X.op)
    s[T].compute_inline()
    f = tvm.build(s, [A, X], "llvm")
    a = np.random.rand(5).astype("float32")
    x = tvm.nd.empty((5,))
    f(tvm.nd.array(a), x)
    tvm.testing.assert_allclose(x.numpy(), (a + 10) * np.exp(a + 10), rtol=1e-5)
    n = 8
    T0, T1 = te.compute((n,), lambda i: (i.astype("float32"), i * 2.0), name="T2")
    Y = te.compute((n,), lambda i: T0[i] + T1[i], name="Y")
    s = te.create_schedule(Y.op)
    with pytest.raises(TVMError):
        s[T0].compute_inline()
        tvm.lower(s, [Y])


def test_lstm_cell_lowering_text():
    shape = (4, 8)
    k = te.reduce_axis((0, 8), "k")
    h, w = te.placeholder(shape, name="h"), te.placeholder((8, 8), name="w")
    g = te.compute(shape, lambda i, j: te.sum(h[i, k] * w[j, k], axis=k), name="g")
    o = te.compute(shape, lambda i, j: te.sigmoid(g[i, j]), name="o")
    s = te.create_schedule(o.op)
    s[g].compute_at(s[o], o.op.axis[1])
    text = str(tvm.lower(s, [h, w, o], simple_mode=True))
    assert "T.sigmoid" in text or "sigmoid" in text


def test_pytorch_bridge():
    torch = pytest.importorskip("torch")
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 3.0, name="B")
    f = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
    g = tvm.contrib.dlpack.to_pytorch_func(f)
    x, y = torch.arange(8.0), torch.empty(8)
    g(x, y)
    assert torch.equal(y, x * 3)
    f(x, y)


def test_testing_helpers():
    assert "llvm" in [t for t, _ in tvm.testing.enabled_targets()]
    assert tvm.testing.device_enabled("llvm")
    x = te.var("x")
    tvm.testing.check_bool_expr_is_true(x * 2 >= x, {x: tvm.ir.Range(0, 5)})
    with pytest.raises(AssertionError):
        tvm.testing.check_bool_expr_is_true(x > 2, {x: tvm.ir.Range(0, 5)})
    info = tvm.support.libinfo()
    assert "LLVM_VERSION" in info
    assert tvm.__version__
    assert tvm.target.codegen.llvm_version_major() >= 11


@tvm.testing.parametrize_targets("llvm", "cuda")
def test_parametrized(target, dev):
    n = 16
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    if target == "cuda":
        bx, tx = s[B].split(B.op.axis[0], 8)
        s[B].bind(bx, te.thread_axis("blockIdx.x"))
        s[B].bind(tx, te.thread_axis("threadIdx.x"))
    f = tvm.build(s, [A, B], target)
    b = tvm.nd.array(np.zeros(n, "float32"), dev)
    f(tvm.nd.array(np.ones(n, "float32"), dev), b)
    assert (b.numpy() == 2).all()


def test_parameters(dtype, size):
    A = te.placeholder((size,), name="A", dtype=dtype)
    B = te.compute((size,), lambda i: A[i] + A[i], name="B")
    f = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
    b = tvm.nd.empty((size,), dtype)
    f(tvm.nd.array(np.ones(size, dtype)), b)
    assert (b.numpy() == 2).all()


@tvm.testing.requires_cuda
def test_needs_cuda():
    assert tvm.cuda(0).exist


@tvm.testing.requires_gpu
def test_needs_gpu():
    pass


if __name__ == "__main__":
    tvm.testing.main()
