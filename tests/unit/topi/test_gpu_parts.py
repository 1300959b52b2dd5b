"""Default schedules for CUDA cut products and convolutions in parts where tiles are few."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.launches import SM80, computed, counted, launches
from tilewright import topi
from tilewright.base.dtype import parse
from tilewright.topi.schedules.gpu.machine import GpuMachine
from tilewright.topi.schedules.gpu.register_tiles import Blocks
from tilewright.topi.schedules.gpu.tile_plan import Reduction, TilePlan
from tilewright.topi.testing.convs import convolved

RNG = np.random.default_rng(17)
Shape = tuple[int, ...]


def whole(shape: Shape, dtype: str) -> Any:
    """Small numbers, whose sums are the same in any order."""
    return RNG.integers(-3, 4, shape).astype(parse(dtype).numpy)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "shape", [(13, 40, 1000), (5, 300, 520), (7, 33, 1009), (31, 9, 2048), (64, 13, 4099)]
)
def test_products(shape: tuple[int, int, int], dtype: str, turned: bool) -> None:
    n, m, k = shape
    a, b = whole((k, n) if turned else (n, k), dtype), whole((k, m) if turned else (m, k), dtype)

    def make(x: Any, y: Any) -> Any:
        product = topi.nn.matmul(
            x, y, out_dtype="float32", transpose_a=turned, transpose_b=not turned
        )
        return topi.nn.relu(product)

    result, _ = computed(make, dtype, [a, b])
    wide = [x.astype("float64") for x in (a.T if turned else a, b if turned else b.T)]
    np.testing.assert_array_equal(result, np.maximum(wide[0] @ wide[1], 0))


@pytest.mark.parametrize(
    ("dtype", "shape", "blocks", "threads"),
    [
        ("float32", (13, 4099, 1000), 108, 32),  # 4 rows a thread, which 3 in 4 had none for
        ("float32", (5, 50257, 768), 108, 32),
        ("float32", (64, 13, 4099), 20, 32),
        ("float32", (197, 80, 1000), 108, 64),
        ("float16", (64, 13, 4099), 40, 32),  # rows of no whole vectors are laid anew
        ("float16", (197, 768, 3072), 108, 64),
    ],
)
def test_few_tiles_are_cut(dtype: str, shape: Shape, blocks: int, threads: int) -> None:
    n, m, k = shape
    *kernels, _ = launches(
        lambda x, w: topi.nn.dense(x, w, out_dtype="float32"), dtype, (n, k), (m, k)
    )
    most = max(kernels[-2:], key=lambda x: (x[1] < 256, prod(x)))
    assert most[0] >= blocks and most[1] >= threads


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("images", "channels", "filters", "side", "taps", "stride"),
    [
        (1, 512, 24, 5, 1, 1),
        (2, 128, 10, 6, 3, 1),  # no group of filters fills a tile
        (1, 128, 40, 6, 3, 2),
        (1, 128, 16, 9, 5, 1),
    ],
)
def test_convolutions(
    dtype: str, images: int, channels: int, filters: int, side: int, taps: int, stride: int
) -> None:
    x, w = (
        whole((images, channels, side, side), dtype),
        whole((filters, channels, taps, taps), dtype),
    )
    want = convolved(x.astype("float64"), w.astype("float64"), stride, taps // 2)
    how = (stride, taps // 2, 1, "float32")
    result, _ = computed(lambda a, b: topi.nn.relu(topi.nn.conv2d_nchw(a, b, *how)), dtype, [x, w])
    np.testing.assert_array_equal(result, np.maximum(want, 0))
    last, of = (np.ascontiguousarray(x.transpose(0, 2, 3, 1)), w.transpose(2, 3, 1, 0).copy())
    result, _ = computed(lambda a, b: topi.nn.conv2d_nhwc(a, b, *how), dtype, [last, of])
    np.testing.assert_array_equal(result, want.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_last_layers_of_a_network_fill_a_device(dtype: str) -> None:
    *kernels, _ = launches(
        lambda x, w: topi.nn.conv2d_nchw(x, w, 1, 1, 1, "float32"),
        dtype, (1, 512, 7, 7), (512, 512, 3, 3),
    )  # fmt: skip
    assert kernels[-2][0] >= 100 and kernels[-2][1] >= 64


def test_a_second_kernel_has_to_be_worth_it() -> None:
    """By the clocks of the multiprocessor that has most to do."""

    def step(tiles: int, processors: int) -> float:
        return 10.0 * tiles

    parts = (1, 2, 4, 8)
    assert Reduction(100, parts, 0).clocks(16, 108, step) == (1000, 1)
    time, cut = Reduction(10000, parts, 0).clocks(16, 108, step)
    assert cut == 4 and time < 1e5 / 2, "of 8 parts some would have two tiles"
    assert Reduction(10000, parts, 1 << 30).clocks(16, 108, step)[1] == 1
    assert Reduction().clocks(5, 4, step) == (20, 1)


def test_tiles_are_ranked_by_their_clocks() -> None:
    """Those that may be decided on by the rule that the first one is chosen by."""
    plans = TilePlan.options(512, 512, "float32", True, 1, 108)
    first = plans[0]
    assert first == TilePlan.of(512, 512, "float32", True, 1, 108)
    blocks = [p.block for p in plans]
    assert blocks.index((64, 64)) < blocks.index((128, 128)), "16 blocks of 108 multiprocessors"
    assert (blocks[-1], plans[-1].columns) == ((128, 32), 32), "a warp with four others' work"


def test_a_few_rows_are_one_tile_of_a_warp() -> None:
    machine = GpuMachine.of(tw.Target(SM80))
    for rows in (5, 7, 8):
        found = Blocks.of((rows, 50257), 1, machine)
        assert found.filled[0] == 8 and prod(found.threads) == 32
    assert Blocks.of((16, 50257), 1, machine).filled[0] == 16
    assert prod(Blocks.of((1000, 1000), 1, machine).threads) == 256


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("channels", "filters", "space", "taps", "stride", "groups"),
    [
        (16, 13, (100,), 3, 1, 1),
        (128, 13, (37,), 3, 2, 1),
        (16, 24, (70,), 5, 1, 2),
        (8, 12, (5, 7, 9), 3, 1, 1),
        (64, 10, (4, 5, 6), 3, 1, 1),
        (5, 7, (6, 6, 6), 2, 2, 1),
        (16, 12, (4, 5, 6), 3, 2, 2),
    ],
)
def test_rows_and_volumes_are_products(
    dtype: str, channels: int, filters: int, space: Shape, taps: int, stride: int, groups: int
) -> None:
    rank, pad = len(space), taps // 2
    x = whole((2, channels, *space), dtype)
    w = whole((filters, channels // groups, *(taps for _ in space)), dtype)
    how = ((stride,) * rank, (pad,) * 2 * rank, (1,) * rank, groups, "float32")
    with tw.Target(SM80):
        result, f = computed(lambda a, b: topi.nn.relu(topi.nn.conv_nd(a, b, *how)), dtype, [x, w])
    filled = np.pad(x.astype("float64"), ((0, 0), (0, 0), *((pad, pad) for _ in space)))
    places = tuple(range(2, 2 + rank))
    windows = np.lib.stride_tricks.sliding_window_view(filled, w.shape[2:], places)
    windows = windows[(slice(None), slice(None), *(slice(None, None, stride) for _ in space))]
    over = [1, *range(2 + rank, 2 + 2 * rank)]
    parts = [
        np.moveaxis(np.tensordot(a, b, (over, [1, *places])), -1, 1)
        for a, b in zip(np.split(windows, groups, 1), np.split(w.astype("float64"), groups))
    ]
    np.testing.assert_array_equal(result, np.maximum(np.concatenate(parts, 1), 0))
    assert len(counted(f)) >= 3, "filters and data are laid anew"
