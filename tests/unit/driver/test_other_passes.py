"""Passes by TVM's names whose work is done elsewhere, and questions about functions; and names of
ir, runtime and the top level."""

import subprocess
import sys
from inspect import signature
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.base.errors import CompileError, TilewrightError, UsageError
from tilewright.driver.other_passes import REFUSED, SETTLED


def added():
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] + 1, name="b")
    return te.create_prim_func([a, b])


@pytest.mark.parametrize("name", sorted(SETTLED))
def test_settled_passes_leave_programs_as_they_are(name):
    func = added()
    module = tvm.IRModule({"main": func})
    maker = getattr(tir.transform, name)
    given = [None for p in signature(maker).parameters.values() if p.default is p.empty]
    made = maker(*given)
    assert made(module)["main"] is func and made(func) is func
    assert SETTLED[name] in maker.__doc__
    with pytest.raises(TypeError):
        maker(*given, no_argument_of_tvm=1)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_passes_say_what_instead(name):
    with pytest.raises(UsageError, match=f"no pass {name}"):
        getattr(tir.transform, name)({})


def test_a_pipeline_by_tvms_names_builds():
    passes = [tir.transform.Simplify(), tir.transform.LowerTVMBuiltin()]
    passes += [tir.transform.MakePackedAPI(), tir.transform.VerifySSA()]
    module = tvm.transform.Sequential(passes)(tvm.IRModule({"main": added()}))
    out = tvm.nd.empty((8,))
    tvm.build(module)(tvm.nd.array(np.arange(8, dtype="float32")), out)
    np.testing.assert_array_equal(out.numpy(), np.arange(1, 9))


def test_variables_are_defined_once():
    i = te.var("i")
    b = tir.decl_buffer((4,), "int32", "b")
    memory = tir.decl_buffer((4,), "int32", "m")

    def part():
        inner = tir.For(i, 0, 4, 0, tir.BufferStore(memory, i, [i]))
        copy = tir.For(i, 0, 4, 0, tir.BufferStore(b, memory[i] * 2, [i]))
        return tir.Allocate(memory, tir.stmt_seq(inner, copy))

    func = tir.PrimFunc([b], tir.stmt_seq(part(), part()))
    with pytest.raises(CompileError, match="defined twice"):
        tir.transform.VerifySSA()(func)
    once = tir.transform.ConvertSSA()(func)
    assert tir.analysis.verify_ssa(once) and not tir.analysis.verify_ssa(func)
    out = tvm.nd.empty((4,), "int32")
    tvm.build(once)(out)
    np.testing.assert_array_equal(out.numpy(), [0, 2, 4, 6])
    assert tir.transform.ConvertSSA()(once).body is once.body


def test_marks_are_dropped():
    b = tir.decl_buffer((4,), "int32", "b")
    store = tir.BufferStore(b, 3, [0])
    body = tir.stmt_seq(
        tir.Evaluate(tir.assume(b[0] == 1)), tir.BufferStore(b, tir.undef(), [1]), store
    )
    func = tir.PrimFunc([b], body)
    found = tir.transform.RemoveStoreUndef()(tir.transform.RemoveAssume()(func))
    assert found.body is store


def test_bytes_and_purity():
    b, m = (tir.decl_buffer((4, 3), "float16", n) for n in "bm")
    inside = tir.Allocate(m, tir.BufferStore(m, tir.const(1, "float16"), [0, 0]))
    pure = tir.PrimFunc([b], inside)
    assert tir.analysis.is_pure_function(pure) and tir.analysis.assert_pure_function(pure)
    assert tir.analysis.calculate_workspace_bytes(pure, 64) == 64
    assert tir.analysis.calculate_allocated_bytes(pure) == {"main": {"global": 24}}
    writes = tir.PrimFunc([b], tir.BufferStore(b, tir.const(1, "float16"), [0, 0]))
    assert not tir.analysis.is_pure_function(writes)
    with pytest.raises(AssertionError, match="did not allocate"):
        tir.analysis.assert_pure_function(writes)
    known = tir.AllocateConst(te.var("c", "handle"), "int8", [5], np.zeros(5, "int8"), inside)
    assert tir.analysis.calculate_constant_bytes(tir.PrimFunc([b], known), 4) == 8


