"""GPU schedules that share memory between threads, as (schedule, arguments, reference)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import te

Case = tuple[Any, list[Any], Callable[..., Any]]


def _axis(tag: str, extent: int | None = None) -> Any:
    return te.thread_axis(tag) if extent is None else te.thread_axis((0, extent), tag)


def matmul(
    size: int = 64,
    tile: int = 16,
    inner: int = 2,
    depth: int = 8,
    vector: int = 1,
    double: bool = False,
    align: int = 0,
    vthread: int = 0,
) -> Case:
    """Tiles of A and B in shared memory, fetched by all threads together."""
    a = te.placeholder((size, size), name="A")
    b = te.placeholder((size, size), name="B")
    k = te.reduce_axis((0, size), "k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    tiles = [s.cache_read(t, "shared", [local]) for t in (a, b)]
    by, ty = s[c].split(c.op.axis[0], factor=tile)
    bx, tx = s[c].split(c.op.axis[1], factor=tile)
    virtual = []
    if vthread:
        vy, ty = s[c].split(ty, nparts=vthread)
        vx, tx = s[c].split(tx, nparts=vthread)
        virtual = [vy, vx]
    threads = tile // max(inner, vthread or 1)
    ty, yi = s[c].split(ty, nparts=threads)
    tx, xi = s[c].split(tx, nparts=threads)
    s[c].reorder(by, bx, *virtual, ty, tx, yi, xi)
    for v in virtual:
        s[c].bind(v, _axis("vthread"))
    rows, columns = _axis("threadIdx.y", threads), _axis("threadIdx.x", threads)
    s[c].bind(by, _axis("blockIdx.y"))
    s[c].bind(bx, _axis("blockIdx.x"))
    s[c].bind(ty, rows)
    s[c].bind(tx, columns)
    s[local].compute_at(s[c], tx)
    outer, step = s[local].split(s[local].op.reduce_axis[0], factor=depth)
    s[local].reorder(outer, step, *s[local].op.axis)
    for t in tiles:
        s[t].compute_at(s[local], outer)
        if align:
            s[t].storage_align(s[t].op.axis[0], align, 1)
        fused = s[t].fuse(*s[t].op.axis)
        if vector > 1:
            fused, lanes = s[t].split(fused, factor=vector)
            s[t].vectorize(lanes)
        fused, x = s[t].split(fused, factor=threads)
        fused, y = s[t].split(fused, factor=threads)
        s[t].bind(x, columns)
        s[t].bind(y, rows)
        if double:
            s[t].double_buffer()
    return s, [a, b, c], lambda x, y: x @ y


def transpose(size: int = 64, tile: int = 16, padded: bool = False) -> Case:
    """A tile goes through shared memory, so that reads and writes are both of whole rows."""
    a = te.placeholder((size, size), name="A")
    b = te.compute((size, size), lambda i, j: a[j, i], name="B")
    s = te.create_schedule(b.op)
    shared = s.cache_read(a, "shared", [b])
    by, ty = s[b].split(b.op.axis[0], factor=tile)
    bx, tx = s[b].split(b.op.axis[1], factor=tile)
    s[b].reorder(by, bx, ty, tx)
    rows, columns = _axis("threadIdx.y", tile), _axis("threadIdx.x", tile)
    for axis, thread in ((by, "blockIdx.y"), (bx, "blockIdx.x")):
        s[b].bind(axis, _axis(thread))
    s[b].bind(ty, rows)
    s[b].bind(tx, columns)
    s[shared].compute_at(s[b], bx)
    y, x = s[shared].op.axis
    if padded:
        s[shared].storage_align(y, tile, 1)
    s[shared].bind(y, rows)
    s[shared].bind(x, columns)
    return s, [a, b], lambda x: x.T.copy()


def softmax(rows: int = 8, columns: int = 48, threads: int = 16) -> Case:
    """A row a block: two reductions over threads, and the exponentials between them shared."""
    a = te.placeholder((rows, columns), name="A")
    k = te.reduce_axis((0, columns), "k")
    k2 = te.reduce_axis((0, columns), "k2")
    most = te.compute((rows,), lambda i: te.max(a[i, k], axis=k), name="most")
    e = te.compute((rows, columns), lambda i, j: te.exp(a[i, j] - most[i]), name="e")
    total = te.compute((rows,), lambda i: te.sum(e[i, k2], axis=k2), name="total")
    out = te.compute((rows, columns), lambda i, j: e[i, j] / total[i], name="out")
    s = te.create_schedule(out.op)
    thread = _axis("threadIdx.x", threads)
    row, column = out.op.axis
    s[out].bind(row, _axis("blockIdx.x"))
    s[out].bind(s[out].split(column, factor=threads)[1], thread)
    for stage in (most, total):
        s[stage].compute_at(s[out], row)
        s[stage].set_scope("shared")
        s[stage].bind(s[stage].split(s[stage].op.reduce_axis[0], factor=threads)[1], thread)
    s[e].compute_at(s[out], row)
    s[e].set_scope("shared")
    s[e].bind(s[e].split(s[e].op.axis[1], factor=threads)[1], thread)

    def reference(x: Any) -> Any:
        powers = np.exp(x - x.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    return s, [a, out], reference


def stencil(size: int = 100, threads: int = 32, scope: str = "shared") -> Case:
    """Three points, read from a padded copy of the block's part."""
    a = te.placeholder((size,), name="A")
    p = te.compute(
        (size + 2,),
        lambda i: te.if_then_else(te.all(i > 0, i < size + 1), a[i - 1], 0.0),
        name="P",
    )
    c = te.compute((size,), lambda i: p[i] + p[i + 1] + p[i + 2], name="C")
    s = te.create_schedule(c.op)
    block, t = s[c].split(c.op.axis[0], factor=threads)
    thread = _axis("threadIdx.x", threads)
    s[c].bind(block, _axis("blockIdx.x"))
    s[c].bind(t, thread)
    s[p].compute_at(s[c], block)
    s[p].set_scope(scope)
    s[p].bind(s[p].split(s[p].op.axis[0], factor=threads)[1], thread)

    def reference(x: Any) -> Any:
        padded = np.pad(x, 1)
        return padded[:-2] + padded[1:-1] + padded[2:]

    return s, [a, c], reference


