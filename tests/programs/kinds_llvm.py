"""Code for CPUs: intrinsics, threads, vectors, types, divisions."""

import math

import numpy as np
import tvm
import tvm.testing
from tvm import te
from tvm.contrib import utils


@tvm.testing.requires_llvm
def test_llvm_intrin():
    ib = tvm.tir.ir_builder.create()
    tvm.runtime.convert(4)
    A = ib.pointer("float32", name="A")
    args = [tvm.tir.call_intrin("handle", "tir.address_of", A[0]), 0, 3, 1]
    ib.emit(tvm.tir.Evaluate(tvm.tir.Call("int32", "tir.prefetch", args)))
    body = ib.get()
    mod = tvm.IRModule.from_expr(
        tvm.tir.PrimFunc([A.asobject()], body).with_attr("global_symbol", "prefetch")
    )
    tvm.build(mod, None, "llvm")


@tvm.testing.requires_llvm
def test_llvm_void_intrin_and_import():
    ib = tvm.tir.ir_builder.create()
    A = ib.pointer("uint8", name="A")
    x = tvm.tir.call_llvm_intrin(
        "int32", "llvm.bswap", tvm.tir.const(1, "uint32"), tvm.tir.const(5, "int32")
    )
    ib.emit(tvm.tir.Evaluate(x))
    ib.emit(
        tvm.tir.call_llvm_intrin("", "llvm.assume", tvm.tir.const(1, "uint32"), tvm.tir.const(True))
    )
    mod = tvm.IRModule.from_expr(
        tvm.tir.PrimFunc([A.asobject()], ib.get()).with_attr("global_symbol", "main")
    )
    assert "llvm.assume" in tvm.build(mod, None, "llvm").get_source("ll")


def test_llvm_lookup_intrin():
    ib = tvm.tir.ir_builder.create()
    A = ib.pointer("uint8x8", name="A")
    z = tvm.tir.const(0, "int32")
    x = tvm.tir.call_llvm_pure_intrin(
        "uint8x8", "llvm.ctpop.v8i8", tvm.tir.const(1, "uint32"), A[z]
    )
    ib.emit(x)
    body = ib.get()
    mod = tvm.IRModule.from_expr(
        tvm.tir.PrimFunc([A.asobject()], body).with_attr("global_symbol", "main")
    )
    tvm.build(mod, None, "llvm")


def test_llvm_add_pipeline():
    nn = 1024
    n = tvm.runtime.convert(nn)
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    AA = te.compute((n,), lambda *i: A(*i), name="A")
    BB = te.compute((n,), lambda *i: B(*i), name="B")
    T = te.compute(A.shape, lambda *i: AA(*i) + BB(*i), name="T")
    C = te.compute(A.shape, lambda *i: T(*i), name="C")
    s = te.create_schedule(C.op)
    xo, xi = s[C].split(C.op.axis[0], factor=4)
    xo1, xo2 = s[C].split(xo, factor=13)
    s[C].parallel(xo2)
    s[C].pragma(xo1, "parallel_launch_point")
    s[C].pragma(xo2, "parallel_stride_pattern")
    s[C].pragma(xo2, "parallel_barrier_when_finish")
    s[C].vectorize(xi)

    def check_llvm():
        f = tvm.build(s, [A, B, C], "llvm")
        dev = tvm.cpu(0)
        n = nn
        a = tvm.nd.array(np.random.uniform(size=n).astype(A.dtype), dev)
        b = tvm.nd.array(np.random.uniform(size=n).astype(B.dtype), dev)
        c = tvm.nd.array(np.zeros(n, dtype=C.dtype), dev)
        f(a, b, c)
        tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())

    check_llvm()


