"""Modules, arrays, strides, scalars, options, checks."""

import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import te


def test_runtime_module_api():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    f = tvm.build(s, [A, B], "llvm", name="plus")
    assert isinstance(f, tvm.runtime.Module)
    assert f.entry_name == "__tvm_main__" or isinstance(f.entry_name, str)
    assert f.get_function("plus") is not None
    x, y = tvm.nd.array(np.arange(4, dtype="float32")), tvm.nd.empty((4,))
    f.entry_func(x, y)
    f["plus"](x, y)
    ev = f.time_evaluator("plus", tvm.cpu(), number=2, repeat=3, min_repeat_ms=0)
    r = ev(x, y)
    assert len(r.results) == 3 and r.mean > 0 and r.median > 0 and r.std >= 0 and r.min <= r.max
    str(r)
    fn = tvm.runtime.convert(lambda a, b: a + b)
    assert fn(1, 2) == 3
    assert not f.imported_modules
    with pytest.raises(ValueError):
        f(x)
    with pytest.raises(ValueError):
        f(x, tvm.nd.empty((3,)))
    with pytest.raises((TypeError, ValueError, tvm.TVMError)):
        f(x, tvm.nd.empty((4,), "float64"))
    with pytest.raises(tvm.TVMError):
        f(x, tvm.nd.empty((4,), "int32"))


def test_nd_api():
    x = np.random.randint(0, 10, size=(3, 4))
    x = np.array(x)
    y = tvm.nd.array(x)
    assert y.dtype == str(x.dtype) and y.shape == (3, 4) and y.device == tvm.cpu(0)
    z = y.copyto(tvm.cpu(0))
    np.testing.assert_equal(x, z.numpy())
    e = tvm.nd.empty((3, 4), "float32", device=tvm.cpu())
    e.copyfrom(np.ones((3, 4), "float32"))
    assert e.numpy().sum() == 12
    e[:] = np.full((3, 4), 2.0, "float32")
    assert e.asnumpy().sum() == 24
    t = tvm.nd.array(np.zeros((3, 4), "float32"))
    e.copyto(t)
    assert (t.numpy() == 2).all()
    torch = pytest.importorskip("torch")
    pt = torch.utils.dlpack.from_dlpack(t.to_dlpack())
    pt += 1
    assert (t.numpy() == 3).all()
    back = tvm.nd.from_dlpack(torch.utils.dlpack.to_dlpack(torch.arange(6.0).reshape(2, 3)))
    assert back.shape == (2, 3) and back.dtype == "float32"
    back = tvm.nd.from_dlpack(torch.arange(4))
    assert back.dtype == "int64"
    v = t._create_view((12,))
    assert v.shape == (12,)
    assert tvm.nd.array([1, 2, 3]).dtype in ("int64", "float32")
    for d in ("float16", "int8", "uint8", "bool", "int64", "float64", "uint16", "bfloat16"):
        assert tvm.nd.empty((2,), d).dtype == d
    assert str(tvm.cpu(0)).startswith("cpu")
    assert tvm.cpu(0).device_type == 1 and tvm.cuda(1).device_id == 1
    assert tvm.nd.cpu(0) == tvm.device("cpu", 0) == tvm.device("llvm", 0)
    tvm.cpu(0).sync()
    from tvm.runtime import ndarray

    assert isinstance(ndarray.empty((1,)), tvm.nd.NDArray)


def test_strides_and_binds():
    n, m = 8, 12
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    Ab = tvm.tir.decl_buffer(
        A.shape, A.dtype, name="A", strides=[te.var("s0"), te.var("s1")], offset_factor=1
    )
    f = tvm.build(s, [Ab, B], "llvm", binds={A: Ab})
    base = np.random.rand(n * 2, m * 2).astype("float32")
    view = base[::2, ::2]
    b = tvm.nd.empty((n, m))
    f(view, b)
    tvm.testing.assert_allclose(b.numpy(), view + 1, rtol=1e-6)
    Bb = tvm.tir.decl_buffer(B.shape, B.dtype, name="B", strides=[24, 1])
    f = tvm.build(s, [A, Bb], "llvm", binds={B: Bb})
    out = np.zeros((n, 24), "float32")
    a = np.random.rand(n, m).astype("float32")
    f(tvm.nd.array(a), out[:, :m])
    tvm.testing.assert_allclose(out[:, :m], a + 1)
    assert (out[:, m:] == 0).all()


def test_elem_offset_bind():
    m, n = te.size_var("m"), te.size_var("n")
    s0, _off = te.size_var("s0"), te.var("off")
    A = te.placeholder((m, n), name="A")
    B = te.compute((m, n), lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B.op)
    Ab = tvm.tir.decl_buffer((m, n), A.dtype, name="Ab", strides=[s0, 1], offset_factor=2)
    mod = tvm.lower(s, [Ab, B], binds={A: Ab})
    f = tvm.build(mod, target="llvm")
    a = np.random.rand(4, 8).astype("float32")
    b = tvm.nd.empty((4, 6))
    f(a[:, :6], b)
    tvm.testing.assert_allclose(b.numpy(), a[:, :6] * 2)


