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


def test_larger_sides_are_halved_until_there_are_blocks_for_all() -> None:
    assert filling((128, 768), 1, (128, 128), (32, 32), 96) == (32, 32)
    assert filling((128, 3072), 1, (128, 128), (32, 32), 96) == (64, 64)
    assert filling((1024, 1024), 1, (128, 128), (32, 32), 96) == (64, 128)
    assert filling((4096, 4096), 1, (128, 128), (32, 32), 96) == (128, 128)
    assert filling((128, 128), 96, (128, 128), (32, 32), 96) == (128, 128)
    assert filling((128, 0), 1, (128, 128), (32, 32), 96) == (128, 128), (
        "an extent that is not known"
    )
    assert filling((128, 128), 0, (128, 128), (32, 32), 96) == (128, 128)
    assert filling((7, 40), 1, (7, 8), (2, 4), 96) == (2, 4)
    assert filling((9, 9), 1, (1, 1), (2, 4), 96) == (1, 1), "no tile grows"


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
        ("float16", (256, 3072, 64), (64, 64)),
        ("float16", (1024, 1024, 64), (64, 128)),
    ],
)
def test_products(dtype: str, shape: tuple[int, int, int], tile: tuple[int, int]) -> None:
    n, m, k = shape
    *_, (blocks, threads), _ = launches(
        lambda a, b: topi.nn.dense(a, b, out_dtype="float32"), dtype, (n, k), (m, k)
    )
    enough = GpuMachine.of(tw.Target(SM80)).filling
    assert blocks == -(-n // tile[0]) * -(-m // tile[1]) and blocks >= enough
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
    assert [p.block for p in plans] == [(64, 128), (32, 64)]


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
