"""What users read of targets, code of their own, and calls that a device cannot take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.gpu_kernels import OPENCL, bound, by_hand, needs_compiler, needs_opencl, plain
from tests.narrow import some
from tilewright import te, tir
from tilewright.base.errors import ArgumentError, CompileError, TargetError, TilewrightError
from tilewright.rt.drivers import nvrtc

# -- targets


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("cuda -arch=foo", "'arch' takes a name such as sm_90, got 'foo'"),
        ({"kind": "cuda", "arch": "90"}, "such as sm_90"),
        ({"kind": "cuda", "arch": "compute_90"}, "such as sm_90"),
        ({"kind": "cuda", "arch": 90}, "such as sm_90, got 90"),
        ("cuda -thread_warp_size=33", "takes one of 1, 2, 4, 8, 16, 32, 64, 128, got '33'"),
        ({"kind": "cuda", "max_threads_per_block": 0}, "takes int, at least 1, got 0"),
        ({"kind": "cuda", "libs": {"a": "b"}}, "takes a list"),
        ("cuda --host llvm -host=c", "gives 'host' twice"),
        ({"kind": "cuda", "host": "nonsense"}, "unknown target kind 'nonsense'"),
        ('{"kind": "cuda",', "is not valid JSON"),
        ("{}", "needs a 'kind'"),
        ({"kind": 3}, "needs a 'kind'"),
        ({"kind": "cuda", "max_shared_memory_per_block": "lots"}, "takes int, at least 0"),
        ("opencl -fp16=maybe", "'fp16' takes bool, got 'maybe'"),
        ("cuda -archh=sm_80", "has no attribute 'archh'; it has: arch"),
    ],
)
def test_targets_with_nonsense(target: Any, text: str) -> None:
    with pytest.raises(TargetError) as found:
        tw.target.Target(target)
    assert text in str(found.value)


@needs_compiler
def test_an_architecture_that_no_compiler_knows() -> None:
    s, a, b = plain()
    kernels = tw.build(s, [a, b], "cuda -arch=sm_999").imported_modules[0]
    with pytest.raises(CompileError, match=r"for sm_999") as found:
        kernels.get_source("ptx")
    assert "here knows sm_75, " in str(found.value) and "-arch=sm_90" in str(found.value)


@pytest.mark.parametrize(
    ("dtype", "arch", "least"), [("float16", "sm_60", 70), ("bfloat16", "sm_75", 80)]
)
def test_tensor_cores_that_an_architecture_lacks(dtype: str, arch: str, least: int) -> None:
    def build(target: str) -> Any:
        ib = tir.ir_builder.create()
        out = tir.decl_buffer((256,), dtype, name="A")
        thread = te.thread_axis("threadIdx.x")
        ib.scope_attr(thread, "thread_extent", 32)
        tile = ib.allocate(dtype, (256,), name="tile", scope="wmma.matrix_a")
        for op, last in (("tvm_load_matrix_sync", "row_major"), ("tvm_store_matrix_sync", "")):
            args = [tile._buffer.data, 16, 16, 16, 0, out.access_ptr("rw"), 16]
            if last:
                args.append(tir.StringImm(last))
                ib.emit(tir.call_intrin("handle", f"tir.{op}", *args))
        func = tir.PrimFunc([out.data], ib.get(), None, {out.data: out}, {"global_symbol": "f"})
        return tw.build(func, target=target)

    with pytest.raises(CompileError) as found:
        build(f"cuda -arch={arch}")
    text = str(found.value)
    assert f"needs tensor cores for {dtype}, which began with sm_{least}" in text
    assert f"the target is for {arch}" in text
    build("cuda")
    build(f"cuda -arch=sm_{least}")


# -- code of the host, code of others


def test_what_kernels_cannot_call() -> None:
    def packed(ib: Any, a: Any, t: Any) -> None:
        ib.emit(tir.call_packed("hello", 1))
        a[t] = 1.0

    with pytest.raises(CompileError, match=r"tvm_call_packed \(hello\).*Python functions run on"):
        tw.build(by_hand(64, packed), target="cuda")

    def llvm(ib: Any, a: Any, t: Any) -> None:
        a[t] = tir.call_llvm_pure_intrin("float32", "llvm.sqrt", 1, a[t])

    with pytest.raises(CompileError, match=r"\(llvm.sqrt\) cannot run in OpenCL code.*pure_extern"):
        tw.build(by_hand(64, llvm), target="opencl")


def with_code(key: str, code: str) -> tuple[Any, list[Any]]:
    a = te.placeholder((64,), name="A")
    call = lambda x: tir.call_pure_extern("float32", "mine", x)  # noqa: E731
    b = te.compute((64,), lambda i: call(a[i]), name="B")
    s = te.create_schedule(b.op)
    s[b].pragma(b.op.axis[0], key, code)
    bound(s, b, 16)
    return s, [a, b]


@needs_compiler
def test_imported_code_with_a_syntax_error() -> None:
    code = "__device__ float mine(float x) { return x + ; }"
    kernels = tw.build(*with_code("import_c", code), "cuda").imported_modules[0]
    with pytest.raises(CompileError, match="expected an expression") as found:
        kernels.get_source("ptx")
    assert f"1 | {code}" in str(found.value)


@needs_opencl
def test_imported_code_on_opencl() -> None:
    x = tw.nd.array(np.ones(64, "float32"), OPENCL)
    y = tw.nd.empty((64,), "float32", OPENCL)
    tw.build(*with_code("import_c", "float mine(float x) { return x + 3; }"), "opencl")(x, y)
    np.testing.assert_array_equal(y.numpy(), np.full(64, 4, "float32"))
    wrong = "float mine(float x) { return x + ; }"
    with pytest.raises(CompileError, match="refuses the source") as found:
        tw.build(*with_code("import_c", wrong), "opencl")(x, y)
    assert f"1 | {wrong}" in str(found.value)


def test_imported_llvm_code() -> None:
    with pytest.raises(CompileError, match=r"import_llvm is for the target 'llvm'.*import_c"):
        tw.build(*with_code("import_llvm", "define void @f() { ret void }"), "cuda")


@needs_compiler
def test_a_function_that_the_device_lacks() -> None:
    s, a, b = plain(f=lambda x: tir.call_pure_extern("float32", "no_such", x))
    kernels = tw.build(s, [a, b], "cuda").imported_modules[0]
    with pytest.raises(CompileError, match='identifier "no_such" is undefined') as found:
        kernels.get_source("ptx")
    assert "2 |   B[(int)threadIdx.x] = no_such(A[(int)threadIdx.x]);" in str(found.value)


@needs_opencl
def test_a_function_that_opencl_lacks() -> None:
    s, a, b = plain(f=lambda x: tir.call_pure_extern("float32", "no_such", x))
    x, y = (tw.nd.array(np.zeros(64, "float32"), OPENCL) for _ in "xy")
    with pytest.raises(CompileError, match="undeclared identifier 'no_such'") as found:
        tw.build(s, [a, b], "opencl")(x, y)
    assert "2 |   B[(int)get_local_id(0)] = no_such(" in str(found.value)


@needs_opencl
def test_float64_on_a_device_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = replace(OPENCL.runtime.limits, has_fp64=False)
    monkeypatch.setattr(OPENCL.runtime, "limits", lacking)
    s, a, b = plain(dtype="float64")
    x = tw.nd.array(np.zeros(64), OPENCL)
    y = tw.nd.empty((64,), "float64", OPENCL)
    with pytest.raises(CompileError, match=r"float64, which opencl\(0\).*lacks \(cl_khr_fp64\)"):
        tw.build(s, [a, b], "opencl")(x, y)


# -- calls


def test_outputs_that_simt_cannot_write() -> None:
    s, a, b = plain()
    out = np.zeros(64, "float32")
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match=r"argument 1 \(B\): the function writes it.*read-only"):
        tw.build(s, [a, b], "cuda").run_simt(np.zeros(64, "float32"), out)


def test_parts_of_device_arrays() -> None:
    s, a, b = plain()
    dev = tw.simt(0)
    x = tw.nd.array(np.zeros((64, 2), "float32"), dev)
    y = tw.nd.empty((64,), "float32", dev)
    with pytest.raises(ArgumentError, match=r"got strides \(2,\).*x\.copyto\(x\.device\) makes"):
        tw.build(s, [a, b], "cuda")(x[:, 0], y)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2.5, "a", None])
def test_scalars_that_do_not_fit(value: Any) -> None:
    x = te.var("x")
    a = te.placeholder((64,), "int32", name="A")
    b = te.compute((64,), lambda i: a[i] + x, name="B")
    s = te.create_schedule(b.op)
    bound(s, b)
    zeros = np.zeros(64, "int32")
    with pytest.raises(ArgumentError, match=r"expected an integer \(int32, -2147483648 to"):
        tw.build(s, [a, b, x], "cuda").run_simt(zeros, zeros.copy(), value)


@pytest.mark.parametrize("name", ["postproc", "compile"])
def test_callbacks_that_return_nothing(name: str) -> None:
    key = f"tvm_callback_cuda_{name}"
    tw.register_func(key, lambda code, target: None, override=True)
    s, a, b = plain()
    try:
        with pytest.raises(CompileError, match=f"{key} must return .*, got NoneType"):
            tw.build(s, [a, b], "cuda")
    finally:
        tw._ffi.remove_global_func(key)


# -- shared memory that a launch asks for


def takes(count: int, scope: str) -> Any:
    def write(ib: Any, a: Any, t: Any) -> None:
        s = ib.allocate("float32", (count,), name="S", scope=scope)
        r = ib.allocate("float32", (65,), name="R", scope=scope)
        s[t] = a[t]
        r[t] = a[t] + 1.0
        a[t] = s[63 - t] + r[63 - t]

    return by_hand(64, write)


@pytest.mark.parametrize(("count", "scope"), [(100, "shared.dyn"), (20000, "shared")])
def test_launches_ask_for_dynamic_shared_memory(count: int, scope: str) -> None:
    target = "cuda -arch=sm_80 -max_shared_memory_per_block=166912"
    kernels = tw.build(takes(count, scope), target=target).imported_modules[0]
    first = -(-count * 4 // 32) * 32
    assert some(kernels.device_code).kernels[0].shared_bytes == first + 288
    text = kernels.get_source()
    assert f"(tw_dynamic + {first})" in text and "\n  __shared__" not in text


@needs_compiler
def test_more_shared_memory_than_arrays_may_declare_compiles() -> None:
    target = "cuda -arch=sm_80 -max_shared_memory_per_block=166912"
    cubin, _ = nvrtc.compile_cuda(
        tw.build(takes(20000, "shared"), target=target).imported_modules[0].get_source(),
        "sm_80",
        "cubin",
    )
    assert cubin.startswith(b"\x7fELF")


@needs_opencl
def test_more_shared_memory_than_the_device_has() -> None:
    most = OPENCL.runtime.limits.max_shared_memory_per_block
    target = f"opencl -max_shared_memory_per_block={4 * most}"
    f = tw.build(takes(most // 2, "shared"), target=target)
    with pytest.raises(TilewrightError, match=r"bytes of shared memory a block, but opencl\(0\)"):
        f(tw.nd.array(np.zeros(64, "float32"), OPENCL))


# -- names and lending


@pytest.mark.parametrize("target", ["cuda", "opencl"])
def test_names_of_functions_that_are_no_identifiers(target: str) -> None:
    s, a, b = plain()
    f = tw.build(s, [a, b], target, name="1st func-on")
    assert " _1st_func_on_kernel(" in f.imported_modules[0].get_source()
    x, y = np.ones(64, "float32"), np.zeros(64, "float32")
    f.run_simt(x, y)
    assert (y == 2).all()


def test_arrays_that_cannot_be_lent() -> None:
    x = tw.nd.empty((4,), "float32", OPENCL if OPENCL.exist else tw.simt(0))
    with pytest.raises(TilewrightError, match=r"cannot be lent through DLPack; x\.numpy"):
        x.__dlpack__()
