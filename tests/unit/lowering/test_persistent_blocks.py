"""Blocks that do the work of several: kernels with the pragma "persistent_blocks"."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.base.errors import CompileError

TARGET = "cuda -arch=sm_80"


def rows(n: Any, blocks: Any, around: bool = True) -> tuple[Any, list[Any]]:
    """Sums of 40 neighbours of 2 x n x 3 rows, through shared memory, in a grid of three
    dimensions; the pragma on the axis of blockIdx.x, which is the outermost or not."""
    x = te.placeholder((2, n, 3, 40), name="x")
    k = te.reduce_axis((0, 40), "k")
    y = te.compute((2, n, 3), lambda a, b, c: te.sum(x[a, b, c, k], axis=k), name="y")
    s = te.create_schedule(y.op)
    tile = s.cache_read(x, "shared", [y])
    a, b, c = s[y].op.axis
    outer, inner = s[y].split(b, factor=8)
    s[y].reorder(*([outer, a, c] if around else [a, c, outer]), inner)
    for axis, tag in ((outer, "blockIdx.x"), (a, "blockIdx.y"), (c, "blockIdx.z")):
        s[y].bind(axis, te.thread_axis(tag))
    s[y].bind(inner, te.thread_axis("threadIdx.x"))
    s[y].pragma(outer, "persistent_blocks", blocks)
    s[tile].compute_at(s[y], outer if not around else c)
    s[tile].bind(s[tile].fuse(*tile.op.axis[:3]), te.thread_axis((0, 8), "threadIdx.x"))
    return s, [x, y]


def run(f: Any, n: int) -> Any:
    x = np.random.default_rng(n).integers(-9, 10, (2, n, 3, 40)).astype("float32")
    y = np.zeros((2, n, 3), "float32")
    (report,) = f.run_simt(x, y).values()
    assert report.findings == []
    np.testing.assert_array_equal(y, x.sum(-1))
    return report


@pytest.mark.parametrize("around", [True, False])
@pytest.mark.parametrize(
    ("n", "blocks", "launched"),
    [(40, 7, 7), (40, 10, 10), (37, 29, 29), (8, 1, 1), (8, 6, 6), (8, 100, 6)],
)
def test_each_block_does_the_work_of_several(
    n: int, blocks: int, launched: int, around: bool
) -> None:
    s, args = rows(n, blocks, around)
    f = tw.build(s, args, TARGET)
    assert run(f, n).blocks == launched
    source = f.imported_modules[0].get_source()
    looped = -(-n // 8) * 6 > blocks
    assert ("turn" in source) == looped
    assert ("blockIdx.y" in source) == (not looped)


def test_of_sizes_that_are_known_when_it_runs() -> None:
    n: Any = te.var("n")
    f = tw.build(*rows(n, 5), TARGET)
    for size, blocks in ((1, 5), (64, 5), (3, 5)):
        assert run(f, size).blocks == blocks


def test_on_opencl() -> None:
    f = tw.build(*rows(40, 4), "opencl")
    assert run(f, 40).blocks == 4


def test_what_is_no_number_of_blocks() -> None:
    with pytest.raises(CompileError, match="persistent_blocks takes how many blocks, not 0"):
        tw.build(*rows(40, 0), TARGET)


def test_without_blocks_along_x() -> None:
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: x[i] + 1, name="y")
    s = te.create_schedule(y.op)
    s[y].bind(y.op.axis[0], te.thread_axis("threadIdx.x"))
    s[y].pragma(y.op.axis[0], "persistent_blocks", 3)
    with pytest.raises(CompileError, match=r"needs an axis that is bound to blockIdx\.x"):
        tw.build(s, [x, y], TARGET)
