"""Give names to what statements compute several times, wherever in them: what
`tir.transform.CommonSubexprElimTIR` does when it is asked for by itself. `eliminate_common` is the
pass of the pipeline, which looks at the indices of single statements.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..arith.analyzer import Analyzer
from ..arith.emit import emit
from ..arith.simplify.mul import expand
from ..base.deep import Recursive
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.equal import structural_equal
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import CHILDREN, walk

Counts = dict[int, int]
_COMPUTED = (*E.BinaryOp.__subclasses__(), *E.CmpOp.__subclasses__(), E.Not, E.Select, E.Cast)
_EXPRS = tuple(kind for kind in CHILDREN if issubclass(kind, E.PrimExpr))


def name_common(func: S.PrimFunc, equal_terms: bool = False) -> S.PrimFunc:
    """Put `cse_var_N = ...` around the outermost statement that computes an expression twice or
    more, and in which its variables are known.

    Named is what has no effect and reads no memory, the largest expressions first; what stands
    within a named one counts once. What is computed in both cases of a branch is computed there;
    what is in one of them gets its name within. `equal_terms`: terms that are equal in the normal
    form of arith are one.
    """
    scope = {*func.params, *(v for b in func.buffer_map.values() for v in _sizes(b))}
    return func.with_body(_Namer(scope, _Terms(equal_terms)).stmt(func.body))


def _sizes(buffer: Any) -> list[E.Var]:
    return [x for d in buffer.shape for x in walk(d) if isinstance(x, E.Var)]


class _Term(NamedTuple):
    """A distinct expression: its nodes, its variables; `named`: whether it may get a name."""

    expr: Any
    size: int
    variables: frozenset[E.Var]
    named: bool


class _Terms(Recursive):
    """The distinct expressions of a function: equal ones share an index."""

    recursive = ("of",)

    def __init__(self, equal_terms: bool) -> None:
        self.context = Analyzer().context
        self.equal_terms = equal_terms
        self.index: dict[Any, int] = {}
        self.known: dict[int, tuple[Any, int]] = {}
        self.rows: list[_Term] = []

    def of(self, e: Any) -> int:
        """The index of an expression."""
        known = self.known.get(id(e))
        if known is not None:
            return known[1]
        below = [self.of(c) for c in CHILDREN[type(e)](e)]
        kind = type(e)
        if kind is E.IntImm or kind is E.FloatImm:
            key: Any = (kind, e.dtype, e.value)
        elif kind in _COMPUTED:
            key = (kind, e.dtype, tuple(below))
        else:
            key = id(e)
        found = self.index.get(key)
        if found is None:
            found = self.index[key] = len(self.rows)
            parts = [self.rows[i] for i in below]
            free = frozenset([e]) if isinstance(e, E.Var) else frozenset()
            free = free.union(*(p.variables for p in parts))
            plain = kind in _COMPUTED and all(p.named or not _has_parts(p.expr) for p in parts)
            self.rows.append(_Term(e, 1 + sum(p.size for p in parts), free, plain))
            if self.equal_terms and plain and e.dtype in ("int32", "int64"):
                found = self.index[key] = self._multiplied_out(e, found)
        self.known[id(e)] = (e, found)
        return found

    def _multiplied_out(self, e: Any, own: int) -> int:
        """The index of the normal form of a sum of products; `own` where that is `e` itself."""
        ctx = self.context
        normal = emit(expand(ctx, ctx.lin(e)), e.dtype)
        return own if structural_equal(normal, e) else self.of(normal)

    def counts(self, e: Any) -> Counts:
        """How often each expression that may be named stands in another."""
        found: Counts = {}
        for part in walk(e):
            index = self.of(part)
            if self.rows[index].named:
                found[index] = found.get(index, 0) + 1
        return found


def _has_parts(e: Any) -> bool:
    return not isinstance(e, (E.Var, E.IntImm, E.FloatImm))


def _add(to: Counts, more: Counts) -> None:
    for index, n in more.items():
        to[index] = to.get(index, 0) + n


class _Namer(Rewriter):
    recursive = ("stmt", "_counts")

    def __init__(self, scope: set[E.Var], terms: _Terms) -> None:
        self.scope = scope
        self.terms = terms
        self.known: dict[int, tuple[Any, Counts]] = {}
        self.names = 0

    def stmt(self, s: Any) -> Any:
        """The statement with names around it and within."""
        chosen = self._chosen(s)
        names: dict[int, E.Var] = {}
        for index in chosen:
            self.names += 1
            names[index] = E.Var(f"cse_var_{self.names}", self.terms.rows[index].expr.dtype)
        replace = _Replace(self.terms, names)
        if names:
            s = replace.stmt(s)
            self.scope |= set(names.values())
        made = self._below(s)
        for index in chosen:
            made = S.LetStmt(names[index], replace.inside(self.terms.rows[index].expr), made)
        return made

    def _below(self, s: Any) -> Any:
        defined = {S.For: "loop_var", S.LetStmt: "var"}.get(type(s))
        if defined is not None:
            self.scope.add(getattr(s, defined))
        return Rewriter.table[type(s)](self, s)

    @handles(*_EXPRS)
    def _keep(self, e: Any) -> Any:
        return e

    def _chosen(self, s: Any) -> list[int]:
        """What gets a name around a statement, largest first."""
        rows, counts = self.terms.rows, dict(self._counts(s))
        chosen = []
        for index in sorted(counts, key=lambda i: -rows[i].size):
            if counts[index] < 2 or not rows[index].variables <= self.scope:
                continue
            chosen.append(index)
            for part, n in self.terms.counts(rows[index].expr).items():
                if part in counts and part != index:
                    counts[part] -= n * (counts[index] - 1)
        return chosen

    def _counts(self, s: Any) -> Counts:
        """How often a statement computes each expression, in all its statements."""
        known = self.known.get(id(s))
        if known is not None:
            return known[1]
        found: Counts = {}
        branches: list[Counts] = []
        for part in CHILDREN[type(s)](s):
            if not isinstance(part, S.Stmt):
                _add(found, self.terms.counts(part))
            elif type(s) is S.IfThenElse:
                branches.append(self._counts(part))
            elif type(s) is not S.While:
                _add(found, self._counts(part))
        if len(branches) == 2:
            both = branches[0].keys() & branches[1].keys()
            for branch in branches:
                _add(found, {i: n for i, n in branch.items() if i in both})
        hidden = {S.For: "loop_var", S.LetStmt: "var"}.get(type(s))
        if hidden is not None:
            own, rows = getattr(s, hidden), self.terms.rows
            found = {i: n for i, n in found.items() if own not in rows[i].variables}
        self.known[id(s)] = (s, found)
        return found


class _Replace(Rewriter):
    """Puts names in the place of what they stand for."""

    def __init__(self, terms: _Terms, names: dict[int, E.Var]) -> None:
        self.terms, self.names = terms, names

    @handles(*_EXPRS)
    def _named(self, e: Any) -> Any:
        name = self.names.get(self.terms.of(e))
        return name if name is not None else self.inside(e)

    def inside(self, e: Any) -> Any:
        """`e` itself with names for what is below it."""
        return Rewriter.table[type(e)](self, e)
