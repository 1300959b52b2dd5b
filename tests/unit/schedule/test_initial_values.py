"""Reductions that start from values of the user's own (`init=`), under every kind of schedule."""

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.base.errors import ScheduleError

ROWS, DEPTH = 5, 9


def program(pair: bool = False) -> tuple[list[Any], list[Any], Any, Any]:
    """C[i] = B1[i] + sum of A[i, :], B1 = B + 1, and for a pair also the largest of A, from B."""
    a = te.placeholder((ROWS, DEPTH), "int32", name="A")
    b = te.placeholder((ROWS,), "int32", name="B")
    b1 = te.compute((ROWS,), lambda i: b[i] + 1, name="B1")
    k = te.reduce_axis((0, DEPTH), "k")
    if not pair:
        c = te.compute((ROWS,), lambda i: te.sum(a[i, k], axis=k, init=b1[i]), name="C")
        return [a, b, c], [c], b1, k
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1])),
        lambda p, q: (tir.const(0, p), te.min_value(q)),
        name="both",
    )
    pair_of = te.compute(
        (ROWS,), lambda i: both((a[i, k], a[i, k]), axis=k, init=(b1[i], b[i])), name="C"
    )
    return [a, b, *pair_of], list(pair_of), b1, k


def check(s: Any, args: list[Any], outputs: int, target: str = "llvm") -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-9, 10, (ROWS, DEPTH)).astype("int32")
    b = rng.integers(-9, 10, ROWS).astype("int32")
    out = [np.full(ROWS, -77, "int32") for _ in range(outputs)]
    if target == "cuda":
        tvm.build(s, args, target).run_simt(a, b, *out)
    else:
        with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
            tvm.build(s, args, target)(a, b, *out)
    np.testing.assert_array_equal(out[0], b + 1 + a.sum(1))
    if outputs == 2:
        np.testing.assert_array_equal(out[1], np.maximum(b, a.max(1)))


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("twice", [False, True])
def test_padding_of_a_cache_reads_no_initial_value(pair: bool, twice: bool) -> None:
    args, c, b1, _ = program(pair)
    s = te.create_schedule(c[0].op)
    s[b1].compute_inline()
    s[c[0]].split(c[0].op.axis[0], factor=3)
    cache = s.cache_write(c, "local")
    if twice:
        s[cache[0]].split(cache[0].op.axis[1], factor=2)
        s.cache_write(cache, "local")
    check(s, args, len(c))


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("inner", ["vectorize", "unroll", "parallel"])
def test_loops_of_the_initialisation(inner: str, pair: bool) -> None:
    args, c, b1, _ = program(pair)
    s = te.create_schedule(c[0].op)
    outer, i = s[c[0]].split(c[0].op.axis[0], factor=4)
    s[c[0]].reorder(outer, s[c[0]].op.reduce_axis[0], i)
    getattr(s[c[0]], inner)(i if inner != "parallel" else outer)
    s[b1].compute_at(s[c[0]], outer)
    check(s, args, len(c))


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_partial_results_start_from_the_identity(pair: bool, cached: bool) -> None:
    args, c, b1, k = program(pair)
    s = te.create_schedule(c[0].op)
    s[b1].compute_inline()
    if cached:
        s[c[0]].split(c[0].op.axis[0], factor=3)
        c = s.cache_write(c, "local")
        k = s[c[0]].op.reduce_axis[0]
    _, inner = s[c[0]].split(k, factor=4)
    partial = s.rfactor(c[0], inner)
    op = (partial[0] if pair else partial).op
    s[op].compute_at(s[c[0]], s[c[0]].op.axis[0])
    check(s, args, len(args) - 2)


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("serial", [False, True])
def test_threads_that_reduce_together_start_once(serial: bool, pair: bool) -> None:
    args, c, b1, k = program(pair)
    s = te.create_schedule(c[0].op)
    stage = s[c[0]]
    block, i = stage.split(c[0].op.axis[0], factor=2)
    stage.bind(block, te.thread_axis("blockIdx.x"))
    stage.bind(i, te.thread_axis("threadIdx.y"))
    thread = te.thread_axis("threadIdx.x")
    stage.bind(stage.split(k, factor=4)[1] if serial else k, thread)
    s[b1].compute_at(stage, i)
    check(s, args, len(c), "cuda")


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("place", ["k", "inner"])
def test_what_only_the_initial_value_reads_stands_outside_the_reduction(
    place: str, pair: bool
) -> None:
    args, c, b1, k = program(pair)
    s = te.create_schedule(c[0].op)
    outer, i = s[c[0]].split(c[0].op.axis[0], factor=2)
    s[c[0]].reorder(outer, k, i)
    s[b1].compute_at(s[c[0]], k if place == "k" else i)
    with pytest.raises(ScheduleError, match="initial value of C reads it before the loops"):
        tvm.lower(s, args)
    s[b1].compute_at(s[c[0]], outer)
    check(s, args, len(c))


def test_threads_need_it_before_their_serial_loops() -> None:
    args, c, b1, k = program()
    s = te.create_schedule(c[0].op)
    s[c[0]].bind(c[0].op.axis[0], te.thread_axis("blockIdx.x"))
    _, inner = s[c[0]].split(k, factor=4)
    s[c[0]].bind(inner, te.thread_axis("threadIdx.x"))
    s[b1].compute_at(s[c[0]], inner)
    with pytest.raises(ScheduleError, match="initial value of C reads it before the loops"):
        tvm.lower(s, args)
    # without serial loops the results are stored where all threads meet, inside of that loop
    args, c, b1, k = program()
    s = te.create_schedule(c[0].op)
    s[c[0]].bind(c[0].op.axis[0], te.thread_axis("blockIdx.x"))
    s[c[0]].bind(k, te.thread_axis("threadIdx.x"))
    s[b1].compute_at(s[c[0]], k)
    check(s, args, 1, "cuda")


def test_a_copy_for_the_initial_value() -> None:
    args, c, b1, _ = program()
    s = te.create_schedule(c[0].op)
    copy = s.cache_read(b1, "local", [c[0].op])
    outer, _ = s[c[0]].split(c[0].op.axis[0], factor=2)
    s[copy].compute_at(s[c[0]], outer)
    s[b1].compute_at(s[c[0]], outer)
    check(s, args, 1)


def test_an_intrinsic_that_starts_from_zero_is_no_match() -> None:
    def reset(a: Any, b: Any) -> Any:
        return tir.call_extern("int32", "f", b.access_ptr("w"), a.access_ptr("r"))

    a = te.placeholder((DEPTH,), "int32", name="a")
    k = te.reduce_axis((0, DEPTH), "k")
    b = te.compute((1,), lambda _: te.sum(a[k], axis=k), name="b")
    intrin = te.decl_tensor_intrin(b.op, lambda ins, outs: reset(ins[0], outs[0]))
    args, c, _, k = program()
    s = te.create_schedule(c[0].op)
    s[c[0]].tensorize(k, intrin)
    with pytest.raises(ScheduleError, match="Tensorize failed"):
        tvm.lower(s, args)
