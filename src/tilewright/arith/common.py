"""Expressions that stand more than once in another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..loopir import expr as E
from ..loopir.equal import structural_equal
from ..loopir.hash import structural_hash
from ..loopir.visit import children, walk


class Counts:
    """How often expressions stand in one: looked up by structure."""

    def __init__(self) -> None:
        self._found: dict[int, list[tuple[E.PrimExpr, int]]] = {}

    def add(self, e: E.PrimExpr) -> None:
        """Count an expression once more."""
        row = self._found.setdefault(structural_hash(e), [])
        for n, (known, count) in enumerate(row):
            if structural_equal(known, e):
                row[n] = (known, count + 1)
                return
        row.append((e, 1))

    def keep(self, threshold: int) -> None:
        """Forget what stands less often."""
        for key, row in list(self._found.items()):
            self._found[key] = [(e, n) for e, n in row if n >= threshold]

    def __getitem__(self, e: Any) -> int:
        for known, count in self._found.get(structural_hash(E.convert(e)), ()):
            if structural_equal(known, e):
                return count
        raise KeyError(e)

    def __contains__(self, e: Any) -> bool:
        try:
            self[e]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[E.PrimExpr]:
        return iter(self.keys())

    def keys(self) -> list[E.PrimExpr]:
        """The expressions."""
        return [e for e, _ in self.items()]

    def values(self) -> list[int]:
        """How often each of `keys` stands there."""
        return [n for _, n in self.items()]

    def items(self) -> list[tuple[E.PrimExpr, int]]:
        """The expressions with their counts."""
        return [pair for row in self._found.values() for pair in row]

    def __len__(self) -> int:
        return len(self.items())


def detect_common_subexpr(e: Any, threshold: int) -> Counts:
    """The parts of an expression that stand in it `threshold` times or more, with how often.

    Variables and constants are not counted. The result is looked up by structure: `counts[part]`.
    Raises OperandError where `e` is neither a number nor an expression.
    """
    counts = Counts()
    for part in walk(E.convert(e)):
        if children(part):
            counts.add(part)
    counts.keep(threshold)
    return counts
