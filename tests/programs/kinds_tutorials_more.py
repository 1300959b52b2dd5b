"""Tutorials on extern functions, tensorize, passes, deployment and topi."""

import os

import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import te, topi
from tvm.contrib import utils


def gemv_impl_ll():
    return """
define i32 @gemv_update(float* %cc, float* %aa, float* %bb, i32 %m, i32 %l, i32 %stride) {
entry:
  br label %outer
outer:
  %i = phi i32 [0, %entry], [%i1, %outer_end]
  %c0 = icmp slt i32 %i, %m
  br i1 %c0, label %body, label %done
body:
  %cp = getelementptr float, float* %cc, i32 %i
  br label %inner
inner:
  %j = phi i32 [0, %body], [%j1, %inner_body]
  %c1 = icmp slt i32 %j, %l
  br i1 %c1, label %inner_body, label %outer_end
inner_body:
  %row = mul i32 %i, %stride
  %off = add i32 %row, %j
  %bp = getelementptr float, float* %bb, i32 %off
  %ap = getelementptr float, float* %aa, i32 %j
  %bv = load float, float* %bp
  %av = load float, float* %ap
  %p = fmul float %av, %bv
  %o = load float, float* %cp
  %s = fadd float %o, %p
  store float %s, float* %cp
  %j1 = add i32 %j, 1
  br label %inner
outer_end:
  %i1 = add i32 %i, 1
  br label %outer
done:
  ret i32 0
}
define i32 @gemv_reset(float* %cc, i32 %m) {
entry:
  br label %loop
loop:
  %i = phi i32 [0, %entry], [%i1, %body]
  %c = icmp slt i32 %i, %m
  br i1 %c, label %body, label %done
body:
  %p = getelementptr float, float* %cc, i32 %i
  store float 0.0, float* %p
  %i1 = add i32 %i, 1
  br label %loop
done:
  ret i32 0
}
"""


def intrin_gemv(m, l):
    a = te.placeholder((l,), name="a")
    b = te.placeholder((m, l), name="b")
    k = te.reduce_axis((0, l), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    Ab = tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
    Bb = tvm.tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1])
    Cb = tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

    def intrin_func(ins, outs):
        aa, bb = ins
        cc = outs[0]

        def _body():
            ib = tvm.tir.ir_builder.create()
            ib.emit(
                tvm.tir.call_extern(
                    "int32",
                    "gemv_update",
                    cc.access_ptr("w"),
                    aa.access_ptr("r"),
                    bb.access_ptr("r"),
                    m,
                    l,
                    bb.strides[0],
                )
            )
            return ib.get()

        def _reduce_reset():
            ib = tvm.tir.ir_builder.create()
            ib.emit(tvm.tir.call_extern("int32", "gemv_reset", cc.access_ptr("w"), m))
            return ib.get()

        def _reduce_update():
            return _body()

        return _body(), _reduce_reset(), _reduce_update()

    return te.decl_tensor_intrin(c.op, intrin_func, binds={a: Ab, b: Bb, c: Cb})


def test_extern_op():
    n, l, m = 16, 12, 8
    bias = te.var("bias", dtype="float32")
    A = te.placeholder((n, l), name="A")
    B = te.placeholder((l, m), name="B")

    @tvm.register_func("tvm.contrib.my_matmul_py")
    def my_matmul(a, b, c):
        c.copyfrom(a.numpy() @ b.numpy())

    C = te.extern(
        (n, m),
        [A, B],
        lambda ins, outs: tvm.tir.call_packed("tvm.contrib.my_matmul_py", ins[0], ins[1], outs[0]),
        name="C",
    )
    D = te.compute(C.shape, lambda i, j: C[i, j] + bias, name="D")
    s = te.create_schedule(D.op)
    print(tvm.lower(s, [A, B, D, bias]))
    dev = tvm.cpu(0)
    f = tvm.build(s, [A, B, D, bias], "llvm")
    a = tvm.nd.array(np.random.uniform(size=(n, l)).astype(A.dtype), dev)
    b = tvm.nd.array(np.random.uniform(size=(l, m)).astype(B.dtype), dev)
    d = tvm.nd.array(np.zeros((n, m), dtype=D.dtype), dev)
    bb = 10.0
    f(a, b, d, bb)
    tvm.testing.assert_allclose(d.numpy(), np.dot(a.numpy(), b.numpy()) + 10, rtol=1e-5)


def test_tensorize_gemv():
    N, M, L = 64, 32, 64
    A = te.placeholder((N, L), name="A")
    B = te.placeholder((M, L), name="B")
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    factor = 16
    x, y = C.op.axis
    (z,) = C.op.reduce_axis
    yo, yi = s[C].split(y, factor=factor)
    zo, zi = s[C].split(z, factor=factor)
    s[C].reorder(x, yo, zo, yi, zi)
    gemv = intrin_gemv(factor, factor)
    s[C].tensorize(yi, gemv)
    s[C].pragma(yo, "import_llvm", gemv_impl_ll())
    print(tvm.lower(s, [A, B, C], simple_mode=True))
    func = tvm.build(s, [A, B, C], target="llvm", name="gemv")
    from tvm.topi.utils import get_const_tuple

    a = np.random.uniform(size=get_const_tuple(A.shape)).astype("float32")
    b = np.random.uniform(size=get_const_tuple(B.shape)).astype("float32")
    c = tvm.nd.array(np.zeros(get_const_tuple(C.shape), dtype="float32"), tvm.cpu())
    func(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), np.dot(a, b.T), rtol=1e-3)


