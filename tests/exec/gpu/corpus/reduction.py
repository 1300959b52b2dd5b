"""Reductions of rows and columns by the threads of a block, by warps and parts of them."""

from __future__ import annotations

from typing import Any

from tests.exec.gpu.kit import Case, axis
from tilewright import te, tir


def rows(
    n: Any,
    m: Any,
    threads: int,
    reducer: Any = te.sum,
    dtype: str = "float32",
    per_block: int = 1,
) -> tuple[Any, list[Any]]:
    """B[i] = reduction of A[i, :] by `threads` threads of x; `per_block` rows a block."""
    a = te.placeholder((n, m), dtype, "A")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: reducer(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(s[b].split(k, factor=threads)[1], axis("threadIdx.x"))
    row = b.op.axis[0]
    if per_block > 1:
        row, y = s[b].split(row, factor=per_block)
        s[b].bind(y, axis("threadIdx.y"))
    s[b].bind(row, axis("blockIdx.x"))
    return s, [a, b]


def columns(n: int, m: int, down: int, across: int) -> tuple[Any, list[Any]]:
    """B[j] = sum of A[:, j]: threads of x have a column each, those of y share it."""
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, n), "k")
    b = te.compute((m,), lambda j: te.sum(a[k, j], axis=k), name="B")
    s = te.create_schedule(b.op)
    block, x = s[b].split(b.op.axis[0], factor=across)
    _, y = s[b].split(k, factor=down)
    s[b].bind(block, axis("blockIdx.x"))
    s[b].bind(x, axis("threadIdx.x"))
    s[b].bind(y, axis("threadIdx.y"))
    return s, [a, b]


def factored(n: int, m: int, threads: int, rows_of_block: int = 1) -> tuple[Any, list[Any]]:
    """Each thread sums up its part first (rfactor); the first one stores the sum of all."""
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    part = s.rfactor(b, s[b].split(k, factor=threads)[1])
    block, y = s[b].split(s[b].op.axis[0], factor=rows_of_block)
    x = axis("threadIdx.x")
    s[b].bind(block, axis("blockIdx.x"))
    s[b].bind(y, axis("threadIdx.y"))
    s[b].bind(s[b].op.reduce_axis[0], x)
    s[part].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(x.var.equal(0))
    return s, [a, b]


def factored_kernels(n: int, parts: int) -> tuple[Any, list[Any]]:
    """One sum by two kernels: one makes a part in each block, the other adds the parts."""
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), "k")
    b = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="B")
    s = te.create_schedule(b.op)
    part = s.rfactor(b, s[b].split(k, nparts=parts)[0])
    inner = s[part].op.reduce_axis[0]
    s[part].bind(s[part].op.axis[0], axis("blockIdx.x"))
    s[part].bind(s[part].split(inner, factor=32)[1], axis("threadIdx.x"))
    s[b].bind(s[b].op.axis[0], axis("blockIdx.x"))
    s[b].bind(s[b].op.reduce_axis[0], axis("threadIdx.x"))
    return s, [a, b]


def two_axes() -> tuple[Any, list[Any]]:
    """Sums over planes; threads of x and y take part."""
    a = te.placeholder((6, 20, 30), name="A")
    j, k = te.reduce_axis((0, 20), "j"), te.reduce_axis((0, 30), "k")
    b = te.compute((6,), lambda i: te.sum(a[i, j, k], axis=[j, k]), name="B")
    s = te.create_schedule(b.op)
    jo, ji = s[b].split(j, factor=4)
    ko, ki = s[b].split(k, factor=16)
    s[b].reorder(jo, ko, ji, ki)
    s[b].bind(b.op.axis[0], axis("blockIdx.x"))
    s[b].bind(ji, axis("threadIdx.y"))
    s[b].bind(ki, axis("threadIdx.x"))
    return s, [a, b]


