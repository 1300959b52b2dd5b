"""How long calls take: one caller or several at once, for so many runs or so many seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.config import MAX_THREADS
from ..base.errors import TilewrightError

Call = Callable[[], Any]
QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True)
class Plan:
    """`warm_up` runs of each caller that do not count, then `repeat` runs of each, or as many as
    fit into `duration` seconds."""

    repeat: int
    warm_up: int
    duration: float | None
    streams: int

    def __post_init__(self) -> None:
        if self.repeat < 1:
            raise TilewrightError(f"--repeat must be at least 1, got {self.repeat}")
        if self.warm_up < 0:
            raise TilewrightError(f"--warm-up must be 0 or more, got {self.warm_up}")
        if self.duration is not None and not 0 < self.duration < float("inf"):
            raise TilewrightError(f"--duration is in seconds, above 0, got {self.duration}")
        if not 1 <= self.streams <= MAX_THREADS:
            raise TilewrightError(
                f"--streams must be at least 1, and at most {MAX_THREADS}, got {self.streams}"
            )

    def split(self, parts: int) -> Plan:
        """One of so many equal parts of it."""
        duration = None if self.duration is None else self.duration / parts
        return Plan(-(-self.repeat // parts), self.warm_up, duration, self.streams)


@dataclass(frozen=True)
class Timed:
    """Seconds of each run, of all callers, and from the first one's start to the last one's end."""

    times: Sequence[float]
    seconds: float

    @staticmethod
    def sum(parts: Sequence[Timed]) -> Timed:
        """Several measurements as one."""
        return Timed([t for part in parts for t in part.times], sum(p.seconds for p in parts))

    def report(self) -> dict[str, float]:
        """Milliseconds by name, for the JSON object."""
        told = {name: float(np.quantile(self.times, q)) * 1e3 for name, q in QUANTILES.items()}
        return {**told, "least": min(self.times) * 1e3, "runs": len(self.times)}

    @property
    def median(self) -> float:
        return float(np.median(self.times))

    @property
    def rate(self) -> float:
        """Runs a second."""
        return len(self.times) / self.seconds


def measure(calls: Sequence[Call], plan: Plan) -> Timed:
    """Time calls, each by a thread of its own, all at once. An error of one is raised."""
    if len(calls) == 1:
        return _joined([_runs(calls[0], plan, lambda: None)])
    together = threading.Barrier(len(calls))
    done: list[list[tuple[float, float]]] = []
    errors: list[BaseException] = []

    def work(call: Call) -> None:
        try:
            done.append(_runs(call, plan, lambda: (together.wait(), None)[1]))
        except threading.BrokenBarrierError:
            pass  # another one failed, and says why
        except BaseException as error:
            errors.append(error)
            together.abort()

    workers = [threading.Thread(target=work, args=(call,)) for call in calls]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]
    return _joined(done)


PAUSE_S = 0.003
"""Between turns: the pools of threads of all stop to spin."""


def turns(calls: Sequence[Call], rounds: int, seconds: float) -> list[list[float]]:
    """Seconds of each run of each call: they take turns of `seconds`, `rounds` of them, after one
    to warm up."""
    times: list[list[float]] = [[] for _ in calls]
    clock = time.perf_counter
    for k in range(rounds + 1):
        for call, spent in zip(calls, times):
            time.sleep(PAUSE_S)
            call()
            end, count = clock() + seconds, 0
            while count < 2 or clock() < end:
                start = clock()
                call()
                spent.append(clock() - start)
                count += 1
            if k == 0:
                spent.clear()
    return times


def _runs(call: Call, plan: Plan, ready: Callable[[], None]) -> list[tuple[float, float]]:
    """When each run began and ended."""
    for _ in range(plan.warm_up):
        call()
    ready()
    spans: list[tuple[float, float]] = []
    end = None if plan.duration is None else time.perf_counter() + plan.duration
    while True:
        start = time.perf_counter()
        call()
        stop = time.perf_counter()
        spans.append((start, stop))
        if len(spans) >= plan.repeat if end is None else stop >= end:
            return spans


def _joined(done: Sequence[Sequence[tuple[float, float]]]) -> Timed:
    spans = [span for mine in done for span in mine]
    first, last = min(start for start, _ in spans), max(stop for _, stop in spans)
    return Timed([stop - start for start, stop in spans], last - first)
