"""Integer formulas of a skeleton's lengths, evaluated for all candidates at once.

Extents, strides and regions of a skeleton are formulas of its open lengths. They are written down
once, as slots of a program in which equal formulas share a slot; a run fills a matrix with one row
per slot and one column per candidate. Slots of equal depth and operation are evaluated by one NumPy
call, so that a run costs a few dozen calls whatever the number of formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
Slot = int

ZERO: Slot = 0
ONE: Slot = 1


def _ceildiv(a: Array, b: Array) -> Array:
    return np.ceil(a / b)


def _floordiv(a: Array, b: Array) -> Array:
    return np.floor(a / b)


def _at_least(a: Array, b: Array) -> Array:
    return (a >= b).astype(np.float64)


def _gcd(a: Array, b: Array) -> Array:
    return np.gcd(a.astype(np.int64), b.astype(np.int64)).astype(np.float64)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "mul": np.multiply,
    "add": np.add,
    "sub": np.subtract,
    "max": np.maximum,
    "min": np.minimum,
    "ceildiv": _ceildiv,
    "floordiv": _floordiv,
    "at_least": _at_least,
    "gcd": _gcd,
}
COMMUTATIVE = frozenset(("mul", "add", "max", "min", "gcd"))


class Program:
    """Slots: constants, the lengths, and operations on earlier slots (float64, whole numbers)."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.constants: list[float] = []
        self.nodes: list[tuple[str, Slot, Slot]] = []
        self.depth: list[int] = []
        self._known: dict[Any, Slot] = {}
        self.const(0)
        self.const(1)
        self.first_input = len(self.nodes)
        for k in range(inputs):
            self._node(("input", k, 0), 0)

    def _node(self, key: tuple[str, Slot, Slot], depth: int) -> Slot:
        slot = self._known.get(key)
        if slot is None:
            slot = self._known[key] = len(self.nodes)
            self.nodes.append(key)
            self.depth.append(depth)
            self.constants.append(0.0)
        return slot

    def const(self, value: float) -> Slot:
        slot = self._known.get(("const", value))
        if slot is None:
            slot = len(self.nodes)
            self._known[("const", value)] = slot
            self.nodes.append(("const", 0, 0))
            self.depth.append(0)
            self.constants.append(float(value))
        return slot

    def input(self, k: int) -> Slot:
        return self.first_input + k

    def value(self, slot: Slot) -> float | None:
        """The value of a constant slot."""
        return self.constants[slot] if self.nodes[slot][0] == "const" else None

    def op(self, name: str, a: Slot, b: Slot) -> Slot:
        x, y = self.value(a), self.value(b)
        if x is not None and y is not None:
            return self.const(float(OPERATIONS[name](np.float64(x), np.float64(y))))
        if name in COMMUTATIVE and a > b:
            a, b = b, a
        return self._node((name, a, b), 1 + max(self.depth[a], self.depth[b]))

    def mul(self, a: Slot, b: Slot) -> Slot:
        if ZERO in (a, b):
            return ZERO
        if a == ONE:
            return b
        return a if b == ONE else self.op("mul", a, b)

    def add(self, a: Slot, b: Slot) -> Slot:
        if a == ZERO:
            return b
        return a if b == ZERO else self.op("add", a, b)

    def sub(self, a: Slot, b: Slot) -> Slot:
        if a == b:
            return ZERO
        return a if b == ZERO else self.op("sub", a, b)

    def max(self, a: Slot, b: Slot) -> Slot:
        return a if a == b else self.op("max", a, b)

    def min(self, a: Slot, b: Slot) -> Slot:
        return a if a == b else self.op("min", a, b)

    def ceildiv(self, a: Slot, b: Slot) -> Slot:
        return a if b == ONE else self.op("ceildiv", a, b)

    def floordiv(self, a: Slot, b: Slot) -> Slot:
        return a if b == ONE else self.op("floordiv", a, b)

    def gcd(self, a: Slot, b: Slot) -> Slot:
        return ONE if ONE in (a, b) else self.op("gcd", a, b)

    def choose(self, a: Slot, b: Slot, then: Slot, otherwise: Slot) -> Slot:
        """`then` where a >= b, else `otherwise`."""
        if then == otherwise:
            return then
        hit = self.op("at_least", a, b)
        if self.value(hit) is not None:
            return then if self.value(hit) else otherwise
        return self.add(otherwise, self.mul(hit, self.sub(then, otherwise)))

    def sum(self, slots: Sequence[Slot]) -> Slot:
        total = ZERO
        for slot in slots:
            total = self.add(total, slot)
        return total


class Compiled:
    """A program in its order of evaluation. `place` gives the row of a slot."""

    def __init__(self, program: Program) -> None:
        order = sorted(
            range(len(program.nodes)),
            key=lambda s: (
                program.depth[s],
                program.nodes[s][0] != "const",
                program.nodes[s][0],
                s,
            ),
        )
        self.place: Index = np.empty(len(order), np.intp)
        self.place[order] = np.arange(len(order))
        kinds = [program.nodes[s][0] for s in order]
        self.constants: Array = np.array(
            [program.constants[s] for s, kind in zip(order, kinds) if kind == "const"]
        )[:, None]
        self.first_input = len(self.constants)
        self.inputs = program.inputs
        self.size = len(order)
        self.steps: list[tuple[slice, Callable[[Any, Any], Any], Index, Index]] = []
        start = self.first_input + self.inputs
        while start < self.size:
            stop, head = start, order[start]
            while (
                stop < self.size
                and kinds[stop] == kinds[start]
                and program.depth[order[stop]] == program.depth[head]
            ):
                stop += 1
            pairs = [program.nodes[s] for s in order[start:stop]]
            left = self.place[[a for _, a, _ in pairs]]
            right = self.place[[b for _, _, b in pairs]]
            self.steps.append((slice(start, stop), OPERATIONS[kinds[start]], left, right))
            start = stop

    def run(self, lengths: npt.NDArray[np.int64]) -> Array:
        """The values of all slots, (slots, N), for lengths (N, inputs)."""
        values: Array = np.empty((self.size, len(lengths)))
        first, last = self.first_input, self.first_input + self.inputs
        values[:first] = self.constants
        values[first:last] = lengths.T
        for rows, operation, left, right in self.steps:
            values[rows] = operation(values[left], values[right])
        return values
