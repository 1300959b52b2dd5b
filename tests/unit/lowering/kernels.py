"""Runs schedules of one kernel through the device passes and the simt interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import te, tir
from tilewright.driver.lower import lower
from tilewright.interp.simt import SimtReport, run_kernel
from tilewright.loopir.stmt import PrimFunc
from tilewright.lowering.device_pipeline import run_device_pipeline
from tilewright.target.target import Target


def kernel_of(s: Any, args: Sequence[Any], target: str = "cuda") -> PrimFunc:
    """The only kernel of a schedule; of two versions, that for compact arrays."""
    with Target(target) as chosen:
        program = run_device_pipeline(lower(s, args)["main"], chosen, check=True)
    kernel, *others = program.kernels.values()
    assert len(others) <= 1
    return kernel


def run_schedule(
    s: Any,
    args: Sequence[Any],
    arrays: Mapping[str, np.ndarray],
    target: str = "cuda",
    grid: Mapping[str, int] | None = None,
    scalars: Mapping[str, int] | None = None,
) -> SimtReport:
    """Run the only kernel of a schedule on arrays by name; races and the like raise SimtError."""
    kernel = kernel_of(s, args, target)
    values = {**arrays, **(scalars or {})}
    return run_kernel(kernel, grid, [values[p.name] for p in kernel.params])


def argmax() -> Any:
    """A reducer of (index, value), the first of equal values."""

    def combine(x: Any, y: Any) -> tuple[Any, Any]:
        keep = x[1] >= y[1]
        return tir.Select(keep, x[0], y[0]), tir.Select(keep, x[1], y[1])

    return te.comm_reducer(combine, lambda i, v: (tir.const(-1, i), te.min_value(v)), name="argmax")


def row_reduction(
    n: Any,
    m: Any,
    threads: int,
    rows: int = 1,
    dtype: str = "float32",
    reducer: Any = None,
) -> tuple[Any, list[Any]]:
    """B[i] = sum of A[i, :], `threads` of threadIdx.x a row and `rows` of threadIdx.y a block."""
    reducer = reducer or te.sum
    a = te.placeholder((n, m), name="A", dtype=dtype)
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: reducer(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=rows)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.y"))
    _, ki = s[b].split(b.op.reduce_axis[0], factor=threads)
    s[b].bind(ki, te.thread_axis("threadIdx.x"))
    return s, [a, b]


def small_integers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Values whose sums are exact in every type."""
    low = 0 if dtype.startswith("u") else -3
    return np.random.default_rng(seed).integers(low, 4, shape).astype(dtype)
