"""What users see of a state's stages: their loops with ranges and annotations, and their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from ..arith import Analyzer
from ..loopir.expr import PrimExpr, const_int
from ..loopir.iter import IterVar, Range
from ..schedule.api import Stage as LiveStage
from ..schedule.relations import pass_down_extents
from ..schedule.state import INLINE, INLINED_ALREADY, SCOPE
from ..tensor.op import Operation, PlaceholderOp
from . import rows as R

ITER_KINDS = {IterVar.DataPar: 0, IterVar.CommReduce: 1}
SPECIAL = 3
_KINDS = {
    IterVar.Unrolled: R.UNROLL, IterVar.Vectorized: R.VECTORIZE, IterVar.Parallelized: R.PARALLEL,
}  # fmt: skip
_TAGS = {tag: kind for kind, tag in R.THREAD_TAGS.items()}

ANNOTATIONS = {
    "none": R.NONE, "unroll": R.UNROLL, "vectorize": R.VECTORIZE, "parallel": R.PARALLEL, **_TAGS,
    "tensorize": R.TENSORIZE,
}  # fmt: skip
"""The numbers of what may be said of a loop, as TVM's records have them."""

ROOT, INLINED, ITER = range(3)


@cache
def _range(extent: int) -> Range:
    return Range(0, extent)


class Iterator:
    """A loop of a stage as it is now: by the stage's and the axis's creation numbers.

    `range`: what it runs over, where that is known: of stages that are computed whole, and of all
    once bounds have been inferred (ComputeDAG.infer_bound_from_state); None elsewhere. `name`: as
    the state prints it. `annotation`: a number of ANNOTATIONS. `iter_kind`: 0 data, 1 reduction, 3
    another.
    """

    __slots__ = ("_extent", "_relations", "_whole", "annotation", "axis", "ident", "name")

    def __init__(
        self, live: LiveStage, axis: IterVar, name: str, extent: PrimExpr | None = None
    ) -> None:
        self.ident, self.axis, self.name, self._extent = live.id, axis, name, extent
        self._relations = tuple(live.relations)
        self._whole = None if live.attach_type == SCOPE else live.op
        thread = live.attr(axis).bind_thread
        if thread is not None:
            self.annotation = _TAGS.get(thread.thread_tag, R.NONE)
        else:
            self.annotation = _KINDS.get(live.kind_of(axis), R.NONE)

    @property
    def iter_kind(self) -> int:
        """The kind of iteration, by TVM's number: 0 spatial, 1 reduction, 3 special."""
        return ITER_KINDS.get(self.axis.iter_type, SPECIAL)

    @property
    def range(self) -> Range | None:
        """The values that the loop runs over; None where its extent is not known yet."""
        if self._extent is None and self._whole is not None:
            roots = {a: a.dom.extent for a in self._whole.root_iter_vars() if a.dom is not None}
            found = pass_down_extents(self._relations, roots, Analyzer())
            self._extent = found.get(self.axis)
        if self._extent is None:
            return None
        extent = const_int(self._extent)
        # lengths that are still open are variables here, as TVM leaves them undefined
        return None if extent is None else _range(extent)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Iterator) and (self.ident, self.axis) == (other.ident, other.axis)

    def __hash__(self) -> int:
        return hash((self.ident, id(self.axis)))

    def __repr__(self) -> str:
        return f"Iterator({self.name})"


class StageView:
    """One stage of a state: its operation, its leaf loops, where it is computed (`compute_at`: 0
    root, 1 inlined, 2 at a loop of another). `op_type`: 0 an input, 1 computed."""

    COMPUTE_AT_TRANS_TABLE = {"root": ROOT, "inlined": INLINED, "iter": ITER}

    __slots__ = ("iters", "live", "op")

    def __init__(
        self,
        live: LiveStage,
        names: Callable[[IterVar], str],
        extents: Mapping[IterVar, PrimExpr] | None = None,
    ) -> None:
        self.live = live
        self.op: Operation = live.op
        known = extents or {}
        self.iters = [Iterator(live, a, names(a), known.get(a)) for a in live.leaf_iter_vars]

    @property
    def op_type(self) -> int:
        """0 for an input, 1 for what is computed."""
        return 0 if isinstance(self.op, PlaceholderOp) else 1

    @property
    def compute_at(self) -> int:
        """Where the stage is computed, by TVM's number: 0 at the root, 1 inlined, 2 at a loop."""
        places = {INLINE: INLINED, INLINED_ALREADY: INLINED, SCOPE: ITER}
        return places.get(self.live.attach_type, ROOT)

    def __repr__(self) -> str:
        return f"Stage({self.op.name})"
