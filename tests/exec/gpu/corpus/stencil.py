"""Stencils: tiles with their borders in shared memory; temporaries between them."""

from __future__ import annotations

from typing import Any

from tests.exec.gpu.kit import Case, axis
from tilewright import te, tir


def _zeros_outside(a: Any, *at: Any) -> Any:
    inside = tir.all(*[x for i, d in zip(at, a.shape) for x in (i >= 0, i < d)])
    return tir.if_then_else(inside, a[at], tir.const(0, a.dtype))


def three_points(n: Any, threads: int) -> tuple[Any, list[Any]]:
    """Three points, read from a copy of the block's part with its neighbours."""
    a = te.placeholder((n,), name="A")
    p = te.compute((n + 2,), lambda i: _zeros_outside(a, i - 1), name="P")
    c = te.compute((n,), lambda i: p[i] + p[i + 1] * 2.0 + p[i + 2], name="C")
    s = te.create_schedule(c.op)
    block, t = s[c].split(c.op.axis[0], factor=threads)
    x = axis("threadIdx.x", threads)
    s[c].bind(block, axis("blockIdx.x"))
    s[c].bind(t, x)
    s[p].compute_at(s[c], block)
    s[p].set_scope("shared")
    s[p].bind(s[p].split(s[p].op.axis[0], factor=threads)[1], x)
    return s, [a, c]


def five_points(n: Any, m: Any, twice: bool) -> tuple[Any, list[Any]]:
    """Five points of a plane; twice: the first result stays in shared memory, with a border."""
    a = te.placeholder((n, m), name="A")

    def smooth(x: Any, name: str, at: Any) -> Any:
        def value(i: Any, j: Any) -> Any:
            near = at(x, i - 1, j) + at(x, i + 1, j) + at(x, i, j - 1) + at(x, i, j + 1)
            return at(x, i, j) * 0.5 + near * 0.125

        return te.compute((n, m), value, name=name)

    b = smooth(a, "B", _zeros_outside)
    c = smooth(b, "C", _zeros_outside) if twice else b
    s = te.create_schedule(c.op)
    ys, xs = axis("threadIdx.y", 8), axis("threadIdx.x", 8)
    by, bx, ty, tx = s[c].tile(c.op.axis[0], c.op.axis[1], 8, 8)
    s[c].bind(by, axis("blockIdx.y"))
    s[c].bind(bx, axis("blockIdx.x"))
    s[c].bind(ty, ys)
    s[c].bind(tx, xs)
    staged = [s.cache_read(a, "shared", [b])]
    if twice:
        s[b].set_scope("shared")
        staged.append(b)
    for t in staged:
        s[t].compute_at(s[c], bx)
        y, x = s[t].op.axis
        s[t].bind(s[t].split(y, factor=8)[1], ys)
        s[t].bind(s[t].split(x, factor=8)[1], xs)
    return s, [a, c]


def seven_points() -> tuple[Any, list[Any]]:
    """A cube, walked through plane by plane; each plane's tile is fetched to shared memory."""
    a = te.placeholder((6, 18, 18), name="A")

    def value(i: Any, j: Any, k: Any) -> Any:
        z = a[i, j + 1, k + 1] + a[i + 2, j + 1, k + 1]
        y = a[i + 1, j, k + 1] + a[i + 1, j + 2, k + 1]
        return z + y + a[i + 1, j + 1, k] + a[i + 1, j + 1, k + 2] - a[i + 1, j + 1, k + 1] * 6.0

    c = te.compute((4, 16, 16), value, name="C")
    s = te.create_schedule(c.op)
    shared = s.cache_read(a, "shared", [c])
    i, j, k = c.op.axis
    jo, ji = s[c].split(j, factor=8)
    ko, ki = s[c].split(k, factor=8)
    s[c].reorder(jo, ko, i, ji, ki)
    ys, xs = axis("threadIdx.y", 8), axis("threadIdx.x", 8)
    for x, t in ((jo, axis("blockIdx.y")), (ko, axis("blockIdx.x")), (ji, ys), (ki, xs)):
        s[c].bind(x, t)
    s[shared].compute_at(s[c], i)
    _, y, x = shared.op.axis
    s[shared].bind(s[shared].split(y, factor=8)[1], ys)
    s[shared].bind(s[shared].split(x, factor=8)[1], xs)
    return s, [a, c]


def box_filter() -> tuple[Any, list[Any]]:
    """A mean of 3 x 3 by rows, then by columns; sums of rows are shared."""
    n, m = 20, 24
    a = te.placeholder((n + 2, m + 2), name="A")
    k, l = te.reduce_axis((0, 3), "k"), te.reduce_axis((0, 3), "l")
    r = te.compute((n + 2, m), lambda i, j: te.sum(a[i, j + k], axis=k), name="R")
    c = te.compute((n, m), lambda i, j: te.sum(r[i + l, j], axis=l), name="C")
    s = te.create_schedule(c.op)
    by, bx, ty, tx = s[c].tile(c.op.axis[0], c.op.axis[1], 4, 16)
    ys, xs = axis("threadIdx.y", 4), axis("threadIdx.x", 16)
    for x, t in ((by, axis("blockIdx.y")), (bx, axis("blockIdx.x")), (ty, ys), (tx, xs)):
        s[c].bind(x, t)
    s[r].set_scope("shared")
    s[r].compute_at(s[c], bx)
    y, x = r.op.axis
    s[r].bind(s[r].split(y, factor=4)[1], ys)
    s[r].bind(x, xs)
    return s, [a, c]


CASES = [
    Case("three_points", lambda: three_points(128, 32)),
    Case("three_points_odd", lambda: three_points(101, 32)),
    Case("three_points_symbolic", lambda: three_points(te.size_var("n"), 32), {"n": 77}),
    Case("five_points", lambda: five_points(16, 24, False)),
    Case("five_points_odd", lambda: five_points(13, 19, False)),
    Case("five_points_twice", lambda: five_points(16, 20, True)),
    Case("seven_points", seven_points),
    Case("box_filter", box_filter),
]
