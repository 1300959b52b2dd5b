"""Buffers whose size depends on loops around them cannot be made outside of these."""

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te


def triangle() -> tuple[Any, ...]:
    """C[i] = sum of P[0], ..., P[i], where P doubles A."""
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="A")
    p = te.compute((n,), lambda i: a[i] * 2, name="P")

    def row(i: Any) -> Any:
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(p[k], axis=k)

    return a, p, te.compute((n,), row, name="C")


@pytest.mark.parametrize(
    "kind", ["plain", "double_buffer", "rolling_buffer", "parallel", "vthread"]
)
@pytest.mark.parametrize("split", [False, True])
def test_a_triangle(kind: str, split: bool) -> None:
    a, p, c = triangle()
    s = te.create_schedule(c.op)
    i = c.op.axis[0]
    outer = i
    if split:
        outer, i = s[c].split(i, factor=3)
    s[p].compute_at(s[c], i)
    if kind == "vthread":
        s[c].bind(i if split else s[c].split(i, nparts=2)[0], te.thread_axis("vthread"))
    elif kind == "parallel":
        s[c].parallel(outer)
    elif kind != "plain":
        getattr(s[p], kind)()
    x, out = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    tvm.build(s, [a, c], "llvm")(x, out)
    np.testing.assert_array_equal(out, np.cumsum(x * 2))


@pytest.mark.parametrize("which", ["S0", "S1"])
@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("kind", ["double_buffer", "rolling_buffer"])
def test_layouts_beside_buffers_filled_ahead(kind: str, depth: int, which: str) -> None:
    n = te.var("n")
    a, k = te.placeholder((n, 4), "int32", name="A"), te.reduce_axis((0, 4), name="k")
    s0 = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="S0")
    s1 = te.compute((n,), lambda i: te.min(s0[i], a[i, 0]), name="S1")
    s2 = te.compute((n,), lambda i: te.min(s1[i], s0[i]), name="S2")
    s = te.create_schedule(s2.op)
    loops = s[s2].split(s2.op.axis[0], factor=2)
    laid, filled = (s0, s1) if which == "S0" else (s1, s0)
    s[laid].transform_layout(lambda i: [i // 4, i % 4])
    getattr(s[filled], kind)()
    for stage in (s0, s1):
        s[stage].compute_at(s[s2], loops[depth])
    x = np.random.default_rng(0).integers(-9, 9, (7, 4)).astype("int32")
    out = np.zeros(7, "int32")
    tvm.build(s, [a, s2], "llvm")(x, out)
    np.testing.assert_array_equal(out, np.minimum(x.sum(1), x[:, 0]))


@pytest.mark.parametrize("n", [1, 2, 5, 13])
def test_virtual_threads_with_parts_of_unlike_sizes(n: int) -> None:
    """Rows that a part touches: more or fewer, by where it starts."""
    size = te.var("n")
    a = te.placeholder((size, 7), "int32", name="A")
    b = te.compute((size * 7,), lambda i: a[i // 7, i % 7], name="B")
    s = te.create_schedule(b.op)
    copy = s.cache_read(a, "local", [b])
    outer, _ = s[b].split(b.op.axis[0], nparts=3)
    s[b].bind(outer, te.thread_axis("vthread"))
    s[copy].compute_at(s[b], outer)
    x, out = np.arange(7 * n, dtype="int32").reshape(n, 7), np.zeros(7 * n, "int32")
    with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        tvm.build(s, [a, b], "llvm")(x, out)
    np.testing.assert_array_equal(out, x.ravel())
