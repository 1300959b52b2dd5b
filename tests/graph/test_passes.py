"""Each pass by itself: what it rewrites, and that results stay."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
from tilewright.base import config
from tilewright.base.aligned import ALIGNMENT
from tilewright.base.dtype import parse
from tilewright.graph import build
from tilewright.graph.build import copy_graph, flops, optimize
from tilewright.graph.evaluate import evaluate
from tilewright.graph.ir import Graph, Node, Value, constant
from tilewright.graph.onnx.convert import Builder
from tilewright.graph.passes.block_channels import block_channels
from tilewright.graph.passes.fuse import fuse_nodes
from tilewright.graph.passes.memory import plan_memory
from tilewright.graph.passes.pack_dense import pack_dense
from tilewright.graph.passes.simplify import (
    drop_identities,
    fold_batch_norm,
    fold_constants,
    merge_equal,
    multiply_powers,
)
from tilewright.graph.passes.winograd import winograd
from tilewright.graph.tuned import is_complex
from tilewright.target.target import Target

RNG = np.random.default_rng(5)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def results(graph: Graph, inputs: Any) -> list[Any]:
    """Outputs of a graph, node by node in NumPy."""
    known = {v: constant(v.name, x) for v, x in zip(graph.inputs, inputs)}
    for node in graph.nodes:
        data = evaluate(node.op, [known.get(v, v) for v in node.inputs], node.attrs)
        known[node.output] = constant(node.output.name, data)
    return [known.get(v, v).data for v in graph.outputs]


def check_same(graph: Graph, change: Any, atol: float = 1e-4) -> Graph:
    """`change` on a copy keeps the results and the names; returns the copy."""
    inputs = [floats(*v.shape) for v in graph.inputs]
    expected = results(graph, inputs)
    changed = change(copy_graph(graph))
    for got, wanted in zip(results(changed, inputs), expected):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=atol)
    assert [v.name for v in changed.outputs] == [v.name for v in graph.outputs]
    return changed


def ops(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


CONV = {"strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}


def conv_net(filters: int = 16, channels: int = 8, bias: bool = False) -> tuple[Builder, Any, Any]:
    b = Builder(17)
    x = Value("x", (1, channels, 5, 6), "float32")
    y = b.add("conv2d", [x, b.constant(floats(filters, channels, 3, 3), "w")], "conv", **CONV)
    if bias:
        y = b.add("bias_add", [y, b.constant(floats(filters), "b")], "bias", axis=1)
    return b, x, y


def test_what_is_computed_alike_is_computed_once() -> None:
    """Also what becomes alike so; not what has other attributes or another order of operands; and
    outputs stay."""
    b = Builder(17)
    x = Value("x", (4, 6), "float32")
    p, q, r = (b.add("softmax", [x], n, axis=a) for n, a in (("p", 1), ("q", 1), ("r", 0)))
    u, v = b.add("subtract", [p, r], "u"), b.add("subtract", [q, r], "v")
    w = b.add("subtract", [r, q], "w")
    out = b.add("add", [b.add("multiply", [u, v], "m"), w], "y")
    twin = b.add("add", [b.add("multiply", [u, u], "n"), w], "z")
    graph = Graph("alike", [x], [out, twin], b.nodes)
    changed = check_same(graph, merge_equal)
    assert ops(changed) == ["softmax", "softmax", "subtract", "subtract", "multiply", "add", "add"]


def test_fold_constants() -> None:
    x, y = Value("x", (3,), "float32"), Value("y", (3,), "float32")
    two, s = constant("two", floats(3)), Value("s", (3,), "float32")
    nodes = [Node("exp", "e", [two], [s]), Node("add", "a", [x, s], [y])]
    changed = check_same(Graph("g", [x], [y], nodes), fold_constants)
    assert ops(changed) == ["add"]


@pytest.mark.parametrize("bias", [False, True])
def test_fold_batch_norm(bias: bool) -> None:
    b, x, y = conv_net(bias=bias)
    scale, shift = b.constant(floats(16), "scale"), b.constant(floats(16), "shift")
    y = b.add("scale_shift", [y, scale, shift], "bn", axis=1)
    changed = check_same(Graph("g", [x], [y], b.nodes), fold_batch_norm)
    assert ops(changed) == ["conv2d", "bias_add"]


def test_batch_norm_stays_where_the_convolution_is_read_twice() -> None:
    b, x, c = conv_net()
    scale, shift = b.constant(floats(16), "scale"), b.constant(floats(16), "shift")
    y = b.add("add", [b.add("scale_shift", [c, scale, shift], "bn", axis=1), c], "y")
    changed = check_same(Graph("g", [x], [y], b.nodes), fold_batch_norm)
    assert ops(changed) == ["conv2d", "scale_shift", "add"]


def test_batch_norm_stays_where_the_convolution_is_an_output() -> None:
    b, x, c = conv_net()
    scale, shift = b.constant(floats(16), "scale"), b.constant(floats(16), "shift")
    y = b.add("scale_shift", [c, scale, shift], "bn", axis=1)
    check_same(Graph("g", [x], [y, c], b.nodes), fold_batch_norm)


def test_drop_identities() -> None:
    b = Builder(17)
    x = Value("x", (2, 3), "float32")
    y = b.add("reshape", [b.add("exp", [x])], shape=(2, 3))
    y = b.add("cast", [b.add("transpose", [y], axes=(0, 1))], dtype="float32")
    kept = b.add("transpose", [y], "y", axes=(1, 0))
    changed = check_same(Graph("g", [x], [kept], b.nodes), drop_identities)
    assert ops(changed) == ["exp", "transpose"]


@pytest.mark.parametrize("filters, channels", [(16, 8), (16, 16), (30, 16), (17, 3), (32, 20)])
def test_block_channels(filters: int, channels: int) -> None:
    b, x, y = conv_net(filters, channels, bias=True)
    y = b.add("relu", [y], "r")
    pool = {"kernel": (2, 2), "strides": (2, 2), "padding": (0, 0, 0, 0), "dilation": (1, 1)}
    y = b.add("pool2d", [y], "p", type="max", ceil_mode=False, count_include_pad=False, **pool)
    again = b.constant(floats(16, filters, 3, 3), "w2")
    y = b.add("conv2d", [y, again], "conv2", **CONV)
    y = b.add("sigmoid", [y], "y")
    changed = check_same(Graph("g", [x], [y], b.nodes), lambda g: block_channels(g, 16))
    first = "pack_channels" if channels == 16 else "reshape"  # of planes, as they lie
    expected = [first, "conv_nchwc", "bias_add", "relu", "pool2d", "conv_nchwc", "sigmoid",
                "unpack_channels"]  # fmt: skip
    if filters == 17:  # a block with one filter would be wasted
        expected = ["conv2d", "bias_add", "relu", "pool2d", "reshape", *expected[-3:]]
    assert ops(changed) == expected


@pytest.mark.parametrize("filters, channels", [(1, 16), (3, 30), (7, 48)])
def test_few_filters_read_blocks_of_channels(filters: int, channels: int) -> None:
    b, x, y = conv_net(channels, 16)
    y = b.add("relu", [y], "r")
    few = b.constant(floats(filters, channels, 3, 3), "few")
    y = b.add("tanh", [b.add("conv2d", [y, few], "conv2", **CONV)], "t")
    again = b.constant(floats(16, filters, 3, 3), "again")
    z = b.add("conv2d", [y, again], "z", **CONV)
    graph = Graph("g", [x], [y, z], b.nodes)
    changed = check_same(graph, lambda g: block_channels(g, 16, (), 7))
    first = ["pack_channels", "conv_nchwc", "relu", "conv_nchwc", "unpack_channels", "tanh"]
    assert ops(changed) == [*first, "reshape", "conv_nchwc", "unpack_channels"]
    assert block_channels(copy_graph(graph), 16).nodes[-1].op == "unpack_channels"


@pytest.mark.parametrize("least, filters, blocks", [(5, 4, 0), (5, 8, 1), (0, 4, 1)])
def test_fewer_filters_than_some_are_left_as_they_are(
    least: int, filters: int, blocks: int
) -> None:
    b, x, y = conv_net(32, 16)
    w = b.constant(floats(filters, 32, 3, 3), "few")
    z = b.add("conv2d", [b.add("relu", [y], "r"), w], "z", **CONV)
    graph = Graph("g", [x], [z], b.nodes)
    changed = check_same(graph, lambda g: block_channels(g, 4, least=least))
    assert ops(changed).count("conv_nchwc") == 1 + blocks


@pytest.mark.parametrize("channels", [3, 8, 17])
def test_few_channels_fill_up_the_groups_of_a_dot_product(channels: int) -> None:
    b = Builder(17)
    x = Value("x", (2, channels, 9, 8), "uint8")
    weight = b.constant(RNG.integers(-128, 128, (16, channels, 3, 3), "int8"), "w")
    y = b.add("conv2d", [x, weight], "y", **{**CONV, "out_dtype": "int32"})
    graph = Graph("g", [x], [y], b.nodes)
    inputs = [RNG.integers(0, 256, x.shape, "uint8")]
    (wanted,) = results(graph, inputs)
    dots = Target("llvm -mcpu=icelake-server").capabilities.dots
    changed = block_channels(copy_graph(graph), 16, dots)
    (got,) = results(changed, inputs)
    np.testing.assert_array_equal(got, wanted)
    first = ["pack_channels"] if channels == 8 else ["pad", "pack_channels"]
    assert ops(changed) == [*first, "conv_nchwc", "unpack_channels"]
    packed = next(n for n in changed.nodes if n.op == "conv_nchwc").inputs[1].shape
    assert packed[3:] == {3: (3, 1, 16, 4), 8: (3, 2, 16, 4), 17: (3, 4, 16, 4)}[channels]


@pytest.mark.parametrize(
    ("filters", "channels", "groups"), [(32, 32, 2), (96, 48, 3), (32, 64, 2), (64, 64, 2)]
)
def test_groups_of_whole_blocks_are_blocked(filters: int, channels: int, groups: int) -> None:
    b, x, y = conv_net(channels, 16)
    weight = b.constant(floats(filters, channels // groups, 3, 3) / 16, "grouped")
    y = b.add("conv2d", [y, weight], "g", **{**CONV, "groups": groups, "strides": (2, 1)})
    y = b.add("relu", [y], "y")
    graph = Graph("g", [x], [y], b.nodes)
    changed = check_same(graph, lambda g: block_channels(g, 16))
    assert ops(changed) == ["pack_channels", "conv_nchwc", "conv_nchwc", "relu", "unpack_channels"]
    data = floats(*x.shape)
    (wanted,) = results(graph, [data])
    for target in ("llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2"):
        got = tilewright.compile(copy_graph(graph), target)(data)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


TURNED = [("icelake-server", "int8"), ("cortex-a76 -mtriple=aarch64-linux-gnu", "uint8")]


@pytest.mark.parametrize(("cpu", "dtype"), TURNED)
@pytest.mark.parametrize(("padding", "channels"), [((1, 2, 0, 1), 19), ((0, 0, 0, 0), 16)])
def test_bytes_of_the_other_sign_are_turned(
    cpu: str, dtype: str, padding: tuple[int, ...], channels: int
) -> None:
    """Padding too, which is 0 in sums."""
    b, info = Builder(17), np.iinfo(dtype)
    x = Value("x", (2, channels, 9, 8), dtype)
    weight = b.constant(RNG.integers(-128, 128, (32, channels, 3, 3), "int8"), "w")
    attrs = {**CONV, "padding": padding, "out_dtype": "int32"}
    graph = Graph("g", [x], [b.add("conv2d", [x, weight], "y", **attrs)], b.nodes)
    inputs = [RNG.integers(info.min, info.max + 1, x.shape, dtype)]
    inputs[0][0] = info.min
    changed = block_channels(copy_graph(graph), 16, Target(f"llvm -mcpu={cpu}").capabilities.dots)
    assert "bitwise_xor" in ops(changed)
    (wanted,), (got,) = results(graph, inputs), results(changed, inputs)
    np.testing.assert_array_equal(got, wanted)
    assert next(n for n in changed.nodes if n.op == "conv_nchwc").inputs[1].shape[-1] == 4


@pytest.mark.parametrize(("groups", "each"), [(2, 16), (4, 8), (8, 4)])
def test_groups_of_bytes_are_blocked_for_dot_products(groups: int, each: int) -> None:
    """Some groups together, where they are smaller than a block."""
    b = Builder(17)
    x = Value("x", (2, 32, 9, 8), "uint8")
    weight = b.constant(RNG.integers(-128, 128, (32, each, 3, 3), "int8"), "w")
    y = b.add("conv2d", [x, weight], "y", **{**CONV, "groups": groups, "out_dtype": "int32"})
    graph = Graph("g", [x], [y], b.nodes)
    dots = Target("llvm -mcpu=icelake-server").capabilities.dots
    changed = block_channels(copy_graph(graph), 16, dots)
    inputs = [RNG.integers(0, 256, x.shape, "uint8")]
    (wanted,), (got,) = results(graph, inputs), results(changed, inputs)
    np.testing.assert_array_equal(got, wanted)
    assert next(n for n in changed.nodes if n.op == "conv_nchwc").inputs[1].shape[-1] == 4


MOVES: list[tuple[str, dict[str, Any], bool]] = [
    ("pad", {"before": [0, 0, 1, 0], "after": [0, 0, 2, 3], "value": 2.0}, True),
    ("pad", {"before": [1, 0, 0, 0], "after": [0, 0, 0, 1], "value": 0}, True),
    ("pad", {"before": [0, 1, 0, 0], "after": [0, -1, 0, 0], "value": 0}, False),
    ("pad", {"before": [0, 0, 1, 0], "after": [0, 0, 0, 0], "value": float("inf")}, False),
    ("mirror_pad", {"before": [0, 0, 2, 1], "after": [0, 0, 1, 2], "mode": "REFLECT"}, True),
    ("slice", {"begin": [0, 0, 1, 0], "end": [1, 30, 5, 6], "strides": [1, 1, 2, 1]}, True),
    ("slice", {"begin": [0, 0, 4, 0], "end": [1, 30, -1, 6], "strides": [1, 1, -1, 1]}, True),
    ("slice", {"begin": [0, 29, 0, 0], "end": [1, -1, 5, 6], "strides": [1, -1, 1, 1]}, False),
    ("slice", {"begin": [0, 3, 0, 0], "end": [1, 20, 5, 6], "strides": [1, 1, 1, 1]}, False),
    ("slice", {"begin": [0, 16, 1, 0], "end": [1, 30, 5, 6], "strides": [1, 1, 1, 1]}, True),
    ("slice", {"begin": [0, 0, 0, 0], "end": [1, 16, 5, 6], "strides": [1, 1, 1, 2]}, True),
    ("reshape", {"shape": (1, 30, 1, 30)}, True),
    ("reshape", {"shape": (1, 15, 10, 6)}, False),
    ("take", {"axis": 2}, True),
    ("take", {"axis": -1}, True),
    ("take", {"axis": 1}, False),
    ("resample", {"axis": 3}, True),
    ("resample", {"axis": 1}, False),
]


@pytest.mark.parametrize(("op", "attrs", "stays"), MOVES)
def test_pixels_are_moved_in_blocks(op: str, attrs: dict[str, Any], stays: bool) -> None:
    b, x, y = conv_net(30, 16)  # two channels fill the last block
    inputs = [b.add("relu", [y], "r")]
    if op in ("take", "resample"):
        places = np.array([4, 0, 0, 3], np.int32)
        table = places if op == "take" else np.stack([places, places[::-1]], 1)
        inputs.append(b.constant(table, "places"))
    if op == "resample":
        inputs.append(b.constant(floats(4, 2), "weights"))
    y = b.add(op, inputs, "moved", **attrs)
    # sums of about 1, so that those near 0 are no small rest of large ones
    again = b.constant(floats(16, y.shape[1], 3, 3) / 64, "again")
    y = b.add("conv2d", [y, again], "y", **CONV)
    changed = check_same(Graph("g", [x], [y], b.nodes), lambda g: block_channels(g, 16))
    assert ("unpack_channels" in ops(changed)[:-1]) != stays
    target = "llvm -mcpu=skylake-avx512"
    data, graph = floats(*x.shape), Graph("g", [x], [y], b.nodes)
    got = tilewright.compile(copy_graph(graph), target)(data)
    np.testing.assert_allclose(got, results(graph, [data])[0], rtol=1e-4, atol=1e-4)


def test_groups_of_less_than_a_block_stay_plain() -> None:
    b = Builder(17)
    x = Value("x", (1, 16, 5, 5), "float32")
    weight = b.constant(floats(16, 2, 3, 3), "w")
    y = b.add("conv2d", [x, weight], "y", **{**CONV, "groups": 8})
    changed = check_same(Graph("g", [x], [y], b.nodes), lambda g: block_channels(g, 16))
    assert ops(changed) == ["conv2d"]


def test_depthwise_convolutions_are_blocked() -> None:
    b, x, y = conv_net(30, 16, bias=True)  # padded to 32 channels
    weight = b.constant(floats(30, 1, 3, 3), "w2")
    y = b.add("conv2d", [y, weight], "y", **{**CONV, "groups": 30})
    changed = check_same(Graph("g", [x], [y], b.nodes), lambda g: block_channels(g, 16))
    expected = ["pack_channels", "conv_nchwc", "bias_add", "depthwise_nchwc", "unpack_channels"]
    assert ops(changed) == expected
    alone = Value("x", (1, 20, 5, 5), "float32")
    b = Builder(17)
    y = b.add(
        "conv2d", [alone, b.constant(floats(20, 1, 3, 3), "w")], "y", **{**CONV, "groups": 20}
    )
    changed = check_same(Graph("g", [alone], [y], b.nodes), lambda g: block_channels(g, 16))
    assert ops(changed) == ["conv2d"]


def wide(height: int, channels: int, kernel: int = 3, **changed: Any) -> Graph:
    """A convolution from and to as many channels, with what follows it."""
    b = Builder(17)
    x = Value("x", (1, channels, height, height + 1), "float32")
    weights = b.constant(floats(channels, channels, kernel, kernel) / 16, "w")
    y = b.add("conv2d", [x, weights], "conv", **{**CONV, **changed})
    y = b.add("bias_add", [y, b.constant(floats(channels), "b")], "bias", axis=1)
    y = b.add("relu", [y], "relu")
    return Graph("g", [x], [y], b.nodes)


@pytest.mark.parametrize(("height", "channels", "tile"), [(27, 64, 4), (13, 256, 2)])
def test_winograd(height: int, channels: int, tile: int) -> None:
    changed = check_same(
        wide(height, channels), lambda g: winograd(block_channels(g, 16)), atol=1e-3
    )
    names = ["winograd_input", "winograd_product", "winograd_output"]
    assert ops(changed) == ["pack_channels", *names, "bias_add", "relu", "unpack_channels"]
    assert changed.nodes[1].attrs["tile"] == tile
    groups = [[n.op for n in g.nodes] for g in fuse_nodes(changed)]
    assert [names[2], "bias_add", "relu"] in groups and [names[1]] in groups
    assert [is_complex(g) for g in fuse_nodes(changed) if g.nodes[0].op in names] == [
        *(False, True, False)
    ]


@pytest.mark.parametrize("stride", [1, 2])
def test_winograd_in_the_last_two_of_three_dimensions(stride: int) -> None:
    b = Builder(17)
    x = Value("x", (2, 32, 5, 17, 18), "float32")
    how: dict[str, Any] = {
        "strides": (stride, 1, 1),
        "dilation": (1, 1, 1),
        "padding": (0, 1, 1, 1, 0, 1),
    }
    y = b.add("conv_nd", [x, b.constant(floats(64, 32, 3, 3, 3) / 16, "w")], groups=1, **how)
    y = b.add("relu", [y])
    pool: dict[str, Any] = {
        "kernel": (1, 2, 2),
        "strides": (1, 2, 2),
        "dilation": (1, 1, 1),
        "padding": (0,) * 6,
    }
    flags: dict[str, Any] = {"ceil_mode": False, "count_include_pad": True, "p": 2.0}
    y = b.add("pool_nd", [y], type="max", **pool, **flags)
    y = b.add("reduce", [y], "y", axes=(2, 3, 4), keepdims=True, type="mean")
    graph = Graph("g", [x], [y], b.nodes)
    changed = check_same(graph, lambda g: winograd(block_channels(g, 16)))
    names = ["winograd_input", "winograd_product", "winograd_output"]
    expected = ["pack_channels", *names, "relu", "pool_nd", "reduce", "unpack_channels"]
    assert ops(changed) == expected
    inputs = [floats(*x.shape)]
    (wanted,) = results(graph, inputs)
    got = build.compile(graph, "llvm")(inputs[0])
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    assert flops(graph) == 2 * 2 * 64 * 32 * 27 * 16 * 18 * (4 if stride == 1 else 2)


@pytest.mark.parametrize(
    ("height", "channels", "changed"),
    [
        (28, 64, {"strides": (2, 2)}),
        (28, 64, {"dilation": (2, 2)}),
        (28, 64, {"kernel": 5}),
        (7, 512, {}),  # filters of 16 MB for 49 pixels
        (8, 16, {}),
    ],
)
def test_convolutions_that_winograd_leaves_alone(
    height: int, channels: int, changed: dict[str, Any]
) -> None:
    graph = winograd(block_channels(wide(height, channels, **changed), 16))
    assert "conv_nchwc" in ops(graph)


def test_winograd_is_an_option() -> None:
    graph = wide(28, 64)
    assert "winograd_product" in ops(optimize(graph, Target("llvm")))
    with config.scoped(winograd=False):
        assert "winograd_product" not in ops(optimize(graph, Target("llvm")))
    assert "winograd_product" not in ops(optimize(graph, Target("llvm"), "float16"))
    assert "winograd_product" not in ops(optimize(graph, Target("opencl -device=mali")))


@pytest.mark.parametrize("columns", [1, 16, 17, 40])
def test_pack_dense(columns: int) -> None:
    b = Builder(17)
    x = Value("x", (3, 7), "float32")
    y = b.add("dense", [x, b.constant(floats(columns, 7), "w")], "y")
    changed = check_same(Graph("g", [x], [y], b.nodes), lambda g: pack_dense(g, 16))
    assert ops(changed)[0] == "dense_packed"
    assert ("slice" in ops(changed)) == (columns % 16 != 0)


def test_fuse_puts_what_follows_an_anchor_into_its_group() -> None:
    """Two branches that meet again join it; with one that is an output, neither does."""
    b, x, c = conv_net(bias=True)
    branch = b.add("relu", [c])
    y = b.add("add", [branch, b.add("exp", [c])], "y")
    (group,) = fuse_nodes(Graph("g", [x], [y], b.nodes))
    assert group.name == "conv2d_bias_add_exp_relu_add"
    groups = fuse_nodes(Graph("g", [x], [y, branch], b.nodes))
    assert groups[0].name == "conv2d_bias_add"
    assert sum(len(g.nodes) for g in groups) == len(b.nodes)


def test_what_reads_a_value_and_its_conversion_at_several_places_joins_what_made_it() -> None:
    """As an activation of half precision whose powers are computed in float32."""
    b, x, c = conv_net(bias=True)
    half = b.add("cast", [c], dtype="float16")
    wide = b.add("cast", [half], dtype="float32")
    cube = b.add("multiply", [b.add("multiply", [wide, wide]), wide])
    y = b.add("multiply", [b.add("cast", [b.add("tanh", [cube])], dtype="float16"), half], "y")
    graph = Graph("g", [x], [y], b.nodes)
    names = "conv2d_bias_add_cast_cast_multiply_multiply_tanh_cast_multiply"
    assert [g.name for g in fuse_nodes(graph)] == [names]
    groups = fuse_nodes(Graph("g", [x], [y, half], b.nodes))
    assert [len(g.nodes) for g in groups] == [3, 6]
    v = b.add("abs", [x])
    z = b.add("add", [b.add("multiply", [v, v]), v], "z")
    (alone,) = fuse_nodes(Graph("g", [x], [z], b.nodes[-3:]))
    assert alone.name == "abs_multiply_add"


def test_branches_of_another_shape_stay_kernels_of_their_own() -> None:
    """What is broadcast would be computed once for each row."""
    b = Builder(17)
    x, row = Value("x", (8, 4), "float32"), Value("row", (4,), "float32")
    y = b.add("add", [b.add("exp", [x]), b.add("exp", [row])], "y")
    groups = fuse_nodes(Graph("g", [x, row], [y], b.nodes))
    assert sorted(g.name for g in groups) == ["exp", "exp_add"]


@pytest.mark.parametrize(("power", "products"), [(2.0, 1), (3.0, 2), (2.5, 0)])
def test_small_powers_are_products(power: float, products: int) -> None:
    x, y = Value("x", (5, 7), "float32"), Value("y", (5, 7), "float32")
    exponent = constant("p", np.array(power, np.float32))
    graph = Graph("g", [x], [y], [Node("power", "n", [x, exponent], [y])])
    positive = copy_graph(graph)
    data = np.abs(floats(5, 7))
    changed = multiply_powers(positive)
    assert ops(changed).count("multiply") == products
    np.testing.assert_allclose(results(changed, [data])[0], data**power, rtol=1e-5)


def test_a_quotient_that_only_erf_reads_is_a_product() -> None:
    b = Builder(17)
    x = Value("x", (5, 7), "float32")
    quotient = b.add("divide", [x, b.constant(np.array(3, np.float32), "c")])
    y = b.add("erf", [quotient], "y")
    assert ops(check_same(Graph("g", [x], [y], b.nodes), multiply_powers)) == ["multiply", "erf"]
    kept = check_same(Graph("g", [x], [y, quotient], b.nodes), multiply_powers)
    assert ops(kept) == ["divide", "erf"]


def test_flops() -> None:
    b, x, y = conv_net(filters=16, channels=8)
    assert flops(Graph("g", [x], [y], b.nodes)) == 2 * 16 * 5 * 6 * 8 * 9


@st.composite
def random_graphs(draw: Any) -> Graph:
    """Element-wise nodes, reshapes and reductions over earlier values."""
    b = Builder(17)
    x = Value("x", (draw(st.integers(1, 5)), draw(st.integers(1, 40))), "float32")
    values = [x]
    for k in range(draw(st.integers(1, 25))):
        v = draw(st.sampled_from(values[-6:]))
        kind = draw(st.sampled_from(["relu", "add", "reshape", "softmax", "reduce", "concat"]))
        if kind == "add":
            same = [u for u in values if u.shape == v.shape]
            out = b.add("add", [v, draw(st.sampled_from(same))], f"n{k}")
        elif kind == "reshape":
            out = b.add("reshape", [v], f"n{k}", shape=tuple(reversed(v.shape)))
        elif kind == "reduce":
            out = b.add("reduce", [v], f"n{k}", type="sum", axes=[1], keepdims=True)
        elif kind == "concat" and v.nbytes < 4096:
            out = b.add("concat", [v, v], f"n{k}", axis=0)
        else:
            attrs = {"axis": 1} if kind == "softmax" else {}
            out = b.add(kind if kind == "softmax" else "relu", [v], f"n{k}", **attrs)
        values.append(out)
    chosen = draw(st.sets(st.sampled_from(values[1:]), min_size=1, max_size=3))
    graph = Graph("random", [x], [v for v in values if v in chosen], b.nodes)
    graph.drop_dead_nodes()
    return graph


@settings(max_examples=80, deadline=None)
@given(random_graphs())
def test_groups_run_in_order_and_live_values_never_overlap(graph: Graph) -> None:
    groups = fuse_nodes(graph)
    assert sorted(n.name for g in groups for n in g.nodes) == sorted(n.name for n in graph.nodes)
    ready = {*graph.inputs}
    for g in groups:
        assert all(v in ready or v.is_constant for v in g.inputs)
        ready.add(g.output)
    assert ready.issuperset(graph.outputs)
    offsets, size = plan_memory(graph, groups)
    last = {v: k for k, g in enumerate(groups) for v in g.inputs}
    live: dict[Value, int] = {}
    for k, g in enumerate(groups):
        live = {v: at for v, at in live.items() if last[v] >= k}
        if g.output in offsets:
            start = offsets[g.output]
            end = start + int(np.prod(g.output.shape)) * parse(g.output.dtype).nbytes
            assert start % ALIGNMENT == 0
            assert end <= size
            for other, at in live.items():
                assert end <= at or at + other.nbytes <= start, (g.output, other)
            if g.output in last:
                live[g.output] = start
    assert all(v in offsets or v in graph.outputs for g in groups for v in [g.output])


def test_a_line_is_padded() -> None:
    """It has no channels that could be in blocks."""
    b = Builder(17)
    x = Value("x", (17,), "int16")
    y = b.add("pad", [x], "y", before=[1], after=[0], value=0)
    found: Any = build.compile(Graph("g", [x], [y], b.nodes)).run(
        {"x": np.arange(17, dtype=np.int16)}
    )
    np.testing.assert_array_equal(found["y"], [0, *range(17)])
