"""How fast this machine copies memory, measured: the yardstick for what only moves data.

As `peak` for arithmetic. A copy of few bytes stays in the caches, one of many comes from memory, so
the rate is one for so many bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..rt import threads as pool
from ..rt.array import array
from ..schedule.api import create_schedule
from ..target.target import Target
from ..tensor.compute import compute, placeholder
from .build_module import build

LEAST_BYTES = 1 << 20
"""Less is copied in so short a time that starting threads counts."""
MOST_BYTES = 1 << 28
"""More is copied as fast as this much."""
ROW = 1024  # floats
_SECONDS = 0.01


def copying(moved: int, target: Target) -> tuple[Callable[[], Any], int]:
    """A call that copies on all threads, and the bytes that it reads and writes together, which
    are about `moved`."""
    rows = max(LEAST_BYTES, moved) // (8 * ROW)
    a = placeholder((rows, ROW), name="a")
    b = compute((rows, ROW), lambda i, j: a[i, j], name="b")
    s = create_schedule(b.op)
    s[b].parallel(b.op.axis[0])
    _, inner = s[b].split(b.op.axis[1], factor=target.vector_bytes // 4)
    s[b].vectorize(inner)
    arrays = [array(np.ones((rows, ROW), np.float32)) for _ in range(2)]
    call: Callable[[], Any] = build(s, [a, b], target, name="copy").prepare(*arrays)
    return call, rows * 8 * ROW


def bandwidth(moved: int, target: Target, attempts: int = 5) -> float:
    """Bytes a second, read and written together, where `moved` bytes are, with as many threads as
    are set; the best of some attempts. Measured once for each power of two."""
    size = max(LEAST_BYTES, min(moved, MOST_BYTES))
    return _bandwidth(1 << (size.bit_length() - 1), target, pool.num_threads(), attempts)


@cache
def _bandwidth(size: int, target: Target, threads: int, attempts: int) -> float:
    call, moved = copying(size, target)
    call()
    best = 0.0
    for _ in range(attempts):
        number, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < _SECONDS or not number:
            call()
            number += 1
        best = max(best, moved * number / spent)
    return best
