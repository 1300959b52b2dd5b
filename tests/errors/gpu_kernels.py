"""Small kernels and schedules that tests of errors share."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tilewright import te, tir
from tilewright.rt.drivers import nvrtc

OPENCL = tw.nd.device("opencl", 0)
needs_opencl = pytest.mark.skipif(not OPENCL.exist, reason="no OpenCL device here")
needs_compiler = pytest.mark.skipif(bool(nvrtc.why_missing()), reason="no CUDA compiler here")


def bound(s: Any, b: Any, factor: int = 64) -> None:
    outer, inner = s[b].split(b.op.axis[0], factor)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))


def plain(n: Any = 64, dtype: str = "float32", f: Any = lambda x: x + 1) -> tuple[Any, Any, Any]:
    a = te.placeholder((n,), dtype, name="A")
    b = te.compute((n,), lambda i: f(a[i]), name="B")
    s = te.create_schedule(b.op)
    bound(s, b)
    return s, a, b


def by_hand(threads: Any, write: Any) -> tir.PrimFunc:
    """A kernel on A of 64 floats; `write(ib, a, thread)` emits its body."""
    ib = tir.ir_builder.create()
    buffer = tir.decl_buffer((64,), "float32", name="A")
    thread = te.thread_axis("threadIdx.x")
    ib.scope_attr(thread, "thread_extent", threads)
    write(ib, ib.buffer_ptr(buffer), thread.var)
    return tir.PrimFunc(
        [buffer.data], ib.get(), None, {buffer.data: buffer}, {"global_symbol": "f"}
    )
