"""Expressions of scripts: a syntax tree, evaluated as Python would, with `and`, `or`, `not`,
comparisons and slices made expressions of the IR where their operands are."""

from __future__ import annotations

import ast
import builtins
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ..base.deep import Recursive
from ..base.errors import DiagnosticError, InternalError, UsageError
from ..loopir import expr as E
from ..loopir import op
from ..loopir.buffer import Buffer
from ..loopir.call_names import DTYPE_FIRST
from ..loopir.operators import ExprOps
from ..loopir.signs import OF_PYTHON
from .buffers import elements
from .meta import meta_var
from .source import Source, told
from .statements import Let

_BINARY = {**OF_PYTHON, ast.MatMult: operator.matmul}
_COMPARE: dict[type, tuple[Any, Callable[[Any, Any], Any]]] = {
    ast.Eq: (E.EQ, operator.eq),
    ast.NotEq: (E.NE, operator.ne),
    ast.Lt: (E.LT, operator.lt),
    ast.LtE: (E.LE, operator.le),
    ast.Gt: (E.GT, operator.gt),
    ast.GtE: (E.GE, operator.ge),
    ast.Is: (None, operator.is_),
    ast.IsNot: (None, operator.is_not),
    ast.In: (None, lambda a, b: a in b),
    ast.NotIn: (None, lambda a, b: a not in b),
}
_SYMBOLIC = (ExprOps,)


def is_symbolic(value: Any) -> bool:
    """Whether a value is an expression of the IR, or stands for one."""
    return isinstance(value, _SYMBOLIC)


def condition(value: Any) -> E.PrimExpr:
    """A value as a condition, as `if` takes it. Raises OperandError where `value` is neither a
    number nor an expression."""
    e = E.convert(value)
    return e if e.dtype.startswith("bool") else E.NE(e, E.const(0, e.dtype))


class Scopes:
    """Names of a function: what it defines, block by block, before what it finds around it."""

    def __init__(self, around: Mapping[str, Any]) -> None:
        self.around = around
        self.blocks: list[dict[str, Any]] = [{}]

    def set(self, name: str, value: Any) -> None:
        self.blocks[-1][name] = value

    def find(self, name: str) -> Any:
        """The value of a name; KeyError if it has none."""
        for block in reversed(self.blocks):
            if name in block:
                return block[name]
        if name in self.around:
            return self.around[name]
        return vars(builtins)[name]

    def __contains__(self, name: str) -> bool:
        try:
            self.find(name)
        except KeyError:
            return False
        return True

    def visible(self) -> dict[str, Any]:
        """All names with their values."""
        found = dict(self.around)
        for block in self.blocks:
            found.update(block)
        return found


