"""Kernels that other processes make are those that this one makes."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs onnx")

from onnx import TensorProto, helper, numpy_helper

import tilewright
from tilewright import graph
from tilewright.base import config
from tilewright.base.errors import CompileError
from tilewright.graph import build, compile_kernels, kernel, team
from tilewright.graph.helper import as_data, of_data
from tilewright.graph.passes.fuse import Group
from tilewright.graph.tuned import Tuned
from tilewright.measure.process import WorkerProcess
from tilewright.rt.plan import symbol_of
from tilewright.target.target import Target

TARGET = Target("llvm -mcpu=x86-64-v3")


def network(*, batch: Any = 1) -> graph.Graph:
    """Convolutions of several sizes, pooling that pads with -inf, and a dense layer."""
    rng = np.random.default_rng(2)
    sizes = {"a": (8, 3, 3, 3), "b": (16, 8, 1, 1), "c": (5, 16)}
    weights = [
        numpy_helper.from_array(rng.standard_normal(s, np.float32), n) for n, s in sizes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["u"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["u"], ["v"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["v", "b"], ["w"]),
        helper.make_node("GlobalAveragePool", ["w"], ["p"]),
        helper.make_node("Flatten", ["p"], ["q"]),
        helper.make_node("Gemm", ["q", "c"], ["y"], transB=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 12, 12])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 5])
    made = helper.make_graph(nodes, "parts", [x], [y], weights)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return graph.load_onnx(model.SerializeToString(), symbolic=isinstance(batch, str))


def kernels_of(net: graph.Graph) -> tuple[list[Group], list[Tuned | None]]:
    _, groups = build.prepare(net, TARGET)
    distinct, _ = build.distinct_groups(groups)
    return distinct, build.find_schedules(distinct, TARGET, None)


def objects(groups: list[Group], tuned: list[Tuned | None]) -> list[bytes]:
    return [
        kernel.make_kernel(g, TARGET, symbol_of(k), t, "")
        for k, (g, t) in enumerate(zip(groups, tuned))
    ]


def jobs_of(groups: list[Group], tuned: list[Tuned | None]) -> list[team.Job]:
    return [
        team.Job(symbol_of(k), g, t, kernel.cache_key(g, TARGET, symbol_of(k), t))
        for k, (g, t) in enumerate(zip(groups, tuned))
    ]


@pytest.fixture(autouse=True)
def no_cache() -> Any:
    config.set_option("cache", False)
    yield
    config.set_option("cache", None)


@pytest.fixture
def helped(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Any two kernels are worth a helper."""
    monkeypatch.setattr(team, "WORTH", 2)
    config.set_option("compile_processes", 2)
    yield
    config.set_option("compile_processes", None)


def test_recorded_schedules_travel_as_their_steps() -> None:
    groups, tuned = kernels_of(network())
    k = next(k for k, t in enumerate(tuned) if t is not None)
    default = tuned[k]
    assert default is not None
    recorded = Tuned(default.steps, default.schedule, default.args, default.rearranged)
    data = as_data(groups[k], recorded)
    assert data is not None and data["steps"] == default.steps
    group, back = of_data(data, TARGET)
    assert back is not None and back.recorded and back.steps == recorded.steps
    assert objects([group], [back]) == objects([groups[k]], [recorded])


@pytest.mark.parametrize("batch", [1, "n"])
def test_kernels_travel_as_data(batch: Any) -> None:
    groups, tuned = kernels_of(network(batch=batch))
    expected = objects(groups, tuned)
    again = []
    for group, how in zip(groups, tuned):
        data = as_data(group, how)
        assert data is not None
        again.append(of_data(json.loads(json.dumps(data)), TARGET))
    assert objects(*map(list, zip(*again))) == expected
    assert any(t is not None for t in tuned)  # a weight in panels among them


def test_what_is_no_data_stays_here() -> None:
    groups, _ = kernels_of(network())
    groups[0].nodes[0].attrs["more"] = object()
    assert as_data(groups[0], None) is None
    assert as_data(groups[1], None) is not None


def test_a_helper_makes_the_same(helped: None) -> None:
    groups, tuned = kernels_of(network())
    expected = objects(groups, tuned)
    jobs = jobs_of(groups, tuned)
    with team.Team(TARGET) as all_of_us:
        all_of_us.give(jobs)
        deadline = time.monotonic() + 120
        while all_of_us.left or all_of_us.taken:  # this thread makes none
            assert time.monotonic() < deadline and not any(j.here for j in jobs)
            time.sleep(0.01)
        assert sorted(j.symbol for j in all_of_us.rest()) == sorted(j.symbol for j in jobs)
    assert [j.obj for j in jobs] == expected


