"""Wrong calls of the CUDA driver: the stub has to refuse each as the driver documents it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.exec.gpu.stub_kernels import kernels
from tests.stub_cuda import StubCuda, images, installed
from tests.stub_cuda.limits import ARCHS


class Bench:
    """A stub with one of everything."""

    def __init__(self, stub: StubCuda) -> None:
        self.stub = stub
        self.made("cuInit", 0)
        self.contexts = [self.made("cuDevicePrimaryCtxRetain", d) for d in (0, 1)]
        self.made("cuCtxSetCurrent", self.contexts[1])
        self.elsewhere = self.made("cuMemAlloc", 4096)
        self.stream_elsewhere = self.made("cuStreamCreate", 1)
        self.made("cuCtxSetCurrent", self.contexts[0])
        self.memory = self.made("cuMemAlloc", 4096)
        self.more = self.made("cuMemAlloc", 4096)
        self.stream = self.made("cuStreamCreate", 1)
        self.timed, self.untimed = self.made("cuEventCreate", 0), self.made("cuEventCreate", 2)
        code = kernels()["line"][2]
        self.image = images.compile_cuda(code.source, "sm_80", "cubin")[0]
        self.ptx = images.compile_cuda(code.source, "sm_80", "ptx")[0]
        self.module = self.made("cuModuleLoadData", self.image)
        self.name = code.kernels[0].name.encode()
        self.kernel = self.made("cuModuleGetFunction", self.module, self.name)
        much = kernels()["much"][2]
        image = images.compile_cuda(much.source, "sm_80", "cubin")[0]
        module = self.made("cuModuleLoadData", image)
        self.much = self.made("cuModuleGetFunction", module, much.kernels[0].name.encode())
        self.host = np.zeros(8192, np.uint8)
        self.made(HtoD, self.memory, self.host.ctypes.data, 4096, 0)
        self.values = (ctypes.c_uint64 * 3)(self.memory, self.more, 3)
        start = ctypes.addressof(self.values)
        self.places = (ctypes.c_uint64 * 3)(start, start + 8, start + 16)

    def made(self, name: str, *args: Any) -> Any:
        status, *found = self.call(name, *args)
        assert status == 0, self.stub.violations
        return found[0] if found else None

    def call(self, name: str, *args: Any) -> Any:
        return getattr(self.stub, name)(*args)

    def launch(self, grid: Any = (4, 1, 1), block: Any = (64, 1, 1), **how: Any) -> Any:
        given = {"kernel": self.kernel, "shared": 0, "stream": 0, "extra": 0,
                 "params": ctypes.addressof(self.places), **how}  # fmt: skip
        return self.call(
            "cuLaunchKernel", given["kernel"], *grid, *block, given["shared"], given["stream"],
            given["params"], given["extra"],
        )  # fmt: skip

    def with_values(self, *values: int) -> Any:
        for n, v in enumerate(values):
            self.values[n] = v
        return self.launch()

    def gone(self, make: str, give: str, *args: Any) -> Any:
        handle = self.made(make, *args)
        self.made(give, handle)
        return handle

    def elsewhere_in(self, work: Callable[[], Any]) -> Any:
        """In another thread, with the context entered."""
        return self.in_thread(lambda: [self.call("cuCtxSetCurrent", self.contexts[0]), work()][1])

    def capturing(self, mode: int, *name: Any) -> Any:
        self.made("cuStreamBeginCapture", self.stream, self.stub.CUstreamCaptureMode(mode))
        return self.call(*name)

    def in_thread(self, work: Callable[[], Any]) -> Any:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(work()))
        thread.start()
        thread.join()
        return found[0]


def _captured_event(b: Bench) -> Any:
    b.capturing(1, "cuEventRecord", b.untimed, b.stream)
    return b.call("cuEventSynchronize", b.untimed)


def _spoilt(b: Bench) -> Any:
    b.capturing(1, "cuMemAlloc", 512)
    b.stub.violations.clear()
    return b.call("cuStreamEndCapture", b.stream)


def _freed(b: Bench) -> Any:
    b.made("cuMemFree", b.more)
    return b.launch()


def _unloaded(b: Bench) -> Any:
    b.made("cuModuleUnload", b.module)
    return b.launch()


def _ended_elsewhere(b: Bench) -> Any:
    b.capturing(1, "cuCtxSetCurrent", b.contexts[0])
    return b.elsewhere_in(lambda: b.call("cuStreamEndCapture", b.stream))


def _memory_meanwhile(b: Bench) -> Any:
    b.capturing(0, "cuCtxSetCurrent", b.contexts[0])
    return b.elsewhere_in(lambda: b.call("cuMemAlloc", 64))


HtoD, DtoH, DtoD = "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync"
WRONG: dict[str, tuple[str, Callable[[Bench], Any]]] = {
    "no context": ("INVALID_CONTEXT", lambda b: b.in_thread(lambda: b.call("cuMemAlloc", 64))),
    "no such context": ("INVALID_HANDLE", lambda b: b.call("cuCtxSetCurrent", b.stream)),
    "no such device": ("INVALID_DEVICE", lambda b: b.call("cuDeviceGet", 2)),
    "no bytes": ("INVALID_VALUE", lambda b: b.call("cuMemAlloc", 0)),
    "a size below zero": ("INVALID_VALUE", lambda b: b.call("cuMemAlloc", -1)),
    "freed twice": (
        "INVALID_VALUE",
        lambda b: b.call("cuMemFree", b.gone("cuMemAlloc", "cuMemFree", 9)),
    ),
    "freed in the middle": ("INVALID_VALUE", lambda b: b.call("cuMemFree", b.memory + 256)),
    "freed as pinned": ("INVALID_VALUE", lambda b: b.call("cuMemFreeHost", b.memory)),
    "copied beyond": (
        "INVALID_VALUE",
        lambda b: b.call(HtoD, b.memory + 4000, b.host.ctypes.data, 97, 0),
    ),
    "copied from beyond": (
        "INVALID_VALUE",
        lambda b: b.call(DtoH, b.host.ctypes.data, b.memory, 4097, 0),
    ),
    "copied to the host": (
        "INVALID_VALUE",
        lambda b: b.call(HtoD, b.host.ctypes.data, b.memory, 64, 0),
    ),
    "copied onto itself": (
        "INVALID_VALUE",
        lambda b: b.call(DtoD, b.memory, b.memory + 64, 128, 0),
    ),
    "memory elsewhere": ("INVALID_VALUE", lambda b: b.call(DtoD, b.memory, b.elsewhere, 64, 0)),
    "contexts swapped": (
        "INVALID_VALUE",
        lambda b: b.call(
            "cuMemcpyPeerAsync", b.memory, b.contexts[1], b.elsewhere, b.contexts[0], 64, 0
        ),
    ),
    "a stream that is gone": (
        "INVALID_HANDLE",
        lambda b: b.call("cuStreamSynchronize", b.gone("cuStreamCreate", "cuStreamDestroy", 1)),
    ),
    "a stream elsewhere": (
        "INVALID_HANDLE",
        lambda b: b.call("cuEventRecord", b.timed, b.stream_elsewhere),
    ),
    "an event for a stream": ("INVALID_HANDLE", lambda b: b.call("cuStreamSynchronize", b.timed)),
    "an event twice": (
        "INVALID_HANDLE",
        lambda b: b.call("cuEventDestroy", b.gone("cuEventCreate", "cuEventDestroy", 0)),
    ),
    "an event without times": (
        "INVALID_HANDLE",
        lambda b: b.call("cuEventElapsedTime", b.untimed, b.timed),
    ),
    "an event never recorded": (
        "INVALID_HANDLE",
        lambda b: b.call("cuEventElapsedTime", b.timed, b.timed),
    ),
    "an image of another device": (
        "NO_BINARY_FOR_GPU",
        lambda b: b.call("cuModuleLoadData", b.image.replace(b"sm_80", b"sm_90")),
    ),
    "no image": ("INVALID_IMAGE", lambda b: b.call("cuModuleLoadData", b"text\0")),
    "PTX without an end": ("INVALID_IMAGE", lambda b: b.call("cuModuleLoadData", b.ptx)),
    "no such kernel": ("NOT_FOUND", lambda b: b.call("cuModuleGetFunction", b.module, b"other")),
    "unloaded": ("INVALID_HANDLE", _unloaded),
    "no blocks": ("INVALID_VALUE", lambda b: b.launch(grid=(0, 1, 1))),
    "a high grid": ("INVALID_VALUE", lambda b: b.launch(grid=(1, 65536, 1))),
    "a deep grid": ("INVALID_VALUE", lambda b: b.launch(grid=(1, 1, 65536))),
    "a long grid": ("INVALID_VALUE", lambda b: b.launch(grid=(2**31, 1, 1))),
    "a deep block": ("INVALID_VALUE", lambda b: b.launch(block=(1, 1, 65))),
    "a long block": ("INVALID_VALUE", lambda b: b.launch(block=(1025, 1, 1))),
    "more threads than bounds": ("INVALID_VALUE", lambda b: b.launch(block=(65, 1, 1))),
    "shared memory not asked for": (
        "INVALID_VALUE",
        lambda b: b.launch((1, 1, 1), (240, 1, 1), kernel=b.much, shared=61440),
    ),
    "too little shared memory": (
        "ILLEGAL_ADDRESS",
        lambda b: b.launch((1, 1, 1), (240, 1, 1), kernel=b.much, shared=1024),
    ),
    "more shared memory than there is": (
        "INVALID_VALUE",
        lambda b: b.call(
            "cuFuncSetAttribute",
            b.much,
            b.stub.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            170000,
        ),
    ),
    "extra and params": ("INVALID_VALUE", lambda b: b.launch(extra=1)),
    "no params": ("INVALID_VALUE", lambda b: b.launch(params=0)),
    "params that are nowhere": ("INVALID_VALUE", lambda b: b.launch(params=64)),
    "a parameter that is the host's": (
        "INVALID_VALUE",
        lambda b: b.with_values(b.host.ctypes.data),
    ),
    "a parameter elsewhere": ("ILLEGAL_ADDRESS", lambda b: b.with_values(b.elsewhere)),
    "a parameter that was freed": ("INVALID_VALUE", _freed),
    "a parameter between vectors": ("MISALIGNED_ADDRESS", lambda b: b.with_values(b.memory + 4)),
    "a parameter near the end": ("ILLEGAL_ADDRESS", lambda b: b.with_values(b.memory + 2048)),
    "the legacy stream captured": (
        "STREAM_CAPTURE_UNSUPPORTED",
        lambda b: b.call("cuStreamBeginCapture", 0, b.stub.CUstreamCaptureMode(1)),
    ),
    "captured twice": (
        "ILLEGAL_STATE",
        lambda b: b.capturing(1, "cuStreamBeginCapture", b.stream, b.stub.CUstreamCaptureMode(1)),
    ),
    "an end without a beginning": (
        "ILLEGAL_STATE",
        lambda b: b.call("cuStreamEndCapture", b.stream),
    ),
    "an end elsewhere": ("STREAM_CAPTURE_WRONG_THREAD", _ended_elsewhere),
    "memory while capturing": (
        "STREAM_CAPTURE_UNSUPPORTED",
        lambda b: b.capturing(1, "cuMemAlloc", 64),
    ),
    "memory while others capture": ("STREAM_CAPTURE_UNSUPPORTED", _memory_meanwhile),
    "waiting for what is captured": (
        "STREAM_CAPTURE_UNSUPPORTED",
        lambda b: b.capturing(2, "cuStreamSynchronize", b.stream),
    ),
    "the device while capturing": (
        "STREAM_CAPTURE_UNSUPPORTED",
        lambda b: b.capturing(2, "cuCtxSynchronize"),
    ),
    "an event of a capture": ("STREAM_CAPTURE_UNSUPPORTED", _captured_event),
    "a capture that was spoilt": ("STREAM_CAPTURE_INVALIDATED", _spoilt),
    "a graph for an executable one": (
        "INVALID_HANDLE",
        lambda b: (
            b.capturing(1, "cuCtxSetCurrent", b.contexts[0])
            and b.call("cuGraphLaunch", b.made("cuStreamEndCapture", b.stream), 0)
        ),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_refused(name: str) -> None:
    status, work = WRONG[name]
    with installed("sm_80", devices=2) as stub:
        kernels()
        bench = Bench(stub)
        found = work(bench)
        assert found[0].name == f"CUDA_ERROR_{status}"
        assert len(stub.violations) == 1


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100"])
def test_each_limit_is_one_of_the_architecture(arch: str) -> None:
    with installed(arch, devices=2) as stub:
        kernels()
        stub.arch, mine = ARCHS["sm_80"], stub.arch
        bench = Bench(stub)
        stub.arch = mine
        kind = stub.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        most = {"sm_75": 65536, "sm_80": 166912}.get(arch, 232448)
        assert bench.call("cuFuncSetAttribute", bench.much, kind, most) == (0,)
        assert bench.call("cuFuncSetAttribute", bench.much, kind, most + 1)[0].value == 1
        blocks = bench.made("cuOccupancyMaxActiveBlocksPerMultiprocessor", bench.much, 64, 61440)
        assert blocks == {"sm_75": 1, "sm_80": 2}.get(arch, 3)
        few = bench.made("cuOccupancyMaxActiveBlocksPerMultiprocessor", bench.kernel, 512, 0)
        assert few == {"sm_75": 2}.get(arch, 4)
        assert bench.launch(grid=(4, 1, 1))[0] == 0
