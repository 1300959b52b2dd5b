"""The page of a network: its calls coloured by time, their roofline, the memory plan, kernels."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..auto_scheduler.task import SearchTask
from ..base.aligned import ALIGNMENT
from ..base.errors import InternalError, TilewrightError
from ..graph.build import compile as compile_graph
from ..graph.build import distinct_groups, find_schedules, prepare, target_for
from ..graph.ir import Graph, Value
from ..graph.passes.memory import DEVICE_ALIGN, Part, Starts, lifetimes, plan_memory, views
from ..graph.team import tell_made
from ..graph.tuned import is_complex, task_of, title
from ..graph.work import work_of
from ..measure.reference import random_array
from ..rt import threads
from ..rt.busy import Watch
from ..rt.network import Executable
from ..rt.plan import Work, symbol_of
from ..target.target import Target
from .cost import size_text, work_text
from .guided import network_searches
from .kernel import Kernel
from .layout import place_boxes
from .machine import busy_notes, roofline_of, why_not_measured
from .page import Box, Held, Memory, NetworkGraph, Page
from .share import Share, draw, keys

Array = np.ndarray[Any, Any]
NOISY = 0.1
"""Scatter of repeated runs of the whole network from which on a page warns of it."""
_RUNS = 5


def network_page(
    graph: Graph,
    target: Any = "llvm",
    *,
    dtype: str = "float32",
    records: Any = None,
    inputs: Mapping[str, Array] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Page:
    """The page of a network that is compiled for `target` as `graph.compile` does.

    On this machine's CPU its kernels are timed on `inputs` (None: seeded random data); elsewhere
    shares are of operations. With a file of `records` its measurements of the network's tasks are
    shown too. `progress` hears of each kernel that was looked at: how many, of how many, its name.
    TilewrightError for networks whose sizes are known only when they run,
    in whole or in part: fix them with shapes.
    """
    chosen = target_for(target, dtype)
    _require_known(graph)
    watch = Watch()
    here = not chosen.missing_on_host()
    plan = _Plan(graph, chosen, dtype, records)
    page = Page(graph.name, f"Compiled for {chosen}")
    page.kernels = plan.kernels(chosen, progress)
    if all(plan.keys):
        tell_made(graph, chosen)
    net = compile_graph(graph, chosen, dtype=dtype, records=records) if here else None
    seconds: list[float] = []
    noise = None
    if net is not None:
        if not isinstance(net, Executable):
            raise InternalError(f"{graph.name} became a {type(net).__name__}")
        arrays = inputs if inputs is not None else _random(net)
        seconds = [s for _, s in net.profile(arrays, _RUNS)]
        noise = _noise(net, arrays)
    work = [work_of(g) for g in plan.distinct]
    page.roofline = _roofline(plan, seconds, work, chosen)
    _add_plan(page, plan, seconds, work, dtype)
    if net is not None:
        reached = sum(p.share * (p.of_limit or 0.0) for p in page.roofline.points)
        page.facts.append(("of the roofline", f"{reached:.0%}"))
    if isinstance(records, (str, os.PathLike)):
        page.tuning = network_searches(records, plan.tasks())
    page.warnings = busy_notes(watch, page.roofline) if here else []
    if noise is not None and noise > NOISY:
        page.warnings.append(
            f"Runs of the whole network scatter by {noise:.0%} of their median: small differences "
            "between kernels say nothing here."
        )
    return page


def plan_page(graph: Graph, target: Any = "llvm", *, dtype: str = "float32") -> Page:
    """The page of a network's plan, without compiling or running anything."""
    chosen = target_for(target, dtype)
    _require_known(graph)
    plan = _Plan(graph, chosen, dtype, None)
    page = Page(graph.name, f"Planned for {chosen}")
    _add_plan(page, plan, (), [work_of(g) for g in plan.distinct], dtype)
    return page


def _add_plan(
    page: Page, plan: _Plan, seconds: Sequence[float], work: Sequence[Work], dtype: str
) -> None:
    page.graph = plan.graph_of(seconds, work)
    page.memory = plan.memory()
    page.facts = _facts(plan, seconds, work, dtype)


def _require_known(graph: Graph) -> None:
    if graph.rest is not None or graph.symbols is not None:
        raise TilewrightError(
            f"{graph.name}: what this network computes is known only when it runs, so there is no "
            "plan to show; fix its open sizes, as with --shape NAME=1,3,224,224"
        )


