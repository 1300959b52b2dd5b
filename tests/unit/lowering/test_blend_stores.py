"""Vectors that the edge of a tensor cuts stay in registers; nothing else changes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tilewright import build, lower, te, tir, topi
from tilewright.loopir import stmt as S
from tilewright.loopir.visit import walk
from tilewright.lowering.options import LowerOptions
from tilewright.lowering.pipeline import run_pipeline
from tilewright.topi.schedules.decisions import Decisions

AVX2 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"


def depthwise(h: int = 9, w: int = 11, c: int = 30, taps: int = 3) -> list[Any]:
    x, f = te.placeholder((h, w, c), name="x"), te.placeholder((taps, taps, c), name="f")
    ry, rx = te.reduce_axis((0, taps), "ry"), te.reduce_axis((0, taps), "rx")
    shape = (h - taps + 1, w - taps + 1, c)
    y = te.compute(
        shape, lambda i, j, k: te.sum(x[i + ry, j + rx, k] * f[ry, rx, k], axis=[ry, rx]), name="y"
    )
    return [x, f, y]


def stores(body: Any, scope: str) -> list[S.BufferStore]:
    found = [s for s in walk(body) if isinstance(s, S.BufferStore)]
    return [s for s in found if s.buffer.scope() == scope]


def test_sums_at_the_edge_are_stored_whole() -> None:
    x, f, y = depthwise()
    s = topi.schedules.default_schedule(y, AVX2, Decisions({"y.tile": (3, 1, 2)}))
    body = lower(s, [x, f, y], name="f")["f"].body
    sums = stores(body, "local")
    assert sums and all(one.predicate is None for one in sums)
    assert any(one.predicate is not None for one in stores(body, "global")), "results are cut"
    code = build(s, [x, f, y], AVX2).get_source("asm")
    masked = re.findall(r"vmaskmovps\s+%ymm\d+, %ymm\d+, [^\n]*\(%(\w+)", code)
    assert len(masked) <= len(stores(body, "global")), "sums go through memory"


@pytest.mark.parametrize("c", [1, 7, 13, 30, 58])
@pytest.mark.parametrize("taps", [3, 5])
def test_the_results_are_the_same(c: int, taps: int) -> None:
    x, f, y = depthwise(9, 11, c, taps)
    rng = np.random.default_rng(c)
    a = rng.integers(-3, 4, (9, 11, c)).astype("float32")
    b = rng.integers(-3, 4, (taps, taps, c)).astype("float32")
    a[0, 0, 0] = np.inf
    out = np.full((10 - taps, 12 - taps, c), 77, "float32")
    tile = Decisions({"y.tile": (3, 1, 2)} if c > 16 else {})
    build(topi.schedules.default_schedule(y, AVX2, tile), [x, f, y], "llvm")(a, b, out)
    windows = np.lib.stride_tricks.sliding_window_view(a, (taps, taps), axis=(0, 1))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out, np.einsum("ijcyx,yxc->ijc", windows, b))


def kernel(parallel_inside: bool, whole: bool) -> Any:
    """Sums in a buffer of their own, begun whole or in part, stored to in part."""
    ib = tir.ir_builder.create()
    x = ib.pointer("float32", name="x")
    y = ib.pointer("float32", name="y")

    def body() -> Any:
        acc = ib.allocate("float32", 8, name="acc", scope="local")
        with ib.for_range(0, 8, name="v", kind="vectorize") as v:
            if whole:
                acc[v] = tir.const(0.0, "float32")
            else:
                with ib.if_scope(v < 5):
                    acc[v] = tir.const(0.0, "float32")
        if parallel_inside:
            with ib.for_range(0, 4, name="p", kind="parallel") as p:
                add(acc, p)
        else:
            add(acc, 0)
        with ib.for_range(0, 5, name="i") as i:
            y[i] = acc[i]

    def add(acc: Any, p: Any) -> None:
        with ib.for_range(0, 8, name="v", kind="vectorize") as v, ib.if_scope(v < 5):
            acc[v] = acc[v] + x[p * 8 + v]

    body()
    return tir.PrimFunc([x.asobject(), y.asobject()], ib.get())


@pytest.mark.parametrize(
    ("parallel", "whole", "blended"),
    [(False, True, True), (False, False, False), (True, True, False)],
)
def test_only_own_memory_that_was_stored_whole(parallel: bool, whole: bool, blended: bool) -> None:
    """Another thread may store the other lanes; what nobody stored has no value to keep."""
    body = run_pipeline(kernel(parallel, whole), LowerOptions()).body
    adds = [s for s in stores(body, "local") if "x" in str(s)]
    assert adds and all((s.predicate is None) == blended for s in adds), body
