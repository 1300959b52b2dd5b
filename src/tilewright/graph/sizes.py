"""Sizes that are not known before a network runs, as expressions of named ones.

A `Size` is a whole number: a sum of products of symbols ("batch"), each at least 1, and of what
cannot be written so (floor divisions, the larger or smaller of two). The sum is in one normal form,
so that sizes that are equal by arithmetic are equal. It stands where an int stands in shapes and
attributes, and is none: what needs a number (`int`, `range`, NumPy's shapes) raises TypeError, and
the network is then compiled for each shape by itself. So no number is ever taken from one size and
used for another.

Sizes are equal (`==`) where they are surely: what is done with those that differ is right, too,
where they do not. Other questions that arithmetic cannot answer (is s + 1 > 512?) are answered for
a likely value of each symbol while a model is imported (`Symbols.asking`), and what was answered is
kept as a condition that is checked at each run; what fails it is compiled for its own shape. `same`
asks so whether sizes are equal, where results depend on it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import inf, prod
from typing import Any

from ..loopir import expr as E
from ..loopir import op as O
from ..rt.signature import Dim, dim_value

Atom = Any
"""The name of a symbol, or (operation, dimension, dimension)."""
Monomial = tuple[Atom, ...]

_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
}


class Symbols:
    """The symbols of one network: a likely value and a variable of each, and the `conditions`
    (dimension, relation to 0, whether it holds) under which the network is what was imported."""

    def __init__(self, part: int = 1) -> None:
        """`part`: likely values are so many times smaller than what is said of them."""
        self.part = part
        self.likely: dict[str, int] = {}
        self.conditions: dict[tuple[Dim, str, bool], None] = {}
        self._variables: dict[str, E.Var] = {}
        self._asking = False

    def size(self, name: str, likely: int) -> Size:
        """The symbol of a name; the first call says what value is likely."""
        self.likely.setdefault(name, max(2, likely // self.part))
        self._variables.setdefault(name, E.SizeVar(name, "int32"))
        return Size(self, {(name,): 1})

    def variable(self, name: str) -> E.Var:
        """What stands for a symbol in tensor expressions."""
        return self._variables[name]

    @property
    def values(self) -> dict[E.Var, int]:
        """The likely values, by variable."""
        return {self._variables[name]: n for name, n in self.likely.items()}

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Let likely values answer what arithmetic cannot, and keep the answers."""
        self._asking = True
        try:
            yield
        finally:
            self._asking = False

    def holds(self, difference: Size, relation: str) -> bool:
        """Whether a size that is no constant is in a relation to 0."""
        least, most = difference.least, -(-difference).least
        for bound in (least, most):
            other = _RELATIONS[relation](bound, 0)
            if bound == least and least > 0:
                return other
            if bound == most and most < 0:
                return other
        if relation == "<=" and most <= 0:
            return True
        if relation == "<" and least >= 0:
            return False
        if not self._asking:
            raise TypeError(f"whether {difference} {relation} 0 depends on the shape")
        dim = difference.dim
        answer = _RELATIONS[relation](dim_value(dim, self.likely), 0)
        self.conditions[dim, relation, answer] = None
        return answer

    def agree(self, difference: Size) -> bool:
        """Whether a difference may be 0, which is a condition then, whatever is likely."""
        if difference.least > 0 or (-difference).least > 0:
            return False
        self.conditions[difference.dim, "==", True] = None
        return True

    def of_expr(self, e: Any) -> Any:
        """The size, or int, that an expression of variables is; None where it is none."""
        if isinstance(e, E.IntImm):
            return e.value
        if isinstance(e, E.Cast):
            return self.of_expr(e.value)
        if isinstance(e, E.Var):
            known = self._variables.get(e.name)
            return Size(self, {(e.name,): 1}) if known is e else None
        function = _OF_NODES.get(type(e))
        if function is None:
            return None
        a, b = self.of_expr(e.a), self.of_expr(e.b)
        return None if a is None or b is None else function(a, b)


