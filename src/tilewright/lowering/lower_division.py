"""lower_division: integer divisions rounded down become cheap operations where that is the same.

    floordiv(a, 8)  ->  a >> 3          floormod(a, 8)  ->  a & 7
    floordiv(a, b)  ->  truncdiv(a, b)  where a >= 0 and b > 0 (unsigned, or proved)
    floordiv(a, 9)  ->  a * 58255 >> 19  where 0 <= a < 2 ** 15, in a loop of tensor cores

Needs: nothing. Guarantees: the FloorDiv and FloorMod left are those whose signs are not known, for
which the code generator corrects the quotient. Stands next to the code generator because the
simplifier knows divisions rounded down only.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ..arith import Analyzer
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.data import data_lets, is_data
from ..loopir.iter import THREAD_KEYS, Range
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import free_vars

Fact = tuple[E.Var, Range] | E.PrimExpr  # the values of a variable, or a condition


def lower_division(func: S.PrimFunc) -> S.PrimFunc:
    """Turn divisions rounded down into shifts, masks and plain divisions where that is the same."""
    return func.with_body(_LowerDivision(func).stmt(func.body))


class _LowerDivision(Rewriter):
    """`facts` holds what is known at the present place; `proofs` learns it when first asked."""

    def __init__(self, func: S.PrimFunc) -> None:
        self.moving: set[E.Var] = set()  # what changes in a loop that tensor cores work in
        self.facts: list[Fact] = []
        self.proofs = _Proofs(self.facts)
        self.not_negative: dict[E.Var, bool] = {}
        self.lets = data_lets(func.body)
        for var in self.lets:
            self.proofs.analyzer.context.space.let(var)
        for buffer in func.buffer_map.values():
            for dim in buffer.shape:
                if isinstance(dim, E.Var):
                    self.not_negative[dim] = True
                    self.proofs.analyzer.bind(dim, _not_negative(dim))

    @handles(E.FloorDiv, E.FloorMod)
    def _divide(self, e: E.FloorDiv | E.FloorMod) -> Any:
        a, b = self.expr(e.a), self.expr(e.b)
        t = parse(e.dtype)
        quotient = isinstance(e, E.FloorDiv)
        if not t.is_integer:
            return type(e)(a, b)
        shift = _power_of_two(b)
        if shift is not None:
            if shift == 0:
                return a if quotient else E.const(0, e.dtype)
            if quotient:
                return E.Call(e.dtype, "tir.shift_right", (a, E.const(shift, e.dtype)))
            return E.Call(e.dtype, "tir.bitwise_and", (a, E.const((1 << shift) - 1, e.dtype)))
        if e.dtype == "int32" and self._moves(e.a) and self._is_short(e.a):
            whole = _product_and_shift(a, E.const_int(b) or 0)
            if whole is not None:
                return whole if quotient else E.Sub(a, E.Mul(whole, b))
        if t.is_uint or (self._positive(e.b) and self._non_negative(e.a)):
            return E.Div(a, b) if quotient else E.Mod(a, b)
        return e if a is e.a and b is e.b else type(e)(a, b)

    # -- what is known

    def _moves(self, e: Any) -> bool:
        return bool(self.moving) and any(v in self.moving for v in free_vars(e))

    def _is_short(self, e: Any) -> bool:
        """Whether a dividend has 15 bits at most."""
        if not self._non_negative(e):
            return False
        return self._proves(E.const((1 << _SHORT) - 1, e.dtype) - e, 0)

    def _non_negative(self, e: Any) -> bool:
        return self._syntactic(e) or self._proves(e, 0)

    def _positive(self, e: Any) -> bool:
        if isinstance(e, E.Broadcast):
            e = e.value
        if isinstance(e, E.IntImm):
            return e.value > 0
        return self._proves(e, 1)

    def _syntactic(self, e: Any) -> bool:
        """Whether the form of an expression shows that it is zero or more."""
        rule = _NON_NEGATIVE.get(type(e))
        return rule is not None and rule(self, e)

    def _proves(self, e: Any, least: int) -> bool:
        return parse(e.dtype).lanes == 1 and self.proofs.at_least(e, least)

    # -- places

    def _where(self, fact: Fact, body: S.Stmt) -> Any:
        """A statement rewritten where one more fact is known."""
        outside = self.not_negative
        if isinstance(fact, tuple):
            var, values = fact
            self.not_negative = {**outside, var: self._syntactic(values.min)}
        self.facts.append(fact)
        body = self.stmt(body)
        self.facts.pop()
        self.proofs.leave()
        self.not_negative = outside
        return body

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        low, extent = self.expr(s.min), self.expr(s.extent)
        if self.moving or S.UNROLL_BY in s.annotations:
            self.moving.add(s.loop_var)
        body = self._where((s.loop_var, Range.from_min_extent(s.min, s.extent)), s.body)
        self.moving.discard(s.loop_var)
        return s.with_parts(min=low, extent=extent, body=body)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key not in THREAD_KEYS:
            return super()._attr(s)
        value, var = self.expr(s.value), s.node.var
        body = self._where((var, Range.from_min_extent(E.const(0, var.dtype), s.value)), s.body)
        return s.with_parts(value=value, body=body)

    @handles(S.LetStmt)
    def _let_stmt(self, s: S.LetStmt) -> Any:
        value = self.expr(s.value)
        t = parse(s.var.dtype)
        if self._moves(s.value):
            self.moving.add(s.var)
        if t.is_integer and t.lanes == 1 and self._syntactic(s.value):
            body = self._where((s.var, _not_negative(s.var)), s.body)
        else:
            body = self.stmt(s.body)
        return s.with_parts(value=value, body=body)

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        condition = self.expr(s.condition)
        then_case = self._where(s.condition, s.then_case)
        else_case = None if s.else_case is None else self.stmt(s.else_case)
        return s.with_parts(condition=condition, then_case=then_case, else_case=else_case)


_SHORT = 15  # bits of a dividend whose product with as many, and one more, has 31


def _product_and_shift(a: Any, b: int) -> Any:
    """a // b for 0 <= a < 2 ** 15: two instructions, where compilers, which do not know that a is
    short, take four. Rounded up, the factor is too large by less than b of 2 ** shift, so that the
    quotient is too large by less than 1 / b."""
    if not 2 < b < 1 << _SHORT:
        return None
    shift = _SHORT + (b - 1).bit_length()
    factor = -(-(1 << shift) // b)
    product = E.Mul(a, E.const(factor, a.dtype))
    return E.Call(a.dtype, "tir.shift_right", (product, E.const(shift, a.dtype)))


class _Proofs:
    """Answers what follows from `facts`, a stack that others push to and pop from.

    A fact is learned once, when the first question is asked where it holds: most places ask none,
    and the conditions around those that do are long.
    """

    def __init__(self, facts: list[Fact]) -> None:
        self.analyzer = Analyzer()
        self.facts = facts
        self.learned: list[Callable[[], Any]] = []  # how to take back each fact learned so far
        self.answers: dict[tuple[int, int], bool] = {}

    def at_least(self, e: Any, least: int) -> bool:
        """Whether an integer expression is proved to be `least` or more."""
        for fact in self.facts[len(self.learned) :]:
            self._learn(fact)
        key = (self.analyzer.context.space.uid(e), least)
        found = self.answers.get(key)
        if found is None:
            found = self.answers[key] = self.analyzer.can_prove(E.GE(e, E.const(least, e.dtype)))
        return found

    def _learn(self, fact: Fact) -> None:
        self.answers = {}
        if isinstance(fact, tuple):
            var, values = fact
            self.analyzer.bind(var, values)
            self.learned.append(lambda: self.analyzer.forget(var))
        else:
            scope = ExitStack()
            scope.enter_context(self.analyzer.enter_constraint(fact))
            self.learned.append(scope.close)

    def leave(self) -> None:
        """Take back what was learned of a fact that is gone."""
        if len(self.learned) > len(self.facts):
            self.answers = {}
            self.learned.pop()()


def _not_negative(var: E.Var) -> Range:
    return Range.from_min_extent(E.const(0, var.dtype), _large(var))


def _large(var: E.Var) -> E.PrimExpr:
    return E.const(parse(var.dtype).max_value, var.dtype)


def _power_of_two(e: Any) -> int | None:
    """k where an expression is the constant 2^k."""
    if isinstance(e, E.Broadcast):
        e = e.value
    if isinstance(e, E.IntImm) and e.value > 0 and e.value & (e.value - 1) == 0:
        return e.value.bit_length() - 1
    return None


def _both(rewriter: _LowerDivision, e: Any) -> bool:
    return rewriter._syntactic(e.a) and rewriter._syntactic(e.b)


def _either(rewriter: _LowerDivision, e: Any) -> bool:
    return rewriter._syntactic(e.a) or rewriter._syntactic(e.b)


def _dividend(rewriter: _LowerDivision, e: Any) -> bool:
    return rewriter._syntactic(e.a) and _sign_of_divisor(e.b)


def _remainder(rewriter: _LowerDivision, e: Any) -> bool:
    return _sign_of_divisor(e.b)


def _sign_of_divisor(e: Any) -> bool:
    value = e.value if isinstance(e, E.Broadcast) else e
    return isinstance(value, E.IntImm) and value.value > 0


def _no_wrap(rewriter: _LowerDivision, e: Any) -> bool:
    return parse(e.dtype).bits >= 32 and not is_data(e, rewriter.lets)


_NON_NEGATIVE: dict[type, Callable[[_LowerDivision, Any], bool]] = {
    E.IntImm: lambda r, e: e.value >= 0,
    E.SizeVar: lambda r, e: True,
    E.Var: lambda r, e: r.not_negative.get(e, False),
    E.Add: lambda r, e: _both(r, e) and _no_wrap(r, e),
    E.Mul: lambda r, e: _both(r, e) and _no_wrap(r, e),
    E.Min: _both,
    E.Max: _either,
    E.FloorDiv: _dividend,
    E.FloorMod: _remainder,
    E.Div: _dividend,
    E.Mod: lambda r, e: r._syntactic(e.a),
    E.Select: lambda r, e: r._syntactic(e.true_value) and r._syntactic(e.false_value),
    E.Broadcast: lambda r, e: r._syntactic(e.value),
    E.Ramp: lambda r, e: r._syntactic(e.base) and r._syntactic(e.stride) and _no_wrap(r, e),
    E.Cast: lambda r, e: (
        parse(e.value.dtype).is_integer
        and parse(e.dtype).bits > parse(e.value.dtype).bits
        and (parse(e.value.dtype).is_uint or r._syntactic(e.value))
    ),
}
