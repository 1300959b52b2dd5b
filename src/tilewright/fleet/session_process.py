"""A session's process as its owner sees it: this one, for a LocalSession, or a device's worker."""

from __future__ import annotations

import math
import select
import shutil
import tempfile
import weakref
from collections.abc import Callable

from ..measure.process import WorkerProcess
from ..measure.protocol import Message

_LOOK_SECONDS = 0.25  # between looks at whether anybody still waits for an answer
_PROGRAM = "tilewright.fleet.session_child"


class SessionProcess:
    """The child process of a session, and the folder of its files. `memory`: bytes that it may use
    (0: no limit)."""

    def __init__(self, memory: int = 0) -> None:
        folder = tempfile.mkdtemp(prefix="tilewright-session-")
        self._process = WorkerProcess(memory, _PROGRAM)
        self._end = weakref.finalize(self, _clear, self._process, folder)
        self._process.tell({"op": "begin", "folder": folder})
        self._begun = False

    def ask(self, request: Message, given_up: Callable[[], str]) -> Message:
        """The answer; {"ended": why} where the process died, or `given_up`, which is asked now and
        then, has said why nobody waits any more. The session is over then."""
        process = self._process
        process.send(request, 0, math.inf)
        poll = select.poll()
        poll.register(process.fd, select.POLLIN | select.POLLHUP)
        while True:
            if not poll.poll(_LOOK_SECONDS * 1e3):
                why = given_up()
                if why:
                    self.close()
                    return {"ended": why}
                continue
            if not process.receive():
                why = process.reason_of_death()
                self.close()
                return {"ended": why}
            if process.replies and not self._begun:
                process.replies.pop(0)
                self._begun = True
            if process.replies:
                return process.replies.pop()

    def close(self) -> None:
        """End the process; its files go."""
        self._end()


def _clear(process: WorkerProcess, folder: str) -> None:
    process.kill()
    shutil.rmtree(folder, ignore_errors=True)
