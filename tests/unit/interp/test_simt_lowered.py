"""Schedules lowered for GPUs: right and free of races; wrong without any one of their barriers."""

import numpy as np
import pytest

from tilewright import te
from tilewright.driver.lower import lower
from tilewright.interp.simt import SimtError, run_kernel
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.rewrite import Rewriter, handles
from tilewright.lowering.device_pipeline import run_device_pipeline
from tilewright.target.target import Target


def axis(tag, extent=None):
    return te.thread_axis((0, extent) if extent else None, tag)


def matmul(n, m, depth, dtype="float32", double=False):
    """Tiles of 16 x 16 by 8 x 8 threads, operands in shared memory, 8 of `depth` at a time."""
    a = te.placeholder((n, depth), dtype, name="A")
    b = te.placeholder((depth, m), dtype, name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    shared = [s.cache_read(t, "shared", [c]) for t in (a, b)]
    local = s.cache_write(c, "local")
    i, j = s[c].op.axis
    by, i = s[c].split(i, factor=16)
    bx, j = s[c].split(j, factor=16)
    ty, i = s[c].split(i, nparts=8)
    tx, j = s[c].split(j, nparts=8)
    s[c].reorder(by, bx, ty, tx, i, j)
    for loop, tag in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"),
                      (tx, "threadIdx.x")):  # fmt: skip
        s[c].bind(loop, axis(tag))
    s[local].compute_at(s[c], tx)
    outer, inner = s[local].split(s[local].op.reduce_axis[0], factor=8)
    s[local].reorder(outer, inner, *s[local].op.axis)
    for t in shared:
        s[t].compute_at(s[local], outer)
        y, rest = s[t].split(s[t].fuse(*s[t].op.axis), nparts=8)
        x, _ = s[t].split(rest, nparts=8)
        s[t].bind(y, axis("threadIdx.y", 8))
        s[t].bind(x, axis("threadIdx.x", 8))
        if double:
            s[t].double_buffer()
    return s, [a, b, c], lambda x, y: x.astype("float64") @ y


def transpose(n, m):
    a = te.placeholder((n, m), name="A")
    b = te.compute((m, n), lambda i, j: a[j, i], name="B")
    s = te.create_schedule(b.op)
    shared = s.cache_read(a, "shared", [b])
    i, j = s[b].op.axis
    by, ty = s[b].split(i, factor=8)
    bx, tx = s[b].split(j, factor=8)
    s[b].reorder(by, bx, ty, tx)
    for loop, tag in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"),
                      (tx, "threadIdx.x")):  # fmt: skip
        s[b].bind(loop, axis(tag))
    s[shared].compute_at(s[b], bx)
    x, y = s[shared].op.axis
    s[shared].bind(x, axis("threadIdx.y", 8))
    s[shared].bind(y, axis("threadIdx.x", 8))
    s[shared].storage_align(x, 8, 1)
    return s, [a, b], np.transpose


def row_sums(n, m, threads):
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(k, factor=threads)
    part = s.rfactor(b, inner)
    s[b].bind(s[b].op.axis[0], axis("blockIdx.x"))
    lane = axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], lane)
    s[part].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(lane.var.equal(0))
    return s, [a, b], lambda x: x.sum(axis=1, dtype="float64")


def stencil(n):
    a = te.placeholder((n + 2,), name="A")
    b = te.compute((n,), lambda i: a[i] + a[i + 1] + a[i + 2], name="B")
    s = te.create_schedule(b.op)
    shared = s.cache_read(a, "shared", [b])
    bx, tx = s[b].split(s[b].op.axis[0], factor=32)
    s[b].bind(bx, axis("blockIdx.x"))
    s[b].bind(tx, axis("threadIdx.x"))
    s[shared].compute_at(s[b], bx)
    _, t = s[shared].split(s[shared].op.axis[0], factor=32)
    s[shared].bind(t, axis("threadIdx.x"))
    return s, [a, b], lambda x: x[:-2] + x[1:-1] + x[2:]


