"""lower_division: which divisions become shifts and plain divisions; their values are tested in
tests/unit/codegen/test_expr.py."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.arith import Analyzer
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.iter import IterVar, Range
from tilewright.loopir.visit import walk
from tilewright.lowering.lower_division import lower_division


def kinds(value: Any, wrap: Any = None) -> set[str]:
    """Names of the divisions and operations left in a store of `value`."""
    b = decl_buffer((64,), "int32", "b")
    p = E.Var("p", "handle")
    body: S.Stmt = S.BufferStore(b, E.Cast("int32", value), [E.const(0)])
    body = wrap(body) if wrap else body
    done = lower_division(S.PrimFunc([p], body, None, {p: b}))
    return {
        x.op.name if isinstance(x, E.Call) else type(x).__name__
        for x in walk(done.body)
        if isinstance(x, (E.Call, E.FloorDiv, E.FloorMod, E.Div, E.Mod))
    }


X = E.Var("x", "int32")
Y = E.Var("y", "int32")


def test_powers_of_two() -> None:
    assert kinds(E.FloorDiv(X, E.const(8))) == {"tir.shift_right"}
    assert kinds(E.FloorMod(X, E.const(8))) == {"tir.bitwise_and"}
    assert kinds(E.FloorDiv(X, E.const(1))) == set()
    assert kinds(E.FloorDiv(X, E.const(-8))) == {"FloorDiv"}


def test_unknown_signs_stay() -> None:
    assert kinds(E.FloorDiv(X, E.const(7))) == {"FloorDiv"}
    assert kinds(E.FloorMod(X, Y)) == {"FloorMod"}


def test_unsigned() -> None:
    x = E.Var("x", "uint32")
    assert kinds(E.FloorDiv(x, E.const(7, "uint32"))) == {"Div"}


def loop(var: E.Var, low: Any, extent: Any) -> Any:
    return lambda body: S.For(var, low, extent, 0, body)


@pytest.mark.parametrize("value", [
    E.FloorDiv(X, E.const(7)),
    E.FloorDiv(X * 3 + 2, E.const(7)),
    E.FloorDiv(E.FloorMod(Y, E.const(5)) + X, E.const(7)),
    E.FloorDiv(E.Max(Y, X), E.const(7)),
    E.FloorDiv(E.Cast("int64", X), E.const(7, "int64")),
    E.FloorDiv(E.const(20) - X, E.const(7)),
])  # fmt: skip
def test_loop_variables_from_zero(value: Any) -> None:
    assert "FloorDiv" not in kinds(value, loop(X, 0, 10))


def test_loops_that_start_below_zero_and_guards() -> None:
    value = E.FloorDiv(X, E.const(7))
    assert "FloorDiv" in kinds(value, loop(X, -3, 10))
    guarded = loop(X, -3, 10)

    def wrap(body: S.Stmt) -> S.Stmt:
        return guarded(S.IfThenElse(X >= 0, body))

    assert "FloorDiv" not in kinds(value, wrap)
    assert "FloorDiv" in kinds(value, lambda b: guarded(S.IfThenElse(X >= 0, S.no_op(), b)))


def test_divisors_that_are_variables() -> None:
    value = E.FloorMod(X, Y)
    assert "FloorMod" in kinds(value, loop(X, 0, 10))
    both = loop(X, 0, 10)
    assert "FloorMod" not in kinds(value, lambda b: both(S.IfThenElse(Y > 0, b)))


def test_threads_start_at_zero() -> None:
    block = IterVar(Range(0, 10), E.Var("block", "int32"), IterVar.ThreadIndex, "blockIdx.x")
    value = E.FloorDiv(block.var * 15 + X, E.const(7))

    def launch(body: S.Stmt) -> S.Stmt:
        return S.AttrStmt(block, "thread_extent", E.const(10), body)

    assert "FloorDiv" not in kinds(value, lambda b: launch(S.For(X, 0, 4, 0, b)))
    assert "FloorDiv" in kinds(value, lambda b: launch(S.For(X, -20, 4, 0, b)))


def test_what_is_known_ends_with_its_place() -> None:
    """A guard, a loop and a let, each followed by a place where it says nothing."""
    b = decl_buffer((64,), "int32", "b")
    p = E.Var("p", "handle")

    def store() -> S.Stmt:
        return S.BufferStore(b, E.FloorDiv(X, E.const(7)), [E.const(0)])

    for known in (
        S.IfThenElse(X >= 0, store()),
        S.For(X, 0, 10, 0, S.IfThenElse(X < 8, store())),
        S.LetStmt(X, E.FloorMod(Y, E.const(9)), store()),
    ):
        body = S.SeqStmt([store(), known, store(), S.IfThenElse(Y > 0, store())])
        done = lower_division(S.PrimFunc([p, X, Y], body, None, {p: b})).body
        left = [type(x).__name__ for x in walk(done) if isinstance(x, (E.FloorDiv, E.Div))]
        assert left == ["FloorDiv", "Div", "FloorDiv", "FloorDiv"], known


def test_conditions_are_learned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each condition around many divisions is learned once, and each question asked once."""
    entered: list[Any] = []
    asked: list[Any] = []
    enter, prove = Analyzer.enter_constraint, Analyzer.can_prove

    def entering(analyzer: Analyzer, condition: Any) -> Any:
        entered.append(condition)
        return enter(analyzer, condition)

    def asking(analyzer: Analyzer, condition: Any) -> Any:
        asked.append(condition)
        return prove(analyzer, condition)

    monkeypatch.setattr(Analyzer, "enter_constraint", entering)
    monkeypatch.setattr(Analyzer, "can_prove", asking)
    b = decl_buffer((64,), "int32", "b")
    stores = [
        S.BufferStore(b, E.FloorDiv(X + Y + E.const(k % 2), E.const(7)), [E.const(k)])
        for k in range(20)
    ]
    body: S.Stmt = S.SeqStmt(stores)
    for condition in (X >= 3, Y >= 2, X < 40):
        body = S.IfThenElse(condition, body)
    lower_division(S.PrimFunc([X, Y], S.SeqStmt([body, S.IfThenElse(X < 9, S.no_op())]), None, {}))
    assert len(entered) == 3  # nothing is asked under the last condition
    assert len(asked) == 2