def test_limits_of_kernels():
    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] + 1)
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    module = tvm.lower(s, [a, b])
    assert tir.transform.VerifyGPUCode({"max_threads_per_block": 64})(module)
    with pytest.raises(CompileError, match="exceed the limits"):
        tir.transform.VerifyGPUCode({"max_threads_per_block": 32})(module)


def test_instruments_may_change(capsys):
    seen = []

    class Watch:
        def __init__(self, name):
            self.name = name

        def enter_pass_ctx(self):
            seen.append(f"{self.name} in")

        def exit_pass_ctx(self):
            seen.append(f"{self.name} out")

    with tvm.transform.PassContext(instruments=[Watch("a")]) as context:
        context.override_instruments([Watch("b")])
    assert seen == ["a in", "a out", "b in", "b out"]
    assert "tir.UnrollLoop" in tvm.transform.PassContext.list_configs()
    printing = tvm.ir.instrument.PassPrintingInstrument(["tir.Simplify"], [])
    with tvm.transform.PassContext(instruments=[printing]):
        tir.transform.Simplify()(added())
    assert capsys.readouterr().out.startswith("Print IR before: tir.Simplify")


def test_attributes_and_nodes_by_name():
    attrs = tvm.ir.make_node("DictAttrs", x=1, y=(2, 3), name="n")
    assert attrs.x == 1 and attrs["name"] == "n" and "y" in attrs and len(attrs) == 3
    assert attrs.get_int_tuple("y") == (2, 3) and attrs.get("z", 5) == 5
    with pytest.raises(AttributeError, match="no attribute 'z'"):
        attrs.z  # noqa: B018
    node = tvm.ir.make_node("IntImm", dtype="int32", value=10)
    assert isinstance(node, tir.IntImm) and node.value == 10
    with pytest.raises(UsageError, match=r"no node 'tir\.Hat'"):
        tvm.ir.make_node("tir.Hat")
    with pytest.raises(UsageError, match="IntImm"):
        tvm.ir.make_node("IntImm", width=1)
    tvm.register_func("test.env_func", lambda x: x + 1)
    found = tvm.ir.EnvFunc.get("test.env_func")
    assert found(3) == 4 and found.name == "test.env_func"
    tvm._ffi.registry.remove_global_func("test.env_func")
    assert tvm.ir.TupleType([tvm.ir.PrimType("int8")]) == tvm.ir.TupleType(
        [tvm.ir.PrimType("int8")]
    )


def test_values_of_the_runtime():
    params: dict[str, Any] = {
        "w": tvm.nd.array(np.arange(6, dtype="float32").reshape(2, 3)),
        "b": np.ones(2),
    }
    data = tvm.runtime.save_param_dict(params)
    again = tvm.runtime.load_param_dict(data)
    assert sorted(again) == ["b", "w"]
    np.testing.assert_array_equal(again["w"].numpy(), params["w"].numpy())
    with pytest.raises(TilewrightError, match="no parameters"):
        tvm.runtime.load_param_dict(b"nothing")
    assert tvm.runtime.ShapeTuple([1, np.int64(2)]) == (1, 2) and tvm.runtime.String("x") == "x"
    assert tvm.gpu(1) == tvm.cuda(1) and tvm.nd.cl(0) == tvm.opencl(0)
    assert not tvm.nd.hexagon(0).exist
    with pytest.raises(UsageError, match="load_module"):
        tvm.runtime.system_lib()

    @tvm.register_object("test.Thing")
    class Thing:
        pass

    assert tvm._ffi.register_extension(Thing) is Thing


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("relay", "tilewright.compile"),
        ("relax", "tilewright.from_torch"),
        ("meta_schedule", "auto_scheduler"),
        ("dlight", "te.create_schedule"),
        ("micro", "tilewright compile"),
        ("parser", "ONNX"),
    ],
)
def test_modules_that_are_not_here_say_what_to_use(module, text):
    for line in (f"import tilewright.{module}.testing", f"from tilewright import {module}"):
        done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True)
        assert done.returncode == 1 and "ImportError" in done.stderr and text in done.stderr


