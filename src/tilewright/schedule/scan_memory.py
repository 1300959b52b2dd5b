"""Scans whose steps run in one kernel: who reads of the state what others wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..base.errors import ScheduleError
from ..loopir.expr import PrimExpr, Var, const
from ..loopir.iter import IterVar, ProducerLoad
from ..loopir.subst import substitute
from ..loopir.visit import nodes
from ..tensor.op import ComputeOp, ScanOp
from ..tensor.tensor import Tensor
from .placement import attach_path, is_virtual, same_thread, threads_around
from .relations import pass_down_values, pass_up_values
from .state import StageState
from .thread_memory import sees_all


def check_scans(sch: Any, bounds: Any) -> None:
    """ScheduleError where a step of a scan reads what threads wrote in the step before that it does
    not wait for: those of other blocks, or of any thread that has the state for itself.

    Where no threads are launched around the steps each step has its own kernels.
    """
    for scan in sch.stages:
        if not isinstance(scan.op, ScanOp) or not (scan.threads or [*threads_around(scan)]):
            continue
        inside = [s for s in sch.stages if any(h is scan for h, _ in attach_path(s))]
        for thread, var in _apart(scan, inside, bounds):
            for update, state in zip(scan.op.update, scan.op.state_placeholder):
                writer = sch.stage_of[update.op]
                for reader in inside:
                    if state in reader.op.input_tensors:
                        _check(bounds, scan, (thread, var), writer, reader, state)


def _apart(scan: StageState, inside: list[StageState], bounds: Any) -> list[tuple[IterVar, Var]]:
    """The axes in the scan's kernel whose threads do not wait for each other, and their
    variables."""
    found: list[tuple[IterVar, Var]] = []
    for thread, var in [pair for s in inside for pair in _threads(bounds, s)]:
        if is_virtual(thread) or any(same_thread(thread, t) for t, _ in found):
            continue
        waits = sees_all(scan, thread) and not thread.thread_tag.startswith("blockIdx")
        count = bounds.extents.get(var)
        if not waits and count is not None and not bounds.analyzer.can_prove(count <= 1):
            found.append((thread, var))
    return found


def _threads(bounds: Any, stage: StageState) -> Iterator[tuple[IterVar, Var]]:
    """The threads that a stage runs on, by its own loops or those around it."""
    own = [(stage, leaf) for leaf in stage.leaf_iter_vars]
    for holder, leaf in [*own, *threads_around(stage)]:
        thread = holder.attr(leaf).bind_thread
        if thread is not None and leaf in bounds[holder].var:
            yield thread, bounds[holder].var[leaf]


def _check(
    bounds: Any,
    scan: StageState,
    where: tuple[IterVar, Var],
    writer: StageState,
    reader: StageState,
    state: Tensor,
) -> None:
    thread, var = where
    runs = any(same_thread(thread, t) for t, _ in _threads(bounds, reader))
    env = any(same_thread(thread, t) for t in (*scan.threads, *_around(scan)))
    own: PrimExpr = var if runs or env else const(0, var.dtype)  # else it runs once for all
    leaf = next((x for x in writer.leaf_iter_vars if _is_bound(writer, x, thread)), None)
    if leaf is None and env:
        return  # every thread writes all
    for columns in _columns(bounds, writer, reader, state):
        wrote = const(0, var.dtype) if leaf is None else _owner(bounds, writer, leaf, columns)
        if wrote is None or not bounds.analyzer.can_prove_equal(wrote, own):
            tag = thread.thread_tag
            raise ScheduleError(
                f"bind on stage {writer.name}: {reader.name} reads elements of {scan.name}'s state "
                f"that other threads of {tag} write, and in the kernel of a scan these do not wait "
                f"for each other between steps; bind what a step reads and writes to {tag} alike, "
                "bind it to threadIdx only, or leave env_threads out: then every step is launched "
                "on its own"
            )


def _around(scan: StageState) -> list[IterVar]:
    bound = [holder.attr(leaf).bind_thread for holder, leaf in threads_around(scan)]
    return [t for t in bound if t is not None]


def _is_bound(stage: StageState, leaf: IterVar, thread: IterVar) -> bool:
    own = stage.attr(leaf).bind_thread
    return own is not None and same_thread(own, thread)


def _columns(
    bounds: Any, writer: StageState, reader: StageState, state: Tensor
) -> Iterator[list[PrimExpr] | None]:
    """The indices behind the first of reads of the state, by the reader's loops; None: any."""
    op, mine = reader.op, bounds[reader]
    if not isinstance(op, ComputeOp):
        yield None
        return
    leaves = {x: mine.offset(x) for x in reader.leaf_iter_vars if x in mine.extent}
    offsets = pass_up_values(reader.relations, leaves, mine.extent)
    values = {a.var: mine.min[a] + offsets[a] for a in op.root_iter_vars() if a in offsets}
    for load in [e for body in op.body for e in nodes(body)]:
        if type(load) is ProducerLoad and load.producer is state:
            if reader is writer and all(
                i is a.var for i, a in zip(load.indices[1:], op.axis[1:], strict=True)
            ):
                continue  # what the same thread wrote
            yield [substitute(i, values) for i in load.indices[1:]]


def _owner(
    bounds: Any, writer: StageState, leaf: IterVar, columns: list[PrimExpr] | None
) -> PrimExpr | None:
    """Which thread writes an element of the state, None where that is not known."""
    axes: Any = getattr(writer.op, "axis", ())
    if columns is None or len(axes) != len(columns) + 1:
        return None
    mine = bounds[writer]
    roots: dict[IterVar, PrimExpr] = {axes[0]: const(0, axes[0].var.dtype)}
    roots.update({a: c - mine.min[a] for a, c in zip(axes[1:], columns)})
    found = pass_down_values(writer.relations, roots, mine.extent)
    return found.get(leaf)
