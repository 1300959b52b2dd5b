"""Networks of narrow floats for GPUs with tensor cores: channels last, convolutions as products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.graph.test_passes import check_same, ops
from tilewright import graph as tg
from tilewright.graph.build import optimize
from tilewright.graph.device import DeviceExecutable
from tilewright.graph.ir import Graph, Value
from tilewright.graph.onnx.convert import Builder
from tilewright.graph.passes.channels_last import channels_last
from tilewright.target.target import Target

SM80 = "cuda -arch=sm_80"
FLOATS = frozenset({("float32", "float32")})
RNG = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


class Net(Builder):
    """Layers by name."""

    def conv(self, x: Value, filters: int, size: int, stride: int = 1, groups: int = 1) -> Value:
        name = f"w{len(self.nodes)}"
        weights = self.constant(floats(filters, x.shape[1] // groups, size, size) / size, name)
        pad, step = (size // 2,) * 4, (stride, stride)
        how: Any = {"strides": step, "padding": pad, "dilation": (1, 1), "groups": groups}
        return self.add("conv2d", [x, weights], **how)

    def pool(self, x: Value) -> Value:
        how: Any = {"ceil_mode": False, "count_include_pad": False, "type": "max"}
        square: Any = {"kernel": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1)}
        return self.add("pool2d", [x], **how, **square)


def network() -> Graph:
    """All that is known of channels that are last, and at the end what is not; the same numbers
    each time, whatever ran before."""
    global RNG
    RNG = np.random.default_rng(0)
    b = Net(17)
    x = Value("x", (2, 3, 12, 14), "float32")
    bias, scale, shift = (b.constant(floats(16), n) for n in ("bias", "scale", "shift"))
    y = b.add("relu", [b.add("bias_add", [b.conv(x, 16, 3), bias], axis=1)])
    y = b.pool(y)
    z = b.add("scale_shift", [b.conv(y, 16, 3, groups=16), scale, shift], axis=1)
    z = b.conv(z, 16, 1)
    gate = b.add("reduce", [z], type="mean", axes=[2, 3], keepdims=True)
    gate = b.add("sigmoid", [b.conv(b.add("relu", [b.conv(gate, 4, 1)]), 16, 1)])
    z = b.add("add", [b.add("multiply", [z, gate]), y])
    each = b.constant(floats(16, 1, 1), "each")
    z = b.add("maximum", [z, each])
    z = b.add("concat", [z, b.conv(z, 8, 3, stride=1)], axis=1)
    z = b.add("multiply", [z, b.constant(np.float32(0.5), "half")])
    top = b.add("global_pool", [b.conv(z, 24, 5, groups=2)], type="avg")
    flat = b.add("reshape", [top], shape=(2, 24))
    out = b.add("dense", [flat, b.constant(floats(10, 24) / 5, "end")])
    return Graph("net", [x], [out, z], b.nodes)


def test_all_that_knows_it_is_laid() -> None:
    changed = check_same(network(), lambda g: channels_last(g, FLOATS))
    names = ops(changed)
    assert names.count("conv2d_nhwc") == 4 and names.count("depthwise_nhwc") == 1
    assert names.count("conv2d") == 2, "those of one pixel stay"
    # the input, the gate to its filters and back, and both ends
    assert names.count("transpose") <= 5
    by_name = {n.op: n for n in changed.nodes}
    assert by_name["pool2d"].attrs["space"] == (1, 2)
    assert by_name["concat"].attrs["axis"] == 3
    assert by_name["scale_shift"].attrs["axis"] == 3


def test_types_that_are_not_multiplied_stay() -> None:
    changed = check_same(network(), lambda g: channels_last(g, {("float16", "float32")}))
    assert "transpose" not in ops(changed) and "conv2d_nhwc" not in ops(changed)


@pytest.mark.parametrize(
    ("target", "dtype", "wanted"),
    [
        (SM80, "float16", "conv2d_nhwc"),
        (SM80, "bfloat16", "conv2d_nhwc"),
        (SM80, "float32", "conv_nchwc"),
        ("cuda -arch=sm_75", "float16", "conv2d_nhwc"),
        ("opencl", "float16", "conv_nchwc"),
        ("llvm", "float32", "conv_nchwc"),
    ],
)
def test_where(target: str, dtype: str, wanted: str) -> None:
    names = ops(optimize(network(), Target(target), dtype))
    other = {"conv2d_nhwc": "depthwise_nchwc", "conv_nchwc": "conv2d_nhwc"}[wanted]
    assert wanted in names and other not in names


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_on_tensor_cores(dtype: str) -> None:
    """In simt, as near to float32 as the type is."""
    graph = network()
    net: Any = tg.compile(graph, SM80, dtype=dtype)
    assert isinstance(net, DeviceExecutable)
    source = net.module.imported_modules[0].get_source()
    assert source.count("mma.sync") >= 1 and source.count("tw_mma") >= 3
    net.device = tvm.simt(0)
    data = {"x": floats(2, 3, 12, 14)}
    want = tg.compile(graph).run(data)
    for name, got in net.run(data).items():
        error = np.abs(np.asarray(got, "float32") - want[name]).max() / np.abs(want[name]).max()
        assert error < (4e-3 if dtype == "float16" else 3e-2)


def volumes() -> Graph:
    """A film: a stem of three channels, convolutions of all kinds of windows, a pool, a sum,
    groups, channels joined and cut, a mean."""
    rng = np.random.default_rng(1)
    b = Net(17)

    def conv(x: Value, filters: int, *size: int, stride: int = 1, groups: int = 1) -> Value:
        shape = (filters, x.shape[1] // groups, *size)
        w = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        weights = b.constant(w.astype(np.float32), f"w{len(b.nodes)}")
        how: Any = {"strides": (1, stride, stride), "dilation": (1, 1, 1), "groups": groups}
        return b.add("conv_nd", [x, weights], padding=tuple(k // 2 for k in size) * 2, **how)

    x = Value("x", (2, 3, 4, 12, 14), "float32")
    bias, scale, shift = (b.constant(floats(16), n) for n in ("bias", "scale", "shift"))
    y = b.add("relu", [b.add("bias_add", [conv(x, 16, 3, 5, 5, stride=2), bias], axis=1)])
    z = b.add("scale_shift", [conv(y, 16, 3, 3, 3), scale, shift], axis=1)
    z = b.add("add", [b.add("relu", [z]), y])
    each = b.constant(floats(16, 1, 1, 1), "each")
    z = b.add("maximum", [conv(conv(z, 16, 1, 3, 3), 16, 3, 1, 1), each])
    pool: Any = {"kernel": (2, 2, 2), "strides": (2, 1, 2), "dilation": (1, 1, 1)}
    how: Any = {"ceil_mode": False, "count_include_pad": True, "type": "max", "p": 2.0}
    z = b.add("pool_nd", [z], padding=(0, 1, 0, 1, 0, 1), **pool, **how)
    z = b.add("concat", [z, conv(z, 16, 1, 1, 1, groups=2)], axis=1)
    begin, end = [0, 8, 0, 1, 0], [2, 32, z.shape[2], 6, z.shape[4]]
    z = b.add("slice", [z], begin=begin, end=end, strides=[1] * 5)
    mean = b.add("reduce", [conv(z, 24, 3, 3, 3)], type="mean", axes=[2, 3, 4], keepdims=True)
    return Graph("film", [x], [b.add("reshape", [mean], shape=(2, 24))], b.nodes)


def test_volumes_are_laid_as_images_are() -> None:
    changed = check_same(volumes(), lambda g: channels_last(g, FLOATS))
    names = ops(changed)
    assert names.count("conv3d_ndhwc") == 3 and "conv_nd" not in names
    assert names.count("conv2d_nhwc") == 3, "windows that are flat are those of images"
    assert names.count("transpose") == 2, "the input, and the mean, which has one place"
    assert {n.op: n for n in changed.nodes}["pool_nd"].attrs["space"] == (1, 2, 3)


def bottleneck(size: tuple[int, ...]) -> Graph:
    """A filter for each channel between products, as mobile networks for films have them."""
    b = Net(17)
    x = Value("x", (2, 16, 3, 7, 8), "float32")
    how: Any = {"strides": (1,) * 3, "dilation": (1,) * 3}
    bias = b.constant(floats(32), "bias")
    wide = b.constant(floats(32, 16, 1, 1, 1) / 4, "wide")
    y = b.add("conv_nd", [x, wide], padding=(0,) * 6, groups=1, **how)
    y = b.add("relu", [b.add("bias_add", [y, bias], axis=1)])
    each = b.constant(floats(32, 1, *size) / 4, "each")
    y = b.add("conv_nd", [y, each], padding=tuple(k // 2 for k in size) * 2, groups=32, **how)
    y = b.add("relu", [b.add("bias_add", [y, bias], axis=1)])
    thin = b.constant(floats(16, 32, 1, 1, 1) / 6, "thin")
    y = b.add("conv_nd", [y, thin], padding=(0,) * 6, groups=1, **how)
    return Graph("net", [x], [b.add("add", [y, x])], b.nodes)


@pytest.mark.parametrize(
    ("size", "op", "moves"),
    [((3, 3, 3), "conv_nd", 4), ((1, 3, 3), "depthwise_nhwc", 2), ((5, 1, 1), "depthwise_nhwc", 2)],
)
def test_volumes_of_one_filter_a_channel(size: tuple[int, ...], op: str, moves: int) -> None:
    graph = bottleneck(size)
    names = ops(check_same(graph, lambda g: channels_last(g, FLOATS)))
    assert names.count(op) == 1 and names.count("conv2d_nhwc") == 2
    assert names.count("transpose") == moves, "at the ends, and around what stays"
    net: Any = tg.compile(graph, SM80, dtype="float16")
    assert len(net.calls) <= 4 + moves, "a kernel for each convolution, with what follows it"
    net.device = tvm.simt(0)
    data = {"x": floats(2, 16, 3, 7, 8)}
    (want,), (got,) = tg.compile(graph).run(data).values(), net.run(data).values()
    assert np.abs(np.asarray(got, "float32") - want).max() / np.abs(want).max() < 4e-3


@pytest.mark.parametrize("target", [SM80, "cuda -arch=sm_90a"])
def test_volumes_on_tensor_cores(target: str) -> None:
    graph = volumes()
    net: Any = tg.compile(graph, target, dtype="float16")
    assert isinstance(net, DeviceExecutable)
    kernels = net.module.imported_modules[0].get_source().split('extern "C" __global__')
    assert sum("mma" in k for k in kernels[1:]) >= 6
    net.device = tvm.simt(0)
    data = {"x": floats(2, 3, 4, 12, 14)}
    want = tg.compile(graph).run(data)
    for name, got in net.run(data).items():
        error = np.abs(np.asarray(got, "float32") - want[name]).max() / np.abs(want[name]).max()
        assert error < 4e-3


def test_what_is_moved_has_been_rounded() -> None:
    """Of sums that are rounded behind a bias, with what follows that."""
    b = Net(17)
    x = Value("x", (1, 16, 8, 8), "float16")
    sums = b.add("conv2d", [x, b.constant(floats(16, 1, 3, 3).astype("float16"), "w")],
                 strides=(1, 1), padding=(1,) * 4, dilation=(1, 1), groups=16,
                 out_dtype="float32")  # fmt: skip
    sums = b.add("bias_add", [sums, b.constant(floats(16), "bias")], axis=1)
    y = b.add("relu", [b.add("cast", [sums], dtype="float16")])
    weights = b.constant(floats(16, 16, 3, 3).astype("float16"), "v")
    how: Any = {"strides": (1, 1), "padding": (1,) * 4, "dilation": (1, 1), "groups": 1}
    out = b.add("conv2d", [y, weights], **how)
    changed = channels_last(Graph("net", [x], [out], b.nodes), {("float16", "float32")})
    moved = [n.inputs[0] for n in changed.nodes if n.op == "transpose"]
    assert [v.dtype for v in moved] == ["float16"] * 2
    made = moved[0].producer
    assert made is not None and made.op == "cast", "rounded before, and relu is behind"


@pytest.mark.parametrize("first", [0, 64])
def test_windows_of_images_that_lie_within_others(first: int) -> None:
    """Some channels of an array are images with gaps, which copies of windows step over."""
    b = Net(17)
    x = Value("x", (1, 64, 8, 8), "float32")
    wide = b.add("relu", [b.conv(x, 128, 3)])
    ends: Any = {"begin": [0, first, 0, 0], "end": [1, first + 64, 8, 8], "strides": [1] * 4}
    part = b.add("slice", [wide], **ends)
    graph = Graph("net", [x], [b.add("relu", [b.conv(part, 64, 3)])], b.nodes)
    net: Any = tg.compile(graph, "cuda -arch=sm_90a", dtype="float16")
    assert len(net.calls) == 4, "input, two convolutions, output: the part is no copy"
    assert net.module.imported_modules[0].get_source().count("im2col(") > 2
    net.device = tvm.simt(0)
    data = {"x": floats(1, 64, 8, 8)}
    ((want,), (got,)) = tg.compile(graph).run(data).values(), net.run(data).values()
    assert np.abs(np.asarray(got, "float32") - want).max() < 4e-3 * np.abs(want).max()


@pytest.mark.parametrize("op", ["slice", "pad"])
def test_what_is_moved_anyway_is_rounded_on_the_way(op: str) -> None:
    b = Net(17)
    x = Value("x", (1, 16, 10, 10), "float32")
    ends: Any = {"begin": [0, 0, 1, 1], "end": [1, 16, 9, 9], "strides": [1] * 4}
    wide: Any = {"before": [0, 0, 1, 1], "after": [0, 0, 2, 2], "value": 1.0}
    moved = b.add(op, [x], **(ends if op == "slice" else wide))
    graph = Graph("net", [x], [b.conv(moved, 16, 3)], b.nodes)
    net: Any = tg.compile(graph, SM80, dtype="float16")
    assert len(net.calls) == 3, "to channels last, the convolution, and back"
