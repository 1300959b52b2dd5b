"""Measuring candidates: what goes in and comes out, builder and runner, and who is told.

The work is done by the worker processes of `tilewright.measure`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..base.errors import TilewrightError, UsageError
from ..measure.program import describe, tensors_as_data
from ..measure.protocol import Message
from ..measure.result import MeasureErrorNo, Measurement, spread
from ..measure.runner import Measurer, Timing
from .transform import apply_state

MAX_CONTINUOUS_ERROR = 150
"""After so many failures without a success between them every failure is shown, after twice as many
the search is given up."""

_FLUSH_BYTES = 64 << 20
_MESSAGE = 2000


@dataclass(frozen=True, eq=False)
class MeasureInput:
    """What is measured: a finished state of a task."""

    task: Any
    state: Any


@dataclass(frozen=True)
class MeasureResult:
    """What came of it. `costs`: seconds of a run, one a repetition; empty after an error.
    `error_no`: a MeasureErrorNo. `all_cost`: seconds that building and timing took. `timestamp`:
    when it ended, in seconds since 1970. `early`: it was clearly slower than the best, so fewer
    runs had to do."""

    costs: tuple[float, ...]
    error_no: int
    error_msg: str
    all_cost: float
    timestamp: float
    early: bool = False

    @property
    def ok(self) -> bool:
        return not self.error_no and bool(self.costs)

    @property
    def cost(self) -> float:
        """Seconds of a run: the median of the repetitions; infinite after an error."""
        return self.measurement.cost

    @property
    def noise(self) -> float:
        """How far the repetitions lie apart, as a share of their median."""
        return spread(self.costs) if self.ok else 0.0

    @property
    def measurement(self) -> Measurement:
        """The same as the workers give it."""
        number = MeasureErrorNo(self.error_no)
        return Measurement(
            self.costs, number, self.error_msg, self.all_cost, self.timestamp, self.early
        )

    @classmethod
    def of(cls, found: Measurement) -> MeasureResult:
        """What the workers gave."""
        number, message = int(found.error_no), found.message[:_MESSAGE]
        return cls(found.costs, number, message, found.seconds, found.timestamp, found.early)


class LocalBuilder:
    """Builds in worker processes of this machine, `n_parallel` at a time (None: one for each core),
    each candidate within `timeout` seconds."""

    __slots__ = ("n_parallel", "timeout")

    def __init__(
        self, timeout: float = 15, n_parallel: int | None = None, build_func: Any = "default"
    ) -> None:
        if build_func != "default":
            raise UsageError(
                f"LocalBuilder: build_func={build_func!r}: candidates are built by the default "
                "function only; others cannot travel to the worker processes"
            )
        self.timeout = float(timeout)
        self.n_parallel = int(n_parallel or 0)


class LocalRunner:
    """Times candidates on this machine, one at a time, all runs of one within `timeout` seconds.

    `adaptive` (the default): a candidate that may be the best is given `repeat` times
    `min_repeat_ms` of runs, in short repetitions, the faster half of which counts; one that is
    slower gets as few as show it. Otherwise: `repeat` repetitions of `number` runs, or of as many
    as take `min_repeat_ms`. `cooldown_interval`: seconds of rest between repetitions.
    `enable_cpu_cache_flush`: start each repetition, of one run then, with cold caches. `device`:
    which device of the target's kind. `check_correctness`: compare results with what the tensors
    say, by the interpreter; for small shapes. `in_network`: on CPUs, time each run with the caches
    as a network leaves them: inputs of free layout come from memory, others from what another
    kernel wrote; needs `adaptive`.
    """

    __slots__ = ("in_network", "timing")

    def __init__(
        self,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: float = 100,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
        check_correctness: bool = False,
        adaptive: bool = True,
        in_network: bool = False,
    ) -> None:
        self.in_network = bool(in_network)
        fixed_flush = enable_cpu_cache_flush and not adaptive
        self.timing = Timing(
            run_timeout=float(timeout),
            number=1 if fixed_flush else int(number),
            repeat=int(repeat),
            min_repeat_ms=0.0 if fixed_flush else float(min_repeat_ms),
            cooldown_ms=float(cooldown_interval) * 1e3,
            flush_bytes=_FLUSH_BYTES if enable_cpu_cache_flush else 0,
            check=bool(check_correctness),
            adaptive=bool(adaptive) and min_repeat_ms > 0,
            device=int(device),
        )


def resolve_builder(given: Any) -> LocalBuilder:
    """The builder that users name: "local" is the default one."""
    if given == "local" or given is None:
        return LocalBuilder()
    if not isinstance(given, LocalBuilder):
        raise UsageError(f'the builder is "local" or a LocalBuilder, got {given!r}')
    return given


def resolve_runner(given: Any) -> LocalRunner:
    """The runner that users name: "local" is the default one."""
    if given == "local" or given is None:
        return LocalRunner()
    if not isinstance(given, LocalRunner):
        raise UsageError(f'the runner is "local" or a LocalRunner, got {given!r}')
    return given


class MeasureCallback:
    """Told of every measurement as soon as it is finished. Subclass and define `callback`."""

    def callback(
        self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        """`inputs[i]` gave `results[i]`; `policy`: the search that asked (None: none did)."""
        raise NotImplementedError(f"{type(self).__name__} has to define callback")


PythonBasedMeasureCallback = MeasureCallback


def describe_input(item: MeasureInput, check: bool = False, in_network: bool = False) -> Message:
    """A candidate as the workers take it; `check`: with what its results are compared to;
    `in_network`: with which arguments are constants, which a network reads from memory."""
    task = item.task
    sch, args, rearranged = apply_state(item.state, int(task.layout_rewrite_option or 0))
    program = describe(sch, args, task.target)
    if in_network:
        free = {op.output(0) for op in task.compute_dag.layout_free}
        program["constants"] = [n for n, t in enumerate(task.compute_dag.tensors) if t in free]
    error = item.state.algorithm_error
    if check and (rearranged or error):  # the computation as it was written
        dag = task.compute_dag
        data = tensors_as_data(dag.tensors, [op.output(0) for op in dag.outputs])
        if data is not None:
            layouts = {str(r.index): [list(r.shape), [list(d) for d in r.dims]] for r in rearranged}
            made = {str(r.index): r.computed for r in rearranged if r.computed is not None}
            ahead = {n: tensors_as_data([t], [end]) for n, (t, end) in made.items()}
            program["reference"] = {**data, "layouts": layouts, "ahead": ahead, "error": error}
    return program


class ProgramMeasurer:
    """Measures batches of candidates in workers that it keeps; a context manager that ends them.

    `callbacks`: MeasureCallbacks, told of each measurement before the next begins. `verbose`: 2
    shows each failure. Per workload key, `best_cost` (seconds), `best_flops` (operations a second)
    and `best_state`; `ct` measurements in all, `error_ct` failures since the last success.
    """

    def __init__(
        self,
        builder: Any = "local",
        runner: Any = "local",
        callbacks: Sequence[Any] | None = None,
        verbose: int = 1,
        max_continuous_error: int = MAX_CONTINUOUS_ERROR,
    ) -> None:
        build, run = resolve_builder(builder), resolve_runner(runner)
        self.timing = replace(run.timing, build_timeout=build.timeout, n_parallel=build.n_parallel)
        self.callbacks = list(callbacks or ())
        self.verbose = verbose
        self.max_continuous_error = max_continuous_error
        self._in_network = run.in_network
        self._measurer = Measurer(self.timing)
        self._ahead: dict[int, tuple[MeasureInput, int]] = {}
        self.reset()

    def reset(self) -> None:
        """Forget what was found."""
        self.ct = self.error_ct = 0
        self.best_cost: dict[str, float] = {}
        self.best_flops: dict[str, float] = {}
        self.best_state: dict[str, Any] = {}
        self.best_ct: dict[str, int] = {}
        self._best: dict[str, Measurement] = {}

    def __enter__(self) -> ProgramMeasurer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        self._ahead.clear()
        self._measurer.close()

    def warm(self) -> None:
        """Start the workers, which need most of a second, while the search begins."""
        self._measurer.warm()

    def build_ahead(self, inputs: Iterable[MeasureInput]) -> None:
        """Have candidates built in the background; a later `measure` of these very objects finds
        them built."""
        for item in inputs:
            program = self._describe(item)
            if not isinstance(program, Measurement):
                self._ahead[id(item)] = (item, self._measurer.submit(program))

    def measure(
        self, task: Any, policy: Any, inputs: Sequence[MeasureInput]
    ) -> list[MeasureResult]:
        """Build all, then time one after the other; results in the order of `inputs`.

        Callbacks hear of each as it is done. TilewrightError when nothing but failures came for
        twice `max_continuous_error` candidates.
        """
        results: dict[int, MeasureResult] = {}
        tickets: dict[int, int] = {}
        failed: list[tuple[int, Measurement]] = []
        try:
            for n, item in enumerate(inputs):
                known = self._ahead.pop(id(item), None)
                program = None if known else self._describe(item)
                if isinstance(program, Measurement):
                    failed.append((n, program))
                else:
                    tickets[known[1] if known else self._measurer.submit(program or {})] = n
            for n, found in failed:
                results[n] = self._finish(policy, inputs[n], found)
            best = self._best.get(task.workload_key)
            for ticket, found in self._measurer.run(list(tickets), best):
                results[tickets[ticket]] = self._finish(policy, inputs[tickets[ticket]], found)
        except BaseException:
            self._measurer.forget(tickets)
            raise
        return [results[n] for n in range(len(inputs))]

    def _describe(self, item: MeasureInput) -> Message | Measurement:
        start = time.perf_counter()
        try:
            return describe_input(item, self.timing.check, self._in_network)
        except Exception as error:  # whatever a state does costs that candidate alone
            known = isinstance(error, TilewrightError)
            text = str(error) if known else f"{type(error).__name__}: {error}"
            seconds = time.perf_counter() - start
            return Measurement((), MeasureErrorNo.INSTANTIATION_ERROR, text, seconds)

    def _finish(self, policy: Any, item: MeasureInput, found: Measurement) -> MeasureResult:
        """Count a measurement and tell the callbacks."""
        result = MeasureResult.of(found)
        self.ct += 1
        if found.ok:
            self.error_ct = 0
            self._keep_best(item, found)
        else:
            self.error_ct += 1
        for callback in self.callbacks:
            callback.callback(policy, [item], [result])
        if not found.ok:
            self._watch_errors(result)
        return result

    def _keep_best(self, item: MeasureInput, found: Measurement) -> None:
        key = item.task.workload_key
        if key not in self._best or found.cost < self._best[key].cost:
            self._best[key] = found
            self.best_cost[key], self.best_state[key] = found.cost, item.state
            self.best_flops[key] = item.task.compute_dag.flop_ct / found.cost
            self.best_ct[key] = self.ct

    def _watch_errors(self, result: MeasureResult) -> None:
        name = MeasureErrorNo(result.error_no).name
        if self.error_ct >= 2 * self.max_continuous_error:
            raise TilewrightError(
                f"{self.error_ct} candidates in a row have failed, the last with {name}: "
                f"{result.error_msg}"
            )
        if self.error_ct == self.max_continuous_error and self.verbose:
            print(
                f"Too many errors happened during tuning: {self.error_ct} in a row. "
                "From here on each is shown"
            )
            self.verbose = max(self.verbose, 2)
        if self.verbose >= 2:
            print(f"{name}: {result.error_msg}")


__all__ = [
    "MAX_CONTINUOUS_ERROR", "LocalBuilder", "LocalRunner", "MeasureCallback", "MeasureErrorNo",
    "MeasureInput", "MeasureResult", "ProgramMeasurer", "PythonBasedMeasureCallback",
    "describe_input", "resolve_builder", "resolve_runner",
]  # fmt: skip
