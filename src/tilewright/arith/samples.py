"""Values of variables at which all that a context knows holds: what is false there has no proof.

Most questions of a compiler have no proof, and a search that fails is the longest one. A sample
gives each variable a number between its bounds, at an end of its range or within. Where every fact
of the context holds for these, a form that is below zero there cannot be proved to be zero or more,
since proofs conclude what is true alone. A sample says nothing of a form that it cannot evaluate:
of selections (proofs look into them), of arithmetic that may wrap, of division by zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.deep import recursive
from ..loopir import expr as E
from .forms import (
    INF,
    Atom,
    DivAtom,
    Lin,
    MaxAtom,
    MinAtom,
    ModAtom,
    MulAtom,
    OpaqueAtom,
    SplitAtom,
    SumAtom,
    VarAtom,
)

if TYPE_CHECKING:
    from .context import Context

_LOW, _HIGH, _MIXED, _OPPOSITE, _WITHIN = range(5)
_PLACES = (  # where in its range a variable is, and how far one without an end is from its other
    (_LOW, 1009),
    (_HIGH, 1009),
    (_HIGH, 1),
    (_LOW, 1),
    (_MIXED, 1009),
    (_OPPOSITE, 1009),
    (_WITHIN, 4093),
    (_WITHIN, 29),
)


_REPAIRS = 4


def is_refuted(ctx: Context, x: Lin) -> bool:
    """Whether x is below zero somewhere where all that the context knows holds."""
    samples = ctx.samples
    if samples is None:
        samples = ctx.samples = Samples(ctx)
    for sample in samples.made:
        value = sample.at(x)
        if value is not None and value < 0:
            return True
    while samples.left:
        new = samples.next()
        value = None if new is None else new.at(x)
        if value is not None and value < 0:
            return True
    return False


class Samples:
    """The samples of a context as it is now, made as far as questions need them."""

    __slots__ = ("_ctx", "_facts", "_limited", "left", "made")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._facts = {id(row): row for rows in ctx.facts.values() for row in rows}.values()
        self._limited = [a for a in ctx.known if type(a) is not VarAtom]
        self.made: list[Sample] = []
        self.left = len(_PLACES)

    def next(self) -> Sample | None:
        """One more sample; None where something does not hold there."""
        sample = Sample(self._ctx, *_PLACES[-self.left])
        self.left -= 1
        repairs = 0
        while not self._fits(sample):
            repairs += 1
            if repairs > _REPAIRS or not self._repair(sample):
                return None
        self.made.append(sample)
        return sample

    def _fits(self, sample: Sample) -> bool:
        """Whether all that is known holds at a sample; that of variables alone, it keeps."""
        ctx = self._ctx
        for row in self._facts:
            value = sample.at(row)
            if value is None or value < 0:
                return False
        for atom in self._limited:
            value, (low, high) = sample.value(atom), ctx.known[atom]
            if value is None or not low <= value <= high:
                return False
        for atom, (m, base) in ctx.residues.items():
            value = sample.value(atom)
            if value is None or ((value - base) % m if m else value != base):
                return False
        return True

    def _repair(self, sample: Sample) -> bool:
        """Move a variable without an end as far as the first fact that does not hold demands."""
        for row in self._facts:
            value = sample.at(row)
            if value is None:
                return False
            if value >= 0:
                continue
            for atom, k in row.terms.items():
                if type(atom) is VarAtom and self._ctx.bound(atom)[k > 0] in (INF, -INF):
                    now = sample.values[atom]
                    assert now is not None
                    step = -(value // abs(k))
                    moved = {**sample.moved, atom: now + (step if k > 0 else -step)}
                    sample.moved, sample.values = moved, {}
                    return True
            return False
        return False


class Sample:
    """A number for each variable, chosen when it is first asked for, and so for what proofs do not
    look into."""

    __slots__ = ("ctx", "distance", "moved", "place", "values")

    def __init__(self, ctx: Context, place: int, distance: int) -> None:
        self.ctx = ctx
        self.place = place
        self.distance = distance
        self.values: dict[Atom, int | None] = {}
        self.moved: dict[Atom, int] = {}  # numbers that facts demand

    def at(self, x: Lin) -> int | None:
        """The value of a form; None where it is not known."""
        total, values = x.const, self.values
        for atom, k in x.terms.items():
            value = values[atom] if atom in values else self.value(atom)
            if value is None:
                return None
            total += k * value
        return total

    @recursive
    def value(self, atom: Atom) -> int | None:
        """The value of an atom; None where it is not known."""
        values = self.values
        if atom in values:
            return values[atom]
        values[atom] = None  # for as long as ranges ask for each other
        t = type(atom)
        found: int | None
        if t is VarAtom or t is OpaqueAtom:
            found = None if _is_selection(atom.expr) else self._chosen(atom)
        else:
            rule = _RULES.get(t)
            found = None if rule is None or atom.data else rule(self, atom)
        values[atom] = found
        return found

    def _chosen(self, atom: Atom) -> int | None:
        """A number between the bounds of an atom that is free, and within its symbolic range."""
        low, high = self.ctx.bound(atom)
        for row in self.ctx.ranges.get(atom, ()):
            k = row.terms.get(atom, 0)
            rest = self.at(Lin({a: c for a, c in row.terms.items() if a is not atom}, row.const))
            if rest is None or abs(k) != 1:
                return None
            if k > 0:
                low = max(low, -rest)
            else:
                high = min(high, rest)
        moved = self.moved.get(atom)
        if moved is not None:
            return moved if low <= moved <= high else None
        if low > high:
            return None
        distance = self.distance + atom.uid * 7 % self.distance
        if low == -INF and high == INF:
            low, high = -distance, distance
        elif high == INF:
            return int(low) + distance
        elif low == -INF:
            return int(high) - distance
        return self._between(int(low), int(high), atom.uid)

    def _between(self, low: int, high: int, uid: int) -> int:
        if self.place == _WITHIN:
            return low + uid * 2654435761 * self.distance % (high - low + 1)
        if self.place in (_MIXED, _OPPOSITE):
            return low if uid % 2 == (self.place == _MIXED) else high
        return low if self.place == _LOW else high


def _is_selection(e: Any) -> bool:
    return type(e) is E.Select or (type(e) is E.Call and e.op.name == "tir.if_then_else")


def _split(sample: Sample, atom: SplitAtom) -> int | None:
    x = sample.at(atom.x)
    if x is None:
        return None
    return (x % atom.upper if atom.upper else x) // atom.lower


def _product(sample: Sample, atom: MulAtom) -> int | None:
    result = 1
    for factor in atom.factors:
        value = sample.value(factor)
        if value is None:
            return None
        result *= value
    return result


def _pair(sample: Sample, atom: Any) -> int | None:
    a, b = sample.at(atom.a), sample.at(atom.b)
    if a is None or b is None:
        return None
    t = type(atom)
    if t is MinAtom or t is MaxAtom:
        return min(a, b) if t is MinAtom else max(a, b)
    if b <= 0:
        return None
    return a // b if t is DivAtom else a % b


_RULES: dict[type[Atom], Any] = {
    SplitAtom: _split,
    MulAtom: _product,
    SumAtom: lambda sample, atom: sample.at(atom.x),
    MinAtom: _pair,
    MaxAtom: _pair,
    DivAtom: _pair,
    ModAtom: _pair,
}
