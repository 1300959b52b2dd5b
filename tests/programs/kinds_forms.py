"""Ways of writing calls and nodes, kinds of errors, small algorithms."""

import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import te, tir


def test_keyword_forms():
    n = te.var(name="n", dtype="int32")
    A = te.placeholder(shape=(n,), dtype="float32", name="A")
    B = te.compute(
        shape=(n,),
        fcompute=lambda i: A[i] + tir.const(1, dtype=A.dtype),
        name="B",
        tag="x",
        attrs={},
    )
    s = te.create_schedule(ops=B.op)
    xo, xi = s[B].split(parent=B.op.axis[0], factor=4)
    s[B].vectorize(var=xi)
    tgt = tvm.target.Target("llvm")
    f = tvm.build(inputs=s, args=[A, B], target=tgt, target_host="llvm", name="f")
    dev = tvm.device("cpu", 0)
    a = tvm.nd.array(np.arange(10, dtype="float32"), device=dev)
    b = tvm.nd.empty(shape=(10,), dtype="float32", device=dev)
    f(a, b)
    ev = f.time_evaluator(func_name="f", dev=dev, number=1, repeat=2, min_repeat_ms=0)
    print(ev(a, b))
    ev = f.time_evaluator(f.entry_name, dev, number=2)
    assert ev(a, b).mean > 0
    tx = te.thread_axis(dom=(0, 4), tag="threadIdx.x", name="tx")
    assert tx.var.name == "tx" and tx.thread_tag == "threadIdx.x"
    k = te.reduce_axis(dom=(0, n), name="k")
    tvm.target.Target(target=tgt, host=tgt)
    tvm.nd.array(np.zeros(3), dev)
    print(B.op, s[B], s, A, n, k, B.op.body, "%s" % n, f)


def test_shape_forms():
    A = te.placeholder((4, 5), name="A")
    assert A.shape[0].value == 4 and int(A.shape[1]) == 5 and A.shape[0] == 4
    B = te.compute((4, 5), lambda i, *r: A(i, *r) * 2, name="B")
    assert [int(x) for x in B.shape] == [4, 5] and len(B.op.axis) == 2
    k = te.reduce_axis((0, 5))
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=[k]), name="C")
    assert C.op.reduce_axis[0].dom.extent.value == 5 and C.op.reduce_axis[0].dom.min.value == 0
    assert C.op.input_tensors[0].op.name == "A"
    n = tir.Var("n", "int32")
    D = te.placeholder((n, 4), name="D", dtype="float64")
    assert D.shape[0].same_as(n) and D.shape[0].name == "n"
    for t in [(3,), [3], 3]:
        assert te.placeholder(t).ndim == 1
    assert isinstance(A.op.output(0), te.Tensor) and A.op.num_outputs == 1


def test_node_constructors():
    i = tir.Var("i", "int32")
    n = tir.SizeVar("n", "int32")
    A = tir.decl_buffer((n,), "float32", name="A")
    ev = tir.Evaluate(tir.IntImm("int32", 1))
    loop = tir.For(
        loop_var=i,
        min=0,
        extent=n,
        kind=tir.ForKind.SERIAL,
        body=tir.BufferStore(A, tir.FloatImm("float32", 1.0), [i]),
    )
    assert loop.kind == tir.ForKind.SERIAL and loop.extent.same_as(n)
    alloc_var = tir.Var("tmp", tvm.ir.PointerType(tvm.ir.PrimType("float32")))
    tmp = tir.decl_buffer((8,), "float32", name="tmp", data=alloc_var)
    body = tir.SeqStmt(
        [
            tir.BufferStore(tmp, 2.0, [0]),
            tir.For(i, 0, n, tir.ForKind.SERIAL, tir.BufferStore(A, tir.BufferLoad(tmp, [0]), [i])),
        ]
    )
    alloc = tir.Allocate(alloc_var, "float32", [8], tir.const(1, "bool"), body)
    assert (
        isinstance(alloc, tir.Allocate) and int(alloc.extents[0]) == 8 and alloc.dtype == "float32"
    )
    f = tir.PrimFunc([A], alloc, ret_type=None).with_attr("global_symbol", "main")
    g = tvm.build(tvm.IRModule.from_expr(f), target="llvm")
    a = tvm.nd.empty((5,))
    g(a)
    assert (a.numpy() == 2).all()
    f = tir.PrimFunc(params=[tir.Var("a", "handle")], body=ev, buffer_map=None)
    it = tir.IterVar((0, 10), "i", 0)
    assert it.dom.extent.value == 10 and it.var.name == "i" and it.iter_type == tir.IterVar.DataPar
    x, y = tir.Var("x", "float32"), tir.Var("y", "float32")
    red = tir.CommReducer([x], [y], [x + y], [tir.const(0, "float32")])
    assert len(red.lhs) == 1
    r = tir.Reduce(red, [tir.BufferLoad(A, [it.var])], [it], tir.const(1, "bool"), 0)
    assert r.value_index == 0 and r.dtype == "float32"
    sel = tir.Select(i < 3, 1.0, 2.0)
    assert sel.true_value.value == 1.0
    assert tir.StringImm("abc").value == "abc"
    assert (
        isinstance(tir.Not(i < 3), tir.Not)
        and isinstance(tir.And(i < 3, i > 0), tir.And)
        and isinstance(tir.Or(i < 3, i > 0), tir.Or)
    )
    assert isinstance(tir.Mod(i, n), tir.Mod) and isinstance(tir.FloorMod(i, n), tir.FloorMod)
    st = tir.AssertStmt(i < 3, "message", ev)
    assert st.message.value == "message"
    assert isinstance(tir.Call("int32", "tir.likely", [i < 3]), tir.Call)
    assert isinstance(tir.Call("float32", tvm.ir.Op.get("tir.exp"), [x]).op, tvm.ir.Op)
    tir.Prefetch(A, [tvm.ir.Range(0, 4)])
    assert (
        tvm.ir.Range.from_min_extent(2, 3).extent.value == 3
        and tvm.ir.Range(2, 5).extent.value == 3
    )
    tir.IfThenElse(i < 3, ev, None)
    assert tir.Var("h", "handle").dtype == "handle"
    assert tir.Cast("float32x4", tir.Broadcast(i, 4)).dtype == "float32x4"
    assert tir.any(i < 3, i > 5).dtype == "bool" and tir.all(i < 3).dtype == "bool"
    assert str(tir.ceildiv(tir.const(7, "int32"), 2)) == "4"


