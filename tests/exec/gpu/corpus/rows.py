"""Softmax and its relatives: several reductions of each row, by several kernels or in one."""

from __future__ import annotations

from typing import Any

from tests.exec.gpu.kit import Case, axis, bind_flat
from tilewright import te


def _softmax(n: Any, m: Any) -> Any:
    a = te.placeholder((n, m), name="A")
    k, l = te.reduce_axis((0, m), "k"), te.reduce_axis((0, m), "l")
    most = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="most")
    power = te.compute((n, m), lambda i, j: te.exp(a[i, j] - most[i]), name="power")
    total = te.compute((n,), lambda i: te.sum(power[i, l], axis=l), name="total")
    out = te.compute((n, m), lambda i, j: power[i, j] / total[i], name="out")
    return a, most, power, total, out


def kernels(n: Any = 9, m: Any = 50) -> tuple[Any, list[Any]]:
    """Four kernels, with temporaries in the device's memory."""
    a, most, power, total, out = _softmax(n, m)
    s = te.create_schedule(out.op)
    for t in (most, total):
        s[t].bind(t.op.axis[0], axis("blockIdx.x"))
        s[t].bind(s[t].split(s[t].op.reduce_axis[0], factor=32)[1], axis("threadIdx.x"))
    for t in (power, out):
        bind_flat(s, t, 64)
    return s, [a, out]


def one_kernel(threads: int, n: Any = 9, m: Any = 50, per_block: int = 1) -> Any:
    """Rows of a block in shared memory; its threads reduce and write them."""
    a, most, power, total, out = _softmax(n, m)
    s = te.create_schedule(out.op)
    xs, ys = axis("threadIdx.x", threads), axis("threadIdx.y", per_block)
    row, column = out.op.axis
    block, y = s[out].split(row, factor=per_block)
    s[out].bind(block, axis("blockIdx.x"))
    s[out].bind(y, ys)
    s[out].bind(s[out].split(column, factor=threads)[1], xs)
    for t, across in ((most, None), (power, power.op.axis[1]), (total, None)):
        s[t].set_scope("shared")
        s[t].compute_at(s[out], block)
        s[t].bind(t.op.axis[0], ys)
        along = s[t].op.reduce_axis[0] if across is None else across
        s[t].bind(s[t].split(along, factor=threads)[1], xs)
    return s, [a, out]


def normalised(threads: int) -> tuple[Any, list[Any]]:
    """(x - mean) / sqrt(variance): mean and mean square by one pair of sums."""
    n, m = 6, 60
    a = te.placeholder((n, m), name="A")
    scale = te.placeholder((m,), name="scale")
    k = te.reduce_axis((0, m), "k")
    pair = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]),
        lambda t, u: (te.const(0, t), te.const(0, u)),
        "pair",
    )
    first, second = te.compute(
        (n,), lambda i: pair((a[i, k], a[i, k] * a[i, k]), axis=k), name="sums"
    )

    def value(i: Any, j: Any) -> Any:
        mean = first[i] * (1.0 / m)
        return (a[i, j] - mean) * scale[j] / te.sqrt(second[i] * (1.0 / m) - mean * mean + 0.01)

    out = te.compute((n, m), value, name="out")
    s = te.create_schedule(out.op)
    x = axis("threadIdx.x", threads)
    row, column = out.op.axis
    s[out].bind(row, axis("blockIdx.x"))
    s[out].bind(s[out].split(column, factor=threads)[1], x)
    s[first].compute_at(s[out], row)
    s[first].bind(s[first].split(k, factor=threads)[1], x)
    return s, [a, scale, out]


CASES = [
    Case("softmax_kernels", kernels),
    Case(
        "softmax_kernels_symbolic",
        lambda: kernels(te.size_var("n"), te.size_var("m")),
        {"n": 4, "m": 37},
    ),
    Case("softmax_warp", lambda: one_kernel(32)),
    Case("softmax_block", lambda: one_kernel(64, 5, 150)),
    Case("softmax_warp_each", lambda: one_kernel(32, 10, 40, 4)),
    Case("normalised_rows", lambda: normalised(32)),
    Case("normalised_rows_block", lambda: normalised(64)),
]