def test_llvm_persist_parallel():
    n = 128
    A = te.placeholder((n,), name="A")
    B = te.compute(A.shape, lambda *i: A(*i) + 1, name="B")
    C = te.compute(A.shape, lambda *i: te.sqrt(B(*i)) * 2 + 2, name="C")
    s = te.create_schedule(C.op)
    xo, xi = s[C].split(C.op.axis[0], factor=8)
    xo1, _xo2 = s[C].split(xo, nparts=1)
    s[B].compute_at(s[C], xo1)
    s[B].parallel(s[B].op.axis[0])
    s[B].pragma(s[B].op.axis[0], "parallel_barrier_when_finish")
    s[C].parallel(xi)
    s[C].pragma(xo1, "parallel_launch_point")
    s[C].pragma(xi, "parallel_stride_pattern")
    f = tvm.build(s, [A, C], "llvm")
    a = tvm.nd.array(np.random.uniform(size=n).astype(A.dtype))
    c = tvm.nd.array(np.zeros(n, dtype=C.dtype))
    f(a, c)
    tvm.testing.assert_allclose(c.numpy(), np.sqrt(a.numpy() + 1) * 2 + 2, rtol=1e-5)


def test_llvm_flip_pipeline():
    def check(nn, base):
        n = tvm.runtime.convert(nn)
        A = te.placeholder((n + base), name="A")
        C = te.compute((n,), lambda i: A(nn + base - i - 1), name="C")
        s = te.create_schedule(C.op)
        xo, xi = s[C].split(C.op.axis[0], factor=4)
        s[C].parallel(xo)
        s[C].vectorize(xi)
        f = tvm.build(s, [A, C], "llvm")
        a = np.random.uniform(size=(nn + base)).astype(A.dtype)
        c = tvm.nd.array(np.zeros(nn, dtype=C.dtype))
        f(tvm.nd.array(a), c)
        tvm.testing.assert_allclose(c.numpy(), a[::-1][:nn])

    check(4, 0)
    check(128, 8)
    check(3, 0)
    check(128, 1)


def test_llvm_vadd_vector_dtype():
    n, lanes = 128, 4
    A = te.placeholder((n,), name="A", dtype="float32x%d" % lanes)
    B = te.compute((n,), lambda i: A[i] + tvm.tir.const(1, A.dtype), name="B")
    s = te.create_schedule(B.op)
    f = tvm.build(s, [A, B], "llvm")
    a = tvm.nd.empty((n,), A.dtype).copyfrom(
        np.random.uniform(size=[n] + ([] if lanes == 1 else [lanes]))
    )
    c = tvm.nd.empty((n,), B.dtype)
    f(a, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + 1)


def test_llvm_madd_pipeline():
    def check(nn, base, stride):
        n = tvm.runtime.convert(nn)
        A = te.placeholder((n + base, stride), name="A")
        C = te.compute((n, stride), lambda i, j: A(base + i, j) + 1, name="C")
        s = te.create_schedule(C.op)
        xo, xi = s[C].split(C.op.axis[0], factor=4)
        s[C].parallel(xo)
        s[C].vectorize(xi)
        f = tvm.build(s, [A, C], "llvm")
        a = np.random.uniform(size=(nn + base, stride)).astype(A.dtype)
        c = tvm.nd.array(np.zeros((nn, stride), dtype=C.dtype))
        f(tvm.nd.array(a), c)
        tvm.testing.assert_allclose(c.numpy(), a[base:] + 1)

    check(64, 0, 2)
    check(4, 0, 1)
    with tvm.transform.PassContext(config={"tir.noalias": False}):
        check(4, 0, 3)


def test_multiple_func():
    nn = 64
    n = tvm.runtime.convert(nn)
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda *i: A(*i) + B(*i), name="C")
    s = te.create_schedule(C.op)
    xo, xi = s[C].split(C.op.axis[0], factor=4)
    s[C].parallel(xo)
    s[C].vectorize(xi)
    f1 = tvm.lower(s, [A, B, C], name="fadd1")
    f2 = tvm.lower(s, [A, B, C], name="fadd2")
    lib = tvm.IRModule(functions={"fadd1": f1["fadd1"], "fadd2": f2["fadd2"]})
    m = tvm.build(lib, target="llvm")
    fadd1, fadd2 = m["fadd1"], m["fadd2"]
    a = tvm.nd.array(np.random.uniform(size=nn).astype(A.dtype))
    b = tvm.nd.array(np.random.uniform(size=nn).astype(B.dtype))
    for f in (fadd1, fadd2):
        c = tvm.nd.array(np.zeros(nn, dtype=C.dtype))
        f(a, b, c)
        tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())


