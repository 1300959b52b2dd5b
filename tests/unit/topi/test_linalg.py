"""Determinants and systems of linear equations, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.topi.run import Array, check, floats
from tilewright import topi


def regular(*shape: int) -> Array:
    return floats(*shape) + np.float32(3) * np.eye(shape[-1], dtype=np.float32)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("n, m", [(1, 1), (5, 3)])
def test_solve(batch: tuple[int, ...], n: int, m: int) -> None:
    a, b = regular(*batch, n, n), floats(*batch, n, m)
    wide = a.astype(float), b.astype(float)
    check(topi.solve, [a, b], np.linalg.solve(*wide).astype(np.float32))
    check(topi.det, [a], np.linalg.det(wide[0]).astype(np.float32))
    square = a @ np.swapaxes(a, -1, -2)
    low = np.linalg.cholesky(square.astype(float)).astype(np.float32)
    check(topi.cholesky, [square], low, 1e-4)
    check(topi.cholesky, [np.tril(square) + np.triu(a, 1) * 9], low, 1e-4)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_solve_triangular(upper: bool, unit: bool) -> None:
    a, b = regular(2, 5, 5), floats(2, 5, 3)
    triangle = (np.triu if upper else np.tril)(a).astype(float)
    if unit:
        triangle[:, range(5), range(5)] = 1
    wanted = np.linalg.solve(triangle, b.astype(float)).astype(np.float32)
    check(lambda x, y: topi.solve_triangular(x, y, upper, unit), [a, b], wanted, 1e-4)


def test_rows_are_exchanged() -> None:
    """The largest element of each column is divided by, so that a 0 on the diagonal is none."""
    a = np.array([[0, 2, 1], [1, 0, 0], [4, 0, 3]], np.float32)
    b = np.array([[5], [1], [13]], np.float32)
    check(topi.solve, [a, b], np.linalg.solve(a, b).astype(np.float32))
    check(topi.pivots, [a], np.array([4, 2, -0.75], np.float32))
    check(topi.pivots, [a[:, [0, 1, 1]].copy("C")], np.array([4, 2, 0], np.float32))


def test_matrices_without_a_square_root() -> None:
    found = np.array([[1, 0], [2, np.nan]], np.float32)
    check(topi.cholesky, [np.array([[1, 2], [2, 3]], np.float32)], found)
