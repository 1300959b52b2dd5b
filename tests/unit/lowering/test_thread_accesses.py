"""Conflicts of accesses whose conditions rest on what is the same for all threads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tilewright.loopir import expr as E
from tilewright.lowering import index_values
from tilewright.lowering.thread_accesses import Access, Conflicts

TX, BX, N = E.Var("tx", "int32"), E.Var("bx", "int32"), E.SizeVar("n", "int32")
DATA = E.Var("shared", "handle")
BLOCKS = 8


def _pair(first: Any, second: Any, guards: tuple[Any, ...] = ()) -> tuple[Access, Access]:
    return (
        Access(DATA, True, first, 4, guards=guards),
        Access(DATA, False, second, 4, guards=guards),
    )


def _conflicts() -> Conflicts:
    return Conflicts([(TX, E.const(32))], {BX: (0, BLOCKS)})


CASES: dict[str, tuple[tuple[Access, Access], bool]] = {
    "own element": (_pair(TX, TX), False),
    "next element": (_pair(TX, TX + 1), True),
    "next element in block 9": (_pair(TX, TX + 1, (E.EQ(BX, E.const(9)),)), False),
    "next element in block 7": (_pair(TX, TX + 1, (E.EQ(BX, E.const(7)),)), True),
    "as far as the block says": (_pair(TX, TX + BX), True),
    "as far as block 0 says": (_pair(TX, TX + BX, (E.LT(BX, E.const(1)),)), False),
    "threads of which the block leaves one": (_pair(TX, TX + 1, (E.LT(TX, BX - 6),)), False),
    "threads of which the block leaves two": (_pair(TX, TX + 1, (E.LT(TX, BX - 5),)), True),
    "block in a division": (_pair(TX, TX + E.FloorDiv(BX, E.const(8))), False),
    "block in a division by less": (_pair(TX, TX + E.FloorDiv(BX, E.const(7))), True),
    "what is unknown cancels": (_pair(TX + N * 4, TX + N * 4, (E.LT(BX, N),)), False),
    "what is unknown and the block": (_pair(TX + N * 4, TX + N * 4 + BX), True),
    "unknown, block 0": (_pair(TX + N * 4, TX + N * 4 + BX, (E.LT(BX, E.const(1)),)), False),
}


def _sizes(write: Access, read: Access) -> tuple[Access, Access]:
    """A write of elements of 4 bytes, and a read of elements of 6."""
    return replace(write, nbytes=4), replace(read, nbytes=6)


CASES.update(
    {
        "smaller elements behind": (_sizes(*_pair(TX, TX + 22)), False),
        "smaller elements at the last one's end": (_sizes(*_pair(TX, TX + 21)), True),
        "own bytes": (_sizes(*_pair(TX * 3, TX * 2)), False),
        "bytes between": (_sizes(*_pair(TX * 3, TX * 2 + 1)), False),
        "bytes of the next": (_sizes(*_pair(TX * 3, TX * 2 + 2)), True),
    }
)
strided = replace(CASES["smaller elements behind"][0][0], lanes=2, stride=32)
CASES["two each, behind both"] = ((strided, _sizes(*_pair(TX, TX + 43))[1]), False)
CASES["two each, at the end of the second"] = ((strided, _sizes(*_pair(TX, TX + 42))[1]), True)


@pytest.mark.parametrize("name", CASES)
def test_conflict(name: str) -> None:
    (write, read), expected = CASES[name]
    assert _conflicts().between(write, read) is expected
    assert _conflicts().between(read, write) is expected


def test_loops_under_conditions_of_the_block() -> None:
    i = E.Var("i", "int32")
    near, far = E.const(1), E.const(5)
    for last, expected in ((near, False), (far, True)):
        short = (E.LT(BX, last),)
        write, read = _pair(TX * 4, TX * 4 + i + 1, (*short, E.LE(i, BX)))
        read = read.with_loop(i, E.const(0), E.const(BLOCKS))
        assert _conflicts().between(write, read) is expected


def test_a_condition_is_evaluated_once_for_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its own variables, however many accesses stand under it and whatever else they ask."""
    guard = E.LT(E.FloorMod(BX, E.const(3)), E.const(4))
    seen = 0
    original = index_values._RULES[E.LT]

    def count(e: Any, env: Any) -> Any:
        nonlocal seen
        seen += e is guard
        return original(e, env)

    monkeypatch.setitem(index_values._RULES, E.LT, count)
    conflicts = Conflicts([(TX, E.const(32))], {BX: (0, BLOCKS), N: (0, 4)})
    others = (E.LT(TX, N + 40), E.GE(N * TX, E.const(0)))
    for k in range(5):
        a, b = _pair(TX, TX + E.FloorDiv(BX + N, E.const(16 + k)), (guard, *others))
        assert not conflicts.between(a, b)
    assert 0 < seen <= BLOCKS + 1