def test_scalar_args_and_asserts():
    n = te.var("n")
    alpha = te.var("alpha", "float32")
    k = te.var("k", "int64")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * alpha + k.astype("float32"), name="B")
    f = tvm.build(te.create_schedule(B.op), [A, alpha, k, n, B], "llvm")
    a = np.random.rand(5).astype("float32")
    b = tvm.nd.empty((5,))
    f(tvm.nd.array(a), 2.5, 3, 5, b)
    tvm.testing.assert_allclose(b.numpy(), a * 2.5 + 3, rtol=1e-6)
    with pytest.raises(tvm.TVMError):
        f(tvm.nd.array(a), 2.5, 3, 6, b)
    x = te.var("x")
    body = tvm.tir.AssertStmt(x > 3, tvm.tir.StringImm("x is too small"), tvm.tir.Evaluate(0))
    g = tvm.build(
        tvm.IRModule.from_expr(tvm.tir.PrimFunc([x], body).with_attr("global_symbol", "g")),
        target="llvm",
    )
    g(4)
    with pytest.raises(tvm.TVMError) as e:
        g(1)
    assert "x is too small" in str(e.value)


def test_unrolled_and_disable_options():
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] * 2, name="B")

    def sch():
        s = te.create_schedule(B.op)
        _xo, xi = s[B].split(B.op.axis[0], 4)
        s[B].unroll(xi)
        return s

    for cfg in (
        {
            "tir.UnrollLoop": {
                "auto_max_step": 16,
                "auto_max_depth": 8,
                "auto_max_extent": 4,
                "explicit_unroll": False,
            }
        },
        {"tir.disable_vectorize": True},
        {"tir.disable_storage_rewrite": True},
        {"tir.disable_cse_tir": True},
        {
            "tir.LoopPartition": {
                "partition_const_loop": True,
                "no_unroll_loop_with_extent_one": True,
            }
        },
        {"tir.InjectDoubleBuffer": {"split_loop": 2}},
        {"tir.instrument_bound_checkers": True},
        {"tir.disable_assert": True},
        {"tir.Simplify": {"transitively_prove_inequalities": True}},
        {"tir.enable_equiv_terms_in_cse_tir": True},
        {"tir.debug_keep_trivial_loop": True},
    ):
        with tvm.transform.PassContext(
            opt_level=3, config=cfg, disabled_pass=["tir.CommonSubexprElimTIR"]
        ):
            f = tvm.build(sch(), [A, B], "llvm")
        a = np.random.rand(64).astype("float32")
        b = tvm.nd.empty((64,))
        f(tvm.nd.array(a), b)
        tvm.testing.assert_allclose(b.numpy(), 2 * a)


def test_bound_checker_reports():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    idx = te.placeholder((n,), name="idx", dtype="int32")
    B = te.compute((n,), lambda i: A[idx[i]], name="B")
    with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        f = tvm.build(te.create_schedule(B.op), [A, idx, B], "llvm")
    a = np.random.rand(4).astype("float32")
    b = tvm.nd.empty((4,))
    f(tvm.nd.array(a), tvm.nd.array(np.array([3, 2, 1, 0], "int32")), b)
    tvm.testing.assert_allclose(b.numpy(), a[::-1])
    with pytest.raises(tvm.TVMError):
        f(tvm.nd.array(a), tvm.nd.array(np.array([9, 2, 1, 0], "int32")), b)


def test_while_loop_search():
    ib = tvm.tir.ir_builder.create()
    A = tvm.tir.decl_buffer((16,), "float32", name="A")
    O = tvm.tir.decl_buffer((1,), "int32", name="O")
    a, o = ib.buffer_ptr(A), ib.buffer_ptr(O)
    lo = ib.allocate("int32", (1,), name="lo", scope="local")
    hi = ib.allocate("int32", (1,), name="hi", scope="local")
    v = te.var("v", "float32")
    lo[0] = 0
    hi[0] = 16
    with ib.while_loop(lo[0] < hi[0]):
        mid = lo[0] + (hi[0] - lo[0] >> 1)
        with ib.if_scope(a[mid] < v):
            lo[0] = mid + 1
        with ib.else_scope():
            hi[0] = mid
    o[0] = lo[0]
    f = tvm.build(
        tvm.IRModule.from_expr(
            tvm.tir.PrimFunc([A, v, O], ib.get()).with_attr("global_symbol", "bs")
        ),
        target="llvm",
    )
    x = np.sort(np.random.rand(16)).astype("float32")
    out = tvm.nd.empty((1,), "int32")
    f(tvm.nd.array(x), 0.5, out)
    assert out.numpy()[0] == np.searchsorted(x, 0.5)


if __name__ == "__main__":
    tvm.testing.main()
