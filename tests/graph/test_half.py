"""Networks in half precision."""

import numpy as np
import pytest

import tools.make_networks as networks
from tilewright import graph as tg
from tilewright.base.errors import CompileError
from tilewright.graph.ir import Graph, Node, Value, constant
from tilewright.graph.passes.to_half import to_half

RNG = np.random.default_rng(3)


def test_a_network_in_half_precision_is_near(tmp_path):
    path = tmp_path / "lenet.onnx"
    path.write_bytes(networks.make("lenet").SerializeToString())
    graph = tg.load_onnx(path)
    image = {"input": RNG.standard_normal((1, 1, 28, 28)).astype("float32")}
    whole = tg.compile(graph).run(image)["logits"]
    net = tg.compile(graph, dtype="float16")
    half = net.run(image)["logits"]
    off = np.abs(half - whole).max() / np.abs(whole).max()
    assert half.dtype == np.float32 and 0 < off < 1e-2
    assert {str(c.dtype) for c in net.constants} == {"float16", "float32"}  # biases stay wide
    big = [c for c in net.constants if c.size > 200]
    assert big and all(c.dtype == np.float16 for c in big)
    with pytest.raises(CompileError, match="in float32 or float16, not 'int8'"):
        tg.compile(graph, dtype="int8")


def block(weight):
    """relu(conv(x) + bias), read twice."""
    x = Value("x", (1, 4, 6, 6), "float32")
    how = {"strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
    y = Value("y", (1, 4, 6, 6), "float32")
    z = Value("z", (1, 4, 6, 6), "float32")
    r = Value("r", (1, 4, 6, 6), "float32")
    s = Value("s", (1, 4, 6, 6), "float32")
    bias = constant("bias", np.ones(4, "float32"))
    nodes = [
        Node("conv2d", "conv", [x, constant("w", weight)], [y], how),
        Node("bias_add", "add", [y, bias], [z], {"axis": 1}),
        Node("relu", "relu", [z], [r]),
        Node("add", "sum", [r, r], [s]),
    ]
    return Graph("net", [x], [s, r], nodes)


def test_products_and_what_follows_are_rounded_once():
    graph = to_half(block(np.ones((4, 4, 3, 3), "float32")))
    kinds = [(n.op, n.output.dtype) for n in graph.nodes]
    assert kinds == [
        ("cast", "float16"),
        ("conv2d", "float32"),
        ("bias_add", "float32"),
        ("relu", "float32"),
        ("cast", "float16"),
        ("add", "float16"),
        ("cast", "float32"),
        ("cast", "float32"),
    ]
    assert [v.name for v in graph.outputs] == ["s", "r"]


def test_accumulating_in_half():
    graph = to_half(block(np.ones((4, 4, 3, 3), "float32")), accumulate="float16")
    assert all(n.output.dtype == "float16" for n in graph.nodes[:-2])


def test_weights_beyond_the_range_are_refused():
    weight = np.ones((4, 4, 3, 3), "float32")
    weight[1, 2] = 7e4
    with pytest.raises(CompileError, match="constant w holds 70000, which float16 cannot"):
        to_half(block(weight))


def test_integers_and_wide_operations_stay():
    x = Value("x", (2, 8), "float32")
    soft, index = Value("soft", (2, 8), "float32"), Value("i", (3,), "int32")
    taken = Value("taken", (2, 3), "float32")
    nodes = [
        Node("softmax", "soft", [x], [soft], {"axis": 1}),
        Node("take", "take", [soft, index], [taken], {"axis": 1}),
    ]
    graph = to_half(Graph("net", [x, index], [taken], nodes))
    kinds = [(n.op, n.output.dtype) for n in graph.nodes]
    expected = [("softmax", "float32"), ("cast", "float16"), ("take", "float16")]
    assert kinds == [*expected, ("cast", "float32")]
    assert graph.nodes[2].inputs[1] is index
