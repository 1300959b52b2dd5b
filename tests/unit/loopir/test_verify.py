from __future__ import annotations

from typing import Any

import pytest

from tests.golden.listings import LISTINGS, loop
from tilewright.base.errors import InternalError
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.iter import CommReducer, IterVar, ProducerLoad, Range, Reduce
from tilewright.loopir.module import IRModule
from tilewright.loopir.verify import Verified, verify

A, B8 = Buffer((64,), name="A"), Buffer((8, 8), "int8", name="B")
a_handle, b_handle = E.Var("a", "handle"), E.Var("b", "handle")
n, x, p = E.Var("n"), E.Var("x", "float32"), E.Var("p", "bool")
i, j = E.Var("i"), E.Var("j")


def function(body: Any) -> S.PrimFunc:
    return S.PrimFunc([a_handle, b_handle, n, x, p], body, None, {a_handle: A, b_handle: B8})


def forged(kind: type, **fields: Any) -> Any:
    """A node with any fields at all: what a broken pass, not a constructor, would make."""
    node: Any = object.__new__(kind)
    for name, value in fields.items():
        setattr(node, name, value)
    return node


def value(e: Any) -> S.Stmt:
    return S.Evaluate(e)


def store(e: Any, *at: Any) -> S.Stmt:
    return S.BufferStore(A, e, at)


def load(b: Buffer) -> Any:
    return forged(E.BufferLoad, buffer=b, indices=(n,), predicate=None, dtype="int8")


def masked(predicate: Any) -> Any:
    at = (E.convert(n),)
    return forged(S.BufferStore, buffer=A, value=x, indices=at, predicate=predicate)


def thread(tag: str, extent: Any, body: S.Stmt) -> S.Stmt:
    axis = IterVar(None, E.Var(tag), IterVar.ThreadIndex, tag)
    return S.AttrStmt(axis, "thread_extent", extent, body)


@pytest.mark.parametrize("make", LISTINGS.values())
def test_good_programs_pass(make: Any) -> None:
    verify(make())


VECTOR = E.Ramp(n, 1, 4)
GOOD = [
    store(x, n),
    store(E.Broadcast(x, 4), VECTOR),
    S.BufferStore(A, A[VECTOR], [VECTOR], E.LT(VECTOR, E.Broadcast(n, 4))),
    store(op.if_then_else(p, A[n], E.Let(i, n + 1, A[i])), n),
    store(E.Select(E.Broadcast(p, 4), A[VECTOR], E.Broadcast(x, 4)), VECTOR),
    S.seq(loop(i, 4, store(x, i)), loop(i, 4, store(x, i))),
    S.IfThenElse(p, store(x, 0), store(x, 1)),
    S.While(n < 3, store(x, 0)),
    S.AssertStmt(p, "text", store(x, 0)),
    S.Allocate(Buffer((n,), name="t"), store(x, 0)),
    thread("threadIdx.x", 4, thread("blockIdx.x", 2, thread("threadIdx.x", 4, store(x, 0)))),
    S.seq(thread("threadIdx.x", 4, store(x, 0)), thread("threadIdx.x", 8, store(x, 0))),
    thread("vthread", 2, thread("vthread", 4, store(x, 0))),
    S.Prefetch(B8, [Range(0, 4), Range(n)]),
    value(op.call_extern("int32", "f", op.address_of(A[n]), A.access_ptr("r"))),
    value(op.call_packed("f", A)),
    value(E.Shuffle([A[VECTOR], A[n]], [4, 0])),
    store(E.Add(E.Let(i, n, A[i]), E.Let(i, n + 1, A[i])), 0),
]


@pytest.mark.parametrize("body", GOOD, ids=[str(s)[:60] for s in GOOD])
def test_good_statements_pass(body: Any) -> None:
    verify(function(body))


