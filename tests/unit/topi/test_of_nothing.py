"""Default schedules of sizes that are zero: of results without elements, and of empty sums."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi

SIZES = [sizes for sizes in product((0, 1, 17), repeat=3) if 0 in sizes]


def made(m: int, k: int, n: int, target: str) -> Any:
    a = te.placeholder((m, k), name="a")
    b = te.placeholder((n, k), name="b")
    y = topi.nn.relu(topi.nn.dense(a, b))
    return tvm.build(topi.default_schedule(y, target), [a, b, y], target)


@pytest.mark.parametrize("m, k, n", SIZES)
def test_products(m: int, k: int, n: int) -> None:
    f = made(m, k, n, "llvm")
    y = np.full((m, n), 7, np.float32)
    f(np.ones((m, k), np.float32), np.ones((n, k), np.float32), y)
    assert not y.any()


@pytest.mark.parametrize("m, k, n", [s for s in SIZES if 17 in s])
@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_products_on_gpus(m: int, k: int, n: int, arch: str) -> None:
    f = made(m, k, n, f"cuda -arch={arch}")
    y = np.full((m, n), 7, np.float32)
    f.run_simt(np.ones((m, k), np.float32), np.ones((n, k), np.float32), y)
    assert not y.any()
