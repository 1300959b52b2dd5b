"""Coefficients of variables in an expression, and the limits that conditions put on variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.deep import deep_call, recursive
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir.iter import IterVar
from ..loopir.visit import uses_var
from .analyzer import Analyzer
from .context import Context
from .emit import OutOfRange, emit
from .forms import LINEAR_TYPES, ZERO, Atom, Lin, MaxAtom, MinAtom, MulAtom, add_into, combined
from .simplify.add import melt
from .simplify.divmod import quotient
from .simplify.logic import negate
from .simplify.minmax import extreme
from .simplify.mul import expand, product_of
from .symbolic import Evaluation
from .wrap import fitting

Coefficients = list[Lin]  # one for each variable, then the rest


def _vars(variables: Sequence[Any]) -> list[E.Var]:
    return [v.var if isinstance(v, IterVar) else v for v in variables]


def coefficients(ctx: Context, x: Lin, atoms: Sequence[Atom]) -> Coefficients | None:
    """x = sum(c[i] * atoms[i]) + c[-1] with c free of the atoms; None if there is no such form."""
    depends = Evaluation(ctx, dict.fromkeys(atoms, (None, None))).moves
    x = expand(ctx, x) if any(type(a) is MulAtom and depends(a) for a in x.terms) else x
    found: list[dict[Atom, int]] = [{} for _ in range(len(atoms) + 1)]
    consts = [0] * len(atoms) + [x.const]
    places = {a: i for i, a in enumerate(atoms)}
    for atom, k in x.terms.items():
        if atom in places:
            consts[places[atom]] += k
        elif not depends(atom):
            add_into(found[-1], {atom: k}, 1)
        elif type(atom) is MulAtom:
            inside = [f for f in atom.factors if f in places]
            others = [f for f in atom.factors if f not in places]
            if len(inside) != 1 or any(depends(f) for f in others):
                return None
            y = product_of(ctx, others, atom.dtype)
            add_into(found[places[inside[0]]], y.terms, k)
            consts[places[inside[0]]] += k * y.const
        else:
            return None
    return [melt(ctx, terms, const) for terms, const in zip(found, consts)]


def detect_linear_equation(
    e: Any, variables: Sequence[Any], analyzer: Analyzer | None = None
) -> list[E.PrimExpr]:
    """Coefficients of `variables` in `e` and then the constant part, none of which uses them.

    Empty where `e` is not linear in them. `x*4 + y*n + 3` in [x, y] gives [4, n, 3]. Constants of
    an unsigned type come in the signed one: 128 - u gives [-1, 128]. Raises OperandError where `e`
    is neither a number nor an expression.
    """
    e = E.convert(e)
    names = _vars(variables)
    if e.dtype not in LINEAR_TYPES:
        try:
            return [_signed(x) for x in deep_call(_factors, e, dict.fromkeys(names))]
        except _NotLinear:
            return []
    ctx = (analyzer or Analyzer()).context

    def work(ctx: Context) -> list[E.PrimExpr]:
        atoms = [ctx.space.var(v) for v in names]
        parts = coefficients(ctx, ctx.lin(e), atoms)
        return [emit(p, e.dtype) for p in parts or ()]

    return deep_call(work, ctx)


class _NotLinear(Exception):
    pass


@recursive
def _factors(e: Any, variables: dict[E.Var, None]) -> list[Any]:
    """Coefficients and the rest of a value whose type no linear form has."""
    zero = E.const(0, e.dtype)
    if not uses_var(e, variables.__contains__):
        return [zero] * len(variables) + [e]
    if e in variables:
        return [E.const(1, e.dtype) if e is v else zero for v in variables] + [zero]
    if type(e) not in (E.Add, E.Sub, E.Mul):
        raise _NotLinear
    a, b = _factors(e.a, variables), _factors(e.b, variables)
    if type(e) is E.Mul:
        moved, fixed = (a, e.b) if uses_var(e.a, variables.__contains__) else (b, e.a)
        if uses_var(fixed, variables.__contains__):
            raise _NotLinear
        return [x * fixed for x in moved]
    return [x + y if type(e) is E.Add else x - y for x, y in zip(a, b)]


def _signed(x: Any) -> Any:
    t = parse(x.dtype)
    if not isinstance(x, E.IntImm) or not t.is_uint or t.lanes != 1:
        return x
    half = 1 << (t.bits - 1)
    return E.const(x.value - 2 * half if x.value >= half else x.value, f"int{t.bits}")


def detect_clip_bound(
    e: Any, variables: Sequence[Any], analyzer: Analyzer | None = None
) -> list[E.PrimExpr | None]:
    """Limits [min, max, min, max, ...] that the conjunction `e` puts on each of `variables`.

    A missing limit is None. The result is empty where a part of `e` is no linear comparison in
    exactly one of the variables. Raises OperandError where `e` is neither a number nor an
    expression.
    """
    ctx = (analyzer or Analyzer()).context
    atoms = [ctx.space.var(v) for v in _vars(variables)]
    limits: list[Lin | None] = [None] * (2 * len(atoms))
    dtypes = [v.dtype for v in _vars(variables)]
    try:
        for part in conjuncts(E.convert(e)):
            gaps = gaps_of(ctx, part)
            if gaps is None or not all(_clip(ctx, g, atoms, dtypes, limits) for g in gaps):
                return []
        widths = [d for d in dtypes for _ in range(2)]
        return [None if x is None else emit(fitting(ctx, x, d), d) for x, d in zip(limits, widths)]
    except OutOfRange:
        return []


@recursive
def _clip(
    ctx: Context, gap: Lin, atoms: list[Any], dtypes: list[str], limits: list[Lin | None]
) -> bool:
    for a, k in gap.terms.items():
        if type(a) is (MinAtom if k > 0 else MaxAtom):  # both of its sides fulfil the condition
            rest = Lin({b: c for b, c in gap.terms.items() if b is not a}, gap.const)
            sides = [combined(rest, k, side) for side in (a.a, a.b)]
            return all(_clip(ctx, side, atoms, dtypes, limits) for side in sides)
    parts = coefficients(ctx, gap, atoms)
    if parts is None or any(p.terms for p in parts[:-1]):
        return False
    used = [i for i, p in enumerate(parts[:-1]) if p.const]
    if len(used) != 1:
        return False
    i = used[0]
    k, rest = parts[i].const, parts[-1]
    place, cls = (2 * i, MaxAtom) if k > 0 else (2 * i + 1, MinAtom)
    limit = quotient(ctx, rest, abs(k), dtypes[i])
    if k > 0:
        limit = combined(ZERO, -1, limit)
    old = limits[place]
    limits[place] = limit if old is None else extreme(ctx, cls, old, limit, dtypes[i])
    return True


def conjuncts(e: Any) -> list[Any]:
    """The parts of a conjunction, without `likely`."""
    parts: list[Any] = []
    stack = [e]
    while stack:
        x: Any = stack.pop()
        if type(x) is E.And:
            stack.append(x.b)
            stack.append(x.a)
        elif type(x) is E.Call and x.op.name == "tir.likely":
            stack.append(x.args[0])
        else:
            parts.append(x)
    return parts


def gaps_of(ctx: Context, e: Any) -> list[Lin] | None:
    """Forms that are all >= 0 exactly where the comparison holds; None for other conditions."""
    t = type(e)
    if t is E.Not:
        inner = negate(e.a)
        return None if type(inner) is E.Not else gaps_of(ctx, inner)
    if t not in (E.LT, E.LE, E.GT, E.GE, E.EQ) or e.a.dtype not in LINEAR_TYPES:
        return None
    a, b = ctx.lin(e.a), ctx.lin(e.b)
    if t in (E.GT, E.GE):
        a, b, t = b, a, (E.LT if t is E.GT else E.LE)
    up = combined(b, -1, a)
    if t is E.LT:
        return [Lin(up.terms, up.const - 1)]
    return [up] if t is E.LE else [up, combined(a, -1, b)]
