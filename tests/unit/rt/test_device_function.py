"""Functions of a device: checks, launches, graphs, timing; on the CUDA driver of `fake_cuda`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.forget import collect
from tests.narrow import some
from tests.unit.rt.fake_cuda import FakeCuda
from tests.unit.rt.test_cuda import add, view
from tilewright.base.errors import ArgumentError, TilewrightError
from tilewright.rt import array as nd
from tilewright.rt.device import cuda, stream
from tilewright.rt.device_module import DeviceFunction, KernelCode
from tilewright.rt.drivers import base
from tilewright.rt.drivers.base import DeviceCode, KernelInfo
from tilewright.rt.drivers.cuda import CudaDriver
from tilewright.rt.signature import FunctionInfo, SymbolInfo
from tilewright.rt.timing import evaluate

HANDLES = ("handle", "handle", "handle", "int32")
ACCESS = ("r", "r", "w", "scalar")
CODE = DeviceCode(
    "cuda", (KernelInfo("add", HANDLES, ACCESS), KernelInfo("mul", HANDLES, ACCESS)), binary=b"x"
)
# out = (a + b) * b
TEXT = """
def f(rt, stream, a, b, out, scale, n):
    if not scale > 0:
        raise rt.failed("scale has to be positive")
    t = rt.alloc(n * 4)
    try:
        rt.launch("add", ((n + 63) // 64, 1, 1), (64, 1, 1), (a, b, t.handle, n), stream)
        for _ in range(scale):
            rt.launch("mul", ((n + 63) // 64, 1, 1), (64, 1, 1), (t.handle, b, out, n), stream)
    finally:
        rt.free(t)
"""


def mul(grid, block, a, b, out, n):
    view(out, n)[:] = view(a, n) * view(b, n)


def info(strides: list | None = None) -> FunctionInfo:
    def arg(name: str, output: bool = False) -> dict:
        found = {"name": name, "kind": "array", "dtype": "float32", "shape": ["n"]}
        return {**found, "is_output": output, "strides": strides}

    scale = {"name": "scale", "kind": "scalar", "dtype": "int32"}
    return FunctionInfo.from_json(
        {
            "name": "f",
            "args": [arg("a"), arg("b"), arg("out", True), scale],
            "symbols": [SymbolInfo("n", ("shape", 0, 0)).to_json()],
            "target": "cuda",
            "attrs": {"device_type": 2},
        }
    )


@pytest.fixture
def fake():
    binding = FakeCuda(devices=2)
    binding.kernels["add"] = (HANDLES, add)
    binding.kernels["mul"] = (HANDLES, mul)
    before = base.find("cuda")
    base.register("cuda", CudaDriver(binding))
    yield binding
    collect()
    base.register("cuda", some(before))


@pytest.fixture
def f(fake) -> DeviceFunction:
    return DeviceFunction(info(), TEXT, KernelCode(CODE), "cuda")


def arrays(count: int = 100, where: int = 0) -> list:
    x = np.arange(count, dtype=np.float32)
    return [nd.array(v, cuda(where)) for v in (x, x + 1, np.zeros_like(x))]


def expected(count: int = 100) -> np.ndarray:
    x = np.arange(count, dtype=np.float32)
    return (x + x + 1) * (x + 1)


def test_it_runs_on_the_device_of_its_arrays(fake, f):
    for where in (0, 1, 0):
        a, b, out = arrays(100, where)
        f(a, b, out, 1)
        assert np.array_equal(out.numpy(), expected())
    assert len(fake.images) == 2  # loaded once for each device
    a, b, out = arrays(0)
    f(a, b, out, 1)
    assert out.numpy().size == 0


def test_wrong_arguments_are_named(f):
    a, b, out = arrays()
    elsewhere = arrays(100, 1)[1]
    x = np.zeros(100, np.float32)
    for args, text in [
        (
            (a, elsewhere, out, 1),
            r"argument 1 \(b\): expected an array on cuda\(0\), .* on cuda\(1\)",
        ),
        (
            (a, x, out, 1),
            r"argument 1 \(b\): .* on cuda\(0\), got one in CPU memory",
        ),
        ((a, "b", out, 1), r"argument 1 \(b\): expected an array on cuda\(0\), got str"),
        ((a, b, out, 1.5), r"argument 3 \(scale\): expected an integer \(int32"),
        ((a, b, out, 1 << 40), r"argument 3 \(scale\): expected an integer \(int32"),
        ((a, b[1:], out, 1), r"argument 1 \(b\): expected shape \(n,\) with n = 100, got \(99,\)"),
        ((a, b, a, 1), r"argument 2 \(out\): the function writes it, but its memory overlaps"),
        (
            (a, b.view((100,), "int32"), out, 1),
            r"\(b\): expected dtype float32, got int32",
        ),
        ((a, b, out), r"expected 4 arguments \(a, b, out, scale\), got 3"),
    ]:
        with pytest.raises(ArgumentError, match=text):
            f(*args)
    large = arrays(200)
    with pytest.raises(ArgumentError, match="compact row-major array"):
        f(large[0][::2], b, out, 1)
    with pytest.raises(TilewrightError, match="scale has to be positive"):
        f(a, b, out, 0)
    with pytest.raises(TilewrightError, match="has no address"):
        _ = f.address


def test_strided_arrays_pass_where_the_function_takes_them(fake):
    g = DeviceFunction(info(["s"]), TEXT, KernelCode(CODE), "cuda")
    a, b, out = arrays()
    g(a, b, out, 1)
    assert np.array_equal(out.numpy(), expected())
    with pytest.raises(ArgumentError, match=r"argument 1 \(b\): expected strides \(s,\)"):
        g(arrays(50)[0], b[::2], arrays(50)[2], 1)


def test_arrays_of_other_libraries_are_borrowed(f):
    class Tensor:
        """As PyTorch's: lends its memory through DLPack, with the stream protocol."""

        def __init__(self, array):
            self.array = array
            self.streams = []

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __dlpack__(self, *, stream=None, max_version=None):
            self.streams.append(stream)
            return self.array.__dlpack__(stream=stream, max_version=max_version)

    a, b, out = map(Tensor, arrays())
    f(a, b, out, 1)
    assert np.array_equal(out.array.numpy(), expected())
    assert a.streams == [1]
    with stream(cuda(0).create_stream()) as side:
        f(a, b, out, 1)
        assert a.streams[-1] == int(side.handle)


def test_a_prepared_call_is_one_graph(fake, f):
    a, b, out = arrays()
    run = f.prepare(a, b, out, 2)
    before = len(fake.calls)
    a.copyfrom(np.ones(100))
    run()
    assert fake.names()[before:].count("cuGraphLaunch") == 1
    assert np.array_equal(out.numpy(), (1 + b.numpy()) * b.numpy())
    raw = f.prepare_raw(a, b, out, 1)
    assert raw() == 0
    address = out._address
    del a, b, out, run
    collect()
    raw()  # holds what it works on
    assert nd.empty((100,), "float32", cuda(0))._address != address


def test_the_block_and_grid_are_checked(fake):
    head = "def f(rt, stream, a, b, out, scale, n):"
    text = head + '\n    rt.launch("add", (1, scale, 1), {}, (), stream)'
    a, b, out = arrays()
    wide = DeviceFunction(info(), text.format("(2048, 1, 1)"), KernelCode(CODE), "cuda")
    with pytest.raises(TilewrightError, match=r"add: 2048 threads a block .* has at most 1024"):
        wide(a, b, out, 1)
    high = DeviceFunction(info(), text.format("(64, 1, 1)"), KernelCode(CODE), "cuda")
    with pytest.raises(TilewrightError, match=r"70000 blocks along blockIdx.y, .* at most 65535"):
        high(a, b, out, 70000)


def test_it_is_timed_by_events(fake, f):
    a, b, out = arrays()
    calls = []
    result = evaluate(
        f, (a, b, out, 1), number=5, repeat=2, min_repeat_ms=1, setup=lambda: calls.append(1)
    )
    assert result.results == (0.0005, 0.0005)
    assert fake.names().count("cuEventElapsedTime") == 2 and len(calls) == 2
    flushed = evaluate(f, (a, b, out, 1), 1, 1, 0, cache_flush_bytes=4096)
    assert flushed.results == (0.0025,)
    copies = [c for c in fake.calls if c[0] == "cuMemcpyDtoDAsync"]
    assert [c[3] for c in copies] == [4096]


def test_twenty_runs_that_are_timed_are_one_launch_of_the_host(fake, f):
    runs = []

    def counted(*args):
        runs.append(1)
        add(*args)

    fake.kernels["add"] = (HANDLES, counted)
    a, b, out = arrays()
    evaluate(f, (a, b, out, 1), number=45, repeat=2, min_repeat_ms=0)
    assert len(runs) == 1 + 2 * 45
    for begin, end in _timed(fake.calls):
        names = [c[0] for c in fake.calls[begin + 1 : end] if "Launch" in c[0]]
        assert names == ["cuGraphLaunch"] * 3, "20, 20 and 5 runs"


def test_the_cold_are_timed_behind_the_copy_that_nobody_waits_for(fake, f):
    a, b, out = arrays()
    evaluate(f, (a, b, out, 1), number=3, repeat=1, min_repeat_ms=0, cache_flush_bytes=4096)
    names = fake.names()
    ((begin, _),) = _timed(fake.calls)
    copied = names.index("cuMemcpyDtoDAsync")
    assert "cuStreamSynchronize" in names[:copied]
    assert "cuStreamSynchronize" not in names[copied:begin]


def _timed(calls):
    """Where each pair of events that times lies among the calls."""
    at = {int(c[1]): n for n, c in enumerate(calls) if c[0] == "cuEventRecord"}
    pairs = [c[1:3] for c in calls if c[0] == "cuEventElapsedTime"]
    return [(at[int(start)], at[int(end)]) for start, end in pairs]


def test_prepared_launches_and_the_stream_of_their_caller_wait_for_each_other(fake, f):
    a, b, out = arrays()
    run = f.prepare(a, b, out, 1)
    start = len(fake.calls)
    run()
    assert "cuStreamWaitEvent" not in fake.names()[start:]
    side = cuda(0).create_stream()
    with stream(side):
        start = len(fake.calls)
        run()
    calls = [c for c in fake.calls[start:] if c[0] in ("cuStreamWaitEvent", "cuGraphLaunch")]
    assert [c[0] for c in calls] == ["cuStreamWaitEvent", "cuGraphLaunch", "cuStreamWaitEvent"]
    assert [int(calls[n][1]) for n in (0, 2)] == [0, int(side.handle)]


def test_a_missing_device_is_explained(f):
    base.register("cuda", CudaDriver(FakeCuda(devices=0)))
    with pytest.raises(ArgumentError, match=r"cuda\(0\) does not exist here: .* finds no device"):
        f(*(np.zeros(3, np.float32) for _ in range(3)), 1)
