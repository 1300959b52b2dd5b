"""Attention as one kernel: found in what exporters write, and right for odd sizes and masks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.graph.build import prepare
from tilewright.graph.ir import Graph, Node, Value, constant
from tilewright.graph.ops import infer
from tilewright.graph.passes.strided import reading, refined, regrouped, strided
from tilewright.target.target import Target

RNG = np.random.default_rng(0)
Sizes = tuple[int, int, int, int, int, int, int]
"""Batch, heads, heads of keys, queries, keys, elements of a key and of a value."""


class Writer:
    """Nodes one after the other."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def __call__(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        shape, dtype = infer(op, inputs, attrs)
        out = Value(f"v{len(self.nodes)}", shape, dtype)
        self.nodes.append(Node(op, f"n{len(self.nodes)}", inputs, [out], attrs))
        return out


def number(value: float) -> Value:
    return constant(f"c{value}", np.array(value, "float32"))


def attention(
    sizes: Sizes,
    mask: np.ndarray[Any, Any] | None = None,
    packed: bool = False,
    empty: str = "plain",
) -> Graph:
    """As PyTorch's exporters write it: heads are split off rows, moved to the front, repeated for
    grouped queries; scale on queries and keys. `packed`: all three in one array."""
    b, h, kv, s, t, d, e = sizes
    w = Writer()
    inputs: list[Value] = []
    if packed:
        inputs.append(Value("qkv", (b, s, 3 * h * d), "float32"))
        ends = [0, h * d, 2 * h * d, 3 * h * d]
        parts = [
            w("slice", inputs[0], begin=[0, 0, x], end=[b, s, y], strides=[1, 1, 1])
            for x, y in pairwise(ends)
        ]
    else:
        wide = (("q", s, h * d), ("k", t, kv * d), ("v", t, kv * e))
        inputs += [Value(name, (b * n, size), "float32") for name, n, size in wide]
        parts = list(inputs)

    def heads(x: Value, n: int, count: int) -> Value:
        apart = w("reshape", x, shape=(b, n, count, int(np.prod(x.shape)) // (b * n * count)))
        return w("transpose", apart, axes=(0, 2, 1, 3))

    def repeated(x: Value) -> Value:
        if kv == h:
            return x
        n, size = x.shape[2:]
        apart = w("reshape", x, shape=(b, kv, 1, n, size))
        whole = w("broadcast_to", apart, shape=(b, kv, h // kv, n, size))
        return w("reshape", whole, shape=(b, h, n, size))

    q, k, v = (heads(x, n, c) for x, n, c in zip(parts, (s, t, t), (h, kv, kv)))
    root = number(d**-0.25)
    q = w("multiply", q, root)
    k = w("multiply", w("transpose", repeated(k), axes=(0, 1, 3, 2)), root)
    q, k, v = (w("reshape", x, shape=(b * h, *x.shape[2:])) for x in (q, k, repeated(v)))
    scores = w("reshape", w("batch_matmul", q, k), shape=(b, h, s, t))
    if mask is not None:
        inputs.append(Value("mask", mask.shape, str(mask.dtype)))
        if mask.dtype == bool:
            scores = w("where", inputs[-1], scores, number(-np.inf))
        else:
            scores = w("add", scores, inputs[-1])
    p = w("masked_softmax" if empty == "masked" else "softmax", scores, axis=3)
    if empty == "numbers":
        p = w("where", w("isnan", p), number(0.0), p)
    out = w("batch_matmul", w("reshape", p, shape=(b * h, s, t)), v)
    out = w("transpose", w("reshape", out, shape=(b, h, s, e)), axes=(0, 2, 1, 3))
    out = w("reshape", out, shape=(b, s, h * e))
    return Graph("attention", inputs, [out], w.nodes)


def expected(
    arrays: Sequence[np.ndarray[Any, Any]],
    sizes: Sizes,
    mask: np.ndarray[Any, Any] | None,
    empty: str,
) -> np.ndarray[Any, Any]:
    b, h, kv, s, t, d, e = sizes
    if len(arrays) == 1:
        arrays = np.split(arrays[0], 3, axis=2)
    shapes = ((b, s, h, d), (b, t, kv, d), (b, t, kv, e))
    q, k, v = (np.asarray(x, "float64").reshape(n).swapaxes(1, 2) for x, n in zip(arrays, shapes))
    k, v = (np.repeat(x, h // kv, axis=1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * d**-0.5
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    with np.errstate(invalid="ignore"):
        most = scores.max(-1, keepdims=True)
        power = np.exp(scores - most)
        chances = power / power.sum(-1, keepdims=True)
    if empty != "plain":
        chances = np.nan_to_num(chances)
    return (chances @ v).swapaxes(1, 2).reshape(b, s, h * e)


def check(
    sizes: Sizes,
    mask: np.ndarray[Any, Any] | None = None,
    packed: bool = False,
    empty: str = "plain",
    target: str = "llvm",
) -> None:
    graph = attention(sizes, mask, packed, empty)
    _, groups = prepare(graph, Target(target))
    assert {g.name for g in groups} <= {"attention", "reshape"}
    arrays = [
        RNG.standard_normal(v.shape).astype("float32") for v in graph.inputs if v.name != "mask"
    ]
    out = tilewright.compile(graph, target)(*arrays, *([] if mask is None else [mask]))
    out = out[0] if isinstance(out, (list, tuple)) else out
    np.testing.assert_allclose(out, expected(arrays, sizes, mask, empty), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "sizes",
    [
        (1, 2, 2, 32, 48, 16, 16),
        (3, 5, 5, 37, 41, 67, 29),
        (3, 5, 5, 17, 19, 13, 13),
        (2, 8, 2, 23, 29, 64, 64),
        (2, 8, 2, 1, 33, 64, 64),
        (1, 12, 12, 1, 129, 64, 64),
        (2, 3, 3, 31, 1, 17, 5),
        (1, 1, 1, 1, 1, 1, 1),
        (1, 1, 1, 40, 5003, 16, 16),
    ],
)
def test_sizes(sizes: Sizes) -> None:
    """Primes, one query, one key, one of everything, groups, rows that one cache does not hold."""
    check(sizes)


LONG = 9001  # keys, of which no machine's second cache holds the scores of many rows


@pytest.mark.parametrize("empty", ["plain", "masked", "numbers"])
def test_keys_in_blocks(empty: str) -> None:
    """Blocks and rows without a key that counts; the last block overlaps the one before it."""
    target = "llvm -mcpu=skylake-avx512"
    sizes: Sizes = (1, 2, 1, 23, LONG, 8, 5)
    _, groups = prepare(attention(sizes), Target(target))
    (node,) = (n for g in groups for n in g.nodes if n.op == "attention")
    block = node.attrs["block"]
    assert 0 < block < LONG and LONG % block and LONG % -(-LONG // -(-LONG // block))
    mask = some(1, 1, 23, LONG)
    mask[..., 1, : 3 * block] = mask[..., 2, -block:] = mask[..., 4, 5:] = False
    check(sizes, mask, empty=empty)
    check(sizes, np.where(mask, np.float32(0.5), np.float32(-np.inf)), empty=empty)
    check((1, 4, 1, 29, LONG, 8, 8))  # groups of queries


def test_few_rows_take_all_keys_at_once() -> None:
    _, groups = prepare(attention((1, 2, 2, 1, LONG, 8, 8)), Target("llvm -mcpu=haswell"))
    assert not any(n.attrs["block"] for g in groups for n in g.nodes if n.op == "attention")


@pytest.mark.parametrize("target", ["llvm -mcpu=haswell", "llvm -mcpu=x86-64"])
def test_other_vectors(target: str) -> None:
    check((2, 4, 2, 19, 37, 24, 29), target=target)


def some(*shape: int) -> np.ndarray[Any, Any]:
    """A mask of which every third row is false."""
    mask = RNG.random(shape) > 0.4
    mask[..., ::3, :] = False
    return mask


@pytest.mark.parametrize("empty", ["plain", "masked", "numbers"])
@pytest.mark.parametrize("lead", [(1, 1), (2, 1), (2, 6)])
def test_masks(empty: str, lead: tuple[int, int]) -> None:
    """Whole rows without a key, for each of the ways in which these are treated."""
    check((2, 6, 3, 19, 31, 16, 16), some(*lead, 19, 31), empty=empty)
    added = np.where(some(*lead, 19, 31), np.float32(0.5), np.float32(-np.inf))
    check((2, 6, 3, 19, 31, 16, 16), added, empty=empty)


def test_mask_of_keys_alone() -> None:
    check((2, 6, 2, 1, 31, 16, 16), RNG.random((2, 1, 1, 31)) > 0.3)


def test_queries_keys_and_values_in_one_array() -> None:
    check((2, 3, 3, 13, 13, 8, 8), packed=True)


def test_scores_that_others_read_stay() -> None:
    """Scores are an output too: nothing can keep them in a cache."""
    graph = attention((1, 2, 2, 8, 8, 4, 4))
    scores = next(n for n in graph.nodes if n.op == "softmax").output
    graph.outputs.append(scores)
    _, groups = prepare(graph, Target("llvm"))
    assert not any("attention" in g.name for g in groups)


@pytest.mark.parametrize("scale", [0.0, -0.5])
@pytest.mark.parametrize("where", ["queries", "scores"])
def test_scales_of_any_sign(where: str, scale: float) -> None:
    w = Writer()
    q, k, v = (Value(n, (2, 19, 8), "float32") for n in "qkv")
    turned = w("transpose", k, axes=(0, 2, 1))
    if where == "queries":
        scores = w("batch_matmul", w("multiply", q, number(scale)), turned)
    else:
        scores = w("multiply", w("batch_matmul", q, turned), number(scale))
    graph = Graph("g", [q, k, v], [w("batch_matmul", w("softmax", scores, axis=2), v)], w.nodes)
    arrays = [RNG.standard_normal(x.shape).astype("float32") for x in graph.inputs]
    wide = [a.astype("float64") for a in arrays]
    powers = np.exp(wide[0] @ wide[1].swapaxes(1, 2) * scale)
    wanted = powers / powers.sum(-1, keepdims=True) @ wide[2]
    found = tilewright.compile(graph, "llvm")(*arrays)
    found = found[0] if isinstance(found, (list, tuple)) else found
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("target", "dtype", "n", "is_one"),
    [
        ("cuda -arch=sm_80", "float16", 32, True),
        ("cuda -arch=sm_80", "bfloat16", 32, True),
        ("cuda -arch=sm_80", "float32", 32, True),
        ("cuda -arch=sm_75", "float32", 32, True),
        ("cuda -arch=sm_75", "float16", 32, True),
        ("cuda -arch=sm_75", "bfloat16", 32, False),
        ("cuda -arch=sm_80", "float16", 1, True),
        ("opencl", "float32", 32, False),
    ],
)
def test_devices_that_have_one_kernel(target: str, dtype: str, n: int, is_one: bool) -> None:
    graph = attention((1, 2, 2, n, n, 16, 16))
    _, groups = prepare(graph, Target(target), dtype)
    assert any(node.op == "attention" for g in groups for node in g.nodes) == is_one


def test_a_view_that_is_none_begins_behind_it() -> None:
    """Heads cut out of the middle of a dimension that was two cannot be read in place."""
    w = Writer()
    x = Value("x", (4, 6), "float32")
    flat = w("reshape", w("transpose", x, axes=(1, 0)), shape=(24,))
    part = w("slice", flat, begin=[3], end=[15], strides=[1])
    view, passed = strided(w("reshape", part, shape=(3, 4)))
    assert view.source is part
    assert [node.op for node in passed] == ["reshape"]


def test_digits() -> None:
    assert regrouped([(4, 6), (6, 1)], (2, 2, 6)) == (((2, 12),), ((2, 6),), ((6, 1),))
    assert regrouped([(4, 1), (6, 4)], (8, 3)) == (((4, 1), (2, 12)), ((3, 4),))
    assert regrouped([(4, 1), (6, 4)], (3, 8)) is None
    assert refined([12], [3, 4], [6, 2]) == [3, 2, 2]
    assert refined([12], [5]) is None
    found = reading(24, [(3, 1), (2, 8)], 4)
    assert found is not None
    assert (found.shape, found.places) == ((3, 8), ((1, 0), (0, 4)))
    assert reading(24, [(2, 3), (3, 3)], 0) is None
