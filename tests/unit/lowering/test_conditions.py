"""hoist_conditions and partition_loops: where guards go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.narrow import as_a, int_of
from tests.unit.lowering.evaluator import run
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.iter import IterVar
from tilewright.loopir.visit import walk
from tilewright.lowering.hoist_conditions import hoist_conditions
from tilewright.lowering.options import LowerOptions
from tilewright.lowering.partition_loops import partition_loops
from tilewright.lowering.remove_no_ops import remove_no_ops
from tilewright.lowering.simplify_statements import simplify_statements

K = S.ForKind
OPTIONS = LowerOptions()
A = Buffer((400,), "float32", "A")
B = Buffer((400,), "float32", "B")


def function(body: S.Stmt, *scalars: E.Var) -> S.PrimFunc:
    params = [E.Var(b.name, "handle") for b in (A, B)]
    return S.PrimFunc((*params, *scalars), body, None, dict(zip(params, (A, B))))


def data() -> dict[str, np.ndarray]:
    return {"A": np.arange(400, dtype="float32"), "B": np.zeros(400, "float32")}


def partitioned(body: S.Stmt, scalars: tuple[E.Var, ...] = (), **values: int) -> S.PrimFunc:
    func = function(body, *scalars)
    want = run(func, data(), values)
    new = simplify_statements(partition_loops(func, OPTIONS), OPTIONS)
    new = remove_no_ops(new, OPTIONS)
    np.testing.assert_array_equal(run(new, data(), values)["B"], want["B"])
    return new


def count(func: S.PrimFunc, kind: type) -> int:
    return sum(type(x) is kind for x in walk(func.body))


def tiled(extent: Any, factor: int, outer_kind: int = K.SERIAL, inner_kind: int = K.SERIAL) -> Any:
    o, i = E.Var("o"), E.Var("i")
    at = o * factor + i
    store = S.BufferStore(B, A[at] + 1.0, [at])
    inner = S.For(i, 0, factor, inner_kind, S.IfThenElse(op.likely(at < extent), store))
    return S.For(o, 0, (E.convert(extent) + (factor - 1)) // factor, outer_kind, inner)


def test_constant_loop_has_no_guard_left() -> None:
    new = partitioned(tiled(100, 32))
    assert count(new, S.IfThenElse) == 0
    main, tail = [x for x in walk(new.body) if type(x) is S.For and x.loop_var.name == "i"]
    assert int_of(main.extent) == 32 and int_of(tail.extent) == 4


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 64, 399])
def test_symbolic_loop(n: int) -> None:
    size = E.Var("n")
    new = partitioned(tiled(size, 32), (size,), n=n)
    assert count(new, S.IfThenElse) == 0
    assert str(new).count("n // 32") >= 1


def test_vector_tail_keeps_its_guard_for_a_predicate() -> None:
    size = E.Var("n")
    new = partitioned(tiled(size, 8, inner_kind=K.VECTORIZED), (size,), n=77)
    loops = [x for x in walk(new.body) if type(x) is S.For and x.kind == K.VECTORIZED]
    assert [int_of(x.extent) for x in loops] == [8, 8]
    assert [type(x.body) for x in loops] == [S.BufferStore, S.IfThenElse]


def test_parallel_loop_is_one_region_with_a_branch() -> None:
    new = partitioned(tiled(100, 32, outer_kind=K.PARALLEL))
    (loop,) = [x for x in walk(new.body) if type(x) is S.For and x.kind == K.PARALLEL]
    assert type(loop.body) is S.IfThenElse and str(loop.body.condition) == "o < 3"
    assert count(new, S.IfThenElse) == 1


def steps_of(e: Any, name: str, times: int = 1) -> int:
    """How often loops of a name start."""
    if type(e) is S.For:
        times, outer = times * int_of(e.extent), times
        return (outer if e.loop_var.name == name else 0) + steps_of(e.body, name, times)
    parts = e.seq if type(e) is S.SeqStmt else [getattr(e, "then_case", None)]
    return sum(steps_of(x, name, times) for x in parts if x is not None)


@pytest.mark.parametrize(("rows", "tiles_left"), [(197, 1), (200, 2), (191, 4)])
def test_tiles_beyond_the_edge_take_no_steps(rows: int, tiles_left: int) -> None:
    """Pieces of 4 tiles of 6 rows, with a reduction around the rows of a tile: in the last piece
    only the tiles that have a row run."""
    o, t, k, r = (E.Var(n) for n in "otkr")
    at = o * 24 + t * 6 + r
    add = S.BufferStore(B, B[at] + A[k], [at])
    tile = S.For(r, 0, 6, K.UNROLLED, S.IfThenElse(op.likely(at < rows), add))
    tiles = S.For(t, 0, 4, K.SERIAL, S.For(k, 0, 5, K.SERIAL, tile))
    new = partitioned(S.For(o, 0, -(-rows // 24), K.PARALLEL, tiles))
    (loop,) = [x for x in walk(new.body) if type(x) is S.For and x.kind == K.PARALLEL]
    branch = as_a(S.IfThenElse, loop.body)
    assert steps_of(branch.then_case, "k") == 4
    assert steps_of(branch.else_case, "k") == tiles_left


def test_a_long_reduction_ends_early_instead_of_being_copied() -> None:
    """Parts of 40 steps of 100, around the rows of a tile: the last part is shorter, and the tile
    is written once."""
    p, k, r = (E.Var(n) for n in "pkr")
    at = p * 40 + k
    add = S.BufferStore(B, B[r] + A[at], [r])
    tile = S.For(r, 0, 6, K.UNROLLED, add)
    steps = S.For(k, 0, 40, K.SERIAL, S.IfThenElse(op.likely(at < 100), tile))
    new = partitioned(S.For(p, 0, 3, K.SERIAL, steps))
    assert count(new, S.BufferStore) == 1
    assert count(new, S.IfThenElse) == 0
    (loop,) = [x for x in walk(new.body) if type(x) is S.For and x.loop_var.name == "k"]
    assert "min" in str(loop.extent)


def test_fused_parallel_loop_checks_a_whole_step() -> None:
    f, yi, xi = E.Var("f"), E.Var("yi"), E.Var("xi")
    y, x = f // 3 * 4 + yi, f % 3 * 4 + xi
    store = S.BufferStore(B, A[y * 10 + x], [y * 10 + x])
    body: S.Stmt = S.IfThenElse(op.likely(y < 10), S.IfThenElse(op.likely(x < 10), store))
    body = S.For(f, 0, 9, K.PARALLEL, S.For(yi, 0, 4, K.SERIAL, S.For(xi, 0, 4, K.SERIAL, body)))
    func = hoist_conditions(function(body), OPTIONS)
    want = run(func, data())
    new = simplify_statements(partition_loops(func, OPTIONS), OPTIONS)
    np.testing.assert_array_equal(run(new, data())["B"], want["B"])
    branch = as_a(S.For, new.body).body
    assert type(branch) is S.IfThenElse
    assert not any(type(x) is S.IfThenElse for x in walk(branch.then_case))


def test_block_index_branches_on_the_block() -> None:
    """As in the CUDA source of the vector kernel: `if (blockIdx.x < n >> 6) ... else guarded`."""
    n = E.Var("n")
    bx = IterVar(None, E.Var("blockIdx.x"), IterVar.ThreadIndex, "blockIdx.x")
    tx = IterVar(None, E.Var("threadIdx.x"), IterVar.ThreadIndex, "threadIdx.x")
    at = bx.var * 64 + tx.var
    body: S.Stmt = S.IfThenElse(op.likely(at < n), S.BufferStore(B, A[at], [at]))
    body = S.AttrStmt(tx, "thread_extent", 64, body)
    body = S.AttrStmt(bx, "thread_extent", (n + 63) // 64, body)
    new = partitioned(body, (n,), n=130)
    (branch,) = [x for x in walk(new.body) if type(x) is S.IfThenElse and x.else_case is not None]
    assert str(branch.condition) == "blockIdx_x < n // 64"
    assert count(new, S.IfThenElse) == 2


def test_simple_mode_changes_nothing() -> None:
    func = function(tiled(100, 32))
    assert partition_loops(func, LowerOptions(simple_mode=True)) is func


def test_lower_limit_makes_a_first_part() -> None:
    o, i = E.Var("o"), E.Var("i")
    at = o * 4 + i - 2
    guards = E.And(at >= 0, at < 17)
    store = S.BufferStore(B, A[at], [at])
    inner = S.For(i, 0, 4, K.SERIAL, S.IfThenElse(op.likely(guards), store))
    new = partitioned(S.For(o, 0, 5, K.SERIAL, inner))
    assert count(new, S.IfThenElse) == 0


def test_a_guard_that_costs_little_is_left() -> None:
    """One check a step around a whole loop does not pay for a copy of that loop."""
    o, i = E.Var("o"), E.Var("i")
    store = S.BufferStore(B, A[i] + 1.0, [i + o])
    inner = S.For(i, 0, 16, K.SERIAL, store)
    other = S.BufferStore(B, 5.0, [o + 100])
    body = S.For(o, 0, 9, K.SERIAL, S.seq(S.IfThenElse(op.likely(o < 7), inner), other))
    new = partitioned(body)
    assert count(new, S.IfThenElse) == 1


def test_limits_that_depend_on_memory_are_not_moved() -> None:
    """The number of inner steps is read from memory that the outer loop changes."""
    ints = Buffer((8,), "int32", "idx")
    o, i = E.Var("o"), E.Var("i")
    guarded = S.IfThenElse(op.likely(o * 4 + i < 17), S.BufferStore(B, A[i] + 1.0, [o * 4 + i]))
    steps = S.BufferStore(ints, E.BufferLoad(ints, [0]) + 1, [0])
    inner = S.For(i, 0, E.BufferLoad(ints, [0]), K.SERIAL, guarded)
    func = S.PrimFunc(
        [E.Var("A", "handle"), E.Var("B", "handle"), E.Var("idx", "handle")],
        S.For(o, 0, 6, K.SERIAL, S.seq(steps, inner)),
    )
    func = S.PrimFunc(func.params, func.body, None, dict(zip(func.params, (A, B, ints))))
    arrays = {**data(), "idx": np.zeros(8, "int32")}
    new = partition_loops(func, OPTIONS)
    np.testing.assert_array_equal(run(new, arrays)["B"], run(func, arrays)["B"])


def test_a_symbolic_rest_is_not_split_again() -> None:
    """Three nested tiles of a symbolic extent: each level once, no tails of tails."""
    n = E.Var("n")
    o, m, i = (E.Var(x) for x in "omi")
    at = o * 16 + m * 4 + i
    body: S.Stmt = S.IfThenElse(op.likely(at < n), S.BufferStore(B, A[at] + 1.0, [at]))
    body = S.For(o, 0, (n + 15) // 16, 0, S.For(m, 0, 4, 0, S.For(i, 0, 4, 0, body)))
    for value in (0, 1, 17, 64, 99):
        new = partitioned(body, (n,), n=value)
    assert count(new, S.BufferStore) == 2 and count(new, S.IfThenElse) == 0


def test_growth_is_limited() -> None:
    o, i = E.Var("o"), E.Var("i")
    parts = [S.BufferStore(B, A[k] + 1.0, [o * 3 + i]) for k in range(400)]
    guarded = [S.IfThenElse(op.likely(o * 3 + i < 10), s) for s in parts]
    body = S.For(o, 0, 4, K.SERIAL, S.For(i, 0, 3, K.SERIAL, S.seq(guarded)))
    outer = S.For(E.Var("a"), 0, 1, K.SERIAL, body)
    new = partition_loops(function(S.seq(outer, outer.with_body(body))), OPTIONS)
    assert sum(type(x) is S.BufferStore for x in walk(new.body)) <= 800 + 512


# -- hoist_conditions


def hoisted(body: S.Stmt, *scalars: E.Var) -> str:
    return str(hoist_conditions(function(body, *scalars), OPTIONS).body)


def test_hoist_past_a_guard_that_stays() -> None:
    i, k, n, m = (E.Var(x) for x in "iknm")
    store = S.BufferStore(B, A[k], [i])
    inner = S.IfThenElse(op.likely(k < m), S.IfThenElse(op.likely(i < n), store))
    body = S.For(i, 0, 8, K.SERIAL, S.For(k, 0, 8, K.SERIAL, inner))
    new = hoist_conditions(function(body, n, m), OPTIONS).body
    outer = as_a(S.For, new).body
    assert type(outer) is S.IfThenElse and "i < n" in str(outer.condition)
    assert type(outer.then_case) is S.For


def test_condition_on_a_thread_stays() -> None:
    k, n = E.Var("k"), E.Var("n")
    tx = IterVar(None, E.Var("threadIdx.x"), IterVar.ThreadIndex, "threadIdx.x")
    guarded = S.IfThenElse(op.likely(tx.var < n), S.BufferStore(B, A[k], [tx.var]))
    body = S.AttrStmt(tx, "thread_extent", 8, S.For(k, 0, 8, K.SERIAL, guarded))
    new = hoist_conditions(function(body, n), OPTIONS).body
    assert type(as_a(S.AttrStmt, new).body) is S.For


def test_else_goes_with_its_condition() -> None:
    k, n = E.Var("k"), E.Var("n")
    stores = [S.BufferStore(B, A[k] + float(c), [k]) for c in range(2)]
    body = S.For(k, 0, 8, K.SERIAL, S.IfThenElse(n < 3, *stores))
    func = function(body, n)
    new = hoist_conditions(func, OPTIONS)
    assert type(new.body) is S.IfThenElse
    for value in (2, 3):
        want = run(func, data(), {"n": value})["B"]
        np.testing.assert_array_equal(run(new, data(), {"n": value})["B"], want)


def test_conditions_on_memory_and_unsafe_divisions_stay() -> None:
    k, n = E.Var("k"), E.Var("n")
    for condition in (A[0] < E.const(1.0), E.FloorDiv(E.const(8), n) < 3):
        body = S.For(k, 0, n, K.SERIAL, S.IfThenElse(condition, S.BufferStore(B, 1.0, [k])))
        assert type(hoist_conditions(function(body, n), OPTIONS).body) is S.For


def test_parallel_loop_keeps_its_condition() -> None:
    k, n = E.Var("k"), E.Var("n")
    body = S.For(k, 0, 8, K.PARALLEL, S.IfThenElse(n < 3, S.BufferStore(B, 1.0, [k])))
    assert hoisted(body, n).startswith("for k in T.parallel")
