from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.golden.listings import LISTINGS, loop
from tests.golden.test_printer import kitchen_sink
from tilewright import te
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.equal import assert_structural_equal, structural_equal
from tilewright.loopir.hash import structural_hash
from tilewright.loopir.iter import CommReducer, IterVar, Reduce

ROOT = Path(__file__).resolve().parents[3]
A = Buffer((64,), name="A")
x, y, n = E.Var("x", "float32"), E.Var("y", "float32"), E.Var("n")


def store(value: Any, *at: Any) -> S.Stmt:
    return S.BufferStore(A, value, at)


def same(a: Any, b: Any, **kw: Any) -> bool:
    """Equality both ways round; equal structures must hash alike."""
    equal = structural_equal(a, b, **kw)
    assert structural_equal(b, a, **kw) is equal
    if equal:
        assert structural_hash(a, **kw) == structural_hash(b, **kw)
    else:
        assert structural_hash(a, **kw) != structural_hash(b, **kw)
    return equal


def fill(name: str = "i", extent: Any = 8, kind: int = 0) -> S.For:
    i = E.Var(name)
    return loop(i, extent, store(E.cast("float32", i) + x, i), kind)


@pytest.mark.parametrize("make", [*LISTINGS.values(), kitchen_sink])
def test_the_same_program_built_twice(make: Callable[[], Any]) -> None:
    assert same(make(), make(), map_free_vars=True)


def test_modules_do_not_need_free_variables_mapped() -> None:
    assert same(LISTINGS["rfactor"](), LISTINGS["rfactor"]())
    assert not same(LISTINGS["rfactor"](), LISTINGS["default"]())
    assert not same(LISTINGS["default"]()["main"], LISTINGS["split"]()["main"])


def test_loop_variables_match_by_place() -> None:
    assert same(fill("i"), fill("j"))
    assert not same(fill(), fill(extent=9))
    assert not same(fill(), fill(kind=S.ForKind.PARALLEL))
    i, j = E.Var("i"), E.Var("j")
    square = loop(i, 8, loop(j, 8, store(x, i * 8 + j)))
    swapped = loop(i, 8, loop(j, 8, store(x, j * 8 + i)))
    renamed = loop(j, 8, loop(i, 8, store(x, j * 8 + i)))
    assert not same(square, swapped)
    assert same(square, renamed)


def test_one_body_under_two_variables() -> None:
    i, j = E.Var("i"), E.Var("j")
    body = store(x, i)
    assert not same(loop(i, 8, body), loop(j, 8, body))
    twice = loop(i, 4, loop(j, 4, store(x, i + j)))
    assert not same(twice, loop(i, 4, loop(E.Var("k"), 4, store(x, i + i))))


def test_free_variables() -> None:
    assert not same(x + y, x + E.Var("y", "float32"))
    assert same(x + y, x + E.Var("y", "float32"), map_free_vars=True)
    assert not same(x + y, x + x, map_free_vars=True)
    assert not same(x + x, x + y, map_free_vars=True)
    assert not same(x + n, x + E.Var("n", "int64"), map_free_vars=True)
    assert not same(E.Var("n") + 1, E.SizeVar("n") + 1, map_free_vars=True)
    # a variable bound on one side must not match a free one on the other
    assert not same(E.Let(n, 1, n + 1), E.Let(E.Var("m"), 1, n + 1))
    assert same(E.Let(n, 1, n + 1), E.Let(E.Var("m"), 1, n + 1)) is False


