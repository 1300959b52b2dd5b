"""A function by hand whose kernel copies columns of pixels: its map is made at the launch, on simt
and on a stub of the CUDA driver, from a module of this process and from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.stub_cuda import installed
from tests.unit.topi.test_warp_groups import HOPPER
from tilewright.base.errors import TilewrightError
from tilewright.base.tensor_map import Pixels
from tilewright.loopir import expr as E
from tilewright.loopir import hopper_calls as H
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.calls import storage_sync
from tilewright.loopir.iter import IterVar

HEIGHT, WIDTH, CHANNELS = 6, 7, 8
TAPS, STEP, PAD = 3, 2, 1
HIGH, WIDE = 3, 4  # of the output
COLUMN, THREADS = 16, 32


def im2col_function(upper: int = PAD - TAPS + 1) -> S.PrimFunc:
    """OUT[m, tap, c] is the im2col matrix of the images that are given: 3 x 3 taps, steps of 2."""
    count = E.Var("count", "int32")
    images = decl_buffer((count, HEIGHT, WIDTH, CHANNELS), "float32", "IMAGES")
    outs = count * (HIGH * WIDE)
    out = decl_buffer((outs, TAPS * TAPS, CHANNELS), "float32", "OUT")
    stage = decl_buffer(
        (TAPS * TAPS * COLUMN * CHANNELS,), "float32", "stage", None, None, None, "shared", 1024
    )
    bx, tx, k = (E.Var(name, "int32") for name in ("bx", "tx", "k"))
    pixels = Pixels((-PAD, -PAD), (upper, upper), (STEP, STEP))
    row, line = 4 * CHANNELS * WIDTH, 4 * CHANNELS
    seen = H.tensor_map(
        images.access_ptr("r"), (CHANNELS, WIDTH, HEIGHT, count), (line, row, row * HEIGHT),
        (CHANNELS, COLUMN), 0, pixels,
    )  # fmt: skip
    first: Any = bx * COLUMN
    div, mod = E.FloorDiv, E.FloorMod
    corner = (
        0,
        mod(first, E.const(WIDE)) * STEP - PAD,
        mod(div(first, E.const(WIDE)), E.const(HIGH)) * STEP - PAD,
        div(first, E.const(WIDE * HIGH)),
    )
    size = COLUMN * CHANNELS
    copies = [
        H.ptx_cp_async_bulk_tensor(
            "float32", _part(stage, (y * TAPS + x) * size, size), seen, corner, 0, None, (x, y)
        )
        for y in range(TAPS)
        for x in range(TAPS)
    ]
    place: Any = k * THREADS + tx
    pixel = mod(div(place, E.const(CHANNELS)), E.const(COLUMN))
    value = E.BufferLoad(stage, [place])
    where = [first + pixel, div(place, E.const(size)), mod(place, E.const(CHANNELS))]
    body = S.seq(
        S.Evaluate(H.create_barriers(1)),
        _first(tx, H.ptx_init_barrier_thread_count(0, 1), H.ptx_fence_barrier_init()),
        S.Evaluate(storage_sync("shared")),
        _first(tx, H.ptx_arrive_barrier_expect_tx(0, 4 * TAPS * TAPS * size), *copies),
        S.Evaluate(H.ptx_wait_barrier(0)),
        S.For(
            k, 0, TAPS * TAPS * size // THREADS, S.ForKind.SERIAL,
            S.IfThenElse(E.LT(first + pixel, outs), S.BufferStore(out, value, where)),
        ),
    )  # fmt: skip
    body = S.Allocate(stage, body)
    for tag, var, extent in (
        ("threadIdx.x", tx, E.const(THREADS)),
        ("blockIdx.x", bx, div(outs + (COLUMN - 1), E.const(COLUMN))),
    ):
        axis = IterVar((0, extent), var, IterVar.ThreadIndex, tag)
        body = S.AttrStmt(axis, "thread_extent", extent, body)
    params = [E.Var(name, "handle") for name in ("images", "out")]
    buffers = dict(zip(params, (images, out)))
    return S.PrimFunc(params, body, None, buffers, {"global_symbol": "im2col"})


def _part(stage: Any, at: int, size: int) -> E.Call:
    args = (E.const(0, "float32"), stage.data, at, size, 2)
    return E.Call("handle", "tir.tvm_access_ptr", args)


def _first(tx: E.Var, *calls: E.Call) -> S.Stmt:
    return S.IfThenElse(tx.equal(0), S.seq([S.Evaluate(c) for c in calls]))


def matrix(images: np.ndarray) -> np.ndarray:
    whole = np.pad(images, [(0, 0), (PAD, PAD), (PAD, PAD), (0, 0)])
    taps = [
        whole[:, y : y + STEP * HIGH : STEP, x : x + STEP * WIDE : STEP][:, :HIGH, :WIDE]
        for y in range(TAPS)
        for x in range(TAPS)
    ]
    return np.stack(taps, 3).reshape(-1, TAPS * TAPS, CHANNELS)


def drawn(count: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    shape = (count, HEIGHT, WIDTH, CHANNELS)
    return rng.integers(1, 100, shape).astype(np.float32)


def test_the_im2col_matrix_in_simt() -> None:
    built = tw.build(im2col_function(), target=HOPPER)
    for count in (1, 3):
        out = np.zeros((count * HIGH * WIDE, TAPS * TAPS, CHANNELS), np.float32)
        built.run_simt(drawn(count), out)
        np.testing.assert_array_equal(out, matrix(drawn(count)))


def test_the_im2col_matrix_on_a_stub_of_the_driver(tmp_path: Path) -> None:
    with installed("sm_90") as stub:
        built = tw.build(im2col_function(), target=HOPPER)
        loaded = tw.runtime.load_module(built.export_library(tmp_path / "m.two"))
        dev = tw.cuda(0)
        for module, count in ((built, 1), (built, 3), (loaded, 2)):
            images = tw.nd.array(drawn(count), dev)
            out = tw.nd.empty((count * HIGH * WIDE, TAPS * TAPS, CHANNELS), "float32", dev)
            for _ in range(2):  # by one map
                module(images, out)
            np.testing.assert_array_equal(out.numpy(), matrix(drawn(count)))
        assert sum(call[0] == "cuTensorMapEncodeIm2col" for call in stub.calls) == 3
        assert stub.violations == []


def test_the_text_of_the_function_reads_back() -> None:
    func = im2col_function()
    read = tw.script.from_source(tw.ir.IRModule({"im2col": func}).script())["im2col"]
    tw.ir.assert_structural_equal(read, func, map_free_vars=True)
    out = np.zeros((HIGH * WIDE, TAPS * TAPS, CHANNELS), np.float32)
    tw.build(read, target=HOPPER).run_simt(drawn(1), out)
    np.testing.assert_array_equal(out, matrix(drawn(1)))


def test_pixels_that_no_map_has_are_told_at_the_launch() -> None:
    built = tw.build(im2col_function(-8), target=HOPPER)
    out = np.zeros((HIGH * WIDE, TAPS * TAPS, CHANNELS), np.float32)
    with pytest.raises(
        TilewrightError, match=r"has no tensor map: the bounding box from \(-1, -1\)"
    ):
        built.run_simt(drawn(1), out)
