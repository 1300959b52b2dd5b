"""Reductions down columns on GPUs, and products of a few rows with weights (K, N)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.launches import SM80, computed, launches
from tests.unit.topi.test_gpu_reductions import whole_numbers
from tilewright import topi
from tilewright.base.dtype import parse
from tilewright.topi.schedules.gpu.machine import GpuMachine

Make = Callable[..., Any]


def product(dtype: str) -> Make:
    """Of matrices, with sums that have room."""
    sums = {"float16": "float32", "int8": "int32"}.get(dtype, dtype)
    return lambda a, b: topi.nn.matmul(a, b, out_dtype=sums)


@pytest.mark.parametrize(
    ("make", "dtype", "shapes"),
    [
        (lambda x: topi.sum(x, 0), "float32", [(100000, 64)]),
        (lambda x: topi.sum(x, 0), "float32", [(4096, 1000)]),
        (lambda x: topi.max(x, (0, 1)), "float16", [(64, 3136, 128)]),
        (lambda x: topi.argmax(x, 0), "float32", [(65536, 128)]),
        (product("float16"), "float16", [(1, 4096), (4096, 4096)]),
        (product("float32"), "float32", [(1, 4096), (4096, 1000)]),
        (product("float16"), "float16", [(4, 4096), (4096, 4096)]),
    ],
)
def test_columns_fill_a_gpu_with_vectors(make: Make, dtype: str, shapes: Any) -> None:
    (blocks, threads), *rest, (f, _) = launches(make, dtype, *shapes)
    enough = GpuMachine.of(tw.Target(SM80)).filling
    assert enough <= blocks <= 8 * enough and threads == 256 and rest
    kernel = f.imported_modules[0].get_source().split("__global__")[1]
    wide = r"\*\(const float4\*\)\(in" if dtype == "float32" else r"tw_load_float16x8\(in"
    assert re.search(wide, kernel), "loads of 128 bits"
    assert kernel.count("__syncthreads()") <= 2, "one, and one of blocks at the edge"


def test_rows_of_a_product_share_what_is_read_of_weights() -> None:
    *_, (f, _) = launches(product("float16"), "float16", (4, 4096), (4096, 4096))
    kernel = f.imported_modules[0].get_source().split("__global__")[1]
    reads = set(re.findall(r"tw_load_float16x8\(in1 [^;]*;", kernel))
    assert len(reads) == 1, "the same one, for all rows"
    assert kernel.count("#pragma unroll") > 1, "of some steps, beside the sums of all threads"


def test_rows_that_read_the_same_weights_follow_each_other() -> None:
    """Where weights are (N, K), a warp has a result."""
    a, b = whole_numbers((4, 512), "float16"), whole_numbers((32, 512), "float16")
    result, f = computed(lambda a, b: topi.nn.dense(a, b, out_dtype="float32"), "float16", [a, b])
    np.testing.assert_array_equal(result, a.astype(np.float64) @ b.astype(np.float64).T)
    kernel = f.imported_modules[0].get_source().split("__global__")[1]
    (place,) = set(re.findall(r"tw_load_float16x8\(in1 ([^;]*);", kernel))
    assert "((int)threadIdx.y) >> 2" in place, "four warps read a row of weights"


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((1, 5), 0),
        ((2, 1000), 0),
        ((197, 1), 0),
        ((197, 3), 0),
        ((1000, 2), 0),
        ((3001, 67), 0),
        ((1024, 128), 0),
        ((3, 50, 197), 1),
        ((5, 7, 300, 16), (1, 2)),
        ((40, 2, 48), (0, 1)),
    ],
)
def test_sums_of_columns(shape: tuple[int, ...], axis: Any, dtype: str) -> None:
    x = whole_numbers(shape, dtype, 1)
    result, _ = computed(lambda t: topi.sum(t, axis), dtype, [x])
    want = x.astype(np.float64).sum(axis)
    kind = parse(dtype).numpy
    exact = want.astype(np.int64).astype(kind) if "int" in dtype else want.astype(kind)
    np.testing.assert_array_equal(result, exact)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize(
    ("rows", "columns", "steps"),
    [(1, 1, 7), (1, 67, 1000), (1, 256, 2048), (2, 197, 131), (3, 48, 600), (4, 1000, 129)],
)
def test_products_of_few_rows(rows: int, columns: int, steps: int, dtype: str) -> None:
    a, b = (whole_numbers(s, dtype) for s in ((rows, steps), (steps, columns)))
    result, _ = computed(lambda a, b: topi.nn.relu(product(dtype)(a, b)), dtype, [a, b])
    want = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_batches_of_one_row(dtype: str) -> None:
    a, b = whole_numbers((3, 1, 300), dtype), whole_numbers((3, 300, 40), dtype)
    result, _ = computed(
        lambda a, b: topi.nn.batch_matmul(a, b, None, "float32", transpose_b=False), dtype, [a, b]
    )
    np.testing.assert_array_equal(result, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("shape", [(1000, 64), (197, 67), (3000, 2), (2, 5), (1, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_places_in_columns(shape: tuple[int, ...], dtype: str) -> None:
    x = whole_numbers(shape, dtype)
    result, _ = computed(lambda t: topi.argmax(t, 0), dtype, [x])
    np.testing.assert_array_equal(result, x.argmax(0))