class Size:
    """A size; see the head of this file."""

    __slots__ = ("symbols", "terms")

    def __init__(self, symbols: Symbols, terms: Mapping[Monomial, int]) -> None:
        self.symbols = symbols
        kept = [(m, c) for m, c in terms.items() if c]
        self.terms = dict(sorted(kept, key=lambda item: repr(item[0])))

    def _of(self, terms: Mapping[Monomial, int]) -> Any:
        """An int where nothing else is left."""
        made = Size(self.symbols, terms)
        return made.terms.get((), 0) if not made.terms.keys() - {()} else made

    # -- arithmetic

    def __add__(self, other: Any) -> Any:
        mine = _terms(other)
        if mine is None:
            return NotImplemented
        return self._of({m: self.terms.get(m, 0) + mine.get(m, 0) for m in {**self.terms, **mine}})

    def __mul__(self, other: Any) -> Any:
        mine = _terms(other)
        if mine is None:
            return NotImplemented
        found: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in mine.items():
                key = tuple(sorted((*m, *n), key=repr))
                found[key] = found.get(key, 0) + c * d
        return self._of(found)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else self + other * -1

    def __rsub__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else self * -1 + other

    def __floordiv__(self, other: Any) -> Any:
        if _terms(other) is None:
            return NotImplemented
        if isinstance(other, int):
            if other == 0:
                raise ZeroDivisionError(f"{self} // 0")
            if other < 0:
                return (-self) // -other
            whole = {m: c // other for m, c in self.terms.items() if c % other == 0 or m == ()}
            left = {m: c for m, c in self.terms.items() if c % other}
            left[()] = self.terms.get((), 0) % other
            rest = self._of(left)
            first = self._of(whole)
            if isinstance(rest, int):
                return first
            if all(c < 0 for m, c in rest.terms.items() if m):  # one form for each quotient
                return first - (other - 1 - rest) // other
            return first + Size(self.symbols, {(("floordiv", rest.dim, other),): 1})
        quotient = _divided(self, other)
        if quotient is not None:
            return quotient
        return Size(self.symbols, {(("floordiv", self.dim, other.dim),): 1})

    def __rfloordiv__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        if other == 0:
            return 0
        return Size(self.symbols, {(("floordiv", other, self.dim),): 1})

    def __mod__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else self - self // other * other

    def __rmod__(self, other: Any) -> Any:
        return other - other // self * self if isinstance(other, int) else NotImplemented

    # -- comparisons

    def __eq__(self, other: object) -> Any:
        if _terms(other) is None:
            return NotImplemented
        difference = self - other
        return isinstance(difference, int) and difference == 0

    def __hash__(self) -> int:
        return hash((id(self.symbols), tuple(self.terms.items())))

    def __lt__(self, other: Any) -> bool:
        return self._compared(other, "<")

    def __le__(self, other: Any) -> bool:
        return self._compared(other, "<=")

    def __gt__(self, other: Any) -> bool:
        return not self._compared(other, "<=")

    def __ge__(self, other: Any) -> bool:
        return not self._compared(other, "<")

    def __bool__(self) -> bool:
        return not self._compared(0, "==")

    def _compared(self, other: Any, relation: str) -> bool:
        difference = self - other
        if isinstance(difference, int):
            return _RELATIONS[relation](difference, 0)
        return self.symbols.holds(difference, relation)

    @property
    def least(self) -> float:
        """A number that this is never below."""
        return sum(
            c * prod(map(self._least_of, m)) if c > 0 or not m else -inf
            for m, c in self.terms.items()
        )

    def _least_of(self, atom: Atom) -> float:
        return _bounds(atom)[0]

    # -- other forms

    @property
    def dim(self) -> Dim:
        """As rt/signature.py writes dimensions."""
        total: Dim | None = None
        for m, c in sorted(self.terms.items(), key=lambda item: item[1] < 0):
            term: Dim | None = None
            for atom in m:
                term = atom if term is None else ("mul", term, atom)
            size = abs(c) if total is not None else c
            if term is None:
                term = size
            elif size != 1:
                term = ("mul", term, size)
            if total is None:
                total = term
            else:
                total = ("sub" if c < 0 else "add", total, term)
        assert total is not None
        return total

    @property
    def expr(self) -> E.PrimExpr:
        """As an expression of the symbols' variables."""
        made: E.PrimExpr = _expr(self.dim, self.symbols)
        return made

    @property
    def names(self) -> set[str]:
        """The symbols in it."""
        return names_in(self.dim)

    @property
    def likely(self) -> int:
        """Its value for the likely values of its symbols."""
        return dim_value(self.dim, self.symbols.likely)

    def __repr__(self) -> str:
        from ..rt.signature import dim_source

        text = dim_source(self.dim)
        return text[1:-1] if text[:1] == "(" and self.terms and len(self.terms) > 1 else text


def _bounds(dim: Dim) -> tuple[float, float]:
    """Numbers that a dimension is never below, and never above."""
    if isinstance(dim, int):
        return dim, dim
    if isinstance(dim, str):
        return 1, inf
    kind = dim[0]
    (a, most_a), (b, most_b) = _bounds(dim[1]), _bounds(dim[2])
    if kind == "add":
        return a + b, most_a + most_b
    if kind == "sub":
        return a - most_b, most_a - b
    if kind in ("max", "min"):
        choose = max if kind == "max" else min
        return choose(a, b), choose(most_a, most_b)
    if kind == "floormod" and b > 0:
        return 0, most_b - 1
    if kind in ("mul", "floordiv") and a >= 0 and b > 0:
        return (a * b, inf) if kind == "mul" else (0, most_a)
    return -inf, inf


def _terms(x: Any) -> Mapping[Monomial, int] | None:
    if isinstance(x, Size):
        return x.terms
    if isinstance(x, int) or (type(x).__module__ == "numpy" and hasattr(x, "__index__")):
        return {(): int(x)}
    return None


def _divided(a: Size, b: Size) -> Any:
    """a / b where there is no remainder, by long division; else None."""
    rest: Any = a
    lead, by = next(iter(sorted(b.terms.items(), key=lambda t: (-len(t[0]), repr(t[0])))))
    quotient: Any = 0
    for _ in range(len(a.terms) + 1):
        if isinstance(rest, int):
            return quotient if rest == 0 else None
        found = None
        for m, c in sorted(rest.terms.items(), key=lambda t: (-len(t[0]), repr(t[0]))):
            left = list(m)
            if c % by == 0 and all(_taken(left, atom) for atom in lead):
                found = a._of({tuple(left): c // by})
                break
        if found is None:
            return None
        quotient = found + quotient
        rest = rest - b * found
    return quotient if isinstance(rest, int) and rest == 0 else None


def _taken(atoms: list[Atom], atom: Atom) -> bool:
    if atom not in atoms:
        return False
    atoms.remove(atom)
    return True


def same(a: Any, b: Any) -> bool:
    """Whether two sizes are equal, where it matters; see the head of this file."""
    difference = a - b
    if isinstance(difference, Size):
        return difference.symbols.holds(difference, "==")
    return bool(difference == 0)


def agree(a: Any, b: Any) -> bool:
    """Whether two sizes may be equal, and nothing else would be right: two names of one size."""
    difference = a - b
    if isinstance(difference, Size):
        return difference.symbols.agree(difference)
    return bool(difference == 0)


def larger(a: Any, b: Any) -> Any:
    """The larger of two sizes."""
    return _extreme("max", a, b, lambda d: d >= 0)


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two sizes."""
    return _extreme("min", a, b, lambda d: d <= 0)


def _extreme(name: str, a: Any, b: Any, first: Callable[[Any], bool]) -> Any:
    """By the questions of the head of this file: a condition on shapes makes simpler kernels than
    a minimum in each index."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b) if name == "max" else min(a, b)
    return a if first(a - b) else b


_OF_NODES: dict[type, Callable[[Any, Any], Any]] = {
    E.Add: operator.add,
    E.Sub: operator.sub,
    E.Mul: operator.mul,
    E.FloorDiv: operator.floordiv,
    E.FloorMod: operator.mod,
    E.Max: larger,
    E.Min: smaller,
}

_EXPRS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "floormod": operator.mod,
    "max": O.max,
    "min": O.min,
}


def _expr(dim: Dim, symbols: Symbols) -> Any:
    if isinstance(dim, int):
        return E.const(dim, "int32")
    if isinstance(dim, str):
        return symbols.variable(dim)
    return _EXPRS[dim[0]](_expr(dim[1], symbols), _expr(dim[2], symbols))


def names_in(dim: Dim) -> set[str]:
    """The symbols of a dimension."""
    if isinstance(dim, int):
        return set()
    if isinstance(dim, str):
        return {dim}
    return names_in(dim[1]) | names_in(dim[2])


def dim_of(d: Any) -> Dim:
    """A size or number as rt/signature.py writes it."""
    return d.dim if isinstance(d, Size) else int(d)
