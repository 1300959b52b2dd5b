"""The device simt: arrays on it, modules built for GPUs run on it."""

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te
from tilewright.base.errors import TilewrightError
from tilewright.driver.simt_device import SimtDriver
from tilewright.interp.simt import SimtError
from tilewright.rt.drivers.base import find


def bound(s, t, threads=32):
    outer, inner = s[t].split(t.op.axis[0], factor=threads)
    s[t].bind(outer, te.thread_axis("blockIdx.x"))
    s[t].bind(inner, te.thread_axis("threadIdx.x"))


def two_kernels(target):
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((n,), lambda i: b[n - 1 - i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    bound(s, b)
    bound(s, c)
    return tvm.build(s, [a, c], target, name="f")


@pytest.mark.parametrize("target", ["cuda", "opencl"])
@pytest.mark.parametrize("n", [1, 32, 100])
def test_numpy_arrays(target, n):
    f = two_kernels(target)
    a, c = np.arange(n, dtype="float32"), np.zeros(n, "float32")
    reports = f.run_simt(a, c)
    np.testing.assert_array_equal(c, (a[::-1] + 1) * 2)
    assert list(reports) == ["f_kernel", "f_kernel_1"]
    assert reports["f_kernel"].blocks == -(-n // 32)


def test_arrays_of_the_device():
    dev = tvm.simt(0)
    assert dev.exist and str(dev) == "simt(0)" and not tvm.simt(1).exist
    f = two_kernels("cuda")
    x = np.arange(50, dtype="float32")
    a, c = tvm.nd.array(x, dev), tvm.nd.empty((50,), "float32", dev)
    assert a.device == dev
    f(a, c)
    dev.sync()
    np.testing.assert_array_equal(c.numpy(), (x[::-1] + 1) * 2)
    copy = tvm.nd.empty((50,), "float32", dev)
    c.copyto(copy)
    np.testing.assert_array_equal(copy.numpy(), c.numpy())
    run = f.prepare(copy, c)
    run()
    np.testing.assert_array_equal(c.numpy(), (copy.numpy()[::-1] + 1) * 2)


def test_timing():
    f = two_kernels("cuda")
    dev = tvm.simt(0)
    a = tvm.nd.array(np.ones(50, "float32"), dev)
    c = tvm.nd.empty((50,), "float32", dev)
    result = f.time_evaluator(f.entry_name, dev, number=2, repeat=3)(a, c)
    assert len(result.results) == 3 and result.mean > 0


def test_arrays_that_nobody_filled():
    dev = tvm.simt(0)
    a, c = tvm.nd.empty((50,), "float32", dev), tvm.nd.empty((50,), "float32", dev)
    with pytest.raises(SimtError, match=r"unwritten memory: thread .* reads A\[0\] \(global\)"):
        two_kernels("cuda")(a, c)


def test_a_part_of_an_array():
    dev = tvm.simt(0)
    a = tvm.nd.array(np.arange(100, dtype="float32"), dev)
    c = tvm.nd.empty((100,), "float32", dev)
    two_kernels("cuda")(a[20:30], c[40:50])
    np.testing.assert_array_equal(c.numpy()[40:50], (np.arange(29, 19, -1) + 1) * 2)
    with pytest.raises(SimtError, match="nobody has written"):
        two_kernels("cuda")(c[39:49], a[0:10])


def test_user_intrinsics_need_a_meaning(monkeypatch):
    monkeypatch.setattr("tilewright.interp.simt_extern._table", {})
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: tvm.tir.call_pure_extern("float32", "__mine", a[i]), name="B")
    s = te.create_schedule(b.op)
    bound(s, b, 8)
    f = tvm.build(s, [a, b], "cuda")
    x, y = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    with pytest.raises(TilewrightError, match=r"tilewright\.register_simt\('__mine', lambda"):
        f.run_simt(x, y)
    tvm.register_simt("__mine", lambda v: v * 3)
    f.run_simt(x, y)
    np.testing.assert_array_equal(y, x * 3)


def test_modules_without_kernels():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    f = tvm.build(te.create_schedule(b.op), [a, b], "llvm")
    with pytest.raises(TilewrightError, match="has no kernels"):
        f.run_simt(np.ones(8, "float32"), np.ones(8, "float32"))


def test_the_driver():
    driver = find("simt")
    assert isinstance(driver, SimtDriver) and driver.count() == 1
    assert driver.why_missing() == "" and "one simt device" in driver.why_missing(1)
    runtime = driver.open(0)
    first = runtime.default_stream.record(timing=True)
    stream = runtime.create_stream()
    stream.wait(first)
    stream.sync()
    second = stream.record(timing=True)
    assert second.done and second.seconds_since(first) >= 0
    memory = runtime.alloc(16)
    assert not memory.handle.written.any()
    runtime.write(memory, 4, np.arange(2, dtype="int32"), stream, True)
    assert memory.handle.written.tolist() == [False] * 4 + [True] * 8 + [False] * 4
    out = np.zeros(2, "int32")
    runtime.read(memory, 4, out, stream, True)
    assert out.tolist() == [0, 1]
