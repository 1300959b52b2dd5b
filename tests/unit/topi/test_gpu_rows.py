"""Softmax and normalisation of rows on GPUs: one kernel, right in simt, in vectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.launches import computed, launches
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.topi.schedules.decisions import Decisions
from tilewright.topi.schedules.default import default_schedule

Array = Any
Make = Callable[..., Any]
SM80 = "cuda -arch=sm_80"


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def normal(x: Array, scale: Array, shift: Array) -> Array:
    moved = x - x.mean(-1, keepdims=True)
    return moved / np.sqrt((moved * moved).mean(-1, keepdims=True) + 1e-5) * scale + shift


def rms(x: Array, weight: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight


CASES: dict[str, tuple[Make, Make, int]] = {
    "softmax": (topi.nn.softmax, softmax, 0),
    "masked": (topi.nn.masked_softmax, softmax, 0),
    "log": (topi.nn.log_softmax, lambda x: np.log(softmax(x)), 0),
    "of a sum": (lambda x: topi.nn.softmax(topi.add(x, x)), lambda x: softmax(x + x), 0),
    "layer norm": (lambda x, a, b: topi.nn.layer_norm(x, a, b, [-1]), normal, 2),
    "rms norm": (lambda x, a: topi.nn.rms_norm(x, a, [-1]), rms, 1),
}


def made(name: str, shape: tuple[int, ...], dtype: str, target: str) -> tuple[Any, list[Any]]:
    """The function, and its reports in simt, where its results are right."""
    make, want, others = CASES[name]
    rng = np.random.default_rng(len(name))
    shapes = [shape, *[shape[-1:]] * others]
    kind = parse(dtype).numpy
    arrays = [rng.standard_normal(s).astype(kind) for s in shapes]
    ins = [te.placeholder(s, dtype, f"in{n}") for n, s in enumerate(shapes)]
    out = make(*ins)
    f = tw.build(topi.default_schedule(out, target), [*ins, out], target)
    result = np.zeros(shape, kind)
    reports = list(f.run_simt(*arrays, result).values())
    assert not any(report.findings for report in reports)
    exact = want(*(x.astype(np.float64) for x in arrays))
    rtol = {"float32": 2e-5, "bfloat16": 1.6e-2}.get(dtype, 2e-3)
    np.testing.assert_allclose(result.astype(np.float64), exact, rtol=rtol, atol=rtol)
    return f, reports


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((3, 5, 64), "float32"),
        ((4, 197), "float32"),
        ((2, 1000), "float16"),
        ((3, 1009), "float32"),
    ],
)
def test_all_stages_are_one_kernel(name: str, shape: tuple[int, ...], dtype: str) -> None:
    f, reports = made(name, shape, dtype, SM80)
    assert len(reports) == 1
    source = f.imported_modules[0].get_source()
    assert source.count("__global__") == 1


def test_rows_of_whole_vectors_are_read_and_written_in_them() -> None:
    f, _ = made("softmax", (4, 1024), "float32", SM80)
    source = f.imported_modules[0].get_source()
    assert source.count("float4") >= 3
    f, _ = made("layer norm", (4, 768), "float16", SM80)
    assert "uint4" in f.imported_modules[0].get_source()
    f, _ = made("softmax", (4, 144), "float16", SM80)  # powers, in float32, are in no memory
    source = f.imported_modules[0].get_source()
    assert "= tw_load_float16x8(" in source and " tw_store_float16x8(" in source
    assert "tw_load_float16x4" not in source


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_long_rows_of_16_bits_move_in_128(name: str, dtype: str) -> None:
    """No float32 that waits in shared memory makes vectors narrower."""
    f, (report,) = made(name, (5, 1744), dtype, SM80)
    assert widths(f.imported_modules[0].get_source(), dtype) == {8}
    assert report.bank_conflicts <= 1.1


def widths(source: str, dtype: str) -> set[int]:
    """Elements of the vectors of a type that kernels load and store."""
    kernels = source[source.index('extern "C"') :]
    calls = re.findall(rf"tw_(?:load|store)_(?:bits_)?{dtype}x(\d+)\(", kernels)
    return set(map(int, calls))


def test_what_all_rows_share_does_not_narrow_their_vectors() -> None:
    """Weights in float32 beside rows of halves: two vectors of them for each of those."""
    x, w = te.placeholder((40, 1744), "float16", "x"), te.placeholder((1744,), "float32", "w")
    out = topi.nn.rms_norm(x, w, [-1])
    f = tw.build(topi.default_schedule(out, SM80), [x, w, out], SM80)
    assert widths(f.imported_modules[0].get_source(), "float16") == {8}
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal(x.shape).astype("float16"), rng.standard_normal(1744).astype("f4")
    result = np.zeros_like(a)
    assert not any(report.findings for report in f.run_simt(a, b, result).values())
    np.testing.assert_allclose(result, rms(a.astype(np.float64), b), rtol=2e-3, atol=2e-3)


def test_powers_of_long_rows_wait_in_shared_memory() -> None:
    """They are computed once; a warp's are computed again after the sum."""
    f, _ = made("softmax", (2, 3000), "float32", SM80)
    source = f.imported_modules[0].get_source()
    assert re.search(r"__shared__ .*T_softmax_exp\[3000\]", source)
    assert source.count("__expf(") == 2 * 4, "of whole vectors, and of those at the end"
    f, _ = made("softmax", (2, 256), "float32", SM80)
    source = f.imported_modules[0].get_source()
    assert "__shared__" not in source and source.count("__expf(") == 2 * 4


