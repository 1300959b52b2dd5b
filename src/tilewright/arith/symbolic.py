"""Symbolic interval arithmetic on linear forms: the work of eval_set."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..base.deep import recursive
from ..loopir import expr as E
from ..loopir.visit import CHILDREN
from .forms import (
    INF,
    ZERO,
    Atom,
    DivAtom,
    Lin,
    MaxAtom,
    MinAtom,
    ModAtom,
    MulAtom,
    OpaqueAtom,
    SplitAtom,
    SumAtom,
    VarAtom,
    WrapAtom,
    add_into,
    atom_lin,
    constant,
    limits,
)
from .simplify.add import add, melt
from .simplify.divmod import divide, quotient
from .simplify.minmax import extreme
from .simplify.mul import multiply
from .wrap import Unfit

if TYPE_CHECKING:
    from .context import Context

Ends = tuple[Lin | None, Lin | None]  # None: no limit
UNLIMITED: Ends = (None, None)


class Evaluation:
    """One question: the ends of forms while the variables of `dom` run between theirs."""

    __slots__ = ("_atoms", "_moving", "ctx", "dom")

    def __init__(self, ctx: Context, dom: dict[Any, Ends]) -> None:
        self.ctx = ctx
        self.dom = dom
        self._moving: dict[Atom, bool] = {}
        self._atoms: dict[Atom, Ends] = {}

    def moves(self, atom: Atom) -> bool:
        """Whether an atom depends on a variable of the domain."""
        hit = self._moving.get(atom)
        if hit is None:
            hit = self._moving[atom] = self._depends(atom)
        return hit

    @recursive
    def _depends(self, atom: Any) -> bool:
        t = type(atom)
        if t is VarAtom:
            return atom in self.dom
        if t is OpaqueAtom:
            return self._expr_depends(atom.expr)
        if t is MulAtom:
            return any(self.moves(f) for f in atom.factors)
        if t is SplitAtom or t is SumAtom or t is WrapAtom:
            return any(self.moves(a) for a in atom.x.terms)
        return any(self.moves(a) for x in (atom.a, atom.b) for a in x.terms)

    def _expr_depends(self, e: Any) -> bool:
        stack, variables, dom = [e], self.ctx.space.vars, self.dom
        while stack:
            x = stack.pop()
            if isinstance(x, E.Var):
                if variables.get(id(x)) in dom:
                    return True
            else:
                stack.extend(CHILDREN[type(x)](x))
        return False

    def lin(self, x: Lin) -> Ends:
        """The ends of a linear form."""
        moves = self.moves
        if not any(moves(a) for a in x.terms):
            return x, x
        low: dict[Atom, int] | None = {}
        high: dict[Atom, int] | None = {}
        low_const = high_const = x.const
        for a, k in x.terms.items():
            first, last = self.atom(a) if moves(a) else (atom_lin(a),) * 2
            if k < 0:
                first, last = last, first
            if first is None:
                low = None
            elif low is not None:
                add_into(low, first.terms, k)
                low_const += k * first.const
            if last is None:
                high = None
            elif high is not None:
                add_into(high, last.terms, k)
                high_const += k * last.const
        return (
            None if low is None else melt(self.ctx, low, low_const),
            None if high is None else melt(self.ctx, high, high_const),
        )

    def atom(self, atom: Atom) -> Ends:
        """The ends of an atom that moves."""
        hit = self._atoms.get(atom)
        if hit is not None:
            return hit
        ends = self.dom.get(atom)
        if ends is None:
            try:
                ends = self._by_rule(atom)
            except Unfit:
                ends = UNLIMITED
            if None in ends:
                ends = self._limited(atom, ends)
        self._atoms[atom] = ends
        return ends

    @recursive
    def _by_rule(self, atom: Atom) -> Ends:
        return _RULES[type(atom)](self, atom)

    def _limited(self, atom: Atom, ends: Ends) -> Ends:
        """Missing ends from constant bounds, with those of the domain's variables known."""
        ctx = self.ctx
        ctx.push()
        try:
            for var, (low, high) in self.dom.items():
                first = -INF if low is None else ctx.lin_bound(low)[0]
                last = INF if high is None else ctx.lin_bound(high)[1]
                self._know(var, first, last)
            bounds = ctx.bound(atom)
        finally:
            ctx.pop()
        low, high = ends
        least, most = limits(atom.dtype) if atom.data else (-INF, INF)  # say nothing of data
        if low is None and bounds[0] > least:
            low = constant(int(bounds[0]))
        if high is None and bounds[1] < most:
            high = constant(int(bounds[1]))
        return low, high

    def _know(self, var: Atom, first: float, last: float) -> None:
        known = self.ctx.known
        old = known.get(var)
        known[var] = (first, last)

        def undo() -> None:
            if old is None:
                del known[var]
            else:
                known[var] = old

        self.ctx.learned(undo)


