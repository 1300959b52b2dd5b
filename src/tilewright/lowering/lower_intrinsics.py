"""lower_intrinsics: calls of operations become what the target has, by lowering rules.

A user's rule (`register_intrin_lowering`) comes first; then the compiler's own (lowering/intrin),
for what the code generator has no code for. What a rule returns is lowered in turn, except that a
call of the same operation on the same types stays as it is; one of another precision than the call
is converted, with a warning.
Needs: nothing. Guarantees: every call left is one that the code generator knows, or it raises
there. Stands before legalize_types, so that rules see the types that the user wrote.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..base.dtype import parse
from ..base.errors import CompileError, TilewrightError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.intrin_rules import Rule, find_rule
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import CHILDREN, free_vars, nodes

_DEEPEST = 64


def lower_intrinsics(
    func: S.PrimFunc,
    kinds: Sequence[str],
    builtin: Mapping[tuple[str, str], Rule],
    native: Callable[[str, str], bool],
) -> S.PrimFunc:
    """Replace calls of operations by what the target has, by the rules of the user and the target.

    `kinds`: whose rules count, best first; `native(op name, dtype)`: whether the code generator
    has code for an operation."""
    lowering = _LowerIntrinsics(kinds, builtin, native)
    lowering.depths = {id(x): (x, 0) for x in nodes(func.body) if isinstance(x, E.Call)}
    return func.with_body(lowering.stmt(func.body))


class _LowerIntrinsics(Rewriter):
    def __init__(
        self,
        kinds: Sequence[str],
        builtin: Mapping[tuple[str, str], Rule],
        native: Callable[[str, str], bool],
    ) -> None:
        self.kinds = list(kinds)
        self.builtin = builtin
        self.own = frozenset(builtin.values())
        self.native = native
        # how many rules led to each call: none to those of the program
        self.depths: dict[int, tuple[E.Call, int]] = {}

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        builtin = None if self.native(e.op.name, e.dtype) else self.builtin
        rule = find_rule(self.kinds, e.op.name, builtin)
        if rule is None:
            return self._arguments(e)
        result = self._result(rule, e)
        if result is e:
            return self._arguments(e)
        depth = self.depths[id(e)][1] + 1
        if depth > _DEEPEST:
            raise CompileError(
                f"the lowering rules of {e.op.name} for target {self.kinds[0]!r} lead back to "
                "themselves without end; a rule that cannot lower a call must return it as it is"
            )
        self._note(result, e, depth)
        if isinstance(result, E.Call) and result.op is e.op and _same_types(result, e):
            return self._arguments(result)
        return self.expr(result)

    def _note(self, result: E.PrimExpr, call: E.Call, depth: int) -> None:
        """Remember the calls that a rule has added to what it was given."""
        seen = {id(a) for a in call.args}
        stack: list[Any] = [result]
        while stack:
            x = stack.pop()
            if id(x) in seen or (id(x) in self.depths and x is not call):
                continue
            seen.add(id(x))
            if isinstance(x, E.Call):
                self.depths[id(x)] = x, depth
            stack += CHILDREN[type(x)](x)

    def _result(self, rule: Rule, e: E.Call) -> E.PrimExpr:
        """What a rule makes of a call, checked."""
        made = rule(e)
        what = f"the lowering rule of {e.op.name} for target {self.kinds[0]!r}"
        try:
            result = E.convert(made)
        except TilewrightError:
            result = None
        if not isinstance(result, E.PrimExpr) or isinstance(result, E.StringImm):
            raise CompileError(
                f"{what} must return an expression (the call itself where it has none), "
                f"got {made!r}"
            )
        if result.dtype != e.dtype:
            text = (
                f"{what} returned an expression of type {result.dtype} for a call of type "
                f"{e.dtype}: {result}; return one of the call's type, for example by .astype()"
            )
            if not _converts(result.dtype, e.dtype):
                raise CompileError(text)
            warnings.warn(f"{text}. It is converted", UserWarning, stacklevel=2)
            result = E.cast(e.dtype, result)
        unknown = [] if rule in self.own else _unknown(result, e)
        if unknown:
            raise CompileError(
                f"{what} returned an expression of {', '.join(unknown)}, which has no value there; "
                "use what the call's arguments have"
            )
        return result

    def _arguments(self, e: E.Call) -> E.Call:
        args = self.exprs(e.args)
        return e if args is e.args else E.Call(e.dtype, e.op, args)


def _same_types(a: E.Call, b: E.Call) -> bool:
    return [x.dtype for x in a.args] == [x.dtype for x in b.args]


def _converts(given: str, wanted: str) -> bool:
    """Whether values of one type are numbers of the other, but for their precision."""
    a, b = parse(given), parse(wanted)
    alike = (a.is_float and b.is_float) or (a.is_integer and b.is_integer)
    return alike and a.lanes == b.lanes


def _unknown(result: Any, call: E.Call) -> list[str]:
    """Names of the variables of an expression that a call does not have."""
    known = set(free_vars(call, with_data=True))
    return [v.name for v in free_vars(result, with_data=True) if v not in known]
