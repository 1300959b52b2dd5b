"""The tutorial on reductions, as written: what it prints on its way, and what its programs give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.golden import goldens
from tilewright import te

n, m = te.var("n"), te.var("m")
A = te.placeholder((n, m), name="A")
k = te.reduce_axis((0, m), "k")
B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")


def printed(name: str, s: Any, args: list[Any]) -> None:
    goldens.check(f"listing_{name}", str(tvm.lower(s, args, simple_mode=True)))


def gives_sums(s: Any, target: str) -> Any:
    """The built function, after a call on the device; for CUDA, in the interpreter of threads."""
    f = tvm.build(s, [A, B], target)
    dev = tvm.device("opencl" if target.startswith("opencl") else "cpu", 0)
    if not dev.exist:
        pytest.skip(f"no {target} device")
    data = np.random.default_rng(0).uniform(size=(37, 41)).astype(A.dtype)
    if target == "cuda":
        out = np.zeros(37, B.dtype)
        f.run_simt(data, out)
    else:
        array = tvm.nd.array(np.zeros(37, B.dtype), dev)
        f(tvm.nd.array(data, dev), array)
        out = array.numpy()
    tvm.testing.assert_allclose(out, data.sum(axis=1), rtol=1e-4)
    return f


def test_description_split_and_threads() -> None:
    s = te.create_schedule(B.op)
    printed("default", s, [A, B])
    s[B].split(B.op.reduce_axis[0], factor=16)
    xo, xi = s[B].split(B.op.axis[0], factor=32)
    printed("split", s, [A, B])
    gives_sums(s, "llvm")
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.x"))
    printed("bound_to_GPU_threads", s, [A, B])


@pytest.mark.parametrize("target", ["cuda", "opencl"])
def test_rows_by_threads(target: str) -> None:
    s = te.create_schedule(B.op)
    xo, xi = s[B].split(B.op.axis[0], factor=32)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.x"))
    gives_sums(s, target)


@pytest.mark.parametrize("target", ["cuda", "opencl -max_num_threads=512"])
def test_factoring_and_reduction_across_threads(target: str) -> None:
    s = te.create_schedule(B.op)
    _, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    BF = s.rfactor(B, ki)
    printed("rfactor", s, [A, B])
    body = str(s[B].op.body)
    assert "T.reduce(T.comm_reducer(lambda x, y: x + y, [T.float32(0" in body
    assert "source=[B.rf[k_inner_v, ax0]]" in body
    xo, xi = s[B].split(s[B].op.axis[0], factor=32)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
    text = gives_sums(s, target).imported_modules[0].get_source()
    if target == "cuda":
        assert 'extern "C" __global__ void __launch_bounds__(512)' in text
        assert "__shfl_down_sync(mask, red_buf0[0], 8, 32)" in text


def test_convolution_over_two_axes() -> None:
    size = te.var("n")
    image = te.placeholder((size, size), name="Input")
    weights = te.placeholder((3, 3), name="Filter")
    di, dj = te.reduce_axis((0, 3), name="di"), te.reduce_axis((0, 3), name="dj")
    out = te.compute(
        (size - 2, size - 2),
        lambda i, j: te.sum(image[i + di, j + dj] * weights[di, dj], axis=[di, dj]),
        name="Output",
    )
    s = te.create_schedule(out.op)
    printed("convolution", s, [image, weights, out])
    x, w, y = np.arange(64.0).reshape(8, 8), np.arange(9.0).reshape(3, 3), np.zeros((6, 6))
    x, w, y = (a.astype("float32") for a in (x, w, y))
    tvm.build(s, [image, weights, out], "llvm")(x, w, y)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
    np.testing.assert_array_equal(y, (windows * w).sum(axis=(2, 3)))


def test_reductions_of_ones_own() -> None:
    product = te.comm_reducer(lambda x, y: x * y, lambda t: tvm.tir.const(1, dtype=t), "product")
    out = te.compute((n,), lambda i: product(A[i, k], axis=k), name="B")
    data, got = np.arange(1, 13, dtype="float32").reshape(3, 4), np.zeros(3, "float32")
    tvm.build(te.create_schedule(out.op), [A, out], "llvm")(data, got)
    np.testing.assert_array_equal(got, data.prod(axis=1))
