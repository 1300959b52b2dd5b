"""What only moves elements: chains of moves that are one or none, rolls, writes along a dimension,
views of inputs and outputs. Small whole numbers, compared bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tvm
from tests.graph.test_passes import check_same, ops, results
from tilewright import graph as tg
from tilewright.graph.build import prepare
from tilewright.graph.ir import Graph, Value
from tilewright.graph.onnx.convert import Builder
from tilewright.graph.passes.channels_last import channels_last
from tilewright.graph.passes.find_rolls import find_rolls
from tilewright.graph.passes.join_moves import join_moves
from tilewright.graph.passes.reshapes import narrow_first
from tilewright.target.target import Target

SM80 = "cuda -arch=sm_80"
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
CONV: Any = {"strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}


def whole(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).integers(-8, 8, shape).astype("float32")


def check_on(graph: Graph, target: str, calls: int, dtype: str = "float32", **more: Any) -> None:
    """A network gives what its operations do in NumPy, by so many kernels."""
    data = {v.name: more.get(v.name, whole(*v.shape)) for v in graph.inputs}
    net: Any = tg.compile(graph, target, dtype=dtype)
    if target != "llvm":
        net.device = tvm.simt(0)
    for got, want in zip(net.run(data).values(), results(graph, list(data.values()))):
        np.testing.assert_array_equal(got, want)
    assert len(net.calls) == calls


@st.composite
def chains(draw: Any) -> Graph:
    """A value moved several times, and what lies between as outputs now and then."""
    b = Builder(17)
    x = Value(
        "x", draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)), "int32"
    )
    values = [x]
    for _ in range(draw(st.integers(1, 6))):
        v = draw(st.sampled_from(values[-2:]))
        if draw(st.booleans()):
            values.append(
                b.add("transpose", [v], axes=tuple(draw(st.permutations(range(len(v.shape))))))
            )
            continue
        shape = (
            [d for d in draw(st.permutations(v.shape)) if d > 1] if draw(st.booleans()) else [-1]
        )
        if shape == [-1]:
            left, shape = int(np.prod(v.shape)), []
            while left > 1 and len(shape) < 4:
                d = draw(st.sampled_from([d for d in range(2, left + 1) if left % d == 0]))
                left, shape = left // d, [*shape, d]
            shape = [*shape, left]
        values.append(b.add("reshape", [v], shape=tuple(shape)))
    more = draw(st.lists(st.sampled_from(values[1:]), max_size=2))
    outputs = dict.fromkeys([values[-1], *more])
    return Graph("chain", [x], [b.add("negative", [v]) for v in outputs], b.nodes)


@settings(max_examples=150, deadline=None)
@given(chains())
def test_any_chain_of_moves(net: Graph) -> None:
    changed = check_same(net, join_moves)
    assert ops(changed).count("transpose") <= ops(net).count("transpose")
    moved = [n for n in changed.nodes if n.op == "transpose"]
    assert not any(n.inputs[0].producer in moved for n in moved)


def test_a_layer_norm_between_convolutions_moves_nothing() -> None:
    """Channels are moved to the front and back by the pass, and by the network itself, through a
    reshape to rows."""
    b = Builder(17)
    x = Value("x", (1, 16, 6, 6), "float32")
    weights = [b.constant(whole(16, 16, 3, 3), n) for n in "vw"]
    y = b.add("transpose", [b.add("conv2d", [x, weights[0]], **CONV)], axes=LAST)
    y = b.add("softmax", [b.add("reshape", [y], shape=(36, 16))], axis=1)
    y = b.add("transpose", [b.add("reshape", [y], shape=(1, 6, 6, 16))], axes=FIRST)
    out = b.add("conv2d", [y, weights[1]], **CONV)
    groups = prepare(Graph("net", [x], [out], b.nodes), Target(SM80), "float16")[1]
    moves = [n.op for g in groups for n in g.nodes if n.op == "transpose"]
    assert len(moves) == 2, "the input's and the output's"


def test_channels_that_were_last_go_on_so() -> None:
    """A branch that the network itself has last is added to one that convolutions have so; beside
    plain values it stays as it was."""
    b = Builder(17)
    x, last = Value("x", (1, 16, 5, 6), "float32"), Value("last", (1, 5, 6, 16), "float32")
    conv = b.add("conv2d", [x, b.constant(whole(16, 16, 3, 3), "w")], **CONV)
    branch = b.add("transpose", [b.add("relu", [last])], axes=FIRST)
    both = b.add("add", [conv, b.add("abs", [branch])])
    out = b.add("transpose", [both], axes=LAST)
    other = Value("other", x.shape, "float32")
    net = Graph("net", [x, last, other], [out, b.add("subtract", [branch, other])], b.nodes)
    floats = frozenset({("float32", "float32")})
    changed = check_same(net, lambda g: join_moves(channels_last(g, floats)))
    assert ops(changed).count("transpose") == 2
    assert next(n for n in changed.nodes if n.op == "add").output.shape == (1, 5, 6, 16)
    assert next(n for n in changed.nodes if n.op == "subtract").output.shape == x.shape


def test_an_activation_before_a_convolution_joins_the_move() -> None:
    """What is computed element by element from what is moved is computed behind the move; a value
    that others read too, or that two are made into, stays in front."""
    b = Builder(17)
    x = Value("x", (1, 16, 5, 6), "float32")
    rows = b.add("softmax", [b.add("reshape", [x], shape=(4, 120))], axis=1)
    y = b.add("reshape", [rows], shape=x.shape)
    weights = b.constant(whole(16, 16, 3, 3), "w")
    half = b.constant(np.float32(0.5), "half")
    alone = b.add("relu", [b.add("multiply", [b.add("abs", [y]), half])])
    shared = b.add("relu", [y])
    outputs = [b.add("conv2d", [v, weights], **CONV) for v in (alone, shared)]
    net = Graph("net", [x], [*outputs, b.add("softmax", [shared], axis=3)], b.nodes)
    floats = frozenset({("float32", "float32")})
    changed = check_same(net, lambda g: channels_last(g, floats))
    behind = [n.op for n in changed.nodes if n.output.shape == (1, 5, 6, 16)]
    assert behind == ["transpose", "abs", "multiply", "relu", "conv2d_nhwc"] + [
        "transpose",
        "conv2d_nhwc",
    ]


def test_what_becomes_narrower_does_so_before_it_is_moved() -> None:
    b = Builder(17)
    x = Value("x", (2, 3, 4), "float32")
    moved = b.add("transpose", [b.add("reshape", [b.add("abs", [x])], shape=(6, 4))], axes=(1, 0))
    wide = b.add("transpose", [b.add("negative", [x])], axes=(2, 0, 1))
    outputs = [b.add("cast", [moved], dtype="float16"), b.add("cast", [wide], dtype="float64")]
    both = b.add("transpose", [x], axes=(2, 1, 0))
    outputs += [b.add("cast", [both], dtype="float16"), b.add("relu", [both])]
    net = Graph("net", [x], outputs, b.nodes)
    changed = check_same(net, narrow_first)
    casts = {n.output.dtype + str(n.inputs[0].shape) for n in changed.nodes if n.op == "cast"}
    assert casts == {"float16(2, 3, 4)", "float64(4, 2, 3)", "float16(4, 3, 2)"}


def rolled(shape: tuple[int, ...], turns: dict[int, int]) -> Graph:
    b = Builder(17)
    x = v = Value("x", shape, "float32")
    for axis, first in turns.items():
        end, start = list(shape), [0] * len(shape)
        end[axis], start[axis] = first, first
        ones = [1] * len(shape)
        behind = b.add("slice", [v], begin=start, end=list(shape), strides=ones)
        before = b.add("slice", [v], begin=[0] * len(shape), end=end, strides=ones)
        v = b.add("concat", [behind, before], axis=axis)
    return Graph("rolled", [x], [v], b.nodes)


@pytest.mark.parametrize("target", ["llvm", SM80])
def test_a_roll_is_one_kernel(target: str) -> None:
    check_on(rolled((2, 5, 7, 8), {1: 2, 2: 4}), target, 1)


def test_what_is_a_roll() -> None:
    assert ops(find_rolls(rolled((3, 5), {1: 2}), along_last=True)) == ["roll"]
    assert "roll" not in ops(find_rolls(rolled((3, 5), {1: 2}), along_last=False))
    net = rolled((3, 5), {0: 1})
    net.nodes[0].attrs["begin"] = [2, 0]
    net.nodes[0].output.shape = (1, 5)
    assert "roll" not in ops(find_rolls(net, along_last=True))


def written(shape: tuple[int, ...], first: int, places: int, reduction: str) -> Graph:
    b = Builder(17)
    x, at = Value("x", shape, "float32"), Value("at", (places, 1), "int64")
    new = Value("new", (*shape[:first], places, *shape[first + 1 :]), "float32")
    out = b.add("scatter_nd", [x, at, new], reduction=reduction, first=first)
    return Graph("written", [x, at, new], [out], b.nodes)


@pytest.mark.parametrize("reduction", ["update", "add"])
@pytest.mark.parametrize("at", [[3], [-2], [9], [4, 0, 4]])
@pytest.mark.parametrize("target", ["llvm", SM80])
def test_writes_along_a_dimension(target: str, at: list[int], reduction: str) -> None:
    """One of them, from the end, outside, and several of which two meet."""
    places = np.array(at, "int64")[:, None]
    for first in (1, 2):
        graph = written((2, 5, 6, 4), first, len(at), reduction)
        check_on(graph, target, 1, at=places)


def test_a_large_write_goes_along_several_threads() -> None:
    places = np.array([1, 4, 1], "int64")[:, None]
    check_on(written((16, 5, 4096), 1, 3, "update"), "llvm", 1, at=places)


def test_a_single_write_is_one_loop_on_devices() -> None:
    """As each step's key and value are written to a cache."""
    for places, kernels in ((1, 1), (2, 3)):  # numbers of the last, and theirs
        net: Any = tg.compile(written((2, 3, 16, 8), 2, places, "update"), SM80)
        source = net.module.imported_modules[0].get_source()
        assert source.count('extern "C" __global__') == kernels


