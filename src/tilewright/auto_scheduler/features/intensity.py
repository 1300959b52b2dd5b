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
    top = x[:, 0]
    last = x.shape[1] - 1
    for k in range(SAMPLES):
        wanted = top * ((k + 1) / SAMPLES)
        # levels count inwards: the innermost one that reaches the sample
        at = np.count_nonzero(x >= wanted[:, None], axis=1) - 1
        at = np.maximum(at, 0)
        below = np.minimum(at + 1, last)
        x1, y1, x0, y0 = (
            np.take_along_axis(values, index[:, None], axis=1)[:, 0]
            for index in (at, below)
            for values in (x, y)
        )
        gap = x1 - x0
        part = np.where(gap > 0.0, (wanted - x0) / np.where(gap > 0.0, gap, 1.0), 1.0)
        inside = y0 + (y1 - y0) * part
        out[some, first + k] = np.where(at == last, y1, inside)
