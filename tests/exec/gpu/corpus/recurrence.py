"""Scans along a sequence, with threads beside it; prefix sums by the threads of a block."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.exec.gpu.kit import Case, axis
from tilewright import te, tir


def cumulative(steps: Any, size: Any) -> tuple[Any, list[Any]]:
    """Sums down the columns; a thread a column."""
    x = te.placeholder((steps, size), name="X")
    state = te.placeholder((steps, size), name="state")
    init = te.compute((1, size), lambda _, i: x[0, i], name="init")
    update = te.compute((steps, size), lambda t, i: state[t - 1, i] + x[t, i], name="update")
    out = te.scan(init, update, state, inputs=[x], name="scan")
    s = te.create_schedule(out.op)
    for t in (init, update):
        block, thread = s[t].split(t.op.axis[1], factor=32)
        s[t].bind(block, axis("blockIdx.x"))
        s[t].bind(thread, axis("threadIdx.x"))
    return s, [x, out]


def mirrored(steps: int, size: int) -> tuple[Any, list[Any]]:
    """Each step reads what another thread wrote in the step before."""
    x = te.placeholder((steps, size), name="X")
    state = te.placeholder((steps, size), name="state")
    init = te.compute((1, size), lambda _, i: x[0, i], name="init")
    update = te.compute(
        (steps, size), lambda t, i: state[t - 1, size - 1 - i] + x[t, i], name="update"
    )
    out = te.scan(init, update, state, inputs=[x], name="scan")
    s = te.create_schedule(out.op)
    thread = axis("threadIdx.x", size)
    s[init].bind(init.op.axis[1], thread)
    s[update].bind(update.op.axis[1], thread)
    s[out].env_threads([thread])
    return s, [x, out]


def recurrent(steps: int = 4, batch: int = 3, hidden: int = 16) -> tuple[Any, list[Any]]:
    """h[t] = tanh(x[t] + h[t - 1] W): the product is made across threads in each step."""
    x = te.placeholder((steps, batch, hidden), name="X")
    w = te.placeholder((hidden, hidden), name="W")
    state = te.placeholder((steps, batch, hidden), name="state")
    init = te.compute((1, batch, hidden), lambda _, i, j: te.tanh(x[0, i, j]), name="init")
    k = te.reduce_axis((0, hidden), "k")
    product = te.compute(
        (steps, batch, hidden),
        lambda t, i, j: te.sum(state[t - 1, i, k] * w[k, j], axis=k),
        name="product",
    )
    update = te.compute(
        (steps, batch, hidden),
        lambda t, i, j: te.tanh(x[t, i, j] + product[t, i, j]),
        name="update",
    )
    out = te.scan(init, update, state, inputs=[x], name="scan")
    s = te.create_schedule(out.op)
    ty, tx = axis("threadIdx.y", hidden), axis("threadIdx.x", 8)
    block = axis("blockIdx.x", batch)
    s[out].env_threads([block, ty, tx])
    s[init].bind(init.op.axis[1], block)
    s[init].bind(init.op.axis[2], ty)
    s[product].compute_at(s[update], update.op.axis[2])
    s[product].bind(s[product].split(k, factor=8)[1], tx)
    s[update].bind(update.op.axis[1], block)
    s[update].bind(update.op.axis[2], ty)
    s[update].set_store_predicate(tx.var.equal(0))
    return s, [x, w, out]


def prefix(blocks: int, size: int, dtype: str = "int32") -> tuple[Any, list[Any]]:
    """Sums of all elements up to each, within each block: log2(size) steps in shared memory
    (Hillis and Steele, Data parallel algorithms, 1986)."""

    def kernel(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        bx, tx = axis("blockIdx.x", blocks), axis("threadIdx.x", size)
        ib.scope_attr(bx, "thread_extent", blocks)
        ib.scope_attr(tx, "thread_extent", size)
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        two = ib.allocate(dtype, (2 * size,), name="two", scope="shared")
        at = bx.var * size + tx.var
        two[tx.var] = a[at]
        step, side = 1, 0
        while step < size:
            old, new = side * size, (1 - side) * size
            with ib.if_scope(tx.var >= step):
                two[new + tx.var] = two[old + tx.var] + two[old + tx.var - step]
            with ib.else_scope():
                two[new + tx.var] = two[old + tx.var]
            step, side = step * 2, 1 - side
        b[at] = two[side * size + tx.var]
        return ib.get()

    a = te.placeholder((blocks * size,), dtype, "A")
    b = te.extern((blocks * size,), [a], kernel, dtype=dtype, name="B")
    return te.create_schedule(b.op), [a, b]


def sweeps(size: int) -> tuple[Any, list[Any]]:
    """Exclusive sums by one block: up a tree, and down again (Blelloch, Prefix sums and their
    applications, 1990)."""

    def kernel(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        threads = size // 2
        tx = axis("threadIdx.x", threads)
        ib.scope_attr(tx, "thread_extent", threads)
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        tree = ib.allocate("int32", (size,), name="tree", scope="shared")
        t = tx.var
        tree[2 * t], tree[2 * t + 1] = a[2 * t], a[2 * t + 1]
        steps = [2**d for d in range(size.bit_length() - 1)]
        for step in steps:
            with ib.if_scope(t < size // (2 * step)):
                right = (2 * t + 2) * step - 1
                tree[right] = tree[right] + tree[right - step]
        with ib.if_scope(t.equal(0)):
            tree[size - 1] = tir.const(0, "int32")
        for step in reversed(steps):
            with ib.if_scope(t < size // (2 * step)):
                right = (2 * t + 2) * step - 1
                kept = ib.allocate("int32", (1,), name="kept", scope="local")
                kept[0] = tree[right - step]
                tree[right - step] = tree[right]
                tree[right] = tree[right] + kept[0]
        b[2 * t] = tree[2 * t]
        b[2 * t + 1] = tree[2 * t + 1]
        return ib.get()

    a = te.placeholder((size,), "int32", "A")
    b = te.extern((size,), [a], kernel, dtype="int32", name="B")
    return te.create_schedule(b.op), [a, b]


def _sums(blocks: int) -> Any:
    return lambda a: np.cumsum(a.reshape(blocks, -1), 1, dtype=a.dtype).reshape(-1)


CASES = [
    Case("cumulative", lambda: cumulative(6, 40)),
    Case(
        "cumulative_symbolic",
        lambda: cumulative(te.size_var("n"), te.size_var("m")),
        {"n": 5, "m": 33},
    ),
    Case("mirrored_scan", lambda: mirrored(5, 64)),
    Case("recurrent_cell", recurrent),
    Case("prefix_sums", lambda: prefix(3, 64), expected=_sums(3)),
    Case("prefix_sums_long", lambda: prefix(1, 256, "int64"), expected=_sums(1)),
    Case("prefix_sweeps", lambda: sweeps(64), expected=lambda a: np.cumsum(a) - a),
]
