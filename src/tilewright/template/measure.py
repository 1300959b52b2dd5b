"""How a search measures: builder and runner as users name them, and one batch of candidates."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..base.errors import TilewrightError
from ..measure.program import describe
from ..measure.protocol import Message
from ..measure.result import MeasureErrorNo, Measurement
from ..measure.runner import Measurer, Timing
from .record import MeasureInput, MeasureResult
from .task import Task

logger = logging.getLogger("autotvm")

_FLUSH_BYTES = 64 << 20


class LocalBuilder:
    """Builds in worker processes of this machine, `n_parallel` at a time (None: one for each core),
    each candidate within `timeout` seconds."""

    __slots__ = ("n_parallel", "timeout")

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: dict[str, Any] | None = None,
        build_func: str = "default",
        do_fork: bool = False,
        runtime: Any = None,
    ) -> None:
        del do_fork, runtime
        if build_func != "default" or build_kwargs:
            raise TilewrightError(
                "LocalBuilder: candidates are built by the default function only; others cannot "
                "travel to the worker processes"
            )
        self.timeout = float(timeout)
        self.n_parallel = int(n_parallel or 0)


class LocalRunner:
    """Times candidates on this machine, one at a time: `repeat` repetitions of `number` runs (or as
    many as take `min_repeat_ms`), all within `timeout` seconds.

    `cooldown_interval`: seconds between repetitions. `enable_cpu_cache_flush`: start each
    repetition with cold caches. `check_correctness`: compare results with what the tensors say, by
    the interpreter. `stop_early`: one run of a candidate clearly slower than the best is enough.
    """

    __slots__ = ("timing",)

    def __init__(
        self,
        timeout: float = 10,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: Any = None,
        check_correctness: bool = False,
        stop_early: bool = True,
    ) -> None:
        if module_loader is not None:
            raise TilewrightError("LocalRunner: a module_loader cannot travel to a worker process")
        self.timing = Timing(
            run_timeout=float(timeout),
            number=int(number),
            repeat=int(repeat),
            min_repeat_ms=float(min_repeat_ms),
            cooldown_ms=float(cooldown_interval) * 1e3,
            flush_bytes=_FLUSH_BYTES if enable_cpu_cache_flush else 0,
            stop_early=bool(stop_early),
            check=bool(check_correctness),
        )


MeasureOption = dict[str, Any]


def measure_option(builder: Any, runner: Any) -> MeasureOption:
    """What `tuner.tune` takes as `measure_option`; "local" stands for either's default."""
    return {
        "builder": _resolve(builder, LocalBuilder, "builder"),
        "runner": _resolve(runner, LocalRunner, "runner"),
    }


def _resolve(given: Any, kind: Callable[[], Any], what: str) -> Any:
    if given == "local":
        return kind()
    if not isinstance(given, kind):  # type: ignore[arg-type]
        raise TilewrightError(f"measure_option: {what} is 'local' or a Local{what.capitalize()}")
    return given


def timing_of(option: MeasureOption) -> Timing:
    """How a measure option says that candidates are built and timed."""
    builder, runner = option["builder"], option["runner"]
    values = {f: getattr(runner.timing, f) for f in Timing.__dataclass_fields__}
    values.update(build_timeout=builder.timeout, n_parallel=builder.n_parallel)
    return Timing(**values)


class Batches:
    """Measures configurations of a task, batch by batch. Leaving the context ends the workers."""

    def __init__(self, task: Task, option: MeasureOption) -> None:
        self.task = task
        self.best: float | None = None
        self._measurer = Measurer(timing_of(option))

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, *_: object) -> None:
        self._measurer.close()

    def measure(self, configs: Sequence[Any]) -> Iterator[tuple[int, Measurement]]:
        """(place in `configs`, measurement) as each is done."""
        programs: list[Message] = []
        places: list[int] = []
        for place, config in enumerate(configs):
            start = time.perf_counter()
            try:
                programs.append(self._describe(config))
                places.append(place)
            except Exception as error:  # whatever a template does costs that candidate alone
                logger.debug("%s cannot be instantiated: %s", config, error)
                known = isinstance(error, TilewrightError)
                text = str(error) if known else f"{type(error).__name__}: {error}"
                seconds = time.perf_counter() - start
                number = MeasureErrorNo.INSTANTIATION_ERROR
                yield place, Measurement((), number, text, seconds)
        for index, result in self._measurer.measure(programs, self.best):
            if result.ok and (self.best is None or result.cost < self.best):
                self.best = result.cost
            yield places[index], result

    def _describe(self, config: Any) -> Message:
        target = self.task.target
        if target is None:
            raise TilewrightError(f"{self.task} has no target; make it with autotvm.task.create")
        schedule, args = self.task.instantiate(config)
        return describe(schedule, args, target)


class MeasureError(TilewrightError):
    """What stands in `MeasureResult.costs` after an error."""


def as_result(found: Measurement) -> MeasureResult:
    """A measurement in the form that callbacks and tuners take."""
    costs = found.costs if found.ok else (MeasureError(found.message),)
    return MeasureResult(costs, int(found.error_no), found.seconds, found.timestamp)


def create_measure_batch(
    task: Task, option: MeasureOption
) -> Callable[[Sequence[MeasureInput]], list[MeasureResult]]:
    """A function that measures a batch, for searches of one's own: inputs -> results."""

    def measure_batch(inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        with Batches(task, option) as batches:
            found = dict(batches.measure([i.config for i in inputs]))
        return [as_result(found[i]) for i in range(len(inputs))]

    return measure_batch
