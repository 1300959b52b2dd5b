"""The child processes of a fleet's worker, asked one thing at a time.

Dask runs a task in a thread of its worker; each thread has a child of its own, which `measure`'s
worker program is. A child that dies or hangs is replaced when the next question comes.
"""

from __future__ import annotations

import select
import threading
import time
import weakref
from typing import Any

from ..measure.process import WorkerProcess
from ..measure.protocol import Message
from ..measure.result import MeasureErrorNo as No

_children = threading.local()


class Child:
    """One process, started when first asked. `memory`: bytes that it may use (0: no limit)."""

    def __init__(self, memory: int = 0) -> None:
        self.memory = memory
        self.reference = b""
        """What was built of the kernel that the process has kept to be run with each candidate."""
        self._process: WorkerProcess | None = None
        self._final: weakref.finalize[Any, Child] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether what earlier questions left in the process is still there."""
        return self._process is not None

    def ask(self, request: Message, seconds: float, late: No, dead: No) -> Message:
        """The answer; one that was made up, with error `late` or `dead`, where the process did not
        answer within `seconds`, or died of the question."""
        process = self._started()
        process.send(request, 0, seconds)
        while True:
            if not self._wait(process):
                self._forget()
                process.kill()
                return {"error": late, "message": f"it took more than {seconds:g} s",
                        "seconds": seconds}  # fmt: skip
            if not process.receive():
                self._forget()
                return {"error": dead, "message": process.reason_of_death(), "seconds": 0.0}
            if process.replies:
                return process.replies.pop()

    def close(self) -> None:
        """End the process."""
        process = self._forget()
        if process is not None:
            process.close()

    def _forget(self) -> WorkerProcess | None:
        """Have no process any more; the one that there was is the caller's to end."""
        process, self._process = self._process, None
        if self._final is not None:
            self._final.detach()
        return process

    def _started(self) -> WorkerProcess:
        if self._process is None:
            process = WorkerProcess(self.memory)
            while not process.ready:
                if not self._wait(process) or not process.receive():
                    raise ChildError(process.kill() or "it does not answer")
            self._process = process
            self._final = weakref.finalize(self, _end, process)
        return self._process

    @staticmethod
    def _wait(process: WorkerProcess) -> bool:
        """Whether the process has something to say before it is late."""
        left = process.deadline - time.monotonic()
        poll = select.poll()
        poll.register(process.fd, select.POLLIN | select.POLLHUP)
        return bool(poll.poll(max(0.0, min(left, 3600.0)) * 1e3 + 1))


class ChildError(RuntimeError):
    """A child process does not start: this worker is of no use, another one may be."""


def _end(process: WorkerProcess) -> None:
    process.kill()


def of_this_thread(**how: Any) -> Child:
    """The child that this thread of the worker asks."""
    child: Child | None = getattr(_children, "child", None)
    if child is None:
        child = _children.child = Child(**how)
    return child
