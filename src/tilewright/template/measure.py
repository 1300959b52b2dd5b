"""How a search measures: builder and runner as users name them, and one batch of candidates."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import TilewrightError, UsageError
from ..driver.transform import PassContext
from ..loopir.stmt import PrimFunc
from ..lowering.verify_gpu_code import verify_gpu_code
from ..measure.files import FileBuilder
from ..measure.origin import here
from ..measure.program import describe
from ..measure.protocol import Message
from ..measure.result import MeasureErrorNo, Measurement, not_described
from ..measure.runner import Measurer, Measures, Timing, cores
from ..topi.utils import get_const_tuple
from .record import MeasureInput, MeasureResult
from .space import InstantiationError
from .task import Task
from .through_session import local_session, time_loaded, without_extremes

logger = logging.getLogger("autotvm")


class Builder:
    """Base of what builds candidates of a task. `n_parallel`: candidates at a time (None: one a
    core). `timeout`: seconds for one."""

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.timeout = float(timeout)
        self.n_parallel = int(n_parallel or cores())
        self.user_build_kwargs = dict(build_kwargs or {})
        self.build_kwargs: dict[str, Any] = {}
        self.task: Task | None = None

    def set_task(self, task: Task, build_kwargs: Mapping[str, Any] | None = None) -> None:
        """Called before a search: its task, and what the runner asks of builds."""
        self.task = task
        self.build_kwargs = {**(build_kwargs or {}), **self.user_build_kwargs}

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        """Build candidates: a BuildResult for each, or the MeasureResult of its error."""
        raise NotImplementedError(f"{type(self).__name__} has to define build")


class Runner:
    """Base of what times candidates of a task. A runner of one's own defines `run`. `timeout`:
    seconds for one. `n_parallel`: candidates at a time."""

    def __init__(self, timeout: float = 10, n_parallel: int | None = None) -> None:
        self.timeout = float(timeout)
        self.n_parallel = int(n_parallel or cores())
        self.task: Task | None = None

    def set_task(self, task: Task) -> None:
        """Called before a search."""
        self.task = task

    def get_build_kwargs(self) -> dict[str, Any]:
        """What is asked of builds."""
        return {}

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]
    ) -> list[MeasureResult]:
        """Time what was built: a result for each input."""
        raise NotImplementedError(f"{type(self).__name__} has to define run")


class BuildResult(NamedTuple):
    """A candidate that was built. `filename`: what `runtime.load_module` reads; `arg_info`: shape
    and dtype of each argument; `time_cost`: seconds that it took."""

    filename: str
    arg_info: tuple[Any, ...]
    error: Exception | None
    time_cost: float


class LocalBuilder(FileBuilder, Builder):
    """Builds in worker processes of this machine, `n_parallel` at a time (None: one for each core),
    each candidate within `timeout` seconds.

    `build_func`: what links, see `FileBuilder`. `build_kwargs`: "build_option", options of the
    compiler by name; "check_gpu", limits as of `tir.analysis.verify_gpu_code`, which a kernel that
    is to be built keeps; "cuda_arch" says nothing here, where the target does. Workers are never
    forks of this process, and files are no runtime's: `do_fork` and `runtime` change nothing.
    Raises UsageError where build_func is neither "default", "ndk" nor a function.
    """

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: Mapping[str, Any] | None = None,
        build_func: str | Callable[..., Any] = "default",
        do_fork: bool = False,
        runtime: Any = None,
    ) -> None:
        del do_fork, runtime
        Builder.__init__(self, timeout, n_parallel, build_kwargs)
        self.build_kwargs = dict(self.user_build_kwargs)
        FileBuilder.__init__(self, timeout, n_parallel, build_func)

    @property
    def is_plain(self) -> bool:
        """Whether candidates may as well be built by the workers that run them."""
        return self.fcompile is None and not self.user_build_kwargs

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        """Build candidates in workers: a BuildResult for each, or the MeasureResult of its
        error."""
        self.clear()
        results: dict[int, Any] = {}
        made: list[tuple[int, Message, tuple[Any, ...]]] = []
        with _options(**self.build_kwargs):
            for n, inp in enumerate(measure_inputs):
                found = attempt(inp.task, inp.config)
                if isinstance(found, Measurement):
                    results[n] = as_result(found)
                else:
                    made.append((n, *found))
            built = self.files([program for _, program, _ in made])
        for (n, _, args), (path, found) in zip(made, built):
            failed = found.error_no != MeasureErrorNo.NO_ERROR
            results[n] = (
                as_result(found) if failed else BuildResult(path, args, None, found.seconds)
            )
        return [results[n] for n in range(len(measure_inputs))]


def _options(
    check_gpu: Mapping[str, Any] | None = None,
    cuda_arch: Any = None,
    build_option: Mapping[str, Any] | None = None,
) -> PassContext:
    """The context in which builds with these arguments are made."""
    del cuda_arch

    def check(func: PrimFunc) -> PrimFunc:
        if not verify_gpu_code(func, check_gpu):
            raise InstantiationError("Skipped because of invalid gpu kernel")
        return func

    passes = [(2, check)] if check_gpu else []
    return PassContext(config={"tir.add_lower_pass": passes, **(build_option or {})})


class LocalRunner(Runner):
    """Times candidates on this machine, one at a time: `repeat` repetitions of `number` runs (or as
    many as take `min_repeat_ms`), all within `timeout` seconds. Each repetition is a cost, of more
    than two the least and the largest left out.

    `cooldown_interval`: seconds between candidates. `enable_cpu_cache_flush`: start each repetition
    with cold caches. `module_loader`: called with what a session is asked for (the arguments of
    `request_remote`) and a BuildResult, it gives a context manager of the session and the module in
    it, which are timed there; `default_module_loader` is one. `check_correctness`: compare results
    with what the tensors say, by the interpreter. `stop_early`: one run of a candidate clearly
    slower than the best is enough, in a search; that is what "local" stands for as a
    `measure_option`. `place`: None for this machine, or which devices of a fleet
    (`fleet.options.Place`).
    """

    place: Any = None

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
        stop_early: bool = False,
    ) -> None:
        super().__init__(timeout, 1)
        self.module_loader = module_loader
        self.ref_input: Sequence[Any] | None = None
        self.executor: Any = None
        self.timing = Timing.of_runner(
            timeout,
            number,
            repeat,
            min_repeat_ms,
            cooldown_interval,
            enable_cpu_cache_flush,
            stop_early=bool(stop_early),
            check=bool(check_correctness),
        )

    def measurer(self, timing: Timing) -> Measures:
        """What builds and times candidates for a tuner."""
        return Measurer(timing)

    def session(self) -> AbstractContextManager[dict[str, Any]]:
        """What a session for `module_loader` is asked for, while it may be."""
        return local_session(self.timeout)

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]
    ) -> list[MeasureResult]:
        """Time what a builder has built, one after the other on a device.

        `ref_input` of the runner: arrays that candidates run on instead of random data. `executor`:
        what calls `run_candidate` for each instead, by `submit`.
        """
        pairs = list(zip(measure_inputs, build_results))
        if self.module_loader is not None:
            with self.session() as where:
                return [self._run_loaded(inp, built, where) for inp, built in pairs]
        timing = replace(self.timing, stop_early=False)  # these are no search
        if self.executor is not None:
            given = {"ref_input": self.ref_input, "place": self.place}
            waiting = [self.executor.submit(run_candidate, *p, timing, **given) for p in pairs]
            return [future.result() for future in waiting]
        with _inputs(self.ref_input) as inputs, self.measurer(timing) as measurer:
            return _run(measurer, pairs, inputs)

    def _run_loaded(self, inp: MeasureInput, built: Any, where: dict[str, Any]) -> MeasureResult:
        """Time one candidate in the session that the loader gives."""
        if not isinstance(built, BuildResult):
            failed: MeasureResult = built
            return failed
        start = time.time()
        try:
            with self.module_loader(where, built) as (remote, module):
                costs = time_loaded(remote, module, inp.target, built.arg_info, self)
        except Exception as error:  # whatever it is costs that candidate alone
            message = MeasureError(str(error)[:1024])
            spent = time.time() - start + built.time_cost
            return MeasureResult((message,), MeasureErrorNo.RUNTIME_DEVICE, spent, time.time())
        end = time.time()
        time.sleep(self.timing.cooldown_ms * 1e-3)
        return MeasureResult(costs, 0, end - start + built.time_cost, end)


def run_candidate(
    measure_input: MeasureInput,
    build_result: Any,
    timing: Timing,
    ref_input: Sequence[Any] | None = None,
    place: Any = None,
) -> MeasureResult:
    """Time one candidate, in a worker of its own. `place`: see LocalRunner."""
    measurer = Measurer(timing) if place is None else place.measurer(timing)
    with _inputs(ref_input) as inputs, measurer:
        return _run(measurer, [(measure_input, build_result)], inputs)[0]


def _run(
    measurer: Measures, pairs: Iterable[tuple[MeasureInput, Any]], inputs: Mapping[str, str]
) -> list[MeasureResult]:
    results: dict[int, MeasureResult] = {}
    programs: dict[int, Message] = {}
    for n, (inp, built) in enumerate(pairs):
        if not isinstance(built, BuildResult):
            results[n] = built
            continue
        described: Message = {"target": inp.target.export()}
        if measurer.timing.check:  # what the results are to be
            described, _ = describe_candidate(inp.task, inp.config)
        programs[n] = {**described, "library": built.filename, "inputs": dict(inputs)}
    places = list(programs)
    for index, found in measurer.measure(programs.values()):
        results[places[index]] = as_result(trimmed(found))
    return [results[n] for n in range(len(results))]


@contextmanager
def _inputs(arrays: Sequence[Any] | None) -> Iterator[dict[str, str]]:
    """Arrays as files that workers read, by place."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for n, data in enumerate(arrays or ()):
            paths[str(n)] = str(Path(folder) / f"{n}.npy")
            np.save(paths[str(n)], data.numpy() if hasattr(data, "numpy") else np.asarray(data))
        yield paths


