"""The kernels of a network as object code: made here, and by processes that help."""

from __future__ import annotations

import os
import sys
import threading
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ..base import config
from ..base.errors import TilewrightError
from ..driver.transform import user_passes
from ..loopir.intrin_rules import user_rules
from ..measure.process import WorkerProcess
from ..measure.protocol import Message
from ..rt import threads
from ..rt.plan import Kernel, symbol_of
from ..target.target import Target
from .helper import as_data
from .kernel import cached, compile_group
from .passes.fuse import Group
from .tuned import Tuned

Progress = Callable[[int, int, str], None]

WORTH = 10
"""Kernels that are made in about the time in which a process begins."""
_AHEAD = 2
"""Kernels that a helper has at a time, so that it does not wait for the next one."""


@dataclass(eq=False)
class _Job:
    symbol: str
    group: Group
    tuned: Tuned | None
    obj: bytes | None = None
    here: bool = False  # no helper takes it


def compile_kernels(
    distinct: Sequence[Group],
    tuned: Sequence[Tuned | None],
    target: Target,
    progress: Progress | None = None,
) -> list[Kernel]:
    """Object code of each group, from the compile cache where it has it; `progress(done, total,
    name)` is called after each. CompileError with the nodes' names where one cannot be compiled."""
    jobs = [_Job(symbol_of(k), g, t) for k, (g, t) in enumerate(zip(distinct, tuned))]
    done = 0

    def told(some: Iterable[_Job]) -> None:
        nonlocal done
        for job in some:
            done += 1
            if progress is not None:
                progress(done, len(jobs), job.group.name)

    for job in jobs:
        job.obj = cached(job.group, target, job.symbol, job.tuned)
    told(job for job in jobs if job.obj is not None)
    with _Team([job for job in jobs if job.obj is None], target) as team:
        while (mine := team.next()) is not None:
            made = compile_group(mine.group, target, mine.symbol, mine.tuned)
            told(team.finished(mine, made))
        told(team.rest())
    kernels = []
    for job in jobs:
        assert job.obj is not None
        recorded = job.tuned is not None and job.tuned.recorded
        kernels.append(Kernel(job.symbol, job.group.name, job.obj, recorded))
    return kernels


class _Team:
    """This thread and the processes that help it, over the kernels that are left to make.

    Threads would not help: Python runs one at a time, and what LLVM does meanwhile is the smaller
    part. A helper that dies, or cannot make a kernel, leaves it to this thread, which meets the
    error where there is one.
    """

    def __init__(self, jobs: Sequence[_Job], target: Target) -> None:
        self.left = deque(jobs)
        self.target = target
        self.taken = 0  # by helpers
        self.made: list[_Job] = []  # by helpers, and not told yet
        self.ended = False
        self.changed = threading.Condition()
        self.processes: list[WorkerProcess] = []
        count = _helpers(len(jobs), target)
        self.about = {"op": "compile", "target": target.export(), "options": _options()}
        self.threads = [
            threading.Thread(target=self._help, name="compile", daemon=True) for _ in range(count)
        ]

    def __enter__(self) -> _Team:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        with self.changed:
            self.ended = True
            self.left.clear()
            for process in self.processes:
                process.stop()
        for thread in self.threads:
            thread.join()

    def next(self) -> _Job | None:
        """A kernel for this thread to make; None when all are made."""
        with self.changed:
            while not self.left and self.taken:
                self.changed.wait()
            return self.left.pop() if self.left else None

    def finished(self, job: _Job, obj: bytes) -> list[_Job]:
        """The kernels that are made since this was last asked, with one of this thread's."""
        job.obj = obj
        return [job, *self.rest()]

    def rest(self) -> list[_Job]:
        """The kernels that helpers have made since this was last asked."""
        with self.changed:
            made, self.made = self.made, []
        return made

    # -- a helper's thread

    def _help(self) -> None:
        try:
            process = WorkerProcess(module="tilewright.graph.helper")
        except OSError:  # there may be no more processes
            return
        with self.changed:
            self.processes.append(process)
            if self.ended:
                process.stop()
        mine: deque[_Job] = deque()
        try:
            while self._heard(process, mine) and self._feed(process, mine):
                pass
        except TilewrightError:
            pass  # no message: as if it had died
        finally:
            with self.changed:
                self.processes.remove(process)
                self.taken -= len(mine)
                self.left.extend(mine)
                self.changed.notify()
            process.kill()

    def _heard(self, process: WorkerProcess, mine: deque[_Job]) -> bool:
        """Wait until the helper has something to say; False where it never will."""
        if not process.receive():
            return False
        for reply in process.replies:
            job = mine.popleft()
            with self.changed:
                self.taken -= 1
                if "object" in reply:
                    job.obj = b64decode(reply["object"])
                    self.made.append(job)
                else:
                    job.here = True
                    self.left.append(job)
                self.changed.notify()
        process.replies.clear()
        return True

    def _feed(self, process: WorkerProcess, mine: deque[_Job]) -> bool:
        """Keep a helper busy; False where there is nothing left for it."""
        while process.ready and len(mine) < _AHEAD:
            with self.changed:
                job = next((j for j in self.left if not j.here), None)
                if job is None:
                    break
                self.left.remove(job)
                self.taken += 1
                mine.append(job)
            data = as_data(job.group, job.tuned)
            if data is None:
                with self.changed:
                    job.here = True
                    self.taken -= 1
                    self.left.append(mine.pop())
                    self.changed.notify()
                continue
            process.tell({**self.about, "name": job.symbol, "kernel": data})
        return bool(mine) or not process.ready


def _helpers(kernels: int, target: Target) -> int:
    """How many processes are worth starting: as many as the option allows, with this one, where
    they find what this one has."""
    most = int(config.get("compile_processes")) or threads.num_threads()
    count = min(most - 1, kernels // WORTH)
    if count <= 0 or config.get("dump_dir") is not None or not _is_python(sys.executable):
        return 0
    users = user_passes() or user_rules([target.kind.name, "default"])
    return 0 if users else count


def _is_python(path: str | None) -> bool:
    """Whether a program is an interpreter, rather than one that has Python within it."""
    name = os.path.basename(path or "").lower()
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


def _options() -> Message:
    """All options that are not at their defaults."""
    found: dict[str, Any] = {}
    for option in config.options():
        value = config.get(option.name)
        if value != option.default:
            plain = list(value) if isinstance(value, tuple) else value
            found[option.name] = str(plain) if isinstance(plain, Path) else plain
    return found
