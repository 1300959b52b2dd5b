"""Softmax and normalisation of rows on GPUs: one kernel, right in simt, in vectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.base.dtype import parse

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
    rtol = 2e-5 if dtype == "float32" else 2e-3
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


@pytest.mark.parametrize("name", ["softmax", "rms norm"])
def test_a_few_very_long_rows_have_many_blocks(name: str) -> None:
    _, reports = made(name, (1, 100000), "float32", SM80)
    assert len(reports) > 2, "a kernel for each stage, and for parts of sums"
    _, reports = made(name, (1, 20000), "float32", SM80)
    assert len(reports) == 1


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
