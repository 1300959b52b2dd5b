"""Networks on devices with kernels: OpenCL where a device (PoCL will do) is there, CUDA as text."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from click.testing import CliRunner

import tilewright as tvm
import tools.make_networks as networks
from tests.narrow import as_a
from tilewright import graph as tg
from tilewright import te
from tilewright.base.errors import TilewrightError
from tilewright.cli.main import main
from tilewright.graph.device import DeviceExecutable
from tilewright.graph.ir import Graph, Value
from tilewright.graph.onnx.convert import Builder
from tilewright.rt.device_module import DeviceFunction, prepare_sequence

opencl = pytest.mark.skipif(not tvm.opencl(0).exist, reason="there is no OpenCL device")
RNG = np.random.default_rng(7)
CONV = {"strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}


@pytest.fixture(scope="module")
def lenet(tmp_path_factory: Any) -> Any:
    path = tmp_path_factory.mktemp("nets") / "lenet.onnx"
    path.write_bytes(networks.make("lenet").SerializeToString())
    return path


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


def mixed() -> Graph:
    """Blocked, depthwise, grouped and strided convolutions, pools, a residual, a dense layer."""
    b = Builder(17)
    x = Value("x", (1, 16, 11, 9), "float32")
    y = b.add("conv2d", [x, b.constant(floats(24, 16, 3, 3) / 8, "w1")], "c1", **CONV)
    y = b.add("bias_add", [y, b.constant(floats(24), "b1")], "d1", axis=1)
    y = b.add("relu", [y], "r1")
    deep = {**CONV, "groups": 24}
    z = b.add("conv2d", [y, b.constant(floats(24, 1, 3, 3) / 3, "w2")], "c2", **deep)
    y = b.add("add", [y, z], "sum")
    pool = {"kernel": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1), "dilation": (1, 1)}
    more = {"ceil_mode": False, "count_include_pad": False}
    y = b.add("pool2d", [y], "p1", type="max", **pool, **more)
    grouped = {**CONV, "groups": 2, "strides": (2, 2)}
    y = b.add("conv2d", [y, b.constant(floats(20, 12, 3, 3) / 8, "w3")], "c3", **grouped)
    y = b.add("pool2d", [y], "p2", type="avg", **pool, **more)
    y = b.add("sigmoid", [y], "s1")
    y = b.add("global_pool", [y], "g1", type="avg")
    y = b.add("reshape", [y], "f1", shape=(1, 20))
    y = b.add("dense", [y, b.constant(floats(30, 20), "w4")], "fc")
    y = b.add("softmax", [y], "y", axis=1)
    return Graph("mixed", [x], [y], b.nodes)


@opencl
@pytest.mark.parametrize("target", ["opencl", "opencl -device=mali"])
@pytest.mark.parametrize(("dtype", "off"), [("float32", 1e-5), ("float16", 1e-2)])
def test_all_kinds_of_layers(target: str, dtype: str, off: float) -> None:
    graph = mixed()
    net = tg.compile(graph, target, dtype=dtype)
    assert isinstance(net, DeviceExecutable)
    for _ in range(2):
        image = {"x": floats(1, 16, 11, 9)}
        expected = tg.compile(graph).run(image)["y"]
        got = net.run(image)["y"]
        assert np.abs(got - expected).max() <= off * np.abs(expected).max()
    rows = net.profile(image, repeat=2)
    assert len(rows) == len(net.calls) and all(seconds > 0 for _, seconds in rows)
    net.prepare(image)()
    with pytest.raises(TilewrightError, match="input 'x' is missing"):
        net.run({})


@opencl
def test_the_command_runs_networks_on_devices(lenet: Any, tmp_path: Any) -> None:
    image = tmp_path / "x.npy"
    np.save(image, floats(1, 1, 28, 28))
    saved = tmp_path / "y.npy"
    args = ["run", str(lenet), "--input", f"input={image}", "--repeat", "2"]
    runner = CliRunner()
    whole = runner.invoke(main, [*args, "--output", f"logits={saved}", "--json"])
    assert whole.exit_code == 0, whole.output
    how = ["--target", "opencl -device=mali", "--dtype", "float16", "--rtol", "0.02"]
    half = runner.invoke(main, [*args, *how, "--check", str(saved), "--json"])
    report = json.loads(half.stdout)
    assert half.exit_code == 0 and report["check"]["ok"]
    assert report["device"] == "opencl(0)" and report["dtype"] == "float16"
    assert report["peak_gflops"] is None and report["latency_ms"]["median"] > 0
    text = runner.invoke(main, [*args, *how])
    assert text.exit_code == 0 and "GFLOP/s" in text.output and "peak" not in text.output


@pytest.mark.parametrize("rows", [0, 1, 5, 8, 20, 70])
@pytest.mark.parametrize("columns", [0, 1, 8, 33])
def test_small_products_on_a_gpu(rows: int, columns: int) -> None:
    """Fewer rows or columns than a block has threads for."""
    b = Builder(17)
    x, w = Value("x", (rows, 9), "float32"), Value("w", (9, columns), "float32")
    y = b.add("matmul", [x, w], "y")
    net = tg.compile(Graph("net", [x, w], [y], b.nodes), "cuda -arch=sm_80")
    assert isinstance(net, DeviceExecutable)
    net.device = tvm.simt(0)
    data = {"x": floats(rows, 9), "w": floats(9, columns)}
    np.testing.assert_allclose(net.run(data)["y"], data["x"] @ data["w"], rtol=1e-4, atol=1e-5)


@opencl
@pytest.mark.parametrize("target", ["opencl", "opencl -device=mali"])
def test_scalars(target: str) -> None:
    """A constant and an input of rank 0."""
    b = Builder(17)
    x, k = Value("x", (2, 3), "float32"), Value("k", (), "float32")
    y = b.add("divide", [b.add("multiply", [x, k]), b.constant(np.float32(2), "two")], "y")
    z = b.add("add", [k, k], "z")
    data = {"x": floats(2, 3), "k": np.array(3, "float32")}
    results = tg.compile(Graph("net", [x, k], [y, z], b.nodes), target).run(data)
    np.testing.assert_allclose(results["y"], data["x"] * 1.5, rtol=1e-6)
    assert results["z"].shape == () and results["z"] == 6


@opencl
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("samples", [0, 2])
def test_regions(mode: str, samples: int) -> None:
    b = Builder(17)
    x = Value("x", (2, 3, 9, 7), "float32")
    rois, images = Value("rois", (4, 4), "float32"), Value("images", (4,), "int64")
    attrs = {"size": (3, 2), "scale": 0.9, "mode": mode, "samples": samples, "half_pixel": True}
    y = b.add("roi_align", [x, rois, images], "y", **attrs)
    graph = Graph("regions", [x, rois, images], [y], b.nodes)
    boxes = np.array([[1, 1, 5, 7], [-30, -9, 60, 99], [40, 1, 50, 9], [8, 9, 2, 1]], "float32")
    given = {"x": floats(2, 3, 9, 7), "rois": boxes, "images": np.array([0, 1, 0, 1])}
    expected = tg.compile(graph).run(given)["y"]
    got = tg.compile(graph, "opencl").run(given)["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_filters_are_laid_when_a_network_is_compiled() -> None:
    """They lie as products read them, and so no kernel lays them at each call."""
    b = Builder(17)
    x = Value("x", (1, 12, 9, 10), "float32")
    y = b.add("conv2d", [x, b.constant(floats(24, 12, 3, 3) / 8, "w1")], "c1", **CONV)
    y = b.add("relu", [y], "r1")
    y = b.add("conv2d", [y, b.constant(floats(24, 24, 3, 3) / 8, "w2")], "c2", **CONV)
    graph = Graph("net", [x], [y], b.nodes)
    net = tg.compile(graph, "cuda -arch=sm_80", dtype="float16")
    assert isinstance(net, DeviceExecutable)
    shapes = [c.shape for c in net.constants if c.size > 1000]
    assert len(shapes) == 2 and all(len(s) == 3 for s in shapes)  # (group, filter, reduction)
    image = {"x": floats(1, 12, 9, 10)}
    wanted = tg.compile(graph).run(image)["c2"]
    net.device = tvm.simt(0)
    found = net.run(image)["c2"]
    assert np.abs(found - wanted).max() <= 1e-2 * np.abs(wanted).max()


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "opencl", "opencl -device=mali"])
@pytest.mark.parametrize("kind", ["softmax", "log_softmax"])
def test_of_one_dimension(target: str, kind: str) -> None:
    """Its sums have no axis left to bind: they run on the device all the same."""
    b = Builder(17)
    x = Value("x", (1009,), "float32")
    y = b.add(kind, [x], "y", axis=0)
    net = tg.compile(Graph("net", [x], [y], b.nodes), target)
    if isinstance(net, DeviceExecutable) and target.startswith("cuda"):
        net.device = tvm.simt(0)
    elif not tvm.opencl(0).exist:
        return
    data = floats(1009)
    power = np.exp(data.astype("float64") - data.max())
    want = power / power.sum()
    got = net.run({"x": data})["y"]
    np.testing.assert_allclose(
        got, want if kind == "softmax" else np.log(want), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("shape", [(2, 257), (1, 3), (7, 0)])
def test_sorting_down_columns_reads_what_is_there(shape: tuple[int, ...]) -> None:
    """Which of two elements comes first says where the other may be: not where nothing is."""
    b = Builder(17)
    x = Value("x", shape, "int64")
    y = b.add("topk_places", [x], "y", k=1, axis=0, largest=False)
    net = tg.compile(Graph("net", [x], [y], b.nodes), "cuda -arch=sm_80")
    assert isinstance(net, DeviceExecutable)
    net.device = tvm.simt(0)
    data = RNG.integers(0, 2, shape)
    np.testing.assert_array_equal(net.run({"x": data})["y"], data.argmin(0)[None])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_cuda_source_of_a_network(dtype: str) -> None:
    net = tg.compile(mixed(), "cuda -arch=sm_80", dtype=dtype)
    assert isinstance(net, DeviceExecutable)
    source = net.module.imported_modules[0].get_source()
    assert source.count("__global__") >= len({c.kernel for c in net.calls})
    if not tvm.cuda(0).exist:
        with pytest.raises(TilewrightError, match=r"device cuda\(0\) does not exist here"):
            net.run({"x": floats(1, 16, 11, 9)})


def test_memory_inside_kernels_is_shared_between_them() -> None:
    """Two stages that each need a temporary array on the device, one after another: one array."""
    a = te.placeholder((100,), name="A")
    b = te.compute((100,), lambda i: a[i] + 1, name="B")
    c = te.compute((100,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    for t in (b, c):
        s[t].bind(t.op.axis[0], te.thread_axis("threadIdx.x"))
    f = as_a(DeviceFunction, tvm.build(s, [a, c], "cuda", name="f")["f"])
    dev = tvm.simt(0)
    x, y, z = (tvm.nd.array(np.full(100, v, "float32"), dev) for v in (3, 0, 0))
    before = dev.runtime.alloc
    sizes: list[int] = []

    def counted(nbytes: int) -> Any:
        sizes.append(nbytes)
        return before(nbytes)

    with patch.object(dev.runtime, "alloc", counted):
        run = prepare_sequence([(f, (x, y)), (f, (y, z))])
    for _ in range(2):
        run()
        assert (z.numpy() == 18).all()
    assert sizes == [400]
