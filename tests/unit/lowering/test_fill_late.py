"""Loops that load the next tile into registers, use the present one, and store then: what there is
where nothing copies to shared memory by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.exec.gpu.corpus.matmul import Tiles, tiled
from tilewright import te, tir
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.calls import storage_sync
from tilewright.loopir.visit import nodes
from tilewright.lowering.fill_late import Halves, registers_for

OLD = "cuda -arch=sm_75"


def product(stages: int, size: Any = (32, 32, 48), **how: Any) -> tuple[Any, list[Any]]:
    tile = {"tile": 32, "threads": 8, "vector": 4, **how}
    return tiled(Tiles(size, double=True, late=True, stages=stages, **tile))


def source(program: tuple[Any, list[Any]], target: str) -> str:
    text: str = tw.build(*program, target, name="f").imported_modules[0].get_source()
    return text[text.index("f_kernel") :]


@pytest.mark.parametrize("target", [OLD, "opencl"])
def test_loads_come_before_a_tile_is_used_and_stores_after(target: str) -> None:
    text = source(product(2), target)
    start = text.index("for (int k_outer")
    main = text[start : text.index("\n  }\n", start)]
    barrier = "__syncthreads" if target == OLD else "barrier("
    load = "float4*)(A +" if target == OLD else "vload4(0, A +"
    places = [main.index(x) for x in (barrier, load, "C_local[", "A_shared +")]
    loads = main.count(load)
    assert places == sorted(places) and loads == 1 and main.count(barrier) == 1
    assert "async" not in text


def test_newer_gpus_copy_by_themselves() -> None:
    assert "_next" not in source(product(2), "cuda -arch=sm_80")
    assert registers_for(tw.Target("cuda -arch=sm_80")) == 0 == registers_for(None)
    assert registers_for(tw.Target(OLD)) == 63


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize(
    ("size", "how"),
    [
        ((32, 32, 48), {}),
        ((20, 33, 70), {"vector": 1, "tile": 16}),  # tiles at edges, the last one short
        ((37, 29, 5), {"vector": 1, "tile": 16}),  # one step
        ((32, 64, 24), {"dtype": "float16", "vector": 8}),
        ((64, 64, 40), {"virtual": True}),
    ],
)
def test_results_and_barriers(stages: int, size: tuple[int, int, int], how: Any) -> None:
    n, m, k = size
    dtype = how.get("dtype", "float32")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((n, k), (k, m)))
    out = np.zeros((n, m), "float32")
    function = tw.build(*product(stages, size, **how), OLD, name="f")
    (report,) = function.run_simt(a, b, out).values()
    assert not report.findings and (report.async_copies == 0) == (k > 8)
    np.testing.assert_array_equal(out, a.astype("float64") @ b.astype("float64"))
    # the last stages - 1 steps share one
    tiles = -(-n // how.get("tile", 32)) * -(-m // how.get("tile", 32))
    steps = -(-k // 8)
    late = min(stages, steps) - 1
    assert report.barriers == tiles * (steps - late + 1 if late else 1)


def test_steps_that_are_not_known() -> None:
    program = tiled(Tiles((16, 16, te.size_var("k")), late=True, double=True, stages=2))
    function = tw.build(*program, OLD, name="f")
    assert "_next" in function.imported_modules[0].get_source()
    for k in (0, 1, 8, 9, 61):
        a, b = np.ones((16, k), "float32"), np.full((k, 16), 2, "float32")
        out = np.zeros((16, 16), "float32")
        (report,) = function.run_simt(a, b, out).values()
        assert not report.findings and (out == 2 * k).all()


def _copy(extent: int, **how: Any) -> S.Stmt:
    i = tir.Var("i", "int32")
    a = Buffer((1024,), "float32", "A", scope="global")
    b = Buffer((1024,), how.get("stored", "float32"), "B", scope=how.get("scope", "shared"))
    value = how.get("value", lambda x: x)(tir.BufferLoad(a, (i,)))
    store: S.Stmt = S.BufferStore(b, value, (i,))
    if "condition" in how:
        store = S.IfThenElse(how["condition"](a, i), store)
    if how.get("sync"):
        store = S.seq(store, S.Evaluate(storage_sync("shared")))
    loop = S.For(i, tir.const(0), tir.const(extent), S.ForKind.SERIAL, store)
    return S.AttrStmt(tir.const(0), how.get("mark", "async_scope"), tir.const(1), loop)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"condition": lambda a, i: i < 7},
        {"value": lambda x: tir.if_then_else(tir.Var("n", "int32") < 5, x, tir.const(0.0))},
        {"stored": "float16", "value": lambda x: x.astype("float16")},
    ],
)
def test_what_is_cut_in_two(how: Any) -> None:
    halves = Halves.of(_copy(8, **how), 8)
    assert halves is not None
    load, store = (
        [x for x in nodes(part) if type(x) is S.BufferStore] for part in (halves.load, halves.store)
    )
    (kept,) = halves.registers
    assert kept.scope() == "local" and [int(d) for d in kept.shape] == [8]
    assert load[0].buffer.same_as(kept) and store[0].buffer.name == "B"
    loops = [x.loop_var for p in (halves.load, halves.store) for x in nodes(p) if type(x) is S.For]
    assert len(loops) == 2 and not loops[0].same_as(loops[1])  # each defined once
    assert not any(type(x) is S.AttrStmt for x in nodes(S.seq(halves.load, halves.store)))


@pytest.mark.parametrize(
    ("extent", "how"),
    [
        (9, {}),  # more than there are registers
        (8, {"mark": "elsewhere"}),  # not asked for
        (8, {"scope": "local"}),
        (8, {"value": lambda x: tir.const(0.0)}),  # reads nothing
        (8, {"condition": lambda a, i: tir.BufferLoad(a, (i,)) > 0.0}),  # may change meanwhile
        (8, {"sync": True}),
    ],
)
def test_what_stays_whole(extent: int, how: Any) -> None:
    assert Halves.of(_copy(extent, **how), 8) is None
