"""unroll_loops: TVM's rules for what is unrolled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.narrow import int_of
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.visit import walk
from tilewright.lowering.options import LowerOptions
from tilewright.lowering.unroll_loops import unroll_as_asked, unroll_loops

B = Buffer((64,), "float32", "B")
K = S.ForKind


def loop(extent: object, body_of: object, kind: int = K.SERIAL) -> S.For:
    v = E.Var("i")
    return S.For(v, 0, extent, kind, body_of(v))  # type: ignore[operator]


def store(at: object) -> S.Stmt:
    return S.BufferStore(B, 1.0, [at])


def lowered(body: S.Stmt, **options: object) -> S.Stmt:
    func = S.PrimFunc([], body)
    return unroll_loops(func, LowerOptions(**options)).body  # type: ignore[arg-type]


def kinds(body: S.Stmt) -> list[int]:
    return [x.kind for x in walk(body) if type(x) is S.For]


def stores(body: S.Stmt) -> list[S.BufferStore]:
    return [x for x in walk(body) if type(x) is S.BufferStore]


def test_marked_loop() -> None:
    body = lowered(loop(3, lambda i: store(i * 2 + 1), K.UNROLLED))
    assert [int_of(s.indices[0]) for s in stores(body)] == [1, 3, 5] and not kinds(body)


def test_marked_loop_of_symbolic_extent_runs_serially() -> None:
    assert kinds(lowered(loop(E.Var("n"), store, K.UNROLLED))) == [K.SERIAL]


def test_marked_loop_of_no_steps() -> None:
    assert S.is_no_op(lowered(loop(0, store, K.UNROLLED)))


def nest() -> S.Stmt:
    return loop(4, lambda i: loop(4, lambda j: store(i * 4 + j)))


def test_steps_count_through_the_nest() -> None:
    assert len(stores(lowered(nest(), unroll_max_step=16))) == 16
    assert len(stores(lowered(nest(), unroll_max_step=15))) == 4
    assert len(stores(lowered(nest(), unroll_max_step=3))) == 1


def test_a_loop_around_a_loop_that_stays_stays() -> None:
    n = E.Var("n")
    body = loop(2, lambda i: loop(n, lambda j: store(i + j)))
    assert len(kinds(lowered(body, unroll_max_step=100))) == 2


def test_depth() -> None:
    body: S.Stmt = store(0)
    for _ in range(4):
        inner = body
        body = loop(1, lambda _, inner=inner: inner)
    assert len(kinds(lowered(body, unroll_max_step=100, unroll_max_depth=2))) == 1


def test_small_extents_are_unrolled_regardless() -> None:
    body = loop(3, lambda i: S.seq([store(i)] * 5))
    assert len(stores(lowered(body, unroll_max_extent=3))) == 15
    assert len(stores(lowered(body, unroll_max_extent=2))) == 5


def test_pragmas_hold_for_their_body_and_go() -> None:
    inside = S.AttrStmt(E.Var("x"), "pragma_auto_unroll_max_step", 16, nest())
    body = lowered(S.seq(inside, nest()))
    assert len(stores(body)) == 16 + 1
    assert not any(type(x) is S.AttrStmt for x in walk(body))


def test_without_unroll_explicit_loops_are_marked() -> None:
    hint = S.AttrStmt(E.Var("x"), "pragma_unroll_explicit", 0, nest())
    body = lowered(hint, unroll_max_step=16)
    assert kinds(body) == [K.UNROLLED, K.UNROLLED]
    assert kinds(lowered(nest(), unroll_max_step=16, unroll_explicit=False)) == [K.UNROLLED] * 2


def test_loops_that_conditions_read_are_copied_all_the_same() -> None:
    n = E.Var("n")
    inner: list[Callable[[E.Var, E.Var], S.Stmt]] = [
        lambda i, j: S.IfThenElse(n * 4 + j < 9, store(i + j)),
        lambda i, j: S.BufferStore(B, E.Select(n + j < 9, 1.0, 2.0), [i]),
        lambda i, j: S.BufferStore(B, op.if_then_else(j < n, 1.0, 2.0), [i]),
    ]
    for make in inner:
        body = loop(2, lambda i, m=make: loop(4, partial(m, i), K.UNROLLED), K.UNROLLED)
        found = lowered(body, unroll_explicit=False)
        assert kinds(found) == [K.UNROLLED] and len(stores(found)) == 4


def test_too_many_steps_stay_a_loop() -> None:
    """And without a mark: LLVM would make a copy of each of a million steps, for minutes."""
    body = loop(200, lambda i: loop(200, lambda j: store(i + j), K.UNROLLED), K.UNROLLED)
    assert kinds(lowered(body)) == [K.SERIAL]
    assert kinds(lowered(body, unroll_explicit=False)) == [K.SERIAL, K.UNROLLED]
    func = unroll_as_asked(S.PrimFunc([], body), LowerOptions())
    assert kinds(func.body) == [K.UNROLLED]  # TVM's pass of that name does as it is told


def test_copies_define_their_own_variables() -> None:
    tmp = Buffer((300,), "float32", "T")
    x = E.Var("x", "float32")

    def body_of(i: E.Var) -> S.Stmt:
        use = S.LetStmt(x, E.const(1.0), S.BufferStore(tmp, x, [i]))
        return S.Allocate(tmp, loop(E.Var("n"), lambda j: S.seq(use, store(j))))

    body = lowered(loop(3, body_of, K.UNROLLED))
    for kind, name in ((S.Allocate, "buffer_var"), (S.LetStmt, "var"), (S.For, "loop_var")):
        defined = [getattr(s, name) for s in walk(body) if type(s) is kind]
        assert len(defined) == 3 == len(set(defined)), kind
    for a in (x for x in walk(body) if type(x) is S.Allocate):
        data = {s.buffer.data for s in stores(a) if s.buffer.name == "T"}
        assert data == {a.buffer.data}


def register_tile(size: int) -> S.Stmt:
    tmp = Buffer((size,), "float32", "T")
    fill = loop(4, lambda i: S.BufferStore(tmp, 1.0, [i]))
    use = loop(4, lambda i: S.BufferStore(B, tmp[i], [i]))
    outer = loop(2, lambda j: S.seq(fill, loop(E.Var("n"), lambda k: store(k)), use))
    return S.Allocate(tmp, outer)


def test_loops_over_register_tiles_are_unrolled() -> None:
    assert len(kinds(lowered(register_tile(4)))) == 2
    assert len(kinds(lowered(register_tile(512)))) == 2
    assert len(kinds(lowered(register_tile(513)))) == 4
    assert len(kinds(lowered(register_tile(4), simple_mode=True))) == 4
