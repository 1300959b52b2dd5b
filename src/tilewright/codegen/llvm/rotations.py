"""Loops whose registers are handed on in a ring, and how LLVM is kept from it.

A tile that needs one register more than there are has one of its values on the stack. Where LLVM's
allocator splits the lives of values by regions (RegAllocGreedy, as of LLVM 20 to 22), that value's
register is taken from a neighbour, whose own is taken from the next, ...: the loop moves all of its
sums on by one and back, in 50 instructions beside 28 that compute. Without these splits two remain,
which store and load the one value. They are worth having elsewhere, so that code is made anew
without them only where the moves are seen, and kept if that took most of them away.

The limit of such splits is an option of the process, not of a compilation: while it is changed, no
other code is made by this module.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_RING = 8  # moves in a row; copies of what a loop begins with are fewer
_MANY = 2 * _RING
_OPTION = "-grow-region-complexity-budget"
_USUAL = 10000  # LLVM's own value

# vmovaps of a register to a register: EVEX of 512 bits, VEX of 256 in two and three bytes of prefix
_MOVE = (
    rb"(?:\x62[\x01\x11\x21\x31\x41\x51\x61\x71\x81\x91\xa1\xb1\xc1\xd1\xe1\xf1]\x7c\x48"
    rb"|\xc5[\x7c\xfc]|\xc4[\x41\x61\xc1\xe1]\x7c)[\x28\x29][\xc0-\xff]"
)
_LINE = rb"\tvmovaps\t%[yz]mm\d+, %[yz]mm\d+\n(?:\t\.loc\t[^\n]*\n|\.\w+:\n)*"
_IN_CODE = re.compile(rb"(?:%b){%d,}" % (_MOVE, _RING), re.DOTALL), re.compile(_MOVE, re.DOTALL)
_IN_TEXT = re.compile(rb"(?:%b){%d,}" % (_LINE, _RING)), re.compile(_LINE)

Code = TypeVar("Code", bytes, str)


def moves_in_rings(code: bytes | str) -> int:
    """How many moves of object code, or of assembly in AT&T's syntax, are in rings."""
    rings, moves = _IN_TEXT if isinstance(code, str) else _IN_CODE
    text = code.encode() if isinstance(code, str) else code
    return sum(len(moves.findall(ring[0])) for ring in rings.finditer(text))


def without_rings(emit: Callable[[], Code], architecture: str) -> Code:
    """What `emit` makes; made once more without splits by region, if that rids it of rings."""
    with _gate.shared():
        code = emit()
    if architecture != "x86_64" or (moves := moves_in_rings(code)) < _MANY:
        return code
    with _gate.alone():
        other = emit()
    return other if moves_in_rings(other) < moves / 2 else code


class _Gate:
    """Any number of threads make code with LLVM's usual options, or one with others."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Nobody is inside, as in a child that was forked."""
        self._free = threading.Condition()
        self._inside = 0
        self._changed = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._free:
            self._free.wait_for(lambda: not self._changed)
            self._inside += 1
        try:
            yield
        finally:
            with self._free:
                self._inside -= 1
                self._free.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._free:
            self._free.wait_for(lambda: not self._changed)
            self._changed = True  # from here on nobody enters
            self._free.wait_for(lambda: not self._inside)
            _set_budget(0)
        try:
            yield
        finally:
            with self._free:
                _set_budget(_USUAL)
                self._changed = False
                self._free.notify_all()


_gate = _Gate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_gate.begin)


def _set_budget(value: int) -> None:
    import llvmlite.binding as llvm

    llvm.set_option("tilewright", f"{_OPTION}={value}")
