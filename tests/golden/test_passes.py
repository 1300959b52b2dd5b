"""The loops that each scheduling primitive becomes after all passes.

For primitives whose no-op would give the same numbers, these texts are the test that something
happens at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.golden.goldens import check
from tilewright import te
from tilewright.driver.lower import lower

Case = Callable[[], tuple[Any, list[Any]]]


def stencil() -> tuple[Any, Any, Any, Any]:
    a = te.placeholder((12, 10), name="A")
    p = te.compute((12, 10), lambda i, j: a[i, j] * 2.0 + 1.0, name="P")
    c = te.compute((10, 8), lambda i, j: p[i, j] + p[i + 1, j + 1] + p[i + 2, j + 2], name="C")
    return te.create_schedule(c.op), a, p, c


def double_buffer() -> tuple[Any, list[Any]]:
    s, a, p, c = stencil()
    s[p].compute_at(s[c], c.op.axis[0])
    s[p].double_buffer()
    return s, [a, c]


def software_pipeline() -> tuple[Any, list[Any]]:
    s, a, p, c = stencil()
    s[p].compute_at(s[c], c.op.axis[0])
    s[p].set_scope("shared")
    s[p].double_buffer()
    s[c].pragma(c.op.axis[0], "software_pipeline_stages", 3)
    return s, [a, c]


def rolling_buffer() -> tuple[Any, list[Any]]:
    s, a, p, c = stencil()
    s[p].compute_at(s[c], c.op.axis[0])
    s[p].rolling_buffer()
    return s, [a, c]


def prefetch() -> tuple[Any, list[Any]]:
    s, a, p, c = stencil()
    s[p].prefetch(a, p.op.axis[0], 2)
    return s, [a, c]


def storage_align() -> tuple[Any, list[Any]]:
    s, a, p, c = stencil()
    s[p].storage_align(p.op.axis[0], 16, 3)
    return s, [a, c]


def parallel_vectorize_unroll() -> tuple[Any, list[Any]]:
    s, a, p, c = stencil()
    s[p].parallel(p.op.axis[0])
    s[c].vectorize(c.op.axis[1])
    _outer, inner = s[c].split(c.op.axis[0], factor=2)
    s[c].unroll(inner)
    return s, [a, c]


def pragma_unroll() -> tuple[Any, list[Any]]:
    s, a, p, c = stencil()
    s[p].compute_inline()
    outer, _inner = s[c].split(c.op.axis[1], factor=4)
    s[c].pragma(outer, "auto_unroll_max_step", 8)
    s[c].pragma(outer, "unroll_explicit", True)
    return s, [a, c]


def vector_add(n: Any) -> tuple[Any, Any, Any]:
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: te.exp(a[i]) + 1.0, name="B")
    return te.create_schedule(b.op), a, b


def vector_tail() -> tuple[Any, list[Any]]:
    s, a, b = vector_add(100)
    outer, inner = s[b].split(b.op.axis[0], factor=16)
    s[b].vectorize(inner)
    s[b].parallel(outer)
    return s, [a, b]


def vector_tail_symbolic() -> tuple[Any, list[Any]]:
    s, a, b = vector_add(te.var("n"))
    _outer, inner = s[b].split(b.op.axis[0], factor=16)
    s[b].vectorize(inner)
    return s, [a, b]


def vectorize_symbolic() -> tuple[Any, list[Any]]:
    s, a, b = vector_add(te.var("n"))
    s[b].vectorize(b.op.axis[0])
    return s, [a, b]


def block_partition() -> tuple[Any, list[Any]]:
    s, a, b = vector_add(te.var("n"))
    outer, inner = s[b].split(b.op.axis[0], factor=64)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    return s, [a, b]


def virtual_threads() -> tuple[Any, list[Any]]:
    s, a, b = vector_add(64)
    outer, inner = s[b].split(b.op.axis[0], nparts=2)
    block, inner = s[b].split(inner, factor=8)
    s[b].reorder(block, outer, inner)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(outer, te.thread_axis("vthread"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    return s, [a, b]


def matmul(n: int, m: int) -> tuple[Any, Any, Any, Any]:
    a = te.placeholder((n, 32), name="A")
    b = te.placeholder((32, m), name="B")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_schedule(c.op), a, b, c


def register_tile() -> tuple[Any, list[Any]]:
    s, a, b, c = matmul(10, 24)
    local = s.cache_write(c, "local")
    yo, xo, _yi, xi = s[c].tile(*c.op.axis, 4, 8)
    s[local].compute_at(s[c], xo)
    y, x = local.op.axis
    (k,) = s[local].op.reduce_axis
    s[local].reorder(k, y, x)
    s[local].unroll(y)
    s[local].vectorize(x)
    s[c].vectorize(xi)
    s[c].parallel(yo)
    return s, [a, b, c]


def output_accumulator() -> tuple[Any, list[Any]]:
    s, a, b, c = matmul(8, 16)
    s[c].vectorize(c.op.axis[1])
    s[c].reorder(c.op.axis[0], c.op.reduce_axis[0], c.op.axis[1])
    return s, [a, b, c]


def shared_storage() -> tuple[Any, list[Any]]:
    a = te.placeholder((1000,), name="A")
    last = a
    for i in range(4):
        last = te.compute((1000,), lambda j, last=last: last[j] * 2.0, name=f"T{i}")
    return te.create_schedule(last.op), [a, last]


CASES: list[Case] = [
    double_buffer,
    software_pipeline,
    rolling_buffer,
    prefetch,
    storage_align,
    parallel_vectorize_unroll,
    pragma_unroll,
    vector_tail,
    vector_tail_symbolic,
    vectorize_symbolic,
    block_partition,
    virtual_threads,
    register_tile,
    output_accumulator,
    shared_storage,
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_loops(case: Case) -> None:
    s, args = case()
    check(f"passes/{case.__name__}", str(lower(s, args)["main"]))
