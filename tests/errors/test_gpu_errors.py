"""What users read when a GPU schedule, a kernel or a call is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.golden import gpu_schedules as gpu
from tilewright import te, tir, topi
from tilewright.base.errors import ArgumentError, CompileError, TilewrightError

OPENCL = tw.nd.device("opencl", 0)


def program(size: int = 4096) -> tuple[Any, Any, Any]:
    a = te.placeholder((size,), name="A")
    b = te.compute((size,), lambda i: a[i] + 1.0, name="B")
    return te.create_schedule(b.op), a, b


def test_unbound_axis() -> None:
    s, a, b = program()
    with pytest.raises(CompileError) as caught:
        tw.build(s, [a, b], "cuda")
    text = str(caught.value)
    assert "Did you forget to bind?" in text and "B[i] = A[i] + T.float32(1)" in text
    assert "blockIdx.x" in text


def test_stage_between_kernels_is_unbound() -> None:
    n = 64
    a = te.placeholder((n,), name="A")
    t = te.compute((n,), lambda i: a[i] * 2.0, name="T")
    b = te.compute((n,), lambda i: t[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(CompileError, match=r"T is accessed on the host") as caught:
        tw.build(s, [a, b], "opencl")
    assert "compute_at" in str(caught.value)


def test_library_statements_that_are_not_for_the_target() -> None:
    a = te.placeholder((8, 64), name="A")
    b = topi.sort(a, axis=1)
    with tw.target.Target("cuda"):
        s = topi.default_schedule(b)
    with pytest.raises(CompileError, match="Did you forget to bind") as caught:
        tw.build(s, [a, b], "cuda")
    assert 'with tvm.target.Target("cuda"): topi.sort(x)' in str(caught.value)


@pytest.mark.parametrize(("target", "most"), [("cuda", 1024), ("opencl", 256)])
def test_too_many_threads(target: str, most: int) -> None:
    s, a, b = program()
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(CompileError, match="too many threads") as caught:
        tw.build(s, [a, b], target)
    assert "threadIdx.x = 4096" in str(caught.value) and f"at most {most} " in str(caught.value)


def test_limits_of_the_target_hold_where_the_device_allows_more() -> None:
    s, a, b = program()
    outer, inner = s[b].split(b.op.axis[0], factor=128)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    with pytest.raises(CompileError, match="at most 64"):
        tw.build(s, [a, b], "opencl -max_threads_per_block=64")
    tw.build(s, [a, b], "opencl")


def test_third_dimension_of_a_cuda_block() -> None:
    s, a, b = program()
    outer, inner = s[b].split(b.op.axis[0], factor=128)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.z"))
    with pytest.raises(CompileError, match=r"threadIdx.z: 128, but target cuda has at most 64"):
        tw.build(s, [a, b], "cuda")


def test_too_much_shared_memory() -> None:
    case = gpu.matmul(size=512, tile=128, inner=16, depth=128)
    with pytest.raises(CompileError, match="too much shared memory") as caught:
        gpu.build(case)
    text = str(caught.value)
    assert "131072 bytes" in text and "A.shared 65536" in text and "49152" in text
    gpu.build(case, "cuda -max_shared_memory_per_block=166912")


def test_threads_of_unknown_number() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(CompileError, match=r"must be constant, but threadIdx\.x has n"):
        tw.build(s, [a, b], "cuda")


def test_barrier_that_threads_could_miss() -> None:
    ib = tir.ir_builder.create()
    buffer = tir.decl_buffer((64,), "float32", name="A")
    a = ib.buffer_ptr(buffer)
    thread = te.thread_axis("threadIdx.x")
    ib.scope_attr(thread, "thread_extent", 64)
    shared = ib.allocate("float32", 64, name="S", scope="shared")
    with ib.while_loop(a[thread.var] > 0.0):
        shared[thread.var] = a[thread.var]
        a[thread.var] = shared[63 - thread.var]
    func = tir.PrimFunc(
        [buffer.data], ib.get(), None, {buffer.data: buffer}, {"global_symbol": "f"}
    )
    with pytest.raises(CompileError, match="a barrier that threads could miss") as caught:
        tw.build(func, target="cuda")
    assert "while loop" in str(caught.value) and "local" in str(caught.value)


def test_two_extents_of_one_axis() -> None:
    ib = tir.ir_builder.create()
    buffer, n = tir.decl_buffer((64,), "float32", name="A"), te.var("n")
    a = ib.buffer_ptr(buffer)
    ib.scope_attr(te.thread_axis("blockIdx.x"), "thread_extent", 2)
    for extent in (8, n):
        thread = te.thread_axis("threadIdx.x")
        with ib.new_scope():
            ib.scope_attr(thread, "thread_extent", extent)
            a[thread.var] = 1.0
    buffers = {buffer.data: buffer}
    func = tir.PrimFunc([buffer.data, n], ib.get(), None, buffers, {"global_symbol": "f"})
    with pytest.raises(CompileError, match=r"threadIdx\.x has 8 threads in one place .* n in "):
        tw.build(func, target="cuda")


def built(target: str) -> Any:
    s, a, b = program(64)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    return tw.build(s, [a, b], target)


def test_array_in_cpu_memory() -> None:
    a = np.zeros(64, "float32")
    with pytest.raises(ArgumentError, match=r"argument 0 \(A\): expected an array on opencl\(0\)"):
        built("opencl")(a, a.copy())


@pytest.mark.skipif(not OPENCL.exist, reason="no OpenCL device here")
def test_array_on_another_device() -> None:
    x = tw.nd.array(np.zeros(64, "float32"), OPENCL)
    y = tw.nd.empty((64,), "float32", OPENCL)
    with pytest.raises(ArgumentError, match=r"expected an array on cuda\(0\), got one on opencl"):
        built("cuda")(x, y)


def test_missing_device() -> None:
    missing = tw.nd.device("cuda", 99)
    with pytest.raises(TilewrightError, match=r"device cuda\(99\) does not exist here: \w+"):
        tw.nd.array(np.zeros(4, "float32"), missing)


def test_no_address() -> None:
    with pytest.raises(TilewrightError, match="launches kernels of opencl"):
        _ = built("opencl").entry_func.address


def test_constraints_of_verify_gpu_code() -> None:
    s, a, b = program(64)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    module = tw.lower(s, [a, b])
    with pytest.raises(CompileError, match="has no constraint 'max_blocks'; it has: max_local"):
        tir.analysis.verify_gpu_code(module, {"max_blocks": 1})


def test_what_the_host_cannot_do() -> None:
    ib = tir.ir_builder.create()
    buffer = tir.decl_buffer((64,), "float32", name="A")
    a = ib.buffer_ptr(buffer)
    ib.emit(tir.call_extern("int32", "puts", "hello"))
    with ib.new_scope():
        thread = te.thread_axis("threadIdx.x")
        ib.scope_attr(thread, "thread_extent", 64)
        a[thread.var] = 1.0
    func = tir.PrimFunc(
        [buffer.data], ib.get(), None, {buffer.data: buffer}, {"global_symbol": "f"}
    )
    with pytest.raises(CompileError, match="cannot stand in the host part"):
        tw.build(func, target="cuda")
