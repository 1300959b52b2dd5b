"""Mutants of our own CUDA driver code: a scenario of all that it does has to fail on each of them,
on the stub of the driver."""

from __future__ import annotations

import inspect
import threading
import types
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.exec.gpu.stub_kernels import N, function, kernels
from tests.forget import collect
from tests.narrow import some
from tests.stub_cuda import StubCuda, images, installed
from tilewright.rt.device import stream
from tilewright.rt.device_array import DeviceArray
from tilewright.rt.drivers import base, cuda, cuda_code, cuda_kernel, cuda_stream, pool

CUDA, OTHER = tw.cuda(0), tw.cuda(1)


def scenario(stub: StubCuda) -> None:
    """All that the driver does; AssertionError or the driver's errors where it is wrong."""
    x = np.arange(N, dtype=np.float32)
    line, much = function("line"), function("much")
    for dev in (CUDA, OTHER, CUDA):
        a, out = tw.nd.array(x, dev), tw.nd.empty((N,), "float32", dev)
        line(a, 3, out)
        assert np.array_equal(out.numpy(), x * 2 + 3)
    run = line.prepare(a, 4, out)
    run()
    assert np.array_equal(out.numpy(), x * 2 + 4)
    wide = np.random.default_rng(0).random((64, 240), np.float32)
    flipped = tw.nd.empty((64, 240), "float32", CUDA)
    much(tw.nd.array(wide, CUDA), flipped)
    assert np.array_equal(flipped.numpy(), wide[::-1] + 1)
    pair = tw.nd.array(np.concatenate([x, x + 1]), CUDA)
    line(pair[N:], 2, out)
    assert np.array_equal(out.numpy(), (x + 1) * 2 + 2)
    text = images.compile_cuda(kernels()["line"][2].source, "sm_75", "ptx")[0]
    function("line", binary=text)(a, 1, out)
    assert np.array_equal(out.numpy(), x * 2 + 1)
    copies(x, a)
    streams(stub, line, x, a, out)
    thread = threading.Thread(target=line, args=(a, 9, out))
    thread.start()
    thread.join()
    assert np.array_equal(out.numpy(), x * 2 + 9)
    del a, out, pair, run, flipped, line, much, thread
    for dev in (CUDA, OTHER, CUDA):
        collect()
        dev.sync()
        dev.runtime.trim()
    assert not stub.violations, stub.violations
    assert not stub.left() and not stub.blocks, "not everything was given back"


def copies(x: np.ndarray[Any, Any], a: Any) -> None:
    assert np.array_equal(a.copyto(OTHER).numpy(), x)
    part = tw.nd.array(x, CUDA)
    part[256:768].copyfrom(part[0:512])
    assert np.array_equal(part.numpy()[256:768], x[:512])
    assert part[512:].numpy()[0] == x[256]
    host = tw.nd.pinned_empty((N,), "float32", CUDA)
    host[:] = 5
    assert isinstance(part, DeviceArray)
    part.copyfrom(host, wait=False)
    assert (part.numpy() == 5).all()
    kept = [tw.nd.array(np.full(N, v, np.float32), CUDA) for v in range(4)]
    del kept[1], part
    kept += [tw.nd.array(np.full(N, v, np.float32), CUDA) for v in (7, 8)]
    assert [float(k.numpy()[5]) for k in kept] == [0, 2, 3, 7, 8]


