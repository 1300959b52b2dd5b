"""Builders and runners: their results, errors, given data, and those of users."""

import concurrent.futures
import os
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import autotvm, nd, runtime, te
from tilewright.autotvm.measure import default_module_loader, executor
from tilewright.autotvm.measure.measure import Builder, MeasureErrorNo, Runner
from tilewright.base.errors import TilewrightError
from tilewright.contrib import cc
from tilewright.measure.result import Measurement
from tilewright.template.measure import OwnBatches, batches_of, trimmed
from tilewright.testing.autotvm import DummyRunner, get_sample_records, get_sample_task

QUICK: dict[str, Any] = {"number": 1, "repeat": 2, "cooldown_interval": 0}


@autotvm.template("tests/own/lookup")
def lookup(n: int) -> Any:
    """Reads at indices that data give, which may not be at random."""
    X, I = te.placeholder((n,), "int32", name="X"), te.placeholder((n,), "int32", name="I")
    Y = te.compute((n,), lambda i: X[I[i]], name="Y")
    s = te.create_schedule(Y.op)
    cfg = autotvm.get_config()
    cfg.define_knob("bad", [0, 1])
    if cfg["bad"].val:
        cfg.raise_error("this one is not to be built")
    return s, [X, I, Y]


@autotvm.template("tests/own/threads")
def threads(n: int) -> Any:
    """One block of n threads."""
    X = te.placeholder((n,), name="X")
    Y = te.compute((n,), lambda i: X[i] + 1.0, name="Y")
    s = te.create_schedule(Y.op)
    autotvm.get_config().define_knob("only", [0])
    s[Y].bind(s[Y].op.axis[0], te.thread_axis("threadIdx.x"))
    return s, [X, Y]


def inputs(*indices: int) -> list[Any]:
    task: Any = autotvm.task.create("tests/own/lookup", args=(8,), target="llvm")
    return [autotvm.MeasureInput(task.target, task, task.config_space.get(i)) for i in indices]


def test_what_is_built_and_run() -> None:
    good, bad = autotvm.LocalBuilder(timeout=60).build(inputs(0, 1))
    assert good.error is None and good.time_cost > 0
    assert good.arg_info == (((8,), "int32"),) * 3
    assert bad.error_no == MeasureErrorNo.INSTANTIATION_ERROR and "not to be built" in str(bad)
    index = np.array([1, 0], "int32").repeat(4)
    taken = np.zeros(8, "int32")
    given = [nd.array(a) for a in (np.arange(8, dtype="int32"), index, taken)]
    runtime.load_module(good.filename)["candidate"](*given)
    assert given[2].numpy().tolist() == index.tolist()
    runner = autotvm.LocalRunner(**QUICK)
    runner.ref_input = [np.arange(8, dtype="int32"), np.zeros(8, "int32"), np.zeros(8, "int32")]
    timed, failed = runner.run(inputs(0, 1), [good, bad])
    assert timed.error_no == 0 and len(timed.costs) == 2 and failed is bad


def test_the_least_and_the_largest_cost_are_left_out() -> None:
    (built,) = autotvm.LocalBuilder(timeout=60).build(inputs(0))
    for repeat, left in ((1, 1), (2, 2), (3, 1), (7, 5)):
        runner = autotvm.LocalRunner(**{**QUICK, "repeat": repeat})
        runner.ref_input = [np.zeros(8, "int32")] * 3
        (timed,) = runner.run(inputs(0), [built])
        assert timed.error_no == 0 and len(timed.costs) == left
    kept = trimmed(Measurement((3.0, 9.0, 1.0, 2.0, 4.0)))
    assert kept.costs == (2.0, 3.0, 4.0)
    task, _ = get_sample_task(8)
    option = autotvm.measure_option(autotvm.LocalBuilder(60), autotvm.LocalRunner(1, repeat=4))
    assert not option["runner"].timing.stop_early  # every candidate runs as often as was said
    assert autotvm.measure_option("local", "local")["runner"].timing.stop_early
    runner = autotvm.LocalRunner(**{**QUICK, "repeat": 7})
    with batches_of(task, autotvm.measure_option(autotvm.LocalBuilder(60), runner)) as batches:
        ((_, found),) = batches.measure([task.config_space.get(0)])
    assert found.ok and len(found.costs) == 5


