"""Passes and questions by TVM's names, on modules: definitions, copies, memory, targets."""

import inspect

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.base.errors import CompileError
from tilewright.loopir.define import renew_defs
from tilewright.script import tir as T

K = tir.ForKind


def nodes(node, kind):
    found: list[object] = []
    tir.stmt_functor.post_order_visit(node, found.append)
    return [x for x in found if type(x) is kind]


# -- definitions


def shared_names():
    n, x = tir.Var("n", "int32"), tir.Var("x", "int32")
    b = tir.decl_buffer((4,), "int32", "b")
    inner = tir.LetStmt(x, n + 1, tir.BufferStore(b, x, [1]))
    body = tir.LetStmt(x, n, tir.SeqStmt([inner, tir.BufferStore(b, x, [0])]))
    func = tir.PrimFunc([b, n], body)
    return tvm.IRModule({name: func.with_attr("global_symbol", name) for name in ("f", "g")})


def test_each_function_defines_its_own():
    module = shared_names()
    once = tir.transform.ConvertSSA()(module)
    assert tir.analysis.verify_well_formed(once)
    for name in ("f", "g"):
        out = tvm.nd.array(np.zeros(4, "int32"))
        tvm.build(once[name])(out, 5)
        assert list(out.numpy()[:2]) == [5, 6]
    assert tir.transform.ConvertSSA()(once).same_as(once)
    assert not set(once["f"].params) & set(renew_defs(once["f"]).params)


def test_two_definitions_are_named():
    module = shared_names()
    with pytest.raises(ValueError, match="multiple nested definitions of variable x"):
        tir.analysis.verify_well_formed(module["f"])
    once = tir.transform.ConvertSSA()(module)
    twice = tvm.IRModule({"f": once["f"], "g": once["f"]})
    with pytest.raises(ValueError, match="multiple definitions of variable b"):
        tir.analysis.verify_well_formed(twice)
    i = tir.Var("i", "int32")
    after = tir.SeqStmt([tir.LetStmt(i, 1, tir.Evaluate(i)), tir.Evaluate(i)])
    assert not tir.analysis.verify_well_formed(tir.PrimFunc([], after), assert_mode=False)
    with pytest.raises(ValueError, match=r"variable i at .* no longer in-scope"):
        tir.analysis.verify_well_formed(tir.PrimFunc([], after))


# -- attributes, contexts, copies


def test_equal_attributes_come_together():
    where = te.thread_axis("cop")
    b = tir.decl_buffer((8,), "float32", "b")

    def part(value, at):
        i = tir.Var("i", "int32")
        store = tir.BufferStore(b, 1.0, [i + at])
        return tir.For(i, 0, 2, K.SERIAL, tir.AttrStmt(where, "coproc_uop_scope", value, store))

    lift = tir.transform.LiftAttrScope("coproc_uop_scope")
    all_same = lift(tir.PrimFunc([b], tir.SeqStmt([part(1, 0), part(1, 2)]))).body
    assert type(all_same) is tir.AttrStmt and type(all_same.body) is tir.SeqStmt
    last_two = lift(tir.PrimFunc([b], tir.SeqStmt([part(0, 0), part(1, 2), part(1, 4)]))).body
    assert type(last_two) is tir.SeqStmt
    assert [int(s.value) for s in nodes(last_two, tir.AttrStmt)] == [0, 1]
    assert len(nodes(last_two, tir.AttrStmt)) == 2


def test_contexts_are_made_once_a_thread():
    device = tir.Var("device", "int32")

    def call(number):
        made = tir.call_extern("handle", "context", device, number)
        context = tir.Call("handle", "tir.tvm_thread_context", [made])
        return tir.Evaluate(tir.call_extern("int32", "use", context))

    i = tir.Var("i", "int32")
    loop = tir.For(i, 0, 4, K.PARALLEL, tir.SeqStmt([call(0), call(1), call(0)]))
    func = tir.PrimFunc([device], tir.SeqStmt([call(0), loop, call(0)]))
    combine = tir.transform.CombineContextCall()
    assert combine(func) is func
    body = combine(func.with_attr("target", tvm.target.Target("llvm"))).body
    assert len(nodes(body, tir.LetStmt)) == 3
    assert type(body) is tir.LetStmt and type(body.body) is tir.SeqStmt
    assert [type(x.body) for x in nodes(body, tir.For)] == [tir.LetStmt]


