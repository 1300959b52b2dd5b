"""Build candidates in parallel, then time them one after the other, each in a worker process.

A candidate that crashes or hangs costs itself: its worker is replaced, and what that had built
besides is built again. Nothing else runs while a candidate is timed.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ..base.errors import TilewrightError
from .process import WorkerProcess
from .protocol import Message
from .result import MeasureErrorNo as No
from .result import Measurement


@dataclass(frozen=True)
class Timing:
    """How candidates are built and timed.

    Seconds allowed: `build_timeout` for building one, `run_timeout` for all runs of one. Of
    `repeat` repetitions each is the mean of `number` runs, or of as many as take `min_repeat_ms`.
    `stop_early`: a candidate whose first run is clearly slower than the best is not run again.
    `check`: compare the results with those of the interpreter of tensors. `flush_bytes`: memory
    written between repetitions, so that caches are cold. `n_parallel`: builds at a time.
    """

    build_timeout: float = 10.0
    run_timeout: float = 10.0
    number: int = 4
    repeat: int = 3
    min_repeat_ms: float = 0.0
    cooldown_ms: float = 0.0
    flush_bytes: int = 0
    stop_early: bool = True
    check: bool = False
    n_parallel: int = 0

    def __post_init__(self) -> None:
        if self.number < 1 or self.repeat < 1:
            raise TilewrightError(
                f"number ({self.number}) and repeat ({self.repeat}) have to be at least 1"
            )
        if self.build_timeout <= 0 or self.run_timeout <= 0:
            raise TilewrightError("timeouts are seconds above 0")

    @property
    def workers(self) -> int:
        return self.n_parallel if self.n_parallel > 0 else _cores()


class Measurer:
    """Workers, and the candidates they are busy with. Use as a context manager: leaving it ends
    the workers."""

    def __init__(self, timing: Timing | None = None) -> None:
        self.timing = timing or Timing()
        self._workers: list[WorkerProcess] = []
        self._seconds: dict[int, float] = {}

    def __enter__(self) -> Measurer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.close()

    def measure(
        self, programs: Sequence[Message], best: float | None = None
    ) -> Iterator[tuple[int, Measurement]]:
        """Measure candidates (see `program.describe`); yields (place, result) as each is done.

        `best`: seconds of the fastest so far, for the early stop; it follows what is found.
        """
        self._seconds = {}
        try:
            yield from self._build(programs, deque(range(len(programs))))
            for index in range(len(programs)):
                if index in self._seconds and self._holder(index) is None:
                    yield from self._build(programs, deque([index]))
                worker = self._holder(index)
                if worker is None:
                    continue  # its build has failed
                result = self._run(worker, index, best)
                if result.ok:
                    best = result.cost if best is None else min(best, result.cost)
                yield index, result
        finally:
            for worker in [w for w in self._workers if w.job is not None]:
                self._end(worker)
            for worker in self._workers:
                worker.held.clear()

    # -- building

    def _build(
        self, programs: Sequence[Message], queue: deque[int]
    ) -> Iterator[tuple[int, Measurement]]:
        """Build all in `queue`; yields the failures. `_seconds` has those that are built."""
        while True:
            missing = min(self.timing.workers, len(queue)) - len(self._workers)
            self._workers += [WorkerProcess() for _ in range(missing)]
            for worker in self._workers:
                if queue and worker.is_idle:
                    index = queue.popleft()
                    request = {"op": "build", "id": index, "program": programs[index]}
                    worker.send(request, index, self.timing.build_timeout)
            busy = [w for w in self._workers if w.job is not None or (queue and not w.ready)]
            if not busy:
                return
            for worker, late in self._wait(busy):
                job = worker.job
                reply = self._late(worker) if late else self._receive(worker, No.COMPILE_HOST)
                if reply is None:
                    continue
                if worker not in self._workers:  # gone, with what it held
                    queue.extend(sorted(worker.held))
                    for lost in worker.held:
                        self._seconds.pop(lost, None)
                elif not reply.get("error"):
                    self._seconds[reply["id"]] = reply["seconds"]
                    worker.held.add(reply["id"])
                    continue
                if job is not None:
                    self._seconds.pop(job, None)
                    yield job, _failure(reply)

    def _wait(self, workers: Sequence[WorkerProcess]) -> list[tuple[WorkerProcess, bool]]:
        """Those that have something to say, and those that are late (True)."""
        soonest = min(w.deadline for w in workers)
        seconds = max(0.0, min(soonest - time.monotonic(), 3600.0))
        poll = select.poll()
        by_fd = {w.fd: w for w in workers}
        for fd in by_fd:
            poll.register(fd, select.POLLIN | select.POLLHUP)
        heard = [by_fd[fd] for fd, _ in poll.poll(seconds * 1e3 + 1)]
        late = [w for w in workers if w not in heard and w.is_late]
        return [*((w, False) for w in heard), *((w, True) for w in late)]

    def _receive(self, worker: WorkerProcess, dead: No) -> Message | None:
        """A reply, or one made up for a worker that died; None where it is not complete."""
        if worker.receive():
            return worker.replies.pop() if worker.replies else None
        reason = worker.reason_of_death()
        self._workers.remove(worker)
        if not worker.ready:
            raise TilewrightError(f"a worker process does not start: {reason}")
        return {"error": dead, "message": reason, "seconds": 0.0}

    def _late(self, worker: WorkerProcess) -> Message:
        """The reply of a worker that is late, and is ended."""
        building = worker.job is not None and worker.job not in self._seconds
        said = self._end(worker)
        if not worker.ready:
            raise TilewrightError(f"a worker process does not start: {said}")
        limit = self.timing.build_timeout if building else self.timing.run_timeout
        number = No.BUILD_TIMEOUT if building else No.RUN_TIMEOUT
        return {"error": number, "message": f"it took more than {limit:g} s", "seconds": limit}

    def _end(self, worker: WorkerProcess) -> str:
        self._workers.remove(worker)
        return worker.kill()

    def _holder(self, index: int) -> WorkerProcess | None:
        return next((w for w in self._workers if index in w.held), None)

    # -- running

    def _run(self, worker: WorkerProcess, index: int, best: float | None) -> Measurement:
        timing = self.timing
        request: dict[str, Any] = {"op": "run", "id": index, "check": timing.check}
        for name in ("number", "repeat", "min_repeat_ms", "cooldown_ms", "flush_bytes"):
            request[name] = getattr(timing, name)
        request["best"] = best if timing.stop_early else None
        worker.held.discard(index)
        worker.send(request, index, timing.run_timeout)
        reply: Message | None = None
        while reply is None:
            for _, late in self._wait([worker]):
                reply = self._late(worker) if late else self._receive(worker, No.RUNTIME_DEVICE)
        if reply.get("error"):
            return _failure(reply, self._seconds[index])
        seconds = self._seconds[index] + reply["seconds"]
        return Measurement(tuple(reply["costs"]), seconds=seconds, early=reply["early"])


def _failure(reply: Message, before: float = 0.0) -> Measurement:
    return Measurement(
        (), No(reply["error"]), str(reply["message"]), before + float(reply["seconds"])
    )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
