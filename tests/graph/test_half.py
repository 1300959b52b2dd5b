"""Networks in half precision."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

import tilewright as tvm
import tools.make_networks as networks
from tests.narrow import as_a, some
from tilewright import graph as tg
from tilewright.base.dtype import parse
from tilewright.base.errors import CompileError
from tilewright.graph.evaluate import evaluate
from tilewright.graph.ir import Graph, Node, Value, constant
from tilewright.graph.kernel import tensors
from tilewright.graph.onnx.convert import Builder
from tilewright.graph.passes.fuse import Group
from tilewright.graph.passes.narrow_floats import narrow_floats
from tilewright.tensor.relayout import LAYOUT_FREE_ATTR

RNG = np.random.default_rng(3)
CONV = {"strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
POOL = {"strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "ceil_mode": False,
        "count_include_pad": False}  # fmt: skip
opencl = pytest.mark.skipif(not tvm.opencl(0).exist, reason="there is no OpenCL device")


def test_a_network_in_half_precision_is_near(tmp_path):
    path = tmp_path / "lenet.onnx"
    path.write_bytes(networks.make("lenet").SerializeToString())
    graph = tg.load_onnx(path)
    image = {"input": RNG.standard_normal((1, 1, 28, 28)).astype("float32")}
    whole = tg.compile(graph).run(image)["logits"]
    net = as_a(tg.Executable, tg.compile(graph, dtype="float16"))
    half = net.run(image)["logits"]
    off = np.abs(half - whole).max() / np.abs(whole).max()
    assert half.dtype == np.float32 and 0 < off < 1e-2
    assert {str(c.dtype) for c in net.constants} == {"float16", "float32"}  # biases stay wide
    big = [c for c in net.constants if c.size > 200]
    assert big and all(c.dtype == np.float16 for c in big)
    with pytest.raises(CompileError, match="in float32, float16, bfloat16, not 'int8'"):
        tg.compile(graph, dtype="int8")


def test_bfloat16_is_near_and_masks_stay_finite(tmp_path):
    path = tmp_path / "lenet.onnx"
    path.write_bytes(networks.make("lenet").SerializeToString())
    image = {"input": RNG.standard_normal((1, 1, 28, 28)).astype("float32")}
    whole = tvm.compile(path).run(image)["logits"]
    net = as_a(tg.Executable, tvm.compile(path, precision="bfloat16"))
    narrow = net.run(image)["logits"]
    off = np.abs(narrow - whole).max() / np.abs(whole).max()
    assert narrow.dtype == np.float32 and 0 < off < 2e-2
    assert "bfloat16" in {str(c.dtype) for c in net.constants}
    b = Builder(17)
    x = Value("x", (4, 4), "float32")
    low = constant("low", np.array([-3.4028235e38, 1, 0, 3.4e38], np.float32))
    made = b.add("dense", [x, b.constant(np.eye(4, dtype="float32"), "w")])
    moved = b.add("concat", [b.add("relu", [made]), b.add("tanh", [made])], axis=0)
    masked = b.add("add", [moved, low])
    graph = Graph("net", [x], [b.add("softmax", [masked], "y", axis=1)], b.nodes)
    (added,) = (n for n in narrow_floats(graph, "bfloat16").nodes if n.op == "add")
    data = some(added.inputs[1].data).astype("float32")
    assert np.isfinite(data).all() and data[0] < -3.38e38 and data[3] > 3.38e38


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
    graph = narrow_floats(block(np.ones((4, 4, 3, 3), "float32")))
    kinds = [(n.op, n.output.dtype) for n in graph.nodes]
    assert kinds == [
        ("cast", "float16"),
        ("conv2d", "float32"),
        ("bias_add", "float32"),
        ("relu", "float32"),
        ("add", "float32"),  # outputs are not rounded
    ]
    assert [v.name for v in graph.outputs] == ["s", "r"]


def test_accumulating_in_half():
    graph = narrow_floats(block(np.ones((4, 4, 3, 3), "float32")), accumulate="float16")
    assert all(n.output.dtype == "float16" for n in graph.nodes[:-2])


def test_weights_beyond_the_range_are_refused():
    weight = np.ones((4, 4, 3, 3), "float32")
    weight[1, 2] = 7e4
    with pytest.raises(CompileError, match="constant w holds 70000, which float16 cannot"):
        narrow_floats(block(weight))


@pytest.mark.parametrize("low", [-1e38, -7e4])
def test_numbers_beyond_the_range_may_be_where_elements_are_computed(low: float) -> None:
    """A running maximum begins there, as that of RWKV's attention does."""
    rng = np.random.default_rng(5)
    b = Builder(17)
    x = Value("x", (4, 16), "float32")
    w = b.constant((rng.standard_normal((16, 16)) / 4).astype("float32"), "w")
    key, most = b.add("dense", [x, w]), b.constant(np.full((1, 16), low, "float32"), "most")
    top = b.add("maximum", [key, most])
    old, new = (b.add("exp", [b.add("subtract", [v, top])]) for v in (most, key))
    y = b.add("dense", [b.add("divide", [key, b.add("add", [old, new])]), w])
    graph = Graph("net", [x], [y], b.nodes)
    data = {"x": rng.standard_normal((4, 16)).astype("float32")}
    (want,) = tg.compile(graph).run(data).values()
    net: Any = tg.compile(graph, "cuda -arch=sm_80", dtype="float16")
    net.device = tvm.simt(0)
    (got,) = net.run(data).values()
    np.testing.assert_allclose(got, want, atol=4e-3 * float(np.abs(want).max()))