@pytest.mark.parametrize(("target", "kernels"), [("cuda -arch=sm_75", 1), ("opencl", 4)])
@pytest.mark.parametrize("name", ["softmax", "layer norm"])
def test_other_devices(name: str, target: str, kernels: int) -> None:
    """Where threads are not in lock step a kernel of each stage is what there is."""
    _, reports = made(name, (4, 300), "float32", target)
    assert len(reports) == kernels


@pytest.mark.parametrize("axis", [0, 1])
def test_other_dimensions_are_as_before(axis: int) -> None:
    x = te.placeholder((40, 6, 48), "float32", "x")
    out = topi.nn.softmax(x, axis)
    f = tw.build(topi.default_schedule(out, SM80), [x, out], SM80)
    a = np.random.default_rng(0).standard_normal((40, 6, 48)).astype(np.float32)
    result = np.zeros_like(a)
    f.run_simt(a, result)
    want = np.moveaxis(softmax(np.moveaxis(a.astype(np.float64), axis, -1)), -1, axis)
    np.testing.assert_allclose(result, want, rtol=2e-5)


def test_a_row_that_is_short_takes_a_thread() -> None:
    _, reports = made("softmax", (50, 10), "float32", SM80)
    (report,) = reports
    assert (report.blocks, report.threads, report.shuffles) == (1, 50, 0)


PARTS = [
    ((8, 32000), "float32", 64),
    ((1, 50257), "float32", 50),  # rows of no whole vectors
    ((4, 128256), "float16", 64),
    ((1, 32000), "float16", 4),
    ((33, 50257), "float32", 33 * 16),
]


@pytest.mark.parametrize(("shape", "dtype", "blocks"), PARTS)
@pytest.mark.parametrize("name", CASES)
def test_a_few_long_rows_are_cut_among_blocks(
    name: str, shape: tuple[int, ...], dtype: str, blocks: int
) -> None:
    """A kernel for each sum of rows, and the last for the result."""
    make, _, others = CASES[name]
    *kernels, _ = launches(make, dtype, shape, *[shape[-1:]] * others)
    assert kernels == [(blocks, 256)] * (2 if name == "rms norm" else 3)


