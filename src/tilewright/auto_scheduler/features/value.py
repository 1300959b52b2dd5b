"""What axes and indices are in terms of the loops around a statement, for all candidates.

A `Value` is its amount where all loops stand at 0, plus a stride for each loop, plus quotients and
remainders of values (from fused loops that are split again, and from indices such as `h // 2`).
Amounts, strides and divisors are slots of a `Program`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...loopir.iter import IterVar
from .program import ONE, ZERO, Program, Slot


class Loop:
    """A loop of a stage. A fused leaf is one loop for each of the axes that it was made of."""

    __slots__ = ("extent", "first", "last", "leaf", "number", "place", "stage", "thread")

    def __init__(
        self,
        number: int,
        stage: Any,
        leaf: IterVar,
        place: int,
        extent: Slot,
        thread: IterVar | None,
        first: bool,
        last: bool,
    ) -> None:
        """first: of the parts of a leaf; last: of the loops of the stage."""
        self.number, self.stage, self.leaf, self.place = number, stage, leaf, place
        self.extent, self.thread, self.first, self.last = extent, thread, first, last


Quotient = tuple[Slot, str, "Value", Slot]


class Value:
    """start + sum of stride * loop + sum of factor * (value // divisor or value % divisor).

    The quotients count from what they are where all loops stand at 0, which `start` holds.
    """

    __slots__ = ("quotients", "start", "strides")

    def __init__(
        self,
        start: Slot = ZERO,
        strides: dict[Loop, Slot] | None = None,
        quotients: tuple[Quotient, ...] = (),
    ) -> None:
        self.start = start
        self.strides = strides or {}
        self.quotients = quotients


class Values:
    """Arithmetic on values, written into a program."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def add(self, a: Value, b: Value) -> Value:
        strides = dict(a.strides)
        for loop, stride in b.strides.items():
            strides[loop] = self.program.add(strides.get(loop, ZERO), stride)
        return Value(self.program.add(a.start, b.start), strides, a.quotients + b.quotients)

    def scale(self, a: Value, factor: Slot) -> Value:
        mul = self.program.mul
        strides = {loop: mul(stride, factor) for loop, stride in a.strides.items()}
        quotients = tuple((mul(c, factor), kind, v, d) for c, kind, v, d in a.quotients)
        return Value(mul(a.start, factor), strides, quotients)

    def quotient(self, kind: str, a: Value, divisor: Slot) -> Value:
        """a // divisor ("div") or a % divisor ("mod")."""
        if divisor == ONE:
            return a if kind == "div" else Value()
        p = self.program
        whole = p.floordiv(a.start, divisor)
        start = whole if kind == "div" else p.sub(a.start, p.mul(whole, divisor))
        return Value(start, {}, ((ONE, kind, a, divisor),))

    def keep(self, a: Value, wanted: Callable[[Loop], bool]) -> Value:
        """The value where loops that are not wanted stand at 0."""
        strides = {loop: s for loop, s in a.strides.items() if wanted(loop)}
        quotients = tuple(
            (c, kind, inner, d)
            for c, kind, v, d in a.quotients
            if (inner := self.keep(v, wanted)).strides or inner.quotients
        )
        return Value(a.start, strides, quotients)

    def width(self, a: Value, moving: Callable[[Loop], bool]) -> Slot:
        """How far the value gets from its start, up or down, as the moving loops run."""
        low, high = self.reach(a, moving)
        return self.program.sub(high, low)

    def reach(self, a: Value, moving: Callable[[Loop], bool]) -> tuple[Slot, Slot]:
        """The lowest and highest distance from the start, as the moving loops run."""
        p = self.program
        low, high = ZERO, ZERO
        for loop, stride in a.strides.items():
            if moving(loop):
                low, high = self._widened(low, high, p.mul(stride, p.sub(loop.extent, ONE)))
        for factor, kind, inner, divisor in a.quotients:
            less, more = self.reach(inner, moving)
            first = p.add(inner.start, less)
            last = p.add(inner.start, more)
            zero = p.floordiv(inner.start, divisor)
            below, above = p.floordiv(first, divisor), p.floordiv(last, divisor)
            if kind == "mod":
                at = p.sub(inner.start, p.mul(zero, divisor))
                top = p.sub(divisor, ONE)
                same = p.choose(below, above, p.sub(last, p.mul(above, divisor)), top)
                least = p.choose(below, above, p.sub(first, p.mul(below, divisor)), ZERO)
                less, more = p.sub(least, at), p.sub(same, at)
            else:
                less, more = p.sub(below, zero), p.sub(above, zero)
            low = p.add(low, p.mul(factor, less))
            high = p.add(high, p.mul(factor, more))
        return low, high

    def _widened(self, low: Slot, high: Slot, by: Slot) -> tuple[Slot, Slot]:
        p = self.program
        known = p.value(by)
        if known is None or known >= 0:
            negative = self.is_negative(by)
            return (p.add(low, by), high) if negative else (low, p.add(high, by))
        return p.add(low, by), high

    def is_negative(self, slot: Slot) -> bool:
        """Whether a product has a negative constant factor; all lengths are positive."""
        p = self.program
        stack, negative = [slot], False
        while stack:
            kind, a, b = p.nodes[s := stack.pop()]
            if kind == "mul":
                stack += [a, b]
            elif kind == "const":
                negative ^= p.constants[s] < 0
        return negative


def loops_of(values: Iterable[Value]) -> set[Loop]:
    """All loops that values depend on."""
    found: set[Loop] = set()
    for value in values:
        found.update(value.strides)
        found |= loops_of(inner for _, _, inner, _ in value.quotients)
    return found
