"""`tilewright run --trace`: a timeline of a network's kernels, as Chrome's trace events, which
Perfetto reads (Trace Event Format, Google, 2016)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..base.errors import UsageError
from ..graph.open import OpenExecutable
from ..rt import threads
from ..rt.files import write_atomically
from ..rt.network import Executable
from .data import Array

RUNS = 3


def write_trace(path: str, net: Any, arrays: Mapping[str, Array]) -> int:
    """Write the timeline of some runs to a file; the number of kernel calls in it.

    UsageError for networks that do not run as one function on this machine's CPU.
    """
    found = net.at(arrays) if isinstance(net, OpenExecutable) else net
    if not isinstance(found, Executable):
        raise UsageError(
            "--trace shows networks that run on this machine's CPU from one end to the other; "
            "--profile shows the kernels of others"
        )
    events = trace_events(found, arrays)
    data = {"traceEvents": events, "displayTimeUnit": "ms"}
    write_atomically(path, (json.dumps(data) + "\n").encode())
    return sum(event["ph"] == "X" and event["cat"] == "kernel" for event in events)


def trace_events(net: Executable, arrays: Mapping[str, Array]) -> list[dict[str, Any]]:
    """Events of RUNS runs: a slice for each run and kernel call, and the rate as a counter. Times
    are microseconds."""
    spans = net.timeline(arrays, RUNS) * 1e6
    kernels, work = net.kernels, net.work
    place = {"pid": 1, "tid": 1}
    about = f"{net.name} for {net.target}, {threads.num_threads()} threads"
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", **place, "args": {"name": about}},
        {"ph": "M", "name": "thread_name", **place, "args": {"name": "kernels"}},
    ]
    for run, rows in enumerate(spans):
        begin, end = float(rows[0, 0]), float(rows[-1, 1])
        events.append(_slice(f"run {run + 1}", "run", begin, end, {}))
        for k, (start, stop) in enumerate(rows.tolist()):
            kernel = kernels[net.calls[k].kernel]
            facts: dict[str, Any] = {"kernel": kernel.symbol, "what": kernel.title}
            facts["tuned"] = kernel.tuned
            if work:
                rate = work[k].flops / max(stop - start, 1e-3) / 1e3
                facts |= {"gflop": work[k].flops / 1e9, "mb": work[k].bytes / 1e6, "gflops": rate}
                counter = {"ph": "C", "name": "GFLOP/s", "ts": start, **place}
                events.append({**counter, "args": {"rate": rate}})
            events.append(_slice(" + ".join(net.nodes[k]), "kernel", start, stop, facts))
    return events


def _slice(
    name: str, kind: str, start: float, stop: float, facts: Mapping[str, Any]
) -> dict[str, Any]:
    span = {"ts": start, "dur": stop - start, "pid": 1, "tid": 1}
    return {"ph": "X", "name": name, "cat": kind, **span, "args": dict(facts)}
