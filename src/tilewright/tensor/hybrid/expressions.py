"""Expressions of a hybrid script, as they are read: Python's numbers stay such, all else becomes
expressions of the loop IR."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from ...arith import Analyzer
from ...base.deep import Recursive
from ...base.errors import UsageError
from ...loopir import op
from ...loopir.expr import IntImm, PrimExpr, const, convert
from ...loopir.iter import IterVar
from ...loopir.operators import logical_not
from ...loopir.signs import OF_PYTHON
from ...loopir.stmt import Stmt
from .calls import CALLS
from .values import Declared, Loop, Memory, Part, is_number, known_int

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    **OF_PYTHON, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Pow: lambda a, b: a**b if is_number(a) and is_number(b) else op.power(a, b),
}  # fmt: skip


class Expressions(Recursive):
    """Reads expressions; the statements of a script derive from it."""

    recursive: ClassVar[tuple[str, ...]] = ("value",)
    names: dict[str, Any]
    known: Mapping[str, Any]
    analyzer: Analyzer
    threads: dict[str, IterVar]

    def called(self, inner: tuple[Stmt, Sequence[Memory]]) -> Any:
        """What another script gives, called by this one."""
        raise NotImplementedError

    def fail(self, text: str) -> NoReturn:
        raise UsageError(text)

    def condition(self, e: ast.expr) -> Any:
        """A condition: a bool where it is known."""
        test = self.value(e)
        if isinstance(test, PrimExpr):
            test = self.analyzer.simplify(test)
            return bool(test.value) if isinstance(test, IntImm) else test
        return bool(test)

    def simple(self, value: Any) -> Any:
        return self.analyzer.simplify(value) if isinstance(value, PrimExpr) else value

    def number(self, value: Any) -> PrimExpr:
        """A value as an expression; memory of one element as its element."""
        if isinstance(value, Memory) and value.scalar:
            value = value.at([const(0)])
        if isinstance(value, (Memory, Part, Declared, Loop, tuple, str)) or value is None:
            self.fail(f"a number is needed, not {_what(value)}")
        if isinstance(value, float):
            return const(value, "float32")
        return convert(value)

    def value(self, e: ast.expr) -> Any:
        rule = self.values.get(type(e))
        if rule is None:
            self.fail(f"`{ast.unparse(e)}` has no meaning in a hybrid script")
        return rule(self, e)

    def _constant(self, e: ast.Constant) -> Any:
        return e.value

    def _load(self, e: ast.Name) -> Any:
        if e.id in self.names:
            found = self.names[e.id]
            return found.at([const(0)]) if isinstance(found, Memory) and found.scalar else found
        if e.id in self.known:
            found = self.known[e.id]
            return tuple(found) if isinstance(found, list) else found
        if e.id in CALLS:
            return CALLS[e.id]
        self.fail(f"unknown name {e.id}")

    def _attribute(self, e: ast.Attribute) -> Any:
        base = self.value(e.value)
        found = getattr(base, e.attr, None)
        if found is None:
            self.fail(f"{_what(base)} has no {e.attr}")
        return found

    def indices(self, e: ast.expr) -> list[Any]:
        parts = e.elts if isinstance(e, ast.Tuple) else [e]
        return [self.value(p) for p in parts]

    def _subscript(self, e: ast.Subscript) -> Any:
        base, indices = self.value(e.value), self.indices(e.slice)
        if isinstance(base, Part):
            return base.memory.at([*base.indices, *indices])
        if isinstance(base, Memory):
            return base.at(indices)
        for i in indices:
            at = known_int(self.simple(i), "an index of a list")
            base = base[at]
            base = tuple(base) if isinstance(base, list) else base
        return base

    def _bin_op(self, e: ast.BinOp) -> Any:
        return self.binary(type(e.op), self.value(e.left), self.value(e.right))

    def binary(self, kind: type, a: Any, b: Any) -> Any:
        if kind not in _BINARY:
            self.fail(f"the operator {kind.__name__} has no meaning in a hybrid script")
        if is_number(a) and is_number(b):
            return _BINARY[kind](a, b)
        return _BINARY[kind](self.number(a), self.number(b))

    def _unary_op(self, e: ast.UnaryOp) -> Any:
        x = self.value(e.operand)
        if isinstance(e.op, ast.Not):
            return not x if is_number(x) else logical_not(self.number(x))
        if isinstance(e.op, ast.UAdd):
            return x
        make = operator.neg if isinstance(e.op, ast.USub) else operator.invert
        return make(x if is_number(x) else self.number(x))

    def _compare(self, e: ast.Compare) -> Any:
        parts = [self.value(x) for x in (e.left, *e.comparators)]
        tests = [self.binary(type(o), a, b) for o, a, b in zip(e.ops, parts, parts[1:])]
        return tests[0] if len(tests) == 1 else self._joined(tests, True)

    def _bool_op(self, e: ast.BoolOp) -> Any:
        return self._joined([self.value(x) for x in e.values], isinstance(e.op, ast.And))

    def _joined(self, tests: Sequence[Any], every: bool) -> Any:
        if all(map(is_number, tests)):
            return all(tests) if every else any(tests)
        return (op.all if every else op.any)(*[convert(t) for t in tests])

    def _if_exp(self, e: ast.IfExp) -> Any:
        test = self.condition(e.test)
        if isinstance(test, bool):
            return self.value(e.body if test else e.orelse)
        return op.if_then_else(
            test, self.number(self.value(e.body)), self.number(self.value(e.orelse))
        )

    def _tuple(self, e: Any) -> Any:
        return tuple(self.value(x) for x in e.elts)

    def _call(self, e: ast.Call) -> Any:
        args = [self.value(a) for a in e.args]
        named = {k.arg: self.value(k.value) for k in e.keywords if k.arg is not None}
        own = isinstance(e.func, ast.Name) and e.func.id in CALLS and e.func.id not in self.names
        called = CALLS[e.func.id] if own and isinstance(e.func, ast.Name) else self.value(e.func)
        read = getattr(called, "read_inside", None)
        if read is not None:
            return self.called(read(tuple(args), self.threads))
        if not callable(called):
            self.fail(f"{ast.unparse(e.func)} is no function")
        if any(isinstance(a, (Memory, Part)) for a in args) and called is not CALLS["len"]:
            args = [self.number(a) for a in args]
        try:
            return called(*args, **named)
        except TypeError as error:
            self.fail(f"{ast.unparse(e)}: {error}")

    values: Mapping[type, Any] = {
        ast.Constant: _constant,
        ast.Name: _load,
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
        ast.BinOp: _bin_op,
        ast.UnaryOp: _unary_op,
        ast.Compare: _compare,
        ast.BoolOp: _bool_op,
        ast.IfExp: _if_exp,
        ast.Tuple: _tuple,
        ast.List: _tuple,
        ast.Call: _call,
    }


def _what(value: Any) -> str:
    if isinstance(value, (Memory, Part)):
        memory = value.memory if isinstance(value, Part) else value
        return f"the array {memory.name}"
    return {Declared: "an array without a name", Loop: "a loop", tuple: "a list"}.get(
        type(value), repr(value)
    )
