"""What every device has in common, on each that this machine has."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.devices import device
from tests.narrow import as_a
from tilewright import te
from tilewright.rt.device_array import DeviceArray

KINDS = ("cuda", "opencl", "simt")


@pytest.fixture(params=KINDS)
def dev(request):
    return device(request.param)


def target_of(dev) -> tw.Target:
    return tw.Target("cuda") if dev.kind == "simt" else tw.Target.from_device(dev)


def bind(s, stage, axis) -> None:
    outer, inner = s[stage].split(axis, 32)
    s[stage].bind(outer, te.thread_axis("blockIdx.x"))
    s[stage].bind(inner, te.thread_axis("threadIdx.x"))


def two_kernels(target):
    """D = (A + B) * A by way of a temporary in the device's memory."""
    n = te.var("n")
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    D = te.compute((n,), lambda i: C[i] * A[i], name="D")
    s = te.create_schedule(D.op)
    bind(s, C, C.op.axis[0])
    bind(s, D, D.op.axis[0])
    return tw.build(s, [A, B, D], target, name="two")


def row_sum(target):
    A = te.placeholder((17, 100), name="A")
    k = te.reduce_axis((0, 100), name="k")
    B = te.compute((17,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(B.op.reduce_axis[0], factor=32)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    return tw.build(s, [A, B], target, name="row_sum")


def data(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.integers(-9, 9, n).astype("float32") for _ in range(2)]


@pytest.mark.parametrize("n", [0, 1, 31, 32, 1000])
def test_two_kernels_with_memory_between_them(dev, n):
    f = two_kernels(target_of(dev))
    a, b = data(n)
    x, y, out = (tw.nd.array(v, dev) for v in (a, b, np.zeros(n, "float32")))
    f(x, y, out)
    assert np.array_equal(out.numpy(), (a + b) * a)


def test_a_prepared_call_runs_again(dev):
    f = two_kernels(target_of(dev))
    a, b = data(500)
    x, y, out = (tw.nd.array(v, dev) for v in (a, b, a * 0))
    run = f.prepare(x, y, out)
    for factor in (1, 2):
        x.copyfrom(a * factor)
        run()
        assert np.array_equal(out.numpy(), (a * factor + b) * a * factor)


def test_a_reduction_across_threads(dev):
    f = row_sum(target_of(dev))
    a = np.arange(1700, dtype="float32").reshape(17, 100)
    x, out = tw.nd.array(a, dev), tw.nd.array(np.zeros(17, "float32"), dev)
    f(x, out)
    assert np.array_equal(out.numpy(), a.sum(1))


def test_streams(dev):
    f = two_kernels(target_of(dev))
    a, b = data(400)
    streams = [dev.create_stream() for _ in range(2)]
    results = []
    for s in streams:
        with tw.runtime.stream(s):
            x, y, out = (tw.nd.array(v, dev) for v in (a, b, a * 0))
            f(x, y, out)
            results.append(out)
            done = s.record()
    streams[0].wait(done)
    for s, out in zip(streams, results):
        with tw.runtime.stream(s):
            assert np.array_equal(out.numpy(), (a + b) * a)
    dev.sync()


def test_time(dev):
    f = two_kernels(target_of(dev))
    x, y, out = (tw.nd.array(v, dev) for v in (*data(300), np.zeros(300, "float32")))
    found = f.time_evaluator("two", dev, number=2, repeat=3, cache_flush_bytes=1 << 12)(x, y, out)
    assert len(found.results) == 3 and found.min >= 0


def test_parts_and_copies(dev):
    a = np.arange(1000, dtype="float32").reshape(10, 100)
    x = tw.nd.array(a, dev)
    x[2:4] = x[5:7]
    x[:, ::3] = 1
    expected = a.copy()
    expected[2:4], expected[:, ::3] = a[5:7], 1
    assert np.array_equal(x.numpy(), expected)
    assert np.array_equal(x[::-2, 5:50:7].numpy(), expected[::-2, 5:50:7])
    for kind in KINDS:
        other = tw.device(kind, 0)
        if other.exist:
            assert np.array_equal(x.copyto(other).numpy(), expected)
    host = tw.nd.pinned_empty((10, 100), "float32", dev)
    host[:] = 5
    as_a(DeviceArray, x).copyfrom(host, wait=False)
    assert (x.numpy() == 5).all()


def test_modules_come_back_from_files(dev, tmp_path):
    if dev.kind == "simt":
        with pytest.raises(tw.TilewrightError, match="simt runs kernels as loop IR"):
            load(row_sum("cuda"), tmp_path)(*sums(dev))
        return
    x, out = sums(dev)
    load(row_sum(target_of(dev)), tmp_path)(x, out)
    assert np.array_equal(out.numpy(), x.numpy().sum(1))


def sums(dev) -> list:
    a = np.arange(1700, dtype="float32").reshape(17, 100)
    return [tw.nd.array(a, dev), tw.nd.array(np.zeros(17, "float32"), dev)]


def load(module, folder):
    path = str(folder / "module.two")
    module.export_library(path)
    return tw.runtime.load_module(path)


def test_pytorch_shares_memory_on_cuda():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not (tw.cuda(0).exist and torch.cuda.is_available()):
        pytest.skip(f"no CUDA device: {tw.cuda(0).why_missing() or 'PyTorch has none'}")
    f = two_kernels(tw.Target.from_device(tw.cuda(0)))
    a, b = (torch.from_numpy(v).cuda() for v in data(1000))
    out = torch.empty_like(a)
    f(a, b, out)
    tw.cuda(0).sync()
    assert torch.equal(out, (a + b) * a)
    x = tw.nd.from_dlpack(a)
    assert x.device == tw.cuda(0) and x._address == a.data_ptr()
    x[:] = 3
    assert bool((a == 3).all())
    assert torch.from_dlpack(x).data_ptr() == a.data_ptr()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        a.fill_(2)
        f(a, b, out)
    tw.cuda(0).sync()
    assert torch.equal(out, (2 + b) * 2)
