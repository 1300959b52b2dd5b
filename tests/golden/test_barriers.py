"""How many barriers GPU schedules need, counted by hand, and that they run with those alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.golden import gpu_schedules as gpu

# the loop: after the fetch, and before the next fetch; a pipelined loop: one an iteration, and one
# before what is left of it. Blocks at the edge have code of their own: four kinds in two dimensions
COUNTS: dict[str, tuple[Callable[[], gpu.Case], int]] = {
    "matmul": (gpu.matmul, 2),
    "vectors": (lambda: gpu.matmul(vector=4, tile=32, inner=4), 2),
    "double buffer": (lambda: gpu.matmul(double=True), 2),
    "double buffer of vectors": (
        lambda: gpu.matmul(double=True, vector=4, tile=32, inner=4),
        2,
    ),
    "padded rows": (lambda: gpu.matmul(align=8), 2),
    "virtual threads": (lambda: gpu.matmul(vthread=2, tile=32, inner=4), 2),
    "virtual threads, double buffer": (
        lambda: gpu.matmul(vthread=2, tile=32, inner=4, double=True),
        2,
    ),
    # in each part: two in the loop, two around the last, shorter step
    "matmul that does not divide": (lambda: gpu.matmul(size=50), 8),
    "transpose": (gpu.transpose, 1),
    "padded transpose": (lambda: gpu.transpose(padded=True), 1),
    "transpose that does not divide": (lambda: gpu.transpose(size=50, padded=True), 4),
    "softmax": (gpu.softmax, 2),
    "stencil": (lambda: gpu.stencil(128), 1),
    "stencil that does not divide": (gpu.stencil, 2),
    "own elements": (gpu.own_elements, 0),
    "scan across threads": (gpu.mirrored_scan, 1),
}


@pytest.mark.parametrize("name", COUNTS)
def test_barriers(name: str) -> None:
    make, count = COUNTS[name]
    case = make()
    module = gpu.build(case)
    source = module.imported_modules[0].get_source()
    assert source.count("__syncthreads()") == count
    values = gpu.arrays(case)
    module.entry_func.run_simt(*values)
    np.testing.assert_allclose(values[-1], case[2](*values[:-1]), rtol=1e-3, atol=1e-4)


def test_partitioned_blocks_share_memory() -> None:
    source = gpu.build(gpu.matmul(size=50)).imported_modules[0].get_source()
    assert source.count("__shared__") == 2


def test_opencl_has_the_same_barriers() -> None:
    source = gpu.build(gpu.matmul(), "opencl").imported_modules[0].get_source()
    assert source.count("barrier(CLK_LOCAL_MEM_FENCE)") == 2


def test_barrier_for_the_devices_memory() -> None:
    source = gpu.build(gpu.mirrored_scan(), "opencl").imported_modules[0].get_source()
    assert source.count("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)") == 1


def late(case: gpu.Case) -> gpu.Case:
    """The case with copies to shared memory that threads do not wait for."""
    s = case[0]
    for stage in s.stages:
        if stage.op.name.endswith("shared"):
            s[stage.op].pragma(s[stage.op].leaf_iter_vars[0], "async_scope")
    return case


@pytest.mark.parametrize(
    ("make", "copies", "barriers", "waits"),
    [
        (lambda: gpu.matmul(vector=4, tile=32, inner=4, double=True), 4, 2, 2),
        (lambda: gpu.matmul(double=True), 4, 2, 2),
        (gpu.matmul, 2, 2, 1),  # none is under way before the next fetch
        (lambda: gpu.matmul(size=50, double=True), 16, 8, 8),
        # rows of nine elements leave vectors of four unaligned
        (lambda: gpu.matmul(align=8, vector=4, tile=32, inner=4), 0, 2, 0),
        (gpu.own_elements, 0, 0, 0),
    ],
    ids=["vectors", "double buffer", "plain", "does not divide", "unaligned", "no copy"],
)
def test_copies_that_come_late(
    make: Callable[[], gpu.Case], copies: int, barriers: int, waits: int
) -> None:
    case = late(make())
    module = gpu.build(case, "cuda -arch=sm_80")
    source = module.imported_modules[0].get_source()
    assert source.count("  tw_cp_async<") == copies
    assert source.count("__syncthreads()") == barriers
    assert source.count("tw_cp_wait<0>();") == waits
    values = gpu.arrays(case)
    (report,) = module.run_simt(*values).values()
    assert (report.async_copies > 0) == (copies > 0)
    np.testing.assert_allclose(values[-1], case[2](*values[:-1]), rtol=1e-3, atol=1e-4)


def test_opencl_copies_at_once() -> None:
    case = late(gpu.matmul(double=True))
    module = gpu.build(case, "opencl")
    values = gpu.arrays(case)
    (report,) = module.run_simt(*values).values()
    assert report.async_copies == 0
