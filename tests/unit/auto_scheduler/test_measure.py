"""Measuring states: what the workers are given, who is told what when, and when it is given up."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tilewright import te
from tilewright.auto_scheduler import measure as M
from tilewright.auto_scheduler.dag import ComputeDAG
from tilewright.auto_scheduler.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureCallback,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    ProgramMeasurer,
    describe_input,
    resolve_builder,
    resolve_runner,
)
from tilewright.auto_scheduler.state import State
from tilewright.auto_scheduler.task import SearchTask
from tilewright.base.errors import TilewrightError
from tilewright.measure.program import construct
from tilewright.measure.result import Measurement

QUICK = LocalRunner(timeout=60, min_repeat_ms=2)


def matmul(n: int = 16, free: bool = False) -> SearchTask:
    A, B = (te.placeholder((n, n), name=x) for x in "AB")
    k = te.reduce_axis((0, n), "k")
    attrs = {"layout_free_placeholders": [B]} if free else {}
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C", attrs=attrs)
    return SearchTask(compute_dag=ComputeDAG([A, B, C]), target="llvm",
                      layout_rewrite_option=2 if free else 0)  # fmt: skip


def tiled(task: SearchTask, factor: int) -> MeasureInput:
    state = State.from_rows(
        task.compute_dag,
        (("SP", 2, 0, 16, (factor,), 1), ("SP", 2, 2, 16, (4,), 1), ("RE", 2, (0, 2, 4, 1, 3))),
    )
    return MeasureInput(task, state)


class Told(MeasureCallback):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, MeasureInput, MeasureResult]] = []

    def callback(self, policy: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        assert len(inputs) == len(results) == 1
        self.calls.append((policy, inputs[0], results[0]))


def test_states_are_measured_and_callbacks_told_of_each() -> None:
    task, told = matmul(), Told()
    inputs = [tiled(task, f) for f in (2, 4, 8)]
    with ProgramMeasurer(LocalBuilder(60), QUICK, [told], 0) as measurer:
        results = measurer.measure(task, "policy", inputs)
    assert [r.error_no for r in results] == [0, 0, 0]
    assert {c[0] for c in told.calls} == {"policy"}
    assert [(id(i), r) for _, i, r in told.calls] == [(id(i), r) for i, r in zip(inputs, results)]
    key = task.workload_key
    assert measurer.ct == 3 and measurer.error_ct == 0
    assert measurer.best_cost[key] == min(r.cost for r in results)
    best = min(range(3), key=lambda n: results[n].cost)
    assert measurer.best_state[key] is inputs[best].state and measurer.best_ct[key] == best + 1
    assert measurer.best_flops[key] == 2 * 16**3 / results[best].cost
    measurer.reset()
    assert not measurer.ct and not measurer.best_cost


def test_a_runner_gives_as_many_costs_as_repetitions_were_asked_for() -> None:
    """Of the fastest candidate and of the slowest, in a search and by itself."""
    task = matmul()
    runner = LocalRunner(timeout=60, number=2, repeat=5, min_repeat_ms=1)
    inputs = [tiled(task, f) for f in (8, 2)]
    with ProgramMeasurer(LocalBuilder(60), runner, [], 0) as measurer:
        assert [len(r.costs) for r in measurer.measure(task, None, inputs)] == [5, 5]
    built = LocalBuilder(60).build(inputs)
    assert [len(r.costs) for r in runner.run(inputs, built)] == [5, 5]


def test_what_does_not_fit_costs_that_candidate_alone() -> None:
    class Broken:
        rows = ()

        @property
        def open(self) -> Any:
            raise ZeroDivisionError("deep inside")

    task, told = matmul(), Told()
    inputs = [tiled(task, 2), MeasureInput(task, Broken()), tiled(task, 4)]
    with ProgramMeasurer(LocalBuilder(60), QUICK, [told], 0) as measurer:
        results = measurer.measure(task, None, inputs)
    assert [r.error_no for r in results] == [0, MeasureErrorNo.INSTANTIATION_ERROR, 0]
    assert results[1].error_msg == "ZeroDivisionError: deep inside"
    assert results[1].cost == float("inf") and results[1].costs == ()
    assert len(told.calls) == 3


def test_candidates_built_ahead_are_measured_like_others() -> None:
    task = matmul()
    inputs = [tiled(task, f) for f in (2, 4, 8)]
    with ProgramMeasurer(LocalBuilder(60, n_parallel=1), QUICK, [], 0) as measurer:
        measurer.warm()
        assert measurer.ahead() == 0
        measurer.begin(task, None, inputs[:2])
        assert [r.error_no for r in measurer.measure(task, None, inputs[1:])] == [0, 0]
        assert [r.error_no for r in measurer.measure(task, None, inputs[:1])] == [0]
        measurer.begin(task, None, inputs)
        measurer.drop(inputs[1:])
        assert [r.error_no for r in measurer.measure(task, None, [inputs[0], *inputs])] == [0] * 4
        assert not measurer._begun and not measurer._tickets


def test_an_error_of_a_callback_ends_the_round_and_not_the_measurer() -> None:
    class Full(MeasureCallback):
        def callback(self, *_: Any) -> None:
            raise TilewrightError("no space left")

    task = matmul()
    with ProgramMeasurer(LocalBuilder(60), QUICK, [Full()], 0) as measurer:
        with pytest.raises(TilewrightError, match="no space"):
            measurer.measure(task, None, [tiled(task, 2), tiled(task, 4)])
        measurer.callbacks = []
        assert measurer.measure(task, None, [tiled(task, 8)])[0].ok


@pytest.mark.parametrize("factor", [2, 4])
def test_layouts_that_were_rewritten_are_checked_against_the_task(factor: int) -> None:
    task = matmul(free=True)
    item = tiled(task, factor)
    program = describe_input(item, check=True)
    assert "reference" in program and "reference" not in describe_input(item)
    with ProgramMeasurer(LocalBuilder(60), LocalRunner(60, check_correctness=True), [], 0) as m:
        (result,) = m.measure(task, None, [item])
    assert result.error_no == 0, result.error_msg
    (moved,) = task.rearranged(item.state)
    a, b = (np.random.default_rng(s).random((16, 16), "float32") for s in range(2))
    out = np.zeros((16, 16), "float32")
    construct(program)(a, moved.apply(b), out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)


class Failing:
    """Workers whose candidates all fail."""

    def submit(self, program: Any) -> int:
        return id(program)

    def run(self, tickets: Sequence[int], best: Any) -> Any:
        for ticket in tickets:
            yield ticket, Measurement((), MeasureErrorNo.COMPILE_HOST, "no compiler at all", 0.5)

    def start(self, tickets: Sequence[int], best: Any) -> None:
        pass

    def forget(self, tickets: Any) -> None:
        pass


def failing(monkeypatch: pytest.MonkeyPatch, verbose: int) -> ProgramMeasurer:
    programs = iter(range(1000))
    monkeypatch.setattr(M, "describe_input", lambda *_: {"id": next(programs)})
    measurer = ProgramMeasurer(verbose=verbose, max_continuous_error=10)
    kept: list[Any] = []
    stand_in = Failing()
    stand_in.submit = lambda program: kept.append(program) or len(kept)  # type: ignore
    measurer._measurer = stand_in  # type: ignore[assignment]
    return measurer


def test_many_failures_are_shown_and_then_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = matmul()
    measurer = failing(monkeypatch, 1)
    items = [MeasureInput(task, None) for _ in range(9)]
    measurer.measure(task, None, items)
    assert capsys.readouterr().out == ""
    with pytest.raises(TilewrightError, match=r"20 candidates in a row .* no compiler at all"):
        for _ in range(2):
            measurer.measure(task, None, items)
    shown = capsys.readouterr().out
    assert "Too many errors happened during tuning: 10 in a row" in shown
    assert shown.count("COMPILE_HOST: no compiler at all") == 10
    assert measurer.ct == 20


def test_quiet_measurers_say_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = matmul()
    measurer = failing(monkeypatch, 0)
    measurer.measure(task, None, [MeasureInput(task, None) for _ in range(15)])
    assert capsys.readouterr().out == ""


def test_settings_are_those_that_users_know() -> None:
    timing = ProgramMeasurer(LocalBuilder(5, n_parallel=3), LocalRunner()).timing
    assert (timing.build_timeout, timing.run_timeout, timing.n_parallel) == (5, 10, 3)
    assert (timing.number, timing.repeat, timing.min_repeat_ms) == (3, 1, 100)
    assert not (timing.adaptive or timing.stop_early or timing.flush_bytes or timing.check)
    fixed = LocalRunner(number=7, repeat=2, min_repeat_ms=0).timing
    assert not fixed.adaptive and (fixed.number, fixed.repeat) == (7, 2)
    cold = LocalRunner(enable_cpu_cache_flush=True).timing
    assert cold.flush_bytes and (cold.number, cold.min_repeat_ms) == (3, 100)
    assert not cold.adaptive and not cold.stop_early  # as often as was said
    assert resolve_runner("local").timing.adaptive and resolve_runner(None).timing.stop_early
    assert LocalRunner(in_network=True).timing.adaptive
    assert resolve_builder("local").timeout == 15 and resolve_runner(None).timing.run_timeout == 10
    with pytest.raises(TilewrightError, match="build_func"):
        LocalBuilder(build_func="make")
    with pytest.raises(TilewrightError, match='"local" or a LocalBuilder'):
        resolve_builder("remote")
    with pytest.raises(TilewrightError, match='"local" or a LocalRunner'):
        resolve_runner(7)
    with pytest.raises(TilewrightError, match="at least 1"):
        LocalRunner(repeat=0)


def test_results_say_how_far_they_can_be_trusted() -> None:
    result = MeasureResult.of(Measurement((1.0, 1.25, 1.5), seconds=2.0, timestamp=time.time()))
    assert result.ok and result.cost == 1.25 and result.noise == pytest.approx(0.4)
    bad = MeasureResult.of(Measurement((), MeasureErrorNo.RUN_TIMEOUT, "x" * 10000))
    assert not bad.ok and bad.noise == 0.0 and len(bad.error_msg) == 2000
    assert bad.measurement.error_no == MeasureErrorNo.RUN_TIMEOUT
