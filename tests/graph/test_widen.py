"""Networks in 16 bits on CPUs, which compute them in float32: as accurate as that."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tvm
from tests.narrow import as_a, some
from tilewright import graph as tg
from tilewright.base.dtype import parse
from tilewright.graph.build import optimize
from tilewright.graph.ir import Graph, Value, constant
from tilewright.graph.onnx.convert import Builder
from tilewright.graph.passes.simplify import drop_identities, fold_batch_norm
from tilewright.graph.passes.widen_floats import narrow_weights, widen_floats
from tilewright.target.target import Target

RNG = np.random.default_rng(8)
CONV = {"strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
TYPES = ("float16", "bfloat16")


def data(dtype, *shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype("float32").astype(parse(dtype).numpy)


def operations(graph):
    return [(n.op, n.output.dtype) for n in graph.nodes]


def block(dtype):
    """relu(conv(x) + bias), and twice that."""
    b = Builder(17)
    x = Value("x", (1, 8, 6, 6), dtype)
    y = b.add("conv2d", [x, b.constant(data(dtype, 8, 8, 3, 3), "w")], "conv", **CONV)
    y = b.add("bias_add", [y, b.constant(data(dtype, 8), "bias")], "biased", axis=1)
    y = b.add("relu", [y], "relu")
    return Graph("net", [x], [y, b.add("add", [y, y], "twice")], b.nodes)


@pytest.mark.parametrize("dtype", TYPES)
def test_only_outputs_are_rounded(dtype):
    graph = widen_floats(block(dtype), TYPES)
    assert operations(graph) == [
        ("cast", "float32"),
        ("conv2d", "float32"),
        ("bias_add", "float32"),
        ("relu", "float32"),
        ("add", "float32"),
        ("cast", dtype),
        ("cast", dtype),
    ]
    assert [(v.name, v.dtype) for v in graph.outputs] == [("relu", dtype), ("twice", dtype)]
    assert [v.dtype for v in graph.constants()] == [dtype, "float32"]  # a weight, a bias


def test_what_moves_elements_moves_narrow_ones():
    b = Builder(17)
    rows, x = Value("rows", (5,), "int64"), Value("x", (2, 3), "float16")
    taken = b.add("take", [b.constant(data("float16", 40, 3), "table"), rows], "taken", axis=0)
    both = b.add("concat", [taken, x], "both", axis=0)
    mixed = b.add("concat", [both, b.add("exp", [x], "exp")], "mixed", axis=0)
    graph = widen_floats(Graph("net", [rows, x], [both, mixed], b.nodes), TYPES)
    assert operations(graph) == [
        ("take", "float16"),
        ("concat", "float16"),
        ("cast", "float32"),
        ("exp", "float32"),
        ("cast", "float32"),
        ("concat", "float32"),
        ("cast", "float16"),
    ]


def test_what_a_network_rounds_is_rounded():
    """A conversion that stands in the file, and bits that are read."""
    b = Builder(17)
    x = Value("x", (4,), "float32")
    half = b.add("cast", [x], "half", dtype="float16", rounds=True)
    wide = b.add("cast", [b.add("exp", [half], "exp")], "wide", dtype="float32")
    bits = b.add("bit_cast", [b.add("negative", [half], "minus")], "bits", dtype="int16")
    given = np.array([1.0001, 2.5003, -3.3333, 0.1], "float32")
    results = tg.compile(Graph("net", [x], [wide, bits], b.nodes)).run({"x": given})
    rounded = given.astype("float16")
    np.testing.assert_allclose(results["wide"], np.exp(rounded.astype("f8")), rtol=3e-7)
    np.testing.assert_array_equal(results["bits"], (-rounded).view("int16"))


def squared():
    """The square of dequantised numbers."""
    b = Builder(17)
    x = Value("x", (6,), "int8")
    scale = b.constant(np.array(0.3, "float16"), "scale")
    y = b.add("dequantize", [x, scale], "y", dtype="float16", axis=-1, block=0)
    return Graph("net", [x], [b.add("multiply", [y, y], "z")], b.nodes)


def test_attributes_that_name_a_narrow_type():
    kinds = [("dequantize", "float32"), ("multiply", "float32"), ("cast", "float16")]
    assert operations(widen_floats(squared(), TYPES)) == kinds
    given = np.array([-128, -7, 0, 1, 100, 127], "int8")
    got = tg.compile(squared()).run({"x": given})["z"]
    expected = (given * float(np.float16(0.3))) ** 2
    np.testing.assert_array_equal(got, expected.astype("float16"))


@pytest.mark.parametrize(
    ("target", "dtype", "wide"),
    [
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell", "float16", True),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell", "bfloat16", True),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4", "float16", True),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4", "bfloat16", False),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids", "float16", True),
        ("cuda -arch=sm_80", "float16", False),
        ("opencl", "float16", False),
    ],
)
def test_targets_that_multiply_narrow_floats_keep_them(target, dtype, wide):
    """Of a file in such numbers, and with `precision`."""
    asked = block("float32")
    for graph, precision in ((block(dtype), "float32"), (asked, dtype)):
        made = optimize(graph, Target(target), precision)
        (conv,) = (n for n in made.nodes if n.op.startswith("conv"))
        assert conv.inputs[0].dtype == ("float32" if wide else dtype)
        assert conv.inputs[1].dtype == dtype


def test_weights_and_tables_alone_are_stored_narrow():
    b = Builder(17)
    rows = Value("rows", (5,), "int64")
    table = data("float32", 40, 16)
    x = b.add("take", [b.constant(table, "table"), rows], "x", axis=0)
    y = b.add("dense", [x, b.constant(data("float32", 7, 16), "w")], "y")
    y = b.add("add", [y, b.constant(data("float32", 7), "bias")], "z")
    graph = narrow_weights(Graph("net", [rows], [y, x], b.nodes), "float16")
    assert [v.dtype for v in graph.constants()] == ["float16", "float16", "float32"]
    assert [v.dtype for v in graph.outputs] == ["float32", "float32"]
    given = np.array([3, 0, 39, -1, 7])
    got = as_a(tg.Executable, tg.compile(graph)).run({"rows": given})
    np.testing.assert_array_equal(got["x"], table.astype("float16").astype("float32")[given])


def test_narrow_weights_are_not_scaled():
    """A batch norm would round each of them once more."""
    b = Builder(17)
    x = Value("x", (1, 8, 6, 6), "float32")
    w = b.constant(data("float16", 8, 8, 3, 3), "w")
    y = b.add("conv2d", [x, w], "conv", **CONV)
    norm = [b.constant(data("float32", 8), name) for name in ("scale", "shift")]
    y = b.add("scale_shift", [y, *norm], "norm", axis=1)
    graph = fold_batch_norm(Graph("net", [x], [y], b.nodes))
    assert [n.op for n in graph.nodes] == ["conv2d", "scale_shift"]
    assert graph.nodes[0].inputs[1] is w


def file_of(nodes, weights, shape, dtype=TensorProto.FLOAT16):
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", dtype, None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def root_mean_square(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-3)


def test_squares_beyond_float16_do_not_become_infinite():
    """As they did in norms that are spelled out, whose results were 0."""
    names = (("Mul", "x x", "s"), ("ReduceMean", "s", "m"), ("Add", "m e", "a"),
             ("Sqrt", "a", "r"), ("Div", "x r", "y"))  # fmt: skip
    nodes = [helper.make_node(op, i.split(), [o]) for op, i, o in names]
    nodes[1].attribute.append(helper.make_attribute("axes", [-1]))
    model = file_of(nodes, {"e": np.array(1e-3, "float16")}, [8, 512])
    x = data("float16", 8, 512, scale=500)
    (got,) = tvm.compile(model.SerializeToString()).run({"x": x}).values()
    expected = root_mean_square(x.astype("f8"))
    assert np.abs(got - expected).max() <= 2.0**-11 * np.abs(expected).max()
    wide = file_of(nodes, {"e": np.array(1e-3, "float32")}, [8, 512], TensorProto.FLOAT)
    net = tvm.compile(wide.SerializeToString(), precision="float16")
    (got,) = net.run({"x": x.astype("float32")}).values()
    assert np.abs(got - expected).max() <= 1e-6 * np.abs(expected).max()


def test_long_chains_round_once():
    """The error of many additions is that of one rounding, as ONNX Runtime has it."""
    count = 40
    small = {f"c{k}": data("float16", 64, scale=0.01) for k in range(count)}
    nodes = [
        helper.make_node("Add", [f"v{k}" if k else "x", f"c{k}"], [f"v{k + 1}"])
        for k in range(count - 1)
    ]
    nodes.append(helper.make_node("Add", [f"v{count - 1}", f"c{count - 1}"], ["y"]))
    x = data("float16", 64, scale=20)
    (got,) = tvm.compile(file_of(nodes, small, [64]).SerializeToString()).run({"x": x}).values()
    exact = x.astype("f8") + sum(a.astype("f8") for a in small.values())
    np.testing.assert_array_equal(got, exact.astype("float16"))


@pytest.mark.parametrize("rows", [1, 3, 70])
@pytest.mark.parametrize("dtype", TYPES)
def test_products_of_floats_with_narrow_weights(dtype, rows):
    """Of each schedule that products have, whose sums are those of float32; rounded once, as the
    file says, where the CPU multiplies the type and networks of it stay in it."""
    b = Builder(17)
    x = Value("x", (rows, 1000), dtype)
    w = data(dtype, 131, 1000)
    y = b.add("cast", [b.add("dense", [x, b.constant(w, "w")], "y")], "z", dtype="float32")
    given = data(dtype, rows, 1000)
    net = as_a(tg.Executable, tg.compile(Graph("net", [x], [y], b.nodes)))
    got = net.run({"x": given})["z"]
    expected = given.astype("f8") @ w.astype("f8").T
    stays = any(dot.row == dtype for dot in tvm.target.Target("llvm").capabilities.dots)
    rounded = 2.0**-8 * np.abs(expected) if stays else 0.0
    assert (np.abs(got - expected) <= 3e-6 * np.abs(expected).max() + rounded).all()
    # in 16 bits still, of whole register tiles: up to 160 rows where these have two vectors of 16
    assert all(w.nbytes <= c.nbytes <= 160 * 1000 * 2 for c in net.constants)


def test_a_graph_without_narrow_floats_is_left_alone():
    graph = block("float32")
    nodes = list(graph.nodes)
    assert widen_floats(graph, TYPES).nodes == nodes
    lone = Graph("net", [], [constant("c", data("float16", 3))], [])
    assert some(widen_floats(lone, TYPES).outputs[0].data).dtype == np.float16


def test_constants_are_computed_without_rounding_in_between():
    """What is done to weights ahead of time, as the standardisation of filters."""
    b = Builder(17)
    x = Value("x", (3, 40), "float16")
    w = data("float16", 9, 40, scale=300)
    weight = b.constant(w, "w")
    square = b.add("multiply", [weight, weight], "square")  # beyond float16
    mean = b.add("reduce", [square], "mean", type="mean", axes=[1], keepdims=True)
    unit = b.add("divide", [weight, b.add("sqrt", [mean], "root")], "unit")
    moved = b.add("reshape", [unit], "moved", shape=(9, 40))
    y = b.add("cast", [b.add("dense", [x, moved], "y")], "z", dtype="float32")
    given = data("float16", 3, 40)
    got = tg.compile(Graph("net", [x], [y], b.nodes)).run({"x": given})["z"]
    exact = w.astype("f8")
    exact /= np.sqrt((exact**2).mean(1, keepdims=True))
    expected = given.astype("f8") @ exact.T
    assert np.abs(got - expected).max() <= 1e-6 * np.abs(expected).max()


def test_batch_norms_of_float16_are_those_of_float32():
    """Whose shift is a difference of products with a large mean."""
    names = ("gamma", "beta", "mean", "var")
    values = [data("float16", 6) for _ in names]
    values[2], values[3] = values[2] * np.float16(300), np.abs(values[3]) + np.float16(0.01)
    nodes = [helper.make_node("BatchNormalization", ["x", *names], ["y"])]
    x = data("float16", 2, 6, 5, 5) + values[2].reshape(1, 6, 1, 1)
    model = file_of(nodes, dict(zip(names, values)), [2, 6, 5, 5])
    (got,) = tvm.compile(model.SerializeToString()).run({"x": x}).values()
    gamma, beta, mean, var = (v.astype("f8").reshape(1, 6, 1, 1) for v in values)
    expected = (x.astype("f8") - mean) / np.sqrt(var + 1e-5) * gamma + beta
    assert np.abs(got - expected).max() <= 2.0**-11 * np.abs(expected).max()


def test_operators_that_are_made_of_several_round_once():
    """Whose parts are computed in float32, and converted back at the end."""
    b = Builder(17)
    x = Value("x", (4, 9), "float16")
    wide = b.add("exp", [b.add("cast", [x], "wide", dtype="float32")], "exp")
    back = b.add("cast", [wide], "back", dtype="float16")
    graph = widen_floats(Graph("net", [x], [b.add("multiply", [back, x], "y")], b.nodes), TYPES)
    assert operations(drop_identities(graph)) == [
        ("cast", "float32"),
        ("exp", "float32"),
        ("multiply", "float32"),
        ("cast", "float16"),
    ]


def test_casts_of_a_file_round():
    nodes = [
        helper.make_node("Cast", ["x"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["half", "half"], ["square"]),
        helper.make_node("Cast", ["square"], ["y"], to=TensorProto.FLOAT),
    ]
    model = file_of(nodes, {}, [40], TensorProto.FLOAT)
    x = data("float32", 40)
    (got,) = tvm.compile(model.SerializeToString()).run({"x": x}).values()
    np.testing.assert_allclose(got, x.astype("float16").astype("f8") ** 2, rtol=1e-7)
