"""Passes by name on programs made by hand."""

from typing import Any

import numpy as np
import tvm
import tvm.testing
from tvm import te


def collect_visit(stmt, f):
    ret = []
    tvm.tir.stmt_functor.post_order_visit(stmt, lambda x: ret.append(f(x)))
    return ret


def test_loop_partition_basic():
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    T = te.compute((n,), lambda i: A[i] + B[i])
    s = te.create_schedule(T.op)
    _xo, _xi = s[T].split(T.op.axis[0], factor=4)
    bounds = tvm.te.schedule.InferBound(s)
    stmt = tvm.te.schedule.ScheduleOps(s, bounds)
    mod = tvm.IRModule.from_expr(tvm.tir.PrimFunc([n], stmt))
    mod = tvm.tir.transform.LoopPartition()(mod)
    stmt = tvm.tir.transform.Simplify()(mod)["main"].body
    loops = [x for x in collect_visit(stmt, lambda x: x) if isinstance(x, tvm.tir.For)]
    assert len(loops) >= 3  # the part without a condition stands apart


def test_const_loop_partition():
    n = 21
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    T = te.compute((n,), lambda i: A[i] + B[i])
    s = te.create_schedule(T.op)
    xo, xi = s[T].split(T.op.axis[0], factor=4)
    with tvm.transform.PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
        mod = tvm.lower(s, [A, B, T])
    assert not any(collect_visit(mod["main"].body, lambda x: isinstance(x, tvm.tir.IfThenElse)))
    s = te.create_schedule(T.op)
    xo, _xi = s[T].split(T.op.axis[0], factor=4)
    s[T].pragma(xo, "loop_partition_hint", True)
    mod = tvm.lower(s, [A, B, T])
    assert not any(collect_visit(mod["main"].body, lambda x: isinstance(x, tvm.tir.IfThenElse)))


def test_vectorize_loop():
    n = te.var("n")
    ib = tvm.tir.ir_builder.create()
    A = ib.pointer("float32", name="A")
    with ib.for_range(0, n):
        with ib.for_range(0, 4, kind="vectorize") as j:
            A[j] = tvm.tir.const(1, A.dtype)
    stmt = ib.get()
    assert isinstance(stmt.body, tvm.tir.For)
    mod = tvm.IRModule.from_expr(tvm.tir.PrimFunc([A.asobject(), n], stmt))
    stmt = tvm.tir.transform.VectorizeLoop()(mod)["main"].body
    assert isinstance(stmt, tvm.tir.For)
    assert not isinstance(stmt.body, tvm.tir.For)
    assert len(stmt.body.indices) == 1
    assert isinstance(stmt.body.indices[0], tvm.tir.Ramp)
    assert isinstance(stmt.body.value, tvm.tir.Broadcast)


def test_vectorize_vector_if_let():
    n = te.var("n")
    x = te.var("x")
    ib = tvm.tir.ir_builder.create()
    A = ib.pointer("float32", name="A")
    with ib.for_range(0, 4, kind="vectorize") as i:
        with ib.if_scope(x < n):
            A[i] = A[i] + 1
        with ib.else_scope():
            with ib.if_scope(i < n):
                A[i] = 2.0
    stmt = ib.get()
    mod = tvm.IRModule.from_expr(tvm.tir.PrimFunc([A.asobject(), n, x], stmt))
    stmt = tvm.tir.transform.VectorizeLoop()(mod)["main"].body
    assert isinstance(stmt, tvm.tir.IfThenElse)
    assert stmt.then_case.indices[0].lanes == 4
    with tvm.transform.PassContext(config={"tir.disable_vectorize": True}):
        tvm.tir.transform.VectorizeLoop(False)(mod)


