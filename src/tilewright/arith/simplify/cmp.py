"""Comparisons: decided by proof, else common terms, constants and factors cancelled.

`a > b` becomes `b < a` and `a >= b` becomes `b <= a`; otherwise what was written left stays left.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir.operators import compare as fold_compare
from ..assume import is_unequal
from ..emit import OutOfRange, emit
from ..forms import LIMITS, LINEAR_TYPES, Atom, Lin, SplitAtom, combined, scaled
from ..interval import expr_bound, float_bound
from ..modular import lin_residue
from ..prove import SIMPLIFY_STEPS, proves
from ..wrap import fits
from .vector import compare_vectors

if TYPE_CHECKING:
    from ..context import Context

TRUE, FALSE = E.IntImm("bool", 1), E.IntImm("bool", 0)
_SWAP = {E.GT: E.LT, E.GE: E.LE}
NEGATED = {E.LT: E.GE, E.LE: E.GT, E.GT: E.LE, E.GE: E.LT, E.EQ: E.NE, E.NE: E.EQ}


def boolean(value: bool, dtype: str = "bool") -> E.PrimExpr:
    """A constant condition, scalar or in every lane."""
    scalar = TRUE if value else FALSE
    lanes = parse(dtype).lanes
    return scalar if lanes == 1 else E.Broadcast(scalar, lanes)


def comparison(ctx: Context, e: Any) -> Any:
    """A simplified comparison."""
    cls, a, b = type(e), e.a, e.b
    if cls in _SWAP:
        cls, a, b = _SWAP[cls], b, a
    if a.dtype not in LINEAR_TYPES:
        return _with_truth(ctx, _other_types(ctx, e, cls, a, b))
    x, y = ctx.lin(a), ctx.lin(b)
    known = decide(ctx, cls, x, y)
    if known is not None:
        return boolean(known)
    try:
        result = _rebuilt(ctx, cls, x, y, a.dtype)
    except OutOfRange:
        return e
    return _with_truth(ctx, result)


def decide(ctx: Context, cls: Any, x: Lin, y: Lin, steps: int = SIMPLIFY_STEPS) -> bool | None:
    """Whether x < y (LT), x <= y (LE), x == y (EQ), x != y (NE); None if not proved."""
    gap = combined(y, -1, x)
    if not gap.terms:
        c = gap.const
        return {E.LT: c > 0, E.LE: c >= 0, E.EQ: c == 0, E.NE: c != 0}[cls]
    if cls is E.LT or cls is E.LE:
        strict = cls is E.LT
        if proves(ctx, Lin(gap.terms, gap.const - strict), steps):
            return True
        if proves(
            ctx, Lin({a: -k for a, k in gap.terms.items()}, -gap.const - (not strict)), steps
        ):
            return False
        return None
    above, below = Lin(gap.terms, gap.const - 1), scaled(gap, -1)
    below = Lin(below.terms, below.const - 1)
    m, b = lin_residue(ctx, gap)
    if (m != 1 and (b % m if m else b)) or proves(ctx, above, steps) or proves(ctx, below, steps):
        return cls is E.NE
    if ctx.unequal and is_unequal(ctx, gap):
        return cls is E.NE
    if (
        (ctx.facts or ctx.ranges)
        and proves(ctx, gap, steps)
        and proves(ctx, scaled(gap, -1), steps)
    ):
        return cls is E.EQ
    return None


def holds(ctx: Context, cls: Any, x: Lin, y: Lin, steps: int = SIMPLIFY_STEPS) -> bool:
    """Whether `decide` says True, without a search for a proof of the opposite."""
    if cls is E.EQ:
        return decide(ctx, cls, x, y, steps) is True
    gap = combined(y, -1, x)
    if cls is not E.NE:
        return proves(ctx, Lin(gap.terms, gap.const - (cls is E.LT)), steps)
    if not gap.terms:
        return gap.const != 0
    m, b = lin_residue(ctx, gap)
    if (m != 1 and (b % m if m else b)) or (ctx.unequal and is_unequal(ctx, gap)):
        return True
    above, below = Lin(gap.terms, gap.const - 1), scaled(gap, -1)
    return proves(ctx, above, steps) or proves(ctx, Lin(below.terms, below.const - 1), steps)


def _sides(x: Lin, y: Lin) -> tuple[dict[Atom, int], dict[Atom, int], int]:
    """x beside y as left beside right + c, without what both have."""
    left: dict[Atom, int] = {}
    right: dict[Atom, int] = {}
    for atom, k in x.terms.items():
        other = y.terms.get(atom, 0)
        if k == other:
            continue
        if abs(k) > abs(other):
            left[atom] = k - other
        else:
            right[atom] = other - k
    for atom, k in y.terms.items():
        if atom not in x.terms:
            right[atom] = k
    return left, right, y.const - x.const


def _rebuilt(ctx: Context, cls: type, x: Lin, y: Lin, dtype: str) -> E.PrimExpr:
    left, right, c = _sides(x, y)
    if cls not in (E.EQ, E.NE) and not (left and right):
        undivided = _undivided(ctx, cls, left or {a: -k for a, k in right.items()}, c, dtype)
        if undivided is not None:
            x, y = undivided
            left, right, c = _sides(x, y)
    g = math.gcd(*left.values(), *right.values())
    if g > 1:
        if cls in (E.EQ, E.NE) and c % g:
            return boolean(cls is E.NE)
        left = {a: k // g for a, k in left.items()}
        right = {a: k // g for a, k in right.items()}
        c = -(-c // g) if cls is E.LT else c // g
    if c == 0 and (not right or not left):
        left, right = _balanced(left, right)
    if not right and all(k < 0 for k in left.values()):
        left, right = {}, {a: -k for a, k in left.items()}
        if cls in (E.EQ, E.NE):
            left, right, c = right, left, -c
    elif not left and all(k < 0 for k in right.values()):
        left, right = {a: -k for a, k in right.items()}, {}
    least, most = LIMITS[dtype]
    if cls in (E.EQ, E.NE) and list(left.values()) == [1] and not right and not least <= c <= most:
        return boolean(cls is E.NE)
    if not right:
        a, b = Lin(left, 0), Lin(right, c)
    elif not left or (x.const != 0 and y.const == 0):
        a, b = Lin(left, -c), Lin(right, 0)
    else:
        a, b = Lin(left, 0), Lin(right, c)
    if not (fits(ctx, a, dtype) and fits(ctx, b, dtype)):
        a, b = x, y
    result: E.PrimExpr = cls(emit(a, dtype), emit(b, dtype))
    return result


def _undivided(
    ctx: Context, cls: type, terms: dict[Atom, int], c: int, dtype: str
) -> tuple[Lin, Lin] | None:
    """`rest + n // d < c` as `rest*d + n < c*d`, a constant beside which it says the same; None
    where there is no such quotient or several, or where the form has more terms or might not fit.

    Quotients are split where divisors leave something over, `(32*b + t) // 29` into
    `b + (3*b + t) // 29`, of which a limit is one of `32*b + t` again.
    """
    quotients = [a for a, k in terms.items() if type(a) is SplitAtom and not a.upper and k**2 == 1]
    if len(quotients) != 1:
        return None
    (q,) = quotients
    rest = Lin({a: k for a, k in terms.items() if a is not q}, 0)
    whole = combined(scaled(rest, q.lower), terms[q], q.x)
    if terms[q] == 1:  # below the next multiple of d
        limit = c * q.lower + (q.lower - 1 if cls is E.LE else 0)
    else:  # rest <= c + n // d, or rest <= c - 1 + n // d
        limit = c * q.lower if cls is E.LE else (c - 1) * q.lower + 1
    least, most = LIMITS[dtype]
    low, high = ctx.lin_bound(whole) if rest.terms else (least, most)
    if len(whole.terms) > max(len(rest.terms), len(q.x.terms)) or not fits(ctx, whole, dtype):
        return None
    if not (least <= low and high <= most and least <= limit - whole.const <= most):
        return None
    return Lin(whole.terms, 0), Lin({}, limit - whole.const)


def _balanced(
    left: dict[Atom, int], right: dict[Atom, int]
) -> tuple[dict[Atom, int], dict[Atom, int]]:
    """x - y < 0 as x < y: negative terms of the only side that has terms go to the other."""
    both = left or right
    plus = {a: k for a, k in both.items() if k > 0}
    minus = {a: -k for a, k in both.items() if k < 0}
    if not plus or not minus:
        return left, right
    return (plus, minus) if left else (minus, plus)


def _with_truth(ctx: Context, e: Any) -> Any:
    if not ctx.truths or type(e) is E.IntImm:
        return e
    known = ctx.truths.get(ctx.space.uid(e))
    if known is None and type(e) in (E.EQ, E.NE):
        known = ctx.truths.get(ctx.space.uid(NEGATED[type(e)](e.a, e.b)))
        known = None if known is None else not known
    return e if known is None else boolean(known, e.dtype)


def _other_types(ctx: Context, e: Any, cls: type, a: Any, b: Any) -> Any:
    t = parse(a.dtype)
    if t.lanes > 1:
        decided = compare_vectors(ctx, cls, a, b, decide)
        if decided is not None:
            return decided if decided.dtype != "bool" else E.Broadcast(decided, t.lanes)
    x, y = ctx.simp(a), ctx.simp(b)
    if type(x) in (E.IntImm, E.FloatImm) and type(y) in (E.IntImm, E.FloatImm):
        return fold_compare(cls, x, y)
    if t.lanes == 1 and (t.is_integer or t.is_bool):
        p, q = expr_bound(ctx, x), expr_bound(ctx, y)
        known = _by_bounds(cls, p, q)
        if known is None and ctx.space.uid(x) == ctx.space.uid(y):
            known = cls in (E.LE, E.EQ)
        if known is not None:
            return boolean(known)
    if t.lanes == 1 and t.is_float:
        known = _by_bounds(cls, float_bound(ctx, x), float_bound(ctx, y))
        if known is (cls is E.NE):  # what NaN gives too
            return boolean(known)
    if x is a and y is b and cls is type(e):
        return e
    if x is e.a and y is e.b:
        return e
    return cls(x, y)


def _by_bounds(cls: type, p: tuple[float, float], q: tuple[float, float]) -> bool | None:
    if cls is E.LT:
        return True if p[1] < q[0] else False if p[0] >= q[1] else None
    if cls is E.LE:
        return True if p[1] <= q[0] else False if p[0] > q[1] else None
    if p[1] < q[0] or p[0] > q[1]:
        return cls is E.NE
    if p[0] == p[1] == q[0] == q[1]:
        return cls is E.EQ
    return None
