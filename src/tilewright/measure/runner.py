"""Build candidates in parallel, then time them one after the other, each in a worker process.

A candidate that crashes or hangs costs itself: its worker is replaced, and what that had built
besides is built again. Nothing else runs while a candidate is timed.
"""

from __future__ import annotations

import os
import weakref
from abc import abstractmethod
from collections.abc import Container, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..base.closing import Closing
from ..base.errors import TilewrightError
from ..base.machine import memory_bytes
from .pool import Pool, failure
from .process import WorkerProcess
from .protocol import Message
from .repeats import Best
from .result import MeasureErrorNo as No
from .result import Measurement

_FLUSH_BYTES = 64 << 20
MEMORY_SHARE = 0.75  # of the machine's memory, for one worker
_TOLD = (
    "number", "repeat", "min_repeat_ms", "cooldown_ms", "flush_bytes", "adaptive", "check", "device"
)  # fmt: skip


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

    @classmethod
    def of_runner(
        cls,
        timeout: float,
        number: int,
        repeat: int,
        min_repeat_ms: float,
        cooldown_interval: float,
        enable_cpu_cache_flush: bool,
        **more: Any,
    ) -> Timing:
        """How a runner's arguments, of TVM's names, say that candidates are timed.
        `cooldown_interval`: seconds. `more`: of the other fields."""
        return cls(
            run_timeout=float(timeout),
            number=int(number),
            repeat=int(repeat),
            min_repeat_ms=float(min_repeat_ms),
            cooldown_ms=float(cooldown_interval) * 1e3,
            flush_bytes=_FLUSH_BYTES if enable_cpu_cache_flush else 0,
            **more,
        )

    @property
    def workers(self) -> int:
        return self.n_parallel if self.n_parallel > 0 else cores()

    def request(self, best: Best | None) -> dict[str, Any]:
        """What the process that times a candidate is told. `best`: the fastest so far."""
        told = {name: getattr(self, name) for name in _TOLD}
        return {**told, "best": best if self.stop_early else None}


class Measures(Closing):
    """What builds and times the candidates of a search. Closing drops what is in flight.

    `measure` does all at once. `submit` has a candidate built in the background, and `run` times
    those that were submitted.
    """

    timing: Timing

    @abstractmethod
    def warm(self) -> None:
        """Start what needs time to begin, ahead of the first candidate."""

    @abstractmethod
    def submit(self, program: Message) -> int:
        """Have a candidate (see `program.describe`) built in the background; its ticket for
        `run`."""

    @abstractmethod
    def forget(self, tickets: Iterable[int]) -> None:
        """Drop candidates that will not be run."""

    @abstractmethod
    def build(self, programs: Iterable[Message]) -> list[Measurement]:
        """Build candidates without running them: for each a measurement without costs, which has an
        error where it could not be built. One with "export" is written to that file."""

    @abstractmethod
    def run(
        self, tickets: Sequence[int], best: Measurement | float | None = None
    ) -> Generator[tuple[int, Measurement], None, None]:
        """Time submitted candidates; yields (ticket, result) as each is done. Results of others
        that were started may be among them."""

    def start(self, tickets: Sequence[int], best: Measurement | float | None = None) -> None:
        """Time submitted candidates while the caller goes on, where others do that; `run` and
        `take` give their results."""
        del tickets, best  # here nothing else runs while a candidate is timed

    def ahead(self) -> int:
        """How many candidates are best out while more of them are found."""
        return 0

    def take(self, wait: bool = True) -> tuple[int, Measurement] | None:
        """The next result of a candidate that was started; with `wait` as soon as it comes, else
        None where none has come."""
        raise TilewrightError("no candidate was started")

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


def require_submitted(tickets: Iterable[int], known: Container[int]) -> None:
    """TilewrightError where not all of these candidates are known."""
    unknown = [t for t in tickets if t not in known]
    if unknown:
        raise TilewrightError(
            f"{len(unknown)} candidates were not submitted, or the measurer was closed since"
        )


class Measurer(Measures):
    """Workers of this machine, and the candidates they are busy with. The end of the measurer ends
    them, too."""

    def __init__(self, timing: Timing | None = None) -> None:
        self.timing = timing or Timing()
        memory = self.timing.memory or int(MEMORY_SHARE * available_memory())
        self._pool = Pool(self.timing.workers, self.timing.build_timeout, memory)
        self._tickets = 0
        self._final = weakref.finalize(self, Pool.close, self._pool)

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

    def build(self, programs: Iterable[Message]) -> list[Measurement]:
        """Build candidates without running them: for each a measurement without costs, which has an
        error where it could not be built."""
        tickets = [self.submit(program) for program in programs]
        pool = self._pool
        try:
            pool.settle(tickets)
            done = [pool.failed.get(t) or Measurement((), seconds=pool.seconds[t]) for t in tickets]
        finally:
            pool.release(tickets)
        return done

    def run(
        self, tickets: Sequence[int], best: Measurement | float | None = None
    ) -> Generator[tuple[int, Measurement], None, None]:
        """Time submitted candidates, once all of them are built; yields (ticket, result) as each is
        done, those that could not be built first. Nothing is built in the meantime."""
        pool = self._pool
        require_submitted(tickets, pool)
        leader = Best.of(best)
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
                leader = Best.after(leader, result)
                yield ticket, result
        finally:
            pool.release(tickets)

    def _run(self, worker: WorkerProcess, ticket: int, best: Best | None) -> Measurement:
        pool, timing = self._pool, self.timing
        request: Message = {"op": "run", "id": ticket, **timing.request(best)}
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


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory() -> int:
    """Bytes of memory that this machine, or its container, has."""
    sizes = [memory_bytes()]
    with suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max") as file:
        sizes.append(int(file.read()))
    return min(sizes)