def test_a_cache_is_written_without_moving_it() -> None:
    torch: Any = pytest.importorskip("torch")

    class Step(torch.nn.Module):
        def forward(self, x: Any, at: Any, new: Any) -> Any:
            return x.index_copy(2, at, new), torch.ops.aten.index_put(x, [None, None, at], new)

    args = (torch.zeros(1, 2, 16, 8), torch.tensor([3]), torch.ones(1, 2, 1, 8))
    groups = prepare(tvm.from_torch(Step(), args), Target(SM80))[1]
    names = {n.op for g in groups for n in g.nodes}
    assert names <= {"scatter_nd", "reshape", "identity"}, names


@pytest.mark.parametrize("target", ["llvm", SM80])
def test_reshaped_inputs_and_outputs_are_views(target: str) -> None:
    b = Builder(17)
    x = Value("x", (1, 6, 4), "float32")
    y = b.add(
        "reduce", [b.add("reshape", [x], shape=(2, 3, 4))], type="max", axes=[1], keepdims=True
    )
    z = b.add("reduce", [x], type="sum", axes=[2], keepdims=False)
    out = b.add("reshape", [y], shape=(8,))
    sums = b.add("reshape", [z], shape=(2, 3))
    check_on(Graph("net", [x], [out, sums], b.nodes), target, 2)