def test_unroll_loop():
    ib = tvm.tir.ir_builder.create()
    dtype = "int64"
    n = te.size_var("n")
    Ab = tvm.tir.decl_buffer((n,), dtype)
    Aptr = ib.buffer_ptr(Ab)
    with ib.for_range(n, n + 2, name="i") as i:
        with ib.for_range(0, 8, name="i", kind="unroll") as j:
            Aptr[j + 1] = Aptr[i] + 1
    stmt = ib.get()
    mod = tvm.IRModule.from_expr(tvm.tir.PrimFunc([Ab], stmt))
    assert isinstance(stmt, tvm.tir.For)
    with tvm.transform.PassContext(config={"tir.UnrollLoop": {"auto_max_step": 16}}):
        ret = tvm.tir.transform.UnrollLoop()(mod)["main"].body
        assert not isinstance(ret, tvm.tir.For)
    with tvm.transform.PassContext(config={"tir.UnrollLoop": {"auto_max_step": 15}}):
        ret = tvm.tir.transform.UnrollLoop()(mod)["main"].body
        assert isinstance(ret, tvm.tir.For)
    with tvm.transform.PassContext(
        config={"tir.UnrollLoop": {"auto_max_step": 16, "explicit_unroll": False}}
    ):
        ret = tvm.tir.transform.UnrollLoop()(mod)["main"].body
        assert isinstance(ret, tvm.tir.For)
        assert ret.kind == tvm.tir.ForKind.UNROLLED
    ib = tvm.tir.ir_builder.create()
    ib.scope_attr(tvm.tir.const(0, "int32"), "pragma_auto_unroll_max_step", 16)
    ib.emit(stmt)
    wrapped = ib.get()
    wrapped = tvm.tir.SeqStmt([wrapped, stmt])
    mod = tvm.IRModule.from_expr(tvm.tir.PrimFunc([Ab], wrapped))
    with tvm.transform.PassContext(
        config={"tir.UnrollLoop": {"auto_max_depth": 8, "explicit_unroll": False}}
    ):
        ret = tvm.tir.transform.UnrollLoop()(mod)["main"].body
        assert isinstance(ret[0], tvm.tir.For) and ret[0].kind == tvm.tir.ForKind.UNROLLED
        assert isinstance(ret[1], tvm.tir.For) and ret[1].kind != tvm.tir.ForKind.UNROLLED


def test_virtual_thread_and_double_buffer():
    m = 8
    n = 4
    tx = te.thread_axis("threadIdx.x")
    ib = tvm.tir.ir_builder.create()
    A = ib.pointer("float32", name="A")
    C = ib.pointer("float32", name="C")
    ib.scope_attr(tx, "thread_extent", 1)
    with ib.for_range(0, n) as i:
        B = ib.allocate("float32", m, name="B", scope="shared")
        with ib.new_scope():
            ib.scope_attr(B.asobject(), "double_buffer_scope", 1)
            with ib.for_range(0, m) as j:
                B[j] = A[i * 4 + j]
        with ib.for_range(0, m) as j:
            C[j] = B[j] + 1
    stmt = ib.get()
    mod = tvm.IRModule({"db": tvm.tir.PrimFunc([A.asobject(), C.asobject()], stmt)})
    with tvm.transform.PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": 2}}):
        mod = tvm.transform.Sequential(
            [tvm.tir.transform.InjectDoubleBuffer(), tvm.tir.transform.Simplify()]
        )(mod)
    stmt = mod["db"].body
    extents = collect_visit(
        stmt, lambda s: [int(x) for x in s.extents] if isinstance(s, tvm.tir.Allocate) else None
    )
    assert [m * 2] in [e for e in extents if e], stmt
    vx = te.thread_axis("vthread")
    ib = tvm.tir.ir_builder.create()
    A = ib.pointer("float32", name="A")
    with ib.for_range(0, 4) as i:
        ib.scope_attr(vx, "virtual_thread", 2)
        B = ib.allocate("float32", 4, name="B", scope="shared")
        B[i] = A[i * 2 + vx]
        A[i * 2 + vx] = B[i] + 2
    stmt = ib.get()
    out = tvm.tir.transform.InjectVirtualThread()(
        tvm.IRModule.from_expr(tvm.tir.PrimFunc([A.asobject()], stmt))
    )["main"].body
    sizes = [
        e
        for e in collect_visit(
            out, lambda s: [int(x) for x in s.extents] if isinstance(s, tvm.tir.Allocate) else None
        )
        if e
    ]
    assert sizes and int(np.prod(sizes[0])) == 8, out