@pytest.mark.parametrize("extent", [100, 4000])
@pytest.mark.parametrize("b", [3, 7, 9, 27, 72, 641])
def test_short_dividends_beside_tensor_cores(extent: int, b: int) -> None:
    """A product and a shift where the dividend, below 2 ** 15, changes in a loop whose steps are
    written out; the quotient is the same."""
    t = E.Var("t", "int32")
    dividend = X * 8 + t

    def hot(body: S.Stmt) -> S.Stmt:
        said = {S.UNROLL_BY: E.const(1)}
        inner = S.For(X, E.const(0), E.const(extent), S.ForKind.SERIAL, body, None, said)
        return S.For(t, E.const(0), E.const(8), S.ForKind.SERIAL, inner)

    is_short = extent * 8 <= 1 << 15
    for value in (E.FloorDiv(dividend, E.const(b)), E.FloorMod(dividend, E.const(b))):
        plain = "Div" if type(value) is E.FloorDiv else "Mod"
        assert kinds(value, hot) == {"tir.shift_right" if is_short else plain}
    fixed = E.FloorDiv(t, E.const(b))
    assert kinds(fixed, hot) == {"Div"}


def test_the_product_of_a_short_dividend_is_exact() -> None:
    from tilewright.lowering.lower_division import _product_and_shift

    for b in (*range(3, 130), 1000, 4095, 4096, 32767):
        call = _product_and_shift(X, b)
        factor, shift = (E.const_int(e) for e in (call.args[0].b, call.args[1]))
        near = [q * b + d for q in range((1 << 15) // b + 1) for d in (-1, 0)]
        for a in (a for a in (*near, (1 << 15) - 1) if 0 <= a < 1 << 15):
            assert a * factor < 1 << 31 and a * factor >> shift == a // b
