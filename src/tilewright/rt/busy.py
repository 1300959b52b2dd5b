"""Whether other programs keep the machine busy, for commands that report times.

Linux counts the time of each core and of each process. What this process, those that it started and
theirs did not use, others did; what a hypervisor gave to its other guests counts too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..base.cores import allowed_cores as _cores
from . import threads

NOTICED = 0.2
"""Cores in use beyond those that are there, from which on the machine is called busy."""

_IDLE = (3, 4)  # of the columns of /proc/stat: idle, waiting for disks
_GUEST = 8  # from here on, what other columns contain already
_SHORTEST = 0.05  # seconds below which clock ticks say nothing


class Watch:
    """Looks at the machine when made; `others` and `note` say what happened since."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._start = self._sample()

    def _sample(self) -> tuple[float, float, float] | None:
        """Seconds: now, that the cores were in use, and that our processes used."""
        try:
            return time.perf_counter(), _used(self._proc), _own(self._proc)
        except (OSError, ValueError, IndexError):
            return None

    def others(self) -> float | None:
        """Cores that other programs used on average; None where the system does not say."""
        before, after = self._start, self._sample()
        if before is None or after is None or after[0] - before[0] < _SHORTEST:
            return None
        seconds, used, own = (b - a for a, b in zip(before, after))
        return max(0.0, used - own) / seconds

    def note(self) -> str | None:
        """A sentence where others left too few cores for the threads of a parallel loop."""
        others, count = self.others(), len(_cores())
        if others is None or others + min(threads.num_threads(), count) < count + NOTICED:
            return None
        return (
            f"the machine is busy: other programs used {others:.1f} of its {count} cores "
            "meanwhile, so times are longer than on a quiet machine"
        )


@contextmanager
def watched() -> Iterator[None]:
    """Say on stderr at the end if the machine was busy."""
    import sys

    watch = Watch()
    try:
        yield
    finally:
        note = watch.note()
        if note is not None:
            print(f"note: {note}", file=sys.stderr)


def _used(proc: Path) -> float:
    """Seconds in which one of our cores was not idle."""
    names, ticks = {f"cpu{core}" for core in _cores()}, 0
    for line in (proc / "stat").read_text().splitlines():
        name, *columns = line.split()
        if name in names:
            counts = [int(column) for column in columns[:_GUEST]]
            ticks += sum(count for k, count in enumerate(counts) if k not in _IDLE)
    return ticks / float(os.sysconf("SC_CLK_TCK"))


def _own(proc: Path) -> float:
    """Seconds that this process and its descendants used, with those of them that ended."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for entry in proc.iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                spent[int(entry.name)] = sum(map(int, fields[11:15]))
    ticks = 0
    for process, count in spent.items():
        ancestor: int | None = process
        while ancestor is not None and ancestor != os.getpid():
            ancestor = parents.get(ancestor)
        ticks += count if ancestor is not None else 0
    return ticks / float(os.sysconf("SC_CLK_TCK"))
