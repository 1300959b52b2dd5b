"""The curve of arithmetic intensity: operations per byte as loops are added from the inside out.

Its points are (log2 of operations, that by log2 of bytes touched + 1) of a single run of the
statement and of every loop around it; ten samples lie evenly between 0 and the last point, linear
between points.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .columns import PLACE, SAMPLES
from .program import Array

SHARES = np.arange(1, SAMPLES + 1) / SAMPLES


def write_intensity(
    flops: Array, trips: Array, touched_bytes: Array, out: npt.NDArray[np.float32]
) -> None:
    """flops (S,): float operations of one run; trips and bytes (S, K + 1, N)."""
    first = PLACE["intensity_0"]
    some = np.flatnonzero(flops > 0)
    if not len(some):
        return
    x = np.log2(flops[some, None, None] * trips[some])
    y = x / np.log2(touched_bytes[some] + 1.0)
    last = x.shape[1] - 1
    wanted = x[:, :1] * SHARES[None, :, None]
    # levels count inwards: the innermost one that reaches the sample, and the one inside it
    at = np.count_nonzero(x[:, None] >= wanted[:, :, None], axis=2) - 1
    np.maximum(at, 0, out=at)
    line = np.arange(len(some))[:, None, None]
    n = np.arange(x.shape[2])
    inner = np.minimum(at + 1, last)
    x0, x1, y0, y1 = x[line, inner, n], x[line, at, n], y[line, inner, n], y[line, at, n]
    gap = x1 - x0
    part = (wanted - x0) / np.where(gap > 0.0, gap, 1.0)
    curve = np.where(gap > 0.0, y0 + (y1 - y0) * part, y1)
    out[some, first : first + SAMPLES] = curve
