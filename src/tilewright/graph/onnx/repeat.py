"""Loops whose body is one graph, for types that stay from step to step.

What a step reads and writes is known ahead then: carried values go to and fro between two places,
what is put out is written where it belongs among the results of all steps. A step sets addresses
and calls compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base.dtype import parse
from ...rt.network import Lent, address_of
from ...rt.plan import Array, Tensor, compact

_FIRST = 32
"""Steps for which there is room at first where their number is not known; then twice as many."""


@dataclass(frozen=True)
class Source:
    """Where a value comes from: what a step is given or puts out, by number, or is always there."""

    given: int | None = None
    output: int | None = None
    fixed: Any = None


@dataclass(frozen=True)
class Body:
    """A body that is one graph: what this reads and puts out, and what of all that is wanted."""

    reads: Sequence[Source]
    outputs: Sequence[Tensor]
    wanted: Sequence[Source]
    lent: Callable[[], AbstractContextManager[Lent]]


@dataclass
class Turns:
    """Steps of a loop: its number and condition, if it has them, carried values, and rows, of which
    each step reads one. `most`: how many steps there are at most."""

    most: int | None
    carried: list[Any]
    rows: Sequence[Array] = ()
    condition: Array | None = None
    done: int = 0
    put_out: list[list[Array]] = field(default_factory=list)
    """Of each value that steps put out, arrays of several steps."""

    @property
    def before(self) -> int:
        """What a step is given before carried values."""
        return 0 if self.condition is None else 2

    def run(self, body: Body) -> bool:
        """Do all steps; False, and nothing is done, where they are not as they have to be here."""
        plan = _planned(self, body)
        if plan is None:
            return False
        with body.lent() as lent:
            _Run(self, body, plan, lent).run()
        return True


@dataclass(frozen=True)
class _Plan:
    """Numbers of outputs of the graph: which is the condition, which are carried by place, and
    which are put out. `going`: whether a second step follows where the condition is no output."""

    condition: int | None
    going: bool
    carried: dict[int, int]
    put_out: list[int]


def _planned(turns: Turns, body: Body) -> _Plan | None:
    ends = list(body.wanted)
    condition, going = None, True
    if turns.condition is not None:
        first = ends.pop(0)
        condition = first.output
        if first.fixed is not None:
            if np.size(first.fixed) != 1:
                return None
            going = bool(np.asarray(first.fixed).reshape(()))
        elif condition is None and first.given != 1:
            return None
        if condition is not None:
            kind = body.outputs[condition]
            if (kind.shape, kind.dtype) != (turns.condition.shape, "bool"):
                return None
    carried: dict[int, int] = {}
    for k, (value, end) in enumerate(zip(turns.carried, ends)):
        if end.given == turns.before + k:
            continue
        if end.output is None or not isinstance(value, np.ndarray):
            return None
        kind = body.outputs[end.output]
        if (kind.shape, parse(kind.dtype).numpy) != (value.shape, value.dtype):
            return None
        carried[k] = end.output
    put_out = [end.output for end in ends[len(turns.carried) :]]
    single = [*carried.values(), condition], [*put_out, condition]
    if None in put_out or any(len({*some}) != len(some) for some in single):
        return None  # a value in two places: they may be written to apart
    return _Plan(condition, going, carried, [n for n in put_out if n is not None])


class _Run:
    """The steps of one loop: addresses of what they read and write."""

    def __init__(self, turns: Turns, body: Body, plan: _Plan, lent: Lent) -> None:
        self.turns, self.body, self.plan, self.lent = turns, body, plan, lent
        self.slots = lent.slots
        self.number = np.zeros((), np.int64)
        # steps are done only where it is true
        self.truth = np.ones(() if turns.condition is None else turns.condition.shape, np.bool_)
        self.flag = self.truth.reshape(-1)
        self.kept: list[Any] = []  # arrays of which the addresses are in use
        self.steady: list[tuple[int, int, int]] = []  # slot, address of row 0, bytes of a row
        self.carried_in: list[tuple[int, int]] = []  # slot, which carried value
        self.now: dict[int, int] = {}  # addresses of carried values
        self._read()
        first = len(body.reads)
        place = {output: k for k, output in plan.carried.items()}
        self.flips: list[tuple[int, int, tuple[int, int]]] = []
        self.places: dict[int, list[Array]] = {}
        for n, kind in enumerate(body.outputs):
            if n in plan.put_out:
                continue
            if n in place:
                pair = self.places[place[n]] = [kind.empty(), kind.empty()]
                both = address_of(pair[0]), address_of(pair[1])
                self.flips.append((first + n, place[n], both))
            else:
                made = kind.empty()
                self._set(first + n, made)
                if n == plan.condition:
                    self.flag = made.reshape(-1)
        self.rows = [(first + n, body.outputs[n], place.get(n)) for n in plan.put_out]

    def _set(self, slot: int, array: Array) -> int:
        self.kept.append(array)
        self.slots[slot] = address = address_of(array)
        return address

    def _read(self) -> None:
        """Where the graph finds its inputs."""
        turns, before = self.turns, self.turns.before
        for slot, source in enumerate(self.body.reads):
            k = source.given
            if k is None:
                self._set(slot, compact(source.fixed))
            elif k < before:
                self._set(slot, self.truth if k else self.number)
            elif k - before < len(turns.carried):
                self.now[k - before] = self._set(slot, compact(turns.carried[k - before]))
                if k - before in self.plan.carried:
                    self.carried_in.append((slot, k - before))
            else:
                rows = compact(turns.rows[k - before - len(turns.carried)])
                self.steady.append((slot, self._set(slot, rows), rows.strides[0]))

    def run(self) -> None:
        turns, plan = self.turns, self.plan
        blocks: list[list[Array]] = [[] for _ in self.rows]
        last = turns.most if plan.going else 1
        while last is None or turns.done < last:
            most = max(_FIRST, turns.done)
            if last is not None and (plan.condition is None or last - turns.done < most):
                most = last - turns.done
            start = turns.done
            made = [kind.rows(most) for _, kind, _ in self.rows]
            for of, block in zip(blocks, made):
                of.append(block)
            ended = self._steps(start, start + most, made)
            if turns.done - start < most:
                for of in blocks:
                    of[-1] = of[-1][: turns.done - start]
            if ended:
                break
        turns.put_out = blocks
        self._finish(blocks)

    def _steps(self, start: int, end: int, made: Sequence[Array]) -> bool:
        """Steps whose results there is room for; whether the condition ended them."""
        slots, now, address, function = self.slots, self.now, self.lent.address, self.lent.function
        carried_in, flips, flag = self.carried_in, self.flips, self.flag
        asks = self.plan.condition is not None
        steady = list(self.steady)
        joint = []  # put out and carried, too
        for (slot, _, carried), block in zip(self.rows, made):
            size = block.strides[0]
            row = (slot, address_of(block) - start * size, size)
            if carried is None:
                steady.append(row)
            else:
                joint.append((*row, carried))
        for step in range(start, end):
            self.number[...] = step
            for slot, k in carried_in:
                slots[slot] = now[k]
            for slot, base, size in steady:
                slots[slot] = base + step * size
            for slot, base, size, k in joint:
                slots[slot] = now[k] = base + step * size
            for slot, k, pair in flips:
                slots[slot] = now[k] = pair[step & 1]
            code = function(address)
            if code:
                self.lent.failed(code)
            if asks and not flag[0]:
                self.turns.done = step + 1
                return True
        self.turns.done = end
        return False

    def _finish(self, blocks: Sequence[Sequence[Array]]) -> None:
        """The carried values after the last step."""
        turns = self.turns
        if not turns.done:
            return
        for k, pair in self.places.items():
            turns.carried[k] = pair[(turns.done - 1) & 1]
        for (_, _, carried), block in zip(self.rows, blocks):
            if carried is not None:  # what is put out must not change with it
                turns.carried[carried] = block[-1][-1, ...].copy()