def test_copies_are_what_users_make_of_them():
    a = te.placeholder((8,), name="a")
    b = te.compute((12,), lambda i: tir.if_then_else(tir.all(i >= 1, i < 9), a[i - 1], 7.0))
    s = te.create_schedule(b.op)
    s[b].pragma(b.op.axis[0], "fetch")
    stmt = te.schedule.ScheduleOps(s, te.schedule.InferBound(s))
    func = te.schedule.SchedulePostProcToPrimFunc([a, b], stmt)
    func = tir.transform.StorageFlatten(64)(func)
    seen = []

    def fetch(src, dst, before, after, value):
        seen.append((int(src.shape[0]), int(src.elem_offset), int(before[0]), int(after[0])))
        return tir.Evaluate(tir.call_extern("int32", "fetch", src.data, dst.data, value))

    done = tir.transform.InjectCopyIntrin("fetch", fetch)(func)
    assert seen == [(8, 0, 1, 3)] and not nodes(done.body, tir.For)
    with pytest.raises(CompileError, match="must give a statement"):
        tir.transform.InjectCopyIntrin("fetch", lambda *_: 1)(func)  # type: ignore[arg-type]
    no_copy = func.with_body(tir.AttrStmt(b, "pragma_fetch", 1, tir.Evaluate(1)))
    with pytest.raises(CompileError, match="no copy of one buffer"):
        tir.transform.InjectCopyIntrin("fetch", fetch)(no_copy)


# -- memory and questions


def test_small_buffers_leave_their_loop():
    @T.prim_func
    def func(a: T.Buffer((8,), "float32")):
        for i in range(8):
            data = T.allocate([16], "float32", "global")
            own = T.Buffer((16,), "float32", data=data)
            own[0] = a[i]
            a[i] = own[0] + 1.0

    assert type(tir.transform.StorageRewrite()(func).body) is tir.Allocate


def test_memory_that_lives_at_one_time_is_counted():
    @T.prim_func
    def func(a: T.Buffer((8,), "float32")):
        with T.allocate([100], "float32", "global.vtcm") as x:
            a[0] = T.Buffer((100,), "float32", data=x)[0]
        with T.allocate([60], "float32", "global.vtcm") as y:
            a[1] = T.Buffer((60,), "float32", data=y)[0]
            with T.allocate([70], "int8", "local") as z:
                a[2] = T.cast(T.Buffer((70,), "int8", data=z)[0], "float32")

    sizes = tir.analysis.calculate_allocated_bytes(func)
    assert sizes == {"main": {"global.vtcm": 400, "local": 70}}
    assert tir.analysis.calculate_workspace_bytes(func, 1) == 400
    assert tir.analysis.calculate_workspace_bytes(func, 300) == 600
    assert tir.transform.VerifyVTCMLimit(400)(func) is func
    assert tir.transform.VerifyVTCMLimit(0)(func) is func
    with pytest.raises(CompileError, match="limit has been exceeded: 400 bytes of 399"):
        tir.transform.VerifyVTCMLimit(399)(func)


def test_operations_are_counted():
    @T.prim_func
    def func(a: T.Buffer((64,), "float32"), n: T.int32):
        for i in range(4):
            for j in range(i + 2):
                if i < 2:
                    a[i * 8 + j] = a[j] * 2.0 + 1.0
                else:
                    a[j] = a[j] + 1.0

    count = tir.analysis.estimate_tir_flops
    assert count(tvm.IRModule({"main": func})) == count(func.body) == 4 * 5 * 2
    assert count(func.with_attr("estimated_flops", 3)) == 3
    i = tir.Var("i", "int32")
    with pytest.raises(CompileError, match="how often the loop over i runs"):
        count(tir.For(i, 0, func.params[1], K.SERIAL, func.body))


def test_indices_that_leave_their_buffer_are_found():
    @T.prim_func
    def func(a: T.Buffer((4, 8), "float32"), n: T.int32):
        for i in range(4):
            a[i, n] = a[i, i + 4]

    check = tir.analysis.OOBChecker()
    assert check(func) is func

    @T.prim_func
    def outside(a: T.Buffer((4, 8), "float32"), n: T.int32):
        for i in range(4):
            if i > 0:
                a[i - 1, n] = a[i, i + 5]

    with pytest.raises(tir.ScheduleError, match=r"buffer a dimension 1\. .*\[6, 8\]"):
        check(outside)


def test_makers_take_tvms_arguments_alone():
    some = {
        "CommonSubexprElimTIR": "enable_cse_tir identify_equiv_terms",
        "HoistIfThenElse": "variant",
        "InjectCopyIntrin": "pragma_key fintrin",
        "LiftAttrScope": "attr_key",
        "NarrowDataType": "target_bits",
        "Simplify": "",
        "StorageFlatten": "cache_line_size create_bound_attribute",
        "ThreadSync": "storage_scope",
        "VectorizeLoop": "enable_vectorize",
    }
    for name, parameters in some.items():
        made = inspect.signature(getattr(tir.transform, name)).parameters
        assert list(made) == parameters.split(), name


