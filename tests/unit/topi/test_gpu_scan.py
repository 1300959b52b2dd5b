"""Running sums on GPUs: a block has a line."""

from __future__ import annotations

import re
from operator import add
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.topi.scan import running

SM80 = "cuda -arch=sm_80"


def scanned(name: str, x: Any, **how: Any) -> tuple[Any, Any]:
    with tw.target.Target(SM80):
        t = te.placeholder(x.shape, str(x.dtype), "x")
        out = getattr(topi, name)(t, **how)
        f = tw.build(topi.default_schedule(out, SM80), [t, out], SM80)
    result = np.full([int(d) for d in out.shape], 77, parse(out.dtype).numpy)
    reports = f.run_simt(x, result)
    assert not any(report.findings for report in reports.values())
    return result, f


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1, 3001), 1), ((5, 197), 1), ((3, 1024), 1), ((2, 64), 1), ((300, 7), 0), ((1000,), None),
     ((70, 1), 0), ((3, 5), 1)],
)  # fmt: skip
@pytest.mark.parametrize("exclusive", [False, True])
def test_sums_up_to_each(shape: tuple[int, ...], axis: Any, exclusive: bool, dtype: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-2, 3, shape).astype(dtype)
    result, _ = scanned("cumsum", x, axis=axis, exclusive=exclusive)
    want = x.astype(np.int64).cumsum(axis)
    if exclusive:
        want = want - x.astype(np.int64).reshape(want.shape)
    np.testing.assert_array_equal(result, want.astype(dtype))


def test_products_up_to_each() -> None:
    x = np.random.default_rng(0).uniform(0.9, 1.1, (2, 1500)).astype(np.float32)
    result, _ = scanned("cumprod", x, axis=1)
    np.testing.assert_allclose(result, x.astype(np.float64).cumprod(1), rtol=1e-4)


@pytest.mark.parametrize(
    ("shape", "axis", "blocks", "threads"),
    [((3, 5000), 1, 3, 256), ((5, 70), 1, 5, 32), ((100, 5000), 0, 79, 64), ((9, 20), 1, 1, 9)],
)
def test_a_block_has_a_line(shape: Any, axis: int, blocks: int, threads: int) -> None:
    with tw.target.Target(SM80):
        t = te.placeholder(shape, "float32", "x")
        out = topi.cumsum(t, axis)
        f = tw.build(topi.default_schedule(out, SM80), [t, out], SM80)
    host: Any = f.entry_func
    assert re.findall(r"\((\d+), 1, 1\), \((\d+), 1, 1\)", host.text) == [
        (str(blocks), str(threads))
    ]


def test_lines_of_whole_vectors_are_read_and_written_in_them() -> None:
    x = np.ones((2, 2048), np.float32)
    result, f = scanned("cumsum", x, axis=1)
    np.testing.assert_array_equal(result, x.cumsum(1))
    source = f.imported_modules[0].get_source()
    assert "*(const float4*)(x + " in source and "*(float4*)(T_cumsum + " in source


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(1, 9001), (3, 20000)])
def test_long_lines_are_cut_into_parts(shape: Any, exclusive: bool, reverse: bool) -> None:
    x = np.random.default_rng(4).integers(-9, 9, shape).astype("int32")
    t = te.placeholder(shape, "int32", "x")
    with tw.target.Target(SM80):
        out = running(t, add, 0, "T_sums", 1, "int32", exclusive, reverse)
        f = tw.build(topi.default_schedule(out, SM80), [t, out], SM80)
    result = np.full(shape, 77, "int32")
    reports = f.run_simt(x, result)
    assert len(reports) == 3 and not any(report.findings for report in reports.values())
    along = x[:, ::-1] if reverse else x
    want = along.cumsum(1, dtype="int32") - (along if exclusive else 0)
    np.testing.assert_array_equal(result, want[:, ::-1] if reverse else want)


def test_parts_fill_a_device() -> None:
    with tw.target.Target(SM80):
        t = te.placeholder((1 << 20,), "float32", "x")
        out = topi.cumsum(t, 0)
        f = tw.build(topi.default_schedule(out, SM80), [t, out], SM80)
    host: Any = f.entry_func
    assert re.findall(r"\((\d+), 1, 1\), \((\d+), 1, 1\)", host.text) == [
        ("216", "256"), ("1", "64"), ("216", "256"),
    ]  # fmt: skip
