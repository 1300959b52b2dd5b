"""The workers, and the candidates that they build: in the background, while the search goes on.

A thread speaks with the workers as long as there is something to build; it sleeps in `poll`
otherwise, and so leaves the search's own thread alone. A candidate that crashes or hangs its worker
costs itself: the worker is replaced, and what it had built besides is built again.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence

from ..base.errors import TilewrightError
from .process import WorkerProcess
from .program import options_as_data
from .protocol import Message
from .result import MeasureErrorNo as No
from .result import Measurement


class Pool:
    """At most `size` workers that build candidates, each within `timeout` seconds.

    Candidates go by ticket. Of those that `add` took, `seconds` has what building took, `failed`
    what came of those that could not be built.
    """

    def __init__(self, size: int, timeout: float, memory: int) -> None:
        self.size = size
        self.timeout = timeout
        self.memory = memory
        self.workers: list[WorkerProcess] = []
        self.seconds: dict[int, float] = {}
        self.failed: dict[int, Measurement] = {}
        self._requests: dict[int, Message] = {}
        self._queue: deque[int] = deque()
        self._only: frozenset[int] | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        # Not Thread.join: one that a signal's handler interrupts takes the thread for ended, up to
        # Python 3.12.
        self._ended = threading.Event()
        self._ended.set()
        self._wake: tuple[int, int] | None = None
        self._error: BaseException | None = None

    def __contains__(self, ticket: object) -> bool:
        """Whether a candidate was added and not released since."""
        return ticket in self._requests

    def start(self, count: int) -> None:
        """Have `count` workers, which need most of a second to begin."""
        if not hasattr(select, "poll"):
            raise TilewrightError(
                "measuring candidates needs Linux or macOS: on Windows, tune in WSL; records that "
                "were made elsewhere are applied on every system"
            )
        missing = min(self.size, count) - len(self.workers)
        self.workers += [WorkerProcess(self.memory) for _ in range(missing)]

    def add(self, ticket: int, program: Message) -> None:
        """Build a candidate, with the options that are set here and now, as soon as a worker is
        free, and keep it."""
        request = {"op": "build", "id": ticket, "program": program, "options": options_as_data()}
        self._requests[ticket] = request
        self._enqueue([ticket])

    def settle(self, tickets: Iterable[int]) -> None:
        """Wait until these are built or failed. No worker is busy then, nor will be until
        `release`, whatever is added."""
        with self._lock:
            self._only = frozenset(tickets)
        self._enqueue([])
        self._join()

    def release(self, tickets: Iterable[int]) -> None:
        """Forget these, and go on with what was added in the meantime."""
        forgotten = set(tickets)
        with self._lock:
            self._only = frozenset()
        self._join()
        for worker in [w for w in self.workers if w.job is not None]:
            self.end(worker)
            self.lose(worker)
        with self._lock:
            self._queue = deque(t for t in self._queue if t not in forgotten)
        for worker in self.workers:
            for ticket in sorted(forgotten & worker.held):
                worker.held.discard(ticket)
                worker.tell({"op": "drop", "id": ticket})
        for ticket in forgotten:
            self.seconds.pop(ticket, None)
            self.failed.pop(ticket, None)
            self._requests.pop(ticket, None)
        with self._lock:
            self._only = None
        self._enqueue([])

    def close(self) -> None:
        """End the workers."""
        with self._lock:
            self._queue.clear()
            self._only = frozenset()
            for worker in self.workers:
                if worker.job is not None:
                    worker.deadline = 0.0
        self._alarm()
        if self._thread is not threading.current_thread():
            self._ended.wait()
        workers, self.workers = self.workers, []
        for worker in workers:
            worker.close()
        self.seconds.clear()
        self.failed.clear()
        self._requests.clear()
        self._only = None
        if self._wake is not None:
            for fd in self._wake:
                os.close(fd)
            self._wake = None

    def holder(self, ticket: int) -> WorkerProcess | None:
        """The worker that has built a candidate."""
        return next((w for w in self.workers if ticket in w.held), None)

    # -- the thread

    def _enqueue(self, tickets: Sequence[int]) -> None:
        with self._lock:
            self._queue.extend(tickets)
            if self._thread is not None:
                self._alarm()
                return
            if self._next() is None:
                return
            if self._wake is None:
                self._wake = os.pipe()
            self._thread = threading.Thread(target=self._work, name="measure", daemon=True)
            self._ended.clear()
            self._thread.start()

    def _join(self) -> None:
        self._ended.wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _alarm(self) -> None:
        if self._wake is not None:
            os.write(self._wake[1], b"\0")

    def _work(self) -> None:
        try:
            while busy := self._assign():
                for worker, late in self.wait(busy):
                    self._hear(worker, late)
        except BaseException as error:
            self._error = error
            with self._lock:
                self._queue.clear()
                self._end_thread()

    def _end_thread(self) -> None:
        self._thread = None
        self._ended.set()

    def _assign(self) -> list[WorkerProcess]:
        """Give idle workers something to do; those that owe a reply. Without any,
        the thread ends."""
        with self._lock:
            if self._next() is not None:
                self.start(len(self._queue) + sum(w.job is not None for w in self.workers))
            for worker in self.workers:
                ticket = self._next() if worker.is_idle else None
                if ticket is not None:
                    self._queue.remove(ticket)
                    worker.send(self._requests[ticket], ticket, self.timeout)
            starting = self._next() is not None
            busy = [w for w in self.workers if w.job is not None or (starting and not w.ready)]
            if not busy:
                self._end_thread()
            return busy

    def _next(self) -> int | None:
        if self._only is None:
            return self._queue[0] if self._queue else None
        return next((t for t in self._queue if t in self._only), None)

    def _hear(self, worker: WorkerProcess, late: bool) -> None:
        job = worker.job
        reply = self.late(worker) if late else self.receive(worker, No.COMPILE_HOST)
        if reply is None:
            return
        if worker not in self.workers:
            self.lose(worker)
        elif not reply.get("error"):
            self.seconds[reply["id"]] = reply["seconds"]
            worker.held.add(reply["id"])
            return
        if job is not None:
            self.failed[job] = failure(reply)

    def lose(self, worker: WorkerProcess) -> None:
        """Build again what a worker that is gone had built."""
        lost = sorted(worker.held)
        for ticket in lost:
            self.seconds.pop(ticket, None)
        with self._lock:
            self._queue.extend(lost)

    # -- one worker

    def wait(self, workers: Sequence[WorkerProcess]) -> list[tuple[WorkerProcess, bool]]:
        """Those that have something to say, and those that are late (True)."""
        soonest = min(w.deadline for w in workers)
        seconds = max(0.0, min(soonest - time.monotonic(), 3600.0))
        poll = select.poll()
        by_fd = {w.fd: w for w in workers}
        for fd in by_fd:
            poll.register(fd, select.POLLIN | select.POLLHUP)
        if self._wake is not None:
            poll.register(self._wake[0], select.POLLIN)
        heard = []
        for fd, _ in poll.poll(seconds * 1e3 + 1):
            if fd in by_fd:
                heard.append(by_fd[fd])
            else:
                os.read(fd, 1 << 12)
        late = [w for w in workers if w not in heard and w.is_late]
        return [*((w, False) for w in heard), *((w, True) for w in late)]

    def receive(self, worker: WorkerProcess, dead: No) -> Message | None:
        """A reply, or one made up for a worker that died; None where it is not complete."""
        if worker.receive():
            return worker.replies.pop() if worker.replies else None
        reason = worker.reason_of_death()
        self.workers.remove(worker)
        if not worker.ready:
            raise TilewrightError(f"a worker process does not start: {reason}")
        return {"error": dead, "message": reason, "seconds": 0.0}

    def late(self, worker: WorkerProcess) -> Message:
        """The reply of a worker that is late, and is ended."""
        limit = worker.allowed
        building = worker.job is not None and worker.job not in self.seconds
        said = self.end(worker)
        if not worker.ready:
            raise TilewrightError(f"a worker process does not start: {said}")
        number = No.BUILD_TIMEOUT if building else No.RUN_TIMEOUT
        return {"error": number, "message": f"it took more than {limit:g} s", "seconds": limit}

    def end(self, worker: WorkerProcess) -> str:
        """End a worker whatever it does; what it last wrote to its errors."""
        self.workers.remove(worker)
        return worker.kill()


def failure(reply: Message, before: float = 0.0) -> Measurement:
    """The measurement that a reply with an error makes, after `before` seconds."""
    return Measurement(
        (), No(reply["error"]), str(reply["message"]), before + float(reply["seconds"])
    )
