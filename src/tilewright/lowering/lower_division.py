"""lower_division: integer divisions rounded down become cheap operations where that is the same.

    floordiv(a, 8)  ->  a >> 3          floormod(a, 8)  ->  a & 7
    floordiv(a, b)  ->  truncdiv(a, b)  where a >= 0 and b > 0 (unsigned, or proved)

Needs: nothing. Guarantees: the FloorDiv and FloorMod left are those whose signs are not known, for
which the code generator corrects the quotient. Stands next to the code generator because the
simplifier knows divisions rounded down only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arith import Analyzer
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.iter import Range
from ..loopir.rewrite import Rewriter, handles


def lower_division(func: S.PrimFunc) -> S.PrimFunc:
    """Turn divisions rounded down into shifts, masks and plain divisions where that is the same."""
    return func.with_body(_LowerDivision(func).stmt(func.body))


class _LowerDivision(Rewriter):
    """`facts` holds what is known at the present place; the analyzer learns it when first asked."""

    def __init__(self, func: S.PrimFunc) -> None:
        self.facts: list[tuple[E.Var, Range] | E.PrimExpr] = []
        self.not_negative: dict[E.Var, bool] = {}
        for buffer in func.buffer_map.values():
            for dim in buffer.shape:
                if isinstance(dim, E.Var):
                    self.not_negative[dim] = True

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
        if t.is_uint or (self._positive(e.b) and self._non_negative(e.a)):
            return E.Div(a, b) if quotient else E.Mod(a, b)
        return e if a is e.a and b is e.b else type(e)(a, b)

    # -- what is known

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
        if parse(e.dtype).lanes > 1:
            return False
        analyzer = Analyzer()
        for var, flag in self.not_negative.items():
            if flag:
                analyzer.bind(var, Range.from_min_extent(E.const(0, var.dtype), _large(var)))
        conditions = []
        for fact in self.facts:
            if isinstance(fact, tuple):
                analyzer.bind(fact[0], fact[1])
            else:
                conditions.append(fact)
        return _under(analyzer, conditions, E.convert(e) >= least)

    # -- places

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        low, extent = self.expr(s.min), self.expr(s.extent)
        self.facts.append((s.loop_var, Range.from_min_extent(s.min, s.extent)))
        self.not_negative[s.loop_var] = self._syntactic(s.min)
        body = self.stmt(s.body)
        self.facts.pop()
        if low is s.min and extent is s.extent and body is s.body:
            return s
        return S.For(s.loop_var, low, extent, s.kind, body, s.thread_binding, s.annotations)

    @handles(S.LetStmt)
    def _let_stmt(self, s: S.LetStmt) -> Any:
        value = self.expr(s.value)
        if parse(s.var.dtype).is_integer and parse(s.var.dtype).lanes == 1:
            self.not_negative[s.var] = self._syntactic(s.value)
        body = self.stmt(s.body)
        return s if value is s.value and body is s.body else S.LetStmt(s.var, value, body)

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        condition = self.expr(s.condition)
        self.facts.append(s.condition)
        then_case = self.stmt(s.then_case)
        self.facts.pop()
        else_case = None if s.else_case is None else self.stmt(s.else_case)
        if condition is s.condition and then_case is s.then_case and else_case is s.else_case:
            return s
        return S.IfThenElse(condition, then_case, else_case)


def _under(analyzer: Analyzer, conditions: list[Any], goal: Any) -> bool:
    if not conditions:
        return bool(analyzer.can_prove(goal))
    with analyzer.enter_constraint(conditions[0]):
        return _under(analyzer, conditions[1:], goal)


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


def _wide(e: Any) -> bool:
    return parse(e.dtype).bits >= 32


_NON_NEGATIVE: dict[type, Callable[[_LowerDivision, Any], bool]] = {
    E.IntImm: lambda r, e: e.value >= 0,
    E.SizeVar: lambda r, e: True,
    E.Var: lambda r, e: r.not_negative.get(e, False),
    E.Add: lambda r, e: _wide(e) and _both(r, e),
    E.Mul: lambda r, e: _wide(e) and _both(r, e),
    E.Min: _both,
    E.Max: _either,
    E.FloorDiv: _dividend,
    E.FloorMod: _remainder,
    E.Div: _dividend,
    E.Mod: lambda r, e: r._syntactic(e.a),
    E.Select: lambda r, e: r._syntactic(e.true_value) and r._syntactic(e.false_value),
    E.Broadcast: lambda r, e: r._syntactic(e.value),
    E.Ramp: lambda r, e: _wide(e) and r._syntactic(e.base) and r._syntactic(e.stride),
    E.Cast: lambda r, e: (
        parse(e.value.dtype).is_integer
        and parse(e.dtype).bits > parse(e.value.dtype).bits
        and (parse(e.value.dtype).is_uint or r._syntactic(e.value))
    ),
}