def test_scopes_end() -> None:
    t, u = E.Var("t"), E.Var("u")
    left = E.Add(E.Let(t, 1, t), t)
    assert same(left, E.Add(E.Let(u, 1, u), t))
    assert not same(left, E.Add(E.Let(u, 1, u), u))
    assert not same(left, E.Add(E.Let(t, 1, t), u))
    i, j = E.Var("i"), E.Var("j")
    reused = S.seq(loop(i, 2, store(x, i)), loop(i, 2, store(x, i)))
    fresh = S.seq(loop(i, 2, store(x, i)), loop(j, 2, store(x, j)))
    crossed = S.seq(loop(i, 2, store(x, i)), loop(j, 2, store(x, i)))
    assert same(reused, fresh)
    assert not same(reused, crossed)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (E.const(1), E.const(1, "int64")),
        (E.const(1), E.const(1.0)),
        (E.const(0.0), E.const(-0.0)),
        (E.const(True), E.const(1)),
        (E.StringImm("a"), E.StringImm("b")),
        (op.exp(x), op.exp2(x)),
        (E.Cast("int32", x), E.Cast("int64", x)),
        (op.call_extern("int32", "f", n), op.call_extern("int32", "g", n)),
        (op.call_extern("int32", "f", n), op.call_extern("int32", "f", n, n)),
        (E.Ramp(n, 1, 4), E.Ramp(n, 1, 8)),
        (E.Shuffle([E.Broadcast(x, 2)], [0, 1]), E.Shuffle([E.Broadcast(x, 2)], [1, 0])),
        (A[n], A.with_(scope="shared")[n]),
        (A[n], A.with_(shape=(65,))[n]),
        (A[n], A.with_(elem_offset=1)[n]),
        (x < y, x <= y),
        (n + 1, n - 1),
        (fill(), S.seq(fill(), fill())),
        (S.IfThenElse(n < 1, fill()), S.IfThenElse(n < 1, fill(), fill())),
        (S.AttrStmt(n, "a", 1, fill()), S.AttrStmt(n, "b", 1, fill())),
        (S.For(n, 0, 4, 0, fill(), None, {"a": 1}), S.For(n, 0, 4, 0, fill())),
        (S.PrimFunc([n], fill()), S.PrimFunc([n, x], fill())),
        (S.PrimFunc([n], fill(), attrs={"a": 1}), S.PrimFunc([n], fill(), attrs={"a": 2})),
    ],
)
def test_small_differences_count(a: Any, b: Any) -> None:
    assert not same(a, b, map_free_vars=True)


def test_names_do_not_count_and_nan_equals_itself() -> None:
    assert same(A[n], A.with_(name="other")[n])
    assert same(E.const(float("nan")), E.const(float("nan")))
    assert same(S.Allocate(A, store(x, 0)), S.Allocate(A, store(x, 0)))


def test_allocations_reductions_and_threads_define() -> None:
    def local() -> S.Stmt:
        tmp = Buffer((4,), name="tmp", scope="local")
        return S.Allocate(tmp, S.BufferStore(tmp, x, [0]))

    def reduce() -> E.PrimExpr:
        a, b = E.Var("a", "float32"), E.Var("b", "float32")
        axis = IterVar((0, 16), "k", IterVar.CommReduce)
        return Reduce(
            CommReducer([a], [b], [a + b], [E.const(0.0)]), [A[axis]], [axis], E.const(True)
        )

    def thread() -> S.Stmt:
        axis = IterVar((0, 16), "tx", IterVar.ThreadIndex, "threadIdx.x")
        return S.AttrStmt(axis, "thread_extent", 16, store(x, axis))

    for make in (local, reduce, thread):
        assert same(make(), make())


def test_shared_nodes_are_compared_once() -> None:
    def tower() -> E.PrimExpr:
        e: E.PrimExpr = x + 1.0
        for _ in range(200):
            e = E.Mul(e, e)
        return e

    assert same(tower(), tower())
    assert not same(tower(), tower() + 1.0)


def test_deep_chains() -> None:
    def chain(last: E.PrimExpr) -> E.PrimExpr:
        e = last
        for _ in range(50_000):
            e = E.Sub(y, e)
        return e

    assert same(chain(x), chain(x))
    assert not same(chain(x), chain(y))


def test_the_first_difference_is_shown() -> None:
    a, b = S.seq(fill(), fill(extent=8)), S.seq(fill(), fill(extent=9))
    with pytest.raises(ValueError) as error:
        assert_structural_equal(a, b)
    text = str(error.value)
    assert "lhs at <root>.seq[1].extent.value: 8\nand rhs at <root>.seq[1].extent.value: 9" in text
    assert "for i in range(9):  # <-- differs" in text
    assert_structural_equal(a, a)
    with pytest.raises(ValueError, match=r"lhs at <root>\.dtype: x"):
        assert_structural_equal(x, n)


def test_hash_is_the_same_in_every_process() -> None:
    code = (
        "from tests.golden.listings import split\n"
        "from tilewright.loopir.hash import structural_hash\n"
        "print(structural_hash(split()))"
    )
    for seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        }
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        assert int(done.stdout) == structural_hash(LISTINGS["split"]())


def test_elements_of_tensors_are_what_they_read() -> None:
    t, other = te.placeholder((4, 4), name="t"), te.placeholder((4, 4), name="t")
    assert structural_equal(t[n, 1], t[n][1]) and structural_equal(t[n, 1], t(n, 1))
    assert structural_hash(t[n, 1]) == structural_hash(t(n, 1))
    assert not structural_equal(t[n, 1], t[n, 2]) and not structural_equal(t[n, 1], other[n, 1])