MeasureOption = dict[str, Any]


def measure_option(builder: Any, runner: Any) -> MeasureOption:
    """What `tuner.tune` takes as `measure_option`; "local" stands for either's default. Raises
    UsageError where builder or runner is neither 'local' nor one of that kind."""
    return {
        "builder": _resolve(builder, LocalBuilder, Builder, "builder"),
        "runner": _resolve(runner, partial(LocalRunner, stop_early=True), Runner, "runner"),
    }


def _resolve(given: Any, local: Callable[[], Any], base: type, what: str) -> Any:
    if given == "local":
        return local()
    if not isinstance(given, base):
        raise UsageError(
            f"measure_option: {what} is 'local', a Local{what.capitalize()} or a "
            f"{what.capitalize()} of your own, got {given!r}"
        )
    return given


class Batches:
    """Measures configurations of a task, batch by batch. Leaving the context ends the workers."""

    def __init__(self, task: Task, option: MeasureOption) -> None:
        self.task = task
        self.best: float | None = None
        builder, runner = option["builder"], option["runner"]
        timing = replace(
            runner.timing, build_timeout=builder.timeout, n_parallel=builder.n_parallel
        )
        self._measurer = runner.measurer(timing)

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, *_: object) -> None:
        self._measurer.close()

    def measure(self, configs: Sequence[Any]) -> Iterator[tuple[int, Measurement]]:
        """(place in `configs`, measurement) as each is done."""
        programs: list[Message] = []
        places: list[int] = []
        for place, config in enumerate(configs):
            found = attempt(self.task, config)
            if isinstance(found, Measurement):
                yield place, found
            else:
                programs.append(found[0])
                places.append(place)
        for index, result in self._measurer.measure(programs, self.best):
            result = trimmed(result)
            if result.ok and (self.best is None or result.cost < self.best):
                self.best = result.cost
            yield places[index], result


