"""Products of the same data are one on devices, where that takes fewer clocks; their results are
read where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.graph.test_passes import check_same, ops, results
from tilewright import graph as tg
from tilewright.graph.build import copy_graph, optimize
from tilewright.graph.ir import Graph, Node, Value, constant
from tilewright.graph.onnx.convert import Builder
from tilewright.graph.passes.siblings import merge_siblings
from tilewright.target.target import Target
from tilewright.topi.schedules.gpu.clocks import product_clocks
from tilewright.topi.schedules.gpu.machine import GpuMachine

SM80, LLVM = "cuda -arch=sm_80", "llvm"
GPU = Target(SM80)
DEVICES = [(SM80, "float32"), (SM80, "float16"), ("cuda -arch=sm_90a", "float16")]
RNG = np.random.default_rng(3)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


class Net(Builder):
    """Layers by name."""

    def dense(self, x: Value, columns: int, name: str, bias: bool = True) -> Value:
        weight = self.constant(floats(columns, x.shape[1]) / x.shape[1] ** 0.5, name)
        y = self.add("dense", [x, weight], name)
        return self.add("add", [y, self.constant(floats(columns), name + ".b")]) if bias else y

    def conv(self, x: Value, filters: int, size: int, name: str, **more: Any) -> Value:
        weight = floats(filters, x.shape[1], size, size) / (x.shape[1] * size**2) ** 0.5
        pad = (size // 2,) * 4
        how = {"strides": (1, 1), "padding": pad, "dilation": (1, 1), "groups": 1, **more}
        y = self.add("conv2d", [x, self.constant(weight, name)], name, **how)
        y = self.add("bias_add", [y, self.constant(floats(filters), name + ".b")], axis=1)
        return self.add("relu", [y])

    def graph(self, x: Value, *outputs: Value) -> Graph:
        return Graph("net", [x], outputs, self.nodes)


def merged(graph: Graph, target: Any = GPU, dtype: str = "float32") -> Graph:
    return check_same(graph, lambda g: merge_siblings(g, Target(target), dtype))


def count(graph: Graph, op: str) -> int:
    return ops(graph).count(op)


def check_on(graph: Graph, target: str, dtype: str, calls: int) -> Any:
    """A network gives what its operations do in NumPy, by so many kernels."""
    data = {v.name: floats(*v.shape) for v in graph.inputs}
    net: Any = tg.compile(graph, target, dtype=dtype)
    if target != LLVM:
        net.device = tvm.simt(0)
    off = 1e-5 if dtype == "float32" else 1e-2
    for got, want in zip(net.run(data).values(), results(graph, list(data.values()))):
        np.testing.assert_allclose(got, want, off, off * float(np.abs(want).max()))
    assert len(net.calls) == calls, net.nodes
    return net


# -- what becomes one


def heads(rows: int = 24) -> Graph:
    """Three layers with biases and an activation, each read by a further one."""
    b, x = Net(17), Value("x", (rows, 32), "float32")
    ends = []
    for k, columns in enumerate((32, 16, 48)):
        y = b.add("relu", [b.dense(x, columns, f"d{k}")])
        ends.append(b.dense(y, 16, f"e{k}"))
    return b.graph(x, b.add("add", [b.add("add", ends[:2]), ends[2]]))


def test_what_follows_alike_is_joined() -> None:
    changed = merged(heads())
    assert count(changed, "dense") == 4 and count(changed, "relu") == 1
    assert count(changed, "slice") == 3
    first = changed.nodes[0]
    assert first.op == "dense" and first.output.shape == (24, 96)


@pytest.mark.parametrize("rows", [1, 24])
@pytest.mark.parametrize(("target", "dtype"), DEVICES)
def test_readers_take_slices_where_they_lie(target: str, dtype: str, rows: int) -> None:
    """No kernel copies: a dense layer, three further ones, and what narrows the input."""
    check_on(heads(rows), target, dtype, 4 + (dtype != "float32"))


@pytest.mark.parametrize(("target", "dtype"), DEVICES)
def test_a_gate_is_one_kernel_behind_one_product(target: str, dtype: str) -> None:
    b, x = Net(17), Value("x", (20, 32), "float32")
    gate, up = (b.dense(x, 64, name, bias=False) for name in ("gate", "up"))
    y = b.add("multiply", [b.add("swish", [gate], alpha=1.0), up])
    check_on(b.graph(x, b.dense(y, 32, "down")), target, dtype, 3 + (dtype != "float32"))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("target", "dtype"), [(SM80, "float32"), (SM80, "float16")])
def test_convolutions_that_open_branches(target: str, dtype: str, batch: int) -> None:
    """The branch that ends here is written into the concatenation, if it can be; the others are
    one, and read in place by larger windows."""
    b, x = Net(17), Value("x", (batch, 16, 6, 6), "float32")
    x0 = b.conv(x, 32, 3, "first")
    short, left, right = b.conv(x0, 16, 1, "a"), b.conv(x0, 16, 1, "b"), b.conv(x0, 8, 1, "c")
    y = b.add("concat", [short, b.conv(left, 16, 3, "d"), b.conv(right, 16, 3, "e")], axis=1)
    out = b.conv(y, 16, 1, "end")
    net = b.graph(x, out)
    found = optimize(net, Target(target), dtype)
    in_place = batch == 1 and dtype == "float32"
    convs = sum(n.op in ("conv2d_nhwc", "conv_nchwc") for n in found.nodes)
    assert convs == (6 if in_place else 5)
    plain = 2  # layouts of the input and the result
    check_on(net, target, dtype, convs + plain + (not in_place))


def transformer(kv: int = 2, bias: bool = True) -> Graph:
    """Queries, keys and values with heads split off and moved, as exporters write attention."""
    heads, size, rows = 2, 16, 12
    b, x = Net(17), Value("x", (1, rows, heads * size), "float32")
    sides = []
    for name, n in (("q", heads), ("k", kv), ("v", kv)):
        flat = b.add("reshape", [x], shape=(rows, heads * size))
        weight = b.constant(floats(n * size, heads * size) / size**0.5, name)
        y = b.add("reshape", [b.add("dense", [flat, weight], name)], shape=(1, rows, n * size))
        if bias:
            y = b.add("add", [y, b.constant(floats(n * size), name + ".b")])
        y = b.add("reshape", [y], shape=(1, rows, n, size))
        y = b.add("transpose", [y], axes=(0, 2, 1, 3))
        if n < heads:
            y = b.add("broadcast_to", [y], shape=(1, heads, rows, size))
        sides.append(b.add("reshape", [y], shape=(heads, rows, size)))
    q, k, v = sides
    scores = b.add("batch_matmul", [q, b.add("transpose", [k], axes=(0, 2, 1))])
    scores = b.add("multiply", [scores, b.constant(np.float32(size**-0.5), "scale")])
    y = b.add("batch_matmul", [b.add("softmax", [scores], axis=-1), v])
    y = b.add("reshape", [y], shape=(1, heads, rows, size))
    y = b.add("reshape", [b.add("transpose", [y], axes=(0, 2, 1, 3))], shape=(rows, heads * size))
    return b.graph(x, b.dense(y, heads * size, "out"))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kv", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_attention_reads_the_joined_product(dtype: str, kv: int, bias: bool) -> None:
    """It is found as before: one product, attention, one product."""
    net = transformer(kv, bias)
    found = optimize(net, GPU, dtype)
    assert count(found, "attention") == 1 and count(found, "dense") == 2
    assert count(found, "slice") == 0
    check_on(net, SM80, dtype, 3 + (dtype != "float32"))


def test_operands_of_each_column_are_joined() -> None:
    """Scalars that differ become one number a column, those that are alike stay one."""
    b, x = Net(17), Value("x", (8, 32), "float32")
    ends = []
    for k in range(2):
        y = b.dense(x, 16, f"d{k}", bias=False)
        y = b.add("multiply", [y, b.constant(np.float32(k + 2), f"s{k}")])
        y = b.add("add", [b.constant(np.float32(0.5), f"h{k}"), y])
        ends.append(b.dense(b.add("add", [y, b.constant(floats(1, 16), f"o{k}")]), 8, f"e{k}"))
    changed = merged(b.graph(x, b.add("add", ends)))
    scale, half, more = (n.inputs for n in changed.nodes[1:4])
    assert scale[1].shape == (32,) and half[0].shape == () and more[1].shape == (32,)


def quantised() -> Graph:
    """Sums of whole numbers with scales of their own, biases, and the way back to bytes."""
    b, x = Net(17), Value("x", (12, 32), "int8")
    ends = []
    for k, columns in enumerate((16, 32)):
        weight = RNG.integers(-9, 9, (columns, 32)).astype("int8")
        y = b.add("dense", [x, b.constant(weight, f"w{k}")], out_dtype="int32")
        lost = RNG.integers(-99, 99, (columns,)).astype("int32")
        y = b.add("cast", [b.add("subtract", [y, b.constant(lost, f"l{k}")])], dtype="float32")
        scale = np.float32(0.01) if k else np.abs(floats(columns)) / 100
        y = b.add("multiply", [y, b.constant(scale, f"s{k}")])
        y = b.add("relu", [b.add("add", [y, b.constant(floats(columns), f"b{k}")])])
        step = [b.constant(np.float32(0.05), f"q{k}"), b.constant(np.int8(3), f"z{k}")]
        y = b.add("quantize", [y, *step], axis=1, block=0, dtype="int8", precision="float32")
        more = b.constant(RNG.integers(-9, 9, (8, columns)).astype("int8"), f"v{k}")
        ends.append(b.add("dense", [y, more], out_dtype="int32"))
    return b.graph(x, *ends)


def test_quantised_numbers_are_exactly_what_they_were() -> None:
    net = quantised()
    data = RNG.integers(-128, 128, (12, 32)).astype("int8")
    wanted = results(net, [data])
    changed = merge_siblings(copy_graph(net), GPU)
    assert count(changed, "dense") == 3 and count(changed, "quantize") == 1
    for got, want in zip(results(changed, [data]), wanted):
        np.testing.assert_array_equal(got, want)
    compiled: Any = tg.compile(net, SM80)
    compiled.device = tvm.simt(0)
    for got, want in zip(compiled.run({"x": data}).values(), wanted):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_numbers_of_each_column_stay(dtype: str) -> None:
    """A column is summed as before: on tensor cores in the same tiles of the reduction."""
    net = heads(32)
    data = {"x": floats(32, 32)}
    found = []
    for graph in (net, apart(net)):
        compiled: Any = tg.compile(graph, SM80, dtype=dtype)
        compiled.device = tvm.simt(0)
        found.append(np.asarray(compiled.run(data).popitem()[1]))
    np.testing.assert_array_equal(found[0], found[1])


def apart(net: Graph) -> Graph:
    """The same, with a copy of the data for each of its readers, so that there are no siblings."""
    net = copy_graph(net)
    (x,) = net.inputs
    made = []
    for k, node in enumerate(n for n in net.nodes if x in n.inputs):
        one = constant(f"one{k}", np.ones((1,) * k, "float32"))
        y = Value(f"x{k}", x.shape, x.dtype)
        made.append(Node("multiply", y.name, [x, one], [y]))
        node.inputs[0] = y
    net.nodes = [*made, *net.nodes]
    return net


def test_tensor_maps_take_slices_too() -> None:
    """Of rows further apart than they are long, that begin behind others."""
    b, x = Net(17), Value("x", (128, 64), "float32")
    wide, narrow = (b.add("relu", [b.dense(x, n, f"d{n}")]) for n in (128, 64))
    ends = [b.dense(v, 64, f"{v.name}.e") for v in (wide, narrow)]
    net = check_on(b.graph(x, b.add("add", ends)), "cuda -arch=sm_90a", "float16", 4)
    assert "tw_tma" in net.module.imported_modules[0].get_source()


def test_what_ends_within_vectors_comes_last() -> None:
    """16 float16 columns are as many bytes as an array may begin at, 8 are half of them: one such
    slice is last, a second one stays apart. What reads the first of them may come before others."""
    b, x = Net(17), Value("x", (24, 32), "float32")
    ends = [b.add("sin", [b.dense(x, n, f"d{k}")]) for k, n in enumerate((8, 16, 8, 32))]
    ends = [b.dense(v, 16, f"{v.name}.e") for v in ends]
    net = b.graph(x, b.add("add", [b.add("add", ends[:2]), b.add("add", ends[2:])]))
    found = merge_siblings(copy_graph(net), GPU, "float16")
    parts = [n for n in found.nodes if n.op == "slice"]
    assert [(n.attrs["begin"][1], n.attrs["end"][1]) for n in parts] == [
        (0, 16),
        (16, 48),
        (48, 56),
    ]
    merged(net, GPU, "float16")


# -- tied weights


def test_layers_that_share_weights_share_the_joined_ones() -> None:
    b, x = Net(17), Value("x", (16, 32), "float32")
    weights = [b.constant(floats(32, 32) / 6, name) for name in "qk"]
    y = x
    for _ in range(3):
        q, k = (b.add("dense", [y, w]) for w in weights)
        y = b.add("multiply", [b.add("sin", [q]), k])
    changed = merged(b.graph(x, b.dense(y, 8, "end")))
    assert count(changed, "dense") == 4
    assert len({n.inputs[1] for n in changed.nodes if n.op == "dense"}) == 2


def test_weights_that_others_read_stay_as_they_are() -> None:
    """Joined, there would be two copies of them."""
    b, x = Net(17), Value("x", (16, 32), "float32")
    weights = [b.constant(floats(32, 32) / 6, name) for name in "qk"]
    q, k = (b.add("dense", [x, w]) for w in weights)
    y = b.add("multiply", [b.add("sin", [q]), k])
    out = b.add("dense", [y, weights[0]])
    changed = merged(b.graph(x, b.add("relu", [out])))
    assert count(changed, "dense") == 3 and "slice" not in ops(changed)


# -- what stays


def lone(kind: str) -> Graph:
    """Two products that look alike, and are no siblings for one reason each."""
    b, x = Net(17), Value("x", (16, 32), "float32")
    image = Value("image", (1, 16, 8, 8), "float32")
    inputs = [x]

    def both(first: Value, second: Value) -> Value:
        ends = [b.add("sin", [b.dense(v, 8, f"{v.name}.e")]) for v in (first, second)]
        return b.add("add", ends)

    if kind == "a weight is an input":
        inputs.append(Value("w", (16, 32), "float32"))
        out = both(b.dense(x, 16, "a"), b.add("dense", inputs))
    elif kind == "other steps":
        half = b.add("reshape", [x], shape=(32, 16))
        second = b.add("reshape", [b.dense(half, 16, "b")], shape=(16, 32))
        out = both(b.dense(x, 16, "a"), second)
    elif kind == "rows of slices begin within vectors":
        out = both(b.dense(x, 13, "a"), b.dense(x, 13, "b"))
    elif kind == "the other layout":
        weight = b.constant(floats(32, 16), "b")
        out = both(b.dense(x, 16, "a"), b.add("matmul", [x, weight]))
    elif kind == "outputs":
        return b.graph(x, b.dense(x, 16, "a"), b.dense(x, 16, "b"))
    elif kind == "outputs behind more":
        return b.graph(x, *(b.add("sin", [b.dense(x, 16, n)]) for n in "ab"))
    elif kind == "written in place":
        ends = [b.dense(x, 16, n) for n in "ab"]
        first = [b.add("reshape", [y], shape=(1, 256)) for y in ends]
        out = b.add("softmax", [b.add("concat", first, axis=1)], axis=1)
    else:
        inputs = [image]
        others: dict[str, dict[str, Any]] = {
            "other windows": {"size": 3},
            "other strides": {"size": 1, "strides": (2, 2)},
            "other padding": {"size": 1, "padding": (1, 1, 1, 1)},
            "groups": {"size": 1},
        }
        other = others[kind]
        size = other.pop("size")
        ends = [b.conv(image, 16, 1, "a")]
        if kind == "groups":
            weight = b.constant(floats(16, 8, 1, 1), "b")
            how: Any = {"strides": (1, 1), "padding": (0,) * 4, "dilation": (1, 1), "groups": 2}
            ends.append(b.add("relu", [b.add("conv2d", [image, weight], **how)]))
        else:
            ends.append(b.conv(image, 16, size, "b", **other))
        tops = [b.add("global_pool", [y], type="avg") for y in ends]
        out = b.add("multiply", tops)
    return Graph("net", inputs, [b.add("relu", [out])], b.nodes)


@pytest.mark.parametrize(
    "kind",
    [
        "a weight is an input",
        "other steps",
        "rows of slices begin within vectors",
        "the other layout",
        "outputs",
        "outputs behind more",
        "written in place",
        "other windows",
        "other strides",
        "other padding",
        "groups",
    ],
)
def test_what_stays_apart(kind: str) -> None:
    net = lone(kind)
    assert ops(merged(net)) == ops(net)


@pytest.mark.parametrize("kind", ["sort", "rows apart"])
def test_copies_weigh_against_it(kind: str) -> None:
    """A reader that takes no steps, or takes rows apart, has a copy made: a kernel more each."""

    def net(columns: int) -> Graph:
        b, x = Net(17), Value("x", (4, 32), "float32")
        ends = []
        for n in "ab":
            y = b.dense(x, columns, n)
            if kind == "sort":
                y = b.add("topk_places", [y], k=4, axis=1, largest=True)
            else:
                y = b.add("softmax", [b.add("reshape", [y], shape=(columns, 4))], axis=0)
            ends.append(y)
        return b.graph(x, b.add("add", ends))

    assert "slice" not in ops(merged(net(16)))


def test_what_is_one_already_stays() -> None:
    changed = merged(heads())
    assert ops(merged(changed)) == ops(changed)


def test_cpus_have_products_apart() -> None:
    assert count(optimize(heads(), Target(LLVM)), "dense") == 6


# -- where it pays


def gate(rows: int, columns: int) -> Graph:
    b, x = Net(17), Value("x", (rows, 64), "float32")
    weights = [constant(n, np.broadcast_to(np.float32(1), (columns, 64))) for n in ("g", "u")]
    g, u = (b.add("dense", [x, w]) for w in weights)
    y = b.add("multiply", [b.add("swish", [g], alpha=1.0), u])
    return b.graph(x, b.add("reduce", [y], type="sum", axes=[1], keepdims=False))


@pytest.mark.parametrize(
    ("rows", "columns", "pays"),
    [
        (64, 1024, True),  # two kernels that leave most multiprocessors without work
        (27 * 128, 8 * 128, False),  # each makes two rounds on 108, and nothing is left
    ],
)
def test_a_device_that_is_full_has_nothing_to_gain(rows: int, columns: int, pays: bool) -> None:
    """What the gate is followed by alone would be a kernel more, and its sums go to memory."""
    target = Target(f"{SM80} -multi_processor_count=108")
    changed = merge_siblings(gate(rows, columns), target, "float16")
    assert count(changed, "dense") == (1 if pays else 2)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("rows", [1, 16, 128, 1024])
def test_wider_products_take_longer(arch: str, kind: str, rows: int) -> None:
    machine = GpuMachine.of(Target(f"cuda -arch={arch}"))
    for steps, columns in ((64, 64), (768, 768), (4096, 1024)):
        shapes = [(rows, n * columns, steps) for n in (1, 3, 6)]
        clocks = [product_clocks(shape, (kind, "float32"), machine) for shape in shapes]
        assert clocks == sorted(clocks)