def test_tensorize_import_c_guarded():
    from tvm.contrib import clang

    try:
        clang.find_clang()
    except RuntimeError:
        return
    temp = utils.tempdir()
    ll = clang.create_llvm('extern "C" int three() { return 3; }', output=temp.relpath("t.ll"))
    assert "three" in ll


def test_low_level_custom_pass():
    n = tvm.tir.const(128, "int32")
    a = te.placeholder((n,), name="a")
    b = te.placeholder((n,), name="b")
    c = te.compute((n,), lambda i: a[i] + b[i], name="c")
    sch = te.create_schedule(c.op)
    ir = tvm.lower(sch, [a, b, c])
    print(ir)
    loops = []

    def find_width8(op):
        if isinstance(op, tvm.tir.For) and isinstance(op.extent, tvm.tir.IntImm):
            if op.extent.value % 8 == 0:
                loops.append(op)

    def vectorize8(op):
        if op in loops:
            extent = op.extent.value
            name = op.loop_var.name
            lo, li = te.var(name + ".outer"), te.var(name + ".inner")
            body = tvm.tir.stmt_functor.substitute(op.body, {op.loop_var: lo * 8 + li})
            body = tvm.tir.For(li, 0, 8, tvm.tir.ForKind.VECTORIZED, body)
            body = tvm.tir.For(lo, 0, extent // 8, tvm.tir.ForKind.SERIAL, body)
            return body
        return None

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def vectorize(f, mod, ctx):
        tvm.tir.stmt_functor.post_order_visit(f.body, find_width8)
        if not loops:
            return f
        return f.with_body(tvm.tir.stmt_functor.ir_transform(f.body, None, vectorize8, ["tir.For"]))

    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, vectorize)]}):
        print(tvm.lower(sch, [a, b, c]))
        f = tvm.build(sch, [a, b, c], "llvm")
    x = np.random.rand(128).astype("float32")
    z = tvm.nd.empty((128,))
    f(tvm.nd.array(x), tvm.nd.array(x), z)
    tvm.testing.assert_allclose(z.numpy(), 2 * x)
    vectorize(ir)
    assert loops


def test_deploy_prepare_on_host():
    lib_dir = utils.tempdir()
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute(A.shape, lambda *i: A(*i) + 1.0, name="B")
    s = te.create_schedule(B.op)
    fadd_dylib = tvm.build(s, [A, B], "llvm", name="addone")
    dylib_path = os.path.join(lib_dir.temp_dir, "test_addone_dll.so")
    fadd_dylib.export_library(dylib_path)
    fadd_syslib = tvm.build(s, [A, B], "llvm", name="addonesys")
    syslib_path = lib_dir.relpath("test_addone_sys.o")
    fadd_syslib.save(syslib_path)
    assert os.path.getsize(syslib_path) > 100
    mod = tvm.runtime.load_module(dylib_path)
    func = mod.get_function("addone")
    x = tvm.nd.array(np.arange(10, dtype="float32"))
    y = tvm.nd.empty((10,))
    func(x, y)
    tvm.testing.assert_allclose(y.numpy(), x.numpy() + 1)
    mod["addone"]
    with pytest.raises(AttributeError):
        mod["nosuch"]
    for ext in (".tar", ".o"):
        p = lib_dir.relpath("mod" + ext)
        (fadd_dylib.save if ext == ".o" else fadd_dylib.export_library)(p)
    m = tvm.runtime.load_module(lib_dir.relpath("mod.tar"))
    m(x, y)


def test_topi_intro():
    n = te.var("n")
    m = te.var("m")
    A = te.placeholder((n, m), name="A")
    B = topi.sum(A, axis=1)
    s = te.create_schedule([B.op])
    print(tvm.lower(s, [A], simple_mode=True))
    x, y = 100, 10
    a = te.placeholder((x, y, y), name="a")
    b = te.placeholder((y, y), name="b")
    c = a + b
    d = a * b
    e = topi.elemwise_sum([c, d])
    f = e / 2.0
    g = topi.sum(f)
    with tvm.target.Target("llvm"):
        sg = topi.generic.schedule_reduce(g)
    func = tvm.build(sg, [a, b, g], "llvm")
    a_np = np.random.uniform(size=(x, y, y)).astype(a.dtype)
    b_np = np.random.uniform(size=(y, y)).astype(b.dtype)
    g_np = np.sum(np.add(a_np + b_np, a_np * b_np) / 2.0)
    g_nd = tvm.nd.array(np.zeros(g_np.shape, dtype=g_np.dtype))
    func(tvm.nd.array(a_np), tvm.nd.array(b_np), g_nd)
    tvm.testing.assert_allclose(g_nd.numpy(), g_np, rtol=1e-4)


def test_first_lower_module_tools():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    s = s.normalize()
    bounds = te.schedule.InferBound(s)
    assert isinstance(bounds, (tvm.ir.Map, dict))
    assert bounds[B.op.axis[0]].extent.same_as(n)
    stmt = te.schedule.ScheduleOps(s, bounds)
    print(stmt)
    func = te.schedule.SchedulePostProcToPrimFunc([A, B], stmt, None)
    assert isinstance(func, tvm.tir.PrimFunc)
    mod = tvm.IRModule.from_expr(func.with_attr("global_symbol", "main"))
    print(mod)
    mod = tvm.tir.transform.Simplify()(mod)
    mod = tvm.driver.build_module.schedule_to_module(s, [A, B], "main", None)
    print(mod["main"])


if __name__ == "__main__":
    tvm.testing.main()
