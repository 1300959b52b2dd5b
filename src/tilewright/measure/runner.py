"""Build candidates in parallel, then time them one after the other, each in a worker process.

A candidate that crashes or hangs costs itself: its worker is replaced, and what that had built
besides is built again. Nothing else runs while a candidate is timed.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..base.errors import TilewrightError
from .pool import Pool, failure
from .process import WorkerProcess
from .protocol import Message
from .repeats import Best
from .result import MeasureErrorNo as No
from .result import Measurement

_SHARE = 0.75  # of the machine's memory, for one worker


@dataclass(frozen=True)
class Timing:
    """How candidates are built and timed.

    Seconds allowed: `build_timeout` for building one, `run_timeout` for all runs of one. Of
    `repeat` repetitions each is the mean of `number` runs, or of as many as take `min_repeat_ms`.
    `stop_early`: a candidate whose first run is clearly slower than the best is not run again.
    `adaptive`: `repeat` times `min_repeat_ms` is the time for a candidate that may be the best, in
    short repetitions; others get less (see `repeats`). `check`: compare the results with those of
    the interpreter of tensors. `flush_bytes`: memory written between repetitions, so that caches
    are cold. `n_parallel`: builds at a time (0: one for each core). `device`: which of its kind.
    `memory`: bytes that a worker may use (0: three quarters of the machine's).
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
    adaptive: bool = False
    device: int = 0
    memory: int = 0

    def __post_init__(self) -> None:
        if self.number < 1 or self.repeat < 1:
            raise TilewrightError(
                f"number ({self.number}) and repeat ({self.repeat}) have to be at least 1"
            )
        if self.build_timeout <= 0 or self.run_timeout <= 0:
            raise TilewrightError("timeouts are seconds above 0")
        if self.adaptive and self.min_repeat_ms <= 0:
            raise TilewrightError(
                "adaptive repetitions need min_repeat_ms above 0: the time given to a leader"
            )

    @property
    def workers(self) -> int:
        return self.n_parallel if self.n_parallel > 0 else _cores()


class Measurer:
    """Workers, and the candidates they are busy with. Use as a context manager: leaving it ends
    the workers, as does the end of the measurer.

    `measure` does all at once. `submit` has a candidate built in the background, and `run` times
    those that were submitted.
    """

    def __init__(self, timing: Timing | None = None) -> None:
        self.timing = timing or Timing()
        memory = self.timing.memory or int(_SHARE * _memory())
        self._pool = Pool(self.timing.workers, self.timing.build_timeout, memory)
        self._tickets = 0
        self._final = weakref.finalize(self, Pool.close, self._pool)

    def __enter__(self) -> Measurer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; the next candidate starts new ones."""
        self._pool.close()

    def warm(self) -> None:
        """Start the workers, which need most of a second to begin, ahead of the first candidate."""
        self._pool.start(self.timing.workers)

    def submit(self, program: Message) -> int:
        """Build a candidate (see `program.describe`) in the background; its ticket for `run`."""
        ticket = self._tickets
        self._tickets += 1
        self._pool.add(ticket, program)
        return ticket

    def forget(self, tickets: Iterable[int]) -> None:
        """Drop candidates that will not be run."""
        self._pool.release(tickets)

    def measure(
        self, programs: Iterable[Message], best: Measurement | float | None = None
    ) -> Generator[tuple[int, Measurement], None, None]:
        """Measure candidates; yields (place, result) as each is done.

        Building begins with the first that `programs` gives. `best`: the fastest so far, for the
        early stop; it follows what is found.
        """
        tickets: list[int] = []
        try:
            for program in programs:
                tickets.append(self.submit(program))
        except BaseException:
            self.forget(tickets)
            raise
        place = {ticket: n for n, ticket in enumerate(tickets)}
        for ticket, result in self.run(tickets, best):
            yield place[ticket], result

    def run(
        self, tickets: Sequence[int], best: Measurement | float | None = None
    ) -> Generator[tuple[int, Measurement], None, None]:
        """Time submitted candidates, once all of them are built; yields (ticket, result) as each is
        done, those that could not be built first. Nothing is built in the meantime."""
        pool = self._pool
        unknown = [t for t in tickets if t not in pool]
        if unknown:
            raise TilewrightError(
                f"{len(unknown)} candidates were not submitted, or the measurer was closed since"
            )
        leader = Best(best.cost, best.noise) if isinstance(best, Measurement) else None
        leader = Best(best) if isinstance(best, (int, float)) else leader
        try:
            pool.settle(tickets)
            done = [t for t in tickets if t in pool.failed]
            for ticket in done:
                yield ticket, pool.failed[ticket]
            left = [t for t in tickets if t not in set(done)]
            for n, ticket in enumerate(left):
                if pool.holder(ticket) is None:
                    pool.settle(left[n:])
                worker = pool.holder(ticket)
                if worker is None:
                    yield ticket, pool.failed[ticket]
                    continue
                result = self._run(worker, ticket, leader)
                if result.ok and (leader is None or result.cost < leader.cost):
                    leader = Best(result.cost, result.noise)
                yield ticket, result
        finally:
            pool.release(tickets)

    def _run(self, worker: WorkerProcess, ticket: int, best: Best | None) -> Measurement:
        pool, timing = self._pool, self.timing
        request: dict[str, Any] = {"op": "run", "id": ticket, "check": timing.check}
        for name in ("number", "repeat", "min_repeat_ms", "cooldown_ms", "flush_bytes"):
            request[name] = getattr(timing, name)
        request["adaptive"], request["device"] = timing.adaptive, timing.device
        request["best"] = best if timing.stop_early else None
        worker.held.discard(ticket)
        worker.send(request, ticket, timing.run_timeout)
        reply: Message | None = None
        while reply is None:
            for _, late in pool.wait([worker]):
                reply = pool.late(worker) if late else pool.receive(worker, No.RUNTIME_DEVICE)
        if worker not in pool.workers:
            pool.lose(worker)
        if reply.get("error"):
            return failure(reply, pool.seconds[ticket])
        seconds = pool.seconds[ticket] + reply["seconds"]
        return Measurement(tuple(reply["costs"]), seconds=seconds, early=reply["early"])


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int:
    """Bytes of memory that this machine, or its container, has."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max") as file:
        sizes.append(int(file.read()))
    return min(sizes)
