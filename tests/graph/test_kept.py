"""What networks in half precision do not round: see passes/narrow_floats."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.graph.test_attention_half import in_simt
from tilewright import graph as tg
from tilewright.graph.ir import Graph, Node, Value
from tilewright.graph.onnx.convert import Builder
from tilewright.graph.passes.narrow_floats import narrow_floats

CUDA = "cuda -arch=sm_80"
RNG = np.random.default_rng(11)
Make = Callable[..., Value]


def graph_of(make: Make, *shapes: tuple[tuple[int, ...], str]) -> Graph:
    b = Builder(17)
    inputs = [Value(f"x{k}", shape, dtype) for k, (shape, dtype) in enumerate(shapes)]
    y = make(b, *inputs)
    return Graph("net", inputs, [y], b.nodes)


def run(graph: Graph, dtype: str, *data: Any) -> Any:
    net = tg.compile(graph, CUDA, dtype=dtype)
    return in_simt(net, {v.name: d for v, d in zip(graph.inputs, data)})


def ops(graph: Graph, dtype: str = "float16") -> list[tuple[str, str]]:
    return [(n.op, n.output.dtype) for n in narrow_floats(graph, dtype).nodes]


def number(b: Builder, value: Any) -> Value:
    return b.constant(np.array(value, "float32"), "c")


def angles(b: Builder, places: Value) -> Value:
    """The cosines of rotary embeddings at places that come from outside."""
    wide = b.add("cast", [places], dtype="float32")
    speeds = number(b, 1 / 10000 ** (np.arange(0, 8, 2) / 8))
    return b.add("cos", [b.add("multiply", [wide, speeds])])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_angles_of_places_have_all_their_digits(dtype: str) -> None:
    places = np.array([[5], [1000], [3001], [30003]], "int64")
    x = RNG.standard_normal((4, 4)).astype("float32")

    def turned(b: Builder, p: Value, x: Value) -> Value:
        weight = b.constant(np.eye(4, dtype="float32"), "w")
        return b.add("multiply", [b.add("dense", [x, weight]), angles(b, p)])

    graph = graph_of(turned, ((4, 1), "int64"), ((4, 4), "float32"))
    found = run(graph, dtype, places, x)
    expected = x * np.cos(places * (1 / 10000 ** (np.arange(0, 8, 2) / 8)))
    np.testing.assert_allclose(found, expected, atol=2e-3 if dtype == "float16" else 2e-2)


def rms(b: Builder, x: Value, square: Callable[..., Value]) -> Value:
    mean = b.add("reduce", [square(b, x)], type="mean", axes=[1], keepdims=True)
    return b.add("multiply", [x, b.add("rsqrt", [b.add("add", [mean, number(b, 1e-5)])])])


@pytest.mark.parametrize(
    "square",
    [
        lambda b, x: b.add("multiply", [x, x]),
        lambda b, x: b.add("power", [x, number(b, 2)]),
        lambda b, x: b.add("multiply", [x, b.add("abs", [x])]),
    ],
)
def test_squares_do_not_end(square: Any) -> None:
    """Of numbers above 255, behind a product: a stream of residuals has them."""
    x = np.abs(RNG.standard_normal((4, 64))).astype("float32")
    x[0, 3], x[1, 5] = 400, 300

    def normed(b: Builder, x: Value) -> Value:
        return rms(b, b.add("dense", [x, b.constant(np.eye(64, dtype="float32"), "w")]), square)

    found = run(graph_of(normed, ((4, 64), "float32")), "float16", x)
    expected = x / np.sqrt((x.astype("f8") ** 2).mean(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found, expected, atol=1e-2)


def test_sums_of_integers_are_scaled_in_float32() -> None:
    """Beyond 65504, by scales that float16 has few digits for."""
    sums = np.array([[70000, -2000000, 17, 123456]], "int32")

    def scaled(b: Builder, x: Value) -> Value:
        wide = b.add("cast", [x], dtype="float32")
        return b.add("multiply", [wide, number(b, 6e-6)])

    graph = graph_of(scaled, ((1, 4), "int32"))
    np.testing.assert_allclose(run(graph, "float16", sums), sums * 6e-6, rtol=1e-6)


def test_the_largest_are_chosen_before_they_are_rounded() -> None:
    near = np.array([[1.0001, 1.0002, 1.0003, 1.0004, 1.00045]], "float32")

    def places(b: Builder, x: Value) -> Value:
        soft = b.add(
            "softmax", [b.add("dense", [x, b.constant(np.eye(5, dtype="f4"), "w")])], axis=1
        )
        return b.add("topk_places", [soft], k=3, axis=1, largest=True)

    assert ops(graph_of(places, ((1, 5), "float32")))[-2:] == [
        ("softmax", "float32"),
        ("topk_places", "int64"),
    ]
    direct = graph_of(
        lambda b, x: b.add("topk_places", [x], k=3, axis=1, largest=True), ((1, 5), "float32")
    )
    assert run(direct, "float16", near).tolist() == [[4, 3, 2]]
    moved = graph_of(lambda b, x: b.add("transpose", [x], axes=(1, 0)), ((1, 5), "float32"))
    assert ops(moved) == [("transpose", "float32")]
    np.testing.assert_array_equal(run(moved, "float16", near * 7e4), near.T * np.float32(7e4))


def test_outputs_of_products_are_not_rounded_first() -> None:
    def head(b: Builder, x: Value) -> Value:
        made = b.add("dense", [x, b.constant(np.ones((3, 8), "float32"), "w")])
        return b.add("reshape", [made], shape=(3, 2))

    kinds = ops(graph_of(head, ((2, 8), "float32")))
    assert kinds == [("cast", "float16"), ("dense", "float32"), ("reshape", "float32")]


def test_masks_of_numbers_stay_finite() -> None:
    """A mask that a network makes is -3.4e38 where float32 ends, and -65504 where it is rounded."""
    last = float(np.finfo("float32").min)

    def masked(b: Builder, keep: Value, x: Value) -> Value:
        wide = b.add("cast", [keep], dtype="float32")
        mask = b.add("multiply", [b.add("subtract", [number(b, 1), wide]), number(b, last)])
        made = b.add("dense", [x, b.constant(np.eye(4, dtype="float32"), "w")])
        twice = b.add("add", [b.add("relu", [made]), b.add("tanh", [made])])
        return b.add(
            "softmax", [b.add("add", [b.add("concat", [twice, twice], axis=0), mask])], axis=1
        )

    graph = graph_of(masked, ((4, 4), "int64"), ((2, 4), "float32"))
    x = RNG.standard_normal((2, 4)).astype("float32")
    found = run(graph, "float16", np.zeros((4, 4), "int64"), x)
    assert np.isfinite(found).all()


def test_one_kernel_goes_on_from_one_product() -> None:
    """What another product gave goes through memory: it is rounded."""

    def gated(b: Builder, x: Value) -> Value:
        weight = b.constant(np.ones((6, 8), "float32"), "w")
        gate = b.add("swish", [b.add("dense", [x, weight])], alpha=1.0)
        both = b.add("multiply", [gate, b.add("dense", [x, weight])])
        return b.add("dense", [both, b.constant(np.ones((4, 6), "float32"), "v")])

    kinds = ops(graph_of(gated, ((2, 8), "float32")))
    assert kinds == [
        ("cast", "float16"),
        ("dense", "float32"),
        ("swish", "float32"),
        ("dense", "float32"),
        ("cast", "float16"),  # of swish
        ("cast", "float32"),
        ("multiply", "float32"),
        ("cast", "float16"),
        ("dense", "float32"),
    ]


def test_tables_are_narrow() -> None:
    """Rows that integers choose of weights have been rounded with these."""

    def taken(b: Builder, at: Value) -> Value:
        rows = b.add("take", [b.constant(np.ones((9, 4), "float32"), "table"), at], axis=0)
        return b.add("dense", [b.add("relu", [rows]), b.constant(np.ones((2, 4), "f4"), "w")])

    kinds = ops(graph_of(taken, ((3,), "int64")))
    assert kinds == [("take", "float16"), ("relu", "float16"), ("dense", "float32")]


def test_nodes_are_those_of_the_graph() -> None:
    """A node with several readers, one of which chooses: the others read it rounded."""
    x = Value("x", (2, 8), "float32")
    y, best, out = (
        Value("y", (2, 8), "float32"),
        Value("best", (2,), "int64"),
        Value("out", (2, 8), "float32"),
    )
    w = Value("w", (8, 8), "float32", np.eye(8, dtype="float32"))
    z = Value("z", (2, 8), "float32")
    how = {"type": "max", "axes": (1,), "keepdims": False, "last": False}
    nodes = [
        Node("dense", "d", [x, w], [y]),
        Node("arg", "best", [y], [best], how),
        Node("dense", "e", [y, w], [z]),
        Node("relu", "r", [z], [out]),
    ]
    kinds = ops(Graph("net", [x], [best, out], nodes))
    assert kinds == [
        ("cast", "float16"),
        ("dense", "float32"),
        ("arg", "int64"),
        ("cast", "float16"),
        ("dense", "float32"),
        ("relu", "float32"),
    ]
