"""Transposes by tiles in shared memory, so that reads and writes are both of whole rows."""

from __future__ import annotations

from typing import Any

from tests.exec.gpu.kit import Case, axis
from tilewright import te


def transpose(
    rows: Any,
    columns: Any,
    tile: tuple[int, int] = (16, 16),
    align: int = 0,
    dtype: str = "float32",
    each: int = 1,
    vector: int = 1,
) -> tuple[Any, list[Any]]:
    """B[i, j] = A[j, i]; a thread moves `each` elements down a tile, or vectors of the tile."""
    a = te.placeholder((rows, columns), dtype, "A")
    b = te.compute((columns, rows), lambda i, j: a[j, i], name="B")
    s = te.create_schedule(b.op)
    shared = s.cache_read(a, "shared", [b])
    by, bx, ty, tx = s[b].tile(b.op.axis[0], b.op.axis[1], *tile)
    ys, xs = axis("threadIdx.y", tile[0] // each), axis("threadIdx.x", tile[1])
    s[b].bind(by, axis("blockIdx.y"))
    s[b].bind(bx, axis("blockIdx.x"))
    s[b].bind(s[b].split(ty, nparts=tile[0] // each)[0], ys)
    s[b].bind(tx, xs)
    s[shared].compute_at(s[b], bx)
    if align:
        s[shared].storage_align(shared.op.axis[0], align, 1)
    flat = s[shared].fuse(*s[shared].op.axis)
    if vector > 1:
        flat, lanes = s[shared].split(flat, factor=vector)
        s[shared].vectorize(lanes)
    rest, x = s[shared].split(flat, factor=tile[1])
    _, y = s[shared].split(rest, factor=tile[0] // each)
    s[shared].bind(x, xs)
    s[shared].bind(y, ys)
    return s, [a, b]


def permute() -> tuple[Any, list[Any]]:
    """B[k, i, j] = A[i, j, k], a plane of i and k in shared memory for each j."""
    a = te.placeholder((20, 3, 18), name="A")
    b = te.compute((18, 20, 3), lambda k, i, j: a[i, j, k], name="B")
    s = te.create_schedule(b.op)
    shared = s.cache_read(a, "shared", [b])
    k, i, j = b.op.axis
    ko, ki = s[b].split(k, factor=8)
    io, ii = s[b].split(i, factor=8)
    s[b].reorder(ko, io, j, ki, ii)
    ys, xs = axis("threadIdx.y", 8), axis("threadIdx.x", 8)
    for x, tag in ((ko, "blockIdx.z"), (io, "blockIdx.y"), (j, "blockIdx.x")):
        s[b].bind(x, axis(tag))
    s[b].bind(ki, ys)
    s[b].bind(ii, xs)
    s[shared].compute_at(s[b], j)
    y, _, x = s[shared].op.axis
    s[shared].bind(y, ys)
    s[shared].bind(x, xs)
    return s, [a, b]


CASES = [
    Case("transpose", lambda: transpose(32, 32)),
    Case("transpose_padded", lambda: transpose(32, 32, align=16)),
    Case("transpose_rectangles", lambda: transpose(48, 40, (8, 16), align=8)),
    Case("transpose_odd", lambda: transpose(37, 29, align=16)),
    Case("transpose_four_each", lambda: transpose(64, 64, (32, 32), align=32, each=8)),
    Case("transpose_vectors", lambda: transpose(64, 32, (32, 32), each=16, vector=4)),
    Case("transpose_bytes", lambda: transpose(30, 50, (8, 32), dtype="uint8", each=2)),
    Case(
        "transpose_symbolic",
        lambda: transpose(te.size_var("n"), te.size_var("m"), align=16),
        {"n": 19, "m": 35},
    ),
    Case("permute", permute),
]
