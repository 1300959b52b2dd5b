"""What the CUDA driver holds: modules, threads' contexts, captures of others, children of forks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.forget import collect
from tests.narrow import as_a, some
from tests.unit.rt.fake_cuda import FakeCuda
from tests.unit.rt.test_cuda import add, arrays, code
from tilewright.base.errors import TilewrightError
from tilewright.rt import array as nd
from tilewright.rt.device import cuda
from tilewright.rt.device_array import DeviceArray
from tilewright.rt.drivers import base
from tilewright.rt.drivers.cuda import CudaDriver, CudaRuntime


@pytest.fixture
def fake():
    binding = FakeCuda()
    binding.kernels["add"] = (("handle", "handle", "handle", "int32"), add)
    before = base.find("cuda")
    base.register("cuda", CudaDriver(binding))
    yield binding
    collect()
    base.register("cuda", some(before))


def runtime() -> CudaRuntime:
    return as_a(CudaRuntime, cuda(0).runtime)


def test_a_module_is_unloaded_when_its_last_kernel_is_gone(fake) -> None:
    kernels = runtime().load(code())
    kernel = kernels.pop("add")
    collect()
    runtime().sync()
    assert not fake.unloaded
    del kernel
    collect()
    assert not fake.unloaded, "its launches may not be done"
    runtime().sync()
    assert fake.unloaded == ["module"]
    runtime().sync()
    assert fake.unloaded == ["module"]


def test_the_next_module_lets_go_of_those_before(fake) -> None:
    for count in range(5):
        runtime().load(code())
        collect()
        assert len(fake.unloaded) == count
    before = fake.names()
    assert before[before.index("cuModuleUnload") - 2 :].count("cuEventSynchronize") >= 1


def test_a_graph_keeps_its_modules(fake) -> None:
    kernel = runtime().load(code())["add"]
    a, b, c = arrays()
    args = (*(x.make_handle() for x in (a, b, c)), 100)
    repeat = some(runtime().capture(partial(kernel.launch, (2, 1, 1), (64, 1, 1), args)))
    del kernel
    collect()
    runtime().sync()
    assert not fake.unloaded
    repeat()
    assert np.array_equal(c.numpy(), a.numpy() * 3)
    del repeat
    collect()
    runtime().sync()
    assert fake.unloaded


def test_captures_of_other_threads_are_left_alone(fake) -> None:
    modes = fake.CUstreamCaptureMode
    relaxed, glob = modes.CU_STREAM_CAPTURE_MODE_RELAXED, modes.CU_STREAM_CAPTURE_MODE_GLOBAL
    seen: dict[str, Any] = {}
    unsafe = ("cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost", "cuModuleLoadData",
              "cuModuleUnload", "cuStreamCreate")  # fmt: skip
    plain = {n: type(fake).__dict__[n] for n in unsafe}
    for name in unsafe:

        def call(*args: Any, _name: str = name) -> Any:
            seen[_name] = fake.mode
            return plain[_name](fake, *args)

        object.__setattr__(fake, name, call)
    first = nd.empty((1000,), "float32", cuda(0))
    host = nd.pinned_empty((10,), "float32", cuda(0))
    kernel = runtime().load(code())["add"]
    side = cuda(0).create_stream()
    del first, host, kernel, side
    collect()
    runtime().sync()
    runtime().trim()
    assert seen == dict.fromkeys(unsafe, relaxed)
    assert fake.mode is glob, "the thread's own mode is back"
    runtime().capture(lambda s: None)
    began = next(c for c in fake.calls if c[0] == "cuStreamBeginCapture")
    assert began[2] is modes.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL


def test_memory_waits_for_no_stream_that_is_captured(fake) -> None:
    streams = []

    def work(into: Any) -> None:
        streams.append(int(into.handle))
        start = len(fake.calls)
        first = nd.empty((1000,), "float32", cuda(0))
        del first
        collect()
        nd.empty((1000,), "float32", cuda(0))
        recorded = [int(c[2]) for c in fake.calls[start:] if c[0] == "cuEventRecord"]
        assert streams[0] not in recorded

    cuda(0).create_stream()
    runtime().capture(work)
    assert streams


def test_a_stream_that_goes_is_waited_for_and_outlives_who_records_in_it(fake) -> None:
    """Memory that a thread takes while another lets a stream go waits for the stream's work."""
    streams = runtime().streams
    side = cuda(0).create_stream()
    handle = int(side.handle)
    assert handle in [int(s.handle) for s in streams.all()]
    held: list[Any] = []
    plain = type(fake).__dict__["cuStreamSynchronize"]

    def meanwhile(stream: Any) -> Any:
        held.extend(s for s in streams.all() if int(s.handle) == handle)
        return plain(fake, stream)

    object.__setattr__(fake, "cuStreamSynchronize", meanwhile)
    del side
    collect()
    assert len(held) == 1, "its work was not done"
    assert handle not in [int(s.handle) for s in streams.all()]
    assert "cuStreamDestroy" not in fake.names()
    held.pop().record().sync()
    collect()
    assert fake.names().count("cuStreamDestroy") == 1


