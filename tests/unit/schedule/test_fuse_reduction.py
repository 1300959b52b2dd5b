"""Data and reduction axes fused into one loop; and axes fused in any order."""

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te


def whole(s, b, i, j, r):
    s[b].fuse(i, j, r)


def tiles_that_overlap(s, b, i, j, r):
    outer, inner = s[b].split(j, 4)
    first, second = s[b].split(inner, 3)  # runs over the tile of 4: steps are done twice
    s[b].split(s[b].fuse(outer, first, second, r), nparts=7)


def reduction_first(s, b, i, j, r):
    s[b].reorder(r, i, j)
    s[b].split(s[b].fuse(r, i), 4)


def part_of_the_reduction(s, b, i, j, r):
    outer, inner = s[b].split(r, 3)
    s[b].reorder(i, outer, j, inner)
    s[b].fuse(j, outer)
    s[b].unroll(inner)
    s[b].parallel(i)


@pytest.mark.parametrize("shape", [(3, 10, 7), (1, 1, 1), (5, 4, 3), (2, 7, 0)])
@pytest.mark.parametrize(
    "loops", [whole, tiles_that_overlap, reduction_first, part_of_the_reduction]
)
def test_sums_are_those_of_numpy(shape, loops):
    n, m, k = shape
    a = te.placeholder(shape, dtype="int32", name="A")
    r = te.reduce_axis((0, k), "r")
    b = te.compute((n, m), lambda i, j: te.sum(a[i, j, r], axis=r), name="B")
    s = te.create_schedule(b.op)
    loops(s, b, *b.op.axis, r)
    x = np.random.default_rng(0).integers(-9, 9, shape).astype("int32")
    y = np.full((n, m), 77, "int32")
    tvm.build(s, [a, b], "llvm")(x, y)
    np.testing.assert_array_equal(y, x.sum(-1))


def test_the_loop_further_out_is_the_outer_one():
    a = te.placeholder((2, 3, 4), name="A")
    b = te.compute((2, 3, 4), lambda i, j, k: a[i, j, k] * 2.0, name="B")
    s = te.create_schedule(b.op)
    i, j, k = b.op.axis
    fused = s[b].fuse(k, j, i)
    assert fused.var.name == "i.j.k.fused.fused" and s[b].leaf_iter_vars == [fused]
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    y = np.zeros_like(x)
    tvm.build(s, [a, b], "llvm")(x, y)
    np.testing.assert_array_equal(y, x * 2)
