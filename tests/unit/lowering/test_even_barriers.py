"""Barriers on OpenCL: none in branches or in loops that may not run, where PoCL goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.devices import device
from tests.unit.lowering.kernels import kernel_of
from tilewright import te, tir
from tilewright.loopir import stmt as S
from tilewright.loopir.expr import const_int
from tilewright.loopir.visit import nodes
from tilewright.lowering.even_barriers import even_barriers
from tilewright.lowering.statement_accesses import is_barrier
from tilewright.target.target import Target


def transposed_rows() -> tuple[Any, list[Any]]:
    """Any number of rows, 4 at a time, by a double buffer: the rest is a loop that may not run."""
    n, m = te.size_var("n"), te.size_var("m")
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] + 1.0, name="C")
    d = te.compute((m, n), lambda j, i: c[i, j], name="D")
    s = te.create_schedule(d.op)
    tx, ty = te.thread_axis((0, 4), "threadIdx.x"), te.thread_axis((0, 8), "threadIdx.y")
    j, i = d.op.axis
    j, lane = s[d].split(j, factor=4)
    block, y = s[d].split(j, factor=8)
    rows, x = s[d].split(i, factor=4)
    s[d].reorder(block, rows, y, x, lane)
    for axis, thread in ((block, te.thread_axis("blockIdx.x")), (y, ty), (x, tx)):
        s[d].bind(axis, thread)
    s[d].vectorize(lane)
    s[c].compute_at(s[d], rows)
    s[b].compute_at(s[c], _shared_by_all(s[c], (tx, ty)))
    _shared_by_all(s[b], (tx, ty))
    s[b].double_buffer()
    return s, [a, d]


def _shared_by_all(stage: Any, threads: Any) -> Any:
    """The loop that is left when all threads fill a stage in shared memory."""
    stage.set_scope("shared")
    rest = stage.fuse(*stage.op.axis)
    for thread in threads:
        rest, inner = stage.split(rest, factor=const_int(thread.dom.extent))
        stage.bind(inner, thread)
    return rest


def uneven(s: S.Stmt, positive: Callable[[S.For], bool]) -> list[S.Stmt]:
    """Branches, and loops not known to run, around barriers."""
    return [
        x
        for x in nodes(s)
        if (type(x) is S.IfThenElse or (type(x) is S.For and not positive(x)))
        and any(is_barrier(y) for y in nodes(x))
    ]


def runs(loop: S.For) -> bool:
    return tw.arith.Analyzer().can_prove(loop.extent >= 1)


def test_every_block_reaches_every_barrier() -> None:
    kernel = kernel_of(*transposed_rows(), "opencl")
    assert any(is_barrier(x) for x in nodes(kernel.body))
    assert not uneven(kernel.body, runs)


def test_cuda_keeps_its_loops() -> None:
    assert uneven(kernel_of(*transposed_rows()).body, runs)


@pytest.mark.parametrize("name", ["simt", "opencl"])
def test_it_computes_the_same(name: str) -> None:
    dev = device(name)
    f = tw.build(*transposed_rows(), "opencl")
    for n, m in ((11, 31), (8, 33), (3, 7)):
        x = np.arange(n * m, dtype="float32").reshape(n, m)
        result = tw.nd.array(np.zeros((m, n), "float32"), dev)
        f(tw.nd.array(x, dev), result)
        np.testing.assert_array_equal(result.numpy(), (x * 2 + 1).T)


def test_a_branch_on_the_block_moves_into_its_parts() -> None:
    done = even_barriers(_by_hand(lambda block, flags: block < 2)[0], Target("opencl"))
    assert not uneven(done.body, runs)
    stores = [x for x in nodes(done.body) if type(x) is S.BufferStore]
    branches = [x for x in nodes(done.body) if type(x) is S.IfThenElse]
    assert (len(stores), len(branches)) == (4, 4)
    assert sum(map(is_barrier, nodes(done.body))) == 2


def test_a_branch_with_a_condition_in_memory_is_asked_once() -> None:
    kernel, flags = _by_hand(lambda block, flags: flags[block] > 0)
    done = even_barriers(kernel, Target("opencl"))
    assert not uneven(done.body, runs)
    lets = [x for x in nodes(done.body) if type(x) is S.LetStmt]
    assert len(lets) == 1
    loads = [x for x in nodes(done.body) if getattr(x, "buffer", None) is flags]
    assert len(loads) == 1  # not again after the first store


def test_bounds_say_that_a_loop_runs() -> None:
    """PoCL's compiler does not see that 3 - block // 2 is above zero."""
    kernel, _ = _by_hand(None, lambda block: 3 - tir.floordiv(block, tir.const(2)))
    done = even_barriers(kernel, Target("opencl"))
    (loop,) = (x for x in nodes(done.body) if type(x) is S.For)
    assert str(loop.extent) == "T.max(3 - blockIdx_x // 2, 1)"
    assert not any(type(x) is S.IfThenElse for x in nodes(done.body))


def test_bounds_in_memory_stay() -> None:
    kernel, flags = _by_hand(None)
    done = even_barriers(kernel, Target("opencl"))
    assert uneven(done.body, runs)
    assert even_barriers(kernel, Target("cuda")) is kernel
    assert flags in kernel.buffer_map.values()


def _by_hand(condition: Any, extent: Any = None) -> tuple[S.PrimFunc, Any]:
    """A branch with stores around a barrier on both sides; without a condition a loop, of as many
    steps as stand in memory unless `extent` says how many."""
    flags = tir.decl_buffer((4,), "int32", name="flags")
    out = tir.decl_buffer((8,), "int32", name="out")
    block = te.thread_axis((0, 4), "blockIdx.x")

    def sides(first: int) -> S.Stmt:
        one, two = (S.BufferStore(out, tir.const(i), (tir.const(i),)) for i in (first, first + 1))
        barrier = tir.call_intrin("int32", "tir.tvm_storage_sync", "shared")
        return S.seq(one, S.Evaluate(barrier), two)

    body: S.Stmt
    if condition is None:
        steps = tir.BufferLoad(flags, [block.var]) if extent is None else extent(block.var)
        body = S.For(tir.Var("i", "int32"), tir.const(0), steps, S.ForKind.SERIAL, sides(0))
    else:
        asked = condition(block.var, {block.var: tir.BufferLoad(flags, [block.var])})
        body = S.IfThenElse(asked, sides(0), sides(2))
    body = S.AttrStmt(block, "thread_extent", tir.const(4), body)
    params = [tir.Var(b.name, "handle") for b in (flags, out)]
    return S.PrimFunc(params, body, None, dict(zip(params, (flags, out)))), flags
