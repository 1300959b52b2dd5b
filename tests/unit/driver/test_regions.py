"""Loops bound to threads, what is marked as a device's, and functions with C's signature."""

import ctypes
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.unit.driver.pass_kit import nodes
from tilewright import te, tir
from tilewright.base.errors import CompileError
from tilewright.script import tir as T

P = tir.transform


@T.prim_func
def reversed_rows(A: T.Buffer((5, 33), "float32"), B: T.Buffer((5, 33), "float32")):
    """Rows of blocks that begin at one, threads that share a row, virtual ones that copy."""
    for b in T.thread_binding(1, 5, thread="blockIdx.x"):
        row_data = T.allocate([33], "float32", "shared")
        row = T.Buffer((33,), "float32", data=row_data, scope="shared")
        for t in T.thread_binding(33, thread="threadIdx.x"):
            row[t] = A[b, t]
        for u in T.thread_binding(33, thread="threadIdx.x"):
            for v in T.thread_binding(2, thread="vthread.x"):
                if v == 1:
                    B[b, u] = row[32 - u] + T.float32(1)


def noted(func, target="cuda"):
    marks = {"global_symbol": "f", "target": tvm.target.Target(target, host="llvm")}
    return tvm.IRModule({"f": func.with_attr(marks)})


def test_loops_bound_to_threads_run_as_them():
    a = np.arange(165, dtype="float32").reshape(5, 33)
    b = np.zeros((5, 33), "float32")
    reports = tvm.build(reversed_rows, target="cuda").run_simt(a, b)
    np.testing.assert_array_equal(b[1:], a[1:, ::-1] + 1)
    assert not b[0].any()
    [report] = reports.values()
    assert report.blocks == 4


def test_loops_bound_to_threads_are_one_launch():
    body = P.UnifyThreadBinding()(noted(reversed_rows))["f"].body
    launches = [s for s in nodes(body, tir.AttrStmt) if s.attr_key == "thread_extent"]
    assert [s.node.thread_tag for s in (body, body.body)] == ["blockIdx.x", "threadIdx.x"]
    assert len(launches) == 2 and int(launches[1].value) in (4, 33)
    assert not [s for s in nodes(body, tir.For) if s.kind == tir.ForKind.THREAD_BINDING]


def test_questions_about_kernels_see_loops_bound_to_threads():
    fits = tir.analysis.verify_gpu_code
    assert fits(reversed_rows, {"max_threads_per_block": 33, "max_shared_memory_per_block": 132})
    assert not fits(reversed_rows, {"max_threads_per_block": 32})
    assert not fits(reversed_rows, {"max_shared_memory_per_block": 131})
    assert not fits(reversed_rows, {"max_vthread": 1})
    assert tir.analysis.verify_memory(reversed_rows)
    assert "f_kernel" in P.SplitHostDevice()(noted(reversed_rows)).functions


def test_a_cpu_refuses_loops_bound_to_threads():
    with pytest.raises(CompileError, match="bound to a GPU thread"):
        tvm.build(reversed_rows, target="llvm")


def test_regions_of_devices_are_marked():
    whole = P.UnifyThreadBinding()(noted(reversed_rows))
    marked = P.AnnotateDeviceRegions()(whole)["f"].body
    assert marked.attr_key == "target" and marked.node == tvm.target.Target("cuda")
    assert marked.body is whole["f"].body
    assert P.AnnotateDeviceRegions()(noted(whole["f"].with_body(marked)))["f"].body is marked
    alone = whole["f"].with_attr("target", tvm.target.Target("cuda"))
    assert P.AnnotateDeviceRegions()(alone) is alone
    with pytest.raises(CompileError, match="Require the target attribute: f has none"):
        P.AnnotateDeviceRegions()(alone.without_attr("target"))


def test_a_marked_region_becomes_a_kernel():
    whole = P.UnifyThreadBinding()(noted(reversed_rows))
    split = P.SplitHostDevice()(P.AnnotateDeviceRegions()(whole))
    kernel = split["f_kernel"]
    assert kernel.attrs["target"] == tvm.target.Target("cuda")
    assert kernel.attrs["tir.is_global_func"] and kernel.attrs["calling_conv"] == 2
    assert not [s for s in nodes(split["f"].body, tir.AttrStmt) if s.attr_key == "target"]
    bare = tir.PrimFunc([n := te.var("n")], tir.Evaluate(tir.call_extern("int32", "g", n)))
    module = P.AnnotateDeviceRegions()(P.DecorateDeviceScope()(noted(bare)))
    split = P.SplitHostDevice()(module)
    assert tuple(split["f_kernel"].attrs["tir.kernel_launch_params"]) == ()
    assert "g" in str(split["f_kernel"].body) and "call_kernel" in str(split["f"].body)