def test_llvm_condition_bool_rank0():
    n, offset = 64, 8
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: tvm.tir.if_then_else(i >= offset, A[i], 0.0), name="C")
    f = tvm.build(te.create_schedule(C.op), [A, C], "llvm")
    a = np.random.uniform(size=n).astype("float32")
    c = tvm.nd.empty((n,), A.dtype)
    f(tvm.nd.array(a), c)
    want = a.copy()
    want[:offset] = 0
    tvm.testing.assert_allclose(c.numpy(), want)
    A = te.placeholder((n,), name="A", dtype="int32")
    C = te.compute((n,), lambda i: A[i].equal(1).astype("float"), name="C")
    assert C.dtype == "float32"
    f = tvm.build(te.create_schedule(C.op), [A, C], "llvm")
    a = tvm.nd.array(np.random.randint(0, 2, size=(n,)).astype(A.dtype))
    f(a, c)
    np.testing.assert_array_equal(c.numpy(), (a.numpy() == 1).astype("float32"))
    A = te.placeholder((n,), name="A")
    scale = te.placeholder((), name="scale")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((), lambda: te.sum(A[k] * scale(), axis=k), name="CC")
    D = te.compute((), lambda: C() + 1)
    f = tvm.build(te.create_schedule(D.op), [A, scale, D], "llvm")
    a = np.random.randint(0, 2, size=(n,)).astype("float32")
    sc = np.random.randint(0, 2, size=()).astype("float32")
    d = tvm.nd.empty((), D.dtype)
    f(tvm.nd.array(a), tvm.nd.array(sc), d)
    tvm.testing.assert_allclose(d.numpy(), a.sum() * sc + 1)


def test_llvm_fp_math_accuracy():
    def check(n, f_te, f_np, lo=-10, hi=10):
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: f_te(A[i]), name="B")
        f = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
        a = np.linspace(lo, hi, n).astype("float32")
        b = tvm.nd.empty((n,), "float32")
        f(tvm.nd.array(a), b)
        tvm.testing.assert_allclose(b.numpy(), f_np(a.astype("float64")), atol=1e-5, rtol=1e-4)

    for n in (1, 8, 37):
        check(n, lambda x: 1.0 / (x + 20.0), lambda x: 1 / (x + 20))
        check(n, te.sigmoid, lambda x: 1 / (1 + np.exp(-x)))
        check(n, te.tanh, np.tanh)
        check(n, te.exp, np.exp)
        check(n, te.atan, np.arctan)
        check(n, te.log, np.log, 0.1, 9)
        check(n, te.sqrt, np.sqrt, 0, 9)
        check(n, te.rsqrt, lambda x: 1 / np.sqrt(x), 0.1, 9)
        check(n, te.sinh, np.sinh, -3, 3)
        check(n, te.cosh, np.cosh, -3, 3)
        check(n, te.asin, np.arcsin, -1, 1)
        check(n, te.acos, np.arccos, -1, 1)
        check(n, te.asinh, np.arcsinh)
        check(n, te.acosh, np.arccosh, 1, 10)
        check(n, te.atanh, np.arctanh, -0.9, 0.9)
        check(n, te.erf, np.vectorize(math.erf))
        check(n, te.log2, np.log2, 0.1, 9)
        check(n, te.log10, np.log10, 0.1, 9)
        check(n, te.floor, np.floor)
        check(n, te.ceil, np.ceil)
        check(n, te.trunc, np.trunc)
        check(n, te.nearbyint, np.rint)
        check(n, te.abs, np.abs)
        check(n, lambda x: te.power(x, tvm.tir.const(3.0, "float32")), lambda x: x**3)
        check(n, lambda x: te.fmod(x, tvm.tir.const(3.0, "float32")), lambda x: np.fmod(x, 3))
        check(n, te.tan, np.tan, -1, 1)
        check(n, te.sin, np.sin)
        check(n, te.cos, np.cos)


