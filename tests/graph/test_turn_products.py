"""Products whose second factor is a softmax the other way round, as attention over channels has."""

from __future__ import annotations

from typing import Any

import pytest

from tests.graph.test_attention import Writer
from tests.graph.test_passes import check_same, ops
from tilewright.graph.build import prepare
from tilewright.graph.ir import Graph, Value
from tilewright.graph.passes.turn_products import turn_products
from tilewright.target.target import Target


def attention(heads: int, size: int, rows: int, flat: bool, last: int = 0) -> Graph:
    """v softmax(q^T k)^T of q, k and v (heads, size, rows); `flat`: the softmax has a dimension of
    heads."""
    w = Writer()
    q, k = (Value(n, (2 * heads, size, rows), "float32") for n in "qk")
    v = Value("v", (2 * heads, last or size, rows), "float32")
    scores = w("batch_matmul", w("transpose", q, axes=(0, 2, 1)), k)
    if flat:
        scores = w("reshape", scores, shape=(2, heads, rows, rows))
    rank = len(scores.shape)
    scores = w("softmax", scores, axis=rank - 1)
    turned = w("transpose", scores, axes=(*range(rank - 2), rank - 1, rank - 2))
    if flat:
        turned = w("reshape", turned, shape=(2 * heads, rows, rows))
    return Graph("turned", [q, k, v], [w("batch_matmul", v, turned)], w.nodes)


@pytest.mark.parametrize("flat", [False, True])
def test_the_softmax_comes_first(flat: bool) -> None:
    graph = attention(3, 8, 37, flat, 11)
    changed = check_same(graph, turn_products)
    reshaped = ["reshape"] if flat else []
    first = ["transpose", "batch_matmul", *reshaped, "softmax", *reshaped]
    assert ops(changed) == [*first, "transpose", "batch_matmul", "transpose"]
    _, groups = prepare(graph, Target("llvm"))
    assert any(n.op == "attention" for g in groups for n in g.nodes)


def other(kind: str) -> Graph:
    graph = attention(1, 8, 37, False, 40 if kind == "rows" else 8)
    *before, product = graph.nodes
    turn = before[-1]
    if kind == "twice":
        graph.outputs.append(turn.output)
    if kind == "axes":
        turn.attrs["axes"] = (0, 1, 2)
    if kind == "sigmoid":
        before[-2].op, before[-2].attrs = "sigmoid", {}
    if kind == "first":
        v = graph.inputs[2]
        product.inputs = [turn.output, Value("v", (2, 37, 8), "float32")]
        graph.inputs = [i if i is not v else product.inputs[1] for i in graph.inputs]
        graph.outputs[0].shape = (2, 37, 8)
    return graph


@pytest.mark.parametrize("kind", ["rows", "twice", "axes", "sigmoid", "first"])
def test_others_stay(kind: str) -> None:
    graph = other(kind)
    before: list[Any] = ops(graph)
    assert ops(check_same(graph, turn_products)) == before
