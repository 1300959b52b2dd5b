"""Reductions of few results on GPUs: parts by many blocks, put together by a second kernel."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.launches import SM80, computed, launches
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.topi.schedules.decisions import Decisions
from tilewright.topi.schedules.default import default_schedule
from tilewright.topi.schedules.gpu.machine import GpuMachine

Make = Callable[..., Any]


def whole_numbers(shape: tuple[int, ...], dtype: str, most: int = 3) -> Any:
    """Whose sums are exact."""
    rng = np.random.default_rng(sum(shape))
    return rng.integers(-most, most + 1, shape).astype(parse(dtype).numpy)


@pytest.mark.parametrize(
    ("make", "dtype", "shape", "kernels"),
    [
        (topi.sum, "float32", (4096, 4096), 2),
        (topi.sum, "float16", (4096, 4096), 2),
        (topi.max, "float32", (64, 3, 224, 224), 2),
        (topi.mean, "float32", (4096, 4096), 2),
        (lambda x: topi.sum(x, 1), "float32", (8, 1000000), 2),
        (lambda x: topi.sum(x, (0, 2, 3)), "float32", (64, 3, 224, 224), 2),
        (lambda x: topi.argmax(x, 1), "float32", (2, 1 << 20), 2),
        (lambda x: topi.argmax(x, 1), "float32", (4096, 1000), 1),
    ],
)
def test_all_of_a_gpu_reduces(make: Make, dtype: str, shape: tuple[int, ...], kernels: int) -> None:
    (blocks, threads), *rest, (f, _) = launches(make, dtype, shape)
    enough = GpuMachine.of(tw.Target(SM80)).filling
    assert enough <= blocks <= 8 * enough and threads == 256 and len(rest) == kernels - 1
    source = f.imported_modules[0].get_source().split("__global__")[1]
    assert ("float4" if dtype == "float32" else "tw_load_float16x8") in source, "loads of 128 bits"


@pytest.mark.parametrize(
    ("dtype", "lanes"), [("float16", 8), ("bfloat16", 8), ("int8", 16), ("uint8", 16)]
)
def test_rows_that_are_made_wider_are_read_in_128_bits(dtype: str, lanes: int) -> None:
    """Vectors are as long as those of what is read, not of what is inlined."""

    def squares(t: Any) -> Any:
        wide = topi.cast(t, "float32")
        return topi.sum(topi.multiply(wide, wide), 1)

    x = whole_numbers((5, 1744), "int8", 1) ** 2
    x = x.astype(parse(dtype).numpy)
    result, f = computed(squares, dtype, [x])
    np.testing.assert_array_equal(result, (x.astype(np.float64) ** 2).sum(1))
    source = f.imported_modules[0].get_source()
    assert set(re.findall(rf"tw_load_\w*{dtype}x(\d+)\(\w+", source.split("__global__")[1])) == {
        str(lanes)
    }


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 4), ("bfloat16", 8), ("int8", 16)])
@pytest.mark.parametrize("make", [topi.sum, topi.max, topi.argmax])
@pytest.mark.parametrize("shape", [(131, 16), (37, 32), (5, 3, 2, 16)])
def test_a_thread_reads_a_short_row_in_vectors(
    make: Make, dtype: str, lanes: int, shape: tuple[int, ...]
) -> None:
    axis: Any = (2, 3) if len(shape) == 4 and make is not topi.argmax else len(shape) - 1
    x = whole_numbers(shape, dtype)
    wide = x.astype(np.float64)
    want = {topi.sum: wide.sum, topi.max: wide.max, topi.argmax: wide.argmax}[make](axis)

    def positive(t: Any) -> Any:
        return topi.nn.relu(make(t, axis))

    read = r"float4\*\)\(in0" if dtype == "float32" else rf"{dtype}x{lanes}\(in0"
    for run, exact in ((lambda t: make(t, axis), want), (positive, np.maximum(want, 0))):
        result, f = computed(run, dtype, [x])
        np.testing.assert_array_equal(result, exact)
        assert re.search(read, f.imported_modules[0].get_source())


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8"])
@pytest.mark.parametrize(
    ("shape", "axis", "kernels"),
    [
        ((197, 101), None, 2),
        ((20011,), None, 2),
        ((2, 40000), 1, 2),
        ((1, 1, 16384), (1, 2), 2),
        ((64, 3, 16, 16), (0, 2, 3), 2),
        ((41, 3, 21, 21), (0, 2, 3), 2),
        ((5, 1000), 1, 1),
        ((1, 1), None, 1),
        ((2, 1), 1, 1),
    ],
)
def test_sums_in_parts_are_right(
    shape: tuple[int, ...], axis: Any, kernels: int, dtype: str
) -> None:
    x = whole_numbers(shape, dtype, 1)
    result, f = computed(lambda t: topi.sum(t, axis), dtype, [x])
    want = x.astype(np.float64).sum(axis)
    kind = parse(dtype).numpy
    exact = want.astype(np.int64).astype(kind) if "int" in dtype else want.astype(kind)
    np.testing.assert_array_equal(result, exact)
    if dtype == "float32":  # what is narrower has fewer loads
        assert f.imported_modules[0].get_source().count("__global__") == kernels


def test_parts_are_added_in_the_same_order_each_time() -> None:
    x = np.random.default_rng(0).standard_normal((3, 20011)).astype(np.float32)
    results = [computed(lambda t: topi.sum(t, 1), "float32", [x])[0] for _ in range(2)]
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], x.astype(np.float64).sum(1), rtol=1e-4)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda t: topi.sum(t, 1), (2, 20000)),
        (lambda t: topi.argmax(t, 1), (2, 20000)),
        (lambda t: topi.sum(t, 0), (3000, 20)),
    ],
)
def test_any_number_of_parts_gives_the_same(make: Make, shape: tuple[int, ...]) -> None:
    x = whole_numbers(shape, "float32", 1)
    t = te.placeholder(shape, "float32", "t")
    out = make(t)
    asked = Decisions()
    default_schedule(out, SM80, asked)
    ((question, options),) = asked.asked.items()
    assert question.endswith(".parts") and len(options) > 3 and (1,) in options
    want = computed(make, "float32", [x])[0]
    for option in options[1:]:
        s = default_schedule(out, SM80, Decisions({question: option}))
        result = np.full_like(want, 77)
        reports = tw.build(s, [t, out], SM80).run_simt(x, result)
        assert not any(report.findings for report in reports.values())
        np.testing.assert_array_equal(result, want)


def test_what_follows_is_of_the_second_kernel() -> None:
    x = whole_numbers((3, 20480), "float32")
    result, f = computed(lambda t: topi.nn.relu(topi.sum(t, 1)), "float32", [x])
    np.testing.assert_array_equal(result, np.maximum(x.sum(1), 0))
    assert f.imported_modules[0].get_source().count("__global__") == 2


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("shape", [(1, 40009), (2, 32768), (5, 1000), (67, 197), (3, 2), (2, 1)])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_are_those_of_the_first_or_last_of_equals(
    name: str, last: bool, shape: tuple[int, ...], dtype: str
) -> None:
    x = whole_numbers(shape, dtype)
    result, _ = computed(lambda t: getattr(topi, name)(t, 1, False, last), dtype, [x])
    of_numpy = getattr(np, name)
    want = shape[1] - 1 - of_numpy(x[:, ::-1], 1) if last else of_numpy(x, 1)
    np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("shape", [(2, 20000), (5, 1000), (3, 197)])
def test_what_is_no_number_is_the_largest(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    x[0, shape[1] // 2 :: 7] = np.nan
    x[1] = -np.inf
    result, _ = computed(lambda t: topi.argmax(t, 1), "float32", [x])
    np.testing.assert_array_equal(result, x.argmax(1))


@pytest.mark.parametrize("shape", [(40, 7, 3), (6, 300, 5), (4, 5, 70)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_what_follows_places_is_of_their_kernel(shape: tuple[int, ...], axis: int) -> None:
    x = whole_numbers(shape, "float32")
    result, f = computed(lambda t: topi.cast(topi.argmin(t, axis), "float32"), "float32", [x])
    np.testing.assert_array_equal(result, x.argmin(axis))
    assert f.imported_modules[0].get_source().count("__global__") == 1
