"""Device code on a stub of the CUDA driver that checks every call: see tests/stub_cuda."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.exec.gpu.corpus import CASES
from tests.exec.gpu.kit import bind_flat, problem
from tests.forget import collect
from tests.narrow import as_a
from tests.stub_cuda import StubCuda, installed
from tests.unit.auto_scheduler import computations as C
from tilewright import auto_scheduler, te
from tilewright.base.errors import ArgumentError, CompileError, TilewrightError
from tilewright.measure.program import construct, describe
from tilewright.measure.result import MeasureErrorNo
from tilewright.measure.worker import Worker
from tilewright.rt.device_array import DeviceArray
from tilewright.rt.device_module import Launcher
from tilewright.rt.drivers import nvrtc
from tilewright.rt.drivers.cuda_api import CudaError

ARCHS = ("sm_75", "sm_80", "sm_90", "sm_100")
REPRESENTATIVE = (
    "add_float4", "add_half8", "add_symbolic", "integers", "transpose_vectors", "rows_by_warp",
    "rows_by_1024", "whole_array", "matmul_shared", "matmul_double_buffer_vectors",
    "matmul_pipeline_async", "conv_shared", "softmax_block", "prefix_sums", "half_functions",
    "bfloat_add_vectors", "wmma_half", "wmma_bytes", "wgmma_half", "two_kernels",
    "histogram_shared",
)  # fmt: skip
CUDA = tw.cuda(0)


def unhurt(stub: StubCuda) -> None:
    """Nothing was violated, and what was made is given back."""
    collect()
    CUDA.sync()
    assert not stub.violations
    assert not stub.left(), "handles that nobody gave back"


@pytest.mark.parametrize("arch", ARCHS)
def test_corpus(arch: str) -> None:
    with installed(arch) as stub:
        target = tw.Target.from_device(CUDA)
        assert target.attrs["arch"] == {"sm_90": "sm_90a"}.get(arch, arch)
        fitting = [n for n in REPRESENTATIVE if problem(n).case.runs_on(target.arch)]
        for p in map(problem, fitting):
            arrays = p.arrays(CUDA)
            p.build(target)(*arrays)
            p.check(arrays)
        names = [c[0] for c in stub.calls]
        assert names.count("cuLaunchKernel") >= len(fitting) >= len(REPRESENTATIVE) - 3
        del arrays
        unhurt(stub)


@pytest.mark.parametrize("name", sorted(CASES.keys() - set(REPRESENTATIVE)))
def test_every_other_case(name: str) -> None:
    """On one architecture each, in turn; CONTRIBUTING.md says how all run on all."""
    p = problem(name)
    targets = {arch: "sm_90a" if arch == "sm_90" else arch for arch in ARCHS[:3]}
    fitting = [arch for arch, has in targets.items() if p.case.runs_on(has)]
    arch = fitting[sorted(CASES).index(name) % len(fitting)]
    with installed(arch) as stub:
        arrays = p.arrays(CUDA)
        p.build(tw.Target.from_device(CUDA))(*arrays)
        p.check(arrays)
        assert any(c[0] == "cuLaunchKernel" for c in stub.calls)
        del arrays
        unhurt(stub)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_prepared_calls_streams_and_copies(arch: str) -> None:
    with installed(arch, devices=2) as stub:
        p = problem("two_kernels")
        function = p.build(tw.Target.from_device(CUDA))[p.case.name]
        arrays = p.arrays(CUDA)
        run = function.prepare(*arrays)
        run()
        run()
        p.check(arrays)
        assert [c[0] for c in stub.calls].count("cuGraphLaunch") == 2
        with tw.rt.device.stream(CUDA.create_stream()) as side:
            function(*arrays)
            side.sync()
        other = arrays[0].copyto(tw.cuda(1))
        assert np.array_equal(other.numpy(), arrays[0].numpy())
        host = tw.nd.pinned_empty((100,), "float32", CUDA)
        host[:] = 3
        x = tw.nd.empty((100,), "float32", CUDA)
        as_a(DeviceArray, x).copyfrom(host, wait=False)
        x[10:20] = 1
        assert x.numpy()[9:11].tolist() == [3, 1]
        result = tw.rt.timing.evaluate(function, tuple(arrays), 2, 2, 0)
        assert all(t > 0 for t in result.results)
        del run, side, other, host, x, arrays, function
        unhurt(stub)


def test_threads_share_a_device() -> None:
    with installed("sm_80") as stub:
        p = problem("add_float4")
        function = [p.build("cuda -arch=sm_80")]
        failures: list[BaseException] = []

        def work() -> None:
            try:
                with tw.rt.device.stream(CUDA.create_stream()):
                    for _ in range(5):
                        arrays = p.arrays(CUDA)
                        function[0](*arrays)
                        p.check(arrays)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failures
        function.clear()
        unhurt(stub)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_a_small_network(arch: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(128, 10),
        torch.nn.Softmax(1),
    ).eval()
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        wanted = module(x).numpy()
    with installed(arch) as stub:
        net = tw.compile(module, tw.Target.from_device(CUDA), args=(x,))
        for _ in range(2):
            (found,) = net.run({net.inputs[0].name: x.numpy()}).values()
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        del net
        unhurt(stub)


def clusters_of(blocks: int, n: Any = None) -> Any:
    """A + 1 by clusters of so many blocks of 64 threads."""
    n = te.var("n") if n is None else n
    a = te.placeholder((n,), "float32", "A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], 64)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    s[b].pragma(outer, "cluster_dims", blocks)
    return tw.build(s, [a, b], "cuda -arch=sm_90", name="by_clusters")


def called(function: Any, size: int) -> bool:
    x = np.arange(size, dtype=np.float32)
    out = tw.nd.empty((size,), "float32", CUDA)
    function(tw.nd.array(x, CUDA), out)
    return bool((out.numpy() == x + 1).all())


def test_a_grid_is_of_whole_clusters() -> None:
    with installed("sm_90") as stub:
        function = clusters_of(4)
        for size in (256, 1024, 200, 4 * 64 + 193):
            assert called(function, size)
        told = r"by_clusters_kernel: clusters of 4 blocks along blockIdx.x do not divide the 3 that"
        with pytest.raises(TilewrightError, match=told):
            called(function, 192)
        x, out = (tw.nd.empty((192,), "float32", CUDA) for _ in range(2))
        with pytest.raises(TilewrightError, match=told):
            function["by_clusters"].prepare(x, out)
        del function, x, out
        unhurt(stub)


def test_a_launch_that_nobody_checks_is_refused_by_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with installed("sm_90") as stub:
        function = clusters_of(4)
        assert called(function, 256)
        monkeypatch.setattr(Launcher, "_runs", lambda *_: True)
        with pytest.raises(CudaError, match="INVALID_CLUSTER_SIZE"):
            called(function, 192)
        assert len(stub.violations) == 1


@pytest.mark.parametrize("arch", ARCHS)
def test_much_shared_memory(arch: str) -> None:
    """60 KiB are asked for by an attribute; devices that have less say so."""
    a = te.placeholder((64, 240), "float32", "A")
    b = te.compute((64, 240), lambda i, j: a[63 - i, j] + 1.0, name="B")
    s = te.create_schedule(b.op)
    tile = s.cache_read(a, "shared", [b])
    s[b].bind(b.op.axis[1], te.thread_axis("threadIdx.x"))
    outer, rest = s[b].split(b.op.axis[0], nparts=1)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].reorder(outer, b.op.axis[1], rest)
    s[tile].compute_at(s[b], outer)
    s[tile].bind(tile.op.axis[1], te.thread_axis("threadIdx.x"))
    target = f"cuda -arch={arch} -max_shared_memory_per_block=65536"
    with installed(arch) as stub:
        function = tw.build(s, [a, b], target, name="much")
        x = np.random.default_rng(0).random((64, 240), np.float32)
        out = tw.nd.empty((64, 240), "float32", CUDA)
        function(tw.nd.array(x, CUDA), out)
        assert np.array_equal(out.numpy(), x[::-1] + 1)
        asked = [c for c in stub.calls if c[0] == "cuFuncSetAttribute"]
        assert [c[3] for c in asked] == [61440]
        del function, out
        unhurt(stub)


def test_views_that_start_between_are_refused_before_the_launch() -> None:
    a = te.placeholder((1024,), "float32", "A")
    b = te.compute((1024,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    bind_flat(s, b, 64, 4)
    with installed("sm_80") as stub:
        function = tw.build(s, [a, b], "cuda -arch=sm_80", name="twice")
        x = tw.nd.array(np.arange(1025, dtype=np.float32), CUDA)
        out = tw.nd.empty((1024,), "float32", CUDA)
        with pytest.raises(ArgumentError, match="expected data aligned to 16 bytes"):
            function(x[1:], out)
        function(x[1:].copyto(CUDA), out)
        assert out.numpy()[0] == 2
        del x, out, function
        unhurt(stub)


def test_a_fault_of_a_kernel_stays() -> None:
    """A kernel that leaves its arrays: the device is lost for the process, and it is said."""
    a = te.placeholder((64,), "float32", "A")
    where = te.placeholder((64,), "int32", "where")
    b = te.compute((64,), lambda i: a[where[i]], name="B")
    s = te.create_schedule(b.op)
    bind_flat(s, b, 64)
    with installed("sm_80") as stub:
        function = tw.build(s, [a, where, b], "cuda -arch=sm_80", name="beyond")
        x, out = (tw.nd.array(np.zeros(64, np.float32), CUDA) for _ in "ab")
        far = tw.nd.array(np.full(64, 1000, np.int32), CUDA)
        with pytest.raises(TilewrightError, match=r"ILLEGAL_ADDRESS.*run the function in simt"):
            function(x, far, out)
        with pytest.raises(TilewrightError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
            out.numpy()
        assert "not in [0, 64)" in stub.violations[0]


def test_the_auto_scheduler_measures(tmp_path: Path) -> None:
    """Its workers have stubs of their own; kernels are compiled where candidates are built."""
    with installed("sm_80"):
        target = tw.Target.from_device(CUDA)
        dag = auto_scheduler.ComputeDAG(C.matmul_relu(16, 16, 16))
        task = auto_scheduler.SearchTask(compute_dag=dag, target=target)
        file = str(tmp_path / "records.json")
        options = auto_scheduler.TuningOptions(
            num_measure_trials=4,
            num_measures_per_round=2,
            builder=auto_scheduler.LocalBuilder(timeout=200),
            runner=auto_scheduler.LocalRunner(timeout=200, min_repeat_ms=1, check_correctness=True),
            measure_callbacks=[auto_scheduler.RecordToFile(file)],
            verbose=0,
        )
        task.tune(options)
        results = [result for _, result in auto_scheduler.load_records(file)]
        assert len(results) == 4
        assert all(r.ok for r in results), [r.error_msg for r in results]
        sch, args = task.apply_best(file)
        a, b = (np.random.default_rng(n).random((16, 16), np.float32) - 0.5 for n in (1, 2))
        out = tw.nd.empty((16, 16), "float32", CUDA)
        tw.build(sch, args, target)(tw.nd.array(a, CUDA), tw.nd.array(b, CUDA), out)
        np.testing.assert_allclose(out.numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5)


def test_candidates_are_compiled_where_they_are_built() -> None:
    a = te.placeholder((64,), "float32", "A")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    bind_flat(s, b, 64)
    with installed("sm_80"), pytest.MonkeyPatch.context() as patch:
        program = describe(s, [a, b], tw.Target.from_device(CUDA))
        worker = Worker()
        how: dict[str, Any] = {
            "number": 1,
            "repeat": 1,
            "min_repeat_ms": 0,
            "cooldown_ms": 0,
            "flush_bytes": 0,
        }
        how.update(best=None, check=False)
        assert "error" not in worker.answer({"op": "build", "id": 1, "program": program})
        packed = worker.answer({"op": "pack", "id": 2, "program": program})

        def late(*args: Any) -> Any:
            raise AssertionError("compiled on the way that is measured")

        patch.setattr(nvrtc, "compile_cuda", late)
        reply = worker.answer({"op": "run", "id": 1, **how})
        assert reply.get("costs"), reply
        archive = construct({"archive": packed["archive"], "target": program["target"]})
        out = tw.nd.empty((64,), "float32", CUDA)
        archive.entry_func(tw.nd.array(np.ones(64, np.float32), CUDA), out)
        assert (out.numpy() == 2).all()

        def wrong(*args: Any) -> Any:
            raise CompileError("NVRTC cannot compile this")

        patch.setattr(nvrtc, "compile_cuda", wrong)
        reply = worker.answer({"op": "build", "id": 3, "program": program})
        assert reply["error"] == MeasureErrorNo.COMPILE_DEVICE and "NVRTC" in reply["message"]
