"""What the simplifier knows and remembers.

A Context holds facts about variables in layers: `push` opens one, `pop` takes back what was learned
in it. Results are remembered per layer, by identity of the expression: a new layer starts with
nothing remembered, since it may know more, and the old layer's memory is right again after `pop`.

Kinds of facts:
- `known`: constant bounds of atoms
- `facts`: linear forms that are zero or more (constraints), listed under every atom they hold
- `ranges`: the same for symbolic ranges, under the bound variable: that of a loop variable says
  nothing about its limits outside the loop, so it is used only where the variable itself occurs
- `truths`: conditions of any other kind, known true or false
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..base.deep import Recursive, is_on
from ..loopir import expr as E
from .emit import OutOfRange, emit
from .forms import (
    INF,
    LINEAR_TYPES,
    Atom,
    Bound,
    Lin,
    MulAtom,
    SumAtom,
    VarAtom,
    atom_lin,
    limits,
)
from .interval import ATOM_BOUNDS
from .same import same_expr
from .space import Space
from .wrap import Unfit

if TYPE_CHECKING:
    from .samples import Samples

Handler = Callable[..., Any]
_Ranged = tuple[set[Atom], dict[Atom, list[Lin]]]
_LEAVES = frozenset((E.IntImm, E.FloatImm, E.StringImm))


class Context(Recursive):
    """Facts and memory of one Analyzer; see the module's head."""

    recursive = ("lin_table", "simp_table", "bound_table")

    __slots__ = (
        "_layers",
        "_undo",
        "bound_table",
        "bounds",
        "disjunctions",
        "facts",
        "keeps_variables",
        "known",
        "lin_table",
        "lins",
        "modular",
        "plain",
        "proofs",
        "ranged",
        "ranges",
        "residues",
        "samples",
        "simp_table",
        "simps",
        "space",
        "truths",
        "unequal",
        "values",
    )

    def __init__(
        self,
        lin_table: dict[type, Handler],
        simp_table: dict[type, Handler],
        space: Space | None = None,
    ) -> None:
        self.space = space or Space()
        # proofs look into opaque atoms through a context without facts: what they find there
        # cannot depend on the fact that is being used
        self.plain = self if space else Context(lin_table, simp_table, self.space)
        self.bound_table: Mapping[type, Callable[..., Bound]] = ATOM_BOUNDS
        self.lin_table = lin_table
        self.simp_table = simp_table
        self.known: dict[Atom, Bound] = {}
        self.keeps_variables = False  # those of which a condition leaves one value
        self.facts: dict[Atom, list[Lin]] = {}
        self.ranges: dict[Atom, list[Lin]] = {}
        self.truths: dict[int, bool] = {}
        self.values: dict[Atom, Any] = {}  # what a bound variable stands for: a Lin or PrimExpr
        self.residues: dict[Atom, tuple[int, int]] = {}  # atom = base modulo coefficient
        self.disjunctions: list[E.PrimExpr] = []
        self.unequal: list[Lin] = []  # what is not zero
        self._undo: list[Callable[[], Any]] = []
        self._layers: list[tuple[Any, ...]] = []
        self.clear()
        if is_on():
            self.go_deep()

    def go_deep(self) -> None:
        super().go_deep()
        if self.plain is not self:
            self.plain.go_deep()

    def clear(self) -> None:
        """Forget results (not facts), in this layer and those below."""
        self.lins: dict[int, tuple[Any, Lin]] = {}
        self.simps: dict[int, tuple[Any, Any]] = {}
        self.bounds: dict[Atom, Bound] = {}
        self.modular: dict[Atom, tuple[int, int]] = {}
        self.proofs: dict[Any, bool] = {}
        self.ranged: _Ranged | None = None
        self.samples: Samples | None = None
        self._layers = [({}, {}, {}, {}, {}, None, None, mark) for *_, mark in self._layers]

    def push(self) -> None:
        """Open a layer."""
        results = (self.lins, self.simps, self.bounds, self.modular, self.proofs, self.ranged)
        self._layers.append((*results, self.samples, len(self._undo)))
        self._forget_results()

    def pop(self) -> None:
        """Take back what was learned since the last `push`."""
        *results, mark = self._layers.pop()
        self.lins, self.simps, self.bounds, self.modular, self.proofs = results[:5]
        self.ranged, self.samples = results[5:]
        undo = self._undo
        while len(undo) > mark:
            undo.pop()()

    def learned(self, undo: Callable[[], Any]) -> None:
        """Say how to take back a fact; results so far in this layer may be out of date."""
        if self._layers:
            self._undo.append(undo)
        if self.lins or self.simps or self.bounds or self.modular or self.proofs or self.ranged:
            self._forget_results()

    def _forget_results(self) -> None:
        self.lins, self.simps, self.bounds, self.modular, self.proofs = {}, {}, {}, {}, {}
        self.ranged = self.samples = None

    def lin(self, e: E.PrimExpr) -> Lin:
        """The linear form of an int32 or int64 scalar."""
        hit = self.lins.get(id(e))
        if hit is not None:
            return hit[1]
        result: Lin
        try:
            result = self.lin_table[type(e)](self, e)
        except Unfit:  # data that may wrap: the operation stays
            result = atom_lin(self.space.opaque(self._with_parts(e)))
        self.lins[id(e)] = (e, result)
        return result

    def _with_parts(self, e: Any) -> Any:
        a, b = self.simp(e.a), self.simp(e.b)
        return e if a is e.a and b is e.b else type(e)(a, b)

    def simp(self, e: Any) -> Any:
        """The simplified form of any expression; the same object where nothing changes."""
        t = type(e)
        if t in _LEAVES:
            return e
        hit = self.simps.get(id(e))
        if hit is not None:
            return hit[1]
        if e.dtype in LINEAR_TYPES:
            try:
                result: Any = emit(self.lin(e), e.dtype)
            except OutOfRange:
                result = e
        else:
            result = self.simp_table[t](self, e)
        if result is not e and same_expr(result, e, self.simps):
            result = e
        self.simps[id(e)] = (e, result)
        return result

    def var(self, e: E.Var) -> Lin:
        """The form of a variable: what it is bound to, or itself."""
        atom = self.space.var(e)
        value = self.values.get(atom)
        if value is not None and type(value) is Lin:
            return value
        low, high = self.known.get(atom, (0, 1))
        if low == high and not self.keeps_variables:
            return Lin({}, int(low))
        return atom_lin(atom)

    def bound(self, atom: Atom) -> Bound:
        """Constant bounds of an atom."""
        hit = self.bounds.get(atom)
        if hit is not None:
            return hit
        if type(atom) is VarAtom:
            low, high = self.known.get(atom) or (
                (0, INF) if type(atom.var) is E.SizeVar else (-INF, INF)
            )
        else:
            low, high = self.bound_table[type(atom)](self, atom)
        if atom.data and type(atom) is not MulAtom and type(atom) is not SumAtom:
            least, most = limits(atom.dtype)
            if low < least or high > most:
                low, high = least, most  # it may have wrapped
        if type(atom) is not VarAtom:
            known = self.known.get(atom)
            if known is not None:
                low, high = max(low, known[0]), min(high, known[1])
        self.bounds[atom] = (low, high)
        return low, high

    def ranges_in_scope(self, x: Lin) -> dict[Atom, list[Lin]]:
        """Symbolic ranges of the variables in a form and in constraints, under their atoms."""
        if self.ranged is None:  # what constraints need is looked for once, not for each question
            rows = (a for a, rows in self.facts.items() if rows)
            self.ranged = set(), {}
            self._add_ranges([v for a in rows for v in self.space.vars_of(a)], *self.ranged)
        seen, scope = self.ranged
        vars_of = self.space.vars_of
        pending = [v for a in x.terms for v in vars_of(a) if v not in seen]
        if pending:
            scope = {a: list(rows) for a, rows in scope.items()}
            self._add_ranges(pending, set(seen), scope)
        return scope

    def _add_ranges(
        self, pending: list[Atom], seen: set[Atom], scope: dict[Atom, list[Lin]]
    ) -> None:
        ranges, vars_of = self.ranges, self.space.vars_of
        while pending:
            var = pending.pop()
            if var in seen:
                continue
            seen.add(var)
            for row in ranges.get(var, ()):
                for a in row.terms:
                    scope.setdefault(a, []).append(row)
                    pending.extend(vars_of(a))

    def lin_bound(self, x: Lin) -> Bound:
        """Constant bounds of a linear form, its atoms taken as independent."""
        low: float = x.const
        high: float = x.const
        bounds, bound = self.bounds, self.bound
        try:
            for atom, k in x.terms.items():
                a, b = bounds.get(atom) or bound(atom)
                if k > 0:
                    low += k * a
                    high += k * b
                else:
                    low += k * b
                    high += k * a
        except OverflowError:  # an integer beyond what floats hold met an infinity
            return -INF, INF
        return low, high
