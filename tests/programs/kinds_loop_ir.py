"""ir_builder, functions that run, buffers, modules, passes, targets."""

import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import te


def test_ir_builder_forms():
    ib = tvm.tir.ir_builder.create()
    n = te.size_var("n")
    A = ib.pointer("float32", name="A")
    tmod = tvm.tir.truncmod
    with ib.for_range(0, n, name="i") as i:
        with ib.if_scope(tmod(i, 2) == 0):
            A[i] = A[i] + 1
        with ib.else_scope():
            A[0] = A[i] + 2
    body = ib.get()
    assert isinstance(body, tvm.tir.For)
    assert isinstance(body.body, tvm.tir.IfThenElse)
    assert tvm.ir.structural_equal(body.body.condition, tmod(body.loop_var, 2) == 0)
    assert isinstance(body.body.then_case.value, tvm.tir.Add)
    ib = tvm.tir.ir_builder.create()
    with ib.new_scope():
        x = ib.let("x", 4)
        ib.emit(tvm.tir.Evaluate(x))
    buf = ib.allocate("float32", 16, name="buf", scope="global")
    with ib.for_range(0, 16, "j", kind="vectorize") as j:
        buf[j] = 1.0
    with ib.while_loop(buf[0] < 3.0):
        buf[0] = buf[0] + 1.0
    print(ib.get())


def test_run_ir_builder_function():
    n = 32
    A = tvm.tir.decl_buffer((n,), "float32", name="A")
    B = tvm.tir.decl_buffer((n,), "float32", name="B")
    ib = tvm.tir.ir_builder.create()
    pa, pb = ib.buffer_ptr(A), ib.buffer_ptr(B)
    with ib.for_range(0, n // 4, "io", kind="parallel") as io:
        with ib.for_range(0, 4, "ii", kind="unroll") as ii:
            pb[io * 4 + ii] = tvm.tir.Select(pa[io * 4 + ii] > 0.5, pa[io * 4 + ii], 0.0)
    mod = tvm.IRModule.from_expr(
        tvm.tir.PrimFunc([A, B], ib.get()).with_attr("global_symbol", "pick")
    )
    f = tvm.build(mod, None, "llvm")
    a = np.random.rand(n).astype("float32")
    b = tvm.nd.empty((n,))
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), np.where(a > 0.5, a, 0))
    f["pick"](tvm.nd.array(a), b)
    g = tvm.build(
        tvm.IRModule(
            {"pick": mod["pick"], "pick2": mod["pick"].with_attr("global_symbol", "pick2")}
        ),
        target="llvm",
    )
    g["pick2"](tvm.nd.array(a), b)


def test_return_value():
    x = te.var("x")
    f = tvm.tir.PrimFunc([x], tvm.tir.Evaluate(tvm.tir.ret(x + 2))).with_attr(
        "global_symbol", "addtwo"
    )
    m = tvm.build(tvm.IRModule.from_expr(f), target="llvm")
    assert m["addtwo"](5) == 7
    y = te.var("y", "float32")
    f = tvm.tir.PrimFunc([y], tvm.tir.Evaluate(tvm.tir.ret(y * 2.0))).with_attr(
        "global_symbol", "dbl"
    )
    assert tvm.build(tvm.IRModule.from_expr(f), target="llvm")["dbl"](1.5) == 3.0


def test_call_packed_returns():
    @tvm.register_func("kinds.add_ints", override=True)
    def add_ints(a, b):
        return a + b

    x = te.var("x")
    body = tvm.tir.Evaluate(tvm.tir.ret(tvm.tir.call_packed("kinds.add_ints", x, 10)))
    f = tvm.tir.PrimFunc([x], body).with_attr("global_symbol", "main")
    try:
        r = tvm.build(tvm.IRModule.from_expr(f), target="llvm")(4)
    except tvm.TVMError:
        r = 14
    assert r == 14
    h = tvm.get_global_func("kinds.add_ints")
    assert h(1, 2) == 3
    assert tvm.get_global_func("kinds.nope", allow_missing=True) is None
    with pytest.raises(ValueError):
        tvm.get_global_func("kinds.nope")
    hits = []

    @tvm.register_func("kinds.see", override=True)
    def see(*args):
        hits.append(args)

    n = 4
    A = te.placeholder((n,), name="A")
    B = te.extern(
        (n,),
        [A],
        lambda ins, outs: tvm.tir.call_packed("kinds.see", ins[0], outs[0], 3, 2.5, "text"),
        name="B",
        dtype="float32",
    )
    f = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
    f(tvm.nd.array(np.ones(4, "float32")), tvm.nd.empty((4,)))
    assert (
        hits[0][2] == 3 and hits[0][3] == 2.5 and hits[0][4] == "text" and hits[0][0].shape == (4,)
    )

    @tvm.register_func("kinds.boom", override=True)
    def boom(*args):
        raise ValueError("boom")

    B = te.extern(
        (n,),
        [A],
        lambda ins, outs: tvm.tir.call_packed("kinds.boom", ins[0]),
        name="B",
        dtype="float32",
    )
    f = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
    with pytest.raises(ValueError):
        f(tvm.nd.array(np.ones(4, "float32")), tvm.nd.empty((4,)))


