"""What must be proved (a lost proof is a bound check left in a kernel), and what must not be."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from tilewright.arith import Analyzer, ConstIntBound, ModularSet
from tilewright.loopir import op
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.expr import NE, Not, Or, Select, SizeVar, Var, cast, const
from tilewright.loopir.iter import Range
from tilewright.loopir.runtime_calls import vscale
from tilewright.target import Target

n, m, h = SizeVar("n"), SizeVar("m"), SizeVar("h")
i, j, k, q = Var("i"), Var("j"), Var("k"), Var("q")
io, ii, jo, ji, ko, ki = (Var(c) for c in ("io", "ii", "jo", "ji", "ko", "ki"))


def known() -> Analyzer:
    a = Analyzer()
    a.bind(i, Range(0, n))
    a.bind(j, Range(0, m))
    a.bind(k, Range(0, h))
    a.bind(io, Range(0, (n + 31) // 32))
    a.bind(ii, Range(0, 32))
    a.bind(jo, Range(0, 8))
    a.bind(ji, Range(0, 16))
    a.bind(ko, Range(0, n // 32))
    a.bind(ki, Range(0, n % 32))
    return a


PLAIN: list[Any] = [
    i < n, i + 1 <= n, i * 32 < n * 32, n - 1 - i < n, n - 1 - i >= 0, i + j < n + m,
    i * m + j < n * m, i * m + j >= 0, (i * m + j) * h + k < n * m * h,
    ((i * m + j) * h + k) // h < n * m, i * n + i < n * n, i * (n + 2) + i < n * (n + 2),
    (i + 2) * (n + 2) + i < (n + 2) * (n + 2), n * m >= 0, n * n >= 0, q * q >= 0,
    io * 32 < n, io * 32 + ii < (n + 31) // 32 * 32, io * 32 + ii < n + 31,
    (io * 32 + ii) * 1024 + jo * 16 + ji < ((n + 31) // 32) * 32768,
    ko * 32 + ii < n, (n // 32) * 32 + ki < n,
    op.min(32, n - io * 32) <= 32, op.min(32, n - io * 32) >= 1,
    io * 32 + op.min(32, n - io * 32) <= n, op.min(io * 32 + 31, n - 1) - io * 32 + 1 <= 32,
    op.min(io * 32 + 32, n) - io * 32 > 0, op.max(i, j) < op.max(n, m), op.min(i, j) <= i,
    op.max(0, i - 3) <= op.min(n - 1, i + 3),
    op.min(n - 1, i + 3) - op.max(0, i - 3) + 1 <= 7,
    jo * 16 + ji < 128, (jo * 16 + ji) // 4 < 32, NE(jo * 16 + ji, const(-1)),
    NE(i * 2, j * 2 + 1), (n + 31) // 32 * 32 >= n, (n + 31) // 32 * 32 < n + 32,
    n // 32 * 32 <= n, n - n // 32 * 32 < 32, n % 32 <= n, (n + 31) // 32 >= n // 32,
    i // 4 <= n // 4, i // 4 < (n + 3) // 4, (i // 4) * 4 + i % 4 < n, (i - 1) // 2 >= -1,
    (n + m - 1) // m * m >= n, op.select(i < 5, i, 4) < 5, Or(i < 5, i >= 5),
    op.if_then_else(q > 3, q, 4) > 3, cast("int64", i) < cast("int64", n),
]  # fmt: skip
GUARDED: list[tuple[Any, Any]] = [
    (io * 32 + ii < n, io * 32 + ii - 5 < n),
    (io * 32 + ii < n, ii < n),
    (op.all(io * 32 + ii < n, i < j), i + 1 <= j),
    (op.all(i < j, j < k), i + 2 <= k),
    (n * 2 < m, n < m),
    (n > 0, n * m >= m),
    (m > 0, n // m * m <= n),
    (m > 0, n % m < m),
    (m > 0, i // m <= n),
    (q % 4 == 0, (q + 4) % 4 == 0),
    (q.equal(3), q + 1 < 5),
    (op.any(q < 0, q > 10), NE(q, const(5))),
    (op.any(q < 0, q > 10), op.any(q < 3, q > 8)),
    (i * 2 + 1 < n, i < n // 2 + 1),
    (op.all(q >= 0, q < n * m), q // m < n),
    (op.all(q >= 0, q < n * m), q % m < m),
    (op.all(i >= 1, i < n - 1), i + 1 <= n - 1),
    (op.all(i >= 1, i <= h, j >= 1, j <= k), (i - 1) * k + j - 1 < h * k),
    (op.all(q >= 1, q < 15, i.equal(q - 1)), i < 14),
    (q // 4 < 3, q < 12),
    (q // 4 >= 1, q >= 4),
    (Not(q < 3), q >= 3),
    (NE(i, const(0)), i >= 1),
    (op.likely(i + j * 2 <= 10), i <= 10),
    (i * 8 + ji // 2 < 20, i <= 2),
]


@pytest.mark.parametrize("cond", PLAIN, ids=str)
def test_proved(cond: Any) -> None:
    assert known().can_prove(cond)


@pytest.mark.parametrize(("guard", "cond"), GUARDED, ids=str)
def test_proved_under_a_guard(guard: Any, cond: Any) -> None:
    a = known()
    with a.enter_constraint(guard):
        assert a.can_prove(cond)


@pytest.mark.parametrize(
    "cond",
    [
        n > 0, n >= 1, m > n, i + 1 < n, io * 32 + 31 < n, i * m + j < n * m - 1, q < n, q // 4 < q,
        op.min(n, m) < n, (n + 31) // 32 * 32 <= n, op.select(q < 5, q, 4) < 4, n // 32 > 0,
        NE(i, j), i.equal(j), q * n >= 0,
    ],
    ids=str,
)  # fmt: skip
def test_not_proved(cond: Any) -> None:
    assert not known().can_prove(cond)


def test_an_empty_loop_says_nothing_of_its_limit() -> None:
    a = Analyzer()
    a.bind(i, Range(0, n))
    assert a.can_prove(i < n)
    assert a.can_prove(op.all(i >= 0, n >= i + 1))
    assert not a.can_prove(n >= 1)
    assert str(a.simplify(n > 0)) == "0 < n"


def test_named_questions() -> None:
    a = known()
    assert a.can_prove_equal((i + 1) * (j + 1), i * j + i + j + 1)
    assert not a.can_prove_equal(i, j)
    assert a.can_prove_less(i, n)
    assert not a.can_prove_less(n, i)
    assert a.can_prove_less_equal(i + 1, n)
    assert a.can_prove_greater_equal(i * 4, 0)
    assert a.can_prove_equal(Select(i < n, i, j), i)
    assert a.can_prove_equal(cast("float32", i), cast("float32", i + 1 - 1))


@pytest.mark.parametrize(
    ("e", "low", "high"),
    [
        (ii, 0, 31), (ii - 5, -5, 26), (ii * -2, -62, 0), (ii // 4, 0, 7), (ii % 8, 0, 7),
        (ii % 64, 0, 31), (n, 0, None), (q, None, None), (q % 5, 0, 4), (q % -5, -4, 0),
        (op.min(ii, 7), 0, 7), (op.max(q, 3), 3, None), (op.min(q, 3), None, 3),
        ((n + 31) // 32 * 32 - n, 0, 31), (ii * ji, 0, 465), (q * q, 0, None), (i * i, 0, None),
        (op.truncmod(q, 4), -3, 3), (op.truncdiv(ii, -4), -7, 0), (q & 15, 0, 15),
        (ii >> 2, 0, 7), (op.select(q < 3, ii, -4), -4, 31),
        (cast("int32", Var("b", "int8")), -128, 127),
        (cast("int32", q < 3), 0, 1), (op.popcount(q), 0, 32), (ii | 64, 64, 127), (n - i, 1, None),
        ((q + 15) // 16 - q // 16, 0, 1),
    ],
    ids=str,
)  # fmt: skip
def test_const_int_bound(e: Any, low: int | None, high: int | None) -> None:
    expected = ConstIntBound(
        ConstIntBound.NEG_INF if low is None else low,
        ConstIntBound.POS_INF if high is None else high,
    )
    assert known().const_int_bound(e) == expected


def test_bounds_use_constraints_and_updates() -> None:
    a = known()
    with a.enter_constraint(op.all(io * 32 + ii < 100, io >= 1)):
        assert a.const_int_bound(io) == ConstIntBound(1, 3)
        assert a.const_int_bound(io * 32 + ii) == ConstIntBound(32, 99)
    a.const_int_bound_update(q, ConstIntBound(-3, ConstIntBound.POS_INF))
    assert a.const_int_bound(q * 2) == ConstIntBound(-6, ConstIntBound.POS_INF)
    assert str(a.const_int_bound(q)) == "ConstIntBound[-3,pos_inf]"


@pytest.mark.parametrize(
    ("e", "coeff", "base"),
    [
        (q * 4 + 3, 4, 3), (q, 1, 0), (q * 8 + i * 12 + 2, 4, 2), (q * 8 // 4, 2, 0),
        (q * 12 % 8, 4, 0), (const(7), 0, 7), (op.min(q * 4, i * 6), 2, 0),
        (q * 4 * (i * 2 + 2), 8, 0), (op.select(q < 3, q * 4 + 1, i * 6 + 3), 2, 1),
        (q & 12, 4, 0), (op.truncmod(q * 6, 4), 2, 0),
    ],
    ids=str,
)  # fmt: skip
def test_modular_set(e: Any, coeff: int, base: int) -> None:
    assert known().modular_set(e) == ModularSet(coeff, base)


def test_known_residues_decide_remainders() -> None:
    a = Analyzer()
    with a.enter_constraint(op.all(q % 4 == 1, q % 6 == 3)):
        assert a.modular_set(q) == ModularSet(12, 9)
        assert str(a.simplify((q + 3) % 4)) == "0"
        assert str(a.simplify(q % 3)) == "0"
        assert str(a.simplify(q // 4 * 4 + i)) == "q + i - 1"
        assert a.can_prove_equal(q // 4 * 8, q * 2 - 2)
        assert a.can_prove(q // 4 * 4 + 1 >= q)


def test_guards_on_memory_hold_where_they_stand() -> None:
    table = decl_buffer((8,), "int32", name="T")
    a = Analyzer()
    assert a.can_prove(op.if_then_else(table[0] < 8, table[0], 0) < 8)


def test_residues_of_shifts_masks_and_truncated_remainders() -> None:
    a = Analyzer()
    assert a.modular_set(op.shift_right(q * 4 + 2, 1)) == ModularSet(2, 1)
    assert a.modular_set(op.shift_right(q * 4 + 2, 2)) == ModularSet(1, 0)
    assert a.modular_set(op.bitwise_and(q * 16 + i * 4, 31)) == ModularSet(4, 0)
    with a.constraint_scope(op.truncmod(q, 4).equal(2)):
        assert a.modular_set(q + 1) == ModularSet(4, 3)
    with a.constraint_scope(op.truncmod(q, 4).equal(-1)):
        assert a.modular_set(q) == ModularSet(4, 3)


def test_bounds_through_whole_floats() -> None:
    b = Var("b", "int8")
    e = op.truncmod(b, const(3, "int8")).astype("float32").astype("int32")
    found = Analyzer().const_int_bound(e)
    assert (found.min_value, found.max_value) == (-2, 2)
    loose = Analyzer().const_int_bound(Var("f", "float32").astype("int32"))
    assert (loose.min_value, loose.max_value) != (-2, 2)


def test_lengths_of_vectors() -> None:
    a, v = Analyzer(), vscale()
    assert a.can_prove(v * 32 < vscale() * 64)
    rounded = (v * 4 + 114) // (v * 4) * (v * 4) >= 115
    assert not a.can_prove(rounded)
    with Target("llvm -mtriple=aarch64-linux-gnu -mattr=+sve"):
        assert a.can_prove(rounded)
        assert not a.can_prove(v < 16) and not a.can_prove(v * q < 3)


x, y = Var("x"), Var("y")
UNEQUAL = [
    ([x >= 0, NE(x, const(0))], x >= 1, True),
    ([NE(x, const(0)), x >= 0], x >= 1, True),
    ([x <= y, NE(x, y)], x < y, True),
    ([NE(y, x), x <= y], x < y, True),
    ([NE(x, y)], NE(y, x), True),
    ([NE(x, y + 1), x <= y + 1], x <= y, True),
    ([NE(x, y)], x < y, False),
    ([NE(x, y), x <= y + 1], x < y, False),
    ([x <= y, NE(x, y + 1)], x < y, False),
    ([NE(x * 2, y)], NE(x, y), False),
]


@pytest.mark.parametrize(("known", "asked", "holds"), UNEQUAL)
def test_what_is_known_to_differ(known: Any, asked: Any, holds: bool) -> None:
    analyzer = Analyzer()
    with ExitStack() as stack:
        for condition in known:
            stack.enter_context(analyzer.enter_constraint(condition))
        assert analyzer.can_prove(asked) is holds
    assert not analyzer.can_prove(asked) and not analyzer.context.unequal
