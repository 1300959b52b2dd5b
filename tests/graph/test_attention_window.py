"""Keys that constants hide from rows of queries, of which kernels for tensor cores take none."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.graph.test_attention import Writer
from tilewright.graph.build import prepare
from tilewright.graph.ir import Graph, Value, constant
from tilewright.graph.passes.attention_window import window_of, without_masks
from tilewright.target.target import Target

Array = np.ndarray[Any, Any]
INF = float("-inf")


def values(*arrays: Array | None) -> list[Value]:
    return [
        Value(f"v{n}", (1, 1), "float32") if a is None else constant(f"c{n}", a)
        for n, a in enumerate(arrays)
    ]


def low(mask: Array, value: float = INF) -> Array:
    return np.where(mask, 0.0, value).astype("float32")


def number(value: float) -> Array:
    return np.array(value, "float32")


CAUSAL = np.tri(6, 9, 3, dtype=bool)  # query 0 sees keys 0 to 3
BAND = CAUSAL & ~np.tri(6, 9, 1, dtype=bool)
HOLES = CAUSAL & (np.arange(9) != 1)
ADD = (("add", (0, 1), ()),)
WHERE = (("where", (1, 0, 2), ()),)


@pytest.mark.parametrize(
    ("beside", "steps", "found"),
    [
        ([low(CAUSAL)], ADD, (-5, 4)),
        ([low(CAUSAL, -3e38)], ADD, (-5, 4)),
        ([low(CAUSAL, -1e4)], ADD, None),  # scores may be as low
        ([low(CAUSAL, -65504)], ADD, None),
        ([low(CAUSAL, -65504).astype("float16")], ADD, (-5, 4)),  # as low as they can be
        ([low(CAUSAL, -65504).astype("float16"), None], (*ADD, ("add", (3, 2), ())), None),
        ([low(CAUSAL, -3e38).astype(ml_dtypes.bfloat16)], ADD, (-5, 4)),
        (
            [low(CAUSAL, -65504).astype("float16"), np.array(0.125, "float16")],
            (*ADD, ("multiply", (3, 2), ())),
            None,
        ),
        ([low(BAND)], ADD, (2, 4)),
        ([low(CAUSAL)[None, None]], ADD, (-5, 4)),
        ([np.stack([low(CAUSAL), low(BAND)])], ADD, (-5, 4)),  # a head sees what another does not
        ([low(np.ones((6, 9), bool))], ADD, None),
        ([low(np.tri(6, 9, -1, dtype=bool))], ADD, None),  # query 0 sees nothing
        ([low(np.ones((1, 9), bool))], ADD, None),
        ([CAUSAL, number(INF)], WHERE, (-5, 4)),
        ([~CAUSAL, number(INF)], (("where", (1, 2, 0), ()),), (-5, 4)),
        ([None, number(INF)], WHERE, None),
        ([CAUSAL, None], WHERE, None),
        ([low(CAUSAL), number(0.125)], (*ADD, ("multiply", (3, 2), ())), (-5, 4)),
        ([low(CAUSAL), number(-1)], (*ADD, ("multiply", (3, 2), ())), None),
        ([low(CAUSAL)], (*ADD, ("tanh", (2,), ())), None),
        ([number(2), low(CAUSAL)], (("divide", (0, 1), ()), ("add", (2, 3), ())), (-5, 4)),
        # what a mask with the data may hide from a row besides
        ([low(CAUSAL), None], (*ADD, ("add", (3, 2), ())), (-5, 4)),
        ([low(CAUSAL, -3e38), None], (*ADD, ("add", (3, 2), ())), None),
        ([], (), None),
    ],
)
def test_what_is_hidden(
    beside: list[Array | None], steps: Any, found: tuple[int, int] | None
) -> None:
    assert window_of(values(*beside), steps) == found


TANH = (("tanh", (0,), ()),)
HALF = np.array(-65504, "float16")


@pytest.mark.parametrize(
    ("beside", "steps", "left"),
    [
        ([low(CAUSAL)], ADD, ([], ())),
        ([low(BAND, -3e38)], ADD, ([], ())),
        ([low(CAUSAL)[None, None]], ADD, ([], ())),
        ([CAUSAL, number(INF)], WHERE, ([], ())),
        ([CAUSAL, HALF], WHERE, ([], ())),
        ([low(CAUSAL, -65504).astype("float16")], ADD, ([], ())),
        ([low(CAUSAL).astype(ml_dtypes.bfloat16)], ADD, ([], ())),
        ([~CAUSAL, number(INF)], (("where", (1, 2, 0), ()),), ([], ())),
        # what else is done stays, with what it reads
        ([low(CAUSAL)], (*TANH, ("add", (2, 1), ())), ([], TANH)),
        ([low(CAUSAL), None], (*ADD, ("add", (3, 2), ())), ([1], (("add", (0, 1), ()),))),
        # bits of the mask that are no edge, numbers beside it, heads that differ
        ([low(HOLES)], ADD, None),
        ([low(CAUSAL) + number(0.5)], ADD, None),
        ([np.stack([low(CAUSAL), low(BAND)])], ADD, None),
        ([low(CAUSAL)], (*ADD, ("tanh", (2,), ())), None),
    ],
)  # fmt: skip
def test_what_a_window_says_is_left_out(
    beside: list[Array | None], steps: Any, left: tuple[list[int], Any] | None
) -> None:
    given = values(*beside)
    window = window_of(given, steps)
    found = None if window is None else without_masks(given, steps, window)
    assert found == (None if left is None else ([given[n] for n in left[0]], left[1]))


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "llvm"])
def test_networks_say_which_keys_are_seen(target: str) -> None:
    w = Writer()
    q, k, v = (Value(n, (2, 64, 32), "float32") for n in "qkv")
    scores = w("batch_matmul", q, w("transpose", k, axes=(0, 2, 1)))
    causal = constant("causal", np.tri(64, dtype=bool))
    seen = w("where", causal, scores, constant("none", number(INF)))
    graph = Graph("g", [q, k, v], [w("batch_matmul", w("softmax", seen, axis=2), v)], w.nodes)
    _, groups = prepare(graph, Target(target), "float16")
    (node,) = [n for g in groups for n in g.nodes if n.op == "attention"]
    assert node.attrs.get("window") == ((-63, 1) if target.startswith("cuda") else None)