tensor = type("T", (), {"name": "T", "dtype": "float32"})()
lhs, rhs = E.Var("l", "float32"), E.Var("r", "float32")
axis = IterVar((0, 4), "k", IterVar.CommReduce)
add = CommReducer([lhs], [rhs], [lhs + rhs], [E.const(0.0)])
tmp = Buffer((4,), name="tmp")
BAD: list[tuple[str, Any]] = [
    ("operands of Add have types int32 and float32", value(E.Add(n, x))),
    ("operands of LT have types int32 and int64", value(E.LT(n, E.const(1, "int64")))),
    ("Add of bool", value(E.Add(p, p))),
    ("Mul of handle", value(E.Mul(a_handle, a_handle))),
    ("FloorDiv takes integers, got float32", value(E.FloorDiv(x, x))),
    ("Mod takes integers, got float32", value(E.Mod(x, x))),
    ("And takes conditions, got int32", value(forged(E.And, a=n, b=n, dtype="bool"))),
    ("Not takes a condition, got int32", value(E.Not(n))),
    ("Add says that it is int64", value(forged(E.Add, a=n, b=n, dtype="int64"))),
    ("LT says that it is int32", value(forged(E.LT, a=n, b=n, dtype="int32"))),
    ("Cast of int32x4 to float32: lanes differ", value(E.Cast("float32", VECTOR))),
    ("Ramp of 1 lanes", value(forged(E.Ramp, base=n, stride=n, lanes=1, dtype="int32"))),
    ("Ramp of float32", value(E.Ramp(x, 1.0, 4))),
    ("Broadcast of int32x4", value(E.Broadcast(VECTOR, 2))),
    ("Shuffle of 5 lanes with indices", value(E.Shuffle([VECTOR, n], [5, 0]))),
    ("Shuffle of int32, float32", value(E.Shuffle([n, x], [0, 1]))),
    ("Let gives i of type int32 a value of type float32", value(E.Let(i, x, i))),
    (
        "the sides of Select have types int32 and float32",
        value(forged(E.Select, condition=p, true_value=n, false_value=x, dtype="int32")),
    ),
    ("the condition of Select is int32", value(E.Select(n, x, x))),
    ("the condition of Select is boolx4", value(E.Select(E.Broadcast(p, 4), x, x))),
    (
        "the sides of if_then_else have types",
        value(E.Call("int32", "tir.if_then_else", (p, n, x))),
    ),
    ("tir.exp of int32 gives float32", value(E.Call("float32", "tir.exp", (n,)))),
    ("tir.pow takes 2 arguments, got 1", value(E.Call("float32", "tir.pow", (x,)))),
    ("tir.shift_left of float32", value(E.Call("float32", "tir.shift_left", (x, x)))),
    ("reinterpret of float32 as int64", value(E.Call("int64", "tir.reinterpret", (x,)))),
    ("without the name of a function", value(E.Call("int32", "tir.call_extern", (n,)))),
    ("likely takes one condition", value(E.Call("int32", "tir.likely", (n,)))),
    ("address_of takes an element", value(E.Call("handle", "tir.address_of", (n,)))),
    ("the constant 300 is no int8", value(forged(E.IntImm, dtype="int8", value=300))),
    ("the constant 1.0 is no int32", value(forged(E.FloatImm, dtype="int32", value=1.0))),
    ("variable i is used outside of its scope", store(x, i)),
    ("variable i is used outside", S.seq(loop(i, 4, store(x, i)), store(x, i))),
    ("variable i is used outside", loop(i, i + 1, store(x, 0))),
    ("variable i is used outside", S.LetStmt(i, i + 1, store(x, 0))),
    ("variable i is used outside", store(E.Add(E.Let(i, n, A[i]), A[i]), 0)),
    ("variable i is used outside", S.seq(S.LetStmt(i, n, store(x, i)), store(x, i))),
    ("variable i is used outside", S.Allocate(Buffer((i,), name="t"), store(x, 0))),
    ("variable i is used outside", thread("threadIdx.x", i, store(x, 0))),
    ("i is defined again inside its scope", loop(i, 4, loop(i, 4, store(x, i)))),
    ("i is defined again inside its scope", loop(i, 4, value(E.Let(i, n, i)))),
    ("n is defined again inside its scope", loop(n, 4, store(x, n))),
    ("buffer tmp is used where its memory is not in scope", S.BufferStore(tmp, x, [0])),
    (
        "buffer tmp is used where its memory is not in scope",
        S.seq(S.Allocate(tmp, S.BufferStore(tmp, x, [0])), store(tmp[0], 0)),
    ),
    ("tmp is defined again", S.Allocate(tmp, S.Allocate(tmp, store(x, 0)))),
    (
        "buffer B has 2 dimensions, got 1 indices",
        value(load(B8)),
    ),
    ("buffer A has 1 dimensions, got 2", S.BufferStore(A, x, [n, n])),
    ("index x of buffer A is float32", store(x, x)),
    ("index p of buffer A is bool", store(x, p)),
    ("int32x4", S.BufferStore(B8, E.const(1, "int8"), [VECTOR, n])),
    (
        "BufferLoad says that it is int8",
        value(load(A)),
    ),
    ("a value of type int32 is stored where buffer A takes float32", store(n, 0)),
    ("a value of type float32 is stored where buffer A takes float32x4", store(x, VECTOR)),
    ("a value of type float32x4 is stored where", store(E.Broadcast(x, 4), n)),
    ("predicate of an access to A is int32", masked(n)),
    ("predicate of an access to A is boolx4", masked(E.Broadcast(p, 4))),
    ("the condition of if is int32", S.IfThenElse(n, store(x, 0))),
    ("the condition of if is boolx4", S.IfThenElse(E.Broadcast(p, 4), store(x, 0))),
    ("the condition of while is int32", S.While(n, store(x, 0))),
    ("the condition of assert is int32", S.AssertStmt(n, "text", store(x, 0))),
    ("the message of an assert is no text", S.AssertStmt(p, n, store(x, 0))),
    ("a bound of a loop is float32", loop(i, x, store(x, 0))),
    (
        "loop variable j is int64, from int64, extent int32",
        loop(E.Var("j", "int64"), n, store(x, 0)),
    ),
    ("a loop of kind 7", loop(i, 4, store(x, i), 7)),
    ("a loop bound to no thread axis", loop(i, 4, store(x, i), S.ForKind.THREAD_BINDING)),
    ("a let gives i of type int32 a value of type float32", S.LetStmt(i, x, store(x, 0))),
    ("an extent of t is float32", S.Allocate(Buffer((x,), name="t"), store(x, 0))),
    (
        "threadIdx.x has extent 4 around, but 8 here",
        thread("threadIdx.x", 4, thread("threadIdx.x", 8, store(x, 0))),
    ),
    ("which is no thread axis", S.AttrStmt(n, "thread_extent", 4, store(x, 0))),
    ("prefetch of 1 dimensions", S.Prefetch(B8, [Range(0, 4)])),
    ("ProducerLoad must be lowered", value(ProducerLoad(tensor, [n]))),
    ("Reduce must be lowered", value(Reduce(add, [x], [axis], E.const(True)))),
    ("stands where a statement must", loop(i, 4, x)),  # type: ignore[arg-type]
    ("stands where an expression must", value(forged(E.Cast, dtype="int32", value=Range(4)))),
    ("unknown statement Stmt", S.Stmt()),
]