def _split(ev: Evaluation, atom: SplitAtom) -> Ends:
    ctx, dtype = ev.ctx, atom.dtype
    low, high = ev.lin(atom.x)
    if not atom.upper:
        return (
            None if low is None else quotient(ctx, low, atom.lower, dtype),
            None if high is None else quotient(ctx, high, atom.lower, dtype),
        )
    u = atom.upper
    if low is not None and high is not None:
        first, last = quotient(ctx, low, u, dtype), quotient(ctx, high, u, dtype)
        if first.const == last.const and first.terms == last.terms:
            start, end = add(ctx, low, -u, first), add(ctx, high, -u, first)
            return quotient(ctx, start, atom.lower, dtype), quotient(ctx, end, atom.lower, dtype)
    return ZERO, constant((u - 1) // atom.lower)


def _sum(ev: Evaluation, atom: SumAtom) -> Ends:
    return ev.lin(atom.x)


def _times(ev: Evaluation, x: Lin | None, y: Lin | None, dtype: str) -> Lin | None:
    return None if x is None or y is None else multiply(ev.ctx, x, y, dtype)


def _product(ev: Evaluation, atom: MulAtom) -> Ends:
    dtype = atom.dtype
    fixed = [f for f in atom.factors if not ev.moves(f)]
    moving = [f for f in atom.factors if ev.moves(f)]
    low, high = ev.atom(moving[0])
    for f in moving[1:]:
        a, b = ev.atom(f)
        signs = [_sign(ev, e) for e in (low, a)]
        if signs != [1, 1]:
            return UNLIMITED
        low, high = _times(ev, low, a, dtype), _times(ev, high, b, dtype)
    for f in fixed:
        x = ev.ctx.space.factor_lin(f)
        bounds = ev.ctx.bound(f)
        if bounds[0] < 0:
            if bounds[1] > 0:
                return UNLIMITED
            low, high = high, low
        low, high = _times(ev, low, x, dtype), _times(ev, high, x, dtype)
    return low, high


def _sign(ev: Evaluation, x: Lin | None) -> int:
    """1 where x is known not to be negative, else 0."""
    return 1 if x is not None and ev.ctx.lin_bound(x)[0] >= 0 else 0


def _smaller(ev: Evaluation, cls: Any, x: Lin | None, y: Lin | None, dtype: str) -> Lin | None:
    return None if x is None or y is None else extreme(ev.ctx, cls, x, y, dtype)


def _min(ev: Evaluation, atom: MinAtom) -> Ends:
    (a, b), (c, d) = ev.lin(atom.a), ev.lin(atom.b)
    low = _smaller(ev, MinAtom, a, c, atom.dtype)
    high = (b or d) if b is None or d is None else extreme(ev.ctx, MinAtom, b, d, atom.dtype)
    return low, high


def _max(ev: Evaluation, atom: MaxAtom) -> Ends:
    (a, b), (c, d) = ev.lin(atom.a), ev.lin(atom.b)
    low = (a or c) if a is None or c is None else extreme(ev.ctx, MaxAtom, a, c, atom.dtype)
    return low, _smaller(ev, MaxAtom, b, d, atom.dtype)


def _div(ev: Evaluation, atom: DivAtom) -> Ends:
    if any(ev.moves(a) for a in atom.b.terms) or ev.ctx.lin_bound(atom.b)[0] < 0:
        return UNLIMITED
    low, high = ev.lin(atom.a)
    ctx, n, dtype = ev.ctx, atom.b, atom.dtype
    return (
        None if low is None else divide(ctx, low, n, dtype),
        None if high is None else divide(ctx, high, n, dtype),
    )


def _mod(ev: Evaluation, atom: ModAtom) -> Ends:
    n = atom.b
    if any(ev.moves(a) for a in n.terms) or ev.ctx.lin_bound(n)[0] < 0:
        return UNLIMITED
    most = Lin(n.terms, n.const - 1)
    low, high = ev.lin(atom.a)
    if high is not None and _sign(ev, low):
        most = extreme(ev.ctx, MinAtom, most, high, atom.dtype)
    return ZERO, most


def _truncated(ev: Evaluation, atom: OpaqueAtom) -> Ends:
    """A quotient or remainder towards zero, of what is not negative here, by a fixed divisor."""
    e: Any = atom.expr
    ctx, n = ev.ctx, ev.ctx.lin(e.b)
    low, high = ev.lin(ctx.lin(e.a))
    if any(ev.moves(a) for a in n.terms) or ctx.lin_bound(n)[0] <= 0 or not _sign(ev, low):
        return UNLIMITED
    if type(e) is E.Mod:
        return ZERO, Lin(n.terms, n.const - 1)
    ends = [None if x is None else divide(ctx, x, n, atom.dtype) for x in (low, high)]
    return ends[0], ends[1]


def _opaque(ev: Evaluation, atom: OpaqueAtom) -> Ends:
    e: Any = atom.expr
    if type(e) in (E.Div, E.Mod):
        return _truncated(ev, atom)
    if type(e) is E.Select:
        c, t, f = e.condition, e.true_value, e.false_value
    elif type(e) is E.Call and e.op.name == "tir.if_then_else":
        c, t, f = e.args
    else:
        return UNLIMITED
    del c
    (a, b), (x, y) = ev.lin(ev.ctx.plain.lin(t)), ev.lin(ev.ctx.plain.lin(f))
    return _smaller(ev, MinAtom, a, x, atom.dtype), _smaller(ev, MaxAtom, b, y, atom.dtype)


_RULES: dict[type[Atom], Callable[..., Ends]] = {
    VarAtom: lambda ev, atom: (atom_lin(atom), atom_lin(atom)),
    SplitAtom: _split,
    SumAtom: _sum,
    MulAtom: _product,
    MinAtom: _min,
    MaxAtom: _max,
    DivAtom: _div,
    ModAtom: _mod,
    OpaqueAtom: _opaque,
    WrapAtom: lambda ev, atom: UNLIMITED,
}