def test_vectors_are_loops_where_they_are_not_wanted():
    @T.prim_func
    def func(a: T.Buffer((8,), "float32")):
        for i in T.vectorized(8):
            a[i] = T.float32(1)

    assert tir.transform.VectorizeLoop(False)(func).body.kind == K.SERIAL
    assert nodes(tir.transform.VectorizeLoop()(func).body, tir.Ramp)


def test_what_no_pass_here_lowers_is_refused():
    b = tir.decl_buffer((1,), "float32", "b")
    store = tir.BufferStore(b, 1.0, [0])
    func = tir.PrimFunc([b], tir.AttrStmt(b, "coproc_scope", 1, store))
    with pytest.raises(CompileError, match="no targets with coprocessors"):
        tir.transform.CoProcSync()(func)


# -- undefined values, entries, targets, virtual threads


def test_what_is_made_of_nothing_is_not_stored():
    @T.prim_func
    def func(a: T.Buffer((4,), "int32")):
        x: T.int32 = T.undef(dtype="int32")
        for i in range(4):
            a[i] = x + 1
        a[0] = 1

    body = tir.transform.RemoveStoreUndef()(func).body
    assert type(body) is tir.BufferStore

    @T.prim_func
    def index(a: T.Buffer((4,), "int32")):
        a[T.undef(dtype="int32")] = 1

    with pytest.raises(CompileError, match="stands in an index"):
        tir.transform.RemoveStoreUndef()(index)

    @T.prim_func
    def decides(a: T.Buffer((4,), "int32")):
        x: T.int32 = T.undef(dtype="int32")
        if x > 0:
            a[0] = 1

    with pytest.raises(CompileError, match="decides more than what is stored"):
        tir.transform.RemoveStoreUndef()(decides)


def test_loops_that_only_assume_go():
    @T.prim_func
    def func(a: T.Buffer((4,), "int32")):
        for i in range(4):
            T.evaluate(T.assume(a[i] == 0))
        a[0] = 1

    assert type(tir.transform.RemoveAssume()(func).body) is tir.BufferStore


def test_the_entry_is_the_one_that_is_called_from_outside():
    bare = tir.PrimFunc([], tir.Evaluate(0))
    named = bare.with_attr("global_symbol", "f")
    annotate = tir.transform.AnnotateEntryFunc()
    marked = annotate(tvm.IRModule({"f": named, "g": bare}))
    assert ["tir.is_entry_func" in marked[n].attrs for n in "fg"] == [True, False]
    several = tvm.IRModule({"f": named, "g": named})
    assert annotate(several) is several


def test_targets_that_functions_have_stay():
    both = tvm.target.Target("cuda", host="llvm")
    bind = tir.transform.BindTarget(both)
    inside = tir.PrimFunc([], tir.Evaluate(0))
    outside = inside.with_attr("global_symbol", "f")
    assert bind(inside).attrs["target"].host is None
    assert bind(outside).attrs["target"] == both
    other = bind(outside.with_attr("target", tvm.target.Target("opencl"))).attrs["target"]
    assert other.kind.name == "opencl" and other.host.kind.name == "llvm"
    own = inside.with_attr("target", tvm.target.Target("opencl"))
    assert bind(own) is own


@pytest.mark.parametrize(("tag", "read", "written"), [("vthread", 8, 16), ("cthread", 16, 16)])
def test_virtual_threads_share_what_they_only_read(tag, read, written):
    x, y = te.thread_axis(tag), te.thread_axis(tag)
    given, made = (tir.decl_buffer((4,), "float32", n, scope="shared") for n in ("given", "made"))
    call = tir.call_extern("int32", "f", given.access_ptr("r"), made.access_ptr("w"), y.var)
    body: tir.Stmt = tir.SeqStmt([tir.BufferStore(given, 1.0, [x.var]), tir.Evaluate(call)])
    for buffer in (made, given):
        body = tir.Allocate(buffer, body)
    for axis in (y, x):
        body = tir.AttrStmt(axis, "virtual_thread", 2, body)
    found = nodes(tir.transform.InjectVirtualThread()(tir.PrimFunc([], body)).body, tir.Allocate)
    assert {s.buffer.name: int(s.buffer.shape[0]) for s in found} == {
        "given": read,
        "made": written,
    }
