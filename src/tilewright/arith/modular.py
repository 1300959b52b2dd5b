"""Modular sets: x = base modulo coefficient.

A coefficient of 0 says that x is the constant `base`, 1 that nothing is known. The lattice is that
of P. Granger, "Static analysis of arithmetical congruences", Int. J. Computer Math. 30, 1989.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..loopir import expr as E
from .forms import (
    LIMITS,
    LINEAR_TYPES,
    Atom,
    Lin,
    MaxAtom,
    MinAtom,
    MulAtom,
    OpaqueAtom,
    SplitAtom,
    SumAtom,
    WrapAtom,
)

if TYPE_CHECKING:
    from .context import Context

Residue = tuple[int, int]  # coefficient, base
ANYTHING: Residue = (1, 0)


def reduced(m: int, b: int) -> Residue:
    return (m, b % m) if m else (0, b)


def join(x: Residue, y: Residue) -> Residue:
    """What holds for both."""
    m = math.gcd(x[0], y[0], x[1] - y[1])
    return reduced(m, x[1])


def meet(x: Residue, y: Residue) -> Residue:
    """A residue that holds where both do (the stronger one, or their combination)."""
    if x[0] == 0 or y[0] == 0:
        return x if x[0] == 0 else y
    g = math.gcd(x[0], y[0])
    if (x[1] - y[1]) % g:
        return x  # no such number: the place is never reached
    m = x[0] // g * y[0]
    step = (y[1] - x[1]) // g * pow(x[0] // g, -1, y[0] // g) if y[0] != g else 0
    return reduced(m, x[1] + x[0] * step)


def product(x: Residue, y: Residue) -> Residue:
    m = math.gcd(x[0] * y[0], x[0] * y[1], x[1] * y[0])
    return reduced(m, x[1] * y[1])


def lin_residue(ctx: Context, x: Lin) -> Residue:
    """The modular set of a linear form."""
    m, b = 0, x.const
    for a, k in x.terms.items():
        if m == 1:
            return ANYTHING
        am, ab = residue(ctx, a)
        m = math.gcd(m, am * k)
        b += ab * k
    return reduced(m, b)


def residue(ctx: Context, atom: Atom) -> Residue:
    """The modular set of an atom."""
    hit = ctx.modular.get(atom)
    if hit is not None:
        return hit
    rule = _RULES.get(type(atom))
    result = rule(ctx, atom) if rule is not None else ANYTHING
    known = ctx.residues.get(atom)
    if known is not None:
        result = meet(result, known)
    low, high = ctx.bound(atom)
    if low == high:
        result = (0, int(low))
    ctx.modular[atom] = result
    return result


def _split(ctx: Context, atom: SplitAtom) -> Residue:
    m, b = lin_residue(ctx, atom.x)
    if atom.upper:
        m = math.gcd(m, atom.upper)
        b %= m
    if atom.lower == 1:
        return reduced(m, b)
    if m % atom.lower == 0:  # x = m*t + b, so x // l = (m/l)*t + b // l
        return reduced(m // atom.lower, b // atom.lower)
    return ANYTHING


def _product(ctx: Context, atom: MulAtom) -> Residue:
    result = (0, 1)
    for f in atom.factors:
        result = product(result, residue(ctx, f))
    return result


def _either(ctx: Context, atom: Any) -> Residue:
    return join(lin_residue(ctx, atom.a), lin_residue(ctx, atom.b))


def _opaque(ctx: Context, atom: Atom) -> Residue:
    e: Any = atom.expr
    if type(e) is E.Select:
        return join(expr_residue(ctx, e.true_value), expr_residue(ctx, e.false_value))
    if type(e) is E.Call:
        name = e.op.name
        if name == "tir.if_then_else":
            return join(expr_residue(ctx, e.args[1]), expr_residue(ctx, e.args[2]))
        if name == "tir.shift_left" and type(e.args[1]) is E.IntImm:
            m, b = expr_residue(ctx, e.args[0])
            shifted = reduced(m << e.args[1].value, b << e.args[1].value)
            return _wrapped(shifted, atom.dtype) if atom.data else shifted
        if name == "tir.shift_right" and type(e.args[1]) is E.IntImm:
            (m, b), s = expr_residue(ctx, e.args[0]), e.args[1].value
            return reduced(m >> s, b >> s) if s >= 0 and m % (1 << s) == 0 else ANYTHING
        if name == "tir.bitwise_and" and type(e.args[1]) is E.IntImm and e.args[1].value > 0:
            mask = e.args[1].value
            if mask & (mask + 1) == 0:  # x modulo mask + 1
                m, b = expr_residue(ctx, e.args[0])
                return reduced(math.gcd(m, mask + 1), b)
            return reduced(mask & -mask, 0)
    if type(e) is E.Mod and type(e.b) is E.IntImm and e.b.value:
        m, b = expr_residue(ctx, e.a)
        return reduced(math.gcd(m, e.b.value), b)
    return ANYTHING


def _wrapped(x: Residue, dtype: str) -> Residue:
    """What stays known of a value that is taken modulo 2^bits."""
    return reduced(math.gcd(x[0], LIMITS[dtype][1] + 1), x[1])


def expr_residue(ctx: Context, e: E.PrimExpr) -> Residue:
    """The modular set of an integer expression; nothing is known of types that wrap."""
    return lin_residue(ctx, ctx.plain.lin(e)) if e.dtype in LINEAR_TYPES else ANYTHING


_RULES: dict[type[Atom], Callable[..., Residue]] = {
    SplitAtom: _split,
    MulAtom: _product,
    SumAtom: lambda ctx, atom: lin_residue(ctx, atom.x),
    WrapAtom: lambda ctx, atom: _wrapped(lin_residue(ctx, atom.x), atom.dtype),
    MinAtom: _either,
    MaxAtom: _either,
    OpaqueAtom: _opaque,
}