def test_a_loader_of_ones_own_says_what_is_timed() -> None:
    """The session, the module and what is done before it is loaded are the loader's."""
    seen: list[Any] = []
    load = default_module_loader(lambda remote, built: seen.append((remote.listdir(), built)))

    @contextmanager
    def loader(remote_kwargs: dict[str, Any], build_result: Any) -> Any:
        seen.append(remote_kwargs)
        with load(remote_kwargs, build_result) as (remote, module):
            yield remote, module

    good, bad = autotvm.LocalBuilder(timeout=60).build(inputs(0, 1))
    runner = autotvm.LocalRunner(60, number=1, repeat=4, cooldown_interval=0, module_loader=loader)
    runner.ref_input = [np.zeros(8, "int32")] * 3
    timed, failed = runner.run(inputs(0, 1), [good, bad])
    assert timed.error_no == 0 and len(timed.costs) == 2 and failed is bad
    where, (names, built) = seen
    assert sorted(where) == ["device_key", "host", "port", "priority", "timeout"]
    assert names == [] and built is good
    broken = autotvm.LocalRunner(**QUICK, module_loader=lambda where, built: 1 / 0)
    (lost,) = broken.run(inputs(0), [good])
    assert lost.error_no == MeasureErrorNo.RUNTIME_DEVICE and "division by zero" in str(lost)
    task, _ = get_sample_task(8)
    option = autotvm.measure_option(autotvm.LocalBuilder(60), runner)
    assert isinstance(batches_of(task, option), OwnBatches)


def test_what_links_may_be_ones_own() -> None:
    linked: list[str] = []

    def link(output: str, objects: Any, **options: Any) -> None:
        linked.append(output)
        cc.create_shared(output, objects, **options)

    with pytest.raises(AttributeError, match="output_format"):
        autotvm.LocalBuilder(build_func=link)
    link.output_format = "so"  # type: ignore[attr-defined]
    builder = autotvm.LocalBuilder(timeout=60, build_func=link)
    (built,) = builder.build(inputs(0))
    assert linked == [built.filename] and built.filename.endswith(".so")
    task, _ = get_sample_task(8)
    option = autotvm.measure_option(builder, autotvm.LocalRunner(**QUICK))
    tuner = autotvm.tuner.GridSearchTuner(task)
    tuner.tune(n_trial=2, measure_option=option)
    assert len(linked) == 3 and tuner.best_flops > 0
    assert not os.path.exists(built.filename)  # the next build has taken its place


def test_candidates_for_another_cpu_are_linked_here() -> None:
    machines: list[int] = []

    def link(output: str, objects: Any, **options: Any) -> None:
        first = objects[0] if isinstance(objects, list) else objects
        machines.append(int.from_bytes(Path(first).read_bytes()[18:20], "little"))
        Path(output).write_bytes(b"linked")

    link.output_format = "so"  # type: ignore[attr-defined]
    target = "llvm -mtriple=aarch64-linux-gnu"
    task: Any = autotvm.task.create("tests/own/lookup", args=(8,), target=target)
    inp = autotvm.MeasureInput(task.target, task, task.config_space.get(0))
    (built,) = autotvm.LocalBuilder(timeout=60, build_func=link).build([inp])
    assert machines == [183] and Path(built.filename).read_bytes() == b"linked"  # EM_AARCH64


def test_what_builds_are_made_with() -> None:
    phases: list[str] = []

    def note(func: Any) -> Any:
        phases.append("lowered")
        return func

    options = {"tir.add_lower_pass": [(1, note)]}
    builder = autotvm.LocalBuilder(timeout=60, build_kwargs={"build_option": options})
    (built,) = builder.build(inputs(0))
    assert built.error is None and phases == ["lowered"]
    wide: Any = autotvm.task.create("tests/own/threads", args=(256,), target="cuda")
    limited = autotvm.LocalBuilder(build_kwargs={"check_gpu": {"max_threads_per_block": 128}})
    config: Any = wide.config_space.get(0)
    (refused,) = limited.build([autotvm.MeasureInput(wide.target, wide, config)])
    assert refused.error_no == MeasureErrorNo.INSTANTIATION_ERROR
    assert "invalid gpu kernel" in str(refused.costs[0])


