"""The interpreter on what lowering makes: the loop nest as scheduled, and after every pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te
from tilewright.driver.lower import schedule_to_func
from tilewright.interp.tir_eval import tir_eval
from tilewright.loopir.equal import structural_equal
from tilewright.loopir.hash import structural_hash
from tilewright.loopir.serial import load_json, save_json
from tilewright.loopir.verify import verify

Plan = Callable[[Any, Any], None]


def untouched(s: Any, c: Any) -> None:
    pass


def tiled(s: Any, c: Any) -> None:
    i, j = s[c].op.axis
    _, _, ii, ji = s[c].tile(i, j, 4, 8)
    ko, _ = s[c].split(s[c].op.reduce_axis[0], factor=5)
    s[c].reorder(ko, ii, ji)
    s[c].vectorize(ji)
    s[c].unroll(ii)


def cached(s: Any, c: Any) -> None:
    local = s.cache_write(c, "global")
    i, j = s[c].op.axis
    io, jo, _, _ = s[c].tile(i, j, 4, 8)
    s[local].compute_at(s[c], jo)
    s[local].vectorize(s[local].op.axis[1])
    s[c].parallel(io)


def factored(s: Any, c: Any) -> None:
    _, ki = s[c].split(s[c].op.reduce_axis[0], factor=4)
    partial = s.rfactor(c, ki)
    s[partial].parallel(s[partial].op.axis[0])


def on_threads(s: Any, c: Any) -> None:
    i, j = s[c].op.axis
    s[c].bind(i, te.thread_axis("blockIdx.x"))
    _, ji = s[c].split(j, factor=4)
    s[c].bind(ji, te.thread_axis("threadIdx.x"))


@pytest.mark.parametrize("plan", [untouched, tiled, cached, factored, on_threads])
@pytest.mark.parametrize("dtype", ["int32", "float32", "int8"])
@pytest.mark.parametrize("symbolic", [False, True])
def test_products_of_matrices(plan: Plan, dtype: str, symbolic: bool) -> None:
    sizes = (7, 11, 13)
    m, n, depth = [te.var(x) for x in "mnk"] if symbolic else sizes
    a = te.placeholder((m, depth), dtype, name="A")
    b = te.placeholder((depth, n), dtype, name="B")
    k = te.reduce_axis((0, depth), "r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    plan(s, c)
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, (sizes[0], sizes[2])).astype(dtype)
    y = rng.integers(-9, 9, (sizes[2], sizes[1])).astype(dtype)
    final = tvm.lower(s, [a, b, c])["main"]
    for func in (schedule_to_func(s, [a, b, c]), final, load_json(save_json(final))):
        verify(func)
        out = np.full((sizes[0], sizes[1]), 77, dtype)
        tir_eval(func, x, y, out)
        np.testing.assert_array_equal(out, x @ y)
    copy = load_json(save_json(final))
    assert structural_equal(copy, final) and structural_hash(copy) == structural_hash(final)


@pytest.mark.parametrize("factor", [3, 4, 16])
def test_guards_and_lanes_of_a_stencil(factor: int) -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: te.if_then_else(i < 2, 0.0, a[i] * 2.0 + a[i - 2]), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.axis[0], factor=factor)
    s[b].vectorize(inner)
    func = tvm.lower(s, [a, b])["main"]
    for size in (0, 1, 2, 15, 16, 37):
        x, out = np.arange(size, dtype=np.float32), np.full(size, -1, np.float32)
        tir_eval(func, x, out)
        expected = np.where(np.arange(size) < 2, 0, x * 2 + np.roll(x, 2))
        np.testing.assert_array_equal(out, expected)
