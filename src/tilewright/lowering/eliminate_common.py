"""Give names to index arithmetic that a statement repeats."""

from __future__ import annotations

from typing import Any

from ..base.deep import Recursive
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.rewrite import ARITH, Rewriter, handles
from ..loopir.visit import CHILDREN
from .options import LowerOptions


def eliminate_common(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Put `cse_var_N = ...` around each store or evaluation that computes a scalar integer twice or
    more.

    Named are expressions of loop variables, lets and constants only: what holds a shape, a stride
    or a thread variable stays in its place (the code generator sees it as invariant anyhow), and so
    do calls and reads of buffers, whose indices are searched however. The largest expressions are
    taken first; what occurs within them counts once. Linear in the size of each statement.

    Needs simplified indices, in which equal values look equal. Stands last of all passes that look
    at expressions, since a name hides what an index is made of.
    """
    if options.disable_cse:
        return func
    return func.with_body(_Eliminator().stmt(func.body))


class _Eliminator(Rewriter):
    def __init__(self) -> None:
        self.scope: set[E.Var] = set()
        self.graph = _Graph(self.scope)
        self.count = 0

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        self.scope.add(s.loop_var)
        return s.with_parts(body=self.stmt(s.body))

    @handles(S.LetStmt)
    def _let_stmt(self, s: S.LetStmt) -> Any:
        self.scope.add(s.var)
        body = self.stmt(s.body)
        return s.with_parts(body=body)

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        then_case = self.stmt(s.then_case)
        else_case = None if s.else_case is None else self.stmt(s.else_case)
        return s.with_parts(then_case=then_case, else_case=else_case)

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        roots = [*s.indices, s.value]
        return self._statement(s, roots if s.predicate is None else [*roots, s.predicate])

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        return self._statement(s, [s.value])

    def _statement(self, s: Any, roots: list[Any]) -> S.Stmt:
        graph = self.graph
        tops = [graph.add(e) for e in roots]
        chosen = graph.repeated(tops)
        if not chosen:
            stmt: S.Stmt = s
            return stmt
        names: dict[int, E.Var] = {}
        for index in chosen:
            self.count += 1
            names[index] = E.Var(f"cse_var_{self.count}", graph.nodes[index].dtype)
        replace = _Replace(graph, names)
        result: S.Stmt = Rewriter.table[type(s)](replace, s)
        for index in chosen:
            value = replace.inside(graph.nodes[index])
            result = S.LetStmt(names[index], value, result)
        return result


class _Graph(Recursive):
    """The distinct subexpressions of a function: equal ones share an index, children first."""

    recursive = ("add",)

    def __init__(self, scope: set[E.Var]) -> None:
        self.scope = scope
        self.index: dict[Any, int] = {}
        self.of_object: dict[int, int] = {}
        self.nodes: list[Any] = []
        self.children: list[tuple[int, ...]] = []
        self.movable: list[bool] = []

    def add(self, e: Any) -> int:
        """The index of an expression."""
        known = self.of_object.get(id(e))
        if known is not None:
            return known
        kind = type(e)
        if kind in _ARITH:
            below: tuple[int, ...] = (self.add(e.a), self.add(e.b))
            key: Any = (kind, below)
        else:
            below = tuple([self.add(c) for c in CHILDREN[kind](e)])
            key = self._key(kind, e, below)
        index = self.index.get(key)
        if index is None:
            index = len(self.nodes)
            self.index[key] = index
            self.nodes.append(e)
            self.children.append(below)
            self.movable.append(self._movable(kind, e, below))
        self.of_object[id(e)] = index
        return index

    @staticmethod
    def _key(kind: type, e: Any, below: tuple[int, ...]) -> Any:
        if kind is E.IntImm:
            return (kind, e.dtype, e.value)
        if kind is E.Cast:
            return (kind, e.dtype, below)
        if kind is E.Ramp or kind is E.Broadcast:
            return (kind, e.lanes, below)
        return id(e)

    def _movable(self, kind: type, e: Any, below: tuple[int, ...]) -> bool:
        if kind is E.IntImm:
            return True
        if kind is E.Var or kind is E.SizeVar:
            return e in self.scope
        if kind not in _ARITH or not _is_scalar_int(e.dtype):
            return False
        if kind in _DIVISIONS and not (type(e.b) is E.IntImm and e.b.value):
            return False
        return all(self.movable[c] for c in below)

    def repeated(self, roots: list[int]) -> list[int]:
        """The indices of what gets a name, largest first."""
        children, movable = self.children, self.movable
        uses: dict[int, int] = dict.fromkeys(roots, 0)
        stack = list(uses)
        while stack:
            for child in children[stack.pop()]:
                if child not in uses:
                    uses[child] = 0
                    stack.append(child)
        for root in roots:
            uses[root] += 1
        chosen = []
        for index in sorted(uses, reverse=True):
            below = children[index]
            if not below:
                continue
            times = uses[index]
            if times >= 2 and movable[index]:
                chosen.append(index)
                times = 1
            elif times > 2:
                times = 2
            for child in below:
                uses[child] += times
        return chosen


class _Replace(Rewriter):
    def __init__(self, graph: _Graph, names: dict[int, E.Var]) -> None:
        self.graph, self.names = graph, names

    @handles(*ARITH)
    def _named(self, e: Any) -> Any:
        name = self.names.get(self.graph.of_object[id(e)])
        return name if name is not None else self.inside(e)

    def inside(self, e: Any) -> Any:
        """`e` itself with names for what is below it."""
        return Rewriter.table[type(e)](self, e)


_ARITH = frozenset(ARITH)
_DIVISIONS = frozenset((E.FloorDiv, E.FloorMod, E.Div, E.Mod))


def _is_scalar_int(dtype: str) -> bool:
    t = parse(dtype)
    return t.is_integer and t.lanes == 1
