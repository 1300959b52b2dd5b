"""Networks of thousands of nodes: groups are bounded, work is linear, results are right."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.narrow import as_a
from tilewright import graph as tg
from tilewright.graph.build import prepare
from tilewright.graph.ir import Graph, Node, Value
from tilewright.graph.passes.fuse import MOST, Group
from tilewright.graph.passes.memory import plan_memory
from tilewright.target.target import Target

X = np.array([1, 0.5, -3, 0.25], np.float32)


def model(nodes: list[Any], size: int = 4) -> Any:
    float_ = TensorProto.FLOAT
    ins = [helper.make_tensor_value_info("x", float_, (4,))]
    outs = [helper.make_tensor_value_info("y", float_, (size,))]
    body = helper.make_graph(nodes, "net", ins, outs)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def chain(kind: str, count: int, reads: int = 1) -> Any:
    names = ["x", *(f"t{k}" for k in range(1, count)), "y"]
    pairs = pairwise(names)
    return model([helper.make_node(kind, [a] * reads, [b]) for a, b in pairs])


def many(count: int) -> tuple[list[Any], list[str]]:
    """Values that are alike but not the same to a compiler: each less a zero of its own."""
    names = [f"t{k}" for k in range(count)]
    zero = [helper.make_node("Constant", [], [f"{t}.0"], value_floats=[0.0] * 4) for t in names]
    return [*zero, *(helper.make_node("Sub", [f"{t}.0", "x"], [t]) for t in names)], names


def run(made: Any, kernels: int, distinct: int) -> Any:
    net = as_a(tg.Executable, tg.compile(tg.load_onnx(made)))
    assert len(net.calls) <= kernels and net.distinct <= distinct
    assert all(len(names) <= MOST for names in net.nodes)
    return net.run({"x": X})["y"]


def test_chains() -> None:
    np.testing.assert_array_equal(run(chain("Neg", 3001), 3001 // 30, 2), -X)
    got = run(chain("Mul", 40, reads=2), 8, 2)  # each node doubles what an expression would read
    np.testing.assert_array_equal(got, [1, 0, np.inf, 0])
    got = run(chain("Softmax", 2000), 2000, 1)
    np.testing.assert_allclose(got, 0.25, rtol=1e-6)


def test_wide_networks() -> None:
    nodes, names = many(600)
    got = run(model([*nodes, helper.make_node("Concat", names, ["y"], axis=0)], 2400), 700, 9)
    np.testing.assert_array_equal(got, np.tile(-X, 600))
    got = run(model([*nodes, helper.make_node("Sum", names, ["y"])]), 45, 3)
    np.testing.assert_array_equal(got, X * -600)


def test_diamonds() -> None:
    nodes = []
    last = "x"
    for k in range(300):
        nodes += [
            helper.make_node("Neg", [last], [f"a{k}"]),
            helper.make_node("Abs", [last], [f"b{k}"]),
            helper.make_node("Max", [f"a{k}", f"b{k}", last], [f"c{k}"]),
        ]
        last = f"c{k}"
    got = run(model([*nodes, helper.make_node("Neg", [last], ["y"])]), 601, 4)
    np.testing.assert_array_equal(got, -np.abs(X))


def test_groups_of_a_chain_have_one_kernel() -> None:
    _, groups = prepare(tg.load_onnx(chain("Exp", 1000)), Target("llvm"))
    assert len({len(g.nodes) for g in groups[:-1]}) == 1
    assert all(g.sizes[g.output] <= MOST for g in groups)


def greedy(groups: list[Group], outputs: set[Value], align: int) -> tuple[dict[Value, int], int]:
    """The plan by its definition: largest first, each at the lowest free offset."""
    first = {g.output: k for k, g in enumerate(groups) if g.output not in outputs}
    last = {**first, **{v: k for k, g in enumerate(groups) for v in g.inputs if v in first}}
    placed: dict[Value, tuple[int, int]] = {}
    for v in sorted(first, key=lambda v: (-v.nbytes, first[v])):
        size, at = -(-max(v.nbytes, 1) // align) * align, 0
        for start, end in sorted(
            p for u, p in placed.items() if last[u] >= first[v] and first[u] <= last[v]
        ):
            if at + size <= start:
                break
            at = max(at, end)
        placed[v] = (at, at + size)
    return {v: p[0] for v, p in placed.items()}, max((p[1] for p in placed.values()), default=0)


@pytest.mark.parametrize("seed", range(20))
def test_memory_is_planned_greedily(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = Value("x", (1,), "float32")
    values, groups = [x], []
    for k in range(int(rng.integers(1, 120))):
        reach = int(rng.choice([1, 3, 100]))
        reads = [values[max(0, len(values) - 1 - int(rng.integers(reach)))] for _ in range(2)]
        out = Value(f"v{k}", (int(rng.choice([0, 1, 100, int(rng.integers(1, 4000))])),), "float32")
        groups.append(Group([Node("add", f"n{k}", reads, [out])]))
        values.append(out)
    graph = Graph("g", [x], [values[-1]], [g.nodes[0] for g in groups])
    assert plan_memory(graph, groups, 64) == greedy(groups, {values[-1]}, 64)
