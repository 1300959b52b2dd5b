"""This process and those that help it to make the kernels of a network."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from base64 import b64decode
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ..base import config
from ..base.errors import TilewrightError
from ..measure.process import WorkerProcess
from ..measure.protocol import Message
from ..rt import cache as disk
from ..rt import threads
from ..target.target import Target
from .helper import as_data
from .ir import Graph, Value
from .kernel import compiler_key, of_users
from .passes.fuse import Group
from .tuned import Tuned

WORTH, WORTH_OF_DEVICES = 10, 3
"""Kernels that are made in about the time in which a process begins, for CPUs and for devices."""
_AHEAD = 2
"""Kernels that a helper has at a time, so that it does not wait for the next one."""


@dataclass(eq=False)
class Job:
    """A kernel to make; `key` is that of the compile cache."""

    symbol: str
    group: Group
    tuned: Tuned | None
    key: str
    obj: bytes | None = None
    here: bool = False  # no helper takes it


class Team:
    """This thread and the processes that help it, over the kernels that are left to make.

    Threads would not help: Python runs one at a time, and what LLVM does meanwhile is the smaller
    part. A helper that dies, or cannot make a kernel, leaves it to this thread, which meets the
    error where there is one. Helpers take as long to begin as the passes over a network of some
    size: they start before it is known which kernels there are (`expect`).
    """

    def __init__(self, target: Target) -> None:
        self.left: deque[Job] = deque()
        self.target = target
        self.known = False  # whether all kernels are given
        self.taken = 0  # by helpers
        self.made: list[Job] = []  # by helpers, and not told yet
        self.ended = False
        self.changed = threading.Condition()
        self.processes: list[WorkerProcess] = []
        self.threads: list[threading.Thread] = []
        self.seen = ""  # the key under which the cache says that this network was compiled
        self.about: Message = {}  # what is the same in all requests

    def __enter__(self) -> Team:
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
            self.changed.notify_all()
        for thread in self.threads:
            thread.join()
        if kind is None and self.seen:
            disk.put(self.seen, b"")

    # -- what is to be made

    def expect(self, graph: Graph) -> None:
        """Start the helpers that a network will need, by the number of its different nodes, unless
        the compile cache says that it was compiled before. A guess: `give` corrects it."""
        kinds = _kinds(graph)
        count = helpers(len(kinds) // 2, self.target)  # two of them make a kernel, as a rule
        if not count:
            return
        key = _network_key(kinds, self.target)
        if disk.get(key) is None:
            self.seen = key
            self._start(count)

    def give(self, jobs: Sequence[Job]) -> None:
        """The kernels that are to be made, which helpers begin with at once."""
        count = helpers(len(jobs), self.target)
        with self.changed:
            self.left.extend(jobs)
            self.known = True
            if not jobs:
                self.ended = True
                for process in self.processes:
                    process.stop()
            self.changed.notify_all()
        self._start(count - len(self.threads))

    def _start(self, count: int) -> None:
        self.about = {
            "op": "compile",
            "target": self.target.export(),
            "options": config.changed_as_data(),
        }
        for _ in range(count):
            thread = threading.Thread(target=self._help, name="compile", daemon=True)
            self.threads.append(thread)
            thread.start()

    def next(self) -> Job | None:
        """A kernel for this thread to make; None when all are made."""
        with self.changed:
            while not self.left and self.taken:
                self.changed.wait()
            return self.left.pop() if self.left else None

    def finished(self, job: Job, obj: bytes) -> list[Job]:
        """The kernels that are made since this was last asked, with one of this thread's."""
        job.obj = obj
        return [job, *self.rest()]

    def rest(self) -> list[Job]:
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
        mine: deque[Job] = deque()
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
                self.changed.notify_all()
            process.kill()

    def _heard(self, process: WorkerProcess, mine: deque[Job]) -> bool:
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
                self.changed.notify_all()
        process.replies.clear()
        return True

    def _feed(self, process: WorkerProcess, mine: deque[Job]) -> bool:
        """Keep a helper busy; False where there is nothing left for it."""
        with self.changed:
            while not (self.known or self.ended):
                self.changed.wait()
        while process.ready:
            with self.changed:
                job = next((j for j in self.left if not j.here), None)
                # of the last ones each, so that nobody waits for what a helper has not begun
                if job is None or len(mine) >= (_AHEAD if len(self.left) > _AHEAD else 1):
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
                    self.changed.notify_all()
                continue
            process.tell({**self.about, "name": job.symbol, "key": job.key, "kernel": data})
        return bool(mine) or not process.ready


Kinds = set[tuple[Any, ...]]


def _kinds(graph: Graph) -> Kinds:
    """What is different in the nodes of a network."""
    return {(n.op, *map(_form, (*n.inputs, *n.outputs))) for n in graph.nodes}


def _form(v: Value) -> tuple[str, str, bool]:
    return str(v.shape), v.dtype, v.is_constant


def _network_key(kinds: Kinds, target: Target) -> str:
    text = str(sorted(map(str, kinds)))
    return f"network|{compiler_key(target)}{hashlib.sha256(text.encode()).hexdigest()}"


def tell_made(graph: Graph, target: Target) -> None:
    """Tell teams to come that the compile cache has the kernels of a network."""
    disk.put(_network_key(_kinds(graph), target), b"")


def helpers(kernels: int, target: Target) -> int:
    """How many processes are worth starting: as many as the option allows, with this one, where
    they find what this one has."""
    most = int(config.get("compile_processes")) or threads.num_threads()
    worth = WORTH if target.kind.name == "llvm" else WORTH_OF_DEVICES
    count = min(most - 1, kernels // worth)
    if count <= 0 or config.get("dump_dir") is not None or not _is_python(sys.executable):
        return 0
    return 0 if of_users(target) else count


def _is_python(path: str | None) -> bool:
    """Whether a program is an interpreter, rather than one that has Python within it."""
    name = os.path.basename(path or "").lower()
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)
