"""Which threads run around the stages of a schedule, and which their own loops have to launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..base.errors import ScheduleError
from ..loopir.expr import PrimExpr, Var, const
from ..loopir.iter import IterVar
from ..loopir.visit import free_vars
from ..schedule.placement import attach_path, same_thread, threads_around
from ..schedule.stage_bounds import Bounds
from ..schedule.state import StageState
from ..schedule.thread_memory import each_its_own
from .stage_scan import shared_launches


class StageThreads:
    """`vars`: the one variable of each thread axis, for those of users' axes; `launched_by`: scans
    that launch the threads of other stages; `launches`: of the present kernel."""

    def __init__(self, sch: Any, bounds: Bounds) -> None:
        self.bounds = bounds
        self.stage_of: Mapping[Any, StageState] = sch.stage_of
        self.vars = thread_variables(sch, bounds)
        self.launched_by = shared_launches(sch, bounds)
        self.launches: Mapping[Var, PrimExpr] = {}

    def around(self, stage: StageState) -> Iterator[tuple[IterVar, Var, PrimExpr]]:
        """The threads that run around a stage: axes, their variables and extents."""
        for holder, leaf in threads_around(stage):
            mine = self.bounds[holder]
            thread = holder.attr(leaf).bind_thread
            if thread is not None and leaf in mine.var:
                yield thread, mine.var[leaf], mine.extent[leaf]
        holders = {h.id: h for h, _ in attach_path(stage)}
        scans = [self.launched_by[i] for i in (stage.id, *holders) if i in self.launched_by]
        for holder in (*holders.values(), *scans):
            for axis in holder.threads:
                extent = axis.dom.extent if axis.dom is not None else const(1)
                yield axis, self.vars[axis.var], extent

    def chosen_within(self, stage: StageState) -> list[tuple[IterVar, Var]]:
        """Threads of stages computed inside of this one's loops that its store predicate speaks of:
        it is to run on them too."""
        if stage.store_predicate is None:
            return []
        own = {self.vars.get(v) for v in free_vars(stage.store_predicate)}
        own -= {var for _, var, _ in self.around(stage)}
        own -= set(self.bounds[stage].var.values())
        found = {
            var: thread
            for inner in self.bounds.inside.get(stage.id, ())
            for leaf, var in self.bounds[inner].var.items()
            if var in own and (thread := inner.attr(leaf).bind_thread) is not None
        }
        return [(thread, var) for var, thread in found.items()]

    def count(self, var: Var) -> PrimExpr:
        """How many threads of an axis the present kernel has."""
        return self.launches.get(var, self.bounds.extents[var])

    def launched(self, stage: StageState, thread: IterVar) -> PrimExpr | None:
        """How many threads of an axis run around a stage, None where it is to launch them."""
        return next((n for t, _, n in self.around(stage) if same_thread(t, thread)), None)

    def surplus(self, stage: StageState, leaf: IterVar) -> PrimExpr | None:
        """The condition that a thread has work, where more are launched than a leaf has steps."""
        thread = stage.attr(leaf).bind_thread
        around = None if thread is None else self.launched(stage, thread)
        mine = self.bounds[stage]
        if thread is None or around is None or each_its_own(stage, self.bounds, leaf):
            return None
        if self.bounds.analyzer.can_prove_equal(around, mine.extent[leaf]):
            return None
        if not self.bounds.analyzer.can_prove(around >= mine.extent[leaf]):
            raise ScheduleError(
                f"bind on stage {stage.name}: axis {leaf.var.name} needs {mine.extent[leaf]} "
                f"threads of {thread.thread_tag}, but the stages around it launch {around}; "
                f"{self._remedy(stage, leaf, thread)}"
            )
        condition: PrimExpr = mine.var[leaf] < mine.extent[leaf]
        return condition

    def _remedy(self, stage: StageState, leaf: IterVar, thread: IterVar) -> str:
        """What to do where too few threads run around a stage."""
        launching = next(t for t, _, _ in self.around(stage) if same_thread(t, thread))
        bare = [t for s in self.stage_of.values() for t in s.threads if t.dom is None]
        if not any(t is launching for t in bare):
            return "split both by the same factor"
        return (
            "say how many in env_threads of the scan: "
            f'te.thread_axis({self.bounds[stage].extent[leaf]}, "{thread.thread_tag}")'
        )

    def missing(self, stage: StageState) -> list[PrimExpr]:
        """For all leaves, the conditions that the threads around a stage have work in it."""
        found = (self.surplus(stage, leaf) for leaf in stage.leaf_iter_vars)
        return [c for c in found if c is not None]


def thread_variables(sch: Any, bounds: Bounds) -> dict[Var, Var]:
    """The one variable of each thread axis, for the variables of the user's axes."""
    axes = [
        (thread, bounds[stage].var[leaf])
        for stage in sch.stages
        for leaf in stage.leaf_iter_vars
        if (thread := stage.attr(leaf).bind_thread) is not None and leaf in bounds[stage].var
    ]
    found = {thread.var: var for thread, var in axes}
    for stage in sch.stages:
        for own in stage.threads:
            known = next((var for thread, var in axes if same_thread(thread, own)), own.var)
            found[own.var] = known
            axes.append((own, known))
    return found