def test_remove_no_op_and_simplify():
    i, j, k, m, n = (te.var(x) for x in "ijkmn")
    dtype = "int64"
    Ab = tvm.tir.decl_buffer((n,), dtype)

    def nop():
        return tvm.tir.Evaluate(0)

    stmt = tvm.tir.For(
        i,
        0,
        4,
        tvm.tir.ForKind.SERIAL,
        tvm.tir.For(
            j,
            0,
            n,
            tvm.tir.ForKind.SERIAL,
            tvm.tir.For(
                k,
                0,
                m,
                tvm.tir.ForKind.SERIAL,
                tvm.tir.IfThenElse((i * m + j + k < n), tvm.tir.Evaluate(m), tvm.tir.Evaluate(n)),
            ),
        ),
    )
    ret = tvm.tir.transform.RemoveNoOp()(tvm.IRModule.from_expr(tvm.tir.PrimFunc([Ab, m], stmt)))[
        "main"
    ].body
    assert isinstance(ret, tvm.tir.Evaluate)
    store = tvm.tir.BufferStore(Ab, tvm.tir.BufferLoad(Ab, [i]) + 1, [i + 1])
    stmt2 = tvm.tir.SeqStmt([nop(), tvm.tir.SeqStmt([store, nop()])])
    ret = tvm.tir.transform.RemoveNoOp()(tvm.IRModule.from_expr(tvm.tir.PrimFunc([Ab, i], stmt2)))[
        "main"
    ].body
    assert tvm.ir.structural_equal(ret, store)
    ib = tvm.tir.ir_builder.create()
    nn = te.size_var("n")
    Ab = tvm.tir.decl_buffer((nn,), "int32")
    A = ib.buffer_ptr(Ab)
    with ib.for_range(0, nn, "i") as i:
        with ib.if_scope(i < nn):
            A[i] = i * 2 - i - i + 3
    body = tvm.tir.transform.Simplify()(tvm.IRModule.from_expr(tvm.tir.PrimFunc([Ab], ib.get())))[
        "main"
    ].body
    assert isinstance(body.body, tvm.tir.BufferStore) and body.body.value.value == 3


def test_storage_rewrite_reuse():
    ib = tvm.tir.ir_builder.create()
    n = 4096
    out = tvm.tir.decl_buffer((n,), "float32", name="out")
    o = ib.buffer_ptr(out)
    prev: Any = None
    for k in range(4):
        b = ib.allocate("float32", n, name="b%d" % k, scope="global")
        with ib.for_range(0, n, "i%d" % k) as i:
            b[i] = (prev[i] if prev is not None else tvm.tir.const(0, "float32")) + 1.0
        prev = b
    with ib.for_range(0, n, "z") as i:
        o[i] = prev[i]
    mod = tvm.IRModule.from_expr(
        tvm.tir.PrimFunc([out], ib.get()).with_attr("global_symbol", "main")
    )
    body = tvm.tir.transform.StorageRewrite()(mod)["main"].body
    allocs = [
        x
        for x in collect_visit(body, lambda s: s if isinstance(s, tvm.tir.Allocate) else None)
        if x is not None
    ]
    assert len(allocs) <= 2
    f = tvm.build(mod, target="llvm")
    r = tvm.nd.empty((n,))
    f(r)
    assert (r.numpy() == 4).all()


def test_rewrite_unsafe_select_and_hoist():
    ib = tvm.tir.ir_builder.create()
    A = ib.allocate("float32", 100, name="A", scope="global")
    i = te.var("i")
    y = tvm.tir.Select(i > 1, A[i - 1], 1.0)
    yy = tvm.tir.transform.RewriteUnsafeSelect()(
        tvm.IRModule.from_expr(tvm.tir.PrimFunc([i], tvm.tir.Evaluate(y)))
    )["main"].body.value
    assert isinstance(yy, tvm.tir.Call) and yy.op.name == "tir.if_then_else"
    z = tvm.tir.Select(tvm.tir.Select(i > 1, i, 2) > 1, 1, 0)
    zz = tvm.tir.transform.RewriteUnsafeSelect()(
        tvm.IRModule.from_expr(tvm.tir.PrimFunc([i], tvm.tir.Evaluate(z)))
    )["main"].body.value
    assert isinstance(zz, tvm.tir.Select)
    ib = tvm.tir.ir_builder.create()
    l, m, n = te.var("l"), te.var("m"), te.var("n")
    data = ib.pointer("float32", name="data")
    with ib.for_range(0, l, "i") as i:
        with ib.for_range(0, m, "j") as j:
            with ib.for_range(0, n, "k") as k:
                with ib.if_scope(i < 2):
                    data[i * m * n + j * n + k] = data[i] + 1.0
    out = tvm.tir.transform.HoistIfThenElse()(
        tvm.IRModule.from_expr(tvm.tir.PrimFunc([l, m, n, data.asobject()], ib.get()))
    )["main"].body
    assert isinstance(out, tvm.tir.For) and isinstance(out.body, tvm.tir.IfThenElse)


