"""The loops of a hybrid script as its schedule says: split, fused, reordered, annotated.

A nest is a chain of loops each directly in the one around it, of extents that do not depend on one
another; a schedule arranges the loops of one nest among each other. Whether the statements allow
another order, or to run side by side, is for the user to know, as it is for the script itself.
"""

from __future__ import annotations

from typing import Any

from ..arith import Analyzer
from ..base.errors import ScheduleError
from ..loopir.expr import PrimExpr, Var, const, is_const
from ..loopir.iter import IterVar, Range
from ..loopir.op import likely
from ..loopir.rewrite import Rewriter, handles
from ..loopir.stmt import AttrStmt, For, ForKind, IfThenElse, Stmt
from ..loopir.subst import substitute
from ..loopir.visit import free_vars
from ..schedule.relations import Fuse, Relation, Split, pass_down_extents, pass_up_values
from ..schedule.state import StageState

_KINDS = {
    IterVar.Unrolled: ForKind.UNROLLED,
    IterVar.Vectorized: ForKind.VECTORIZED,
    IterVar.Parallelized: ForKind.PARALLEL,
}


def hybrid_body(stage: StageState, body: Stmt, analyzer: Analyzer) -> Stmt:
    """The script's statement with its loops arranged; ScheduleError where loops of several nests
    were fused or put in another order."""
    plain = list(stage.op.axis) == stage.leaf_iter_vars
    if plain and not any(stage.attrs.get(leaf) for leaf in stage.leaf_iter_vars):
        return body
    arranger = _Arranger(stage, analyzer)
    result: Stmt = arranger.stmt(body)
    if [id(a) for a in arranger.order] != [id(a) for a in stage.leaf_iter_vars]:
        raise ScheduleError(
            f"the loops of the hybrid script {stage.name} cannot be put in this order: only loops "
            "directly in one another are reordered; its nests have the loops "
            + "; ".join(", ".join(a.var.name for a in nest) for nest in arranger.nests)
        )
    return result


class _Arranger(Rewriter):
    def __init__(self, stage: StageState, analyzer: Analyzer) -> None:
        self.stage = stage
        self.analyzer = analyzer
        self.axis_of: dict[Var, IterVar] = {a.var: a for a in stage.op.axis}
        self.order: list[IterVar] = []
        self.nests: list[list[IterVar]] = []

    @handles(For)
    def _for(self, s: For) -> Any:
        chain: list[For] = [s]
        inner: Stmt = s.body
        while isinstance(inner, For):
            before = {loop.loop_var for loop in chain}
            if before & {*free_vars(inner.extent), *free_vars(inner.min)}:
                break
            chain.append(inner)
            inner = inner.body
        return self._arranged(chain, inner)

    def _arranged(self, chain: list[For], body: Stmt) -> Stmt:
        roots = [self.axis_of[loop.loop_var] for loop in chain]
        relations = self._relations(roots)
        extents = pass_down_extents(
            relations, {a: s.extent for a, s in zip(roots, chain)}, self.analyzer
        )
        mine = set(roots) | {c for r in relations for c in r.children}
        leaves = [leaf for leaf in self.stage.leaf_iter_vars if leaf in mine]
        self.nests.append(leaves)
        self.order += leaves
        values: dict[IterVar, PrimExpr] = {leaf: leaf.var for leaf in leaves}
        for leaf in leaves:
            zero = const(0, leaf.var.dtype)
            self.analyzer.bind(leaf.var, Range.from_min_extent(zero, extents[leaf]), True)
        offsets = pass_up_values(relations, values, extents)
        table = {
            a.var: loop.min + self.analyzer.simplify(offsets[a])
            if not is_const(loop.min, 0)
            else self.analyzer.simplify(offsets[a])
            for a, loop in zip(roots, chain)
            if offsets[a] is not a.var
        }
        body = substitute(self.stmt(body), table) if table else self.stmt(body)
        for relation in reversed(relations):
            if isinstance(relation, Split):
                inside = offsets[relation.parent] < extents[relation.parent]
                if not self.analyzer.can_prove(inside):
                    body = IfThenElse(likely(self.analyzer.simplify(inside)), body)
        for leaf in reversed(leaves):
            body = self._wrapped(leaf, extents[leaf], body)
        return body

    def _relations(self, roots: list[IterVar]) -> list[Relation]:
        """The relations of the stage that start from these axes."""
        known = set(roots)
        found: list[Relation] = []
        for relation in self.stage.relations:
            here = [p in known for p in relation.parents]
            if not any(here):
                continue
            if not all(here):
                names = " and ".join(p.var.name for p in relation.parents)
                raise ScheduleError(
                    f"cannot fuse {names} of the hybrid script {self.stage.name}: they are not "
                    "loops directly in one another"
                )
            if not isinstance(relation, (Split, Fuse)):
                raise ScheduleError(
                    f"the loops of the hybrid script {self.stage.name} are split and fused, no more"
                )
            known.update(relation.children)
            found.append(relation)
        return found

    def _wrapped(self, leaf: IterVar, extent: PrimExpr, body: Stmt) -> Stmt:
        attr = self.stage.attr(leaf)
        if attr.tensor_intrin is not None or attr.prefetch:
            raise ScheduleError(
                f"loops of the hybrid script {self.stage.name} take no tensorize and no prefetch"
            )
        thread = attr.bind_thread
        if thread is not None:
            axis = IterVar(thread.dom, leaf.var, thread.iter_type, thread.thread_tag)
            virtual = thread.thread_tag.startswith(("vthread", "cthread"))
            body = AttrStmt(axis, "virtual_thread" if virtual else "thread_extent", extent, body)
        else:
            kind = _KINDS.get(self.stage.kind_of(leaf), ForKind.SERIAL)
            body = For(leaf.var, const(0, extent.dtype), extent, kind, body)
        for key, value in reversed(attr.pragmas):
            body = AttrStmt(leaf, f"pragma_{key}", value, body)
        return body
