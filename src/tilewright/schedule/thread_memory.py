"""What threads of a kernel do to one stage's memory: what its schedule must not say, what only one
thread may do, and what of a stage that is stored whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from ..arith import Analyzer, IntervalSet, eval_set
from ..base.errors import ScheduleError
from ..loopir.expr import EQ, PrimExpr, Var, const, is_const
from ..loopir.iter import IterVar, Range
from ..loopir.op import max as max_of
from ..loopir.visit import free_vars
from ..tensor.op import ComputeOp
from ..tensor.regions import finite, span
from .placement import in_scan, is_virtual, same_thread, storage_scope
from .relations import derived_from
from .state import StageState

Span = tuple[PrimExpr, PrimExpr]  # min and extent

SCOPE_RANK = {"global": 0, "shared": 1, "warp": 2, "local": 3}


def sees_all(stage: StageState, thread: IterVar) -> bool:
    """Whether the threads of an axis see each other's results of a stage."""
    scope = storage_scope(stage).split(".")[0]
    if scope == "warp" and thread.thread_tag == "threadIdx.x":
        return True
    return SCOPE_RANK.get(scope, 3) <= (0 if thread.thread_tag.startswith("blockIdx") else 1)


def check_private(sch: Any, bounds: Any) -> None:
    """ScheduleError where threads share out a stage that each of them keeps for itself: none would
    have more than its own share of what it needs. In reductions over threads all of them get the
    result, which must be what all of them need."""
    for stage in sch.stages:
        if not isinstance(stage.op, ComputeOp):
            continue
        scope = storage_scope(stage)
        summed = derived_from(stage.relations, stage.op.reduce_axis)
        summed -= derived_from(stage.relations, stage.op.axis)
        for leaf in stage.leaf_iter_vars:
            thread = stage.attr(leaf).bind_thread
            known = scope.split(".")[0] in SCOPE_RANK
            if thread is None or not known or is_virtual(thread):
                continue
            var = bounds[stage].var[leaf]
            count = bounds.extents.get(var)
            if sees_all(stage, thread) or count is None or bounds.analyzer.can_prove(count <= 1):
                continue
            if each_its_own(stage, bounds, leaf):
                continue
            if leaf in summed:
                if any(var in free_vars(bounds[stage].min[a]) for a in stage.op.axis):
                    raise _unlike(stage, leaf, thread)
                continue
            raise ScheduleError(
                f"bind on stage {stage.name}: each thread of {thread.thread_tag} has its own "
                f'memory of scope "{scope}" and needs all of it, so axis {leaf.var.name} cannot be '
                "shared out among them; leave the axis unbound, or set a scope that they share"
            )


def each_its_own(stage: StageState, bounds: Any, leaf: IterVar) -> bool:
    """Whether an axis of one step is bound to threads that each keep the stage for themselves: all
    of them do that step, for what each of them needs."""
    thread = stage.attr(leaf).bind_thread
    if thread is None or is_virtual(thread) or sees_all(stage, thread):
        return False
    summed = derived_from(stage.relations, getattr(stage.op, "reduce_axis", ()))
    return leaf not in summed and is_const(bounds[stage].extent[leaf], 1)


def _unlike(stage: StageState, leaf: IterVar, thread: IterVar) -> ScheduleError:
    return ScheduleError(
        f"bind on stage {stage.name}: each thread of {thread.thread_tag} needs other elements of "
        f"it, so they cannot reduce axis {leaf.var.name} together; compute the stage outside of "
        f"the loop that is bound to {thread.thread_tag}, bind the axis to other threads, or set a "
        "scope that they share"
    )


def given_extent(bounds: Any, stage: StageState, leaf: IterVar, thread: IterVar) -> PrimExpr:
    """How many threads an axis with a domain has; ScheduleError where the leaf bound to it is not
    proved to have at most as many steps, since the others would be left out."""
    assert thread.dom is not None
    needed: PrimExpr = bounds[stage].extent[leaf]
    given: PrimExpr = thread.dom.extent
    if bounds.analyzer.can_prove(needed <= given):
        return given
    name, tag = leaf.var.name, thread.thread_tag
    has = f"bind on stage {stage.name}: axis {name} has extent {needed}"
    if bounds.analyzer.can_prove(needed > given):
        raise ScheduleError(f"{has}, more than the {given} threads of {tag}")
    raise ScheduleError(
        f"{has}, and cannot prove that {tag} with extent {given} has as many threads; split the "
        f"axis by factor={given} and bind the inner part, or let the extent of the thread axis "
        f'follow from the loop: te.thread_axis("{tag}")'
    )


