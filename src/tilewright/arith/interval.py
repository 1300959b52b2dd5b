"""Constant bounds of atoms, by interval arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..base.deep import recursive
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir.fold import round_float
from ..loopir.iter import ProducerLoad, Reduce
from .forms import (
    INF,
    LINEAR_TYPES,
    Atom,
    Bound,
    DivAtom,
    MaxAtom,
    MinAtom,
    ModAtom,
    MulAtom,
    OpaqueAtom,
    SplitAtom,
    SumAtom,
    VarAtom,
    WrapAtom,
    floor_div,
    times,
)

if TYPE_CHECKING:
    from .context import Context

EVERYTHING: Bound = (-INF, INF)


def product_bound(x: Bound, y: Bound) -> Bound:
    corners = (times(x[0], y[0]), times(x[0], y[1]), times(x[1], y[0]), times(x[1], y[1]))
    return min(corners), max(corners)


def hull(x: Bound, y: Bound) -> Bound:
    return min(x[0], y[0]), max(x[1], y[1])


def split_bound(x: Bound, lower: int, upper: int) -> Bound:
    """Bounds of (x mod upper) div lower, from those of x."""
    low, high = x
    if upper:
        start = floor_div(low, upper)
        if low == -INF or start != floor_div(high, upper):
            return 0, (upper - 1) // lower
        low, high = low - start * upper, high - start * upper
    return floor_div(low, lower), floor_div(high, lower)


def div_bound(x: Bound, y: Bound) -> Bound:
    """Bounds of x // y, rounded down. y is not zero."""
    low, high = x
    if y[0] < 0:  # as -x // -y
        below = div_bound((-high, -low), (max(-y[1], 1), -y[0]))
        return below if y[1] <= 0 else hull(below, div_bound(x, (1, y[1])))
    if y[1] <= 0:
        return EVERYTHING
    small, big = max(int(y[0]), 1), max(y[1], 1)
    least = floor_div(low, small) if low < 0 else (0 if big == INF else floor_div(low, int(big)))
    most = floor_div(high, small) if high >= 0 else (-1 if big == INF else high // int(big))
    return least, (-1 if high == -INF else most)


def mod_bound(x: Bound, y: Bound) -> Bound:
    """Bounds of x mod y, which has the sign of y. y is not zero."""
    if y[0] < 0:
        below = (y[0] + 1, 0)
        return below if y[1] <= 0 else hull(below, mod_bound(x, (1, y[1])))
    y = max(y[0], 1), max(y[1], 1)
    if x[0] >= 0 and x[1] < y[0]:
        return x
    return 0, min(y[1] - 1, x[1] if x[0] >= 0 else INF)


def _split(ctx: Context, atom: SplitAtom) -> Bound:
    return split_bound(ctx.lin_bound(atom.x), atom.lower, atom.upper)


def _product(ctx: Context, atom: MulAtom) -> Bound:
    if len(atom.factors) == 2 and atom.factors[0] is atom.factors[1]:
        low, high = ctx.bound(atom.factors[0])
        if low < 0 < high:
            return 0, max(low * low, high * high)
    result: Bound = (1, 1)
    for f in atom.factors:
        result = product_bound(result, ctx.bound(f))
    return result


def _min(ctx: Context, atom: MinAtom) -> Bound:
    a, b = ctx.lin_bound(atom.a), ctx.lin_bound(atom.b)
    return min(a[0], b[0]), min(a[1], b[1])


def _max(ctx: Context, atom: MaxAtom) -> Bound:
    a, b = ctx.lin_bound(atom.a), ctx.lin_bound(atom.b)
    return max(a[0], b[0]), max(a[1], b[1])


def type_bound(dtype: str) -> Bound:
    """The values of an integer type; signed ones of 32 bits and more count as unbounded."""
    t = parse(dtype)
    if t.is_float or t.is_handle or (t.is_int and t.bits >= 32):
        return EVERYTHING
    return t.min_value, t.max_value


def expr_bound(ctx: Context, e: Any) -> Bound:
    """Constant bounds of an integer expression that is already simplified, of any type."""
    if e.dtype in LINEAR_TYPES:
        if type(e) is E.IntImm:
            return e.value, e.value
        return ctx.lin_bound(ctx.plain.lin(e))
    limits = type_bound(e.dtype)
    low, high = opaque_bound(ctx, e)
    if low < limits[0] or high > limits[1]:
        return limits  # it may have wrapped
    return low, high


@recursive
def float_bound(ctx: Context, e: Any) -> Bound:
    """Constant bounds of a simplified float expression, unless it is NaN; sums and products, which
    may be computed with one rounding or several, have none."""
    t, kind = parse(e.dtype), type(e)
    if t.lanes > 1 or kind not in _FLOATS or (kind is E.FloatImm and math.isnan(e.number)):
        return EVERYTHING
    low, high = _FLOATS[kind](ctx, e)
    return round_float(e.dtype, low), round_float(e.dtype, high)


def any_bound(ctx: Context, e: Any) -> Bound:
    """Constant bounds of a simplified expression of any type."""
    return (float_bound if parse(e.dtype).is_float else expr_bound)(ctx, e)


@recursive
def opaque_bound(ctx: Context, e: Any) -> Bound:
    """Bounds of a node by its kind, from those of its operands, before any wrapping."""
    rule = _EXPR.get(type(e))
    return rule(ctx, e) if rule is not None else type_bound(e.dtype)


def _imm(_: Context, e: E.IntImm) -> Bound:
    return e.value, e.value


def _var(ctx: Context, e: E.Var) -> Bound:
    known = ctx.known.get(ctx.space.var(e), EVERYTHING)
    limits = type_bound(e.dtype)
    return max(known[0], limits[0]), min(known[1], limits[1])


def _cast(ctx: Context, e: E.Cast) -> Bound:
    limits = type_bound(e.dtype)
    source = parse(e.value.dtype)
    t = parse(e.dtype)
    if not (source.is_integer or source.is_bool):
        low, high = _whole_float_bound(ctx, e.value)
        fit = t.min_value <= low and high <= t.max_value
        return (int(low), int(high)) if fit else limits
    low, high = expr_bound(ctx, e.value)
    if low < t.min_value or high > t.max_value:
        # int32 to int64 keeps the value whatever it is; narrowing may wrap
        widens = source.is_int and t.is_int and t.bits >= source.bits
        return (low, high) if widens else limits
    return low, high


def _whole_float_bound(ctx: Context, e: Any) -> Bound:
    """Bounds of a float that was an integer, and so is no NaN."""
    was = type(e) is E.Cast and parse(e.value.dtype)
    return float_bound(ctx, e) if was and (was.is_integer or was.is_bool) else EVERYTHING


def _choice(ctx: Context, e: Any) -> Bound:
    return hull(any_bound(ctx, e.true_value), any_bound(ctx, e.false_value))


def _trunc(x: float, y: float) -> float:
    if y in (INF, -INF):
        return 0
    if x in (INF, -INF):
        return x if y > 0 else -x
    quotient = abs(int(x)) // abs(int(y))
    return quotient if (x >= 0) == (y >= 0) else -quotient


def _trunc_div(ctx: Context, e: E.Div) -> Bound:
    x, y = expr_bound(ctx, e.a), expr_bound(ctx, e.b)
    divisors = {d for d in (*y, 1, -1) if y[0] <= d <= y[1] and d != 0}
    ends = [_trunc(a, d) for a in x for d in divisors]
    if x[0] <= 0 <= x[1] or y[0] <= 0 <= y[1]:
        ends.append(0)
    return min(ends), max(ends)


def _trunc_mod(ctx: Context, e: E.Mod) -> Bound:
    x, y = expr_bound(ctx, e.a), expr_bound(ctx, e.b)
    most = max(abs(y[0]), abs(y[1]), 1) - 1
    return (0 if x[0] >= 0 else max(-most, x[0])), (0 if x[1] <= 0 else min(most, x[1]))


def _sum(sign: int) -> Callable[..., Bound]:
    def rule(ctx: Context, e: Any) -> Bound:
        x, y = expr_bound(ctx, e.a), expr_bound(ctx, e.b)
        if sign < 0:
            y = (-y[1], -y[0])
        return x[0] + y[0], x[1] + y[1]

    return rule


def _call(ctx: Context, e: E.Call) -> Bound:
    rule = e.op.row.bound
    known = None if rule is None else rule(e, *[any_bound(ctx, a) for a in e.args])
    return type_bound(e.dtype) if known is None else known


def _pick(choose: Callable[..., float]) -> Callable[..., Bound]:
    def rule(ctx: Context, e: Any) -> Bound:
        x, y = any_bound(ctx, e.a), any_bound(ctx, e.b)
        return choose(x[0], y[0]), choose(x[1], y[1])

    return rule


def _floor(rule: Callable[[Bound, Bound], Bound]) -> Callable[..., Bound]:
    """A division rounded down, which gives 0 where the divisor may be 0."""

    def bound(ctx: Context, e: Any) -> Bound:
        y = expr_bound(ctx, e.b)
        found = rule(expr_bound(ctx, e.a), y)
        return hull(found, (0, 0)) if y[0] <= 0 <= y[1] else found

    return bound


_EXPR: dict[type, Callable[..., Bound]] = {
    E.IntImm: _imm,
    E.Var: _var,
    E.SizeVar: lambda ctx, e: (max(0, _var(ctx, e)[0]), _var(ctx, e)[1]),
    E.Cast: _cast,
    E.Select: _choice,
    E.Add: _sum(1),
    E.Sub: _sum(-1),
    E.Mul: lambda ctx, e: product_bound(expr_bound(ctx, e.a), expr_bound(ctx, e.b)),
    E.Div: _trunc_div,
    E.Mod: _trunc_mod,
    E.FloorDiv: _floor(div_bound),
    E.FloorMod: _floor(mod_bound),
    E.Min: _pick(min),
    E.Max: _pick(max),
    E.Call: _call,
    E.Broadcast: lambda ctx, e: expr_bound(ctx, e.value),
    E.Let: lambda ctx, e: type_bound(e.dtype),
    E.BufferLoad: lambda ctx, e: type_bound(e.dtype),
    ProducerLoad: lambda ctx, e: type_bound(e.dtype),
    Reduce: lambda ctx, e: type_bound(e.dtype),
}


_FLOATS: dict[type, Callable[..., Bound]] = {
    E.FloatImm: lambda ctx, e: (e.number, e.number),
    E.Cast: lambda ctx, e: any_bound(ctx, e.value),
    E.Select: _choice,
    E.Min: _pick(min),
    E.Max: _pick(max),
    E.Call: _call,
}


def _symbolic(rule: Callable[[Bound, Bound], Bound]) -> Callable[..., Bound]:
    def bound(ctx: Context, atom: Any) -> Bound:
        return rule(ctx.lin_bound(atom.a), ctx.lin_bound(atom.b))

    return bound


ATOM_BOUNDS: dict[type[Atom], Callable[..., Bound]] = {
    VarAtom: lambda ctx, atom: EVERYTHING,
    SplitAtom: _split,
    MulAtom: _product,
    **dict.fromkeys((SumAtom, WrapAtom), lambda ctx, atom: ctx.lin_bound(atom.x)),
    DivAtom: _symbolic(div_bound),
    ModAtom: _symbolic(mod_bound),
    MinAtom: _min,
    MaxAtom: _max,
    OpaqueAtom: lambda ctx, atom: opaque_bound(ctx, atom.expr),
}
