"""Golden text of CUDA and OpenCL kernels and C functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilewright as tw
from tests.golden.goldens import check
from tilewright import te

Built = tuple[Any, list[Any]]


def _threads(s: Any, stage: Any, axis: Any, threads: int) -> Any:
    block, inner = s[stage].split(axis, factor=threads)
    s[stage].bind(block, te.thread_axis("blockIdx.x"))
    s[stage].bind(inner, te.thread_axis("threadIdx.x"))
    return inner


def elementwise() -> Built:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: te.max(te.exp(A[i]), 0.5) + te.floordiv(i, 3), name="B")
    s = te.create_schedule(B.op)
    _threads(s, B, B.op.axis[0], 64)
    return s, [A, B]


def vectors() -> Built:
    A = te.placeholder((4096,), name="A")
    B = te.placeholder((4096,), name="B", dtype="float16")
    C = te.compute((4096,), lambda i: A[i] * 2.0 + B[i].astype("float32"), name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=4)
    s[C].vectorize(inner)
    _threads(s, C, outer, 128)
    return s, [A, B, C]


def shared_tiles() -> Built:
    A = te.placeholder((64, 64), name="A")
    B = te.compute((64, 64), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    AA = s.cache_read(A, "shared", [B])
    i, j = B.op.axis
    io, jo, ii, ji = s[B].tile(i, j, 16, 16)
    s[B].bind(io, te.thread_axis("blockIdx.y"))
    s[B].bind(jo, te.thread_axis("blockIdx.x"))
    s[B].bind(ii, te.thread_axis("threadIdx.y"))
    s[B].bind(ji, te.thread_axis("threadIdx.x"))
    s[AA].compute_at(s[B], jo)
    y, x = s[AA].op.axis
    s[AA].bind(y, te.thread_axis("threadIdx.y"))
    s[AA].bind(x, te.thread_axis("threadIdx.x"))
    return s, [A, B]


def row_sums() -> Built:
    A = te.placeholder((128, 1024), name="A")
    k = te.reduce_axis((0, 1024), "k")
    B = te.compute((128,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    _, ki = s[B].split(B.op.reduce_axis[0], factor=32)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(ki, te.thread_axis("threadIdx.x"))
    return s, [A, B]


PROGRAMS: dict[str, Callable[[], Built]] = {
    "elementwise": elementwise,
    "vectors": vectors,
    "shared_tiles": shared_tiles,
    "row_sums": row_sums,
}


@pytest.mark.parametrize("target", ["cuda", "opencl"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels(name: str, target: str) -> None:
    s, args = PROGRAMS[name]()
    module = tw.build(s, args, target, name=name)
    check(f"source/{name}.{target}", module.imported_modules[0].get_source())


def test_c_function() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A", dtype="float16")
    B = te.compute((n,), lambda i: te.sqrt(A[i]) + 1.0, name="B")
    module = tw.build(te.create_schedule(B.op), [A, B], "llvm", name="roots")
    check("source/roots.c", module.get_source("c"))