class Evaluator(Recursive):
    """Evaluates expressions; mistakes are shown in the source."""

    recursive: ClassVar[tuple[str, ...]] = ("eval",)
    table: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {}

    def __init__(self, source: Source, scopes: Scopes) -> None:
        self.source = source
        self.scopes = scopes

    def fail(self, node: Any, message: str) -> DiagnosticError:
        """An error at a node, to be raised."""
        return self.source.error(node, message)

    def attempt(self, node: Any, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """What a function gives; its errors are shown at the node. Raises DiagnosticError where
        what is evaluated raises an error."""
        try:
            return function(*args, **named)
        except (DiagnosticError, InternalError, RecursionError):
            raise
        except Exception as error:
            raise self.fail(node, told(error)) from error

    def eval(self, node: Any) -> Any:
        """The value of an expression."""
        rule = self.table.get(type(node))
        if rule is None:
            raise self.fail(node, f"{type(node).__name__} has no meaning in a script")
        return rule(self, node)

    def many(self, nodes: Sequence[Any]) -> list[Any]:
        """Values in order; `*parts` give several."""
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found.extend(self.eval(node.value))
            else:
                found.append(self.eval(node))
        return found

    # -- rules

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        try:
            value = self.scopes.find(node.id)
        except KeyError:
            raise self.fail(node, f"undefined variable: {node.id}") from None
        return value.value if isinstance(value, meta_var) else value

    def _attribute(self, node: ast.Attribute) -> Any:
        return self.attempt(node, getattr, self.eval(node.value), node.attr)

    def _subscript(self, node: ast.Subscript) -> Any:
        value, index = self.eval(node.value), self.eval(node.slice)
        if isinstance(value, Buffer):
            return E.BufferLoad(value, self.attempt(node, elements, value, index))
        if isinstance(value, E.Var):
            raise self.fail(
                node, f"{value.name} is a variable: declare a buffer over it, T.Buffer(..., data=)"
            )
        return self.attempt(node, operator.getitem, value, index)

    def _slice(self, node: ast.Slice) -> Any:
        parts = (node.lower, node.upper, node.step)
        return slice(*[None if p is None else self.eval(p) for p in parts])

    def _binary(self, node: ast.BinOp) -> Any:
        a, b = self.eval(node.left), self.eval(node.right)
        return self.binary(node, type(node.op), a, b)

    def binary(self, node: Any, kind: type, a: Any, b: Any) -> Any:
        """`a <kind> b`."""
        return self.attempt(node, _BINARY[kind], a, b)

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self.eval(node.operand)
        if isinstance(node.op, ast.Not):
            return E.Not(condition(value)) if is_symbolic(value) else not value
        if isinstance(node.op, ast.USub):
            return self.attempt(node, operator.neg, value)
        if isinstance(node.op, ast.Invert):
            return self.attempt(node, operator.invert, value)
        return value

    def _logic(self, node: ast.BoolOp) -> Any:
        kind: Any = E.And if isinstance(node.op, ast.And) else E.Or
        result = self.eval(node.values[0])
        for part in node.values[1:]:
            if not is_symbolic(result) and bool(result) is (kind is E.Or):
                return result  # as Python: what follows is not looked at
            value = self.eval(part)
            if is_symbolic(result) or is_symbolic(value):
                if not is_symbolic(result):
                    result = value  # neutral
                    continue
                result = self.attempt(node, kind, condition(result), condition(value))
            else:
                result = value
        return result

    def _compare(self, node: ast.Compare) -> Any:
        left, found = self.eval(node.left), None
        for kind, part in zip(node.ops, node.comparators):
            right = self.eval(part)
            made, plain = _COMPARE[type(kind)]
            if made is not None and (is_symbolic(left) or is_symbolic(right)):
                value = self.attempt(node, op_compare, made, left, right)
            else:
                value = self.attempt(node, plain, left, right)
            if found is None:
                found = value
            elif is_symbolic(found) or is_symbolic(value):
                found = E.And(condition(found), condition(value))
            else:
                found = found and value
            left = right
        return found

    def _choice(self, node: ast.IfExp) -> Any:
        test = self.eval(node.test)
        if is_symbolic(test):
            yes, no = self.eval(node.body), self.eval(node.orelse)
            return self.attempt(node, op.if_then_else, condition(test), yes, no)
        return self.eval(node.body if test else node.orelse)

    def _call(self, node: ast.Call) -> Any:
        function = self.eval(node.func)
        if function is Let:
            self._define(node)
        args = self.many(node.args)
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is None:
                named.update(value)
            else:
                named[keyword.arg] = value
        if "dtype" in named:
            args, named = _with_dtype(function, args, named)
        return self.attempt(node, function, *args, **named)

    def _define(self, node: ast.Call) -> None:
        """Variables that stand first in the `where` of a T.Let."""
        given = [k.value for k in node.keywords if k.arg == "where"] + list(node.args[1:2])
        for where in given:
            if not isinstance(where, ast.Dict):
                continue
            for key, part in zip(where.keys, where.values):
                if not isinstance(key, ast.Name):
                    continue
                value = E.convert(self.eval(part))
                known = self.scopes.find(key.id) if key.id in self.scopes else None
                if not isinstance(known, E.Var) or known.dtype != value.dtype:
                    self.scopes.set(key.id, E.Var(key.id, value.dtype))

    def _tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.many(node.elts))

    def _list(self, node: ast.List) -> Any:
        return self.many(node.elts)

    def _dict(self, node: ast.Dict) -> Any:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values):
            if key is None:
                found.update(self.eval(value))
            else:
                found[self.eval(key)] = self.eval(value)
        return found

    def _lambda(self, node: ast.Lambda) -> Any:
        """A function whose body is evaluated here, when it is called."""
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        if node.args.vararg or node.args.kwarg or node.args.kwonlyargs or node.args.defaults:
            return self._python(node)

        def call(*args: Any) -> Any:
            if len(args) != len(names):
                raise UsageError(f"the function takes {len(names)} values, got {len(args)}")
            self.scopes.blocks.append(dict(zip(names, args)))
            try:
                return self.eval(node.body)
            finally:
                self.scopes.blocks.pop()

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(n, kind) for n in names]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return call

    def _python(self, node: Any) -> Any:
        """Comprehensions: Python's own, with the names that are visible here."""
        names = {
            k: v.value if isinstance(v, meta_var) else v for k, v in self.scopes.visible().items()
        }
        code = compile(ast.Expression(node), self.source.name, "eval")
        return self.attempt(node, eval, code, names)

    def _text(self, node: ast.JoinedStr) -> Any:
        return "".join(str(self.eval(v)) for v in node.values)

    def _formatted(self, node: ast.FormattedValue) -> Any:
        value = self.eval(node.value)
        shown: dict[int, Callable[[Any], str]] = {114: repr, 115: str, 97: ascii}
        if node.conversion in shown:
            value = shown[node.conversion](value)
        return format(value, self.eval(node.format_spec) if node.format_spec else "")