def streams(stub: StubCuda, line: Any, x: Any, a: Any, out: Any) -> None:
    with stream(CUDA.create_stream()) as side:
        line(a, 6, out)
        side.sync()
        start, end = side.record(timing=True), side.record(timing=True)
        assert end.seconds_since(start) >= 0 and end.done
    runtime: Any = CUDA.runtime

    def fails(into: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        runtime.capture(fails)
    (kernel,) = runtime.load(kernels()["line"][2]).values()
    args = (a.make_handle(), out.make_handle(), 7)
    repeat = some(runtime.capture(lambda s: kernel.launch((4, 1, 1), (64, 1, 1), args, s)))
    repeat()
    assert np.array_equal(out.numpy(), x * 2 + 7)
    other_captures(stub)


def other_captures(stub: StubCuda) -> None:
    """Another library captures a stream of its own in the global mode meanwhile."""
    ready, go = threading.Event(), threading.Event()
    found: list[Any] = []

    def library() -> None:
        stub.cuCtxSetCurrent(stub.contexts[0])
        _, mine = stub.cuStreamCreate(1)
        stub.cuStreamBeginCapture(mine, stub.CUstreamCaptureMode(0))
        ready.set()
        go.wait()
        status, graph = stub.cuStreamEndCapture(mine)
        found.append(status)
        if graph is not None:
            stub.cuGraphDestroy(graph)
        stub.cuStreamDestroy(mine)

    thread = threading.Thread(target=library)
    thread.start()
    ready.wait()
    try:
        big = tw.nd.array(np.ones(100 * N, np.float32), CUDA)
        assert big.numpy().all()
        CUDA.create_stream().record().sync()
    finally:
        go.set()
        thread.join()
    assert found == [0], "the capture of the other library was made invalid"


MUTANTS: list[tuple[types.ModuleType, str, str]] = [
    (
        cuda_stream,
        "flags = kind.CU_EVENT_DEFAULT if timing",
        "flags = kind.CU_EVENT_DEFAULT if not timing",
    ),
    (cuda, '"cuMemcpyHtoDAsync", where, host,', '"cuMemcpyHtoDAsync", host, where,'),
    (cuda, '"cuMemcpyDtoHAsync", host, where,', '"cuMemcpyDtoHAsync", where, host,'),
    (cuda, "to, source, host.nbytes, stream", "to, source, host.nbytes + 1, stream"),
    (cuda, "to, self.context, start, other.context,", "to, other.context, start, self.context,"),
    (cuda, "if to < start + nbytes and", "if False and to < start + nbytes and"),
    (cuda, 'self.api.call("cuCtxSetCurrent", self.context)', "pass"),
    (
        cuda,
        'api.call("cuGraphUpload", ready, stream.handle)',
        'api.call("cuGraphUpload", graph, 0)',
    ),
    (
        cuda,
        "status, graph = api.binding.cuStreamEndCapture(into.handle)",
        "status, graph = 1, None",
    ),
    (cuda, "if not status:\n                self.close", "if status:\n                self.close"),
    (cuda, 'api.call("cuGraphDestroy", graph)', "pass"),
    (cuda, 'self._runtime.close("cuGraphExecDestroy", self._ready)', "pass"),
    (cuda_stream, 'self._runtime.close("cuEventDestroy", handle)', "pass"),
    (cuda_stream, 'self._runtime.close("cuStreamDestroy", handle)', "pass"),
    (cuda_stream, "runtime.streams.drop(self._remembered)", "pass"),
    (cuda, 'self._runtime.api.close("cuMemFreeHost", self._address)', "pass"),
    (cuda, 'self.api.call("cuModuleUnload", module)', "pass"),
    (cuda, "self.stream, CreatedStream(self)", "self.stream, self.default_stream"),
    (
        cuda,
        'before = self.api.call("cuThreadExchangeStreamCaptureMode", relaxed)',
        "before = self.api.binding.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL",
    ),
    (cuda, 'self.api.call("cuMemFree", handle)', 'self.api.call("cuMemFree", handle + 256)'),
    (cuda, "return memory.handle + offset", "return memory.handle + offset + 4"),
    (cuda, 'api.call("cuGraphInstantiate", graph, 0)', 'api.call("cuGraphInstantiate", into, 0)'),
    (cuda_kernel, "*grid,\n                *block,", "*block,\n                *grid,"),
    (cuda_kernel, "                self._shared,\n", "                0,\n"),
    (cuda_kernel, "> _UNASKED_SHARED", "> (1 << 60)"),
    (cuda_kernel, "ctypes.addressof(self._pointers)", "ctypes.addressof(self._values)"),
    (cuda_kernel, "range(start, start + 8 * count, 8)", "range(start, start + 4 * count, 4)"),
    (cuda_kernel, '"int32": "i4x"', '"int32": "4xi"'),
    (
        cuda_kernel,
        "self._params.address,\n                0,",
        "self._params.address,\n                1,",
    ),
    (cuda_kernel, "queue, address, 0)", "queue, address + 8, 0)"),
    (cuda_kernel, "info.name.encode()", "info.name"),
    (cuda_kernel, "self._runtime.unload_later(self.handle)", "pass"),
    (cuda_code, '        image += b"\\0"\n', "        pass\n"),
    (cuda_code, 'arch = "sm_" + runtime.limits.compute_version.replace(".", "")', 'arch = "sm_90"'),
    (pool, "block = blocks.pop()", "block = blocks[-1]"),
    (pool, "        self._free.clear()", "        pass"),
    (pool, "return -(-nbytes // step) * step", "return nbytes // step * step - step"),
]


def mutant(module: types.ModuleType, old: str, new: str) -> types.ModuleType:
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{old!r} is {source.count(old)} times in {module.__name__}"
    made = types.ModuleType(module.__name__)
    made.__dict__.update(__package__=module.__package__, __file__=module.__file__)
    exec(compile(source.replace(old, new), str(module.__file__), "exec"), made.__dict__)
    return made


def use(module: types.ModuleType, patch: pytest.MonkeyPatch, stub: StubCuda) -> None:
    """Let the driver be, or use, this mutant."""
    name = module.__name__.rsplit(".", 1)[-1]
    if name == "cuda_stream":
        patch.setattr(cuda, "CreatedStream", module.CreatedStream)
        patch.setattr(cuda, "CudaStream", module.CudaStream)
    elif name == "cuda_kernel":
        patch.setattr(cuda, "CudaKernel", module.CudaKernel)
        patch.setattr(cuda, "CudaModule", module.CudaModule)
    elif name == "cuda_code":
        patch.setattr(cuda, "load_modules", module.load_modules)
    elif name == "pool":
        patch.setattr(cuda, "Pool", module.Pool)
    driver = module if name == "cuda" else cuda
    base.register("cuda", driver.CudaDriver(stub))


def test_the_driver_as_it_is_violates_nothing() -> None:
    with installed("sm_80", devices=2) as stub:
        kernels()
        scenario(stub)


@pytest.mark.parametrize("number", range(len(MUTANTS)))
def test_a_mutant_is_caught(number: int) -> None:
    with installed("sm_80", devices=2) as stub, pytest.MonkeyPatch.context() as patch:
        kernels()
        use(mutant(*MUTANTS[number]), patch, stub)
        with pytest.raises(Exception) as caught:
            scenario(stub)
        assert not isinstance(caught.value, (NameError, SyntaxError)), caught.value
        caught.traceback, caught = None, None  # type: ignore[assignment]
