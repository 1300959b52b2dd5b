"""Batched products, several kernels in one function, gathers, warp memory, atomics."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.exec.gpu.kit import Case, axis, bind_flat
from tilewright import te, tir
from tilewright.loopir.calls import address_of, call_intrin

# -- batched products


def batched(batch: Any = 3, n: int = 20, m: int = 18, depth: int = 12) -> tuple[Any, list[Any]]:
    """A product a plane of blocks; tiles of both operands in shared memory."""
    a = te.placeholder((batch, n, depth), name="A")
    b = te.placeholder((batch, m, depth), name="B")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((batch, n, m), lambda p, i, j: te.sum(a[p, i, k] * b[p, j, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    shared = [s.cache_read(x, "shared", [local]) for x in (a, b)]
    p, i, j = c.op.axis
    by, bx, ty, tx = s[c].tile(i, j, 8, 8)
    ys, xs = axis("threadIdx.y", 8), axis("threadIdx.x", 8)
    for x, tag in ((p, "blockIdx.z"), (by, "blockIdx.y"), (bx, "blockIdx.x")):
        s[c].bind(x, axis(tag))
    s[c].bind(ty, ys)
    s[c].bind(tx, xs)
    s[local].compute_at(s[c], tx)
    ko, _ = s[local].split(s[local].op.reduce_axis[0], factor=8)
    for copy in shared:
        s[copy].compute_at(s[local], ko)
        _, row, column = copy.op.axis
        s[copy].bind(row, ys)
        s[copy].bind(column, xs)
    return s, [a, b, c]


def attention() -> tuple[Any, list[Any]]:
    """softmax(Q K^T) V by five kernels."""
    n, d = 12, 8
    q, k_, v = (te.placeholder((2, n, d), name=x) for x in "QKV")
    x, y = te.reduce_axis((0, d), "x"), te.reduce_axis((0, n), "y")
    z, w = te.reduce_axis((0, n), "z"), te.reduce_axis((0, n), "w")
    score = te.compute(
        (2, n, n), lambda b, i, j: te.sum(q[b, i, x] * k_[b, j, x], axis=x), name="score"
    )
    most = te.compute((2, n), lambda b, i: te.max(score[b, i, y], axis=y), name="most")
    power = te.compute((2, n, n), lambda b, i, j: te.exp(score[b, i, j] - most[b, i]), name="power")
    total = te.compute((2, n), lambda b, i: te.sum(power[b, i, z], axis=z), name="total")
    out = te.compute(
        (2, n, d),
        lambda b, i, j: te.sum(power[b, i, w] / total[b, i] * v[b, w, j], axis=w),
        name="out",
    )
    s = te.create_schedule(out.op)
    for t in (score, most, power, total, out):
        bind_flat(s, t, 32)
    return s, [q, k_, v, out]


# -- several kernels


def two_kernels(n: Any) -> tuple[Any, list[Any]]:
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((n,), lambda i: b[n - 1 - i] + a[i], name="C")
    s = te.create_schedule(c.op)
    for t in (b, c):
        bind_flat(s, t, 32)
    return s, [a, c]


def two_results(n: Any) -> tuple[Any, list[Any]]:
    """An intermediate array that is an argument, too."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((n,), lambda i: b[i] * b[n - 1 - i], name="C")
    s = te.create_schedule([b.op, c.op])
    for t in (b, c):
        bind_flat(s, t, 64)
    return s, [a, b, c]


def pooled() -> tuple[Any, list[Any]]:
    """Greatest of windows, then their mean a channel, by two kernels."""
    x = te.placeholder((4, 11, 11), name="X")
    y, z = te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 3), "z")
    p = te.compute(
        (4, 5, 5), lambda c, i, j: te.max(x[c, 2 * i + y, 2 * j + z], axis=[y, z]), name="P"
    )
    u, v = te.reduce_axis((0, 5), "u"), te.reduce_axis((0, 5), "v")
    m = te.compute((4,), lambda c: te.sum(p[c, u, v] * 0.04, axis=[u, v]), name="M")
    s = te.create_schedule(m.op)
    bind_flat(s, p, 32)
    s[m].bind(m.op.axis[0], axis("blockIdx.x"))
    s[m].bind(s[m].fuse(*s[m].op.reduce_axis), axis("threadIdx.x"))
    return s, [x, m]


# -- reads at places that are data


def take() -> tuple[Any, list[Any]]:
    """Rows of a table, by number."""
    table = te.placeholder((11, 20), name="T")
    index = te.placeholder((7,), "int32", "I")
    c = te.compute((7, 20), lambda i, j: table[index[i], j], name="C")
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], axis("blockIdx.x"))
    s[c].bind(s[c].split(c.op.axis[1], factor=16)[1], axis("threadIdx.x"))
    return s, [table, index, c]


def looked_up() -> tuple[Any, list[Any]]:
    """A table in shared memory, which each block fetches."""
    n = 200
    table, index = te.placeholder((40,), name="T"), te.placeholder((n,), "uint8", "I")
    c = te.compute((n,), lambda i: table[index[i].astype("int32")] * 0.5, name="C")
    s = te.create_schedule(c.op)
    shared = s.cache_read(table, "shared", [c])
    x = axis("threadIdx.x", 32)
    block, t = s[c].split(c.op.axis[0], factor=64)
    s[c].bind(block, axis("blockIdx.x"))
    s[c].bind(s[c].split(t, factor=32)[1], x)
    s[shared].compute_at(s[c], block)
    s[shared].bind(s[shared].split(shared.op.axis[0], factor=32)[1], x)
    return s, [table, index, c]