CASES = {
    "matmul": lambda: matmul(64, 64, 64),
    "matmul of odd sizes": lambda: matmul(37, 29, 41),
    "double buffers": lambda: matmul(32, 48, 32, double=True),
    "double buffers of odd sizes": lambda: matmul(20, 50, 33, double=True),
    "float16": lambda: matmul(32, 32, 16, "float16"),
    "transpose": lambda: transpose(32, 40),
    "transpose of odd sizes": lambda: transpose(13, 29),
    "sums by 32": lambda: row_sums(5, 100, 32),
    "sums by 100": lambda: row_sums(5, 300, 100),
    "sums by 256": lambda: row_sums(3, 1000, 256),
    "stencil": lambda: stencil(200),
}


def lowered(case, target):
    s, tensors, reference = CASES[case]()
    program = run_device_pipeline(lower(s, tensors)["main"], Target(target))
    (kernel,) = program.kernels.values()
    return kernel, tensors, reference


def run(kernel, tensors):
    rng = np.random.default_rng(7)
    arrays = {}
    for t in tensors:
        shape = [int(d) for d in t.shape]
        arrays[t.op.name] = rng.uniform(-1, 1, shape).astype(t.dtype)
    arrays[tensors[-1].op.name][...] = np.nan
    run_kernel(kernel, None, [arrays[p.name] for p in kernel.params])
    return [arrays[t.op.name] for t in tensors]


@pytest.mark.parametrize("target", ["cuda", "opencl"])
@pytest.mark.parametrize("case", CASES)
def test_results(case, target):
    kernel, tensors, reference = lowered(case, target)
    *given, result = run(kernel, tensors)
    tolerance = 2e-2 if result.dtype == "float16" else 1e-5
    np.testing.assert_allclose(result, reference(*given), atol=tolerance)


class WithoutBarrier(Rewriter):
    """Drops the n-th barrier; `seen` counts them."""

    def __init__(self, n):
        self.n = n
        self.seen = 0

    @handles(S.Evaluate)
    def _evaluate(self, s):
        call = s.value
        if not isinstance(call, E.Call) or call.op.name != "tir.tvm_storage_sync":
            return s
        self.seen += 1
        return S.no_op() if self.seen - 1 == self.n else s


@pytest.mark.parametrize("target", ["cuda", "opencl"])
@pytest.mark.parametrize("case", CASES)
def test_every_barrier_is_needed_and_missed(case, target):
    kernel, tensors, _ = lowered(case, target)
    counter = WithoutBarrier(-1)
    counter.stmt(kernel.body)
    for n in range(counter.seen):
        changed = WithoutBarrier(n).stmt(kernel.body)
        with pytest.raises(SimtError) as error:
            run(kernel.with_body(changed), tensors)
        assert error.value.findings[0].kind == "race"


class Shorter(Rewriter):
    """Takes one element from the n-th allocation."""

    def __init__(self, n):
        self.n = n
        self.seen = 0

    @handles(S.Allocate)
    def _allocate(self, s):
        self.seen += 1
        if self.seen - 1 != self.n:
            return super()._allocate(s)
        short = s.buffer.with_(shape=[s.buffer.shape[0] - 1])
        return S.Allocate(short, self.stmt(s.body), s.annotations)


@pytest.mark.parametrize("case", ["matmul", "double buffers", "transpose", "sums by 32", "stencil"])
def test_every_element_is_needed_and_missed(case):
    kernel, tensors, _ = lowered(case, "cuda")
    counter = Shorter(-1)
    counter.stmt(kernel.body)
    assert counter.seen
    for n in range(counter.seen):
        changed = Shorter(n).stmt(kernel.body)
        with pytest.raises(SimtError, match="out of bounds"):
            run(kernel.with_body(changed), tensors)
