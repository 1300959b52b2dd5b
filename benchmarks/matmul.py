"""A float32 matrix product scheduled by hand, and its rate beside the machine's FMA peak.

The schedule: a tile of C of ROWS rows by a few vectors stays in registers over the whole
reduction, B comes in panels as wide as the tile, and threads share the panels evenly. A panel of
1024 rows (256 KiB with AVX-512) stays in the second-level cache, where it is packed in the second
variant by the thread that uses it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

SIZE = 1024
FLOPS = 2 * SIZE**3
ROWS = 6
# Share of the best peak below which other programs are taken to disturb.
QUIET = 0.96


def tile_vectors(registers: int) -> int:
    """Vectors in a row of the register tile: accumulators, a row of B and a spare must fit."""
    return 4 if registers >= 32 else 2


def schedule(target: Any, packed: bool, size: int = SIZE) -> tuple[Any, list[Any]]:
    """The schedule and its arguments A, B, C; with `packed` B has the shape (panels, K, width)."""
    from tilewright import te, tir

    lanes = target.vector_bytes // 4
    width = lanes * tile_vectors(target.num_vector_registers)
    if size % width:
        raise ValueError(f"the size has to be a multiple of {width}")
    k = te.reduce_axis((0, size), "k")
    A = te.placeholder((size, size), name="A")
    if packed:
        B = panels = te.placeholder((size // width, size, width), name="B")
    else:
        B = te.placeholder((size, size), name="B")
        panels = te.compute(
            (size // width, size, width), lambda p, r, j: B[r, p * width + j], name="panels"
        )
    C = te.compute(
        (size, size),
        lambda i, j: te.sum(
            A[i, k] * panels[tir.indexdiv(j, width), k, tir.indexmod(j, width)], axis=k
        ),
        name="C",
    )
    s = te.create_schedule(C.op)
    tile = s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(s[C].op.axis[0], s[C].op.axis[1], ROWS, width)
    s[C].reorder(jo, io, ii, ji)
    s[C].parallel(jo)
    _vectorize_row(s[C], ji, lanes)
    s[C].unroll(ii)

    s[tile].compute_at(s[C], io)
    i, j = s[tile].op.axis
    s[tile].reorder(s[tile].op.reduce_axis[0], i, j)
    s[tile].unroll(i)
    _vectorize_row(s[tile], j, lanes)
    if not packed:
        s[panels].compute_at(s[C], jo)
        _vectorize_row(s[panels], s[panels].op.axis[2], lanes)
    return s, [A, B, C]


def _vectorize_row(stage: Any, axis: Any, lanes: int) -> None:
    outer, inner = stage.split(axis, factor=lanes)
    stage.unroll(outer)
    stage.vectorize(inner)


def pack(b: np.ndarray[Any, Any], width: int) -> np.ndarray[Any, Any]:
    """B of shape (K, N) as panels of shape (N / width, K, width)."""
    rows, columns = b.shape
    return np.ascontiguousarray(b.reshape(rows, columns // width, width).transpose(1, 0, 2))


def inputs() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIZE, SIZE), np.float32) for _ in range(2))
    return a, b


def product(target: Any, packed: bool) -> Callable[[], Any]:
    """A call of the compiled product, its result checked once against NumPy."""
    import tilewright

    a, b = inputs()
    s, args = schedule(target, packed)
    function = tilewright.build(s, args, target, name="product")
    c = np.zeros((SIZE, SIZE), np.float32)
    given = pack(b, int(args[1].shape[2])) if packed else b
    own = [tilewright.nd.array(x) for x in (a, given, c)]
    call: Callable[[], Any] = function.prepare(*own)
    call()
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(own[2].numpy(), wanted, atol=1e-3)
    return call


def rates(
    calls: dict[str, Callable[[], Any]],
    target: Any,
    threads: int,
    wanted: int = 15,
    limit: float = 30.0,
    pause: float = 0.002,
) -> dict[str, dict[str, float]]:
    """Rates of calls and their shares of the FMA peak, from rounds that measure both in turns.

    Other programs may take cores away, so a call is made where the peak measured just before is
    within 4 % of the best, and counts where that just after it is too; the share is that of the
    best rate to the best peak, and `median_share` the median over the calls that count. Ends after
    `wanted` such calls of each, or `limit` seconds. `pause`: seconds between measurements, in
    which pools of threads stop to spin.
    """
    from tilewright.driver.peak import sample_peak

    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    best_peak = max(sample_peak(target, threads) for _ in range(20))
    start = time.perf_counter()
    while True:
        for name, call in calls.items():
            time.sleep(pause)
            before = sample_peak(target, threads)
            best_peak = max(best_peak, before)
            late = time.perf_counter() - start > limit / 2 and not samples[name]
            if before < QUIET * best_peak and not late:
                continue
            call()  # brings data and threads back
            rate = FLOPS / min(_seconds(call) for _ in range(3))
            time.sleep(pause)
            after = sample_peak(target, threads)
            best_peak = max(best_peak, after)
            samples[name].append((rate, min(before, after)))
        quiet = {
            name: [rate for rate, peak in rows if peak >= QUIET * best_peak]
            for name, rows in samples.items()
        }
        if min(map(len, quiet.values())) >= wanted:
            break
        if time.perf_counter() - start > limit and all(samples.values()):
            break
    result = {}
    for name, rows in samples.items():
        best = max(rate for rate, _ in rows)
        result[name] = {
            "gflops": best / 1e9,
            "peak_gflops": best_peak / 1e9,
            "share": best / best_peak,
            "median_share": median(quiet[name]) / best_peak if quiet[name] else 0.0,
            "quiet": float(len(quiet[name])),
            "rounds": float(len(rows)),
        }
    return result


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
