"""Analyzer: the questions that passes ask about integer expressions.

One Analyzer serves one walk over a program: it is told the ranges of variables (`bind`) and the
conditions of the place (`enter_constraint`), and simplifies and proves with them. Inside,
everything is a linear form (forms.py); rules in simplify/ turn expressions into forms, bounds are
interval arithmetic (interval.py, modular.py), proofs eliminate atoms by facts (prove.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..base.deep import Recursive, deep_call
from ..base.dtype import parse
from ..base.errors import OperandError, UsageError
from ..loopir import expr as E
from ..loopir.effects import is_pure
from ..loopir.iter import IterVar, Range
from ..target.target import Target
from .assume import assume, bind_range, bind_value, let_var, renewed
from .bound import (
    CompareResult,
    ConstIntBound,
    Extension,
    ModularSet,
    ProofStrength,
    RewriteStats,
    unlimited,
)
from .context import Context
from .decide import condition_holds, holds_for_lengths
from .forms import LINEAR_TYPES, Lin, combined
from .interval import expr_bound
from .modular import lin_residue
from .prove import PROOF_STEPS, proves, tight_bound
from .simplify.mul import expand
from .simplify.table import EXPR_RULES, LIN_RULES

if TYPE_CHECKING:
    from .int_set import IntervalSet


class _Condition:
    """A condition of a place. It is `learned` when the first question is asked there."""

    __slots__ = ("cond", "learned")

    def __init__(self, cond: Any) -> None:
        self.cond = cond
        self.learned = False

    def __call__(self, ctx: Context) -> None:
        known = ctx_simplify(ctx, self.cond)  # in the layer around, where that is remembered
        ctx.push()
        self.learned = True
        deep_call(assume, ctx, known)


class Analyzer(Recursive):
    """Simplifies and proves with what it is told; see the module's head.

    What it is told waits until the next question: conditions take long to learn, and at most places
    of a program some passes ask nothing.
    """

    def __init__(self) -> None:
        self._context = Context(LIN_RULES, EXPR_RULES)
        self._told: deque[Callable[[Context], Any]] = deque()
        self._bound: set[Any] = set()
        self._extensions = Extension.NoExtensions
        self._stats = RewriteStats()
        self._most_rewrites: int | None = None

    @property
    def enabled_extensions(self) -> Extension:
        """The extensions that were asked for. What they stand for is always done here: the
        property is kept so that it reads back."""
        return self._extensions

    @enabled_extensions.setter
    def enabled_extensions(self, flags: int | Extension) -> None:
        self._extensions = Extension(flags)

    @property
    def context(self) -> Context:
        """What is known, with all that was told so far."""
        told, ctx = self._told, self._context
        while told:
            told.popleft()(ctx)
        return ctx

    def keep_variables(self) -> None:
        """Do not write the value of a variable in its place where conditions leave it one: programs
        that people read and compare keep their names. Comparisons are decided all the same."""
        self._context.keeps_variables = True
        self._context.clear()

    def go_deep(self) -> None:
        self._context.go_deep()

    def bind(self, var: Any, value: Any, allow_override: bool = True) -> None:
        """Say what a variable stands for: an expression (it is replaced by it) or a Range.

        A range with symbolic ends is used where the variable itself occurs, so that an empty loop
        proves nothing about its limits elsewhere. Raises OperandError where `value` is neither a
        number nor an expression.
        """
        del allow_override  # a second bind always replaces the first
        var = var.var if isinstance(var, IterVar) else var
        self._bound.add(var)
        if isinstance(value, Range):
            self._told.append(lambda ctx: deep_call(bind_range, ctx, var, value))
        else:
            value = E.convert(value)
            self._told.append(lambda ctx: deep_call(bind_value, ctx, var, value))

    def let(self, var: Any, value: Any) -> None:
        """Say of a variable what can be said without writing its value in its place: whether it is
        data, and its constant bounds."""
        self._told.append(lambda ctx: deep_call(let_var, ctx, var, value))

    def forget(self, var: Any) -> None:
        """Take back what `bind` said of a variable, where its scope ends."""
        var = var.var if isinstance(var, IterVar) else var
        self._told.append(lambda ctx: deep_call(renewed, ctx, var))

    @contextmanager
    def enter_constraint(self, cond: Any) -> Iterator[None]:
        """Within the `with`, `cond` is known to hold.

        Conjunctions are split, `likely` is stripped. Conditions that read memory or call impure
        functions are ignored: what they say may stop to hold before the scope ends. Raises
        OperandError where `cond` is neither a number nor an expression.
        """
        cond = E.convert(cond)
        if not is_pure(cond):
            yield
            return
        condition = _Condition(cond)
        self._told.append(condition)
        try:
            yield
        finally:
            if condition.learned:
                self._context.pop()
            else:
                self._told.remove(condition)

    constraint_scope = enter_constraint

    def simplify(self, e: Any, steps: int = 2) -> Any:
        """An equal expression in normal form; the same object where nothing changes. Raises
        OperandError where `e` is neither a number nor an expression."""
        del steps
        if not isinstance(e, E.PrimExpr):
            e = E.convert(e)
        hit = self.context.simps.get(id(e))
        return hit[1] if hit is not None else ctx_simplify(self.context, e)

    def canonical_simplify(self, e: Any) -> Any:
        """As `simplify`, with the terms of sums in TVM's order: a constant above 0 comes before
        what is subtracted."""
        from .canonical import canonical_simplify

        return deep_call(canonical_simplify, self, e)

    def rewrite_simplify(self, e: Any) -> Any:
        """An equal expression, by rules that keep its shape where they change nothing."""
        from .rewrite import rewrite_simplify

        return deep_call(rewrite_simplify, self, e)

    @property
    def rewrite_simplify_stats(self) -> RewriteStats:
        """What `rewrite_simplify` has done since the analyzer was made, or since
        `reset_rewrite_simplify_stats`."""
        return self._stats

    def reset_rewrite_simplify_stats(self) -> None:
        """Count from zero again."""
        self._stats = RewriteStats()

    def set_maximum_rewrite_steps(self, maximum: int) -> None:
        """Let `rewrite_simplify` raise a UsageError where it changes expressions more often than
        `maximum` times in all; no limit where that is below 0."""
        self._most_rewrites = maximum if maximum >= 0 else None

    @property
    def maximum_rewrite_steps(self) -> int | None:
        """The limit that `set_maximum_rewrite_steps` set."""
        return self._most_rewrites

    def try_compare(self, lhs: Any, rhs: Any, propagate_inequalities: bool = True) -> CompareResult:
        """What is proved of the order of two integers. `propagate_inequalities`: what chains of
        comparisons say is always used here. Raises OperandError where `lhs` or `rhs` is neither a
        number nor an expression, and TilewrightError where `lhs` and `rhs` are vectors of different
        lengths or one is a handle."""
        del propagate_inequalities
        known = CompareResult.UNKNOWN
        if self.can_prove_less_equal(lhs, rhs):
            known &= CompareResult.LE
        if self.can_prove_greater_equal(lhs, rhs):
            known &= CompareResult.GE
        if known != CompareResult.EQ and self.can_prove(E.NE(*E.match_types(lhs, rhs))):
            known &= CompareResult.NE
        return known

    def can_prove(self, cond: Any, strength: int = ProofStrength.DEFAULT) -> bool:
        """Whether a condition is proved; False does not say that it is false.

        `strength`: proofs look at symbolic bounds at every ProofStrength. With a target that has
        SVE, what holds for every length of its vectors is proved of `vscale()`. Raises OperandError
        where `cond` is neither a number nor an expression.
        """
        ProofStrength(strength)
        cond = E.convert(cond)
        if deep_call(condition_holds, self.context, cond):
            return True
        return Target.current() is not None and deep_call(holds_for_lengths, self.context, cond)

    def can_prove_equal(self, a: Any, b: Any) -> bool:
        """Whether a and b always have the same value (a NaN counts as the same as itself). Raises
        OperandError where `a` or `b` is neither a number nor an expression, and TilewrightError
        where `a` and `b` are vectors of different lengths or one is a handle."""
        a, b = E.match_types(a, b)
        if a is b:
            return True
        if a.dtype not in LINEAR_TYPES:
            ctx = self.context
            x, y = self.simplify(a), self.simplify(b)
            return ctx.space.uid(x) == ctx.space.uid(y) or self.can_prove(E.EQ(a, b))
        return deep_call(self._equal, a, b) or E.const_int(self.simplify(a - b)) == 0

    def _equal(self, a: E.PrimExpr, b: E.PrimExpr) -> bool:
        ctx = self.context
        gap = combined(ctx.lin(a), -1, ctx.lin(b))
        if gap.terms:
            gap = expand(ctx, gap)
        if not gap.terms:
            return gap.const == 0
        return condition_holds(ctx, E.EQ(a, b))

    def can_prove_less(self, a: Any, b: Any) -> bool:
        """Whether a < b is proved. Raises TilewrightError where `a` and `b` are vectors of
        different lengths or one is a handle."""
        return self._at_least(b, a, 1)

    def can_prove_less_equal(self, a: Any, b: Any) -> bool:
        """Whether a <= b is proved. Raises TilewrightError where `a` and `b` are vectors of
        different lengths or one is a handle."""
        return self._at_least(b, a, 0)

    def can_prove_greater_equal(self, a: Any, b: Any) -> bool:
        """Whether a >= b is proved. Raises TilewrightError where `a` and `b` are vectors of
        different lengths or one is a handle."""
        return self._at_least(a, b, 0)

    def _at_least(self, a: Any, b: Any, margin: int) -> bool:
        """Whether a >= b + margin is proved."""
        a, b = E.match_types(a, b)
        if a.dtype not in LINEAR_TYPES:
            return self.can_prove(E.LT(b, a) if margin else E.LE(b, a))
        ctx = self.context

        def work(ctx: Context) -> bool:
            gap = combined(ctx.lin(a), -1, ctx.lin(b))
            return proves(ctx, Lin(gap.terms, gap.const - margin), PROOF_STEPS)

        return deep_call(work, ctx)

    def const_int_bound(self, e: Any) -> ConstIntBound:
        """Constants between which an integer expression lies; of a vector, all of its lanes. Raises
        OperandError where `e` is neither a number nor an expression."""
        e = E.convert(e)
        if parse(e.dtype).lanes != 1:
            return self._lanes_bound(self.simplify(e))
        return ConstIntBound(*deep_call(_tight_bound, self.context, e))

    def _lanes_bound(self, e: Any) -> ConstIntBound:
        """The bounds of a simplified vector."""
        if type(e) is E.Broadcast:
            return self.const_int_bound(e.value)
        if type(e) is E.Ramp and isinstance(e.lanes, int):
            ends = [self.const_int_bound(x) for x in (e.base, e.base + e.stride * (e.lanes - 1))]
            return ConstIntBound(min(x.min_value for x in ends), max(x.max_value for x in ends))
        return ConstIntBound(ConstIntBound.NEG_INF, ConstIntBound.POS_INF)

    def const_int_bound_is_bound(self, var: Any) -> bool:
        """Whether a variable was bound to a range or a value, or its bound said."""
        return (var.var if isinstance(var, IterVar) else var) in self._bound

    def const_int_bound_update(self, var: Any, bound: ConstIntBound) -> None:
        """Say between which constants a variable lies."""
        self._bound.add(var.var if isinstance(var, IterVar) else var)
        atom = renewed(self.context, var.var if isinstance(var, IterVar) else var)
        self.context.known[atom] = (unlimited(bound.min_value), unlimited(bound.max_value))

    def update(self, var: Any, info: Any, override: bool = False) -> None:
        """Say what is known of a variable: a ConstIntBound, a ModularSet, an IntervalSet.

        A second bound, another than the first, needs `override`: UsageError without. Raises
        OperandError where info is no ConstIntBound, ModularSet or IntervalSet, and TilewrightError
        where `var` is a handle or a vector of another length.
        """
        if isinstance(info, ConstIntBound):
            place = var.var if isinstance(var, IterVar) else var
            if not override and place in self._bound and self.const_int_bound(place) != info:
                raise UsageError(
                    f"Trying to update var '{place}' with a different const bound: "
                    f"original={self.const_int_bound(place)}, new={info}; say override=True"
                )
            self.const_int_bound_update(var, info)
            return
        if not isinstance(info, ModularSet):
            self._update_set(var, info)
            return
        var = var.var if isinstance(var, IterVar) else var
        fits = E.EQ(E.FloorMod(var, E.const(info.coeff, var.dtype)), E.const(info.base, var.dtype))
        deep_call(assume, self.context, fits if info.coeff else E.EQ(var, info.base))

    def _update_set(self, var: Any, info: Any) -> None:
        from .int_set import IntervalSet

        if not isinstance(info, IntervalSet):
            raise OperandError(
                f"update takes a ConstIntBound, a ModularSet or an IntervalSet, got {info!r}"
            )
        var = var.var if isinstance(var, IterVar) else var
        if info.has_lower_bound() and info.has_upper_bound():
            self.bind(var, Range(info.min_value, info.max_value + 1))
        elif info.has_lower_bound():
            deep_call(assume, self.context, E.GE(var, info.min_value))
        elif info.has_upper_bound():
            deep_call(assume, self.context, E.LE(var, info.max_value))

    def modular_set(self, e: Any) -> ModularSet:
        """What an integer expression is modulo some number. Raises OperandError where `e` is
        neither a number nor an expression."""
        e, ctx = E.convert(e), self.context
        if e.dtype not in LINEAR_TYPES:
            return ModularSet(1, 0)
        return ModularSet(*deep_call(lambda ctx: lin_residue(ctx, ctx.lin(e)), ctx))

    def int_set(self, e: Any, dom_map: Mapping[Any, Any] | None = None) -> IntervalSet:
        """The interval of `e` as the variables in `dom_map` range over their sets. Raises
        OperandError where `e` is neither a number nor an expression."""
        from .int_set import eval_set

        return eval_set(E.convert(e), dom_map or {}, self)


def _tight_bound(ctx: Context, e: E.PrimExpr) -> tuple[float, float]:
    if e.dtype in LINEAR_TYPES:
        return tight_bound(ctx, ctx.lin(e))
    return expr_bound(ctx, ctx.simp(e))


def ctx_simplify(ctx: Context, e: Any) -> Any:
    return deep_call(ctx.simp, e)
