"""Values of expressions kept until one of their variables changes.

A guard in an inner loop often rests on the loops outside alone, and what is unrolled asks for one
index many times. Each variable carries a stamp, a number that grows with every change, so that a
value is still right if the newest stamp of its variables is the one it was computed at. Expressions
that are built alike share one value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.deep import Recursive
from ..base.dtype import parse
from ..loopir import expr as E
from . import np_ops
from .simt_state import State

if TYPE_CHECKING:
    from .simt_expr import Code

Fn = Callable[[State], Any]

_LEAVES = (E.IntImm, E.FloatImm)
_VARS = (E.Var, E.SizeVar)
_FEW = 3  # operations of an expression that is kept if the loop around it does not change it
_MANY = 8  # of one that is kept all the same: other statements may ask for it

# not And and Or: their second part is computed where the first leaves it open
_OPERATIONS = frozenset((*np_ops.BINARY, *np_ops.COMPARE)) - {E.And, E.Or}


class Shape(NamedTuple):
    """What an expression is made of: a number for those built alike, variables that may change,
    operations."""

    number: int
    variables: frozenset[E.Var]
    weight: int


class Keeper(Recursive):
    """Decides what to keep. `inner` is the variable of the loop around the present place."""

    recursive = ("shape",)

    def __init__(self, code: Code) -> None:
        self.code = code
        self.inner: E.Var | None = None
        self.shapes: dict[int, tuple[Any, Shape | None]] = {}  # by identity
        self.numbers: dict[Any, int] = {}
        self.places: dict[int, int] = {}

    def kept(self, e: Any, make: Callable[[Any], Fn]) -> Fn:
        """The function of `e` that `make` gives, with its value kept where that may pay."""
        shape = self.shape(e)
        if shape is None or not self.keeps(e):
            return make(e)
        slots = [self.code.slots[v] for v in shape.variables]
        place = self.places.get(shape.number)
        if place is None:
            place = self.places[shape.number] = self.code.caches
            self.code.caches += 1
        return _function(make(e), place, slots)

    def keeps(self, e: Any) -> bool:
        """Whether the value of `e` is kept here."""
        shape = self.shape(e)
        if shape is None or not shape.variables or shape.weight < _FEW:
            return False
        if self.inner in shape.variables and shape.weight < _MANY:
            return False
        return all(v in self.code.slots for v in shape.variables)

    def shape(self, e: Any) -> Shape | None:
        """None where the value depends on more than variables, or computing it may fail."""
        known = self.shapes.get(id(e))
        if known is None:
            known = self.shapes[id(e)] = (e, self._shape(e))
        return known[1]

    def _shape(self, e: Any) -> Shape | None:
        kind = type(e)
        if kind in _LEAVES:
            return self._made((kind, e.dtype, repr(e.number)), frozenset(), -1)
        if kind in _VARS:
            changes = frozenset() if e in self.code.fixed else frozenset((e,))
            return self._made((kind, id(e)), changes, -1)
        if parse(e.dtype).lanes > 1:
            return None
        if kind is E.Cast:
            x = self.shape(e.value)
            return x and self._made((kind, e.dtype, x.number), x.variables, x.weight)
        if kind not in _OPERATIONS:
            return None
        divides = kind in np_ops.DIVISIONS and parse(e.dtype).is_integer
        if divides and (not isinstance(e.b, E.IntImm) or e.b.value == 0):
            return None
        a, b = self.shape(e.a), self.shape(e.b)
        if a is None or b is None:
            return None
        weight = a.weight + b.weight
        return self._made((kind, e.dtype, a.number, b.number), a.variables | b.variables, weight)

    def _made(self, key: Any, variables: frozenset[E.Var], weight: int) -> Shape:
        number = self.numbers.setdefault(key, len(self.numbers))
        return Shape(number, variables, weight + 1)


def _function(f: Fn, place: int, slots: list[int]) -> Fn:
    if len(slots) == 1:
        (one,) = slots

        def of_one(st: State) -> Any:
            newest, hit = st.stamps[one], st.cache[place]
            if hit is None or hit[0] != newest:
                hit = st.cache[place] = (newest, f(st))
            return hit[1]

        return of_one

    def run(st: State) -> Any:
        stamps, hit = st.stamps, st.cache[place]
        newest = max([stamps[n] for n in slots])
        if hit is None or hit[0] != newest:
            hit = st.cache[place] = (newest, f(st))
        return hit[1]

    return run