def test_lower_intrin_floordiv():
    def lower(e, params):
        mod = tvm.IRModule.from_expr(
            tvm.tir.PrimFunc(params, tvm.tir.Evaluate(e)).with_attr(
                "target", tvm.target.Target("llvm")
            )
        )
        mod = tvm.transform.Sequential(
            [tvm.tir.transform.Simplify(), tvm.tir.transform.LowerIntrin()]
        )(mod)
        return mod["main"].body.value

    x, _y = te.var("x"), te.var("y")
    out = lower(tvm.tir.floordiv(x, 8), [x])
    assert "//" not in str(out)


def test_user_pass_phases():
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    seen = []

    def make(phase):
        @tvm.tir.transform.prim_func_pass(opt_level=0, name="look%d" % phase)
        def look(f, mod, ctx):
            seen.append(phase)
            return f

        return look

    class Replace:
        def __init__(self, v):
            self.v = v

        def transform_function(self, f, mod, ctx):
            def post(op):
                return tvm.tir.FloatImm("float32", self.v) if op.value == 1.0 else None

            return f.with_body(
                tvm.tir.stmt_functor.ir_transform(f.body, None, post, ["tir.FloatImm"])
            )

    Rep = tvm.tir.transform.prim_func_pass(Replace, opt_level=1)
    with tvm.transform.PassContext(
        opt_level=3,
        config={"tir.add_lower_pass": [(p, make(p)) for p in range(4)] + [(1, Rep(5.0))]},
    ):
        f = tvm.build(s, [A, B], "llvm")
    assert seen == [0, 1, 2, 3]
    b = tvm.nd.empty((16,))
    f(tvm.nd.array(np.zeros(16, "float32")), b)
    assert (b.numpy() == 5).all()


def test_split_host_device_and_verify():
    n = 64
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    mod = tvm.lower(s, [A, B])
    func = mod["main"].with_attr("target", tvm.target.Target("cuda"))
    assert not tvm.tir.analysis.verify_memory(func)
    bx, tx = s[B].split(B.op.axis[0], 8)
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    mod = tvm.lower(s, [A, B])
    func = mod["main"].with_attr("target", tvm.target.Target("cuda"))
    assert tvm.tir.analysis.verify_memory(func)
    assert tvm.tir.analysis.verify_gpu_code(func, {"max_threads_per_block": 8})
    assert not tvm.tir.analysis.verify_gpu_code(func, {"max_threads_per_block": 4})
    mod = tvm.tir.transform.Apply(
        lambda f: f.with_attr(
            {"global_symbol": "main", "target": tvm.target.Target("cuda", host="llvm")}
        )
    )(mod)
    split = tvm.tir.transform.SplitHostDevice()(mod)
    assert len(split.functions) == 2


def test_structural_and_script():
    A = te.placeholder((4, 4), name="A")
    B = te.compute((4, 4), lambda i, j: A[j, i], name="B")
    m1, m2 = (tvm.lower(te.create_schedule(B.op), [A, B]) for _ in range(2))
    assert tvm.ir.structural_equal(m1, m2)
    assert tvm.ir.structural_hash(m1) == tvm.ir.structural_hash(m2)
    assert "T.prim_func" in m1.script() and "T.Buffer" in m1["main"].script(show_meta=False)
    assert "T.prim_func" in str(m1)


def test_narrow_and_cse():
    te.var("n", "int64")
    A = te.placeholder((tvm.tir.const(16, "int64"),), name="A")
    B = te.compute((tvm.tir.const(16, "int64"),), lambda i: A[i] + 1.0, name="B")
    mod = tvm.lower(te.create_schedule(B.op), [A, B])
    loop = mod["main"].body
    while not isinstance(loop, tvm.tir.For):
        loop = loop.body
    assert loop.loop_var.dtype == "int32"
    f = tvm.build(mod, target="llvm")
    f(tvm.nd.empty((16,)), tvm.nd.empty((16,)))


if __name__ == "__main__":
    tvm.testing.main()
