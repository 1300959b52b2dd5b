"""Helpers for tests of numerical programs: `tvm.testing.assert_allclose`."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Raise AssertionError unless |actual - desired| <= atol + rtol * |desired| everywhere."""
    actual, desired = _numpy(actual), _numpy(desired)
    np.testing.assert_allclose(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=verbose)


def _numpy(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)