def own_elements(size: int = 64) -> Case:
    """Shared memory in which every thread reads only what it has written."""
    a = te.placeholder((size,), name="A")
    b = te.compute((size,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((size,), lambda i: b[i] + 1.0, name="C")
    s = te.create_schedule(c.op)
    block, t = s[c].split(c.op.axis[0], factor=16)
    thread = _axis("threadIdx.x", 16)
    s[c].bind(block, _axis("blockIdx.x"))
    s[c].bind(t, thread)
    s[b].compute_at(s[c], block)
    s[b].set_scope("shared")
    s[b].bind(s[b].op.axis[0], thread)
    return s, [a, c], lambda x: x * 2 + 1


def mirrored_scan(steps: int = 6, size: int = 32) -> Case:
    """Each step reads, from the device's memory, what another thread wrote in the step before."""
    x = te.placeholder((steps, size), name="X")
    state = te.placeholder((steps, size), name="state")
    init = te.compute((1, size), lambda _, i: x[0, i])
    update = te.compute(
        (steps, size), lambda t, i: state[t - 1, size - 1 - i] + x[t, i], name="update"
    )
    out = te.scan(init, update, state, inputs=[x])
    s = te.create_schedule(out.op)
    thread = _axis("threadIdx.x", size)
    s[init].bind(init.op.axis[1], thread)
    s[update].bind(update.op.axis[1], thread)
    s[out].env_threads([thread])

    def reference(values: Any) -> Any:
        rows = [values[0]]
        for step in range(1, steps):
            rows.append(rows[-1][::-1] + values[step])
        return np.stack(rows)

    return s, [x, out], reference


def build(case: Case, target: str = "cuda") -> Any:
    s, args, _ = case
    return tw.build(s, args, target)


def arrays(case: Case) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal([int(d) for d in a.shape]).astype(a.dtype) for a in case[1]]