def test_an_executor_of_ones_own_gets_the_given_data() -> None:
    class Own(executor.Executor):
        calls: list[Any] = []

        def submit(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            self.calls.append(kwargs["ref_input"])
            done: Any = concurrent.futures.Future()
            done.set_result("ran")
            return done

    runner: Any = autotvm.LocalRunner(**QUICK)
    runner.ref_input, runner.executor = [1, 2], Own()
    assert runner.run([None, None], [None, None]) == ["ran", "ran"]
    assert Own.calls == [[1, 2], [1, 2]]


def test_a_search_by_a_runner_of_ones_own_builds_and_does_not_run() -> None:
    class Refusing(Builder):
        def build(self, measure_inputs: Any) -> list[Any]:
            failed = autotvm.MeasureResult((ValueError("no"),), 2, 0.1, 1.0)
            return [failed for _ in measure_inputs]

    class Passing(Runner):
        asked: Any = None

        def set_task(self, task: Any) -> None:
            super().set_task(task)
            self.asked = task

        def get_build_kwargs(self) -> dict[str, Any]:
            return {"more": 1}

        def run(self, measure_inputs: Any, build_results: Any) -> list[Any]:
            return list(build_results)

    task, _ = get_sample_task(8)
    builder, runner = Refusing(build_kwargs={"own": 2}), Passing()
    option = autotvm.measure_option(builder=builder, runner=runner)
    tuner = autotvm.tuner.GridSearchTuner(task)
    tuner.tune(n_trial=3, measure_option=option)
    assert tuner.trials == 3 and tuner.best_config is None and tuner.best_flops == 0
    assert runner.asked is task and builder.build_kwargs == {"more": 1, "own": 2}
    batch = autotvm.create_measure_batch(task, option)
    (result,) = batch([autotvm.MeasureInput(task.target, task, task.config_space.get(0))])
    assert result.error_no == MeasureErrorNo.COMPILE_HOST
    assert isinstance(batches_of(task, option), OwnBatches)


def test_a_search_without_measurements() -> None:
    task, _ = get_sample_task(16)
    option = autotvm.measure_option(builder=autotvm.LocalBuilder(60), runner=DummyRunner())
    tuner = autotvm.tuner.RandomTuner(task, range_idx=(3, 6))
    assert (tuner.range_length, tuner.index_offset, tuner.counter) == (4, 3, 0)
    tuner.tune(n_trial=9, measure_option=option)
    assert tuner.counter == 4 and not tuner.has_next() and tuner.best_flops > 0
    assert tuner.visited == {3, 4, 5, 6}


def test_what_cannot_be_is_told() -> None:
    assert autotvm.RPCRunner("board", "::1", 9190).place.scheduler == "tcp://[::1]:9190"
    with pytest.raises(TilewrightError, match="priority is above 0"):
        autotvm.RPCRunner("board", "127.0.0.1", 9190, priority=0)
    with pytest.raises(TilewrightError, match="a Runner of your own, got 7"):
        autotvm.measure_option(builder="local", runner=7)
    with pytest.raises(TilewrightError, match="which tracker"):
        autotvm.measure.request_remote("board")
    with pytest.raises(RuntimeError, match="Cannot get remote devices from the tracker"):
        autotvm.RPCRunner("board", "127.0.0.1", 1).set_task(get_sample_task(4)[0])
    with pytest.raises(NotImplementedError, match="Runner has to define run"):
        Runner().run([], [])


def test_records_are_made_up_for_tests() -> None:
    records = get_sample_records(70)
    assert [r.costs for _, r in records[:2]] == [(1,), (2,)]
    assert records[64][0].config.index == 0 and len({id(i.task) for i, _ in records}) == 1
