"""A session on a device: the Dask task that holds the device, and answers until it ends.

Questions come to the worker's own loop (`FleetWorker`), wait here, and are answered one at a time
by the task's thread from the session's child process. The task has the device's one resource, so
that nothing else runs there. It ends when the client says so, when Dask drops it since the client
has left or is gone, when the child dies, or after the session's time.
"""

from __future__ import annotations

import json
import queue
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Any

from ..measure.protocol import Message, pack, unpack
from .link import Limit
from .session_process import SessionProcess
from .work import as_bytes

_LOOK_SECONDS = 0.25
CLOSE = pack({"op": "close"})
"""The question that ends a session at once, also in the middle of another one."""

_CLOSED = "it was closed"
_UNABLE = "its device could not go on"
_ENDED_KEPT = 16  # sessions whose ends a worker remembers, for questions that come later


def topic(session: str) -> str:
    """Of Dask's events, by which the client of a session hears that it has a device."""
    return f"tilewright-session-{session}"


class Sessions:
    """The session that a worker has, and how the last ones ended."""

    def __init__(self) -> None:
        self.open: dict[str, Held] = {}
        self._ended: deque[tuple[str, str]] = deque(maxlen=_ENDED_KEPT)

    def ask(self, session: str, request: bytes) -> Future[bytes]:
        """The answer to come."""
        held = self.open.get(session)
        if held is not None:
            return held.ask(request)
        why = dict(self._ended).get(session, "the device has given it up")
        answer: Future[bytes] = Future()
        answer.set_result(pack({"ended": why}))
        return answer

    def end(self, session: str, why: str) -> None:
        held = self.open.pop(session)
        self._ended.append((session, why))
        held.end(why)


class Held:
    """Questions that wait, and the loop that answers them."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[tuple[bytes, Future[bytes]]] = queue.Queue()
        self._lock = Lock()
        self._ended = ""
        self._closed = False

    def ask(self, request: bytes) -> Future[bytes]:
        answer: Future[bytes] = Future()
        with self._lock:
            if self._ended:
                answer.set_result(pack({"ended": self._ended}))
                return answer
            self._waiting.put((request, answer))
        if request == CLOSE:
            self._closed = True
            answer.set_result(pack({}))
        return answer

    def serve(self, process: SessionProcess, given_up: Callable[[], str]) -> str:
        """Answer until the session ends; why it has."""

        def over() -> str:
            return _CLOSED if self._closed else given_up()

        while True:
            try:
                request, waits = self._waiting.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                why = over()
                if why:
                    return why
                continue
            if request == CLOSE:
                return _CLOSED
            answer: Message = {"ended": _UNABLE}
            try:
                answer = process.ask(unpack(request), over)
            finally:
                waits.set_result(pack(answer))
            if "ended" in answer:
                return str(answer["ended"])

    def end(self, why: str) -> None:
        """Answer what still waits."""
        with self._lock:
            self._ended = why
        while not self._waiting.empty():
            answer = self._waiting.get()[1]
            if not answer.done():
                answer.set_result(pack({"ended": why}))


def hold(request: bytes) -> bytes:
    """Be a session on this device: {session, timeout} -> {ended: why}."""
    from distributed import get_worker

    asked = json.loads(request)
    worker: Any = get_worker()  # a FleetWorker
    session, task = asked["session"], worker.get_current_task()
    limit, held = Limit(asked["timeout"]), Held()
    process = SessionProcess(worker.child_memory)
    worker.sessions.open[session] = held
    worker.log_event(topic(session), {"address": worker.address, "name": worker.facts.name})
    why = _UNABLE
    try:
        why = held.serve(process, lambda: limit.passed() or _dropped(worker, task))
    finally:
        process.close()
        worker.sessions.end(session, why)
    return as_bytes({"ended": why})


def _dropped(worker: Any, task: str) -> str:
    """Why nobody wants a task any more; empty while somebody does."""
    if worker.status.name not in ("init", "running", "paused"):
        return "the device was shut down"
    known = worker.state.tasks.get(task)
    return "" if known is not None and known.state == "executing" else "its client has left"