class _Plan:
    """A network after all graph passes, cut into calls of kernels."""

    def __init__(self, graph: Graph, target: Target, dtype: str, records: Any) -> None:
        device = "gpu" in target.keys
        self.graph, groups = prepare(graph, target, dtype)
        self.align = DEVICE_ALIGN if device else ALIGNMENT
        self.groups, self.same = views(self.graph, groups, Starts.of(target))
        self.distinct, self.which = distinct_groups(self.groups)
        self.tuned = find_schedules(self.distinct, target, records)
        self.target = target
        self.keys = keys(self.distinct, self.tuned, target)

    def kernels(
        self, target: Target, progress: Callable[[int, int, str], None] | None
    ) -> list[Kernel]:
        """What is shown of each kernel that differs from the others."""
        found: dict[int, Kernel] = {}

        def add(k: int, kernel: Kernel) -> None:
            kernel.title, tuned = title(self.distinct[k]), self.tuned[k]
            kernel.figures["calls"] = str(self.which.count(k))
            from_records = tuned is not None and tuned.recorded
            kernel.figures["schedule"] = "from records" if from_records else "default"
            found[k] = kernel
            if progress is not None:
                progress(len(found), len(self.distinct), kernel.title)

        with Share(self.distinct, self.tuned, target, self.keys) as others:
            for k, group in enumerate(self.distinct):
                if k not in others.numbers:
                    add(k, draw(group, target, k, self.tuned[k], self.keys[k]))
            theirs = others.found()
        for k in sorted(others.numbers):
            mine = theirs.get(k) or draw(self.distinct[k], target, k, self.tuned[k], self.keys[k])
            add(k, mine)
        return [found[k] for k in sorted(found)]

    def tasks(self) -> dict[str, SearchTask]:
        """The tasks of the kernels that can be tuned, by their keys."""
        found = [task_of(g, self.target) for g in self.distinct if is_complex(g)]
        return {str(task.workload_key): task for task in found}

    def graph_of(self, seconds: Sequence[float], work: Sequence[Work]) -> NetworkGraph:
        """The calls as a graph; without times their shares are of the operations."""
        made: dict[Value, list[tuple[int, Part, int]]] = {}  # by what they lie in
        weights = list(seconds) or [float(work[k].flops) for k in self.which]
        total = sum(weights) or 1.0
        boxes = []
        for k, group in enumerate(self.groups):
            reads: set[int] = set()
            for v in group.inputs:
                part = self.part(v)
                before = made.get(part.of, ())
                reads |= {n for n, to, size in before if _overlap(to, size, part, v.nbytes)}
            own = self.part(group.output)
            made.setdefault(own.of, []).append((k, own, group.output.nbytes))
            boxes.append(
                Box(
                    title(group).split(" ")[0],
                    " + ".join(n.name for n in group.nodes),
                    self.which[k],
                    seconds[k] if seconds else None,
                    weights[k] / total,
                    sorted(reads),
                )
            )
        return place_boxes(boxes, "the time" if seconds else "the operations")

    def part(self, v: Value) -> Part:
        """Where a value lies, in itself if nowhere else."""
        return self.same.get(v, Part(v))

    def memory(self) -> Memory | None:
        """Which bytes of the workspace are whose, when."""
        lives = lifetimes(self.graph, self.groups, self.same)
        offsets, size = plan_memory(self.graph, self.groups, self.align, self.same)
        if not offsets:
            return None
        held = [Held(v.name, int(v.nbytes), offsets[v], *life) for v, life in lives.items()]
        every = sum(h.bytes for h in held)
        note = (
            f"Intermediate values take {size_text(size)} together, which would be "
            f"{size_text(every)} if each had a place of its own. Weights, inputs and outputs are "
            "arrays of their own."
        )
        return Memory(held, size, len(self.groups), note)


def _overlap(a: Part, a_bytes: int, b: Part, b_bytes: int) -> bool:
    """Whether two parts of a value share bytes."""
    return a.at < b.at + b_bytes and b.at < a.at + a_bytes


def _roofline(plan: _Plan, seconds: Sequence[float], work: Sequence[Work], target: Target) -> Any:
    rows = []
    for k, group in enumerate(plan.distinct):
        calls = [seconds[n] for n, which in enumerate(plan.which) if which == k] if seconds else []
        one = sum(calls) / len(calls) if calls else None
        rows.append((k, symbol_of(k), title(group), work[k], one, plan.which.count(k)))
    return roofline_of(rows, target, why_not_measured(target))


def _facts(
    plan: _Plan, seconds: Sequence[float], work: Sequence[Work], dtype: str
) -> list[tuple[str, str]]:
    every = [work[k] for k in plan.which]
    flops = sum(w.flops for w in every)
    facts = [
        ("target", str(plan.target)),
        ("precision", dtype),
        ("calls of kernels", f"{len(plan.groups)}, of {len(plan.distinct)} kernels"),
        ("schedules from records", str(sum(t is not None and t.recorded for t in plan.tuned))),
        ("operations", work_text(flops)),
        ("weights", size_text(sum(int(v.nbytes) for v in plan.graph.constants()))),
    ]
    if seconds:
        total = sum(seconds)
        facts += [
            ("sum of the kernels", f"{total * 1e3:.3g} ms, {_threads()}"),
            ("rate", f"{work_text(flops / total)}/s"),
        ]
    return facts


def _threads() -> str:
    count = threads.num_threads()
    return f"{count} thread{'s' * (count > 1)}"


def _random(net: Executable) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {v.name: random_array(v.shape, v.dtype, rng) for v in net.inputs}


def _noise(net: Executable, arrays: Mapping[str, Array]) -> float:
    """The scatter of whole runs: half the spread of the middle half of them, of the median."""
    call = net.prepare(arrays)
    times = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    low, middle, high = np.percentile(times, [25, 50, 75])
    return float((high - low) / 2 / middle)
