"""Default schedules for CUDA where there are more blocks than a grid has along y and z."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.test_gpu_tiles import TARGET, built, close
from tilewright import te, topi
from tilewright.topi.schedules.gpu import machine


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_more_matrices_than_blocks(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_BLOCKS", 3)
    _, report, (result, a, b) = built(topi.nn.batch_matmul, dtype, (7, 65, 40), (7, 33, 40))
    close(result, a.astype("float64") @ b.astype("float64").transpose(0, 2, 1), dtype)
    assert not report.findings


@pytest.mark.parametrize("channels", [5, 8])
def test_more_planes_than_blocks(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_BLOCKS", 2)
    x = te.placeholder((3, channels, 30, 30), "float32", "x")
    out = topi.nn.pool2d(x, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max")
    f = tw.build(topi.default_schedule(out, TARGET), [x, out], TARGET, name="f")
    a = np.random.default_rng(0).standard_normal((3, channels, 30, 30)).astype("float32")
    result = np.zeros((3, channels, 15, 15), "float32")
    (report,) = f.run_simt(a, result).values()
    np.testing.assert_array_equal(result, a.reshape(3, channels, 15, 2, 15, 2).max((3, 5)))
    assert not report.findings


@pytest.mark.parametrize(
    "shapes", [((98304, 49, 32), (98304, 49, 32)), ((70001, 16, 8), (70001, 8, 8))]
)
def test_windows_of_many_images_can_be_built(shapes: Any) -> None:
    """As those of a batch of images that attention takes by windows; the code is not run."""
    a, b = (te.placeholder(shape, "float16", f"in{n}") for n, shape in enumerate(shapes))
    out = topi.nn.batch_matmul(a, b)
    f = tw.build(topi.default_schedule(out, TARGET), [a, b, out], TARGET, name="f")
    assert "blockIdx.z" in f.imported_modules[0].get_source()