def test_events_enter_the_context_of_their_thread(fake) -> None:
    start = runtime().stream.record(timing=True)
    end = runtime().stream.record(timing=True)
    failures: list[BaseException] = []
    for name in ("cuEventQuery", "cuEventSynchronize", "cuEventElapsedTime", "cuEventDestroy"):
        plain = type(fake).__dict__[name]

        def call(*args: Any, _plain: Any = plain) -> Any:
            fake._require_context()
            return _plain(fake, *args)

        object.__setattr__(fake, name, call)

    def use(what: Any) -> None:
        def run() -> None:
            try:
                what()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    held = [runtime().stream.record()]
    events = [start, end]
    use(lambda: events[1].done)
    use(end.sync)
    use(lambda: events[1].seconds_since(events[0]))
    use(held.clear)
    assert not failures
    del start, end
    events.clear()
    collect()
    assert not fake.open["event"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_child_of_a_fork_is_told_why_it_cannot(fake) -> None:
    x = nd.array(np.ones(4, np.float32), cuda(0))
    side = cuda(0).create_stream()
    kernel = runtime().load(code())["add"]
    handles = (as_a(DeviceArray, x).make_handle(),) * 3
    made = len(fake.calls)
    refused = []
    for work in (
        lambda: x.numpy(),
        lambda: nd.empty((10,), "float32", cuda(0)),
        lambda: nd.empty((10**6,), "float32", cuda(0)),
        lambda: kernel.launch((1, 1, 1), (1, 1, 1), (*handles, 1), runtime().stream),
        lambda: side.sync(),
        lambda: cuda(0).sync(),
    ):
        refused.append(work)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # what it finds goes through the pipe: pytest's own state is the parent's
        texts = []
        for work in refused:
            try:
                work()
                texts.append("no error")
            except TilewrightError as error:
                texts.append(str(error))
            except BaseException as error:
                texts.append(repr(error))
        del side
        calls = [c[0] for c in fake.calls[made:]]
        os.write(write, repr((texts, calls)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        texts, calls = eval(pipe.read().decode())
    os.waitpid(child, 0)
    assert len(texts) == 6 and all("before this process was forked" in t for t in texts), texts
    assert not calls, "the driver is not called in the child"
    assert np.array_equal(x.numpy(), np.ones(4, np.float32)), "the parent goes on"


BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "ml_dtypes":
            raise ModuleNotFoundError("No module named 'ml_dtypes'", name="ml_dtypes")
sys.meta_path.insert(0, Block())
import tilewright
from tilewright import te
a = te.placeholder((8,), "float32", "A")
b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
s = te.create_schedule(b.op)
s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
import numpy as np
out = np.zeros(8, "float32")
tilewright.build(s, [a, b], "cuda").run_simt(np.arange(8, dtype="float32"), out)
assert out[7] == 8 and "ml_dtypes" not in sys.modules
print("works")
"""


def test_floats_need_no_ml_dtypes() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED], capture_output=True, text=True, check=False
    )
    assert done.stdout == "works\n", done.stderr
