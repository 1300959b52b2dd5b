"""How many cores this process may use: where it may run, and what its control group grants."""

from __future__ import annotations

import math
import os
from pathlib import Path


def cores(granted: float | None = None) -> int:
    """Cores that this process may use: those it may run on, or the share of them that its control
    group grants (`granted`, where that is known), rounded up."""
    share = quota() if granted is None else granted
    return max(1, math.ceil(min(len(allowed_cores()), share)))


def allowed_cores() -> set[int]:
    """The numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def quota(proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> float:
    """Cores that control groups grant, the least of this process's group and those around it."""
    least = math.inf
    try:
        lines = proc.read_text().splitlines()
    except OSError:
        return least
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / controllers if controllers else root
        folder = top / path.strip("/")
        for place in (folder, *folder.parents):
            least = min(least, _granted(place))
            if place == top:
                break
    return least


def _granted(folder: Path) -> float:
    """Cores of one group: quota and period stand in cpu.max, or in two files in older systems."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        except OSError:
            return math.inf
    try:
        return float(quota) / float(period) if float(quota) > 0 else math.inf
    except (ValueError, ZeroDivisionError):
        return math.inf  # "max"
