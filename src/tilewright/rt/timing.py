"""Timing of compiled functions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

from ..base.errors import TilewrightError
from .adapt import device_of
from .array import empty
from .device_array import DeviceArray
from .device_module import DeviceFunction, prepare_sequence
from .drivers.base import Runtime
from .function import Function

PIECE = 20
"""Runs that one launch makes, where a device has graphs."""
SHORT = 50e-6
"""Seconds of a run on a device below which the time of one by itself is that of its launch."""
_MAX_NUMBER = 1 << 24
_Clock = Callable[[int], float]


@dataclass(frozen=True)
class BenchmarkResult:
    """Seconds of one run: each of `results` is the mean of the runs of one repetition."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Seconds of a run, the mean of the repetitions."""
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        """Seconds of a run, the median of the repetitions."""
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        """Seconds of a run in the fastest repetition."""
        return min(self.results)

    @property
    def max(self) -> float:
        """Seconds of a run in the slowest repetition."""
        return max(self.results)

    @property
    def std(self) -> float:
        """The standard deviation of the repetitions (of the population), in seconds."""
        return statistics.pstdev(self.results)

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        heads = "".join(f"{f'{n} (ms)':^14}" for n in names)
        values = "".join(f"{getattr(self, n) * 1e3:^14.4f}" for n in names)
        return f"Execution time summary:\n{heads.rstrip()}\n{values.rstrip()}"


def evaluate(
    function: Function,
    args: Sequence[Any],
    number: int,
    repeat: int,
    min_repeat_ms: float,
    cooldown_interval_ms: float = 0,
    repeats_to_cooldown: int = 1,
    cache_flush_bytes: int = 0,
    setup: Callable[[], Any] | None = None,
    limit_zero_time_iterations: int = 100,
) -> BenchmarkResult:
    """Run `function` once to warm up, then `repeat` times `number` runs, timed together.

    Where `number` runs take less than `min_repeat_ms`, `number` grows until they do not, at most
    `limit_zero_time_iterations` times. Before each repetition `setup` is called and a memory of
    `cache_flush_bytes` is written, so that the caches hold nothing of the arguments. On a device
    the time is the device's own, between two events of one stream; where it has graphs, twenty runs
    are one launch of the host's.
    """
    if not (isinstance(number, int) and isinstance(repeat, int) and number > 0 and repeat > 0):
        raise TilewrightError(
            f"number ({number!r}) and repeat ({repeat!r}) have to be at least 1, and integers"
        )
    with stopwatch(function, args, cache_flush_bytes) as clock:
        return measure_by(
            clock,
            number,
            repeat,
            min_repeat_ms,
            cooldown_interval_ms,
            repeats_to_cooldown,
            setup,
            limit_zero_time_iterations,
        )


def measure_by(
    clock: _Clock,
    number: int,
    repeat: int,
    min_repeat_ms: float,
    cooldown_interval_ms: float,
    repeats_to_cooldown: int,
    setup: Callable[[], Any] | None,
    limit_zero_time_iterations: int,
) -> BenchmarkResult:
    """As `evaluate`, with a clock that gives the seconds of so many runs."""
    results = []
    for index in range(repeat):
        if index and cooldown_interval_ms > 0 and index % repeats_to_cooldown == 0:
            time.sleep(cooldown_interval_ms / 1e3)
        if setup is not None:
            setup()
        taken = clock(number)
        growths = 0
        while taken * 1e3 < min_repeat_ms and growths < limit_zero_time_iterations:
            wanted = number * min_repeat_ms / (taken * 1e3) if taken > 0 else number * 2.0
            number = min(max(int(wanted * 1.1) + 1, int(number * 1.618)), _MAX_NUMBER)
            growths += 1
            taken = clock(number)
            if number == _MAX_NUMBER:
                break
        results.append(taken / number)
    return BenchmarkResult(tuple(results))


@contextmanager
def stopwatch(function: Function, args: Sequence[Any], flush_bytes: int) -> Iterator[_Clock]:
    """What times runs of a function that has run once, for the body of a `with`: number of runs ->
    seconds of all of them, each time after writing a memory of `flush_bytes`. See `evaluate`."""
    if not function.info.device:
        function.prepare(*args)()
        yield _host_clock(function, args, flush_bytes)
        return
    found = next((a for a in args if isinstance(a, DeviceArray)), None)
    runtime = (device_of(function.info, tuple(args)) if found is None else found.device).runtime
    runtime.sync()  # what the arguments wait for may be in another stream
    before = runtime.set_stream(runtime.create_timing_stream())
    try:
        raw = function.prepare_raw(*args)
        raw()
        yield _device_clock(function, args, raw, runtime, flush_bytes)
    finally:
        runtime.set_stream(before)


def _host_clock(function: Function, args: Sequence[Any], flush_bytes: int) -> _Clock:
    raw = function.prepare_raw(*args)
    flush = empty((flush_bytes,), "uint8") if flush_bytes > 0 else None

    def seconds(number: int) -> float:
        if flush is not None:
            flush._array.fill(1)
        start = time.perf_counter()
        for _ in range(number):
            if status := raw():
                raise function.failure(status)
        return time.perf_counter() - start

    return seconds


def _device_clock(
    function: Function, args: Sequence[Any], raw: Callable[[], int], runtime: Runtime, flush: int
) -> _Clock:
    """Runs by twenties in one launch of the host's, where the device has graphs: a kernel of some
    microseconds is done before the host has launched the next, and its time would be the host's."""
    stream = runtime.stream
    cold = [runtime.alloc(flush) for _ in range(2 if flush > 0 else 0)]
    pieces: dict[int, Callable[[], Any]] = {1: raw}

    def runs(count: int) -> Callable[[], Any]:
        if count not in pieces:
            assert isinstance(function, DeviceFunction)
            pieces[count] = prepare_sequence([(function, tuple(args))] * count)
        return pieces[count]

    def work(number: int) -> Iterator[Callable[[], Any]]:
        if runtime.graphs and isinstance(function, DeviceFunction):
            many, rest = divmod(number, PIECE)
            return chain(repeat(runs(PIECE), many), [runs(rest)] if rest else [])
        return repeat(raw, number)

    def seconds(number: int) -> float:
        launches = work(number)
        stream.sync()
        if cold:  # while it is written the host launches what comes behind it
            runtime.copy(cold[0], 0, cold[1], 0, flush, stream)
        start = stream.record(timing=True)
        for launch in launches:
            launch()
        end = stream.record(timing=True)
        stream.flush()
        return end.seconds_since(start)

    return seconds
