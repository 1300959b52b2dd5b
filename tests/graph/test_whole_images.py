"""Convolutions that have one place to be at are products."""

from __future__ import annotations

import pytest

from tests.graph.test_attention import Writer
from tests.graph.test_passes import check_same, floats, ops
from tilewright.graph.build import prepare
from tilewright.graph.ir import Graph, Value, constant
from tilewright.graph.passes.reshapes import sink_reshapes
from tilewright.graph.passes.whole_images import multiply_whole_images
from tilewright.target.target import Target

HOW = {"strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}


def net(size: tuple[int, int], kernel: tuple[int, int], bias: bool, batch: int = 3) -> Graph:
    w, x = Writer(), Value("x", (batch, 6, *size), "float32")
    y = w("conv2d", x, constant("w", floats(10, 6, *kernel)), **HOW)
    if bias:
        y = w("bias_add", y, constant("b", floats(10)), axis=1)
    return Graph("image", [x], [w("sigmoid", y)], w.nodes)


@pytest.mark.parametrize("size", [(1, 1), (3, 2)])
@pytest.mark.parametrize("bias", [False, True])
def test_filters_as_large_as_the_image(size: tuple[int, int], bias: bool) -> None:
    changed = check_same(net(size, size, bias), multiply_whole_images)
    first = ["reshape", "dense", *(["bias_add"] if bias else [])]
    assert ops(changed) == [*first, "reshape", "sigmoid"]


def test_others_stay() -> None:
    """Filters that move, and batches where they are left out."""
    assert ops(check_same(net((3, 2), (1, 1), True), multiply_whole_images))[0] == "conv2d"
    single = check_same(net((1, 1), (1, 1), False), lambda g: multiply_whole_images(g, False))
    assert ops(single)[0] == "conv2d"


def test_gpus_multiply_the_channels_that_are_weighed() -> None:
    """And nothing is turned between the two, of one place each."""
    w, x = Writer(), Value("x", (1, 64, 4, 4), "float32")
    y = w("reduce", x, type="mean", axes=(2, 3), keepdims=True)
    for n, (filters, depth) in enumerate(((16, 64), (64, 16))):
        y = w("conv2d", y, constant(f"w{n}", floats(filters, depth, 1, 1)), **HOW)
        y = w("bias_add", y, constant(f"b{n}", floats(filters)), axis=1)
    made = Graph("weighed", [x], [w("multiply", x, w("sigmoid", y))], w.nodes)
    _, groups = prepare(made, Target("cuda -arch=sm_80"), "float16")
    first = [g.nodes[0].op for g in groups]
    assert first.count("dense") == 2
    assert "transpose" not in first


def test_places_of_extent_one_are_not_turned() -> None:
    w, x = Writer(), Value("x", (3, 8, 1, 1), "float32")
    y = w("transpose", x, axes=(0, 2, 3, 1))
    y = w("pack_channels", w("transpose", y, axes=(0, 3, 1, 2)), block=4)
    changed = check_same(Graph("places", [x], [w("sin", y)], w.nodes), sink_reshapes)
    assert set(ops(changed)) == {"reshape", "sin"}
    z = Graph("turned", [x], [w("transpose", x, axes=(1, 0, 2, 3))], w.nodes[-1:])
    assert ops(check_same(z, sink_reshapes)) == ["transpose"]


def test_what_each_channel_has_comes_before_a_reshape() -> None:
    """Where the reshape leaves channels, and what lies behind them, one piece; then it joins what
    made its data."""
    w, x = Writer(), Value("x", (6, 4, 5), "float32")
    bias, scale = constant("bias", floats(4)), constant("scale", floats(4))
    y = w("reshape", w("relu", x), shape=(2, 3, 4, 1, 5))
    y = w("scale_shift", w("bias_add", y, bias, axis=2), scale, bias, axis=-3)
    graph = check_same(Graph("net", [x], [w("relu", y)], w.nodes), sink_reshapes)
    assert ops(graph) == ["relu", "bias_add", "scale_shift", "relu", "reshape"]
    assert [n.attrs["axis"] for n in graph.nodes if "axis" in n.attrs] == [1, 1]


def test_what_each_channel_has_stays_where_channels_are_among_others() -> None:
    w, x = Writer(), Value("x", (2, 20), "float32")
    y = w("bias_add", w("reshape", x, shape=(2, 4, 5)), constant("bias", floats(4)), axis=1)
    graph = check_same(Graph("net", [x], [y], w.nodes), sink_reshapes)
    assert ops(graph) == ["reshape", "bias_add"]
