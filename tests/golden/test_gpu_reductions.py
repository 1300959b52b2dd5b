"""Reductions over threads: the loop nest and the kernels that the device passes make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.golden.goldens import check
from tests.unit.lowering.kernels import argmax, kernel_of, row_reduction
from tests.unit.lowering.test_cross_thread import factored, running_sum
from tests.unit.lowering.test_warp_memory import cached, rotated
from tilewright import te
from tilewright.driver.lower import lower

Case = Callable[[], tuple[Any, list[Any]]]


def rows_of_16_threads() -> tuple[Any, list[Any]]:
    return row_reduction(64, 512, 16, 8)


def rows_of_96_threads() -> tuple[Any, list[Any]]:
    return row_reduction(64, 500, 96)


def bytes_of_64_threads() -> tuple[Any, list[Any]]:
    return row_reduction(64, 512, 64, dtype="int8")


def argmax_of_32_threads() -> tuple[Any, list[Any]]:
    index = te.placeholder((8, 64), name="I", dtype="int32")
    value = te.placeholder((8, 64), name="V")
    k = te.reduce_axis((0, 64), name="k")
    reducer = argmax()
    best, top = te.compute((8,), lambda i: reducer((index[i, k], value[i, k]), axis=k), name="T")
    s = te.create_schedule(best.op)
    s[best].bind(s[best].split(k, factor=32)[1], te.thread_axis("threadIdx.x"))
    s[best].bind(best.op.axis[0], te.thread_axis("blockIdx.x"))
    return s, [index, value, best, top]


def warp_rotation() -> tuple[Any, list[Any]]:
    return cached(128, rotated(16, 3), 16, rows=4)


def scan_on_env_threads() -> tuple[Any, list[Any]]:
    s, args, scan, first, step = running_sum()
    blocks, threads = te.thread_axis((0, 3), "blockIdx.x"), te.thread_axis((0, 16), "threadIdx.x")
    s[scan].env_threads([blocks, threads])
    for stage in (first, step):
        outer, inner = s[stage].split(stage.op.axis[1], factor=16)
        s[stage].bind(outer, blocks)
        s[stage].bind(inner, threads)
    return s, args


@pytest.mark.parametrize("case", [factored, scan_on_env_threads], ids=lambda c: c.__name__)
def test_loops(case: Case) -> None:
    s, args = case()
    check(f"gpu/loops_{case.__name__}", str(lower(s, args, simple_mode=True)["main"]))


@pytest.mark.parametrize("target", ["cuda", "opencl"])
@pytest.mark.parametrize(
    "case",
    [factored, rows_of_16_threads, rows_of_96_threads, bytes_of_64_threads, argmax_of_32_threads],
    ids=lambda c: c.__name__,
)
def test_kernels(case: Case, target: str) -> None:
    s, args = case()
    check(f"gpu/{target}_{case.__name__}", str(kernel_of(s, args, target)))


def test_warp_memory() -> None:
    check("gpu/cuda_warp_rotation", str(kernel_of(*warp_rotation())))