def test_the_last_float32_is_the_last_float16():
    """Masks are made with it; what it is added to is as good as left out."""
    b = Builder(17)
    x = Value("x", (2, 3), "float32")
    last = np.finfo("float32").max
    mask = b.constant(np.array([[0, -last, last]], "float32"), "mask")
    made = b.add("dense", [x, b.constant(np.eye(3, dtype="float32"), "w")])
    parts = [b.add("relu", [made]), b.add("tanh", [made])]  # two readers: it is rounded
    moved = b.add("concat", parts, axis=0)
    graph = Graph("g", [x], [b.add("softmax", [b.add("add", [moved, mask])], "y", axis=1)], b.nodes)
    narrowed = narrow_floats(graph, "float16")
    (found,) = {v for n in narrowed.nodes for v in n.inputs if v.name == "mask"}
    np.testing.assert_array_equal(found.data, np.array([[0, -65504, 65504]], "float16"))


def test_integers_and_wide_operations_stay():
    x = Value("x", (2, 8), "float32")
    soft, index = Value("soft", (2, 8), "float32"), Value("i", (3,), "int32")
    taken = Value("taken", (2, 3), "float32")
    nodes = [
        Node("softmax", "soft", [x], [soft], {"axis": 1}),
        Node("take", "take", [soft, index], [taken], {"axis": 1}),
    ]
    graph = narrow_floats(Graph("net", [x, index], [taken], nodes))
    kinds = [(n.op, n.output.dtype) for n in graph.nodes]
    assert kinds == [("softmax", "float32"), ("take", "float32")]
    assert graph.nodes[1].inputs[1] is index


def floats(dtype, *shape):
    return RNG.standard_normal(shape).astype("float32").astype(parse(dtype).numpy)


# operation: inputs' shapes, attributes; the last input of two is a weight
SUMS: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "conv2d": ([(1, 32, 9, 9), (32, 32, 3, 3)], CONV),
    "depthwise": ([(1, 16, 9, 9), (16, 1, 7, 7)], {**CONV, "groups": 16}),
    "dense": ([(3, 3000), (20, 3000)], {}),
    "batch_matmul": ([(2, 5, 2000), (2, 2000, 3)], {}),
    "pool2d": ([(1, 16, 40, 40)], {"type": "avg", "kernel": (31, 31), **POOL}),
    "global_pool": ([(1, 16, 90, 90)], {"type": "avg"}),
    "softmax": ([(3, 3000)], {"axis": 1}),
    "log_softmax": ([(3, 3000)], {"axis": 1}),
    "reduce sum": ([(3, 5000)], {"type": "sum", "axes": [1], "keepdims": False}),
    "reduce mean": ([(3, 5000)], {"type": "mean", "axes": [1], "keepdims": False}),
}


@pytest.mark.parametrize("target", ["llvm", pytest.param("opencl", marks=opencl)])
@pytest.mark.parametrize(("dtype", "off"), [("float16", 2e-3), ("bfloat16", 1.2e-2)])
@pytest.mark.parametrize("name", list(SUMS))
def test_sums_of_narrow_floats_are_taken_in_float32(name, dtype, off, target):
    shapes, attrs = SUMS[name]
    op = "conv2d" if name == "depthwise" else name.split()[0]
    data, *weights = (np.abs(floats(dtype, *shape)) for shape in shapes)
    b = Builder(17)
    x = Value("x", data.shape, dtype)
    y = b.add(op, [x, *(b.constant(w, "w") for w in weights)], "y", **attrs)
    got = tg.compile(Graph("net", [x], [y], b.nodes), target).run({"x": data})["y"]
    wide = [
        Value(f"x{k}", a.shape, "float64", a.astype("f8")) for k, a in enumerate([data, *weights])
    ]
    expected = some(evaluate(op, wide, attrs))
    assert y.dtype == dtype
    assert np.abs(got.astype("f8") - expected).max() <= off * np.abs(expected).max()
    folded = evaluate(
        op, [Value("c", v.shape, dtype, some(v.data).astype(got.dtype)) for v in wide], attrs
    )
    assert np.abs(some(folded).astype("f8") - expected).max() <= off * np.abs(expected).max()


def test_a_rounded_product_says_which_of_its_inputs_are_weights():
    weight = constant("w", floats("float16", 20, 30))
    x, y = Value("x", (3, 30), "float16"), Value("y", (3, 20), "float16")
    inputs, out = tensors(Group([Node("dense", "d", [x, weight], [y])]))
    (product,) = out.op.input_tensors
    assert product.dtype == "float32" and product.op.attrs[LAYOUT_FREE_ATTR] == ["p1"]
    assert inputs[1] in product.op.input_tensors


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["Gemm", "Conv"])
def test_sums_and_what_is_added_to_them_are_rounded_together(kind, dtype):
    """16 and a half of the step that numbers of its size have, less 3."""
    kept = parse(dtype).numpy
    step = 2.0 ** (-7 if dtype == "float16" else -4)  # between numbers of 8 to 16
    shape = (1, 2) if kind == "Gemm" else (1, 2, 1, 1)
    x = np.array([16, step], kept).reshape(shape)
    w, c = np.ones(shape, kept), np.full(1, -3, kept)
    attrs: dict[str, Any] = {"transB": 1} if kind == "Gemm" else {}
    given = [("x", x), ("w", w), ("c", c)]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in given
    ]
    kind_of = infos[0].type.tensor_type.elem_type
    out = helper.make_tensor_value_info("y", kind_of, None)
    node = helper.make_node(kind, ["x", "w", "c"], ["y"], **attrs)
    model = helper.make_model(helper.make_graph([node], "one", infos, [out]))
    y = tvm.compile(model).run(dict(given))["y"]
    assert float(y.ravel()[0]) == 13 + step
