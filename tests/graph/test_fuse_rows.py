"""Rows that are reduced and used again are one node, whatever way a network writes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.graph.test_attention import Writer, number
from tests.graph.test_passes import check_same, floats, ops
from tests.narrow import as_a
from tilewright import graph
from tilewright.graph.build import prepare
from tilewright.graph.device import DeviceExecutable
from tilewright.graph.ir import Graph, Value, constant
from tilewright.graph.passes.fuse_rows import fuse_rows
from tilewright.target.target import Target


def summed(w: Writer, x: Value, kind: str = "mean", run: int = 1, keep: bool = True) -> Value:
    rank = len(x.shape)
    return w("reduce", x, type=kind, axes=tuple(range(rank - run, rank)), keepdims=keep)


def rms(w: Writer, x: Value, run: int = 1) -> Value:
    inverse = w("rsqrt", w("add", summed(w, w("multiply", x, x), run=run), number(1e-5)))
    weights = constant("w", floats(*x.shape[-run:]))
    return w("multiply", weights, w("multiply", x, inverse))


def layer(w: Writer, x: Value, run: int = 1) -> Value:
    away = w("subtract", x, summed(w, x, run=run))
    spread = summed(w, w("power", away, number(2)), run=run)
    scaled = w("divide", away, w("sqrt", w("add", spread, number(1e-5))))
    return w("add", scaled, constant("b", floats(*x.shape[-run:])))


def length(w: Writer, x: Value, run: int = 1) -> Value:
    most = w("maximum", summed(w, x, "l2", run), number(1e-6))
    return w("divide", x, w("broadcast_to", most, shape=x.shape))


def powers(w: Writer, x: Value, run: int = 1) -> Value:
    e = w("exp", w("subtract", x, summed(w, x, "max", run)))
    return w("divide", e, summed(w, e, "sum", run))


def deviation(w: Writer, x: Value, run: int = 1) -> Value:
    away = w("subtract", x, summed(w, x, run=run))
    spread = summed(w, w("multiply", away, away), run=run)
    return w("sqrt", w("reshape", spread, shape=x.shape[:-run]))


def residual(w: Writer, x: Value, run: int = 1) -> Value:
    before = w("add", x, w("sin", x))
    return w("add", before, rms(w, before, run))


KINDS = [rms, layer, length, powers, deviation, residual]


def net(kind: Any, shape: tuple[int, ...], run: int = 1) -> Graph:
    w, x = Writer(), Value("x", shape, "float32")
    return Graph("rows", [x], [kind(w, x, run)], w.nodes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "run"), [((5, 37), 1), ((2, 3, 64), 1), ((7, 3, 5), 2)])
def test_rows_are_one_node(kind: Any, shape: tuple[int, ...], run: int) -> None:
    changed = check_same(net(kind, shape, run), fuse_rows)
    assert [op for op in ops(changed) if op != "reshape"] == ["rows"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(5, 64), (3, 7), (2, 300, 8), (3, 500)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_gpus_have_a_kernel_for_rows(kind: Any, shape: tuple[int, ...], dtype: str) -> None:
    """One launch for all of them, of short rows too; what is squared does not leave the range of
    half precision."""
    made = net(kind, shape)
    large = kind is not powers and dtype == "float16"
    data = floats(*shape) * (600 if large else 1)
    target = Target("cuda -arch=sm_80")
    _, groups = prepare(made, target, dtype)
    (rows,) = [g for g in groups if any(n.op == "rows" for n in g.nodes)]
    assert len(rows.nodes) == 1
    compiled = as_a(DeviceExecutable, graph.compile(made, target, dtype=dtype))
    compiled.device = tvm.simt(0)
    (got,) = compiled.run({"x": data}).values()
    (want,) = graph.compile(made, "llvm").run({"x": data}).values()
    bound = 1e-5 if dtype == "float32" else 4e-3
    np.testing.assert_allclose(got, want, rtol=bound, atol=bound * float(abs(want).max()))


def test_what_others_read_stays() -> None:
    """A mean that is an output, and steps that follow a product, which compute them."""
    w, x = Writer(), Value("x", (6, 8), "float32")
    y = layer(w, x)
    middle = w.nodes[0].output
    changed = check_same(Graph("rows", [x], [y, middle], w.nodes), fuse_rows)
    assert ops(changed) == ["reduce", "rows"]
    w = Writer()
    dense = w("dense", x, constant("d", floats(16, 8)))
    before = w("add", dense, constant("r", floats(6, 16)))
    changed = check_same(Graph("rows", [x], [rms(w, before)], w.nodes), fuse_rows)
    assert ops(changed) == ["dense", "add", "rows"]


@pytest.mark.parametrize("axes", [(0,), (2, 3)])
def test_columns_and_images_stay(axes: tuple[int, ...]) -> None:
    w, x = Writer(), Value("x", (2, 3, 4, 5), "float32")
    middle = w("reduce", x, type="mean", axes=axes, keepdims=True)
    changed = check_same(Graph("rows", [x], [w("subtract", x, middle)], w.nodes), fuse_rows)
    assert ops(changed) == ["reduce", "subtract"]


@pytest.mark.parametrize("axes", [(0,), (1,)])
def test_reductions_compute_what_they_read(axes: tuple[int, ...]) -> None:
    """Elements of a product of two arrays are no array of their own."""
    w, x, y = Writer(), Value("x", (6, 40), "float32"), Value("y", (6, 40), "float32")
    out = w("reduce", w("multiply", x, w("sin", y)), type="sum", axes=axes, keepdims=False)
    _, groups = prepare(Graph("sums", [x, y], [out], w.nodes), Target("cuda -arch=sm_80"))
    assert [[n.op for n in g.nodes] for g in groups] == [["sin", "multiply", "reduce"]]
    check_same(Graph("sums", [x, y], [out], w.nodes), lambda g: g)


@pytest.mark.parametrize("shape", [(65, 8), (3, 31), (2, 5, 32)])
def test_a_softmax_of_short_rows_is_one_kernel(shape: tuple[int, ...]) -> None:
    w, x = Writer(), Value("x", shape, "float32")
    made = Graph("short", [x], [w("softmax", x, axis=len(shape) - 1)], w.nodes)
    compiled = as_a(DeviceExecutable, graph.compile(made, "cuda -arch=sm_80"))
    text = compiled.module.imported_modules[0].get_source()
    assert text.count("__global__") == 1
    compiled.device = tvm.simt(0)
    data = floats(*shape)
    (got,) = compiled.run({"x": data}).values()
    powers = np.exp(data.astype("float64") - data.max(-1, keepdims=True))
    np.testing.assert_allclose(got, powers / powers.sum(-1, keepdims=True), rtol=1e-5)
