"""Default schedules for CUDA take smaller tiles where larger ones would leave multiprocessors
without a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.launches import SM80, computed, launches
from tilewright import topi
from tilewright.base.dtype import parse
from tilewright.topi.schedules.gpu.machine import GpuMachine
from tilewright.topi.schedules.gpu.tile_plan import TilePlan, filling


@pytest.mark.parametrize(
    ("shape", "count", "processors", "tile"),
    [
        ((128, 768), 1, 96, (32, 32)),
        ((128, 3072), 1, 96, (64, 64)),
        ((4096, 4096), 1, 96, (128, 128)),
        ((128, 128), 96, 96, (128, 128)),
        ((128, 0), 1, 96, (128, 128)),  # an extent that is not known
        ((128, 128), 0, 96, (128, 128)),
        ((1024, 1024), 1, 132, (64, 128)),  # 128 blocks are nearly enough
        ((1024, 1024), 1, 108, (32, 64)),  # 5 of these are done before 3 of twice the size
        ((1536, 1536), 1, 108, (64, 128)),  # 144 larger ones would take twice as long as 108
        ((16, 16), 1, 108, (32, 32)),  # there is no smaller one
    ],
)
def test_as_many_blocks_as_make_the_busiest_multiprocessor_quick(
    shape: tuple[int, int], count: int, processors: int, tile: tuple[int, int]
) -> None:
    def clocks(high: int, wide: int, tiles: int, processors: int) -> float:
        return tiles * high * wide

    assert filling(shape, count, (128, 128), (32, 32), processors, clocks) == (tile, 1)


def test_tiles_of_odd_sides_are_halved_and_none_grows() -> None:
    def clocks(high: int, wide: int, tiles: int, processors: int) -> float:
        return tiles * high * wide

    assert filling((7, 40), 1, (7, 8), (2, 4), 96, clocks) == ((2, 4), 1)
    assert filling((9, 9), 1, (1, 1), (2, 4), 96, clocks) == ((1, 1), 1)


def test_small_tiles_read_too_much_for_the_cache() -> None:
    """1024 x 1024 by 108 multiprocessors: a tile of 64 x 64 would be waited for."""
    assert TilePlan.of(1024, 1024, "float32", True, 1, 108).block == (64, 128)
    assert TilePlan.of(1024, 1024, "float32", True, 1, 132).block == (64, 128)
    assert TilePlan.of(1536, 1536, "float32", True, 1, 108).block == (64, 128)
    assert TilePlan.of(4096, 4096, "float32", True, 1, 108).block == (128, 128)


def test_a_plan_for_tensor_cores_fills_the_device() -> None:
    assert TilePlan.of(128, 768, "float32", True, 1, 96).block == (32, 64)
    assert TilePlan.of(128, 768, "float32", True, 16, 96).block == (128, 128)
    assert TilePlan.of(128, 768, "float32", True).block == (128, 128)


@pytest.mark.parametrize(
    ("dtype", "shape", "tile"),
    [
        ("float32", (128, 1024, 64), (32, 32)),
        ("float32", (192, 3072, 64), (64, 64)),
        ("float32", (1024, 1024, 64), (64, 128)),
        ("float16", (256, 3072, 64), (64, 128)),  # 96 blocks: smaller ones would read more
        ("float16", (1024, 1024, 64), (64, 128)),
    ],
)
def test_products(dtype: str, shape: tuple[int, int, int], tile: tuple[int, int]) -> None:
    n, m, k = shape
    *_, (blocks, threads), _ = launches(
        lambda a, b: topi.nn.dense(a, b, out_dtype="float32"), dtype, (n, k), (m, k)
    )
    enough = GpuMachine.of(tw.Target(SM80)).filling
    assert blocks == -(-n // tile[0]) * -(-m // tile[1]) and blocks >= 0.85 * enough
    assert threads >= 64


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("channels", "filters", "side"), [(64, 96, 14), (96, 160, 7)])
def test_blocked_convolutions(dtype: str, channels: int, filters: int, side: int) -> None:
    """1x1 filters over the small images of a network's end, in vectors of channels."""
    lanes = 16 // parse(dtype).nbytes
    shapes = [
        (1, channels // lanes, side, side, lanes),
        (filters // lanes, channels // lanes, 1, 1, lanes, lanes),
    ]

    def make(x: Any, w: Any) -> Any:
        return topi.nn.conv_nchwc(x, w, (1, 1), (0, 0, 0, 0), (1, 1), "float32")

    *_, (blocks, threads), (f, out) = launches(make, dtype, *shapes)
    assert blocks >= 35 and threads >= 32
    rng = np.random.default_rng(0)
    x, w = ((rng.random(s, np.float32) - 0.5).astype(parse(dtype).numpy) for s in shapes)
    result = np.zeros([int(d) for d in out.shape], np.float32)
    f.run_simt(x, w, result)
    want = np.einsum("ncyxi,fcabio->nfyxo", x.astype("float64"), w.astype("float64"))
    np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-5)


def test_a_target_says_how_many_multiprocessors_there_are() -> None:
    few, many = (
        GpuMachine.of(tw.Target(f"cuda -arch=sm_86 -multi_processor_count={n}")) for n in (20, 82)
    )
    assert (few.filling, many.filling) == (20, 82)
    assert GpuMachine.of(tw.Target("cuda -arch=sm_86")).filling == 82
    assert GpuMachine.of(tw.Target("opencl")).filling == 96, "nothing is known of it"
    plans = [TilePlan.chosen("f", 512, 512, "float32", True, 1, m) for m in (few, many)]
    assert [p.block for p in plans] == [(64, 128), (32, 128)]


@pytest.mark.parametrize(
    ("batch", "size", "together", "threads"),
    [
        (64, (16, 16, 16), 2, 32),  # few: a warp each
        (4096, (16, 16, 16), 8, 128),
        (1000, (8, 12, 40), 8, 32),  # 4 threads a product: whole warps of them
        (768, (24, 24, 32), 8, 128),
        (7, (16, 16, 16), 1, 16),  # nothing that divides it
        (12, (197, 197, 64), 1, 256),
    ],
)
def test_small_products_share_blocks(
    batch: int, size: tuple[int, int, int], together: int, threads: int
) -> None:
    n, m, k = size
    ((blocks, found),) = launches(topi.nn.batch_matmul, "float32", (batch, n, k), (batch, m, k))[:1]
    assert found == threads and blocks * together % batch == 0


@pytest.mark.parametrize("size", [(16, 16, 16), (8, 12, 40), (5, 5, 33), (9, 33, 7), (24, 24, 32)])
@pytest.mark.parametrize("batch", [1, 6, 64])
@pytest.mark.parametrize("is_turned", [False, True])
def test_what_small_products_come_to(
    size: tuple[int, int, int], batch: int, is_turned: bool
) -> None:
    n, m, k = size
    rng = np.random.default_rng(0)
    shapes = ((batch, n, k), (batch, m, k) if is_turned else (batch, k, m))
    a, b = (rng.integers(-4, 5, shape).astype("float32") for shape in shapes)

    def make(x: Any, y: Any) -> Any:
        return topi.nn.relu(topi.nn.batch_matmul(x, y, transpose_b=is_turned))

    found, _ = computed(make, "float32", [a, b])
    want = a @ (b.swapaxes(1, 2) if is_turned else b)
    np.testing.assert_array_equal(found, np.maximum(want, 0))
