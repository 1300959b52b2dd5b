"""Contexts, captures and copies of several threads and devices, and workers whose device is lost:
on a stub of the CUDA driver."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.exec.gpu.kit import bind_flat, problem
from tests.narrow import as_a, some
from tests.stub_cuda import StubCuda, installed
from tilewright import te
from tilewright.base.tensor_map import TensorMap
from tilewright.measure.program import describe
from tilewright.measure.result import MeasureErrorNo
from tilewright.measure.worker import Worker
from tilewright.rt.device_array import DeviceArray
from tilewright.rt.drivers.cuda import CudaRuntime
from tilewright.rt.drivers.cuda_stream import CudaStream

CUDA = tw.cuda(0)


def runtime() -> CudaRuntime:
    return as_a(CudaRuntime, CUDA.runtime)


def in_thread(work: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def names(stub: StubCuda) -> list[str]:
    return [str(c[0]) for c in stub.calls]


def test_a_thread_whose_first_work_is_a_tensor_map_enters_the_context() -> None:
    with installed("sm_90") as stub:
        x = as_a(DeviceArray, tw.nd.empty((64, 8), "float16", CUDA))
        described = TensorMap("float16", (8, 64), (16,), (8, 64))
        made = in_thread(lambda: runtime().tensor_map(x.make_handle(), described))
        assert made.address % 128 == 0 and not stub.violations


def test_a_context_that_another_library_takes_off_is_entered_again() -> None:
    with installed("sm_80") as stub:
        p = problem("two_kernels")
        function = p.build("cuda -arch=sm_80")[p.case.name]
        arrays = p.arrays(CUDA)
        run = function.prepare(*arrays)
        for work in (partial(function, *arrays), run, CUDA.sync):
            del stub.local.device  # as cuCtxPopCurrent leaves a thread without a context
            work()
        p.check(arrays)
        assert not stub.violations


def test_nobody_waits_for_the_device_while_a_thread_captures() -> None:
    with installed("sm_80") as stub:
        others: list[threading.Thread] = []

        def work(_: Any) -> None:
            others.append(threading.Thread(target=CUDA.sync))
            others[0].start()
            others[0].join(0.2)

        repeat = some(runtime().capture(work))
        others[0].join()
        repeat()
        assert not stub.violations
        assert names(stub).index("cuCtxSynchronize") > names(stub).index("cuStreamEndCapture")


def test_memory_of_another_device_is_read_before_it_is_taken_again() -> None:
    with installed("sm_80", devices=2) as stub:
        x = np.arange(1000, dtype=np.float32)
        source = tw.nd.array(x, tw.cuda(1))
        copied = source.copyto(CUDA)
        assert np.array_equal(copied.numpy(), x)
        kinds = names(stub)
        behind = stub.calls[kinds.index("cuMemcpyPeerAsync") :]
        (record,) = (c for c in behind if c[0] == "cuEventRecord")
        (wait,) = (c for c in behind if c[0] == "cuStreamWaitEvent")
        assert wait[2] == record[1] and int(wait[1]) == int(tw.cuda(1).runtime.stream.handle)
        assert not stub.violations


def test_what_a_stream_is_given_while_another_thread_waits_for_it_is_kept() -> None:
    with installed("sm_80") as stub:
        stream = as_a(CudaStream, CUDA.create_stream())
        stream.keep("before")
        plain = stub.cuStreamSynchronize

        def meanwhile(handle: Any) -> Any:
            in_thread(lambda: stream.keep("meanwhile"))
            return plain(handle)

        vars(stub)["cuStreamSynchronize"] = meanwhile
        vars(stub)["cuEventQuery"] = lambda event: (stub.CUresult.CUDA_ERROR_NOT_READY,)
        stream.sync()
        assert [kept for _, kept in stream._open] == ["meanwhile"]


def test_a_graph_is_launched_by_one_thread_at_a_time() -> None:
    with installed("sm_80") as stub:
        repeat = some(runtime().capture(lambda _: None))
        inside, together = [0], [0]
        plain = stub.cuGraphLaunch

        def launch(*args: Any) -> Any:
            inside[0] += 1
            together[0] = max(together[0], inside[0])
            threading.Event().wait(0.02)
            inside[0] -= 1
            return plain(*args)

        repeat._launch = launch  # type: ignore[attr-defined]
        threads = [threading.Thread(target=repeat) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert together == [1] and not stub.violations


class _Ended(BaseException):
    pass


@pytest.mark.parametrize("lost", [True, False])
def test_a_worker_whose_device_is_lost_ends(lost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all candidates that it is given later fail with the fault of one."""
    statuses: list[int] = []

    def ended(status: int) -> None:
        statuses.append(status)
        raise _Ended

    a = te.placeholder((64,), "float32", "A")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    bind_flat(s, b, 64)
    with installed("sm_80") as stub:
        worker = Worker()
        program = describe(s, [a, b], tw.Target.from_device(CUDA))
        assert "error" not in worker.answer({"op": "build", "id": 1, "program": program})

        def fails(*args: Any) -> Any:
            if lost:
                stub.fault = stub.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
            return (stub.CUresult.CUDA_ERROR_INVALID_VALUE,)

        vars(stub)["cuLaunchKernel"] = fails
        monkeypatch.setattr(os, "_exit", ended)
        how = {"number": 1, "repeat": 1, "min_repeat_ms": 0, "cooldown_ms": 0, "flush_bytes": 0}
        request = {"op": "run", "id": 1, "best": None, "check": False, **how}
        if lost:
            with pytest.raises(_Ended):
                worker.answer(request)
        else:
            assert worker.answer(request)["error"] == MeasureErrorNo.RUNTIME_DEVICE
        assert statuses == ([3] if lost else [])
        stub.fault = None