def test_files_by_their_suffix(tmp_path):
    module = tvm.build(added(), target="llvm")
    x = tvm.nd.array(np.arange(8, dtype="float32"))
    for suffix in ("o", "tar", "so", "two"):
        path = tmp_path / f"lib.{suffix}"
        module.export_library(file_name=str(path))
        out = tvm.nd.empty((8,))
        tvm.runtime.load_module(path)["main"](x, out)
        np.testing.assert_array_equal(out.numpy(), np.arange(1, 9))
    assert module.is_runnable and module.is_dso_exportable
    assert module.implements_function("main") and not module.implements_function("other")
    other = tvm.build(tvm.IRModule({"other": added()}), target="llvm")
    module.import_module(other)
    assert module.implements_function("other", True) and not module.implements_function("other")
    module.clear_imports()
    assert module.imported_modules == []
    module.save(tmp_path / "code.bc")
    assert (tmp_path / "code.bc").read_bytes()[:2] == b"BC"
    module.save(tmp_path / "code.ll")
    assert "define" in (tmp_path / "code.ll").read_text()
    module.save(tmp_path / "code.s")
    assert ".text" in (tmp_path / "code.s").read_text()


def test_checks_raise_runtime_errors_that_begin_as_tvms() -> None:
    b = tir.decl_buffer((4,), "int32", "b")
    i = tir.Var("i", "int32")
    loop = tir.For(i, 0, 4, 0, tir.BufferStore(b, i, [i]))
    twice = tir.PrimFunc([b], tir.stmt_seq(loop, loop))
    with pytest.raises(RuntimeError, match="IR is not in SSA form"):
        tir.transform.VerifySSA()(twice)
    host = tir.PrimFunc([b], loop).with_attr("target", tvm.target.Target("cuda"))
    with pytest.raises(RuntimeError, match="Memory verification failed with the following errors"):
        tir.transform.VerifyMemory()(host)
    assert tir.transform.VerifyMemory()(host.with_attr("target", tvm.target.Target("llvm")))
    a = te.placeholder((64,), name="a")
    c = te.compute((64,), lambda i: a[i] + 1)
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(RuntimeError, match=r"GPU constraint\(s\) violated"):
        tir.transform.VerifyGPUCode({"max_threads_per_block": 32})(tvm.lower(s, [a, c]))


def test_functions_of_the_host_get_the_host() -> None:
    """Marked by "tir.is_host_func", which the target takes the place of; others get the target."""
    target = tvm.target.Target("cuda", host="llvm")
    empty = tir.PrimFunc([], tir.Evaluate(0))
    module = tvm.IRModule(
        {
            "main": empty.with_attr("global_symbol", "main"),
            "near": empty.with_attr({"global_symbol": "near", "tir.is_host_func": True}),
            "own": empty.with_attr({"tir.is_host_func": True, "target": tvm.target.Target("c")}),
        }
    )
    found = tir.transform.BindTarget(target)(module)
    kinds = {name: found[name].attrs["target"].kind.name for name in ("main", "near", "own")}
    assert kinds == {"main": "cuda", "near": "llvm", "own": "c"}
    assert "tir.is_host_func" not in found["near"].attrs


def test_modules_below_are_there_with_those_around_them() -> None:
    """In a fresh process, without an import of their own."""
    text = (
        "import tvm; from tvm import autotvm; import tvm._ffi.registry;"
        "assert tvm._ffi.base.TVMError is tvm.TVMError;"
        "assert autotvm.tuner.xgboost_cost_model.XGBoostCostModel"
    )
    done = subprocess.run([sys.executable, "-m", "tilewright.as_tvm", "-c", text], timeout=300)
    assert done.returncode == 0


def test_functions_of_python_are_packed_functions() -> None:
    tvm.register_func("test.of_python", lambda x: x, override=True)
    try:
        assert isinstance(tvm.get_global_func("test.of_python"), tvm.runtime.PackedFunc)
    finally:
        tvm._ffi.remove_global_func("test.of_python")
    assert isinstance(tvm.runtime.convert(abs), tvm.runtime.PackedFunc)
    assert not isinstance(3, tvm.runtime.PackedFunc)
    assert not isinstance(te.var("x"), tvm.runtime.PackedFunc)
