"""Simplification by rules: the shape of the expression is kept where no rule changes it.

`Analyzer.simplify` brings expressions into one normal form, which is what passes want. This is what
`Analyzer.rewrite_simplify` does, for users that compare shapes: it goes from the leaves to the root
and applies identities from the tables of rewrite_rules.py and rewrite_compare.py, as "x + (y - x)
-> y". In a rule letters stand for expressions and c1, c2, ... for constants; what follows "|" must
hold. "=>" says that the result is simplified again. The rules are identities of integers, so they
are for indices alone: data, which may wrap, is left to `simplify`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.deep import Recursive
from ..base.dtype import parse
from ..base.errors import TilewrightError, UsageError
from ..loopir import expr as E
from ..loopir import op
from ..loopir.data import is_data
from ..loopir.equal import structural_equal
from ..loopir.iter import Reduce
from ..loopir.operators import binary, compare, logical_and, logical_not, logical_or
from ..loopir.subst import substitute
from ..loopir.visit import walk

if TYPE_CHECKING:
    from .analyzer import Analyzer

_MOST_PROVED = 150  # nodes of expressions about which proofs are tried
_MOST = 400  # rules applied to one expression: whatever is left then stays as it is
_NODES: dict[Any, type] = {
    ast.Add: E.Add,
    ast.Sub: E.Sub,
    ast.Mult: E.Mul,
    ast.FloorDiv: E.FloorDiv,
    ast.Mod: E.FloorMod,
    ast.Lt: E.LT,
    ast.LtE: E.LE,
    ast.Eq: E.EQ,
    ast.NotEq: E.NE,
    "tdiv": E.Div,
    "tmod": E.Mod,
    "min": E.Min,
    "max": E.Max,
    "Sel": E.Select,
    "ramp": E.Ramp,
    "bc": E.Broadcast,
    "And": E.And,
    "Or": E.Or,
    "Not": E.Not,
}
_FIELDS: dict[type, tuple[str, ...]] = {
    E.Select: ("condition", "true_value", "false_value"),
    E.Ramp: ("base", "stride", "lanes"),
    E.Broadcast: ("value", "lanes"),
    E.Not: ("a",),
}
_MAKERS: dict[type, Callable[..., Any]] = {
    **{k: (lambda a, b, k=k: binary(k, a, b)) for k in E.BinaryOp.__subclasses__()},
    **{k: (lambda a, b, k=k: compare(k, a, b)) for k in (E.LT, E.LE, E.EQ, E.NE)},
    E.And: logical_and,
    E.Or: logical_or,
    E.Not: logical_not,
    E.Select: op.select,
    E.Ramp: E.Ramp,
    E.Broadcast: E.Broadcast,
}


def truncated(a: int, b: int) -> int:
    """The quotient of Python's integers, rounded towards zero."""
    return -(-a // b) if (a < 0) != (b < 0) else a // b


class Rule(NamedTuple):
    """One rule: both sides as syntax trees, its condition as code, whether its result goes on."""

    left: Any
    right: Any
    condition: Any
    again: bool
    text: str


@cache
def table(text: str) -> Mapping[type, tuple[Rule, ...]]:
    """Rules by the class of the root of their left side; see the module's head."""
    found: dict[type, list[Rule]] = {}
    for line in filter(None, text.splitlines()):
        body, _, condition = line.partition("|")
        again = "=>" in body
        left, right = body.split("=>" if again else "->")
        code = compile(condition.strip(), line, "eval") if condition.strip() else None
        trees = [ast.parse(side.strip(), mode="eval").body for side in (left, right)]
        rule = Rule(trees[0], trees[1], code, again, line)
        found.setdefault(_kind(trees[0]), []).append(rule)
    return {kind: tuple(rules) for kind, rules in found.items()}


def _kind(tree: Any) -> type:
    if isinstance(tree, ast.BinOp):
        return _NODES[type(tree.op)]
    if isinstance(tree, ast.Compare):
        return _NODES[type(tree.ops[0])]
    return _NODES[tree.func.id]


def _parts(tree: Any) -> tuple[Any, ...]:
    if isinstance(tree, ast.BinOp):
        return (tree.left, tree.right)
    if isinstance(tree, ast.Compare):
        return (tree.left, tree.comparators[0])
    return tuple(tree.args)


class Simplifier(Recursive):
    """Simplifies by rules, with what an analyzer knows."""

    recursive = ("simplify", "root", "match", "make", "let", "reduction")

    def __init__(self, analyzer: Analyzer) -> None:
        from .rewrite_compare import RULES as compare_rules
        from .rewrite_rules import RULES

        self.analyzer = analyzer
        self.rules = {**table(RULES), **table(compare_rules)}
        self.left = _MOST

    def simplify(self, e: Any) -> Any:
        """An equal expression; the same object where nothing changes."""
        return self.root(self.below(e))

    def below(self, e: Any) -> Any:
        """The node with its parts simplified."""
        kind = type(e)
        if kind is E.Call:
            args = [self.simplify(a) for a in e.args]
            same = all(a is b for a, b in zip(args, e.args))
            return e if same else E.Call(e.dtype, e.op, args)
        if kind is E.Let:
            return self.let(e)
        if kind is E.Cast:
            value = self.simplify(e.value)
            return e if value is e.value else E.cast(e.dtype, value)
        if kind is Reduce:
            return self.reduction(e)
        if kind not in _MAKERS and kind not in (E.GT, E.GE):
            return e
        fields = _FIELDS.get(kind, ("a", "b"))
        old = [getattr(e, f) for f in fields]
        new = [self.simplify(x) if isinstance(x, E.PrimExpr) else x for x in old]
        if all(x is y for x, y in zip(old, new)):
            return e
        return kind(*new)

    def let(self, e: Any) -> Any:
        """A `Let` with its parts simplified; what a variable or constant is named for stands in
        place of the name."""
        value = self.simplify(e.value)
        if isinstance(value, (E.Var, E.IntImm)):
            return self.simplify(substitute(e.body, {e.var: value}))
        body = self.simplify(e.body)
        return e if value is e.value and body is e.body else E.Let(e.var, value, body)

    def root(self, e: Any) -> Any:
        """Apply rules to the root of an expression whose parts are simplified."""
        folded = self._folded(e)
        if folded is not None:
            return folded
        known = self._known(e)
        if known is not None:
            return known
        operand = getattr(e, "a", e)
        if parse(operand.dtype).element not in ("int32", "int64", "bool"):
            return e  # shorter types wrap
        stats = self.analyzer.rewrite_simplify_stats
        stats.nodes_visited += 1
        for rule in self.rules.get(type(e), ()):
            bound: dict[str, Any] = {}
            stats.rewrites_attempted += 1
            if self.left <= 0 or not self.match(rule.left, e, bound):
                continue
            if rule.condition is not None and not self._holds(rule, bound):
                continue
            self.left -= 1
            try:
                made = self.make(rule.right, bound)
            except TilewrightError:
                continue
            made = E.const(made, e.dtype) if isinstance(made, int) else made
            if made.dtype != e.dtype or structural_equal(made, e):
                continue
            stats.rewrites_performed += 1
            stats.num_recursive_rewrites += rule.again
            most = self.analyzer.maximum_rewrite_steps
            if most is not None and stats.rewrites_performed > most:
                raise UsageError(f"RewriteSimplifier exceeded maximum number of rewrites: {most}")
            return self.simplify(made) if rule.again else self._known(made, made)
        return e

    def _folded(self, e: Any) -> Any:
        """What Python's operators make of a node, if that is something else."""
        kind = type(e)
        if kind not in _MAKERS or kind in (E.Ramp, E.Broadcast):
            return None
        parts = [getattr(e, f) for f in _FIELDS.get(kind, ("a", "b"))]
        if not any(isinstance(x, (E.IntImm, E.FloatImm)) for x in parts):
            return None
        try:
            made = _MAKERS[kind](*parts)
        except TilewrightError:
            return None
        return None if type(made) is kind else made

    def reduction(self, e: Any) -> Any:
        """A reduction with its parts simplified, in the domains of its axes."""
        for axis in e.axis:
            if axis.dom is not None:
                self.analyzer.bind(axis.var, axis.dom)
        source, init = ([self.simplify(x) for x in part] for part in (e.source, e.init))
        condition = self.simplify(e.condition)
        parts = zip((*source, *init, condition), (*e.source, *e.init, e.condition))
        if all(a is b for a, b in parts):
            return e
        return Reduce(e.combiner, source, e.axis, condition, e.value_index, init)

    def _known(self, e: Any, default: Any = None) -> Any:
        """The constant that an expression is, if it is known; what is folded."""
        kind = type(e)
        if kind in (E.GT, E.GE):
            return self.root((E.LT if kind is E.GT else E.LE)(e.b, e.a))
        t = parse(e.dtype)
        if t.lanes != 1 or isinstance(e, (E.IntImm, E.FloatImm, E.Var)) or not _is_small(e):
            return default
        if t.is_bool:
            if kind in (E.Select, E.Let):
                return default
            for value, cond in ((1, e), (0, logical_not(e))):
                if self.analyzer.can_prove(cond):
                    return E.const(bool(value))
            return default
        if t.is_integer and kind is not E.Add and kind is not E.Sub:
            bound = self.analyzer.const_int_bound(e)
            if bound.min_value == bound.max_value:
                return E.const(bound.min_value, e.dtype)
        opposite = E.Max if kind is E.Min else E.Min
        crossed = kind in (E.Min, E.Max) and type(e.a) is opposite and type(e.b) is kind
        if crossed and structural_equal(e.a.a, e.b.b) and structural_equal(e.a.b, e.b.a):
            return kind(e.a.a, e.a.b)
        if kind in (E.Min, E.Max) and t.is_integer:
            low, high = (e.a, e.b) if kind is E.Min else (e.b, e.a)
            if self.analyzer.can_prove_less_equal(low, high):
                return e.a
            if self.analyzer.can_prove_less_equal(high, low):
                return e.b
        return default

    # -- rules

    def match(self, tree: Any, e: Any, bound: dict[str, Any]) -> bool:
        """Whether an expression has the form of a pattern; enters what its letters are."""
        if isinstance(tree, ast.Name):
            name = tree.id
            if name[0] == "c":
                number = E.const_int(e)
                return number is not None and bound.setdefault(name, number) == number
            known = bound.setdefault(name, e)
            if known is e:
                return True
            if isinstance(known, E.Node) and isinstance(e, E.Node):
                return structural_equal(known, e)
            return not isinstance(known, E.Node) and bool(known == e)
        if isinstance(tree, ast.Constant):
            return E.const_int(e) == tree.value
        kind = _kind(tree)
        if type(e) is not kind:
            return False
        fields = _FIELDS.get(kind, ("a", "b"))
        return all(self.match(p, getattr(e, f), bound) for p, f in zip(_parts(tree), fields))

    def make(self, tree: Any, bound: Mapping[str, Any]) -> Any:
        """The right side of a rule; what consists of constants is computed."""
        if isinstance(tree, ast.Name):
            return bound[tree.id]
        if isinstance(tree, ast.Constant):
            return tree.value
        if not any(isinstance(n, ast.Name) and n.id in _LETTERS for n in ast.walk(tree)):
            return eval(compile(ast.Expression(tree), "rule", "eval"), {}, {**_NUMBERS, **bound})
        parts = [self.make(p, bound) for p in _parts(tree)]
        return _MAKERS[_kind(tree)](*parts)

    def _holds(self, rule: Rule, bound: Mapping[str, Any]) -> bool:
        analyzer = self.analyzer
        names = {
            **_NUMBERS,
            **bound,
            "nn": lambda *es: all(
                _is_small(e) and analyzer.can_prove_greater_equal(e, 0) for e in es
            ),
            "inr": lambda e, c: (
                _is_small(e)
                and analyzer.can_prove_greater_equal(e, 0)
                and analyzer.can_prove_less(e, c)
            ),
            "always": lambda *es: True,
            "whole": lambda e: not parse(e.dtype).is_float,
            "same": lambda a, b: _is_small(a) and _is_small(b) and analyzer.can_prove_equal(a, b),
        }
        return bool(eval(rule.condition, {}, names))


_LETTERS = frozenset((*"xyzwvbsldefpq", "ramp", "bc", "Sel", "And", "Or", "Not")) | {
    "b1",
    "b2",
    "s1",
    "s2",
}
_NUMBERS: dict[str, Any] = {
    "tdiv": truncated,
    "tmod": lambda a, b: a - truncated(a, b) * b,
    "min": min,
    "max": max,
    "abs": abs,
}


def _is_small(e: Any) -> bool:
    """Whether a proof about an expression is tried: its cost must not grow with the depth."""
    return not isinstance(e, E.PrimExpr) or len(list(islice(walk(e), _MOST_PROVED))) < _MOST_PROVED


def rewrite_simplify(analyzer: Analyzer, e: Any) -> Any:
    """`e` simplified by rules."""
    if not isinstance(e, E.PrimExpr):
        e = E.convert(e)
    kind = parse(e.dtype)
    if kind.is_float or kind.is_handle or is_data(e):
        return analyzer.simplify(e)
    found = Simplifier(analyzer).simplify(e)
    if isinstance(found, (E.IntImm, E.Var)):
        return found
    normal = analyzer.simplify(found) if _is_small(found) else found
    return normal if isinstance(normal, E.IntImm) else found