@T.prim_func
def doubled(A: T.Buffer((7,), "float32"), B: T.Buffer((7,), "float32"), k: T.int32):
    for i in T.serial(7):
        B[i] = A[i] * T.Cast("float32", k)


def test_a_function_of_pointers():
    made = P.MakeUnpackedAPI()(noted(doubled))["f"]
    assert [p.name for p in made.params] == ["A", "B", "k"] and not made.buffer_map
    assert made.attrs["target"] == tvm.target.Target("llvm")
    a, b = np.arange(7, dtype="float32"), np.zeros(7, "float32")
    at = [x.ctypes.data_as(ctypes.c_void_p).value for x in (a, b)]
    tvm.build(made, target="llvm")(*at, 3)
    np.testing.assert_array_equal(b, a * 3)


def test_functions_of_pointers_know_all_sizes():
    private = doubled.without_attr("global_symbol")
    assert P.MakeUnpackedAPI()(tvm.IRModule({"f": private}))["f"] is private
    n = te.var("n")
    b = tir.decl_buffer((n,), "float32", "B")
    func = tir.PrimFunc([b], tir.BufferStore(b, 1.0, [0]))
    with pytest.raises(CompileError, match="n of the shape of B is given by no parameter"):
        P.MakeUnpackedAPI()(noted(func))
    made = P.MakeUnpackedAPI()(noted(tir.PrimFunc([b, n], func.body)))["f"]
    assert [p.name for p in made.params] == ["B", "n"]


def test_a_store_of_what_an_element_holds_is_nothing():
    b, i = tir.decl_buffer((8,), "float32", "B"), te.var("i")
    kept = [tir.BufferStore(b, b[i + 1], [i]), tir.BufferStore(b, b[i] * 1.0 + 1.0, [i])]
    gone = tir.BufferStore(b, b[1 + i - 1], [i])
    for body, stores in ((gone, 0), (kept[0], 1), (kept[1], 1)):
        new = P.Simplify()(tir.PrimFunc([b, i], body))
        assert len(nodes(new.body, tir.BufferStore)) == stores


def test_constants_of_a_module_are_listed_once():
    b = tir.decl_buffer((2,), "float32", "B")
    first, second = np.array([1, 2], "float32"), np.array([3, 4], "float32")

    def reads(*values):
        body: Any = tir.Evaluate(0)
        for value in values:
            known = tir.decl_buffer((2,), "float32", "K")
            store = tir.BufferStore(b, known[1], [0])
            data = tvm.nd.array(value)
            inner = tir.SeqStmt([store, body])
            body = tir.AllocateConst(known.data, "float32", [2], data, inner)
        return tir.PrimFunc([b], body)

    module = tvm.IRModule({"f": reads(first, second), "g": reads(first)})
    made = P.ExtractPrimFuncConstants()(module)
    assert [c.numpy().tolist() for c in made.attrs["constants"]] == [[3, 4], [1, 2]]
    assert made["f"] is module["f"] and P.ExtractPrimFuncConstants()(made).attrs == made.attrs
    plain = noted(doubled)
    assert P.ExtractPrimFuncConstants()(plain) is plain


def test_what_is_assumed_is_known_after_it_where_it_stands():
    b, n, m = tir.decl_buffer((8,), "int32", "B"), te.var("n"), te.var("m")

    def store_if(condition, at):
        return tir.IfThenElse(condition, tir.BufferStore(b, 1, [at]))

    def assume(condition):
        return tir.Evaluate(tir.assume(condition))

    scoped = tir.IfThenElse(m > 0, tir.SeqStmt([assume(m < 9), store_if(m < 10, 2)]))
    body = tir.SeqStmt([store_if(n < 8, 0), assume(n < 4), store_if(n < 8, 1), scoped])
    body = tir.SeqStmt([body, store_if(m < 10, 3)])
    func = tir.PrimFunc([b, n, m], body)
    assert len(nodes(P.Simplify()(func).body, tir.IfThenElse)) == 5  # as TVM's, without asking
    told = {"propagate_knowns_to_prove_conditional": True}
    with tvm.transform.PassContext(config={"tir.Simplify": told}):
        made = P.Simplify()(func)
    left = [str(s.condition) for s in nodes(made.body, tir.IfThenElse)]
    assert sorted(left) == ["0 < m", "m < 10", "n < 8"]
    assert len(nodes(made.body, tir.BufferStore)) == 4
