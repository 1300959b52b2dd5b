"""Measuring batches of candidates by the worker processes of `tilewright.measure`.

Also the home of the names of `auto_scheduler.measure`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..base.closing import Closing
from ..base.errors import TilewrightError
from ..measure.protocol import Message
from ..measure.result import MeasureErrorNo, Measurement, not_described
from .fleet import LocalRPCMeasureContext as LocalRPCMeasureContext
from .fleet import RPCRunner as RPCRunner
from .local import (
    LocalBuilder,
    LocalRunner,
    ProgramBuilder,
    ProgramRunner,
    describe_input,
    resolve_builder,
    resolve_runner,
)
from .measured import (
    BuildResult,
    MeasureCallback,
    MeasureInput,
    MeasureResult,
    PythonBasedMeasureCallback,
)
from .task_inputs import (
    TASK_INPUT_CHECK_FUNC_REGISTRY,
    prepare_input_map,
    register_task_input_check_func,
)

MAX_CONTINUOUS_ERROR = 150
"""After so many failures without a success between them every failure is shown, after twice as many
the search is given up."""

MAX_FLOAT = 1e10
"""Stands in records where a cost would, after an error."""


@dataclass
class _Candidate:
    """What is measured for a policy: its ticket once it is submitted, its result once it is in."""

    policy: Any
    item: MeasureInput
    ticket: int = -1
    result: MeasureResult | None = None


class ProgramMeasurer(Closing):
    """Measures batches of candidates in workers that it keeps; a context manager that ends them.

    `callbacks`: MeasureCallbacks, told of each measurement before the next begins. `verbose`: 2
    shows each failure. Per workload key, `best_cost` (seconds), `best_flops` (operations a second)
    and `best_state`; `ct` measurements in all, `error_ct` failures since the last success. Raises
    UsageError where the builder or runner is neither 'local' nor one of that kind.
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
        self._files = build if build.fcompile else None
        self.callbacks = list(callbacks or ())
        self.verbose = verbose
        self.max_continuous_error = max_continuous_error
        self._in_network = run.in_network
        self._measurer = run.measurer(self.timing)
        self._begun: dict[int, list[_Candidate]] = {}  # by the id of their inputs
        self._tickets: dict[int, _Candidate] = {}
        self.reset()

    def reset(self) -> None:
        """Forget what was found."""
        self.ct = self.error_ct = 0
        self.best_cost: dict[str, float] = {}
        self.best_flops: dict[str, float] = {}
        self.best_state: dict[str, Any] = {}
        self.best_ct: dict[str, int] = {}
        self._best: dict[str, Measurement] = {}

    def close(self) -> None:
        """End the workers."""
        self._begun.clear()
        self._tickets.clear()
        self._measurer.close()

    def warm(self) -> None:
        """Start the workers, which need most of a second, while the search begins."""
        self._measurer.warm()

    def ahead(self) -> int:
        """How many candidates are best out while more of them are found: none on one machine, where
        nothing else runs while a candidate is timed."""
        return self._measurer.ahead()

    def begin(self, task: Any, policy: Any, inputs: Sequence[MeasureInput]) -> None:
        """Have candidates built, and where others measure, measured, while the search goes on; a
        later `measure` of these very objects has their results."""
        begun = [_Candidate(policy, item) for item in inputs]
        self._start(task, begun)
        for one in begun:
            self._begun.setdefault(id(one.item), []).append(one)

    def measure(
        self, task: Any, policy: Any, inputs: Sequence[MeasureInput]
    ) -> list[MeasureResult]:
        """Build all, then time one after the other; results in the order of `inputs`.

        Callbacks hear of each as it is done, and of others that were begun. TilewrightError when
        nothing but failures came for twice `max_continuous_error` candidates.
        """
        known = [self._take(item) for item in inputs]
        found = [one or _Candidate(policy, item) for one, item in zip(known, inputs)]
        self._start(task, [one for one, old in zip(found, known) if old is None])
        try:
            tickets = [one.ticket for one in found if one.result is None]
            for ticket, result in self._measurer.run(tickets, self._best.get(task.workload_key)):
                self._finish(self._tickets.pop(ticket), result)
        except BaseException:
            self._forget(found)
            raise
        return [one.result for one in found if one.result is not None]

    def first_done(self, rounds: Sequence[Sequence[MeasureInput]]) -> int:
        """The place of the first of these rounds, which all were begun, whose results are all in;
        waits until there is one. Callbacks hear of results as they come."""
        while True:
            for place, inputs in enumerate(rounds):
                if not self._left(inputs):
                    return place
            self._take_in(wait=True)

    def left(self, rounds: Sequence[Sequence[MeasureInput]]) -> int:
        """How many candidates of these rounds, which all were begun, are not measured yet."""
        while self._tickets and self._take_in(wait=False):
            pass
        return sum(map(self._left, rounds))

    def _left(self, inputs: Sequence[MeasureInput]) -> int:
        return sum(self._begun[id(item)][0].result is None for item in inputs)

    def _take_in(self, wait: bool) -> bool:
        """Count the next result, if there is one."""
        done = self._measurer.take(wait)
        if done is not None:
            self._finish(self._tickets.pop(done[0]), done[1])
        return done is not None

    def drop(self, inputs: Iterable[MeasureInput]) -> None:
        """Give up candidates that were begun."""
        self._forget([one for item in inputs if (one := self._take(item)) is not None])

    def _take(self, item: MeasureInput) -> _Candidate | None:
        begun = self._begun.get(id(item), [])
        one = begun.pop(0) if begun else None
        if not begun:
            self._begun.pop(id(item), None)
        return one

    def _start(self, task: Any, candidates: Sequence[_Candidate]) -> None:
        """Submit candidates, and begin to time them where others do that; those of which there is
        no program have failed."""
        try:
            failed = []
            for one in candidates:
                program = self._describe(one.item)
                if isinstance(program, Measurement):
                    failed.append((one, program))
                else:
                    one.ticket = self._measurer.submit(program)
                    self._tickets[one.ticket] = one
            tickets = [one.ticket for one in candidates if one.ticket >= 0]
            self._measurer.start(tickets, self._best.get(task.workload_key))
            for one, found in failed:
                self._finish(one, found)
        except BaseException:
            self._forget(candidates)
            raise

    def _forget(self, candidates: Iterable[_Candidate]) -> None:
        tickets = [one.ticket for one in candidates if one.ticket in self._tickets]
        for ticket in tickets:
            del self._tickets[ticket]
        self._measurer.forget(tickets)

    def _describe(self, item: MeasureInput) -> Message | Measurement:
        start = time.perf_counter()
        try:
            program = describe_input(item, self.timing.check, self._in_network)
            if self._files is None:
                return program
            ((path, found),) = self._files.files([program])
            return found if found.error_no else {**program, "library": path}
        except Exception as error:  # whatever a state does costs that candidate alone
            return not_described(error, time.perf_counter() - start)

    def _finish(self, one: _Candidate, found: Measurement) -> None:
        """Count a measurement and tell the callbacks."""
        one.result = result = MeasureResult.of(found)
        self.ct += 1
        if found.ok:
            self.error_ct = 0
            self._keep_best(one.item, found)
        else:
            self.error_ct += 1
        for callback in self.callbacks:
            callback.callback(one.policy, [one.item], [result])
        if not found.ok:
            self._watch_errors(result)

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
    "MAX_CONTINUOUS_ERROR", "MAX_FLOAT", "TASK_INPUT_CHECK_FUNC_REGISTRY", "BuildResult",
    "LocalBuilder", "LocalRPCMeasureContext", "LocalRunner", "MeasureCallback", "MeasureErrorNo",
    "MeasureInput", "MeasureResult", "ProgramBuilder", "ProgramMeasurer", "ProgramRunner",
    "PythonBasedMeasureCallback", "RPCRunner", "describe_input", "prepare_input_map",
    "register_task_input_check_func", "resolve_builder", "resolve_runner",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "recover_measure_input":  # which needs tasks, and these measure
        from .recover import recover_measure_input

        return recover_measure_input
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