def describe_candidate(task: Any, config: Any) -> tuple[Message, tuple[Any, ...]]:
    """A configuration of a task as the workers take it, and (shape, dtype) of its arguments."""
    if task.target is None:
        raise TilewrightError(f"{task} has no target; make it with autotvm.task.create")
    schedule, args = task.instantiate(config)
    info = tuple((get_const_tuple(a.shape), a.dtype) for a in args if hasattr(a, "shape"))
    return describe(schedule, args, task.target), info


def attempt(task: Any, config: Any) -> tuple[Message, tuple[Any, ...]] | Measurement:
    """What `describe_candidate` gives, or the error, which costs that candidate alone."""
    start = time.perf_counter()
    try:
        return describe_candidate(task, config)
    except Exception as error:
        logger.debug("%s cannot be instantiated: %s", config, error)
        return not_described(error, time.perf_counter() - start)


class OwnBatches:
    """Measures configurations of a task by a builder and a runner of the user's."""

    def __init__(self, task: Task, option: MeasureOption) -> None:
        self.task, self.builder, self.runner = task, option["builder"], option["runner"]
        self.best: float | None = None
        self.runner.set_task(task)
        self.builder.set_task(task, self.runner.get_build_kwargs())

    def __enter__(self) -> OwnBatches:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to end."""

    def measure(self, configs: Sequence[Any]) -> Iterator[tuple[int, Measurement]]:
        """(place in `configs`, measurement) of all, once all are done."""
        assert self.task.target is not None
        inputs = [MeasureInput(self.task.target, self.task, c) for c in configs]
        built = self.builder.build(inputs)
        for place, result in enumerate(self.runner.run(inputs, built)):
            number = MeasureErrorNo(int(result.error_no))
            bad = number != MeasureErrorNo.NO_ERROR
            costs = () if bad else tuple(float(c) for c in result.costs)
            text = str(result.costs[0]) if bad and result.costs else ""
            times = result.all_cost, result.timestamp
            # where a runner of the user's has run it is not known here
            yield place, Measurement(costs, number, text, *times, origin=here())


def batches_of(task: Task, option: MeasureOption) -> Batches | OwnBatches:
    """What measures by an option: the workers of this machine, or the user's own."""
    local = (isinstance(option["builder"], LocalBuilder), isinstance(option["runner"], LocalRunner))
    plain = all(local) and option["builder"].is_plain
    runner = option["runner"]
    if plain:
        given = (runner.ref_input, runner.executor, runner.module_loader)
        plain = all(x is None for x in given)
    return Batches(task, option) if plain else OwnBatches(task, option)


class MeasureError(TilewrightError):
    """What stands in `MeasureResult.costs` after an error."""


def trimmed(found: Measurement) -> Measurement:
    """A measurement without extreme costs."""
    return replace(found, costs=without_extremes(found.costs))


def as_result(found: Measurement) -> MeasureResult:
    """A measurement in the form that callbacks and tuners take."""
    costs = found.costs if found.ok else (MeasureError(found.message),)
    return MeasureResult(costs, int(found.error_no), found.seconds, found.timestamp)


def create_measure_batch(
    task: Task, option: MeasureOption
) -> Callable[[Sequence[MeasureInput]], list[MeasureResult]]:
    """A function that measures a batch, for searches of one's own: inputs -> results."""

    def measure_batch(inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        with batches_of(task, option) as batches:
            found = dict(batches.measure([i.config for i in inputs]))
        return [as_result(found[i]) for i in range(len(inputs))]

    measure_batch.n_parallel = option["builder"].n_parallel  # type: ignore[attr-defined]
    return measure_batch
