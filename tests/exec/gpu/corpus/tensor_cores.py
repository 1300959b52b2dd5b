"""Matrix products by tensor cores: fragments of warps (wmma), of registers (mma, ldmatrix), and
tiles of warp groups (wgmma)."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.gpu_kernels import TensorTiles, tensor_matmul
from tests.exec.gpu.kit import Case
from tilewright import te, topi
from tilewright.target.target import Target
from tilewright.topi.schedules.gpu.machine import GpuMachine
from tilewright.topi.schedules.gpu.warp_groups import schedule_on_warp_groups
from tilewright.topi.tensor_intrin import WarpGroupTile
from tilewright.topi.tensor_intrin.warp_group_tile import SUMS

NO_MATRICES = "OpenCL C has no matrix operations of warps"


def eighths(r: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Few bits: tensor cores take ten of a float32, and round sums their own way."""
    return r.integers(-8, 9, shape) / 8


def case(
    name: str,
    dtype: str,
    out: str,
    arch: str,
    tiles: TensorTiles,
    size: tuple[int, int, int] = (32, 128, 64),
) -> Case:
    draw = {} if "int" in dtype else {"A": eighths, "B": eighths}
    return Case(
        name,
        lambda: tensor_matmul(*size, dtype, out, tiles),
        draw=draw,
        opencl=NO_MATRICES,
        arch=arch,
    )


def wmma(shape: tuple[int, int, int], stages: int = 1) -> TensorTiles:
    m, n, k = shape
    return TensorTiles((2 * m, 4 * n), (2 * m, 2 * n), 2 * k, stages, shape)


def warp_groups(
    name: str,
    dtype: str,
    flips: tuple[bool, bool],
    specialized: bool,
    columns: int = 64,
    length: int | None = None,
) -> Case:
    """A product of 72 x 136 x 264, five steps in two stages; `length`: of a part of them."""
    m, n, k = 72, 136, 264 if dtype != "int8" else 528

    def build() -> tuple[Any, list[Any]]:
        a = te.placeholder((k, m) if flips[0] else (m, k), dtype, "A")
        b = te.placeholder((n, k) if flips[1] else (k, n), dtype, "B")
        c = topi.nn.matmul(a, b, None, SUMS[dtype], *flips)
        s = te.create_schedule(c.op)
        along = (not flips[0], flips[1])
        tile = WarpGroupTile(dtype, 64, columns, (m, n, k), along, 2, specialized, None, length)
        machine = GpuMachine.of(Target("cuda -arch=sm_90a"))
        schedule_on_warp_groups(s, c, c, tile, machine)
        return s, [a, b, c]

    draw = {} if dtype == "int8" else {"A": eighths, "B": eighths}
    return Case(name, build, draw=draw, opencl=NO_MATRICES, arch="sm_90a")


SQUARE = (16, 16, 16)

CASES = [
    case("wmma_half", "float16", "float32", "sm_75", wmma(SQUARE)),
    case("wmma_half_pure", "float16", "float16", "sm_75", wmma(SQUARE)),
    case("wmma_half_tall", "float16", "float32", "sm_75", wmma((32, 8, 16)), (64, 64, 64)),
    case("wmma_half_wide", "float16", "float32", "sm_75", wmma((8, 32, 16)), (16, 128, 64)),
    case("wmma_half_stages", "float16", "float32", "sm_80", wmma(SQUARE, 3), (32, 128, 128)),
    case("wmma_bytes", "int8", "int32", "sm_75", wmma(SQUARE)),
    case("wmma_bfloat", "bfloat16", "float32", "sm_80", wmma(SQUARE)),
    case("wmma_tf32", "float32", "float32", "sm_80", wmma((16, 16, 8))),
    case(
        "mma_half",
        "float16",
        "float32",
        "sm_80",
        TensorTiles((32, 64), (32, 32), 32, 1, unit="mma"),
    ),
    case(
        "mma_bfloat_stages",
        "bfloat16",
        "float32",
        "sm_80",
        TensorTiles((32, 64), (32, 32), 32, 3, unit="mma"),
        (32, 64, 128),
    ),
    warp_groups("wgmma_half", "float16", (False, True), True),
    warp_groups("wgmma_bfloat_in_step", "bfloat16", (True, False), False),
    warp_groups("wgmma_half_parts", "float16", (False, True), True, 32, 256),
    warp_groups("wgmma_bytes", "int8", (False, True), True, 128),
]
