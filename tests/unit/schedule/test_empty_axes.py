"""Schedules of axes without elements: loops that never run are still written."""

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te


@pytest.mark.parametrize("how", [{"factor": 4}, {"nparts": 40}])
def test_caches_of_split_empty_axes(how):
    a = te.placeholder((0, 3), name="a")
    b = te.compute((0, 3), lambda i, j: a[i, j] + 1, name="b")
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.axis[0], **how)
    s[b].split(outer, nparts=3)
    cache = s.cache_write(b, "local")
    s[cache].vectorize(cache.op.axis[1])
    out = np.zeros((0, 3), "float32")
    tvm.build(s, [a, b], "llvm")(np.zeros((0, 3), "float32"), out)
    assert out.shape == (0, 3)


def test_a_fused_empty_axis():
    a = te.placeholder((2, 0), name="a")
    k = te.reduce_axis((0, 0), "k")
    b = te.compute((2,), lambda i: te.sum(a[i, k], axis=k), name="b")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(k, nparts=4)
    factored = s.rfactor(b, s[b].fuse(outer, inner))
    out = np.full(2, 7, "float32")
    tvm.build(s, [a, b], "llvm")(np.zeros((2, 0), "float32"), out)
    assert factored.shape[0] == 0 and out.tolist() == [0, 0]