@pytest.mark.parametrize(("shape", "parts"), [((53, 50257), 8), ((107, 40000), 1), ((2, 8192), 1)])
def test_rows_that_fill_a_gpu_or_are_short_are_not_cut(shape: tuple[int, int], parts: int) -> None:
    (blocks, threads), *more = launches(topi.nn.softmax, "float32", shape)[:-1]
    assert threads == 256 and len(more) == (2 if parts > 1 else 0)
    assert shape[0] * parts // 2 < blocks <= shape[0] * parts


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((2, 20011), "float32"), ((1, 3, 16384), "float32"), ((3, 36000), "float16")],
)
def test_what_parts_of_rows_come_to(name: str, shape: tuple[int, ...], dtype: str) -> None:
    f, reports = made(name, shape, dtype, SM80)
    assert len(reports) == (2 if name == "rms norm" else 3)
    assert all(report.bank_conflicts <= 1.1 for report in reports)
    kernels = f.imported_modules[0].get_source().split("__global__")[1:]
    load = "float4" if dtype == "float32" else "tw_load_float16x8"
    assert all((load in kernel) == (shape[-1] % 8 == 0) for kernel in kernels)


@pytest.mark.parametrize("target", ["cuda -arch=sm_75", "cuda -arch=sm_90"])
def test_parts_of_rows_on_other_devices(target: str) -> None:
    _, reports = made("layer norm", (2, 20011), "float32", target)
    assert len(reports) == 3


def test_parts_of_rows_without_numbers() -> None:
    """A part may be of -infinity alone, and where a row has NaN or infinity all of it is NaN."""
    x = np.random.default_rng(3).standard_normal((6, 17000)).astype(np.float32)
    x[0, :9000] = x[1] = -np.inf
    x[2, 16999], x[3, 5000] = np.nan, np.inf
    x[4] += 1e30
    result, f = computed(topi.nn.softmax, "float32", [x])
    assert f.imported_modules[0].get_source().count("__global__") == 3
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(result, softmax(x.astype(np.float64)), rtol=2e-5, atol=1e-12)
    masked, _ = computed(topi.nn.masked_softmax, "float32", [x])
    assert not masked[1].any()
    np.testing.assert_array_equal(masked[[0, 2, 3, 4, 5]], result[[0, 2, 3, 4, 5]])


def test_any_number_of_parts_of_rows_gives_the_same() -> None:
    x = np.random.default_rng(4).integers(-3, 4, (2, 20000)).astype(np.float32)
    t = te.placeholder(x.shape, "float32", "t")
    out = topi.nn.softmax(topi.add(t, t))
    asked = Decisions()
    default_schedule(out, SM80, asked)
    ((question, options),) = asked.asked.items()
    assert question.endswith(".parts") and len(options) > 3 and (1,) in options
    want = softmax(2 * x.astype(np.float64))
    for option in options:
        s = default_schedule(out, SM80, Decisions({question: option}))
        result = np.zeros_like(x)
        reports = tw.build(s, [t, out], SM80).run_simt(x, result)
        assert not any(report.findings for report in reports.values())
        np.testing.assert_allclose(result, want, rtol=2e-5)


@pytest.mark.parametrize(
    ("shape", "dtype", "axis", "kernels"),
    [
        ((5, 1, 2050), "float32", 0, 1),
        ((50, 1009), "float32", 0, 1),  # a prime number of columns
        ((101, 300), "float16", 1, 1),
        ((1, 101, 48), "float32", 2, 1),
    ],
)
def test_what_follows_sums_leaves_no_thread_out(
    shape: tuple[int, ...], dtype: str, axis: int, kernels: int
) -> None:
    """Threads that put parts together wait for each other: all have a row, or columns."""
    x = te.placeholder(shape, dtype, "x")
    out = topi.nn.relu(topi.max(x, axis))
    f = tw.build(topi.default_schedule(out, SM80), [x, out], SM80)
    a = np.random.default_rng(1).standard_normal(shape).astype(parse(dtype).numpy)
    result = np.zeros([n for d, n in enumerate(shape) if d != axis], a.dtype)
    assert len(f.run_simt(a, result)) == kernels
    np.testing.assert_array_equal(result, np.maximum(a.max(axis), 0))
