"""check_bounds, promote_accumulators, and the pipeline as a whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.lowering.builders import K, checked, function, loop, nodes
from tests.unit.lowering.evaluator import run
from tilewright.base import config
from tilewright.base.errors import CompileError, InternalError
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.lowering.check_bounds import check_bounds
from tilewright.lowering.options import LowerOptions
from tilewright.lowering.pipeline import PHASES, run_pipeline
from tilewright.lowering.promote_accumulators import promote_accumulators

A = Buffer((64,), "float32", "A")
B = Buffer((64,), "float32", "B")
I = Buffer((64,), "int32", "idx")
DATA = {
    "A": np.arange(64, dtype="float32"),
    "B": np.zeros(64, "float32"),
    "idx": np.arange(64, dtype="int32"),
}
CHECKS = LowerOptions(bound_checks=True)

# -- check_bounds


def test_only_what_is_not_proved_is_checked() -> None:
    def body_of(i: E.Var) -> S.Stmt:
        return S.BufferStore(B, A[i] + A[I[i]], [i])

    new = checked(check_bounds, function(loop("i", 64, body_of), A, B, I), DATA, CHECKS)
    messages = [s.message.value for s in nodes(new, S.AssertStmt)]
    assert len(messages) == 2
    assert all("read of A is out of bounds: index 0 is idx[i], extent 64" in m for m in messages)


def test_a_failing_check_stops_before_the_access() -> None:
    n = E.Var("n")
    func = function(loop("i", n, lambda i: S.BufferStore(B, A[i], [i])), A, B, scalars=(n,))
    new = check_bounds(func, CHECKS)
    run(new, DATA, {"n": 64})
    with pytest.raises(AssertionError):
        run(new, DATA, {"n": 65})


def test_checks_hold_only_where_the_access_is_made() -> None:
    def body_of(i: E.Var) -> S.Stmt:
        value = op.if_then_else(I[i] < 64, A[I[i]], 0.0)
        return S.BufferStore(B, value, [i])

    data = {**DATA, "idx": np.arange(64, dtype="int32") + 30}
    checked(check_bounds, function(loop("i", 64, body_of), A, B, I), data, CHECKS)


def test_a_row_that_is_left_is_seen() -> None:
    two = Buffer((8, 8), "float32", "T")
    n = E.Var("n")
    func = function(S.BufferStore(two, 0.0, [1, n]), two, scalars=(n,))
    new = run_pipeline(func, CHECKS)
    with pytest.raises(AssertionError):
        run(new, {"T": np.zeros((8, 8), "float32")}, {"n": 9})


def test_no_checks_without_the_option() -> None:
    func = function(loop("i", E.Var("n"), lambda i: S.BufferStore(B, 1.0, [i])), B)
    assert check_bounds(func, LowerOptions()) is func


# -- promote_accumulators


def names(func: S.PrimFunc) -> list[str]:
    return [s.buffer.name for s in nodes(func, S.Allocate)]


def row_sum(extent: object, guard: Callable[..., E.PrimExpr] | None = None) -> S.Stmt:
    def body_of(i: E.Var) -> S.Stmt:
        def add(k: E.Var) -> S.Stmt:
            step: S.Stmt = S.BufferStore(B, B[i] + A[i * 8 + k], [i])
            return step if guard is None else S.IfThenElse(guard(i, k), step)

        return loop("k", extent, add)

    return loop("i", 8, body_of)


def test_accumulator_of_an_output() -> None:
    new = checked(promote_accumulators, function(row_sum(8), A, B), DATA)
    assert names(new) == ["B.acc"]
    outer = new.body
    inner = nodes(outer, S.For)[1]
    assert {x.buffer.name for x in nodes(inner, S.BufferStore)} == {"B.acc"}


def test_symbolic_extent_is_checked_before_and_after() -> None:
    n = E.Var("n")
    for value in (0, 5):
        func = function(row_sum(n), A, B, scalars=(n,))
        new = checked(promote_accumulators, func, DATA, n=value)
    assert names(new) == ["B.acc"]
    assert [str(s.condition) for s in nodes(new, S.IfThenElse)] == ["T.likely(n > 0)"] * 2


def test_guard_that_changes_in_the_loop() -> None:
    """Without a step in which it holds, the element must not be touched."""
    n = E.Var("n")
    func = function(row_sum(8, lambda i, k: op.likely(k < n)), A, B, scalars=(n,))
    assert names(checked(promote_accumulators, func, DATA, n=5)) == []


def test_guard_that_is_fixed_in_the_loop() -> None:
    n = E.Var("n")
    func = function(row_sum(8, lambda i, k: op.likely(i < n)), A, B, scalars=(n,))
    new = checked(promote_accumulators, func, DATA, n=5)
    assert names(new) == ["B.acc"]
    assert [str(s.condition) for s in nodes(new, S.IfThenElse)] == ["T.likely(i < n)"] * 3


def test_element_that_exists_only_if_an_inner_loop_runs() -> None:
    """The last, partial tile of a row, whose loop has no step if the tile is empty."""
    n = E.Var("n")
    short = Buffer((40,), "float32", "B")

    def body_of(i: E.Var) -> S.Stmt:
        def step(k: E.Var) -> S.Stmt:
            at = i * n + n // 8 * 8
            add = S.BufferStore(short, E.BufferLoad(short, [at]) + A[k], [at])
            guarded = S.IfThenElse(op.likely(n // 8 * 8 < n), add)
            return loop("j", (n % 8 + 7) // 8, lambda j: guarded)

        return loop("k", 3, step)

    func = function(loop("i", 5, body_of), A, short, scalars=(n,))
    data = {"A": DATA["A"], "B": np.zeros(40, "float32")}
    for value in (5, 8):
        new = checked(promote_accumulators, func, data, n=value)
    assert "B.acc" in names(new)


def test_two_stores_under_different_conditions() -> None:
    n, m = E.Var("n"), E.Var("m")

    def body_of(i: E.Var) -> S.Stmt:
        add = S.BufferStore(B, B[i] + A[i], [i])
        both = S.seq(S.IfThenElse(n < 3, add), S.IfThenElse(m < 3, add))
        return loop("k", 4, lambda k: both)

    func = function(loop("i", 8, body_of), A, B, scalars=(n, m))
    for values in ((1, 1), (1, 9), (9, 1), (9, 9)):
        new = checked(promote_accumulators, func, DATA, n=values[0], m=values[1])
    assert names(new) == []


def test_register_tile_of_vectors() -> None:
    def at(base: object) -> E.PrimExpr:
        return E.Ramp(base, 1, 4)

    def body_of(i: E.Var) -> S.Stmt:
        def step(k: E.Var) -> S.Stmt:
            parts = []
            for r in range(3):
                where = at(i * 16 + r * 4)
                old = E.BufferLoad(B, [where])
                parts.append(S.BufferStore(B, old + E.Broadcast(A[k + r], 4), [where]))
            return S.seq(parts)

        return loop("k", 5, step)

    new = checked(promote_accumulators, function(loop("i", 4, body_of), A, B), DATA)
    assert names(new) == ["B.acc"] * 3
    assert all(int(s.buffer.shape[0]) == 4 for s in nodes(new, S.Allocate))


def test_overlapping_vectors_and_unknown_distances_stay() -> None:
    s = E.Var("s")
    for distance in (2, s):

        def body_of(i: E.Var, distance: Any = distance) -> S.Stmt:
            def step(k: E.Var) -> S.Stmt:
                parts = []
                for r in range(2):
                    where = E.Ramp(i * 8 + distance * r, 1, 4)
                    old = E.BufferLoad(B, [where])
                    parts.append(S.BufferStore(B, old + E.Broadcast(A[k], 4), [where]))
                return S.seq(parts)

            return loop("k", 5, step)

        func = function(loop("i", 4, body_of), A, B, scalars=(s,))
        assert names(checked(promote_accumulators, func, DATA, s=2)) == []


def test_predicated_accumulator() -> None:
    n = E.Var("n")

    def body_of(i: E.Var) -> S.Stmt:
        where = E.Ramp(i * 8, 1, 8)
        mask = E.LT(where, E.Broadcast(n, 8))

        def step(k: E.Var) -> S.Stmt:
            old = E.BufferLoad(B, [where], mask)
            return S.BufferStore(B, old + E.Broadcast(A[k], 8), [where], mask)

        return loop("k", 5, step)

    func = function(loop("i", 8, body_of), A, B, scalars=(n,))
    new = checked(promote_accumulators, func, DATA, n=29)
    assert names(new) == ["B.acc"]
    (k,) = [s for s in nodes(new, S.For) if s.loop_var.name == "k"]
    assert all(s.predicate is None for s in nodes(k, S.BufferStore))


def test_another_read_or_a_call_keeps_memory_in_use() -> None:
    def other(i: E.Var) -> S.Stmt:
        return loop("k", 8, lambda k: S.BufferStore(B, B[i] + B[k], [i]))

    def call(i: E.Var) -> S.Stmt:
        note = S.Evaluate(op.call_extern("int32", "note", 1))
        return loop("k", 8, lambda k: S.seq(S.BufferStore(B, B[i] + A[k], [i]), note))

    for make in (other, call):
        func = function(loop("i", 8, make), A, B)
        assert names(checked(promote_accumulators, func, DATA)) == []


def test_whole_sum_and_small_local_buffers() -> None:
    tmp = Buffer((4,), "float32", "T")
    total = loop("k", 8, lambda k: S.BufferStore(B, B[0] + A[k], [0]))
    local = loop("k", 8, lambda k: S.BufferStore(tmp, tmp[1] + A[k], [1]))
    body = S.seq(S.BufferStore(tmp, 0.0, [1]), local, S.BufferStore(B, tmp[1], [5]), total)
    new = checked(promote_accumulators, function(S.Allocate(tmp, body), A, B), DATA)
    assert names(new) == ["T", "B.acc"]


# -- the pipeline


def small() -> S.PrimFunc:
    two = Buffer((8, 8), "float32", "A")
    out = Buffer((8, 8), "float32", "B")

    def body_of(i: E.Var) -> S.Stmt:
        inner = loop("j", 8, lambda j: S.BufferStore(out, two[i, j] + 1.0, [i, j]), K.VECTORIZED)
        return inner

    return function(loop("i", 8, body_of), two, out)


def test_dump_writes_each_stage(tmp_path: Path) -> None:
    run_pipeline(small(), LowerOptions(), tmp_path / "stages")
    files = sorted(p.name for p in (tmp_path / "stages").iterdir())
    passes = [p.__name__ for phase in PHASES for p in phase]
    assert files == [f"{i:02}_{n}.txt" for i, n in enumerate(["loop_nest", *passes])]
    assert "B[i, 0:8]" not in (tmp_path / "stages" / files[0]).read_text()
    assert "B_1[cse_var_1:cse_var_1 + 8]" in (tmp_path / "stages" / files[-1]).read_text()


def test_dump_folder_of_the_configuration(tmp_path: Path) -> None:
    with config.scoped(dump_dir=tmp_path):
        for _ in range(2):
            run_pipeline(small(), LowerOptions())
    folders = sorted(p.name for p in tmp_path.iterdir())
    assert len(folders) == 2 and all(name.endswith("-main.passes") for name in folders)
    assert len(list((tmp_path / folders[0]).iterdir())) == 1 + sum(map(len, PHASES))


def test_user_passes_run_at_their_phase() -> None:
    seen: list[tuple[str, int]] = []

    def note(name: str) -> object:
        def user_pass(func: S.PrimFunc) -> S.PrimFunc:
            store = nodes(func, S.BufferStore)[0]
            seen.append((name, len(store.indices)))
            return func.with_attr(name, True)

        return user_pass

    passes = tuple((phase, note(f"p{phase}")) for phase in (3, 0, 2, 1, 0))
    new = run_pipeline(small(), LowerOptions(user_passes=passes))  # type: ignore[arg-type]
    assert [n for n, _ in seen] == ["p0", "p0", "p1", "p2", "p3"]
    assert all(new.attrs[f"p{i}"] for i in range(4))


def test_user_pass_that_returns_nothing() -> None:
    def forgetful(func: S.PrimFunc) -> None:
        return None

    options = LowerOptions(user_passes=((1, forgetful),))  # type: ignore[arg-type]
    with pytest.raises(CompileError, match="forgetful must return a PrimFunc, got NoneType"):
        run_pipeline(small(), options)


def test_what_a_pass_breaks_is_found() -> None:
    def careless(func: S.PrimFunc) -> S.PrimFunc:
        return func.with_body(S.BufferStore(B, E.Var("x", "float32"), [0]))

    options = LowerOptions(verify=True, user_passes=((2, careless),))
    with pytest.raises(InternalError, match="after careless"):
        run_pipeline(small(), options)


def test_disabled_pass_and_a_wrong_name() -> None:
    for name in ("vectorize_loops", "tir.VectorizeLoop"):
        new = run_pipeline(small(), LowerOptions(disabled_pass=(name,)))
        assert [s.kind for s in nodes(new, S.For)] == [K.SERIAL, K.VECTORIZED]
    with pytest.raises(
        CompileError, match="there is no pass 'vectorise'; there are blend_stores, check_bounds"
    ):
        run_pipeline(small(), LowerOptions(disabled_pass=("vectorise",)))


def test_options_come_from_the_configuration() -> None:
    with config.scoped(unroll_max_step=12, **{"tir.disable_vectorize": True}):
        options = LowerOptions.current(simple_mode=True)
    assert options.unroll_max_step == 12 and options.disable_vectorize and options.simple_mode
    assert LowerOptions.current().unroll_max_step == 0
