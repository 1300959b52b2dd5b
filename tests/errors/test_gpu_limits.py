"""What users read where a device cannot do what they ask: sizes, memory, types, architectures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir
from tilewright.base.errors import ArgumentError, CompileError, TargetError, TilewrightError
from tilewright.rt.checker import make_checker
from tilewright.rt.device_array import DeviceArray
from tilewright.rt.drivers import nvrtc

OPENCL = tw.nd.device("opencl", 0)
needs_opencl = pytest.mark.skipif(not OPENCL.exist, reason="no OpenCL device here")
needs_compiler = pytest.mark.skipif(bool(nvrtc.why_missing()), reason="no CUDA compiler here")


def bound(s: Any, b: Any, factor: int = 64) -> None:
    outer, inner = s[b].split(b.op.axis[0], factor)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))


def plain(n: Any = 64, dtype: str = "float32", f: Any = lambda x: x + 1) -> tuple[Any, Any, Any]:
    a = te.placeholder((n,), dtype, name="A")
    b = te.compute((n,), lambda i: f(a[i]), name="B")
    s = te.create_schedule(b.op)
    bound(s, b)
    return s, a, b


def by_hand(threads: Any, write: Any) -> tir.PrimFunc:
    """A kernel on A of 64 floats; `write(ib, a, thread)` emits its body."""
    ib = tir.ir_builder.create()
    buffer = tir.decl_buffer((64,), "float32", name="A")
    thread = te.thread_axis("threadIdx.x")
    ib.scope_attr(thread, "thread_extent", threads)
    write(ib, ib.buffer_ptr(buffer), thread.var)
    return tir.PrimFunc([buffer.data], ib.get(), {buffer.data: buffer}, {"global_symbol": "f"})


# -- threads and blocks


def test_product_of_two_thread_axes() -> None:
    a = te.placeholder((64, 64), name="A")
    b = te.compute((64, 64), lambda i, j: a[i, j], name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.y"))
    s[b].bind(b.op.axis[1], te.thread_axis("threadIdx.x"))
    with pytest.raises(CompileError, match=r"4096 a block \(threadIdx.x = 64, threadIdx.y = 64\)"):
        tw.build(s, [a, b], "cuda")


def test_virtual_threads_are_no_threads() -> None:
    a = te.placeholder((4096,), name="A")
    b = te.compute((4096,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], nparts=64)
    s[b].bind(outer, te.thread_axis("vthread"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    text = tw.build(s, [a, b], "cuda").imported_modules[0].get_source()
    assert "__launch_bounds__(64)" in text


@pytest.mark.parametrize("tag", ["y", "z"])
def test_too_many_blocks(tag: str) -> None:
    a = te.placeholder((70000,), name="A")
    b = te.compute((70000,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis(f"blockIdx.{tag}"))
    expected = rf"too many blocks along blockIdx.{tag}: 70000, but CUDA has at most 65535; bind the"
    with pytest.raises(CompileError, match=expected):
        tw.build(s, [a, b], "cuda")
    tw.build(s, [a, b], "opencl")


def test_blocks_that_a_call_asks_for() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[0], name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.y"))
    f = tw.build(s, [a, b], "cuda")
    x = np.zeros(70000, "float32")
    with pytest.raises(TilewrightError, match=r"70000 blocks along blockIdx.y.*at most 65535"):
        f.run_simt(x, x.copy())


@pytest.mark.parametrize("threads", [0, -3])
def test_a_kernel_without_threads_does_nothing(threads: int) -> None:
    def write(ib: Any, a: Any, t: Any) -> None:
        a[t] = 1.0

    x = np.zeros(64, "float32")
    tw.build(by_hand(threads, write), target="cuda").run_simt(x)
    assert not x.any()


# -- memory


def test_shared_memory_of_unknown_size() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + a[n - 1 - i], name="B")
    s = te.create_schedule(b.op)
    shared = s.cache_read(a, "shared", [b])
    bound(s, b)
    s[shared].compute_at(s[b], s[b].leaf_iter_vars[0])
    with pytest.raises(CompileError, match=r"A\.shared in shared memory.* constant size") as found:
        tw.build(s, [a, b], "cuda")
    assert "compute_at" in str(found.value)


def test_too_much_local_memory() -> None:
    n = 1 << 20
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + a[n - 1 - i], name="B")
    s = te.create_schedule(b.op)
    local = s.cache_read(a, "local", [b])
    bound(s, b)
    s[local].compute_at(s[b], s[b].leaf_iter_vars[1])
    expected = (
        r"too much local memory: 4194304 bytes a thread \(A.local 4194304\).* CUDA has 524288"
    )
    with pytest.raises(CompileError, match=expected):
        tw.build(s, [a, b], "cuda")


def test_shared_memory_outside_of_kernels() -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[63 - i], name="B")
    s = te.create_schedule(b.op)
    shared = s.cache_read(a, "shared", [b])
    bound(s, b)
    s[shared].bind(s[shared].op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(CompileError, match=r"scope shared \(A\.shared\).*one kernel; compute A"):
        tw.build(s, [a, b], "cuda")


def test_memory_that_a_language_lacks() -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    tile = s.cache_read(a, "wmma.matrix_a", [b])
    bound(s, b)
    s[tile].compute_at(s[b], s[b].leaf_iter_vars[0])
    with pytest.raises(CompileError, match=r"OpenCL has no memory 'wmma.matrix_a'.*'shared' or"):
        tw.build(s, [a, b], "opencl")


def test_memory_of_a_warp() -> None:
    def write(ib: Any, a: Any, t: Any) -> None:
        w = ib.allocate("float32", (48,), name="W", scope="warp")
        w[t] = a[t]
        a[t] = w[47 - t]

    with pytest.raises(CompileError, match=r"has 48 threads; .* divisor of it; split .*'shared'"):
        tw.build(by_hand(48, write), target="cuda")
    with pytest.raises(CompileError, match=r"opencl cannot read each other's.*use scope 'shared'"):
        tw.build(by_hand(32, write), target="opencl")


@pytest.mark.parametrize("target", ["cuda", "opencl"])
@pytest.mark.parametrize(
    ("scope", "help_text"),
    [("global", "two kernels"), ("shraed", "the scopes of barriers are 'shared' and 'warp'")],
)
def test_barriers_of_other_scopes(target: str, scope: str, help_text: str) -> None:
    def write(ib: Any, a: Any, t: Any) -> None:
        ib.emit(tir.call_intrin("int32", "tir.tvm_storage_sync", tir.StringImm(scope)))
        a[t] = 1.0

    with pytest.raises(CompileError, match=f"no barrier of scope '{scope}'.*{help_text}"):
        tw.build(by_hand(64, write), target=target)


# -- indices


def pretended(shape: tuple[int, ...], steps: tuple[int, ...] | None = None) -> Any:
    """An array on simt of any size, with no memory behind it."""
    x = tw.nd.empty((1,) * len(shape), "int8", tw.simt(0))
    x.shape, x._strides, x._address = shape, steps, 1 << 50
    return x


def test_more_elements_than_int32_counts() -> None:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), "int8", name="A")
    b = te.compute((n,), lambda i: a[i, 0], name="B")
    s = te.create_schedule(b.op)
    bound(s, b)
    function = tw.build(s, [a, b], "cuda").entry_func.simt()
    check = make_checker(function.info)
    small = tw.nd.empty((1 << 16,), "int8", tw.simt(0))
    assert type(small) is DeviceArray
    check(pretended((1 << 16, (1 << 15) - 1)), small)
    expected = r"argument 0 \(A\): shape \(65536, 32768\) spans 2147483648 elements.*'int64'"
    with pytest.raises(ArgumentError, match=expected):
        check(pretended((1 << 16, 1 << 15)), small)
    with pytest.raises(ArgumentError, match=r"spans 3221176321 elements"):
        check(pretended((1 << 16, 1), (49152, 1)), small)


def test_int64_shapes_count_further() -> None:
    n, m = te.var("n", "int64"), te.var("m", "int64")
    assert not any(a.narrow for a in info_of(n, m).args)
    assert not any(a.narrow for a in info_of(128, 64).args)
    assert all(a.narrow for a in info_of(te.var("n"), 4).args)


def info_of(n: Any, m: Any, target: str = "cuda") -> Any:
    a = te.placeholder((n, m), "int8", name="A")
    b = te.compute((n, m), lambda i, j: a[i, j], name="B")
    s = te.create_schedule(b.op)
    bound(s, b)
    return tw.build(s, [a, b], target).entry_func.info


def test_constant_shapes_beyond_int32_have_wide_indices() -> None:
    a = te.placeholder((1 << 20, 1 << 13), "int8", name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j], name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    j, k = s[b].split(b.op.axis[1], 256)
    s[b].bind(j, te.thread_axis("blockIdx.y"))
    s[b].bind(k, te.thread_axis("threadIdx.x"))
    text = tw.build(s, [a, b], "cuda").imported_modules[0].get_source()
    assert "((long long)((int)blockIdx.x)) * 8192LL" in text


def test_limits_of_blocks_are_not_cut_to_int32() -> None:
    n = te.var("n", "int64")
    a = te.placeholder((n,), "int8", name="A")
    b = te.compute((n,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    bound(s, b)
    text = tw.build(s, [a, b], "cuda").imported_modules[0].get_source()
    assert "(int)n" not in text and "(n >> 6LL)" in text


def test_temporaries_of_more_elements_than_int32_counts() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    t = te.compute((n, n), lambda i, j: a[i] * a[j], name="T")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n,), lambda i: te.sum(t[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    for stage in (t, c):
        s[stage].bind(stage.op.axis[0], te.thread_axis("blockIdx.x"))
    f = tw.build(s, [a, c], "cuda")
    x = np.zeros(70000, "float32")
    with pytest.raises(TilewrightError, match=r"temporary T would have 4900000000 elements.*int64"):
        f.run_simt(x, x.copy())


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
        ({"kind": "cuda", "host": {"kind": "opencl"}}, "the host of a target is a CPU"),
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
        func = tir.PrimFunc([out.data], ib.get(), {out.data: out}, {"global_symbol": "f"})
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