def even_extent(bounds: Any, stage: StageState, extent: PrimExpr) -> PrimExpr:
    """The extent of an axis, or the most that any thread needs: inside of the loops of a stage may
    be others that threads fill together, so that all of them must run the same steps. What is
    computed in excess nobody reads."""
    inside = bounds.inside.get(stage.id, ())
    moving: dict[Var, IntervalSet] = {}
    for v in free_vars(extent):
        thread = bounds.threads.get(v)
        if thread is not None and any(sees_all(other, thread) for other in inside):
            last = bounds.extents[v] - 1
            moving[v] = IntervalSet(const(0, v.dtype), last)
    most = eval_set(extent, moving, bounds.analyzer).max_value if moving else extent
    if not isinstance(most, PrimExpr) or any(v in moving for v in free_vars(most)):
        return extent
    simple: PrimExpr = bounds.analyzer.simplify(most)
    return simple


def parts_in_scan(stage: StageState, parts: Mapping[IterVar, Span], b: Any) -> dict[IterVar, Span]:
    """What may be computed, in a step of a scan, of a stage that is stored whole: of `parts`, what
    the step needs of each root axis, for any of the threads. The state has no value before its
    first step, nor yet one for later steps: of the axis over steps all threads need the same one,
    though a thread's index may say it where a loop over steps is fused with others."""
    if not in_scan(stage):
        return {}
    threads = {
        v: IntervalSet.from_range(Range.from_min_extent(const(0, v.dtype), b.extents[v]))
        for v in b.threads
        if v in b.extents
    }
    found: dict[IterVar, Span] = {}
    for axis, (low, extent) in parts.items():
        if any(v in threads for end in (low, extent) for v in free_vars(end)):
            taken = span(b.analyzer, low, low + (extent - 1), threads)
            if not (finite(taken.min_value) and finite(taken.max_value)):
                continue
            low = taken.min_value
            extent = b.analyzer.simplify(taken.max_value - low + 1)
        found[axis] = (low, extent)
    return found


def idle_threads(
    stage: StageState, bounds: Any, launched: Iterable[tuple[IterVar, Var, PrimExpr]]
) -> list[PrimExpr]:
    """Conditions that leave a reduction to one of several threads that would all do it, in memory
    that they share: each would add to what the others have stored. `launched`: threads around the
    stage, their variables and how many they are."""
    own = [stage.attr(leaf).bind_thread for leaf in stage.leaf_iter_vars]
    bound = [t for t in own if t is not None]
    found: list[PrimExpr] = []
    for thread, var, count in launched:
        if is_virtual(thread) or any(same_thread(thread, t) for t in bound):
            continue
        if sees_all(stage, thread) and not bounds.analyzer.can_prove(count <= 1):
            found.append(EQ(var, const(0, var.dtype)))
    return found


@contextmanager
def in_kernel(b: Any, root: StageState) -> Iterator[Mapping[Var, PrimExpr]]:
    """How many threads of each axis the kernel of a root stage launches, where it is known, and the
    analyzer told so: an axis has one variable for all kernels, of which others may launch more."""
    together = [root, *b.inside.get(root.id, ())]
    found: dict[Var, PrimExpr] = {}
    if b.threads and not any(stage.threads for stage in together):
        for stage in together:
            for leaf, var in b[stage].var.items():
                if var in b.threads:
                    extent = b[stage].extent[leaf]
                    found[var] = larger_of(b.analyzer, found.get(var), extent)
    own = {v: n for v, n in found.items() if not any(x in b.extents for x in free_vars(n))}
    with ExitStack() as known:
        for var, threads in own.items():
            launched = b.extents.get(var)  # none where a kernel's own code launches them
            if launched is not None and not b.analyzer.can_prove(launched <= threads):
                known.enter_context(b.analyzer.enter_constraint(var < threads))
        yield own


def larger_of(analyzer: Analyzer, known: PrimExpr | None, extent: PrimExpr) -> PrimExpr:
    """The larger of two extents, `known` (None: there is none yet) where they are alike."""
    if known is None:
        return extent
    if analyzer.can_prove(extent <= known):
        return known
    return extent if analyzer.can_prove(known <= extent) else max_of(known, extent)
