"""The CUDA driver, against a binding whose memory is the host's and whose kernels are Python."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.forget import collect
from tests.narrow import as_a, some
from tests.unit.rt.fake_cuda import CUresult, FakeCuda
from tilewright.base.errors import ArgumentError, CompileError, TilewrightError
from tilewright.rt import array as nd
from tilewright.rt import dlpack
from tilewright.rt.device import Device, cpu, cuda, stream
from tilewright.rt.device_array import DeviceArray
from tilewright.rt.drivers import base, nvrtc
from tilewright.rt.drivers.base import DeviceCode, KernelInfo
from tilewright.rt.drivers.cuda import CudaDriver, CudaRuntime
from tilewright.rt.drivers.cuda_api import CudaError
from tilewright.rt.drivers.cuda_kernel import CudaKernel
from tilewright.rt.drivers.cuda_stream import CudaEvent


def view(address: int, count: int) -> np.ndarray:
    raw = (ctypes.c_float * count).from_address(address)
    return np.ctypeslib.as_array(raw)


def add(grid, block, a, b, out, n):
    assert grid[0] * block[0] >= n
    view(out, n)[:] = view(a, n) + view(b, n)


@pytest.fixture
def fake():
    binding = FakeCuda(devices=2)
    binding.kernels["add"] = (("handle", "handle", "handle", "int32"), add)
    before = base.find("cuda")
    base.register("cuda", CudaDriver(binding))
    yield binding
    collect()
    base.register("cuda", some(before))


ADD = KernelInfo("add", ("handle", "handle", "handle", "int32"), ("r", "r", "w", "scalar"))


def code(**how) -> DeviceCode:
    return DeviceCode("cuda", (ADD,), **{"binary": b"cubin", **how})


def arrays(count: int = 100, where: int = 0) -> list:
    x = np.arange(count, dtype=np.float32)
    return [nd.array(v, cuda(where)) for v in (x, x * 2, np.zeros_like(x))]


def test_arrays_go_there_and_back(fake):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    a = nd.array(x, cuda(1))
    assert type(a) is DeviceArray
    assert (a.device, a.shape, a.dtype, a.nbytes, len(a)) == (cuda(1), (2, 3, 4), "float32", 96, 2)
    assert a._address % 64 == 0
    assert np.array_equal(a.numpy(), x)
    assert np.array_equal(np.asarray(a), x)
    assert np.array_equal(a.copyto(cpu()).numpy(), x)
    assert np.array_equal(a.copyto(cuda(0)).numpy(), x)
    assert "cuMemcpyPeerAsync" in fake.names()
    assert np.array_equal(a.copyto(cuda(1)).numpy(), x)
    assert "cuMemcpyDtoDAsync" in fake.names()
    assert "cuda(1)" in repr(a)
    with pytest.raises(AttributeError):
        _ = a.__array_interface__
    with pytest.raises(ValueError, match="needs a copy"):
        a.__array__(copy=False)


def test_the_limits_are_the_devices(fake):
    d = cuda(0)
    assert d.exist and not cuda(2).exist
    assert (d.warp_size, d.max_threads_per_block, d.max_shared_memory_per_block) == (
        32,
        1024,
        49152,
    )
    assert (d.compute_version, d.device_name, d.multi_processor_count) == ("8.0", "Fake 0", 108)
    assert d.max_thread_dimensions == [1024, 1024, 64]
    assert some(d.available_global_memory) <= some(d.total_global_memory) == 1 << 24
    assert d.target_attributes()["arch"] == "sm_80"
    with pytest.raises(TilewrightError, match=r"cuda\(2\) does not exist here: there are 2 CUDA"):
        nd.empty((2,), "float32", cuda(2))


def test_a_kernel_is_launched_and_bound(fake):
    runtime = cuda(0).runtime
    kernel = runtime.load(code())["add"]
    assert fake.images == [b"cubin\0"]
    a, b, c = arrays()
    args = (a.make_handle(), b.make_handle(), c.make_handle(), 100)
    kernel.launch((2, 1, 1), (64, 1, 1), args, runtime.stream)
    assert np.array_equal(c.numpy(), a.numpy() * 3)
    run = kernel.bind((2, 1, 1), (64, 1, 1), args, runtime.stream)
    a.copyfrom(np.ones(100))
    run()
    assert np.array_equal(c.numpy(), 1 + b.numpy())
    assert kernel.facts() == {
        "registers": 14,
        "shared_bytes": 11,
        "local_bytes": 13,
        "max_threads": 10,
    }
    assert as_a(CudaKernel, kernel).active_blocks(256) == 8
    with pytest.raises(CudaError, match=r"cannot launch kernel add on cuda\(0\).*INVALID_VALUE"):
        kernel.launch((1, 1, 1), (2048, 1, 1), args, runtime.stream)


def test_every_dtype_of_a_scalar_arrives(fake):
    seen = []
    for dtypes, values in (
        (("int64", "float64", "bool", "uint8"), (-(2**40), 0.1, True, 255)),
        (("float32", "int32"), (0.5, -7)),
        (("float16", "int32", "handle"), (1.5, 3, 2**40)),
        (("bfloat16",), (1.0,)),
    ):
        fake.kernels["k"] = (dtypes, lambda grid, block, *v: seen.append(v))
        info = KernelInfo("k", dtypes, ("scalar",) * len(dtypes))
        kernel = cuda(0).runtime.load(DeviceCode("cuda", (info,), binary=b"x"))["k"]
        kernel.launch((1, 1, 1), (1, 1, 1), values, cuda(0).runtime.stream)
        expected = (0x3F80,) if dtypes == ("bfloat16",) else values
        assert seen[-1] == expected
    info = KernelInfo("k", ("float32",), ("scalar",))
    fake.kernels["k"] = (("float32",), lambda grid, block, v: seen.append(v))
    kernel = cuda(0).runtime.load(DeviceCode("cuda", (info,), binary=b"x"))["k"]
    kernel.launch((1, 1, 1), (1, 1, 1), (1e300,), cuda(0).runtime.stream)
    kernel.launch((1, 1, 1), (1, 1, 1), (-1e300,), cuda(0).runtime.stream)
    assert seen[-2:] == [float("inf"), float("-inf")]


def test_much_shared_memory_is_asked_for(fake):
    info = KernelInfo("add", ADD.params, ADD.access, shared_bytes=65536)
    kernel = cuda(0).runtime.load(DeviceCode("cuda", (info,), binary=b"x"))["add"]
    assert ("cuFuncSetAttribute", "add", 8, 65536) in fake.calls
    a, b, c = (x.make_handle() for x in arrays())
    kernel.launch((2, 1, 1), (64, 1, 1), (a, b, c, 100), cuda(0).runtime.stream)
    assert fake.calls[-1][8] == 65536


def test_memory_is_used_again(fake):
    first = nd.empty((1000,), "float32", cuda(0))
    address = first._address
    before = fake.names().count("cuMemAlloc")
    del first
    collect()
    again = nd.empty((999,), "float32", cuda(0))
    assert again._address == address
    assert fake.names().count("cuMemAlloc") == before
    runtime = cuda(0).runtime
    del again
    collect()
    runtime.trim()
    assert "cuMemFree" in fake.names()
    assert not fake.blocks


def test_memory_waits_for_other_streams(fake):
    runtime = cuda(0).runtime
    side = cuda(0).create_stream()
    first = nd.empty((1000,), "float32", cuda(0))
    address = first._address
    records = fake.names().count("cuEventRecord")
    del first
    collect()
    second = nd.empty((1000,), "float32", cuda(0))  # its marks are passed: streams run at once
    assert fake.names().count("cuEventRecord") == records + 2
    assert second._address == address
    fake.cuEventQuery = lambda event: (CUresult.CUDA_ERROR_NOT_READY,)
    del second
    collect()
    third = nd.empty((1000,), "float32", cuda(0))
    assert third._address != address
    del third
    collect()
    runtime.trim()
    assert not fake.blocks
    with stream(side) as chosen:
        assert runtime.stream is chosen is side
    assert runtime.stream is runtime.default_stream


def test_out_of_memory_gives_back_what_is_kept_first(fake):
    kept = nd.empty((2_000_000,), "float32", cuda(0))
    del kept
    collect()
    other = nd.empty((2_600_000,), "float32", cuda(0))
    assert other.size == 2_600_000
    with pytest.raises(TilewrightError, match=r"has no memory for \d+ bytes: \d+ are free"):
        nd.empty((4_000_000,), "float32", cuda(0))


def test_source_is_compiled_once_for_the_device(fake, monkeypatch, tmp_path):
    made = []

    def compile_cuda(source, arch, kind):
        made.append((source, arch, kind))
        return b"made of " + source.encode(), ""

    monkeypatch.setattr(nvrtc, "compile_cuda", compile_cuda)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        cuda(0).runtime.load(code(binary=None, source="text", arch="sm_75"))
    assert made == [("text", "sm_80", "cubin")]
    assert fake.images == [b"made of text\0"] * 2
    with pytest.raises(CompileError, match=r"the code is for sm_90, cuda\(0\) .* is sm_80; build"):
        cuda(0).runtime.load(code(binary=None, source="text", arch="sm_90"))
    with pytest.raises(CompileError, match="the code is for sm_75a"):
        cuda(0).runtime.load(code(binary=None, source="text", arch="sm_75a"))
    fake.fail["cuModuleLoadData"] = CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU
    with pytest.raises(CompileError, match=r"cannot load the kernels add: .*another architecture"):
        cuda(0).runtime.load(code())


def test_a_device_newer_than_the_compiler_gets_ptx(fake, monkeypatch):
    def compile_cuda(source, arch, kind):
        if arch == "sm_80":
            raise CompileError("nvcc fatal: Unsupported gpu architecture 'sm_80'")
        return f"{kind} for {arch}".encode(), ""

    monkeypatch.setattr(nvrtc, "compile_cuda", compile_cuda)
    cuda(0).runtime.load(code(binary=None, source="new", arch="sm_75"))
    assert fake.images == [b"ptx for sm_75\0"]
    with pytest.raises(CompileError, match="Unsupported gpu architecture"):
        cuda(0).runtime.load(code(binary=None, source="new"))


def test_a_graph_repeats_launches(fake):
    runtime = cuda(0).runtime
    kernel = runtime.load(code())["add"]
    a, b, c = arrays()
    handles = [x.make_handle() for x in (a, b, c)]

    def work(into):
        kernel.launch((2, 1, 1), (64, 1, 1), (*handles, 100), into)
        kernel.launch((2, 1, 1), (64, 1, 1), (handles[2], handles[1], handles[2], 100), into)

    repeat = some(runtime.capture(work))
    assert not c.numpy().any()
    repeat()
    assert np.array_equal(c.numpy(), a.numpy() * 5)
    assert not fake.open["graph"]

    def fails(into):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        runtime.capture(fails)
    assert not fake.capturing
    fake.fail["cuGraphLaunch"] = CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(CudaError, match="cannot launch a CUDA graph: CUDA_ERROR_INVALID_VALUE"):
        repeat()
    del repeat
    collect()
    assert not fake.open["exec"]


def test_events_measure(fake):
    runtime = cuda(0).runtime
    timing = runtime.create_timing_stream()
    start, end = timing.record(timing=True), timing.record(timing=True)
    assert end.seconds_since(start) == 2.5e-3
    assert end.done
    fake.busy.add(as_a(CudaEvent, end).handle)
    assert not end.done
    end.sync()
    assert end.done
    del start, end
    collect()
    assert not fake.open["event"]


def test_pinned_memory_and_copies_that_do_not_wait(fake):
    host = nd.pinned_empty((4, 5), "float32", cuda(0))
    assert host.device == cpu(0)
    host[:] = 3
    a = nd.empty((4, 5), "float32", cuda(0))
    waits = fake.names().count("cuStreamSynchronize")
    as_a(DeviceArray, a).copyfrom(host, wait=False)
    assert fake.names().count("cuStreamSynchronize") == waits
    assert (a.numpy() == 3).all()
    cuda(0).sync()
    del host, a
    collect()
    cuda(0).runtime.stream.sync()
    collect()
    assert not fake.open["host"]


def test_streams_close(fake):
    side = cuda(0).create_stream()
    cuda(0).set_raw_stream(side)
    assert cuda(0).current_stream is side
    a = nd.array(np.ones(3, np.float32), cuda(0))
    copies = [c for c in fake.calls if c[0] == "cuMemcpyHtoDAsync"]
    assert [c[-1] for c in copies] == [side.handle]
    cuda(0).sync(side)
    cuda(0).free_raw_stream(side)
    assert cuda(0).current_stream is cuda(0).runtime.default_stream
    with pytest.raises(TilewrightError, match=r"one of cuda\(0\), not of cuda\(1\)"):
        cuda(1).set_stream(side)
    del a, side
    collect()
    assert not fake.open["stream"]
    last = [n for n in fake.names() if n.startswith("cuStream")][-2:]
    assert last == ["cuStreamSynchronize", "cuStreamDestroy"]


def test_dlpack_lends_to_itself(fake):
    a = nd.array(np.arange(6, dtype=np.float32).reshape(2, 3), cuda(0))
    assert a.__dlpack_device__() == (2, 0)
    b = nd.from_dlpack(a)
    assert b._address == a._address and b.device == cuda(0)
    assert np.array_equal(b.numpy(), a.numpy())
    part = nd.from_dlpack(a[:, 1:])
    assert part.strides == (3, 1) and part.numpy().tolist() == [[1, 2], [4, 5]]
    waits = fake.names().count("cuStreamWaitEvent")
    a.__dlpack__(stream=-1)
    a.__dlpack__(stream=1)
    a.__dlpack__()
    assert fake.names().count("cuStreamWaitEvent") == waits
    a.__dlpack__(stream=77)
    assert ("cuStreamWaitEvent", 77) in [c[:2] for c in fake.calls]
    with stream(cuda(0).create_stream()) as side:
        a.__dlpack__(stream=1)
        assert ("cuStreamWaitEvent", 1) in [c[:2] for c in fake.calls]
        assert as_a(CudaRuntime, cuda(0).runtime).stream_number() == int(side.handle)
        assert as_a(DeviceArray, a).__cuda_array_interface__["stream"] == int(side.handle)
    with pytest.raises(BufferError, match=r"is on cuda\(0\), not on device \(1, 0\)"):
        a.__dlpack__(dl_device=(1, 0))
    copy = nd.from_dlpack(a.__dlpack__(copy=True))
    assert copy._address != a._address and np.array_equal(copy.numpy(), a.numpy())


def test_the_cuda_array_interface(fake):
    a = nd.array(np.arange(6, dtype=np.float32).reshape(2, 3), cuda(0))
    said = as_a(DeviceArray, a).__cuda_array_interface__
    assert said == {
        "shape": (2, 3),
        "typestr": "<f4",
        "data": (a._address, False),
        "strides": None,
        "stream": 1,
        "version": 3,
    }
    assert a[:, ::2].__cuda_array_interface__["strides"] == (12, 8)


def test_what_is_missing_is_said(monkeypatch):
    assert "finds no device" in CudaDriver(FakeCuda(devices=0)).why_missing()
    empty = FakeCuda()
    monkeypatch.setattr(empty, "cuInit", lambda flags: (CUresult.CUDA_ERROR_INVALID_VALUE,))
    assert "does not start (cuInit): CUDA_ERROR_INVALID_VALUE" in CudaDriver(empty).why_missing()

    class Without:
        def cuInit(self, flags):
            raise RuntimeError("libcuda.so.1: no such file")

    driver = CudaDriver(Without())
    assert not driver.exists(0)
    assert driver.why_missing() == (
        "NVIDIA's driver library (libcuda.so.1) cannot be loaded: install the NVIDIA driver "
        "(libcuda.so.1: no such file)"
    )
    with pytest.raises(TilewrightError, match=r"cuda\(0\) does not exist here: NVIDIA's driver"):
        driver.open(0)


def test_a_failed_kernel_is_explained(fake):
    fake.fail["cuStreamSynchronize"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(CudaError, match=r"ILLEGAL_ADDRESS.*run the function in simt"):
        cuda(0).runtime.stream.sync()


def test_only_cuda_memory_is_borrowed(fake):
    class Other:
        def __dlpack_device__(self):
            return 10, 0

        def __dlpack__(self, stream=None, max_version=None):
            return dlpack.make_capsule(4096, (2,), (1,), "float32", self, False, False, (10, 0))

    with pytest.raises(ArgumentError, match=r"on device rocm\(0\), expected one in CPU memory"):
        nd.from_dlpack(Other())
    assert Device(10).kind == "rocm"
