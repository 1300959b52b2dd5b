"""Default schedules for CUDA: what kernels are made of at sizes that divide and at others, and what
they compute, in simt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.base.dtype import parse

TARGET = tw.Target("cuda -arch=sm_80")
SUMS = {"float32": "float32", "float16": "float32", "bfloat16": "float32", "int8": "int32"}


def built(make: Callable[..., Any], dtype: str, *shapes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The kernel's source, the report of a run, and the result with the inputs it was made of."""
    ins = [te.placeholder(shape, dtype, f"in{n}") for n, shape in enumerate(shapes)]
    out = make(*ins)
    f = tw.build(topi.default_schedule(out, TARGET), [*ins, out], TARGET, name="f")
    rng = np.random.default_rng(0)
    if dtype == "int8":
        arrays = [rng.integers(-8, 8, shape).astype(dtype) for shape in shapes]
    else:
        arrays = [
            (rng.random(shape, np.float32) * 2 - 1).astype(parse(dtype).numpy) for shape in shapes
        ]
    result = np.zeros([int(d) for d in out.shape], parse(out.dtype).numpy)
    (report,) = f.run_simt(*arrays, result).values()
    return f.imported_modules[0].get_source(), report, (result, *arrays)


def close(result: Any, want: Any, dtype: str) -> None:
    off = {"float32": 1e-5, "int8": 0.0}.get(dtype, 2e-3)
    np.testing.assert_allclose(result.astype("float64"), want, rtol=off, atol=off)


@pytest.mark.parametrize("dtype", SUMS)
@pytest.mark.parametrize("size", [(64, 64, 64), (72, 88, 40), (67, 69, 37), (65, 66, 129)])
def test_products(dtype: str, size: tuple[int, int, int]) -> None:
    n, m, k = size

    def make(a: Any, b: Any) -> Any:
        return topi.nn.dense(a, b, out_dtype=SUMS[dtype])

    source, report, (c, a, b) = built(make, dtype, (n, k), (m, k))
    wide = (a.astype("float64"), b.astype("float64"))
    close(c, wide[0] @ wide[1].T, "float32" if dtype != "int8" else dtype)
    assert report.bank_conflicts <= 1.1 and not report.findings
    assert ("tw_mma" in source) == (dtype != "float32") and "wmma" not in source
    nbytes = np.dtype(a.dtype).itemsize * np.gcd(k, 16 // np.dtype(a.dtype).itemsize)
    is_late = nbytes >= 4 and (dtype, k) != ("int8", 64)  # 64 bytes are all in one tile
    assert (report.async_copies > 0) == is_late
    if is_late:
        assert f"tw_cp_async<{nbytes}, " in source and "__syncthreads" in source


@pytest.mark.parametrize("flip", ["", "a", "b", "ab"])
def test_operands_that_lie_the_other_way_round(flip: str) -> None:
    def make(a: Any, b: Any) -> Any:
        return topi.matmul(a, b, "a" in flip, "b" in flip)

    shapes = [(72, 40)[:: -1 if "a" in flip else 1], (40, 88)[:: -1 if "b" in flip else 1]]
    for dtype in ("float32", "float16"):
        source, report, (c, a, b) = built(make, dtype, *shapes)
        a, b = (x.astype("float64") for x in (a, b))
        close(c, (a.T if "a" in flip else a) @ (b.T if "b" in flip else b), dtype)
        assert report.bank_conflicts <= 1.1 and report.async_copies > 0
        assert ("wmma" in source) == (dtype == "float16" and "a" in flip)
        assert ("tw_mma" in source) == (dtype == "float16" and "a" not in flip)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("k", [1, 15, 16, 17, 20, 31, 32, 33, 63])
def test_short_reductions(dtype: str, k: int) -> None:
    def make(a: Any, b: Any) -> Any:
        return topi.nn.dense(a, b, out_dtype=SUMS[dtype])

    source, report, (c, a, b) = built(make, dtype, (64, k), (64, k))
    close(c, a.astype("float64") @ b.astype("float64").T, "float32" if dtype != "int8" else dtype)
    assert not report.findings
    least = 16 if dtype == "float16" else 32  # steps of a fragment for mma
    assert ("tw_mma" in source) == (k >= least) and ("wmma" in source) == (16 <= k < least)


def test_what_follows_a_product_is_made_of_its_tiles() -> None:
    def make(a: Any, b: Any) -> Any:
        return topi.nn.relu(topi.nn.batch_matmul(a, b, out_dtype="float32"))

    source, _, (c, a, b) = built(make, "float16", (2, 40, 48), (2, 70, 48))
    a, b = a.astype("float64"), b.astype("float64")
    close(c, np.maximum(a @ b.transpose(0, 2, 1), 0), "float32")
    assert source.count("__global__") == 1


@pytest.mark.parametrize("shape", [(40, 256), (37, 200), (7, 197), (3, 5000)])
def test_sums_of_rows_and_columns(shape: tuple[int, int]) -> None:
    source, report, (y, x) = built(lambda x: topi.sum(x, 1), "float32", shape)
    close(y, x.astype("float64").sum(1), "float16")
    assert ("float4" in source) == (shape[1] % 4 == 0)
    assert report.threads % 32 == 0
    source, _, (y, x) = built(lambda x: topi.sum(x, 0), "float32", shape)
    close(y, x.astype("float64").sum(0), "float16")
    assert ("float4" in source) == (shape[1] % 4 == 0)


def test_what_follows_a_sum_of_rows() -> None:
    _, _, (y, x) = built(lambda x: topi.exp(topi.sum(x, 1)), "float32", (37, 128))
    close(y, np.exp(x.astype("float64").sum(1)), "float16")


@pytest.mark.parametrize(
    ("shape", "axes"), [((64, 48), (1, 0)), ((3, 16, 40), (0, 2, 1)), ((16, 3, 16), (2, 1, 0))]
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_turned_tensors(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    source, report, (y, x) = built(lambda x: topi.transpose(x, axes), dtype, shape)
    np.testing.assert_array_equal(y, x.transpose(axes))
    assert {"float32": "float4", "float16": "half8"}[dtype] in source
    assert report.coalescing > 0.9
