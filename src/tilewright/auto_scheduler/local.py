"""Builder and runner as users name them: worker processes of this machine.

A search gives both to a ProgramMeasurer; `build` and `run` do the same for a few candidates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from ..base.errors import UsageError
from ..measure.files import CORES, FileBuilder
from ..measure.program import describe, tensors_as_data
from ..measure.protocol import Message
from ..measure.result import MeasureErrorNo, Measurement
from ..measure.runner import Measurer, Measures, Timing
from .measured import BuildResult, MeasureInput, MeasureResult
from .task_inputs import input_files
from .transform import apply_state

Local = TypeVar("Local")


class ProgramBuilder:
    """Base of what builds candidates."""

    def build(self, measure_inputs: Sequence[MeasureInput], verbose: int = 1) -> list[BuildResult]:
        """Build candidates; a result for each. `verbose`: above 0, failures are shown."""
        raise NotImplementedError(f"{type(self).__name__} has to define build")


class ProgramRunner:
    """Base of what times candidates."""

    def run(
        self,
        measure_inputs: Sequence[MeasureInput],
        build_results: Sequence[BuildResult],
        verbose: int = 1,
    ) -> list[MeasureResult]:
        """Time what was built; a result for each. `verbose`: above 0, failures are shown."""
        raise NotImplementedError(f"{type(self).__name__} has to define run")


class LocalBuilder(FileBuilder, ProgramBuilder):
    """Builds in worker processes of this machine, `n_parallel` at a time (None: one for each core),
    each candidate within `timeout` seconds. `build_func`: what links the files of `build`, see
    `FileBuilder`. Raises UsageError where build_func is neither "default", "ndk" nor a function."""

    def __init__(
        self,
        timeout: float = 15,
        n_parallel: int | None = CORES,
        build_func: str | Callable[..., Any] = "default",
    ) -> None:
        super().__init__(timeout, n_parallel, build_func)

    def build(self, measure_inputs: Sequence[MeasureInput], verbose: int = 1) -> list[BuildResult]:
        """Build candidates in workers; a result for each. `verbose`: above 0, failures are
        shown."""
        self.clear()
        results = []
        made = self.files([describe_input(item) for item in measure_inputs])
        for item, (path, found) in zip(measure_inputs, made):
            _show(found, verbose)
            args = item.task.compute_dag.tensors
            results.append(
                BuildResult(path, args, int(found.error_no), found.message, found.seconds)
            )
        return results


class LocalRunner(ProgramRunner):
    """Times candidates on this machine, one at a time, all runs of one within `timeout` seconds.

    `repeat` repetitions of `number` runs, or of as many as take `min_repeat_ms`: a cost each.
    `cooldown_interval`: seconds of rest between candidates. `enable_cpu_cache_flush`: start each
    repetition with cold caches. `device`: which device of the target's kind.

    `adaptive`: a candidate that may be the best is given `repeat` times `min_repeat_ms` of runs, in
    short repetitions, the faster half of which counts; one that is slower gets as few as show it.
    That is what "local" stands for where a builder and a runner are asked for. `check_correctness`:
    compare results with what the tensors say, by the interpreter; for small shapes. `in_network`:
    on CPUs, time each run with the caches as a network leaves them: inputs of free layout come from
    memory, others from what another kernel wrote; such runs are adaptive.
    """

    __slots__ = ("in_network", "timing")
    is_adaptive = False  # unless it is said

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
        adaptive: bool | None = None,
        in_network: bool = False,
    ) -> None:
        self.in_network = bool(in_network)
        if adaptive is None:
            adaptive = self.is_adaptive or self.in_network
        adaptive = bool(adaptive) and min_repeat_ms > 0
        self.timing = Timing.of_runner(
            timeout,
            number,
            repeat,
            min_repeat_ms,
            cooldown_interval,
            enable_cpu_cache_flush,
            check=bool(check_correctness),
            adaptive=adaptive,
            stop_early=adaptive,
            device=int(device),
        )

    def measurer(self, timing: Timing) -> Measures:
        """What builds and times candidates for a search."""
        return Measurer(timing)

    def run(
        self,
        measure_inputs: Sequence[MeasureInput],
        build_results: Sequence[BuildResult],
        verbose: int = 1,
    ) -> list[MeasureResult]:
        """Time what `LocalBuilder.build` has built, in a worker; a result for each, which for what
        could not be built says so. `verbose`: above 0, failures are shown. Raises UsageError where
        build_results are not as many as measure_inputs."""
        if len(measure_inputs) != len(build_results):
            raise UsageError(f"{len(build_results)} builds of {len(measure_inputs)} inputs")
        results: dict[int, MeasureResult] = {}
        able = []
        for n, built in enumerate(build_results):
            if built.error_no:
                error = (int(built.error_no), built.error_msg)
                results[n] = MeasureResult((), *error, built.time_cost, time.time())
            else:
                able.append(n)
        programs = [self._program(measure_inputs[n], build_results[n]) for n in able]
        with self.measurer(self.timing) as measurer:
            for n, found in measurer.measure(programs):
                _show(found, verbose)
                results[able[n]] = MeasureResult.of(found)
        return [results[n] for n in range(len(build_results))]

    def _program(self, item: MeasureInput, built: BuildResult) -> Message:
        described = describe_input(item, self.timing.check, self.in_network)
        return {**described, "library": built.filename}


def _show(found: Measurement, verbose: int) -> None:
    if found.error_no and verbose >= 1:
        print(f"{MeasureErrorNo(found.error_no).name}: {found.message}")


@dataclass(eq=False)
class RPCArguments:
    """What both classes take that TVM has for trackers, with TVM's defaults; `priority` and
    `n_parallel` are the tracker's, the rest is as for LocalRunner."""

    priority: int = 1
    n_parallel: int = 1
    timeout: float = 10
    number: int = 3
    repeat: int = 1
    min_repeat_ms: float = 0
    cooldown_interval: float = 0.0
    enable_cpu_cache_flush: bool = False
    device: int = 0

    def of_runner(self) -> dict[str, Any]:
        """The arguments that LocalRunner takes."""
        names = [f.name for f in fields(RPCArguments)]
        return {n: getattr(self, n) for n in names if n not in ("priority", "n_parallel")}


def resolve_builder(given: Any) -> LocalBuilder:
    """The builder that users name: "local" is the default one. Raises UsageError where the builder
    or runner is neither 'local' nor one of that kind."""
    return _resolve(given, LocalBuilder, "builder")


def resolve_runner(given: Any) -> LocalRunner:
    """The runner that users name: "local" is an adaptive LocalRunner. Raises UsageError where the
    builder or runner is neither 'local' nor one of that kind."""
    return _resolve(given, LocalRunner, "runner", adaptive=True)


def _resolve(given: Any, local: type[Local], what: str, **how: Any) -> Local:
    if given == "local" or given is None:
        return local(**how)
    if not isinstance(given, local):
        raise UsageError(f'the {what} is "local" or a {local.__name__}, got {given!r}')
    return given


def describe_input(item: MeasureInput, check: bool = False, in_network: bool = False) -> Message:
    """A candidate as the workers take it; `check`: with what its results are compared to;
    `in_network`: with which arguments are constants, which a network reads from memory."""
    task = item.task
    sch, args, rearranged = apply_state(item.state, int(task.layout_rewrite_option or 0))
    program = describe(sch, args, task.target)
    if task.task_input_names:
        moved = {str(r.index) for r in rearranged}
        files = input_files(task)
        program["inputs"] = {place: files[place] for place in files.keys() - moved}
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
