"""How kernels of a device, ours and others', are timed: by its events, and those that are done
before the host has launched the next by twenties in a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.rt.device_module import prepare_sequence
from tilewright.rt.timing import PIECE, SHORT

Launch = Callable[[], Any]
Runs = Callable[[int], Launch]
"""So many runs as one launch."""
_BURST = 0.02  # seconds that one measurement takes at least


def prepared(built: Any, arrays: list[Any]) -> Runs:
    """Runs of a built function on arrays of a device, in its present stream."""
    return lambda number: prepare_sequence([(built.entry_func, tuple(arrays))] * number)


def repeated(runtime: Any, work: Callable[[Any], None]) -> Runs:
    """Runs of what `work` starts in the stream that it is given; alone, in the present one."""

    def runs(number: int) -> Launch:
        def many(stream: Any) -> None:
            for _ in range(number):
                work(stream)

        graph = runtime.capture(many) if number > 1 else None
        return (lambda: many(runtime.stream)) if graph is None else graph

    return runs


class Clock:
    """Device time of work on one stream."""

    def __init__(self, runtime: Any) -> None:
        self.stream = runtime.stream

    def seconds(self, work: Launch, times: int) -> float:
        """Seconds of one launch, the mean of `times`."""
        start = self.stream.record(timing=True)
        for _ in range(times):
            work()
        end = self.stream.record(timing=True)
        return float(end.seconds_since(start)) / times

    def burst(self, work: Launch) -> int:
        """How many launches make a measurement; warms up."""
        work()
        once = max(self.seconds(work, 3), 1e-7)
        return max(1, round(_BURST / once))

    def timer(self, runs: Runs) -> Callable[[], float]:
        """What measures once: gives the seconds of a run. Those that are short are timed by
        twenties."""
        number, launch = 1, runs(1)
        launch()
        if self.seconds(launch, 3) < SHORT:
            number, launch = PIECE, runs(PIECE)
        times = self.burst(launch)
        return lambda: self.seconds(launch, times) / number
