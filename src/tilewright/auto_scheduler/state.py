"""A state of the search: rows applied to a computation, some of whose lengths may still be open.

A state holds a live schedule. Open lengths of splits stand in it as variables, so the structure of
a sketch (which loops there are, in which order, what is attached where) can be read off the same
object as that of a finished program. `close` gives the lengths values and replays the rows.

The methods carry the names of TVM's State, for users' own sketch rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..arith import Analyzer
from ..base.errors import ScheduleError
from ..loopir.expr import PrimExpr, const_int
from ..loopir.iter import IterVar
from ..schedule.api import Schedule, create_schedule
from ..schedule.api import Stage as LiveStage
from ..schedule.relations import pass_down_extents
from ..schedule.state import INLINE
from ..tensor.axes import thread_axis
from ..tensor.op import Operation
from ..tensor.tensor import Tensor
from ..topi.algorithms import Algorithm
from ..topi.schedules.decisions import Decisions
from . import rows as R
from .access import Access
from .describe import describe_state, inferred_extents
from .rows import Factor, Row, apply_row
from .stages import ANNOTATIONS, Iterator, StageView


class State:
    """Rows and the live schedule they lead to. Raises ScheduleError where the step does not fit the
    computation."""

    ANNOTATION_TRANS_TABLE = ANNOTATIONS

    def __init__(self, given: Any, dag: Any = None) -> None:
        """Of a computation, before any step; or, with `dag`, a copy of the state `given`."""
        self.origin = given if dag is None else dag
        self.rows: tuple[Row, ...] = ()
        self.algorithm_error = 0.0
        self.begin(self.origin)
        self.open: list[Factor] = []
        self.lengths: dict[int, list[Any]] = {}
        self.names: dict[IterVar, str] = {}
        self.packed: dict[int, int] = {}
        self.cached: set[int] = set()
        self._access: Any = None
        self._bounds: tuple[int, Mapping[int, Mapping[IterVar, PrimExpr]]] = (-1, {})
        self.candidate: Any = None
        self.chosen = Decisions()
        self._operations: dict[Operation, int] = {}
        for row in () if dag is None else given.rows:
            apply_row(self, row)
        if isinstance(given, State):  # what steps made there finds its stage here too
            made = {op: live.id for op, live in given.schedule.stage_of.items()}
            self._operations = {**given._operations, **made}

    def begin(self, dag: Any) -> None:
        """Start from a computation, before any step but the one that chose it; `origin` is the one
        that was given."""
        self.dag = dag
        self.schedule: Schedule = create_schedule(dag.outputs)
        self.order: list[int] = [self.schedule.find(op).id for op in dag.ops]

    @classmethod
    def from_rows(cls, dag: Any, rows: Sequence[Row]) -> State:
        """The state that rows lead to; ScheduleError where they do not fit the computation."""
        state = cls(dag)
        for row in rows:
            apply_row(state, row)
        return state

    @classmethod
    def default(
        cls,
        task: Any,
        algorithm: Algorithm | None = None,
        decisions: Mapping[str, tuple[int, ...]] | None = None,
    ) -> State:
        """The schedule that the operator library has for a task. `algorithm`: another than the one
        written. `decisions`: answers to what it asks, where it is not to decide by itself;
        `chosen` of the state says what it asked and what it took."""
        return cls.from_rows(task.compute_dag, cls.default_rows(task, algorithm, decisions))

    @staticmethod
    def default_rows(
        task: Any,
        algorithm: Algorithm | None = None,
        decisions: Mapping[str, tuple[int, ...]] | None = None,
    ) -> tuple[Row, ...]:
        """The steps of `default`."""
        a = algorithm
        first = [] if a is None else [(R.ALGORITHM_STEP, a.name, a.place, a.parameter)]
        answers = [(R.DECISION_STEP, q, v) for q, v in sorted((decisions or {}).items())]
        return (*first, *answers, (R.DEFAULT_STEP, str(task.target)))

    @property
    def steps(self) -> tuple[Row, ...]:
        """The rows behind the choice of an algorithm: those on `dag`."""
        return tuple(row for row in self.rows if row[0] != R.ALGORITHM_STEP)

    @property
    def is_default(self) -> bool:
        """Whether the state stands for the default schedule."""
        return R.is_default(self.rows)

    @property
    def decisions(self) -> dict[str, tuple[int, ...]]:
        """What the default schedule was told to decide."""
        return R.decisions_of(self.rows)

    def copy(self) -> State:
        """An independent state of the same rows."""
        return State(self, self.origin)

    def close(self, lengths: Sequence[int], extra: Sequence[Row] = ()) -> State:
        """The state with its open lengths given, in the order of `open`, and further rows. Raises
        ScheduleError where lengths are not as many as are open."""
        if len(lengths) != len(self.open):
            raise ScheduleError(f"{len(self.open)} open lengths, {len(lengths)} values")
        values = {(f.row, f.level): int(v) for f, v in zip(self.open, lengths)}
        closed: list[Row] = []
        for n, row in enumerate(self.rows):
            if row[0] == "SP":
                sizes = tuple(values.get((n, k), size) for k, size in enumerate(row[4]))
                row = (*row[:4], sizes, row[5])
            closed.append(row)
        return State.from_rows(self.origin, [*closed, *extra])

    # -- reading

    def stage_at(self, stage_id: int) -> LiveStage:
        """The live stage at a place of the list of stages. Raises ScheduleError where `stage_id` is
        no stage of the state."""
        if not 0 <= stage_id < len(self.order):
            raise ScheduleError(f"there are stages 0 to {len(self.order) - 1}, not {stage_id}")
        stage: LiveStage = self.schedule.by_id[self.order[stage_id]]
        return stage

    def insert(self, place: int, stage: LiveStage) -> None:
        """Put a stage at a place in the order."""
        self.order.insert(place, stage.id)

    @property
    def access(self) -> Access:
        """The predicates of sketch rules, over the present operations."""
        ops = self.stage_ops
        if self._access is None or self._access[0] != ops:
            outputs = list(self.schedule.outputs)
            inlined = [s.op for s in self.live_stages if s.attach_type == INLINE]
            self._access = (ops, inlined, Access(ops, outputs, inlined))
        elif self._access[1] != [s.op for s in self.live_stages if s.attach_type == INLINE]:
            self._access = None
            return self.access
        found: Access = self._access[2]
        return found

    def readers(self, stage_id: int) -> list[int]:
        """Places of the stages that read a stage, looking through inlined ones. Raises
        ScheduleError where `stage_id` is no stage of the state."""
        stages = {s.op: n for n, s in enumerate(self.live_stages)}
        return sorted(stages[op] for op in self.access.get_consumers(self.stage_at(stage_id).op))

    def has_compute_readers(self, stage_id: int) -> bool:
        """Whether all readers are given element by element: no extern, no step of a scan. Raises
        ScheduleError where `stage_id` is no stage of the state."""
        access = self.access
        readers = access.get_direct_consumers(self.stage_at(stage_id).op)
        return all(map(access.is_compute, readers))

    def fusible_reader(self, stage_id: int) -> int | None:
        """The place of the only, element-wise reader of a stage, if that can be tiled alike. Raises
        ScheduleError where `stage_id` is no stage of the state."""
        readers = self.readers(stage_id)
        if len(readers) != 1:
            return None
        op, reader = self.stage_at(stage_id).op, self.stage_at(readers[0])
        if reader.scope == "shared" or not self.access.elementwise_match(op, reader.op):
            return None
        if op.reduce_axis and getattr(reader.op, "reduce_axis", ()):
            return None
        return readers[0]

    def has_cache_write(self, stage_id: int) -> bool:
        """Whether the stage is one that a cache_write made."""
        return self.order[stage_id] in self.cached

    @property
    def live_stages(self) -> list[LiveStage]:
        """The stages of the schedule behind the state, in the order of computation."""
        return [self.schedule.by_id[i] for i in self.order]

    @property
    def stages(self) -> list[StageView]:
        """Each stage with its loops, in the order of computation."""
        return [self._view(s) for s in self.live_stages]

    def _view(self, live: LiveStage) -> StageView:
        rows, extents = self._bounds
        known = extents.get(live.id) if rows == len(self.rows) else None
        return StageView(live, self.name_of, known)

    def name_of(self, axis: IterVar) -> str:
        """What the state calls a loop (`rows.loop_name`)."""
        return R.loop_name(self, axis)

    def infer_bounds(self) -> State:
        """A copy whose iterators have their ranges, until a further row is applied to it."""
        new = self.copy()
        new._bounds = (len(new.rows), inferred_extents(new))
        return new

    @property
    def transform_steps(self) -> tuple[Row, ...]:
        """The rows, by TVM's name."""
        return self.rows

    @property
    def state_object(self) -> State:
        """The state itself: TVM's rules hand this on."""
        return self

    @property
    def compute_dag(self) -> Any:
        """The computation that the state was begun with."""
        return self.origin

    @property
    def stage_ops(self) -> list[Operation]:
        """The operation of each stage, in their order."""
        return [s.op for s in self.live_stages]

    def __getitem__(self, key: Any) -> StageView:
        return self._view(self.stage_at(self.stage_id(key)))

    def stage_id(self, key: Any) -> int:
        """The place of a stage given by its tensor, operation, view or place. Raises ScheduleError
        where `key` is no stage of the state."""
        if isinstance(key, int):
            self.stage_at(key)
            return key
        if isinstance(key, StageView):
            return self.order.index(key.live.id)
        known = self._operations.get(key.op if isinstance(key, Tensor) else key)
        return self.order.index(self.schedule.find(key).id if known is None else known)

    def loop(self, stage_id: int, it: Any) -> int:
        """The place of a loop among the leaf loops of a stage. Raises ScheduleError where `it` is
        no loop of the stage, where `stage_id` is no stage of the state."""
        if isinstance(it, int):
            return it
        axis = it.axis if isinstance(it, Iterator) else it
        leaves = self.stage_at(stage_id).leaf_iter_vars
        for n, leaf in enumerate(leaves):
            if leaf is axis:
                return n
        # an iterator of a state that this one is a copy of
        if isinstance(it, Iterator):
            names = [n for n, leaf in enumerate(leaves) if leaf.var.name == it.axis.var.name]
            if len(names) == 1:
                return names[0]
        raise ScheduleError(f"{it!r} is no loop of stage {self.stage_at(stage_id).name}")

    def thread(self, tag: str) -> IterVar:
        """A thread axis, to bind loops to. Raises UsageError where no tag is given."""
        return thread_axis(tag=tag)

    def __str__(self) -> str:
        return describe_state(self)

    def __eq__(self, other: object) -> bool:
        """Whether the loops are the same, however they came about."""
        if self is other:
            return True
        return isinstance(other, State) and str(self) == str(other)

    __hash__ = object.__hash__  # states change: what looks one up means just that one

    # -- TVM's methods

    def _iters(self, stage_id: int, axes: Sequence[IterVar]) -> list[Iterator]:
        ident = self.order[stage_id]
        live = self.schedule.by_id[ident]
        return [Iterator(live, a, self.name_of(a)) for a in axes]

    def split(
        self, stage: Any, iterator: Any, lengths: Sequence[int | None], inner_to_outer: bool = True
    ) -> list[Iterator]:
        """Split a loop into len(lengths) + 1; a length None is left open for the search. Raises
        ScheduleError where `iterator` is no loop of the stage, where the step does not fit the
        computation, where `stage` is no stage of the state."""
        sid = self.stage_id(stage)
        loop = self.loop(sid, iterator)
        extent = self.extent_of(sid, loop)
        row = ("SP", sid, loop, extent, tuple(lengths), int(inner_to_outer))
        return self._iters(sid, apply_row(self, row))

    def extent_of(self, stage_id: int, loop: int) -> int | None:
        """The extent of a loop of a whole stage, where it is constant. Raises ScheduleError where
        `loop` or `stage_id` is no loop of the stage."""
        stage, axis = R.leaf(self, stage_id, loop)
        if axis.dom is not None:
            return const_int(axis.dom.extent)
        roots = {a: a.dom.extent for a in stage.op.root_iter_vars() if a.dom is not None}
        return const_int(pass_down_extents(stage.relations, roots, Analyzer())[axis])

    def follow_split(self, stage: Any, iterator: Any, src_step_id: int, n_split: int) -> Any:
        """Split a loop with the factors of an earlier split, into `n_split` + 1 parts. Raises
        ScheduleError where `iterator` is no loop of the stage, where the step does not fit the
        computation, where `stage` is no stage of the state."""
        sid = self.stage_id(stage)
        row = ("FSP", sid, self.loop(sid, iterator), src_step_id, n_split)
        return self._iters(sid, apply_row(self, row))

    def follow_fused_split(
        self, stage: Any, iterator: Any, src_step_ids: Any, level: int, factor_or_nparts: bool
    ) -> Any:
        """Split a loop by the product of what earlier splits have at `level`. Raises ScheduleError
        where `iterator` is no loop of the stage, where the step does not fit the computation, where
        `stage` is no stage of the state."""
        sid = self.stage_id(stage)
        loop = self.loop(sid, iterator)
        row = ("FFSP", sid, loop, tuple(src_step_ids), level, int(factor_or_nparts))
        return self._iters(sid, apply_row(self, row))

    def fuse(self, stage: Any, iters: Sequence[Any]) -> Iterator:
        """Make one loop of loops that follow each other. Raises ScheduleError where `iters` is no
        loop of the stage, where the step does not fit the computation, where `stage` is no stage of
        the state."""
        sid = self.stage_id(stage)
        row = ("FU", sid, tuple(self.loop(sid, i) for i in iters))
        return self._iters(sid, [apply_row(self, row)])[0]

    def reorder(self, stage: Any, order: Sequence[Any]) -> None:
        """Put all loops of a stage in this order. Raises ScheduleError where `order` is no loop of
        the stage, where `stage` is no stage of the state."""
        sid = self.stage_id(stage)
        apply_row(self, ("RE", sid, tuple(self.loop(sid, i) for i in order)))

    def _annotate(self, stage: Any, iterator: Any, kind: int) -> Iterator:
        sid = self.stage_id(stage)
        axis = apply_row(self, ("AN", sid, self.loop(sid, iterator), kind))
        return self._iters(sid, [axis])[0]

    def parallel(self, stage: Any, iterator: Any) -> Iterator:
        """Run the iterations of a loop on several threads. Raises ScheduleError where `iterator` is
        no loop of the stage."""
        return self._annotate(stage, iterator, R.PARALLEL)

    def vectorize(self, stage: Any, iterator: Any) -> Iterator:
        """Run the iterations of a loop as the lanes of vectors. Raises ScheduleError where
        `iterator` is no loop of the stage."""
        return self._annotate(stage, iterator, R.VECTORIZE)

    def unroll(self, stage: Any, iterator: Any, max_unroll: int | None = None) -> Iterator:
        """Unroll a loop; with `max_unroll`, one of more iterations comes back as it is. Raises
        ScheduleError where `iterator` is no loop of the stage, where `stage` is no stage of the
        state."""
        sid = self.stage_id(stage)
        if max_unroll is not None:
            loop = self.loop(sid, iterator)
            extent = self.extent_of(sid, loop)
            if extent is None or extent > max_unroll:
                return self._iters(sid, [R.leaf(self, sid, loop)[1]])[0]
        return self._annotate(stage, iterator, R.UNROLL)

    def bind(self, stage: Any, iterator: Any, thread_name: str) -> Iterator:
        """Run the iterations of a loop on threads such as "threadIdx.x" or "vthread". Raises
        ScheduleError where thread_name is no thread, where `iterator` is no loop of the stage."""
        kinds = {tag: kind for kind, tag in R.THREAD_TAGS.items()}
        if thread_name not in kinds:
            raise ScheduleError(f"there is no thread {thread_name!r}; there are {list(kinds)}")
        return self._annotate(stage, iterator, kinds[thread_name])

    def pragma(self, stage: Any, iterator: Any, pragma_type: str) -> None:
        """Attach a pragma to a loop, such as "auto_unroll_max_step$16". Raises ScheduleError where
        `iterator` is no loop of the stage, where `stage` is no stage of the state."""
        sid = self.stage_id(stage)
        apply_row(self, ("PR", sid, self.loop(sid, iterator), pragma_type))

    def storage_align(self, stage: Any, iterator: Any, factor: int, offset: int) -> None:
        """Let the stride of a dimension be k * factor + offset elements for some k. Raises
        ScheduleError where `iterator` is no loop of the stage, where `stage` is no stage of the
        state."""
        sid = self.stage_id(stage)
        apply_row(self, ("SA", sid, self.loop(sid, iterator), factor, offset))

    def compute_at(self, stage: Any, target_stage: Any, target_iter: Any) -> None:
        """Compute a stage inside a loop of another. Raises ScheduleError where `target_iter` is no
        loop of the stage, where `stage` or `target_stage` is no stage of the state."""
        sid, tid = self.stage_id(stage), self.stage_id(target_stage)
        apply_row(self, ("CA", sid, tid, self.loop(tid, target_iter)))

    def compute_inline(self, stage: Any) -> None:
        """Put a stage's expression in place of each read of it. Raises ScheduleError where `stage`
        is no stage of the state."""
        apply_row(self, ("CI", self.stage_id(stage)))

    def compute_root(self, stage: Any) -> None:
        """Compute the whole stage before its first consumer. Raises ScheduleError where `stage` is
        no stage of the state."""
        apply_row(self, ("CR", self.stage_id(stage)))

    def cache_read(self, stage: Any, scope_name: str, reader_stages: Sequence[Any]) -> Operation:
        """The new stage's operation, as of all methods that make one. Raises ScheduleError where
        the step does not fit the computation, where `reader_stages` or `stage` is no stage of the
        state."""
        sid = self.stage_id(stage)
        readers = tuple(self.stage_id(r) for r in reader_stages)
        apply_row(self, ("CHR", sid, scope_name, readers))
        return self.stage_ops[sid + 1]

    def cache_write(self, stage: Any, scope_name: str) -> Operation:
        """Compute a stage into other storage, then copy; returns the operation that computes.
        Raises ScheduleError where the step does not fit the computation, where `stage` is no stage
        of the state."""
        sid = self.stage_id(stage)
        apply_row(self, ("CHW", sid, scope_name))
        return self.stage_ops[sid]

    def rfactor(self, stage: Any, iterator: Any, factor_iter_id: int) -> Operation:
        """Reduce along a loop to partial results; returns the operation that computes them. Raises
        ScheduleError where `iterator` is no loop of the stage, where `stage` is no stage of the
        state."""
        sid = self.stage_id(stage)
        apply_row(self, ("RF", sid, self.loop(sid, iterator), factor_iter_id))
        return self.stage_ops[sid]

    def pack(self, stage: Any, reader: Any) -> Operation:
        """A copy of `stage` that lies in memory in the order of `reader`'s tiles (ours, not
        TVM's). Raises ScheduleError where `reader` or `stage` is no stage of the state."""
        sid = self.stage_id(stage)
        apply_row(self, ("PK", sid, self.stage_id(reader)))
        return self.stage_ops[sid + 1]


StateObject = State
"""By TVM's name; a state holds its steps itself."""

__all__ = ["Iterator", "StageView", "State", "StateObject"]
