"""Linear forms back to expressions, in the normal form of printed programs.

Terms come in order of first appearance, coefficients after the variable, the constant last,
negative terms as subtractions: `i*32 + j - 5`, `n - i*32`, `31 - n`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..base.deep import recursive
from ..loopir import expr as E
from ..loopir.fold import wrap_int
from .forms import (
    LIMITS,
    Atom,
    DivAtom,
    Lin,
    MaxAtom,
    MinAtom,
    ModAtom,
    MulAtom,
    NarrowLin,
    SplitAtom,
    SumAtom,
    WrapAtom,
)


class OutOfRange(Exception):
    """A constant of the simplified form does not fit its type: keep the expression as it was."""


HALF = 16  # bits of the parts that large constants are written in


@lru_cache(maxsize=8192)
def int_imm(dtype: str, value: int) -> E.PrimExpr:
    """A constant; an int32 past its type, as extents of fused loops are, is written as a sum."""
    if wrap_int(dtype, value) == value:
        return E.IntImm(dtype, value)
    high, low = divmod(value, 1 << HALF)
    if dtype != "int32" or wrap_int(dtype, high) != high:
        raise OutOfRange
    product = E.Mul(E.IntImm(dtype, high), E.IntImm(dtype, 1 << HALF))
    return E.Add(product, E.IntImm(dtype, low)) if low else product


def _split(atom: SplitAtom) -> E.PrimExpr:
    e = emit(atom.x, atom.dtype)
    if atom.upper:
        e = E.FloorMod(e, int_imm(atom.dtype, atom.upper))
    if atom.lower > 1:
        e = E.FloorDiv(e, int_imm(atom.dtype, atom.lower))
    return e


def _product(atom: MulAtom) -> E.PrimExpr:
    first, *rest = atom.factors
    e = emit_atom(first, atom.dtype)
    for f in rest:
        e = E.Mul(e, emit_atom(f, atom.dtype))
    return e


def _pair(cls: type[E.BinaryOp]) -> Any:
    return lambda atom: cls(emit(atom.a, atom.dtype), emit(atom.b, atom.dtype))


_MAKE: dict[type, Any] = {
    SplitAtom: _split,
    MulAtom: _product,
    **dict.fromkeys((SumAtom, WrapAtom), lambda atom: emit(atom.x, atom.dtype)),
    DivAtom: _pair(E.FloorDiv),
    ModAtom: _pair(E.FloorMod),
    MinAtom: _pair(E.Min),
    MaxAtom: _pair(E.Max),
}


@recursive
def _made(atom: Atom) -> E.PrimExpr:
    made: E.PrimExpr = _MAKE[type(atom)](atom)
    return made


def emit_atom(atom: Atom, dtype: str) -> E.PrimExpr:
    """The expression of an atom, as a value of type `dtype`."""
    e = atom.expr
    if e is None:
        e = atom.expr = _made(atom)
    if e.dtype != dtype:
        e = E.Cast(dtype, e)
    return e


def emit(x: Lin, dtype: str) -> E.PrimExpr:
    """The expression of a linear form, of type `dtype` (int32 or int64)."""
    e = x.expr
    if e is not None and e.dtype == dtype:
        return e
    if type(x) is NarrowLin and dtype == "int64":
        e = E.Cast(dtype, _emit(x, "int32"))
    else:
        e = _emit(x, dtype)
    x.expr = e
    return e


def _emit(x: Lin, dtype: str) -> E.PrimExpr:
    terms, const = x.terms, x.const
    if not terms:
        return int_imm(dtype, const)
    result: E.PrimExpr | None = None
    skipped: Atom | None = None
    for atom, k in terms.items():
        if k > 0:
            skipped = atom
            e = emit_atom(atom, dtype)
            result = e if k == 1 else E.Mul(e, int_imm(dtype, k))
            break
    if result is None and const > 0:
        result, const = int_imm(dtype, const), 0
    for atom, k in terms.items():
        if atom is skipped:
            continue
        e = emit_atom(atom, dtype)
        if result is None:
            result = E.Mul(e, int_imm(dtype, k))
        elif k > 0 or k == LIMITS[dtype][0]:
            result = E.Add(result, e if k == 1 else E.Mul(e, int_imm(dtype, k)))
        else:
            result = E.Sub(result, e if k == -1 else E.Mul(e, int_imm(dtype, -k)))
    assert result is not None
    if const > 0 or const == LIMITS[dtype][0]:
        result = E.Add(result, int_imm(dtype, const))
    elif const < 0:
        result = E.Sub(result, int_imm(dtype, -const))
    return result