def sparse_rows() -> tuple[Any, list[Any]]:
    """Rows times a vector, with lengths of rows that are data."""
    rows, width = 9, 16
    values, columns = (
        te.placeholder((rows, width), name="V"),
        te.placeholder((rows, width), "int32", "I"),
    )
    length, x = te.placeholder((rows,), "int32", "L"), te.placeholder((30,), name="X")
    k = te.reduce_axis((0, width), "k")
    zero = tir.const(0, "float32")
    y = te.compute(
        (rows,),
        lambda i: te.sum(
            tir.if_then_else(k < length[i], values[i, k] * x[columns[i, k]], zero), axis=k
        ),
        name="Y",
    )
    s = te.create_schedule(y.op)
    block, ty = s[y].split(y.op.axis[0], factor=2)
    s[y].bind(block, axis("blockIdx.x"))
    s[y].bind(ty, axis("threadIdx.y"))
    s[y].bind(k, axis("threadIdx.x"))
    return s, [values, columns, length, x, y]


def lengths(r: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return np.append(r.integers(0, 17, shape[0] - 1), 16)


def below(limit: int) -> Any:
    return lambda r, shape: r.integers(0, limit, shape)


# -- memory of a warp


def rotated(n: int, width: int, by: int, rows: int, dtype: str) -> tuple[Any, list[Any]]:
    """B[i] = A[i + by] within each tile, which the lanes of a warp hold in registers."""
    a = te.placeholder((n,), dtype, "A")
    b = te.compute((n,), lambda i: a[i // width * width + (i % width + by) % width], name="B")
    s = te.create_schedule(b.op)
    held = s.cache_read(a, "warp", [b])
    x = axis("threadIdx.x")
    outer, lane = s[b].split(b.op.axis[0], factor=width)
    block, row = s[b].split(outer, factor=rows)
    s[b].bind(block, axis("blockIdx.x"))
    s[b].bind(row, axis("threadIdx.y"))
    s[b].bind(lane, x)
    s[held].compute_at(s[b], row)
    s[held].bind(s[held].split(held.op.axis[0], factor=width)[1], x)
    return s, [a, b]


# -- atomic operations


def histogram(blocks: int, threads: int, bins: int, shared: bool) -> tuple[Any, list[Any]]:
    """How often each number occurs: counted in the device's memory, or a block's first."""
    n = blocks * threads

    def kernel(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        bx, tx = axis("blockIdx.x", blocks), axis("threadIdx.x", threads)
        a, h = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])

        def add(place: Any, count: Any) -> None:
            ib.emit(call_intrin("int32", "tir.atomic_add", address_of(place), count))

        one = tir.const(1, "int32")
        if not shared:
            with ib.new_scope():
                first = axis("threadIdx.x", bins)
                ib.scope_attr(first, "thread_extent", bins)
                h[first.var] = tir.const(0, "int32")
            ib.scope_attr(bx, "thread_extent", blocks)
            ib.scope_attr(tx, "thread_extent", threads)
            add(h[a[bx.var * threads + tx.var]], one)
            return ib.get()
        ib.scope_attr(tx, "thread_extent", threads)
        own = ib.allocate("int32", (bins,), name="own", scope="shared")
        with ib.if_scope(tx.var < bins):
            own[tx.var] = tir.const(0, "int32")
        with ib.for_range(0, blocks, name="b") as step:
            add(own[a[step * threads + tx.var]], one)
        with ib.if_scope(tx.var < bins):
            h[tx.var] = own[tx.var]
        return ib.get()

    a = te.placeholder((n,), "int32", "A")
    h = te.extern((bins,), [a], kernel, dtype="int32", name="H")
    return te.create_schedule(h.op), [a, h]


def _counts(bins: int) -> Any:
    return lambda a: np.bincount(a, minlength=bins).astype("int32")


NO_SUBGROUPS = "PoCL has no sub-groups, which shuffles need"

CASES = [
    Case("batched", batched),
    Case("batched_symbolic", lambda: batched(te.size_var("n")), {"n": 2}),
    Case("attention", attention),
    Case("two_kernels", lambda: two_kernels(100)),
    Case("two_kernels_symbolic", lambda: two_kernels(te.size_var("n")), {"n": 45}),
    Case("two_results", lambda: two_results(150)),
    Case("pooled", pooled),
    Case("take", take, draw={"I": below(11)}),
    Case("looked_up", looked_up, draw={"I": below(40)}),
    Case("sparse_rows", sparse_rows, draw={"I": below(30), "L": lengths}),
    Case("warp_rotation", lambda: rotated(128, 32, 3, 2, "float32"), opencl=NO_SUBGROUPS),
    Case("warp_part_rotation", lambda: rotated(64, 8, 1, 4, "int32"), opencl=NO_SUBGROUPS),
    Case(
        "histogram",
        lambda: histogram(4, 64, 16, False),
        draw={"A": below(16)},
        expected=_counts(16),
    ),
    Case(
        "histogram_shared",
        lambda: histogram(3, 64, 20, True),
        draw={"A": below(20)},
        expected=_counts(20),
    ),
]