def test_function_fields():
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] * 2.0, name="B")
    mod = tvm.lower(te.create_schedule(B.op), [A, B], name="twice")
    f = mod["twice"]
    assert f.attrs["global_symbol"] == "twice" and bool(f.attrs["tir.noalias"])
    assert [f.buffer_map[p].name for p in f.params] == ["A", "B"]
    assert f.buffer_map[f.params[0]].shape[0] == 16
    assert f.params[0].dtype == "handle"
    assert isinstance(f.body, tir.Stmt)
    for gv, _func in mod.functions.items():
        assert gv.name_hint == "twice"
    assert "twice" in [g.name_hint for g in mod.get_global_vars()]
    mod2 = tvm.IRModule({"twice": f, "again": f.with_attr("global_symbol", "again")})
    m = tvm.build(mod2, target=tvm.target.Target("llvm", host="llvm"))
    b = tvm.nd.empty((16,))
    m["again"](tvm.nd.array(np.ones(16, "float32")), b)
    m = tvm.build({"llvm": mod2}, target_host="llvm")
    m["twice"](tvm.nd.array(np.ones(16, "float32")), b)
    assert (b.numpy() == 2).all()


def test_primfunc_build_direct():
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] * 2.0, name="B")
    f = tvm.lower(te.create_schedule(B.op), [A, B])["main"]
    m = tvm.build(f, target="llvm")
    b = tvm.nd.empty((16,))
    m(tvm.nd.array(np.ones(16, "float32")), b)
    assert (b.numpy() == 2).all()
    ep = te.placeholder((16,), name="E")
    C = te.extern_primfunc([ep], f)
    D = te.compute((16,), lambda i: C[i] + 1.0, name="D")
    m = tvm.build(te.create_schedule(D.op), [ep, D], "llvm")
    m(tvm.nd.array(np.ones(16, "float32")), b)
    assert (b.numpy() == 3).all()


def test_multi_stage_extern_inplace_buffers():
    A = te.placeholder((8, 8), name="A")
    Ab = tir.decl_buffer((8, 8), "float32", name="Ab", strides=[te.var("st"), 1], offset_factor=1)
    Ob = tir.decl_buffer((8,), "float32", name="Ob")

    def rowsum(ins, outs):
        ib = tir.ir_builder.create()
        a, o = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 8, "i", kind="parallel") as i:
            o[i] = 0.0
            with ib.for_range(0, 8, "j") as j:
                o[i] += a[i, j]
        return ib.get()

    O = te.extern(
        [(8,)], [A], rowsum, name="O", dtype=["float32"], in_buffers=[Ab], out_buffers=[Ob]
    )
    f = tvm.build(te.create_schedule(O.op), [A, O], "llvm")
    a = np.random.rand(8, 8).astype("float32")
    o = tvm.nd.empty((8,))
    f(tvm.nd.array(a), o)
    tvm.testing.assert_allclose(o.numpy(), a.sum(1), rtol=1e-5)


