"""What benchmarks/gpu.py builds: kernels, data, references and bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import gpu_kernels as kernels
from benchmarks.gpu_rates import REACHED

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One kernel.

    `program(*size)` gives the schedule; `size` is what is timed, `small` what simt checks.
    `reference`: the output in NumPy, within `tolerance`. `work(*size)`: bytes moved (beside "copy")
    or operations; `beside`: what the rate is compared with; `bar`: the share to reach, in percent,
    where `unit`, of gpu_rates.py, is the fastest that a device has for it.
    """

    name: str
    program: Callable[..., kernels.Program]
    size: tuple[int, ...]
    small: tuple[int, ...]
    reference: Callable[..., Array]
    tolerance: float
    beside: str
    bar: float
    work: Callable[..., float]
    unit: str
    least: int = 75  # the oldest architecture that has what it uses
    only: str = ""  # the one that has it, where there is but one

    def runs_on(self, arch: str) -> bool:
        """Whether an architecture such as "sm_90" has what the kernel uses."""
        if self.only:
            return arch == self.only
        return int("".join(c for c in arch[3:] if c.isdigit())) >= self.least

    @property
    def peer_unit(self) -> str:
        """What a copy, or cuBLAS, does the same with."""
        return "tensor" if self.unit == "mma" else self.unit

    def bar_on(self, most: Mapping[str, float]) -> float:
        """The share to reach on a device, by its rates: of units that are slower than its fastest
        so much less."""
        peer = most.get(self.peer_unit, 0.0)
        return self.bar * most[self.unit] / peer if peer else self.bar

    def estimate(self, most: Mapping[str, float]) -> float:
        """What a copy, or cuBLAS, would reach there, in GB/s or GFLOP/s; 0 where that is not
        known."""
        return most.get(self.peer_unit, 0.0) * REACHED / 1e9

    def inputs(self, args: list[Any], seed: int = 0) -> list[Array]:
        """Numbers from -1 to 1 for all arguments but the last."""
        rng = np.random.default_rng(seed)
        shapes = [tuple(int(d) for d in a.shape) for a in args[:-1]]
        draws = [rng.random(shape, np.float32) * 2 - 1 for shape in shapes]
        return [x.astype(a.dtype) for x, a in zip(draws, args)]

    def check(self, got: Array, inputs: list[Array]) -> None:
        """ValueError where the result is wrong."""
        want = self.reference(*inputs)
        off = float(np.max(np.abs(got.astype(np.float32) - want.astype(np.float32))))
        if not off <= self.tolerance:
            raise ValueError(f"{self.name}: off by {off}, {self.tolerance} is allowed")


def _product(a: Array, b: Array) -> Array:
    return a.astype(np.float32) @ b.astype(np.float32)


def _product_work(n: int, m: int, depth: int) -> float:
    return 2.0 * n * m * depth


CASES = (
    Case(
        "elementwise",
        kernels.elementwise,
        (1 << 27,),
        (4096,),
        lambda a, b: a * np.float32(2) + b,
        1e-6,
        "copy",
        90.0,
        lambda n: 12.0 * n,
        "memory",
    ),
    Case(
        "row_sum",
        kernels.row_sum,
        (8192, 8192),
        (8, 8192),
        lambda a: a.sum(axis=1, dtype=np.float64),
        1e-3,
        "copy",
        85.0,
        lambda n, m: 4.0 * n * (m + 1),
        "memory",
    ),
    Case(
        "transpose",
        kernels.transpose,
        (8192, 8192),
        (128, 192),
        lambda a: a.T,
        0.0,
        "copy",
        80.0,
        lambda n, m: 8.0 * n * m,
        "memory",
    ),
    Case(
        "transpose_tall",
        kernels.transpose,
        (65536, 1024),
        (192, 64),
        lambda a: a.T,
        0.0,
        "copy",
        80.0,
        lambda n, m: 8.0 * n * m,
        "memory",
    ),
    Case(
        "matmul_f32",
        kernels.matmul,
        (4096, 4096, 4096),
        (128, 128, 64),
        _product,
        1e-2,
        "float32",
        80.0,
        _product_work,
        "float32",
    ),
    Case(
        "matmul_f16",
        kernels.tensor_matmul,
        (4096, 4096, 4096),
        (128, 128, 128),
        _product,
        3e-2,
        "float16",
        60.0,
        _product_work,
        "mma",
    ),
    Case(
        "matmul_f16_mma",
        lambda n, m, k: kernels.tensor_matmul(n, m, k, t=kernels.TensorTiles(unit="mma")),
        (4096, 4096, 4096),
        (128, 128, 128),
        _product,
        3e-2,
        "float16",
        60.0,
        _product_work,
        "mma",
        80,
    ),
    Case(
        "matmul_f16_wgmma",
        kernels.warp_group_matmul,
        (4096, 4096, 4096),
        (192, 128, 128),
        _product,
        3e-2,
        "float16",
        60.0,
        _product_work,
        "tensor",
        90,
        "sm_90a",
    ),
)
BY_NAME = {c.name: c for c in CASES}
