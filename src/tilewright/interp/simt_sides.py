"""Branches whose threads wait for each other at barriers in shared memory: the sides of
AttrStmt "warp_specialized" around an IfThenElse run in turns.

All lanes run in step elsewhere, so that a branch comes to its end before the next one begins. Here
a side that has to wait lets the other one go on. Each is a thread of Python's, of which one has the
turn; a wait that no other side can end any more is one for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..loopir import stmt as S
from .simt_state import Array, State
from .simt_stmt import KernelCode, Step

ATTRIBUTE = "warp_specialized"


class _Ended(BaseException):
    """Ends a side when the other one has failed."""


class Sides:
    """The sides of one branch: masks, and what their lanes do."""

    def __init__(self, st: State, sides: Sequence[tuple[Array, Step]]) -> None:
        self.st, self.sides = st, sides
        self.turns = threading.Condition()
        self.turn = 0
        self.done = [False] * len(sides)
        self.seen = [-1] * len(sides)  # the state of barriers that each one waits for a change of
        self.error: BaseException | None = None

    def run(self) -> None:
        around, self.st.sides = self.st.sides, self
        threads = [
            threading.Thread(target=self._run, args=(n,), daemon=True)
            for n in range(len(self.sides))
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.st.sides = around
        if self.error is not None:
            raise self.error

    def pause(self, version: int) -> bool:
        """Let another side go on, at a state of the barriers that this one cannot; False where
        none can."""
        me = self.turn
        self.seen[me] = version
        ready = [n for n in range(len(self.sides)) if not self.done[n] and self.seen[n] < version]
        if not ready:
            self.seen[me] = -1
            return False
        st = self.st
        mask, site = st.mask, st.site
        self._give(ready[0])
        self._wait_for_turn(me)
        if self.error is not None:
            raise _Ended
        st.mask, st.site = mask, site
        self.seen[me] = -1
        return True

    def _run(self, n: int) -> None:
        self._wait_for_turn(n)
        mask, step = self.sides[n]
        try:
            if self.error is None:
                with np.errstate(all="ignore"):
                    KernelCode.narrow(self.st, mask, step)
        except _Ended:
            pass
        except BaseException as error:  # told by the thread that waits for the sides
            self.error = error
        self.done[n] = True
        left = [m for m in range(len(self.sides)) if not self.done[m]]
        if left:
            self._give(left[0])

    def _give(self, n: int) -> None:
        with self.turns:
            self.turn = n
            self.turns.notify_all()

    def _wait_for_turn(self, n: int) -> None:
        with self.turns:
            self.turns.wait_for(lambda: self.turn == n)


def _specialized(code: Any, s: S.AttrStmt, steps: list[Callable[[State], None]]) -> None:
    branch = s.body
    if not isinstance(branch, S.IfThenElse) or branch.else_case is None:
        raise TilewrightError(f"simt: {ATTRIBUTE} stands around a branch with two sides")
    condition = code.condition(branch, branch.condition)
    then, other = code.block(branch.then_case), code.block(branch.else_case)

    def run(st: State) -> None:
        c = np.broadcast_to(condition(st), (st.lanes,))
        here = np.ones(st.lanes, np.bool_) if st.mask is None else st.mask
        old = st.mask
        Sides(st, [(c & here, then), (~c & here, other)]).run()
        st.mask = old

    steps.append(run)


KernelCode.attributes[ATTRIBUTE] = _specialized