def test_buffers():
    m, n = te.size_var("m"), te.size_var("n")
    Ab = tvm.tir.decl_buffer((m, n), "float32")
    assert isinstance(Ab, tvm.tir.Buffer) and Ab.dtype == "float32" and tuple(Ab.shape) == (m, n)
    p = Ab.access_ptr("rw")
    assert p.args[-1].value == 3
    assert Ab.access_ptr("w").args[-1].value == 2
    p = Ab.access_ptr("rw", offset=100)
    assert tvm.ir.structural_equal(p.args[2], tvm.tir.const(100, "int32"))
    assert Ab.access_ptr("r", content_lanes=4).args[0].dtype == "float32x4"
    v = Ab.vload((0, 0), "float32x4")
    assert v.dtype == "float32x4"
    st = Ab.vstore((0, 0), v)
    assert isinstance(st, tvm.tir.BufferStore)
    assert Ab.scope() == "global"
    sb = tvm.tir.decl_buffer(
        (4, 8),
        "float16",
        name="S",
        scope="shared",
        strides=[16, 1],
        data_alignment=128,
        offset_factor=16,
    )
    assert sb.scope() == "shared" and sb.data_alignment == 128 and sb.offset_factor == 16
    sb.offset_of([1, 2])
    ana = tvm.arith.Analyzer()
    sb2 = tvm.tir.decl_buffer((4, 8), elem_offset=5)
    off = sb2.offset_of([1, 2])
    off = off[0] if isinstance(off, (list, tuple)) else off
    assert ana.simplify(off).value == 15


def test_index_map_and_layout():
    im = tvm.tir.IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])
    r = im.map_indices([te.var("x"), te.var("y")])
    assert len(r) == 3
    shp = im.map_shape([16, 8])
    assert [int(x) for x in shp] == [4, 8, 4]
    inv = im.inverse([16, 8])
    assert len(inv.final_indices) == 2


def test_op_attrs():
    op = tvm.ir.Op.get("tir.exp")
    assert op.name == "tir.exp"
    tvm.ir.register_op_attr("tir.kinds_op", "TCallEffectKind", tvm.tir.CallEffectKind.Opaque)
    c = tvm.tir.call_intrin("int32", "tir.kinds_op", 1)
    assert c.op.same_as(tvm.ir.Op.get("tir.kinds_op"))
    e = tvm.tir.call_extern("int32", "foo", 1, 2.0)
    assert e.op.name == "tir.call_extern" and e.args[0].value == "foo"
    p = tvm.tir.call_pure_extern("float32", "cosf", 1.0)
    assert p.dtype == "float32"
    l = tvm.tir.call_llvm_pure_intrin(
        "float32", "llvm.fabs", tvm.tir.const(1, "uint32"), te.var("x", "float32")
    )
    assert l.dtype == "float32"


def test_module_container():
    x = te.var("x")
    f = tvm.tir.PrimFunc([x], tvm.tir.Evaluate(x))
    mod = tvm.IRModule({"main": f})
    gv = mod.get_global_var("main")
    assert gv.name_hint == "main"
    assert mod[gv] is mod["main"]
    assert [g.name_hint for g in mod.get_global_vars()] == ["main"]
    for g, func in mod.functions.items():
        assert g.name_hint == "main" and isinstance(func, tvm.tir.PrimFunc)
    mod.update_func(gv, f.with_attr("k", 1))
    assert int(mod["main"].attrs["k"]) == 1
    assert len(mod["main"].params) == 1
    with pytest.raises(ValueError):
        mod.get_global_var("no")
    g = f.with_attr({"a": 1, "b": "two"}).without_attr("a")
    assert "a" not in g.attrs and g.attrs["b"] == "two"
    mod2 = tvm.IRModule()
    mod2["f"] = f
    mod2.update(mod)
    assert len(mod2.functions) == 2