def op_compare(kind: Any, a: Any, b: Any) -> Any:
    """A comparison whose operands keep their order. Raises TypeError where text is compared, and
    TilewrightError where `a` and `b` are vectors of different lengths or one is a handle."""
    from ..loopir.operators import compare

    if isinstance(a, str) or isinstance(b, str):
        return (a == b) if kind is E.EQ else (a != b)
    return compare(kind, a, b)


def _with_dtype(function: Any, args: list[Any], named: dict[str, Any]) -> tuple[list[Any], Any]:
    """The `dtype=` of older scripts: builders that find the type themselves do without."""
    name = getattr(function, "__name__", "")
    if f"tir.{name}" in DTYPE_FIRST or name == "call_intrin":
        rest = {k: v for k, v in named.items() if k != "dtype"}
        return [named["dtype"], *args], rest
    home = getattr(function, "__module__", "")
    if home.rpartition(".")[0].endswith("tilewright.loopir"):
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            return args, named
        if "dtype" not in parameters:
            return args, {k: v for k, v in named.items() if k != "dtype"}
    return args, named


Evaluator.table.update(
    {
        ast.Constant: Evaluator._constant,
        ast.Name: Evaluator._name,
        ast.Attribute: Evaluator._attribute,
        ast.Subscript: Evaluator._subscript,
        ast.Slice: Evaluator._slice,
        ast.BinOp: Evaluator._binary,
        ast.UnaryOp: Evaluator._unary,
        ast.BoolOp: Evaluator._logic,
        ast.Compare: Evaluator._compare,
        ast.IfExp: Evaluator._choice,
        ast.Call: Evaluator._call,
        ast.Tuple: Evaluator._tuple,
        ast.List: Evaluator._list,
        ast.Dict: Evaluator._dict,
        ast.Lambda: Evaluator._lambda,
        ast.JoinedStr: Evaluator._text,
        ast.FormattedValue: Evaluator._formatted,
        **dict.fromkeys(
            (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Set),
            Evaluator._python,
        ),
    }
)
