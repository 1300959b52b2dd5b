"""Concatenations that are no kernels: their parts are written where they belong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.test_passes import results
from tests.graph.test_passes_shapes import check, floats, kernels
from tests.narrow import as_a
from tilewright import graph
from tilewright.base.aligned import ALIGNMENT
from tilewright.graph.build import prepare
from tilewright.graph.ir import Graph, Node, Value
from tilewright.graph.passes.fuse import Lying
from tilewright.graph.passes.memory import Part, lifetimes, plan_memory, views
from tilewright.rt.array import compact_strides
from tilewright.target.target import Target


def test_a_dense_block_copies_nothing() -> None:
    """Every layer reads what all before it made; the input of the network is copied once."""
    text = """
    net (float[1, 16, 4, 4] x) => (float[1, 16, 4, 4] y) {
        a = Softmax <axis = 3> (x)
        b = Conv (a, v)
        ab = Concat <axis = 1> (a, b)
        c = Conv (ab, w)
        abc = Concat <axis = 1> (a, b, c)
        r = Relu (abc)
        y = Conv (r, u)
    }
    """
    weights = {"v": floats(32, 16, 1, 1), "w": floats(16, 48, 1, 1), "u": floats(16, 64, 1, 1)}
    model, found = kernels(text, **weights)
    compiled = check(model, x=floats(1, 16, 4, 4))
    assert len(compiled.calls) == len(found) - found.count("concat")
    assert found.count("concat") == 2


def test_the_rest_is_copied_where_most_is_in_place() -> None:
    """A class token before the patches: a weight; and an input of the network."""
    text = """
    net (float[1, 1, 16] x, float[1, 6, 16] z) => (float[1, 8, 16] y) {
        s = Softmax <axis = 2> (z)
        j = Concat <axis = 1> (token, s, x)
        y = Softmax <axis = 2> (j)
    }
    """
    model, found = kernels(text, token=floats(1, 1, 16))
    assert found.count("concat") == 1
    compiled = check(model, x=floats(1, 1, 16), z=floats(1, 6, 16))
    assert len(compiled.calls) == 4  # two softmaxes, two copies


@pytest.mark.parametrize(
    "why, text",
    [
        ("rows of two lie apart", "[2, 16] x) => (float[2, 32] y) {N j = Concat <axis = 1> (a, b)"),
        ("starts at 12 bytes", "[3] x) => (float[6] y) {N j = Concat <axis = 0> (a, b)"),
        ("mostly the input", "[16] x) => (float[48] y) {N j = Concat <axis = 0> (x, a, x)"),
    ],
)
def test_others_stay_kernels(why: str, text: str) -> None:
    """Whether a part can lie where it belongs is a matter of the shape, and of who makes it."""
    body = text.replace("N", "\n a = Softmax <axis = 0> (x)\n b = Softmax <axis = 0> (a)\n")
    model, found = kernels(f"net (float{body}\n y = Softmax <axis = 0> (j)\n}}")
    shape = model.graph.input[0].type.tensor_type.shape
    compiled = check(model, x=floats(*(d.dim_value for d in shape.dim)))
    assert found.count("concat") == 1 and len(compiled.calls) == len(found), why


def test_an_output_keeps_its_own_array() -> None:
    """A part that the caller sees is copied, a joined value that he sees is no view."""
    text = """
    net (float[16] x) => (float[16] a, float[48] j, float[64] y) {
        a = Softmax <axis = 0> (x)
        b = Softmax <axis = 0> (a)
        c = Exp (b)
        j = Concat <axis = 0> (a, b, c)
        k = Concat <axis = 0> (c, b, a, c)
        y = Softmax <axis = 0> (k)
    }
    """
    model, _ = kernels(text)
    check(model, x=floats(16))


@st.composite
def networks(draw: Any) -> Graph:
    """Softmaxes, reshapes, slices and concatenations of what is there, in any order."""
    x = Value("x", (1, 64), "float32")
    values, nodes = [x], []
    for k in range(draw(st.integers(3, 14))):
        kind = draw(st.sampled_from(["softmax", "reshape", *["slice"] * 3, *["concat"] * 4]))
        some = draw(st.lists(st.sampled_from(values), min_size=1, max_size=4))
        if kind == "concat":
            flat = []
            for n, v in enumerate(some):
                size = int(np.prod(v.shape))
                flat.append(Value(f"f{k}.{n}", (1, size), "float32"))
                nodes.append(Node("reshape", f"f{k}.{n}", [v], [flat[-1]], {"shape": (1, size)}))
            out = Value(f"v{k}", (1, sum(v.shape[1] for v in flat)), "float32")
            nodes.append(Node("concat", out.name, flat, [out], {"axis": 1}))
        elif kind == "slice":
            shape = list(some[0].shape)
            axis = draw(st.integers(0, 1))
            quarters = st.integers(0, shape[axis] // 4)
            first, end = sorted(4 * n for n in draw(st.tuples(quarters, quarters)))
            end = end if first < end else shape[axis]
            begin = [0, 0]
            begin[axis], shape[axis] = first, max(end - first, 1)
            first = begin[axis] = min(first, some[0].shape[axis] - shape[axis])
            how = {"begin": begin, "end": list(np.add(begin, shape)), "strides": [1, 1]}
            out = Value(f"v{k}", shape, "float32")
            nodes.append(Node("slice", out.name, some[:1], [out], how))
        elif kind == "reshape" and int(np.prod(some[0].shape)) % 8 == 0:
            size = int(np.prod(some[0].shape))
            out = Value(f"v{k}", (size // 8, 8), "float32")
            nodes.append(Node("reshape", out.name, some[:1], [out], {"shape": out.shape}))
        else:
            out = Value(f"v{k}", some[0].shape, "float32")
            nodes.append(Node("softmax", out.name, some[:1], [out], {"axis": 1}))
        if int(np.prod(out.shape)) <= 2048:
            values.append(out)
    outputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True))
    made = Graph("drawn", [x], outputs, nodes)
    made.drop_dead_nodes()
    return made


@settings(max_examples=60, deadline=None)
@given(networks())
def test_no_value_is_overwritten_while_it_is_needed(net: Graph) -> None:
    """The plan, step by step over real bytes: each kernel reads what was written for it."""
    net, groups = prepare(net, Target("llvm"))
    kept, same = views(net, groups)
    offsets, size = plan_memory(net, kept, ALIGNMENT, same)
    for v, part in same.items():
        assert v not in offsets and part.of not in same and part.at % ALIGNMENT == 0
        assert part.at + v.nbytes <= part.of.nbytes
    lives = lifetimes(net, kept, same)
    owner: list[Any] = [None] * size
    arrays: dict[Value, list[Any]] = {}

    def cells(v: Value) -> tuple[list[Any], int, int]:
        part = same.get(v, Part(v))
        if part.of in offsets:
            at = offsets[part.of] + part.at
            return owner, at // 4, (at + v.nbytes) // 4
        held = arrays.setdefault(part.of, [None] * (part.of.nbytes // 4))
        return held, part.at // 4, (part.at + v.nbytes) // 4

    content: dict[Value, list[Any]] = {}
    for v in net.inputs:
        held, start, end = cells(v)
        held[start:end] = content[v] = [(v.name, k) for k in range(end - start)]
    for node in (n for g in groups for n in g.nodes):  # what every value holds, by its name
        if node.output in content:
            continue
        if node.op in ("reshape", "identity"):
            content[node.output] = content[node.inputs[0]]
        elif node.op == "concat":
            content[node.output] = [c for v in node.inputs for c in content[v]]
        elif node.op == "slice":
            (v,) = node.inputs
            cut = tuple(map(slice, node.attrs["begin"], node.attrs["end"]))
            places = np.arange(len(content[v])).reshape(v.shape)[cut]
            content[node.output] = [content[v][k] for k in places.ravel()]
        else:
            count = node.output.nbytes // 4
            content[node.output] = [(node.output.name, k) for k in range(count)]
    for step, group in enumerate(kept):
        for v in group.inputs:
            held, start, _ = cells(v)
            how = group.lying.get(v, Lying(compact_strides(v.shape)))
            steps = zip(np.indices(v.shape), how.strides)
            places = start + how.offset + sum(i * s for i, s in steps)
            assert [held[k] for k in places.ravel()] == content[v], (step, v)
        held, start, end = cells(group.output)
        made = content.get(group.output)
        held[start:end] = content[group.inputs[0]] if made is None else made
        root = same.get(group.output, Part(group.output)).of
        assert root not in lives or lives[root][0] <= step <= lives[root][1]
    for v in net.outputs:
        held, start, end = cells(v)
        assert held[start:end] == content[v]


@settings(max_examples=12, deadline=None)
@given(networks(), st.integers(0, 2**31))
def test_drawn_networks_compute_what_numpy_does(net: Graph, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((1, 64)).astype(np.float32)
    compiled = as_a(graph.Executable, graph.compile(net))
    got = compiled.run({"x": x})
    for v, want in zip(net.outputs, results(net, [x])):
        np.testing.assert_allclose(got[v.name], want, rtol=2e-5, atol=2e-5)
