"""Vectors of indices as base + stride * lane, with linear forms for base and stride."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...base.deep import recursive
from ...base.dtype import parse
from ...loopir import expr as E
from ..emit import OutOfRange, emit
from ..forms import LINEAR_TYPES, ZERO, Lin, combined, floor_div
from ..wrap import in_type, is_data
from .add import add
from .divmod import quotient, remainder
from .mul import multiply

if TYPE_CHECKING:
    from ..context import Context

Vector = tuple[Lin, Lin]  # base, stride


@recursive
def as_vector(ctx: Context, e: Any, lanes: int, element: str) -> Vector | None:
    """Base and stride of an index vector, or None if it has no constant step."""
    t = type(e)
    if t is E.Ramp:
        if e.base.dtype != element:
            return None
        return ctx.lin(e.base), ctx.lin(e.stride)
    if t is E.Broadcast:
        return (ctx.lin(e.value), ZERO) if e.value.dtype == element else None
    if t not in (E.Add, E.Sub, E.Mul, E.FloorDiv, E.FloorMod):
        return None
    a = as_vector(ctx, e.a, lanes, element)
    b = as_vector(ctx, e.b, lanes, element) if a is not None else None
    if a is None or b is None:
        return None
    if t is E.Add or t is E.Sub:
        k = 1 if t is E.Add else -1
        return _in_type(ctx, (add(ctx, a[0], k, b[0]), add(ctx, a[1], k, b[1])), element)
    if t is E.Mul:
        if _uniform(a):
            a, b = b, a
        if not _uniform(b):
            return None
        product = multiply(ctx, a[0], b[0], element), multiply(ctx, a[1], b[0], element)
        return _in_type(ctx, product, element)
    return None if _is_data(ctx, a) or _is_data(ctx, b) else _divided(ctx, t, a, b, lanes, element)


def _is_data(ctx: Context, v: Vector) -> bool:
    """Whether lanes may wrap between each other."""
    return is_data(ctx, v[0]) or is_data(ctx, v[1])


def _in_type(ctx: Context, v: Vector, element: str) -> Vector:
    return in_type(ctx, v[0], element), in_type(ctx, v[1], element)


def _uniform(v: Vector) -> bool:
    return not v[1].terms and v[1].const == 0


def _divided(
    ctx: Context, cls: type, a: Vector, b: Vector, lanes: int, element: str
) -> Vector | None:
    c, stride = b[0].const, a[1].const
    if not _uniform(b) or b[0].terms or c <= 0 or a[1].terms:
        return None
    if stride % c == 0:
        if cls is E.FloorMod:
            return remainder(ctx, a[0], c, element), ZERO
        return quotient(ctx, a[0], c, element), Lin({}, stride // c)
    low = remainder(ctx, a[0], c, element)
    first = ctx.lin_bound(low)
    last = first[0] + stride * (lanes - 1), first[1] + stride * (lanes - 1)
    ends = (*first, *last)
    if any(floor_div(x, c) != 0 for x in ends) and not _aligned(ctx, low, stride, lanes, c):
        return None
    if cls is E.FloorMod:
        return low, a[1]
    return quotient(ctx, a[0], c, element), ZERO


def _aligned(ctx: Context, low: Lin, stride: int, lanes: int, c: int) -> bool:
    """Whether `low`, known modulo a divisor of c, cannot step over the end of its period."""
    from ..modular import lin_residue

    m, b = lin_residue(ctx, low)
    return m > 1 and c % m == 0 and 0 <= b + stride * (lanes - 1) < m


def from_vector(v: Vector, lanes: int, element: str) -> E.PrimExpr:
    base = emit(v[0], element)
    if _uniform(v):
        return E.Broadcast(base, lanes)
    return E.Ramp(base, emit(v[1], element), lanes)


def vector_arithmetic(ctx: Context, e: Any) -> Any | None:
    """The simplified form of arithmetic on index vectors; None if it is none."""
    t = parse(e.dtype)
    if t.element not in LINEAR_TYPES:
        return None
    v = as_vector(ctx, e, t.lanes, t.element)
    if v is None:
        return None
    try:
        return from_vector(v, t.lanes, t.element)
    except OutOfRange:
        return e


def compare_vectors(
    ctx: Context, cls: type, a: Any, b: Any, decide: Callable[..., bool | None]
) -> Any | None:
    """A comparison that has one answer in all lanes (as a scalar condition), or None."""
    t = parse(a.dtype)
    if t.element not in LINEAR_TYPES:
        return None
    x = as_vector(ctx, a, t.lanes, t.element)
    y = as_vector(ctx, b, t.lanes, t.element) if x is not None else None
    if x is None or y is None:
        return None
    if _uniform(x) and _uniform(y):
        return ctx.simp(cls(emit(x[0], t.element), emit(y[0], t.element)))
    if _is_data(ctx, x) or _is_data(ctx, y):
        return None
    if cls in (E.EQ, E.NE):
        return _never_equal(ctx, cls, x, y, t.lanes, decide)
    known = decide(ctx, cls, x[0], y[0])
    if known is None:
        return None
    last = decide(ctx, cls, _lane(x, t.lanes - 1), _lane(y, t.lanes - 1))
    return E.IntImm("bool", int(known)) if known is last else None


def _lane(v: Vector, lane: int) -> Lin:
    return combined(v[0], lane, v[1])


def _never_equal(
    ctx: Context, cls: type, x: Vector, y: Vector, lanes: int, decide: Callable[..., bool | None]
) -> Any | None:
    """x == y in no lane, since x < y in all or y < x in all."""
    for p, q in ((x, y), (y, x)):
        if decide(ctx, E.LT, p[0], q[0]) and decide(
            ctx, E.LT, _lane(p, lanes - 1), _lane(q, lanes - 1)
        ):
            return E.IntImm("bool", int(cls is E.NE))
    return None