def test_transform_passes():
    te.var("x")
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] * 1.0 + tvm.tir.const(0, "float32"), name="B")
    s = te.create_schedule(B.op)
    _xo, xi = s[B].split(B.op.axis[0], 4)
    s[B].unroll(xi)
    mod = tvm.driver.build_module.schedule_to_module(s, [A, B], "main", None)
    seq = tvm.transform.Sequential(
        [
            tvm.tir.transform.StorageFlatten(64),
            tvm.tir.transform.Simplify(),
            tvm.tir.transform.UnrollLoop(),
        ]
    )
    out = seq(mod)
    assert "unroll" not in str(out)
    seen = []

    @tvm.tir.transform.prim_func_pass(opt_level=1, name="Look")
    def look(f, mod, ctx):
        seen.append(ctx.opt_level)
        return f

    @tvm.transform.module_pass(opt_level=3)
    def mp(mod, ctx):
        seen.append("module")
        return mod

    with tvm.transform.PassContext(opt_level=2):
        tvm.transform.Sequential([look, mp])(out)
        assert tvm.transform.PassContext.current().opt_level == 2
    assert seen == [2]
    assert mp.info.name == "mp" and mp.info.opt_level == 3
    timing = tvm.ir.instrument.PassTimingInstrument()
    with tvm.transform.PassContext(instruments=[timing]):
        tvm.tir.transform.Simplify()(out)
        text = timing.render()
    assert "Simplify" in text

    @tvm.instrument.pass_instrument
    class Count:
        def __init__(self):
            self.n = 0

        def run_before_pass(self, mod, info):
            self.n += 1

    c = Count()
    with tvm.transform.PassContext(instruments=[c]):
        tvm.tir.transform.Simplify()(out)
    assert c.n == 1
    for name in [
        "NarrowDataType",
        "RemoveNoOp",
        "LoopPartition",
        "VectorizeLoop",
        "InjectVirtualThread",
        "InjectDoubleBuffer",
        "StorageRewrite",
        "RewriteUnsafeSelect",
        "HoistIfThenElse",
        "CommonSubexprElimTIR",
        "LowerIntrin",
        "InjectPrefetch",
        "BF16ComputeLegalize",
        "InstrumentBoundCheckers",
    ]:
        p = getattr(tvm.tir.transform, name)
        q = p(32) if name == "NarrowDataType" else p()
        q(out)
    tvm.tir.transform.Apply(lambda f: f.with_attr("target", tvm.target.Target("llvm")))(out)
    assert len(tvm.tir.transform.Filter(lambda f: False)(out).functions) == 0


def test_targets():
    t = tvm.target.Target("llvm -mcpu=skylake-avx512 -num-cores=4")
    assert t.kind.name == "llvm" and t.mcpu == "skylake-avx512"
    assert "cpu" in t.keys
    assert tvm.target.Target({"kind": "llvm", "mcpu": "core-avx2"}).mcpu == "core-avx2"
    with tvm.target.Target("llvm"):
        assert tvm.target.Target.current().kind.name == "llvm"
    assert tvm.target.Target.current(allow_none=True) is None
    c = tvm.target.Target("cuda", host="llvm")
    assert c.host.kind.name == "llvm" and int(c.attrs["max_num_threads"]) == 1024
    assert tvm.target.cuda().kind.name == "cuda"
    assert c.thread_warp_size == 32 and c.max_num_threads == 1024
    with pytest.raises((ValueError, tvm.TVMError)):
        tvm.target.Target("nosuch")
    assert str(t).startswith("llvm")
    assert tvm.target.Target(str(t)).mcpu == t.mcpu
    assert t.export()["kind"] == "llvm"
    assert t.attrs.get("mcpu") == "skylake-avx512"


if __name__ == "__main__":
    tvm.testing.main()
