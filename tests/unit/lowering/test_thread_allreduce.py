"""lower_thread_allreduce: which reductions take shuffles, and that all of them are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.lowering.kernels import (
    argmax,
    kernel_of,
    row_reduction,
    run_schedule,
    small_integers,
)
from tilewright import te, tir
from tilewright.base.errors import CompileError
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.calls import tvm_thread_allreduce
from tilewright.loopir.iter import CommReducer, IterVar, Range
from tilewright.loopir.stmt import PrimFunc
from tilewright.lowering.lower_thread_allreduce import lower_thread_allreduce
from tilewright.target.target import Target

CUDA, OPENCL = "cuda", "opencl"


def form(kernel: PrimFunc) -> tuple[bool, bool, int, int]:
    """Shuffles, shared memory, barriers of the block, barriers of a warp."""
    text = str(kernel)
    barrier = 'T.tvm_storage_sync("{}")'
    return (
        "tvm_warp_shuffle_down" in text,
        '"shared")' in text.replace(barrier.format("shared"), ""),
        text.count(barrier.format("shared")),
        text.count(barrier.format("warp")),
    )


@pytest.mark.parametrize(
    ("threads", "rows", "dtype", "target", "want"),
    [
        (2, 1, "float32", CUDA, (True, False, 0, 0)),
        (16, 32, "float32", CUDA, (True, False, 0, 0)),
        (32, 4, "float64", CUDA, (True, False, 0, 0)),
        (32, 1, "float16", CUDA, (True, False, 0, 0)),
        (20, 1, "int32", CUDA, (True, False, 0, 0)),  # the block's only group
        (20, 3, "int32", CUDA, (False, True, 5, 0)),  # groups cross warps
        (64, 1, "float32", CUDA, (True, True, 1, 0)),
        (96, 2, "float32", CUDA, (True, True, 1, 0)),
        (1024, 1, "uint64", CUDA, (True, True, 1, 0)),
        (48, 1, "float32", CUDA, (False, True, 2, 4)),
        (64, 1, "int8", CUDA, (False, True, 2, 5)),  # narrow types are not shuffled
        (16, 2, "int8", CUDA, (False, True, 0, 5)),  # a group inside of a warp
        (16, 2, "bfloat16", CUDA, (False, True, 0, 5)),
        (16, 2, "float32", OPENCL, (False, True, 5, 0)),
        (64, 1, "float32", OPENCL, (False, True, 7, 0)),
    ],
)
def test_form(
    threads: int, rows: int, dtype: str, target: str, want: tuple[bool, bool, int, int]
) -> None:
    s, args = row_reduction(24, 2048, threads, rows, dtype)
    assert form(kernel_of(s, args, target)) == want


@pytest.mark.parametrize("target", [CUDA, OPENCL])
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int32", "int64", "int8", "uint8"]
)
def test_sums(dtype: str, target: str) -> None:
    shapes = [(1, 4), (2, 3), (4, 8), (7, 1), (16, 8), (20, 1), (20, 3), (32, 4)]
    shapes += [(33, 1), (64, 1), (96, 2), (128, 2), (160, 1), (256, 1), (48, 2)]
    a = small_integers((13, 333), dtype)
    for threads, rows in shapes:
        b = np.zeros(13, dtype)
        s, args = row_reduction(13, 333, threads, rows, dtype)
        run_schedule(s, args, {"A": a, "B": b}, target)
        np.testing.assert_array_equal(b, a.sum(1, dtype=dtype), err_msg=f"{threads}, {rows}")


@pytest.mark.parametrize("target", [CUDA, OPENCL])
@pytest.mark.parametrize(("columns", "parts"), [(8, 16), (32, 8), (4, 3), (5, 7)])
def test_reduction_over_the_second_axis(columns: int, parts: int, target: str) -> None:
    a = te.placeholder((64, 12), name="A")
    k = te.reduce_axis((0, 64), name="k")
    b = te.compute((12,), lambda i: te.max(a[k, i], axis=k), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=columns)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    _, ki = s[b].split(b.op.reduce_axis[0], factor=parts)
    s[b].bind(ki, te.thread_axis("threadIdx.y"))
    data, result = small_integers((64, 12), "float32"), np.zeros(12, "float32")
    assert not form(kernel_of(s, [a, b], target))[0]
    run_schedule(s, [a, b], {"A": data, "B": result}, target)
    np.testing.assert_array_equal(result, data.max(0))


@pytest.mark.parametrize("target", [CUDA, OPENCL])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize(("x", "y"), [(16, 1), (64, 1), (16, 4), (16, 3), (7, 1)])
def test_argmax(x: int, y: int, dtype: str, target: str) -> None:
    n, m = 7, 150
    index = te.placeholder((n, m), name="I", dtype="int32")
    value = te.placeholder((n, m), name="V", dtype=dtype)
    k = te.reduce_axis((0, m), name="k")
    reducer = argmax()
    best, _ = te.compute((n,), lambda i: reducer((index[i, k], value[i, k]), axis=k), name="T")
    s = te.create_schedule(best.op)
    ko, kx = s[best].split(best.op.reduce_axis[0], factor=x)
    _, ky = s[best].split(ko, factor=y)
    s[best].bind(kx, te.thread_axis("threadIdx.x"))
    s[best].bind(ky, te.thread_axis("threadIdx.y"))
    s[best].bind(best.op.axis[0], te.thread_axis("blockIdx.x"))
    where = np.tile(np.arange(m, dtype="int32"), (n, 1))
    rows = [np.random.default_rng(i).permutation(m) - m // 2 for i in range(n)]
    data = np.array(rows).astype(dtype)
    first, top = np.zeros(n, "int32"), np.zeros(n, dtype)
    outputs = [best.op.output(0), best.op.output(1)]
    arrays = {"I": where, "V": data, "T.v0": first, "T.v1": top}
    arrays.update({"T_v0": first, "T_v1": top})
    run_schedule(s, [index, value, *outputs], arrays, target)
    np.testing.assert_array_equal(first, data.argmax(1))
    np.testing.assert_array_equal(top, data.max(1))


def test_booleans() -> None:
    every = te.comm_reducer(lambda x, y: tir.all(x, y), lambda t: tir.const(1, t), name="all")
    s, args = row_reduction(6, 50, 32, dtype="bool", reducer=every)
    a, b = np.ones((6, 50), bool), np.zeros(6, bool)
    a[2, 3] = a[4, 49] = False
    run_schedule(s, args, {"A": a, "B": b})
    np.testing.assert_array_equal(b, a.all(1))


@pytest.mark.parametrize("target", [CUDA, OPENCL])
@pytest.mark.parametrize("threads", [16, 64, 48])
@pytest.mark.parametrize("kind", ["serial", "unroll", "vthread"])
def test_repeated(kind: str, threads: int, target: str) -> None:
    a = te.placeholder((6, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=3)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    _, ki = s[b].split(b.op.reduce_axis[0], factor=threads)
    s[b].bind(ki, te.thread_axis("threadIdx.x"))
    if kind == "unroll":
        s[b].unroll(inner)
    elif kind == "vthread":
        s[b].bind(inner, te.thread_axis("vthread"))
    data, result = small_integers((6, 64), "float32"), np.zeros(6, "float32")
    run_schedule(s, [a, b], {"A": data, "B": result}, target)
    np.testing.assert_array_equal(result, data.sum(1))


@pytest.mark.parametrize("target", [CUDA, OPENCL])
@pytest.mark.parametrize("threads", [32, 40, 64, 96, 256])
def test_softmax_in_one_kernel(threads: int, target: str) -> None:
    n, m = 5, 200
    a = te.placeholder((n, m), name="A")
    k, k2 = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="k2")
    top = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="M")
    x = te.compute((n, m), lambda i, j: te.exp(a[i, j] - top[i]), name="X")
    total = te.compute((n,), lambda i: te.sum(x[i, k2], axis=k2), name="S")
    c = te.compute((n, m), lambda i, j: x[i, j] / total[i], name="C")
    s = te.create_schedule(c.op)
    s[x].compute_inline()
    tx = te.thread_axis("threadIdx.x")
    i, j = c.op.axis
    jo, ji = s[c].split(j, factor=threads)
    s[c].bind(i, te.thread_axis("blockIdx.x"))
    s[c].reorder(i, ji, jo)
    s[c].bind(ji, tx)
    for stage in (top, total):
        s[stage].compute_at(s[c], ji)
        _, ki = s[stage].split(stage.op.reduce_axis[0], factor=threads)
        s[stage].bind(ki, tx)
    data = np.random.default_rng(0).normal(size=(n, m)).astype("float32")
    result = np.zeros((n, m), "float32")
    run_schedule(s, [a, c], {"A": data, "C": result}, target)
    want = np.exp(data - data.max(1, keepdims=True))
    np.testing.assert_allclose(result, want / want.sum(1, keepdims=True), rtol=1e-5)


def test_branches_share_memory() -> None:
    s, args = row_reduction(te.var("n"), 200, 96, 2, "int8")
    text = str(kernel_of(s, args))
    assert text.count("T.allocate([192]") == 1
    assert "else:" in text


def test_opencl_has_no_barriers_in_branches() -> None:
    s, args = row_reduction(te.var("n"), 200, 16, 2)
    assert "else:" not in str(kernel_of(s, args, OPENCL))
    assert "else:" in str(kernel_of(s, args))


def test_many_reductions_share_memory() -> None:
    # 8 reductions of 256 elements each, 1024 bytes
    a = te.placeholder((8, 256), name="A")
    k = te.reduce_axis((0, 256), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(k, te.thread_axis("threadIdx.x"))
    s[b].bind(b.op.axis[0], te.thread_axis("vthread"))
    kernel = kernel_of(s, [a, b], OPENCL)
    assert str(kernel).count("T.allocate([256]") == 5
    data, result = small_integers((8, 256), "float32"), np.zeros(8, "float32")
    run_schedule(s, [a, b], {"A": data, "B": result}, OPENCL)
    np.testing.assert_array_equal(result, data.sum(1))


# -- programs written by hand

TX = IterVar(Range(64), E.Var("threadIdx.x", "int32"), IterVar.ThreadIndex, "threadIdx.x")


def by_hand(wrap: Any, threads: Any = None, extent: Any = 64, scoped: bool = True) -> PrimFunc:
    out, temp = Buffer((1,), "float32", "Out"), Buffer((1,), "float32", "temp", scope="local")
    x, y = E.Var("x", "float32"), E.Var("y", "float32")
    reducer = CommReducer([x], [y], [x + y], [E.const(0, "float32")])
    call = tvm_thread_allreduce(
        E.const(1, "uint32"),
        E.const(1.0, "float32"),
        E.const(1, "bool"),
        temp[0],
        *([TX.var] if threads is None else threads),
    )
    body: S.Stmt = S.Evaluate(call)
    if scoped:
        body = S.AttrStmt(reducer, "reduce_scope", 0, body)
    body = S.seq(wrap(body), S.IfThenElse(TX.var.equal(0), S.BufferStore(out, temp[0], [0])))
    body = S.AttrStmt(TX, "thread_extent", extent, S.Allocate(temp, body))
    return PrimFunc([out.data], body, None, {out.data: out}, {"global_symbol": "main"})


def test_reduction_under_a_condition_of_the_block() -> None:
    n = E.Var("n", "int32")
    func = by_hand(lambda body: S.IfThenElse(n > 3, body))
    assert "shuffle" in str(lower_thread_allreduce(func, Target("cuda")))


def test_not_all_threads_come() -> None:
    func = by_hand(lambda body: S.IfThenElse(TX.var < 32, body))
    with pytest.raises(CompileError, match=r"not all threads come.*threadIdx.x < 32"):
        lower_thread_allreduce(func, Target("cuda"))


def test_loop_that_threads_leave_apart() -> None:
    func = by_hand(lambda body: S.For(E.Var("i"), 0, TX.var, S.ForKind.SERIAL, body))
    with pytest.raises(CompileError, match="not all threads come"):
        lower_thread_allreduce(func, Target("cuda"))


def test_unknown_axis() -> None:
    func = by_hand(lambda body: body, threads=[E.Var("q", "int32")])
    with pytest.raises(CompileError, match="no axis of threads of the block"):
        lower_thread_allreduce(func, Target("cuda"))


def test_symbolic_number_of_threads() -> None:
    func = by_hand(lambda body: body, extent=E.Var("n", "int32"))
    with pytest.raises(CompileError, match="not a constant"):
        lower_thread_allreduce(func, Target("cuda"))


def test_allreduce_without_its_reducer() -> None:
    func = by_hand(lambda body: S.AttrStmt(TX.var, "note", 0, body), scoped=False)
    assert "reduce_scope" not in str(func)
    scoped = by_hand(lambda body: S.seq(body, _bare(body)))
    with pytest.raises(CompileError, match="reduce_scope"):
        lower_thread_allreduce(scoped, Target("cuda"))


def _bare(scope: Any) -> S.Stmt:
    inner: S.Stmt = scope.body
    return inner


def test_outside_of_a_kernel() -> None:
    func = by_hand(lambda body: body)
    assert isinstance(func.body, S.AttrStmt)
    inside = func.body.body
    with pytest.raises(CompileError, match="outside of a kernel"):
        lower_thread_allreduce(func.with_body(inside), Target("cuda"))


def test_functions_without_reductions_stay() -> None:
    out = Buffer((1,), "float32", "Out")
    func = PrimFunc([out.data], S.BufferStore(out, E.const(1.0, "float32"), [0]), None, {}, {})
    assert lower_thread_allreduce(func, Target("cuda")) is func
