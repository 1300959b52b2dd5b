"""What bound inference finds: StageBounds by stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..arith import Analyzer
from ..loopir.expr import IntImm, PrimExpr, Var, const
from ..loopir.iter import IterVar, Range
from ..tensor.tensor import Tensor
from .relations import Values, derived_from, pass_down_extents, pass_up_values
from .state import StageState
from .thread_memory import Span, larger_of


class StageBounds:
    """Of one stage: `min` of its root axes, `extent` of all axes, the loop variable of each leaf;
    `needed`, (min, extent) of root axes whose loops run over more than may be computed; `guarded`,
    tiles whose parts are not to reach into the next one.
    """

    __slots__ = ("extent", "guarded", "min", "needed", "var")

    def __init__(self) -> None:
        self.min: Values = {}
        self.extent: Values = {}
        self.needed: dict[IterVar, Span] = {}
        self.var: dict[IterVar, Var] = {}
        self.guarded: dict[IterVar, None] = {}

    def of_one_step(self, stage: StageState, analyzer: Analyzer) -> StageBounds:
        """The same, were the stage's reduction of extent 1."""
        new = StageBounds()
        new.min, new.needed, new.var = self.min, self.needed, self.var
        new.guarded = self.guarded
        roots = {a: self.extent[a] for a in stage.op.axis}
        roots |= {a: const(1, a.var.dtype) for a in stage.op.reduce_axis}
        shorter = pass_down_extents(stage.relations, roots, analyzer)
        reduction = derived_from(stage.relations, stage.op.reduce_axis)
        new.extent = {a: shorter[a] if a in reduction else e for a, e in self.extent.items()}
        return new

    def offset(self, leaf: IterVar) -> PrimExpr:
        """The value of a leaf axis inside its loop: the loop variable, or 0 for a single
        iteration.
        """
        extent = self.extent[leaf]
        if isinstance(extent, IntImm) and extent.value == 1:
            return const(0, extent.dtype)
        return self.var[leaf]


class Bounds:
    """The result of `infer_bounds`: StageBounds by stage, and an analyzer that knows all loop
    variables.
    """

    def __init__(self, sch: Any) -> None:
        self.schedule = sch
        self.analyzer = Analyzer()
        self.of: dict[int, StageBounds] = {}
        self.extents: dict[Var, PrimExpr] = {}
        self.regions: dict[Tensor, list[Range]] = {}
        self.threads: dict[Var, IterVar] = {}  # axes of real threads, by their variable
        self.virtual: set[Var] = set()  # variables of virtual threads
        self.inside: dict[int, list[StageState]] = {}  # the stages in the loops of others
        self.filled: dict[IterVar, int] = {}  # steps of axes of tiles that readers are filled up to
        self.positions = {stage.id: i for i, stage in enumerate(sch.stages)}

    def __getitem__(self, stage: StageState) -> StageBounds:
        return self.of[stage.id]

    def bind(self, var: Var, extent: PrimExpr) -> None:
        """Tell the analyzer what a loop variable runs over.

        The variable of a thread axis is one for all stages, which may use unequal parts of it.
        """
        known = self.extents.get(var)
        most = larger_of(self.analyzer, known, extent)
        if most is not known:
            self.extents[var] = most
            self.analyzer.bind(var, Range.from_min_extent(const(0, var.dtype), most))


def root_offsets(
    b: Bounds, stage: StageState, leaves: Mapping[IterVar, PrimExpr] | None = None
) -> Values:
    """Offsets of all axes of a stage in terms of its loop variables (or of given leaf offsets)."""
    mine = b[stage]
    if leaves is None:
        leaves = {x: mine.offset(x) for x in stage.leaf_iter_vars if x in mine.extent}
    return pass_up_values(stage.relations, leaves, mine.extent)
