"""The page of a schedule, of functions that were lowered, and of one kernel that can be timed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..base.errors import CompileError, TilewrightError
from ..driver.build_module import build_lowered
from ..driver.lower import lower
from ..loopir.buffer import Buffer
from ..loopir.expr import const_int
from ..loopir.iter import IterVar
from ..loopir.module import IRModule
from ..loopir.stmt import PrimFunc
from ..lowering.options import LowerOptions
from ..measure.reference import random_array
from ..rt.array import array
from ..rt.busy import Watch
from ..rt.plan import Work
from ..schedule.api import Schedule
from ..schedule.state import ATTACH_NAMES, StageState
from ..target.target import Target
from ..tensor.op import PlaceholderOp, post_order
from .cost import work_of_loops, work_text
from .kernel import Kernel, Watched
from .kernel import target_of as kernel_target
from .machine import Measured, busy_notes, roofline_of, why_not_measured
from .page import Page

Lowered = tuple[Kernel, PrimFunc, PrimFunc, LowerOptions]
"""A kernel's view with its function before and after the passes, and how it was lowered."""

NOISY = 0.1
"""Scatter of repeated runs from which on a page warns of it."""
LARGEST = 1 << 30
"""Bytes of arguments from which on a kernel is not timed for a page."""
_HOW = {
    IterVar.Unrolled: "unrolled",
    IterVar.Vectorized: "vectorized",
    IterVar.Parallelized: "parallel",
    IterVar.Tensorized: "tensorized",
}


def schedule_page(
    sch: Schedule,
    args: Sequence[Any] | None = None,
    target: Any = None,
    *,
    name: str = "main",
    timed: bool = True,
) -> Page:
    """The page of a schedule: its stages, its loops, its code and where it is in the roofline.

    `args`: as for `build`; None: the inputs in the order of first use, then the outputs. `target`:
    None is that of the context, else this machine's CPU. `timed`: run it on random data where it
    runs here and its sizes are constant. Raises CompileError where args are missing, the name is
    not text, or binds is no dictionary.
    """
    chosen = target_of(target)
    given = arguments(sch) if args is None else list(args)
    watch = Watch()
    watched = Watched()
    with watched.watching(), nullcontext() if target is None else chosen:
        lower(sch, given, name=name)
    page = lowered_page(watched, chosen, timed=timed)
    page.title = f"Schedule of {', '.join(s.name for s in sch.stages if s.is_output)}"
    page.stages = stage_rows(sch)
    page.warnings += busy_notes(watch, page.roofline) if was_timed(page) else []
    return page


def target_of(target: Any) -> Target:
    """A target given as text or object; None: of the context, else this machine's CPU."""
    return Target(target or Target.current(allow_none=True) or "llvm")


def arguments(sch: Schedule) -> list[Any]:
    """The inputs of a schedule's computation in the order of first use, then its outputs."""
    outputs = [s.origin_op for s in sch.stages if s.is_output]
    every = post_order(outputs)
    inputs = [op.output(0) for op in every if isinstance(op, PlaceholderOp)]
    return inputs + [op.output(k) for op in outputs for k in range(op.num_outputs)]


def lowered_page(watched: Watched, target: Target, *, timed: bool = True) -> Page:
    """The page of functions whose lowering was watched; `timed`: run each on random data where
    that can be, and show them in a roofline."""
    page = Page("Kernels")
    page.kernels = watched.finished(target)
    targets = [kernel_target(f, options, target) for _, f, _, options in watched.functions]
    page.facts = [("target", ", ".join(dict.fromkeys(map(str, targets or [target]))))]
    if not timed:
        return page
    rows: list[Measured] = []
    reasons: list[str] = []
    for k, (lowered, own) in enumerate(zip(watched.functions, targets)):
        seconds, why, noise = _time(lowered, own)
        if why:
            reasons.append(why)
            lowered[0].figures["not timed"] = why
        rows.append((k, lowered[0].name, "", Work(*work_of_loops(lowered[1])), seconds, 1))
        if noise > NOISY:
            page.warnings.append(
                f"{lowered[0].name}: repeated runs scatter by {noise:.0%} of their median."
            )
    page.roofline = roofline_of(rows, (targets or [target])[0], reasons[0] if reasons else "")
    page.facts.append(("kernels", str(len(rows))))
    for _, name, _, work, seconds, _ in rows if len(rows) == 1 else ():
        page.facts.append(("operations", work_text(work.flops)))
        if seconds:
            page.facts.append((f"time of {name}", f"{seconds * 1e3:.4g} ms"))
            page.facts.append(("rate", f"{work_text(work.flops / seconds)}/s"))
    return page


def was_timed(page: Page) -> bool:
    """Whether anything of a page was measured, so that a busy machine matters."""
    return page.roofline is not None and page.roofline.peak is not None


def _time(lowered: Lowered, target: Target) -> tuple[float | None, str, float]:
    """Seconds of a run on random data, or why there are none; and the scatter of repetitions."""
    _, first, last, _ = lowered
    if target.missing_on_host():
        return None, why_not_measured(target), 0.0
    arrays = []
    for p in first.params:
        b = first.buffer_map.get(p)
        shape = None if b is None else _constant(b)
        if b is None or shape is None:
            return None, f"{first.name} takes what is no array of known sizes", 0.0
        arrays.append(random_array(shape, b.dtype, np.random.default_rng(0)))
    if sum(a.nbytes for a in arrays) > LARGEST:
        return None, f"the arguments of {first.name} take more than 1 GiB", 0.0
    try:
        with target:
            module = build_lowered(IRModule({first.name: last}), target)
        timer = module.time_evaluator(first.name, number=1, repeat=5, min_repeat_ms=10)
        costs = list(timer(*map(array, arrays)).results)
    except (CompileError, TilewrightError) as error:
        return None, str(error), 0.0
    middle = statistics.median(costs)
    return middle, "", statistics.pstdev(costs) / middle if middle else 0.0


def _constant(b: Buffer) -> tuple[int, ...] | None:
    sizes = [const_int(d) for d in b.shape]
    return None if any(d is None for d in sizes) else tuple(d or 0 for d in sizes)


def stage_rows(sch: Schedule) -> list[tuple[str, ...]]:
    """Each stage: its name, where it is computed, its memory, its loops."""
    rows: list[tuple[str, ...]] = []
    for s in sch.stages:
        if s.is_group or isinstance(s.op, PlaceholderOp):
            continue
        where = ATTACH_NAMES.get(s.attach_type, "root")
        if s.attach_stage is not None and s.attach_ivar is not None:
            where = f"in {s.attach_stage.name} at {s.attach_ivar.var.name}"
        loops = ", ".join(_loop(s, axis) for axis in s.leaf_iter_vars)
        rows.append((s.name, where, s.scope or "global", loops or "-"))
    return rows


def _loop(stage: StageState, axis: IterVar) -> str:
    extent = f" ({axis.dom.extent})" if axis.dom is not None else ""
    bound = stage.attr(axis).bind_thread
    how = _HOW.get(stage.kind_of(axis), "") if bound is None else bound.thread_tag
    return axis.var.name + extent + (f" {how}" if how else "")