def test_division_semantics():
    for dtype in ("int32", "uint32", "int64", "int8", "uint8", "int16"):
        _a, _b = te.var("a", dtype), te.var("b", dtype)
        A = te.placeholder((50,), name="A", dtype=dtype)
        B = te.placeholder((50,), name="B", dtype=dtype)
        outs = [
            te.compute((50,), lambda i, f=f: f(A[i], B[i]))
            for f in (tvm.te.truncdiv, tvm.te.truncmod, tvm.te.floordiv, tvm.te.floormod)
        ]
        s = te.create_schedule([o.op for o in outs])
        f = tvm.build(s, [A, B] + outs, "llvm")
        info = np.iinfo(dtype)
        x = np.random.randint(max(info.min, -1000), min(info.max, 1000), 50).astype(dtype)
        y = np.random.randint(1, 20, 50).astype(dtype)
        if info.min < 0:
            y[::2] *= -1
        res = [tvm.nd.empty((50,), dtype) for _ in outs]
        f(tvm.nd.array(x), tvm.nd.array(y), *res)
        wide = x.astype("int64"), y.astype("int64")
        q = np.trunc(wide[0] / wide[1]).astype("int64")
        np.testing.assert_array_equal(res[0].numpy(), q.astype(dtype))
        np.testing.assert_array_equal(res[1].numpy(), (wide[0] - q * wide[1]).astype(dtype))
        np.testing.assert_array_equal(res[2].numpy(), (wide[0] // wide[1]).astype(dtype))
        np.testing.assert_array_equal(res[3].numpy(), (wide[0] % wide[1]).astype(dtype))


def test_llvm_order_functions_and_bf16():
    def dotest(do_vectorize):
        np.random.seed(122)
        A = te.placeholder((32,), dtype="bfloat16")
        B = te.placeholder((32,), dtype="bfloat16")
        D = te.compute((32,), lambda x: A[x] + B[x])
        sch = te.create_schedule(D.op)
        if do_vectorize:
            sch[D].vectorize(D.op.axis[0])
        module = tvm.build(sch, [A, B, D], "llvm")
        import ml_dtypes

        a = np.random.rand(32).astype(ml_dtypes.bfloat16)
        b = np.random.rand(32).astype(ml_dtypes.bfloat16)
        c = tvm.nd.empty((32,), "bfloat16")
        module(tvm.nd.array(a), tvm.nd.array(b), c)
        np.testing.assert_array_equal(
            np.asarray(c.numpy(), "float32"), np.asarray(a + b, "float32")
        )

    dotest(True)
    dotest(False)
    A = te.placeholder((32,), dtype="float16", name="A")
    B = te.compute((32,), lambda i: te.exp(A[i]) + tvm.tir.const(1, "float16"))
    f = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
    a = np.random.rand(32).astype("float16")
    b = tvm.nd.empty((32,), "float16")
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(
        b.numpy(), (np.exp(a.astype("float32")) + 1).astype("float16"), rtol=2e-3
    )


def test_llvm_source_and_shuffle_and_target():
    A = te.placeholder((8,), name="A", dtype="int32")
    B = te.placeholder((8,), name="B", dtype="int32")
    C = te.compute((8,), lambda x: A[x] + B[7 - x])
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[0])
    f = tvm.build(s, [A, B, C], "llvm -mcpu=core-avx2")
    assert "define" in f.get_source("ll") and f.type_key == "llvm"
    a, b = np.arange(8, dtype="int32"), np.arange(8, dtype="int32")[::-1].copy()
    c = tvm.nd.empty((8,), "int32")
    f(tvm.nd.array(a), tvm.nd.array(b), c)
    np.testing.assert_array_equal(c.numpy(), a * 2)
    f = tvm.build(s, [A, B, C], tvm.target.Target("llvm -mtriple=aarch64-linux-gnu -mattr=+neon"))
    temp = utils.tempdir()
    f.save(temp.relpath("a.o"))
    f.save(temp.relpath("a.ll"))
    f.save(temp.relpath("a.s"))
    assert sorted(temp.listdir()) == ["a.ll", "a.o", "a.s"]
    asm = f.get_source("asm")
    assert ".text" in asm or "ret" in asm


if __name__ == "__main__":
    tvm.testing.main()