@pytest.mark.parametrize("how", ["it does not start", "it dies", "it cannot"])
def test_what_helpers_leave_is_made_here(
    helped: None, how: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tw_dies.py").write_text(
        "from tilewright.measure.serve import serve\n"
        "serve(lambda r: {'op': 'set'} if r['op'] == 'set' else 1 // 0)\n"
    )
    (tmp_path / "tw_cannot.py").write_text(
        "from tilewright.measure.serve import serve\n"
        "serve(lambda r: {'op': r['op']} if r['op'] == 'set' else {'op': 1, 'error': 'no'})\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    module = {"it does not start": "tw_none", "it dies": "tw_dies", "it cannot": "tw_cannot"}[how]
    monkeypatch.setattr(team, "WorkerProcess", lambda **_: WorkerProcess(module=module))
    groups, tuned = kernels_of(network())
    jobs = jobs_of(groups, tuned)
    with team.Team(TARGET) as all_of_us:
        all_of_us.give(jobs)
        (thread,) = all_of_us.threads
        if how == "it cannot":  # it has had each of them
            deadline = time.monotonic() + 60
            while not all(j.here for j in jobs) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert all(j.here for j in jobs)
        else:
            thread.join(60)
            assert not thread.is_alive()
        while (job := all_of_us.next()) is not None:
            all_of_us.finished(
                job, kernel.make_kernel(job.group, TARGET, job.symbol, job.tuned, "")
            )
    assert [j.obj for j in jobs] == objects(groups, tuned)


def test_progress_and_errors_are_those_of_one_process(
    helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, tuned = kernels_of(network())
    seen: list[tuple[int, int]] = []
    with team.Team(TARGET) as all_of_us:
        made = compile_kernels.compile_kernels(
            groups, tuned, all_of_us, lambda done, total, _: seen.append((done, total))
        )
    assert seen == [(k + 1, len(groups)) for k in range(len(groups))]
    assert [k.title for k in made] == [g.name for g in groups]

    def fail(*_: Any) -> bytes:
        raise CompileError("no such kernel")

    monkeypatch.setattr(compile_kernels, "make_kernel", fail)
    with pytest.raises(CompileError, match="no such kernel"), team.Team(TARGET) as all_of_us:
        compile_kernels.compile_kernels(groups, tuned, all_of_us)


def test_helpers_only_where_they_find_what_is_here(helped: None, tmp_path: Path) -> None:
    def count(kernels: int = 40) -> int:
        return team.helpers(kernels, TARGET)

    assert count() == 1 and count(1) == 0
    with tilewright.transform.PassContext(config={"tir.add_lower_pass": [(1, lambda f: f)]}):
        assert count() == 0
    config.set_option("dump_dir", tmp_path)
    assert count() == 0
    config.set_option("dump_dir", None)
    assert team._is_python("/usr/bin/python3.12")
    assert not team._is_python("/opt/editor/editor")
    assert not team._is_python(None)


def test_helpers_start_before_the_passes_unless_the_network_was_compiled(
    helped: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = []

    def start(**how: Any) -> WorkerProcess:
        started.append(bool(passed))
        return WorkerProcess(**how)

    passed: list[Any] = []
    prepare = build.prepare
    monkeypatch.setattr(team, "WorkerProcess", start)

    def prepared(*args: Any) -> Any:
        for thread in threading.enumerate():  # one that starts ahead has begun
            if thread.name == "compile":
                while not started:
                    time.sleep(0.001)
        passed.append(args)
        return prepare(*args)

    monkeypatch.setattr(build, "prepare", prepared)
    net, data = network(), np.ones((1, 3, 12, 12), np.float32)
    expected = graph.compile(net, TARGET).run({"x": data})["y"]
    assert started == [False]
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    config.set_option("cache", True)
    for round_ in range(2):  # the second finds all kernels
        started.clear()
        passed.clear()
        y = graph.compile(net, TARGET).run({"x": data})["y"]
        assert started == ([False] if round_ == 0 else [])
        np.testing.assert_array_equal(y, expected)


def test_a_helper_that_was_not_needed_ends(helped: None) -> None:
    with team.Team(TARGET) as all_of_us:
        all_of_us.expect(network())
        (thread,) = all_of_us.threads
        all_of_us.give([])
        assert all_of_us.next() is None
    assert not thread.is_alive() and not all_of_us.processes


def test_helpers_end_where_a_pass_fails(helped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise CompileError("no such pass")

    monkeypatch.setattr(build, "prepare", fail)
    with pytest.raises(CompileError, match="no such pass"):
        graph.compile(network(), TARGET)
    assert not [t for t in threading.enumerate() if t.name == "compile"]


def test_what_is_given_at_last_has_its_helpers(helped: None) -> None:
    """Where fewer were expected."""
    groups, tuned = kernels_of(network())
    with team.Team(TARGET) as all_of_us:
        all_of_us.give(jobs_of(groups, tuned))
        assert len(all_of_us.threads) == 1
        while (job := all_of_us.next()) is not None:
            all_of_us.finished(
                job, kernel.make_kernel(job.group, TARGET, job.symbol, job.tuned, "")
            )


def test_kernels_under_passes_of_the_user_are_not_those_of_the_cache(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    net, seen = network(), []

    def watch(func: Any, *_: Any) -> Any:
        seen.append(func)
        return func

    graph.compile(net, TARGET)
    with tilewright.transform.PassContext(config={"tir.add_lower_pass": [(1, watch)]}):
        graph.compile(net, TARGET)
        first = len(seen)
        graph.compile(net, TARGET)
    assert first and len(seen) == 2 * first