def test_error_types():
    A = te.placeholder((8,), name="A")
    with pytest.raises(ValueError):
        te.compute((8,), lambda i, j, k: A[i])
    with pytest.raises((TypeError, ValueError, tvm.TVMError)):
        te.create_schedule([A, 3])
    with pytest.raises((ValueError, tvm.TVMError)):
        tvm.build(te.create_schedule(te.compute((8,), lambda i: A[i]).op), target="llvm")
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    with pytest.raises(tvm.TVMError):
        tvm.build(te.create_schedule(B.op), [B], "llvm")
    with pytest.raises((ValueError, tvm.TVMError)):
        tvm.build(te.create_schedule(B.op), [A, B], "unknown_target")
    s = te.create_schedule(B.op)
    with pytest.raises(tvm.TVMError):
        s[B].split(B.op.axis[0], 0)
        tvm.lower(s, [A, B])
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="C")
    with pytest.raises(tvm.TVMError):
        te.create_schedule(C.op)[C].vectorize(C.op.reduce_axis[0])


def test_argsort_by_rank_and_histogram():
    n = 32
    A = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), "k")
    rank = te.compute(
        (n,),
        lambda i: te.sum(
            tir.Select(tir.any(A[k] < A[i], tir.all(A[k].equal(A[i]), k < i)), 1, 0), axis=k
        ),
        name="rank",
    )
    s = te.create_schedule(rank.op)
    f = tvm.build(s, [A, rank], "llvm")
    a = np.random.randint(0, 9, n).astype("float32")
    r = tvm.nd.empty((n,), "int32")
    f(tvm.nd.array(a), r)
    np.testing.assert_array_equal(np.argsort(r.numpy()), np.argsort(a, kind="stable"))
    H = te.compute(
        (9,), lambda b: te.sum(tir.Select(A[k].astype("int32").equal(b), 1, 0), axis=k), name="H"
    )
    h = tvm.nd.empty((9,), "int32")
    tvm.build(te.create_schedule(H.op), [A, H], "llvm")(tvm.nd.array(a), h)
    np.testing.assert_array_equal(h.numpy(), np.bincount(a.astype(int), minlength=9))


def test_mandelbrot_while_and_blur_compute_at_inner():
    W = H = 16
    O = tir.decl_buffer((H, W), "int32", name="O")
    ib = tir.ir_builder.create()
    o = ib.buffer_ptr(O)
    with ib.for_range(0, H, "y", kind="parallel") as y:
        with ib.for_range(0, W, "x") as x:
            zr = ib.allocate("float32", (1,), name="zr", scope="local")
            zi = ib.allocate("float32", (1,), name="zi", scope="local")
            it = ib.allocate("int32", (1,), name="it", scope="local")
            zr[0], zi[0], it[0] = 0.0, 0.0, 0
            cr = ib.let("cr", x.astype("float32") * (3.0 / W) - 2.0)
            ci = ib.let("ci", y.astype("float32") * (2.0 / H) - 1.0)
            with ib.while_loop(tir.all(zr[0] * zr[0] + zi[0] * zi[0] < 4.0, it[0] < 50)):
                t = ib.let("t", zr[0] * zr[0] - zi[0] * zi[0] + cr)
                zi[0] = 2.0 * zr[0] * zi[0] + ci
                zr[0] = t
                it[0] = it[0] + 1
            o[y, x] = it[0]
    f = tvm.build(
        tvm.IRModule.from_expr(tir.PrimFunc([O], ib.get()).with_attr("global_symbol", "main")),
        target="llvm",
    )
    out = tvm.nd.empty((H, W), "int32")
    f(out)
    want = np.zeros((H, W), "int32")
    for y in range(H):
        for x in range(W):
            zr = zi = np.float32(0)
            n = 0
            cr, ci = (
                np.float32(np.float32(x) * np.float32(3.0 / W) - np.float32(2)),
                np.float32(np.float32(y) * np.float32(2.0 / H) - np.float32(1)),
            )
            while zr * zr + zi * zi < 4 and n < 50:
                zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
                n += 1
            want[y, x] = n
    assert (np.abs(out.numpy() - want) > 1).sum() <= 3


def test_unusual_dtypes_roundtrip():
    for dt in (
        "int8",
        "uint8",
        "int16",
        "uint16",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "float64",
        "bool",
    ):
        A = te.placeholder((9,), name="A", dtype=dt)
        B = te.compute((9,), lambda i: A[8 - i], name="B")
        f = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
        a = (np.arange(9) % 2).astype(dt)
        b = tvm.nd.empty((9,), dt)
        f(tvm.nd.array(a), b)
        np.testing.assert_array_equal(b.numpy(), a[::-1])
        assert b.dtype == dt


def test_te_var_strides_transposed_view():
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    B = te.compute((m, n), lambda i, j: A[j, i], name="B")
    f = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
    a = np.random.rand(5, 7).astype("float32")
    b = tvm.nd.empty((7, 5))
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), a.T)


if __name__ == "__main__":
    tvm.testing.main()