@pytest.mark.parametrize(("text", "body"), BAD, ids=[f"{k} {t}" for k, (t, _) in enumerate(BAD)])
def test_bad_programs_are_caught(text: str, body: Any) -> None:
    with pytest.raises(InternalError) as error:
        verify(function(body), after="some_pass")
    message = str(error.value)
    assert text in message
    assert "main is not well formed after some_pass" in message


def test_signatures() -> None:
    body = S.no_op()
    for bad, text in (
        (S.PrimFunc([n, n], body), "parameter n is defined again"),
        (S.PrimFunc([n], body, None, {a_handle: A}), "a, which is no parameter"),
        (S.PrimFunc([n], body, None, {n: A}), "parameter n of a buffer is int32"),
        (
            S.PrimFunc([a_handle, b_handle], body, None, {a_handle: A, b_handle: A}),
            "data of argument A",
        ),
        (
            S.PrimFunc([a_handle], body, None, {a_handle: Buffer((n * 2,), name="C")}),
            "variable n is used",
        ),
    ):
        with pytest.raises(InternalError, match=text):
            verify(bad)
    m = E.SizeVar("m")
    square = Buffer((m, m + 1), name="C", strides=(E.Var("s"), 1), elem_offset=E.Var("o"))
    verify(IRModule({"f": S.PrimFunc([a_handle], loop(i, m, body), None, {a_handle: square})}))


def test_the_place_is_marked() -> None:
    bad = store(n, 0)
    with pytest.raises(InternalError) as error:
        verify(function(S.seq(store(x, 0), loop(i, 4, bad))))
    lines = str(error.value).splitlines()
    marked = [line for line in lines if "# <--" in line]
    assert len(marked) == 1 and marked[0].strip().startswith("A[0] = n  # <-- a value of type")


def test_deep_and_shared_programs() -> None:
    e: Any = x
    for _ in range(50_000):
        e = E.Sub(x, e)
    tower: Any = x
    for _ in range(300):
        tower = E.Mul(tower, tower)
    lets: S.Stmt = store(tower, 0)
    for _ in range(20_000):
        lets = S.LetStmt(E.Var("t"), n, lets)
    verify(function(S.seq(store(e, 0), lets)))
    with pytest.raises(InternalError, match="too long to print"):
        verify(function(store(E.Add(tower, n), 0)))
    nested: Any = x
    for _ in range(5_000):
        v = E.Var("v", "float32")
        nested = E.Let(v, x, E.Add(v, nested))
    verify(function(store(nested, 0)))


def test_what_was_right_before_is_asked_again_where_it_stands() -> None:
    """Passes leave expressions as they were, and take away what these need: loops, lets, memory."""
    known = Verified()
    index, square = E.Add(i, n), Buffer((n, n), name="square")
    kept = store(x, index)
    reads = S.Evaluate(E.BufferLoad(square, (i, i)))
    inside = S.Allocate(square, reads)
    let = value(E.Let(j, n, E.Add(j, n)))
    for _ in range(2):
        verify(function(loop(i, 4, S.seq(kept, inside, let))), "first", known)
    for wrong, text in (
        (kept, "variable i is used outside"),
        (loop(i, 4, reads), "buffer square is used where its memory"),
        (loop(j, 4, let), "j is defined again"),
        (loop(i, 4, store(index, 0)), "a value of type int32 is stored"),
    ):
        with pytest.raises(InternalError, match=rf"after second: .*{text}"):
            verify(function(wrong), "second", known)
    few = S.PrimFunc([a_handle, p], loop(i, 4, kept), None, {a_handle: A})
    with pytest.raises(InternalError, match="variable n is used outside"):
        verify(few, "third", known)
