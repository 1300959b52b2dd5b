"""Where the time of a network goes: each kernel's time beside what limits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..driver.roofline import limit_of
from ..graph.build import Network
from ..rt.network import Executable
from .data import Array


def profile(net: Network, arrays: Mapping[str, Array]) -> list[dict[str, Any]]:
    """A row for each kernel, in order: `nodes`, `ms`, `share` of the sum of all.

    Of networks for this CPU also `gflop` and `mb`, what the kernel computes and moves; `gflops`,
    its rate; `limit`, whether the machine's arithmetic ("compute") or its caches and memory
    ("memory") bind it, and `of_limit`, which share of that limit it reaches.
    """
    rows = net.profile(arrays)
    total = sum(seconds for _, seconds in rows) or 1.0
    found: list[dict[str, Any]] = [
        {"nodes": nodes, "ms": seconds * 1e3, "share": seconds / total} for nodes, seconds in rows
    ]
    if isinstance(net, Executable):
        for row, work in zip(found, net.work):
            seconds = max(row["ms"] / 1e3, 1e-9)
            limit = limit_of(work, net.target)
            row["gflop"], row["mb"] = work.flops / 1e9, work.bytes / 1e6
            row["gflops"] = work.flops / seconds / 1e9
            row["limit"], row["of_limit"] = limit.binds, limit.seconds / seconds
    return found