def whole_array() -> tuple[Any, list[Any]]:
    """A sum of a matrix, of which the two axes are fused, by one block."""
    a = te.placeholder((13, 41), name="A")
    i, j = te.reduce_axis((0, 13), "i"), te.reduce_axis((0, 41), "j")
    b = te.compute((), lambda: te.sum(a[i, j], axis=[i, j]), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(s[b].split(s[b].fuse(i, j), factor=128)[1], axis("threadIdx.x"))
    return s, [a, b]


def argmax(n: int, m: int, threads: int) -> tuple[Any, list[Any]]:
    """Place and value of the greatest element of each row; of equal ones the first."""

    def combine(x: Any, y: Any) -> Any:
        first = tir.any(x[1] > y[1], tir.all(x[1].equal(y[1]), x[0] < y[0]))
        return tir.Select(first, x[0], y[0]), tir.Select(first, x[1], y[1])

    def identity(t0: str, t1: str) -> Any:
        return tir.const(2**31 - 1, t0), te.min_value(t1)

    reducer = te.comm_reducer(combine, identity, "argmax")
    index, a = te.placeholder((n, m), "int32", "I"), te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    at, most = te.compute((n,), lambda i: reducer((index[i, k], a[i, k]), axis=k), name="B")
    s = te.create_schedule(at.op)
    s[at].bind(s[at].split(k, factor=threads)[1], axis("threadIdx.x"))
    block, y = s[at].split(at.op.axis[0], factor=2)
    s[at].bind(block, axis("blockIdx.x"))
    s[at].bind(y, axis("threadIdx.y"))
    return s, [index, a, at, most]


def any_zero() -> tuple[Any, list[Any]]:
    """Whether a row has a zero: a reduction of truth values."""
    reducer = te.comm_reducer(lambda x, y: tir.any(x, y), lambda t: tir.const(False, t), "any")
    a = te.placeholder((9, 70), "int32", "A")
    k = te.reduce_axis((0, 70), "k")
    b = te.compute((9,), lambda i: reducer(a[i, k].equal(0), axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], axis("blockIdx.x"))
    s[b].bind(s[b].split(k, factor=32)[1], axis("threadIdx.x"))
    return s, [a, b]


def dot_of_bytes() -> tuple[Any, list[Any]]:
    """Products of int8, summed in int32."""
    a, b = te.placeholder((7, 90), "int8", "A"), te.placeholder((7, 90), "int8", "B")
    k = te.reduce_axis((0, 90), "k")
    c = te.compute(
        (7,),
        lambda i: te.sum(a[i, k].astype("int32") * b[i, k].astype("int32"), axis=k),
        name="C",
    )
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], axis("blockIdx.x"))
    s[c].bind(s[c].split(k, factor=16)[1], axis("threadIdx.x"))
    return s, [a, b, c]


def centred() -> tuple[Any, list[Any]]:
    """Each row less its mean: the sum is shared with all threads of the block."""
    n, m = 8, 50
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    total = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="T")
    b = te.compute((n, m), lambda i, j: a[i, j] - total[i] * (1.0 / m), name="B")
    s = te.create_schedule(b.op)
    x = axis("threadIdx.x", 32)
    row, column = b.op.axis
    s[b].bind(row, axis("blockIdx.x"))
    s[b].bind(s[b].split(column, factor=32)[1], x)
    s[total].compute_at(s[b], row)
    s[total].bind(s[total].split(k, factor=32)[1], x)
    return s, [a, b]


def small(generator: Any, shape: tuple[int, ...]) -> Any:
    return generator.uniform(0.5, 1.5, shape)


def positions(_: Any, shape: tuple[int, ...]) -> Any:
    import numpy as np

    return np.broadcast_to(np.arange(shape[1]), shape)


_PROD = te.comm_reducer(lambda x, y: x * y, lambda t: tir.const(1, t), "prod")

CASES = [
    Case("rows_by_8", lambda: rows(6, 40, 8)),
    Case("rows_by_8_four_a_block", lambda: rows(10, 40, 8, per_block=4)),
    Case("rows_by_warp", lambda: rows(6, 100, 32)),
    Case("rows_by_128", lambda: rows(5, 300, 128)),
    Case(
        "rows_by_1024",
        lambda: rows(2, 1024, 1024),
        opencl="the target opencl has at most 256 threads a block",
    ),
    Case("rows_by_20", lambda: rows(6, 77, 20)),
    Case("rows_by_48_two_a_block", lambda: rows(7, 100, 48, per_block=2)),
    Case("rows_by_96", lambda: rows(4, 200, 96)),
    Case("rows_max", lambda: rows(6, 70, 64, te.max)),
    Case("rows_min_bytes", lambda: rows(6, 70, 16, te.min, "int8", 2)),
    Case("rows_prod", lambda: rows(6, 40, 32, _PROD), draw={"A": small}),
    Case("rows_double", lambda: rows(3, 70, 32, dtype="float64")),
    Case("rows_long", lambda: rows(3, 70, 32, dtype="int64")),
    Case(
        "rows_symbolic",
        lambda: rows(te.size_var("n"), te.size_var("m"), 32, per_block=2),
        {"n": 5, "m": 75},
    ),
    Case("columns", lambda: columns(64, 48, 8, 16)),
    Case("columns_odd", lambda: columns(45, 37, 8, 32)),
    Case("factored", lambda: factored(6, 128, 32)),
    Case("factored_rows", lambda: factored(7, 100, 16, 4)),
    Case("factored_kernels", lambda: factored_kernels(1000, 8)),
    Case("two_axes", two_axes),
    Case("whole_array", whole_array),
    Case("argmax_by_warp", lambda: argmax(6, 70, 32), draw={"I": positions}),
    Case(
        "argmax_by_64",
        lambda: argmax(5, 100, 64),
        draw={"I": positions, "A": lambda r, shape: r.integers(0, 9, shape)},
    ),
    Case("any_zero", any_zero, draw={"A": lambda r, shape: r.integers(0, 70, shape)}),
    Case("dot_of_bytes", dot_of_bytes),
    Case("centred", centred),
]
