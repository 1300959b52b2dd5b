"""One worker process as the search sees it: requests, replies, deadlines, and how it died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base.errors import TilewrightError
from . import protocol
from .protocol import Message

START_SECONDS = 120.0
_TAIL = 2000


class WorkerProcess:
    """A child `python -m MODULE` that `serve`s; one request at a time.

    It starts at once and is `ready` when it has answered its first request. `memory`: the bytes it
    may use (0: no limit). `deadline` (of time.monotonic) is when the present request has to be
    answered, `allowed` seconds after it was sent. `held`: the candidates that it has built.
    """

    __slots__ = (
        "_errors", "_process", "_reader", "allowed", "deadline", "held", "job", "ready", "replies",
    )  # fmt: skip

    def __init__(self, memory: int = 0, module: str = "tilewright.measure.worker") -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the worker ends
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment(),
            start_new_session=True,  # Ctrl-C is for the search, which ends its workers
        )
        self._reader = protocol.Reader()
        self.replies: list[Message] = []
        self.ready = False
        self.job: int | None = None
        self.held: set[int] = set()
        self.deadline = float("inf")
        self.send({"op": "set", "memory": memory}, None, START_SECONDS)

    @property
    def fd(self) -> int:
        """The descriptor on which replies arrive."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def is_idle(self) -> bool:
        return self.ready and self.job is None

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self.deadline

    def send(self, request: Message, job: int | None, seconds: float) -> None:
        """Send a request that has to be answered within `seconds`. A worker that has died is
        noticed by the next `receive`."""
        self.job, self.allowed = job, seconds
        self.deadline = time.monotonic() + seconds
        self.tell(request)

    def tell(self, request: Message) -> None:
        """Send a request whose answer nobody waits for."""
        assert self._process.stdin is not None
        try:
            protocol.write(self._process.stdin.fileno(), request)
        except BrokenPipeError:
            return

    def receive(self) -> bool:
        """Read what has arrived into `replies`; False where the worker has ended."""
        data = os.read(self.fd, 1 << 20)
        if not data:
            return False
        for message in self._reader.feed(data):
            if message["op"] == "drop":
                continue
            self.ready = True
            self.job, self.deadline = None, float("inf")
            if message["op"] != "set":
                self.replies.append(message)
            elif message.get("error"):
                raise TilewrightError(f"a worker cannot be set up: {message['message']}")
        return True

    def kill(self) -> str:
        """End the process now, with all that it started; what it last wrote to its errors."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._end()

    def stop(self) -> None:
        """End the process now, whoever reads its replies; he finds that it has died."""
        self._process.kill()

    def reason_of_death(self) -> str:
        """Why a worker that has closed its replies is gone; it is ended."""
        try:
            status = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "its process closed its replies; " + self.kill()
        last = self._end()
        how = f"status {status}"
        if status < 0:
            try:
                how = f"signal {signal.Signals(-status).name}"
            except ValueError:
                how = f"signal {-status}"
        return f"its process died with {how}" + (f": {last}" if last else "")

    def close(self) -> None:
        """Let the worker end; one that does not is killed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self.is_idle:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(2)
        self.kill()

    def _end(self) -> str:
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        return self._last_errors()

    def _last_errors(self) -> str:
        if self._errors.closed:
            return ""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _TAIL))
        text = self._errors.read().decode(errors="replace").strip()
        self._errors.close()
        return text


def environment() -> dict[str, Any]:
    """This process's environment, in which the child finds the same package."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    # from Python 3.11 on, a file of the working directory cannot pose as one of ours
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
