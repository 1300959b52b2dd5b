"""Indices that are read from memory: what a stage needs of its producers is then all of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir

N, M = 6, 4
Build = Callable[[Any, Any, Any, Any], Any]

A = te.placeholder((N, M), "int32", name="A")
At = te.placeholder((N,), "int32", name="I")
ORDER = np.array([3, 0, 5, 1, 4, 2], "int32")
X = np.arange(N * M, dtype="int32").reshape(N, M) * 3 - 20

K = te.reduce_axis((0, N), "k")
READS: dict[str, tuple[Build, Any]] = {
    "fixed": (lambda p, q, i, j: p[q[0], j], (X + 1)[ORDER[[0] * N]]),
    "by row": (lambda p, q, i, j: p[q[i], j], (X + 1)[ORDER]),
    "nested": (lambda p, q, i, j: p[q[q[i]], j], (X + 1)[ORDER[ORDER]]),
    "both": (lambda p, q, i, j: p[q[i], q[j] % M], (X + 1)[ORDER][:, ORDER[:M] % M]),
    "guarded": (
        lambda p, q, i, j: tir.if_then_else(q[i] > 1, p[q[i] - 2, j], 0),
        np.where(ORDER[:, None] > 1, (X + 1)[ORDER - 2], 0),
    ),
    "offset": (lambda p, q, i, j: p[(q[i] + i) % N, j], (X + 1)[(ORDER + np.arange(N)) % N]),
    "summed": (
        lambda p, q, i, j: te.sum(p[q[K], j] * (K + i), axis=K),
        np.stack([((X + 1)[ORDER] * (np.arange(N)[:, None] + i)).sum(0) for i in range(N)]),
    ),
    "where": (
        lambda p, q, i, j: te.sum(p[K, j], axis=K, where=q[i] > K),
        np.stack([(X + 1)[: ORDER[i]].sum(0) for i in range(N)]),
    ),
}


def check(s: Any, args: list[Any], want: Any) -> None:
    out = np.full(want.shape, -99, "int32")
    with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        tvm.build(s, args, "llvm")(X, ORDER, out)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("computed", [False, True], ids=["given", "computed"])
@pytest.mark.parametrize("kind", READS)
def test_at_every_level(kind: str, computed: bool) -> None:
    body, want = READS[kind]

    def at(depth: int) -> bool:
        p = te.compute((N, M), lambda i, j: A[i, j] + 1, name="P")
        q = te.compute((N,), lambda i: At[i] * 1, name="Q") if computed else At
        c = te.compute((N, M), lambda i, j: body(p, q, i, j), name="C")
        s = te.create_schedule(c.op)
        s[c].split(c.op.axis[0], factor=4)
        s[c].split(c.op.axis[1], factor=3)
        leaves = list(s[c].leaf_iter_vars)
        if depth >= len(leaves):
            return False
        s[p].compute_at(s[c], leaves[depth])
        if depth % 2:
            s[s.cache_read(p, "local", [c])].compute_at(s[c], leaves[depth])
        if computed and depth > 2:
            s[q].compute_at(s[c], leaves[depth])
        check(s, [A, At, c], want)
        return True

    assert all(at(depth) for depth in range(4))


@pytest.mark.parametrize("kind", ["fixed", "by row", "nested"])
def test_in_threads(kind: str) -> None:
    body, want = READS[kind]
    p = te.compute((N, M), lambda i, j: A[i, j] + 1, name="P")
    c = te.compute((N, M), lambda i, j: body(p, At, i, j), name="C")
    s = te.create_schedule(c.op)
    block, i = s[c].split(c.op.axis[0], factor=2)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[c].bind(i, te.thread_axis("threadIdx.x"))
    s[p].compute_at(s[c], block)
    s[p].set_scope("shared")
    s[p].bind(s[p].op.axis[1], te.thread_axis("threadIdx.x"))
    out = np.full(want.shape, -99, "int32")
    tvm.build(s, [A, At, c], "cuda").run_simt(X, ORDER, out)
    np.testing.assert_array_equal(out, want)


def test_in_the_steps_of_a_scan() -> None:
    state = te.placeholder((N, M), "int32", name="state")
    first = te.compute((1, M), lambda _, j: A[0, j], name="first")
    p = te.compute((N, M), lambda i, j: A[i, j] + 1, name="P")
    step = te.compute((N, M), lambda t, j: state[t - 1, At[j] % M] + p[At[t], j], name="step")
    c = te.scan(first, step, state, inputs=[A, At], name="C")
    want = X.copy()
    for t in range(1, N):
        want[t] = want[t - 1, ORDER[:M] % M] + (X + 1)[ORDER[t]]
    for axis in (0, 1):
        s = te.create_schedule(c.op)
        s[p].compute_at(s[step], step.op.axis[axis])
        check(s, [A, At, c], want)


def test_reductions_as_long_as_data_says() -> None:
    starts = te.placeholder((N + 1,), "int32", name="starts")
    values = te.placeholder((20,), "int32", name="values")
    p = te.compute((20,), lambda e: values[e] + 1, name="P")

    def rows(i: Any) -> Any:
        k = te.reduce_axis((0, starts[i + 1] - starts[i]), "k")
        return te.sum(p[starts[i] + k], axis=k)

    c = te.compute((N,), rows, name="C")
    at = np.array([0, 3, 3, 8, 9, 15, 20], "int32")
    x = np.arange(20, dtype="int32") ** 2
    want = [int((x + 1)[at[i] : at[i + 1]].sum()) for i in range(N)]
    for depth in (None, 0, 1):
        s = te.create_schedule(c.op)
        if depth is not None:
            s[p].compute_at(s[c], s[c].leaf_iter_vars[depth])
        out = np.zeros(N, "int32")
        tvm.build(s, [starts, values, c], "llvm")(at, x, out)
        np.testing.assert_array_equal(out, want)
