"""Linear forms: what integer expressions are inside the simplifier.

A scalar expression of type int32 or int64 becomes `sum(coefficient * atom) + constant`, whose exact
value over the integers is the value of the expression. Arithmetic on indices does not overflow
(SEMANTICS.md), so its forms are exact as they are; that on data (loopir/data.py) wraps:

- an atom of data lies within the limits of its type, or within what interval arithmetic says
- a sum or product that holds such atoms and cannot be proved to fit its type is a WrapAtom, whose
  inside keeps to ring arithmetic modulo 2^bits: terms are collected, nothing is concluded
- a form that a rule makes up and that is to be the operand of a division, minimum or comparison has
  to fit (`fits`): else the rule does not apply (`Unfit`) and the operation stays as it was written

Atoms are what stays when sums and products by constants are taken apart:

- VarAtom: a variable
- SplitAtom(x, lower, upper): (x mod upper) div lower, rounded down; `upper` 0 means no mod. One
  kind for quotient, remainder and middle digit, so that digits of one number melt together again:
  `x//4*4 + x%4 -> x`, `x%16//4*4 + x%4 -> x%16`
- DivAtom, ModAtom: the same by a divisor that is not a constant
- MulAtom: a product of atoms, not expanded (`(i*32 + j)*stride` is how people wrote it)
- SumAtom: a sum that stands as a factor of a MulAtom
- MinAtom, MaxAtom: of two linear forms
- WrapAtom: a form of data, brought into the range of its type modulo 2^bits
- OpaqueAtom: any other expression (a load, a call, a select), its parts simplified

Atoms are made by a `Space`, which gives equal atoms one identity; forms are equal when their dicts
and constants are. Dicts keep the order of first appearance, which is the order of printing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..loopir.expr import PrimExpr, Var

INF = math.inf
Bound = tuple[float, float]  # least and greatest value; ints, or -INF and INF
LINEAR_TYPES = frozenset(("int32", "int64"))
LIMITS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def limits(dtype: str) -> Bound:
    """The least and the greatest value of a type; none for floats, which occur in what is cast."""
    return LIMITS.get(dtype, (-INF, INF))


class Atom:
    """A term of a linear form that is not a constant; equal atoms are one object."""

    __slots__ = ("data", "dtype", "expr", "uid")
    dtype: str
    uid: int
    data: bool  # whether its value comes from memory, so that arithmetic on it wraps
    expr: PrimExpr | None  # its expression of type `dtype`, once made

    def __init__(self, dtype: str, uid: int) -> None:
        self.dtype = dtype
        self.uid = uid
        self.expr = None
        self.data = False


class VarAtom(Atom):
    __slots__ = ("var",)

    def __init__(self, var: Var, uid: int) -> None:
        super().__init__(var.dtype, uid)
        self.var = var
        self.expr = var


class OpaqueAtom(Atom):
    __slots__ = ()

    def __init__(self, expr: PrimExpr, uid: int) -> None:
        super().__init__(expr.dtype, uid)
        self.expr = expr


class SplitAtom(Atom):
    __slots__ = ("lower", "upper", "x")

    def __init__(self, x: Lin, lower: int, upper: int, dtype: str, uid: int) -> None:
        super().__init__(dtype, uid)
        self.x = x
        self.lower = lower
        self.upper = upper


class _PairAtom(Atom):
    __slots__ = ("a", "b")

    def __init__(self, a: Lin, b: Lin, dtype: str, uid: int) -> None:
        super().__init__(dtype, uid)
        self.a = a
        self.b = b


class DivAtom(_PairAtom):
    __slots__ = ()


class ModAtom(_PairAtom):
    __slots__ = ()


class MinAtom(_PairAtom):
    __slots__ = ()


class MaxAtom(_PairAtom):
    __slots__ = ()


class MulAtom(Atom):
    __slots__ = ("factors",)

    def __init__(self, factors: tuple[Atom, ...], dtype: str, uid: int) -> None:
        super().__init__(dtype, uid)
        self.factors = factors


class SumAtom(Atom):
    __slots__ = ("x",)

    def __init__(self, x: Lin, dtype: str, uid: int) -> None:
        super().__init__(dtype, uid)
        self.x = x


class WrapAtom(SumAtom):
    __slots__ = ()


class Lin:
    """`sum(terms[a] * a) + const`; never changed once made, no zero coefficients."""

    __slots__ = ("const", "expr", "terms")

    def __init__(self, terms: dict[Atom, int], const: int) -> None:
        self.terms = terms
        self.const = const
        self.expr: PrimExpr | None = None


class NarrowLin(Lin):
    """A form whose value an int32 expression has; as int64 it is that expression, converted."""

    __slots__ = ()


ZERO = Lin({}, 0)


def constant(value: int) -> Lin:
    return Lin({}, value)


def atom_lin(atom: Atom) -> Lin:
    return Lin({atom: 1}, 0)


def scaled(x: Lin, k: int) -> Lin:
    """k * x."""
    if k == 1:
        return x
    if k == 0:
        return ZERO
    return Lin({a: c * k for a, c in x.terms.items()}, x.const * k)


def combined(x: Lin, k: int, y: Lin) -> Lin:
    """x + k * y."""
    terms = dict(x.terms)
    add_into(terms, y.terms, k)
    return Lin(terms, x.const + k * y.const)


def add_into(terms: dict[Atom, int], more: Mapping[Atom, int], k: int) -> None:
    """terms += k * more, in place."""
    for a, c in more.items():
        total = terms.get(a, 0) + k * c
        if total:
            terms[a] = total
        else:
            terms.pop(a, None)


def floor_div(a: float, b: int) -> float:
    """a // b for b > 0, where `a` may be infinite."""
    return a if a in (INF, -INF) else a // b


def times(a: float, b: float) -> float:
    """a * b with 0 * infinity = 0, as products of bounds need."""
    return a * b if a and b else 0
