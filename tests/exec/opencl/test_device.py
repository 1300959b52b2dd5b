"""OpenCL devices: arrays, streams, programs and what is said where something is wrong."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.forget import collect
from tests.narrow import as_a, some
from tilewright import te
from tilewright.base.errors import ArgumentError, CompileError, TilewrightError
from tilewright.rt import cache
from tilewright.rt.device_array import DeviceArray
from tilewright.rt.drivers import base
from tilewright.rt.drivers.base import DeviceCode, KernelInfo
from tilewright.rt.drivers.opencl_build import cache_key

DEV: Any = tw.opencl(0)
pytestmark = pytest.mark.skipif(not DEV.exist, reason=f"no OpenCL device: {DEV.why_missing()}")

SCALE = """
__kernel void scale(__global const float* restrict a, __global float* restrict b, float f, int n) {
  int i = get_global_id(0);
  if (i < n) b[i] = a[i] * f;
}
"""
INFO = KernelInfo("scale", ("handle", "handle", "float32", "int32"), ("r", "w", "scalar", "scalar"))


def handles(*arrays) -> list[Any]:
    return [as_a(DeviceArray, a).make_handle() for a in arrays]


def code(source: str = SCALE, **how) -> DeviceCode:
    return DeviceCode("opencl", (INFO,), source, **how)


def floats(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_arrays_go_there_and_back():
    for dtype in ("float32", "float16", "int8", "bool", "bfloat16", "float64", "uint64"):
        x = floats(3, 5).astype(tw.nd.empty((1,), dtype).numpy().dtype)
        a = tw.nd.array(x, DEV)
        assert type(a) is DeviceArray and a.device == DEV and a.dtype == dtype
        assert np.array_equal(a.numpy(), x)
        assert np.array_equal(a.copyto(DEV).numpy(), x)
        assert np.array_equal(a.copyto(tw.cpu()).numpy(), x)
    empty = tw.nd.empty((0, 4), "float32", DEV)
    assert empty.numpy().shape == (0, 4)
    assert float(tw.nd.array(np.float32(3), DEV).numpy()) == 3


def test_copies_within_an_array_may_overlap():
    a = tw.nd.array(floats(100), DEV)
    a[10:] = a[:90]
    assert np.array_equal(a.numpy()[10:], floats(90))


def test_copies_need_not_wait():
    a = tw.nd.empty((1000,), "float32", DEV)
    for _ in range(3):
        as_a(DeviceArray, a).copyfrom(floats(1000), wait=False)
    assert np.array_equal(a.numpy(), floats(1000))
    DEV.sync()


def test_a_kernel_is_launched_and_bound():
    runtime = DEV.runtime
    kernel = runtime.load(code())["scale"]
    a, b = tw.nd.array(floats(100), DEV), tw.nd.empty((100,), "float32", DEV)
    args = (*handles(a, b), 2.5, 100)
    for _ in range(2):  # the second finds its arguments set
        kernel.launch((2, 1, 1), (64, 1, 1), args, runtime.stream)
    assert np.array_equal(b.numpy(), floats(100) * 2.5)
    run = kernel.bind((2, 1, 1), (64, 1, 1), (*args[:2], -1.0, 100), runtime.stream)
    kernel.launch((2, 1, 1), (64, 1, 1), (*args[:2], 7.0, 100), runtime.stream)
    run()
    assert np.array_equal(b.numpy(), -floats(100))
    assert kernel.facts()["max_threads"] >= 1
    with pytest.raises(TilewrightError, match=r"cannot launch kernel scale on opencl\(0\).*block"):
        kernel.launch((1, 1, 1), (1 << 20, 1, 1), args, runtime.stream)
    with pytest.raises(TilewrightError, match="has no kernel other"):
        info = KernelInfo("other", INFO.params, INFO.access)
        runtime.load(DeviceCode("opencl", (info,), SCALE))


def test_the_compilers_log_shows_the_line():
    source = SCALE.replace("a[i] * f", "a[i] * factor")
    with pytest.raises(CompileError) as caught:
        DEV.runtime.load(code(source))
    text = str(caught.value)
    assert "the OpenCL compiler of opencl(0)" in text
    assert "factor" in text
    assert "     4 |   if (i < n) b[i] = a[i] * factor;" in text


def test_programs_come_from_the_disk(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    runtime = DEV.runtime
    own = code(SCALE + "// cached\n")
    runtime.load(own)
    key = cache_key(runtime, own)
    assert cache.get(key)
    assert cache_key(runtime, code(own.source, options=("-cl-fast-relaxed-math",))) != key
    other = code(own.source.replace("a[i] * f", "a[i] + f"))
    runtime.load(other)
    cache.put(key, some(cache.get(cache_key(runtime, other))))
    kernel = runtime.load(own)["scale"]  # what is found under its key is taken for it
    a = tw.nd.array(floats(10), DEV)
    b = tw.nd.empty((10,), "float32", DEV)
    args = (*handles(a, b), 3.0, 10)
    kernel.launch((1, 1, 1), (16, 1, 1), args, runtime.stream)
    assert np.array_equal(b.numpy(), floats(10) + 3)
    cache.put(key, b"no program")
    with caplog.at_level(logging.WARNING, "tilewright.opencl"):
        runtime.load(own)
    assert "refuses a cached program" in caplog.text


def test_streams_and_events():
    runtime = DEV.runtime
    kernel = runtime.load(code())["scale"]
    side = DEV.create_stream()
    a, b = tw.nd.array(floats(1000), DEV), tw.nd.empty((1000,), "float32", DEV)
    with tw.runtime.stream(side):
        assert DEV.current_stream is side
        args = (*handles(a, b), 2.0, 1000)
        kernel.launch((16, 1, 1), (64, 1, 1), args, runtime.stream)
        passed = side.record()
    assert DEV.current_stream is not side
    runtime.stream.wait(passed)
    assert np.array_equal(b.numpy(), floats(1000) * 2)
    side.sync()
    assert passed.done
    passed.sync()
    timing = runtime.create_timing_stream()
    start = timing.record(timing=True)
    kernel.launch((16, 1, 1), (64, 1, 1), args, timing)
    end = timing.record(timing=True)
    assert end.seconds_since(start) >= 0
    with pytest.raises(TilewrightError, match="measures no times"):
        side.record().seconds_since(start)


def test_memory_is_used_again_and_given_back():
    runtime = DEV.runtime
    a = tw.nd.empty((12345,), "float32", DEV)
    address = a._address
    del a
    collect()
    tw.nd.empty((1,), "uint8", DEV)  # what was given back waits for a mark in every stream
    DEV.sync()
    b = tw.nd.empty((12345,), "float32", DEV)
    assert b._address == address
    assert b._address % 64 == 0
    del b
    collect()
    runtime.trim()
    assert runtime._pool.held_bytes == 0
    with pytest.raises(TilewrightError, match=r"allocates at most .* at once|has no memory for"):
        tw.nd.empty((1 << 50,), "uint8", DEV)


def test_threads_launch_the_same_kernel():
    kernel = DEV.runtime.load(code())["scale"]

    def work(factor: int) -> bool:
        a, b = tw.nd.array(floats(500), DEV), tw.nd.empty((500,), "float32", DEV)
        args = (*handles(a, b), float(factor), 500)
        with tw.runtime.stream(DEV.create_stream()) as own:
            right = True
            for _ in range(30):
                b[:] = 0
                kernel.launch((8, 1, 1), (64, 1, 1), args, own)
                right = right and np.array_equal(b.numpy(), floats(500) * factor)
        return right

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(1, 9)))


def add_function(target: str = "opencl"):
    n = te.var("n")
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], 64)
    s[C].bind(outer, te.thread_axis("blockIdx.x"))
    s[C].bind(inner, te.thread_axis("threadIdx.x"))
    return tw.build(s, [A, B, C], target, name="add")


def test_a_built_function_runs_from_every_side(tmp_path):
    f = add_function()
    x = floats(1000)
    a, b, c = (tw.nd.array(v, DEV) for v in (x, x + 1, x * 0))
    f(a, b, c)
    assert np.array_equal(c.numpy(), x + x + 1)
    run = f.prepare(a, b, c)
    a[:] = 0
    run()
    assert np.array_equal(c.numpy(), x + 1)
    with tw.runtime.stream(DEV.create_stream()) as side:
        f(a, a, c)
        side.sync()
        assert not c.numpy().any()
    aligned = int(DEV.runtime._part_align) // 4
    f(b[aligned:], b[aligned:], c[aligned:])
    assert np.array_equal(c.numpy()[aligned:], 2 * (x + 1)[aligned:])
    path = str(tmp_path / "add.two")
    f.export_library(path)
    c[:] = 0
    tw.runtime.load_module(path)(b, b, c)
    assert np.array_equal(c.numpy(), 2 * (x + 1))
    result = f.time_evaluator("add", DEV, number=3, repeat=2, cache_flush_bytes=1 << 16)(a, b, c)
    assert len(result.results) == 2 and min(result.results) >= 0


def test_wrong_arguments_are_named():
    f = add_function()
    x = floats(200)
    a, b, c = (tw.nd.array(v, DEV) for v in (x, x, x))
    cases = [
        ((a, x, c), r"argument 1 \(B\): expected an array on opencl\(0\), got one in CPU memory"),
        ((x, b, c), r"argument 0 \(A\): expected an array on opencl\(0\), got one in CPU memory"),
        ((a, tw.nd.array(x, tw.simt(0)), c), r"expected an array on simt\(0\), got one on opencl"),
        ((a, 3, c), r"argument 1 \(B\): expected an array on opencl\(0\), got int"),
        ((a, np.float32(3), c), r"argument 1 \(B\): expected an array, got the scalar"),
        ((a, b[:100], c), r"argument 1 \(B\): expected shape \(n,\) with n = 200, got \(100,\)"),
        ((a, b, b), r"argument 2 \(C\): the function writes it, but its memory overlaps"),
        ((a, b, c.view((10, 20))), r"argument 2 \(C\): expected 1 dimensions"),
        ((a, b), "expected 3 arguments"),
    ]
    for args, text in cases:
        with pytest.raises(ArgumentError, match=text):
            f(*args)
    with pytest.raises(ArgumentError, match=r"argument 0 \(A\): .* start at a multiple"):
        f(a[1:], b[1:], c[1:])
    s, tensors = cpu_add()
    g = tw.build(s, tensors, "llvm", name="add")
    with pytest.raises(ArgumentError, match=r"expected an array in CPU memory, got one on opencl"):
        g(a, b, c)


def cpu_add():
    A = te.placeholder((200,), name="A")
    B = te.placeholder((200,), name="B")
    C = te.compute((200,), lambda i: A[i] + B[i], name="C")
    return te.create_schedule(C.op), [A, B, C]


def test_the_device_describes_itself():
    assert DEV.device_name and DEV.max_threads_per_block >= 1 and DEV.warp_size >= 1
    assert DEV.max_shared_memory_per_block > 0 and DEV.compute_version
    target = tw.Target.from_device(DEV)
    assert target.kind.name == "opencl"
    assert target.max_num_threads == DEV.max_threads_per_block
    assert target == tw.Target(str(target)) == tw.Target.from_device("opencl")
    mali = tw.Target("opencl -device=mali")
    assert mali.fitted_to(DEV).has_fp16 == DEV.limits.has_fp16
    assert mali.fitted_to(DEV).max_num_threads == mali.max_num_threads == 256
    driver = base.find("opencl")
    missing = tw.opencl(some(driver).count())
    assert not missing.exist
    with pytest.raises(TilewrightError, match=r"does not exist here: there .* OpenCL device"):
        missing.require()
    with pytest.raises(BufferError, match="cannot be lent through DLPack"):
        tw.nd.array(floats(3), DEV).__dlpack__()
