"""One identity for equal atoms and equal expressions.

A Space belongs to one Analyzer and lives as long; nothing in it depends on what is known about
variables, so it never forgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..base.deep import recursive
from ..loopir import expr as E
from ..loopir.data import is_data
from ..loopir.effects import CallEffectKind, effect_of
from ..loopir.iter import ProducerLoad, Reduce
from ..loopir.visit import CHILDREN, walk
from .forms import (
    Atom,
    DivAtom,
    Lin,
    MaxAtom,
    MinAtom,
    ModAtom,
    MulAtom,
    NarrowLin,
    OpaqueAtom,
    SplitAtom,
    SumAtom,
    VarAtom,
    WrapAtom,
    atom_lin,
)


def _key(x: Lin) -> tuple[frozenset[tuple[Atom, int]], int]:
    return frozenset(x.terms.items()), x.const


class Space:
    """Tables that give equal atoms and expressions one object or number."""

    __slots__ = ("_atoms", "_count", "_ids", "_names", "_vars_of", "data", "lets", "vars")

    def __init__(self) -> None:
        self.vars: dict[int, VarAtom] = {}  # by id(var); the atom keeps the var alive
        self._atoms: dict[Any, Any] = {}
        self._ids: dict[int, tuple[E.PrimExpr, int]] = {}
        self._names: dict[Any, int] = {}
        self._vars_of: dict[Atom, tuple[Atom, ...]] = {}
        self._count = 0
        self.data = False  # whether any atom is data: most programs' indices have none
        self.lets: set[E.Var] = set()  # variables that stand for data

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _made(self, key: Any, atom: Any, parts: Iterable[Any]) -> Any:
        """A new atom, which is data if an atom among `parts` is."""
        if self.data and any(a.data for a in parts):
            atom.data = True
        self._atoms[key] = atom
        return atom

    def let(self, var: E.Var) -> VarAtom:
        """The atom of a variable that stands for data."""
        atom = self.var(var)
        atom.data = self.data = True
        self.lets.add(var)
        return atom

    def var(self, var: E.Var) -> VarAtom:
        atom = self.vars.get(id(var))
        if atom is None:
            atom = self.vars[id(var)] = VarAtom(var, self._next())
        return atom

    def opaque(self, e: E.PrimExpr) -> OpaqueAtom:
        key = (OpaqueAtom, self.uid(e))
        atom: OpaqueAtom | None = self._atoms.get(key)
        if atom is None:
            atom = self._atoms[key] = OpaqueAtom(e, self._next())
            if is_data(e, self.lets):
                atom.data = self.data = True
        return atom

    def split(self, x: Lin, lower: int, upper: int, dtype: str) -> SplitAtom:
        key = (SplitAtom, frozenset(x.terms.items()), x.const, lower, upper, dtype)
        atom: SplitAtom | None = self._atoms.get(key)
        if atom is None:
            atom = self._made(key, SplitAtom(x, lower, upper, dtype, self._next()), x.terms)
        return atom

    def pair(
        self, cls: type[DivAtom | ModAtom | MinAtom | MaxAtom], a: Lin, b: Lin, dtype: str
    ) -> Atom:
        if type(a) is NarrowLin or type(b) is NarrowLin:
            a, b = Lin(a.terms, a.const), Lin(b.terms, b.const)
        keys = (_key(a), _key(b))
        if cls in (MinAtom, MaxAtom):
            key: Any = (cls, frozenset(keys), dtype)
        else:
            key = (cls, keys, dtype)
        atom: Atom | None = self._atoms.get(key)
        if atom is None:
            atom = self._made(key, cls(a, b, dtype, self._next()), (*a.terms, *b.terms))
        return atom

    def product(self, factors: tuple[Atom, ...], dtype: str) -> Atom:
        key = (MulAtom, tuple(sorted(f.uid for f in factors)), dtype)
        atom: MulAtom | None = self._atoms.get(key)
        if atom is None:
            atom = self._made(key, MulAtom(factors, dtype, self._next()), factors)
        return atom

    def factor(self, x: Lin, dtype: str) -> Atom:
        """The atom that stands for `x` in a product (itself, if `x` is one)."""
        if len(x.terms) == 1 and not x.const:
            ((atom, k),) = x.terms.items()
            if k == 1:
                return atom
        key = (SumAtom, type(x), _key(x), dtype)
        atom2: SumAtom | None = self._atoms.get(key)
        if atom2 is None:
            atom2 = self._made(key, SumAtom(x, dtype, self._next()), x.terms)
        return atom2

    def wrap(self, x: Lin, dtype: str) -> WrapAtom:
        key = (WrapAtom, _key(x), dtype)
        atom: WrapAtom | None = self._atoms.get(key)
        if atom is None:
            atom = self._made(key, WrapAtom(x, dtype, self._next()), ())
            atom.data = True
        return atom

    @staticmethod
    def factor_lin(atom: Atom) -> Lin:
        """The form that a factor stands for."""
        return atom.x if type(atom) is SumAtom else atom_lin(atom)

    def vars_of(self, atom: Any) -> tuple[Atom, ...]:
        """The variables in an atom, each once."""
        hit = self._vars_of.get(atom)
        if hit is None:
            hit = self._vars_of[atom] = self._all_vars(atom)
        return hit

    @recursive
    def _all_vars(self, atom: Any) -> tuple[Atom, ...]:
        return tuple(dict.fromkeys(self._collect(atom)))

    def _collect(self, atom: Any) -> Iterator[Atom]:
        t = type(atom)
        if t is VarAtom:
            yield atom
        elif t is OpaqueAtom:
            for x in walk(atom.expr):
                if isinstance(x, E.Var):
                    yield self.var(x)
        elif t is MulAtom:
            for f in atom.factors:
                yield from self.vars_of(f)
        else:
            parts = (atom.x,) if t in (SplitAtom, SumAtom, WrapAtom) else (atom.a, atom.b)
            for part in parts:
                for a in part.terms:
                    yield from self.vars_of(a)

    def uid(self, e: Any) -> int:
        """A number that two expressions share exactly if they always have the same value."""
        hit = self._ids.get(id(e))
        if hit is not None:
            return hit[1]
        key = self._expr_key(e)
        number = self._names.get(key)
        if number is None:
            number = self._names[key] = self._next()
        self._ids[id(e)] = (e, number)
        return number

    @recursive
    def _expr_key(self, e: Any) -> Any:
        t = type(e)
        if t in (E.Var, E.SizeVar, Reduce, E.Let):
            return id(e)
        if t in (E.IntImm, E.StringImm):
            return (t, e.dtype, e.value)
        if t is E.FloatImm:
            return (t, e.dtype, repr(e.number))
        below = tuple([self.uid(c) for c in CHILDREN[t](e)])
        if t is E.Call:
            if effect_of(e.op) > CallEffectKind.ReadState:
                return id(e)
            return (t, e.dtype, e.op.name, below)
        if t is E.BufferLoad:
            self._ids[id(e.buffer)] = (e.buffer, 0)
            return (t, id(e.buffer), e.predicate is None, below)
        if t is ProducerLoad:
            self._ids[id(e.producer)] = (e.producer, 0)
            return (t, id(e.producer), below)
        if t is E.Shuffle:
            return (t, e.indices, below)
        if t in (E.Ramp, E.Broadcast):
            return (t, e.lanes, below)
        return (t, e.dtype, below)
