"""ApplyHistoryBest: which steps it gives for a workload."""

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.auto_scheduler import (
    ApplyHistoryBest,
    ApplyHistoryBestOrSample,
    ComputeDAG,
    SearchTask,
    load_record_from_string,
    save_records,
)
from tilewright.auto_scheduler.dispatcher import DispatchContext, FallbackContext
from tilewright.base.errors import TilewrightError
from tilewright.testing.auto_scheduler import matmul_auto_scheduler_test

CONV = json.dumps(["conv2d", 1, 64])


def pair(
    cost: float, key: str = CONV, target: str = "llvm", factor: int = 4, error: int = 0
) -> Any:
    task = [key, target, [2, 64, 64, 0, 0, 0, 0, 0], "", 0, []]
    steps = [["SP", 2, 0, 64, [factor], 1]]
    costs = [1e10] if error else [cost]
    line = {"i": [task, [[], steps]], "r": [costs, error, 0.1, 1], "v": "v0.6"}
    return load_record_from_string(json.dumps(line))


def factor_of(rows: Any) -> int:
    return int(rows[0][4][0])


def test_the_fastest_counts_and_failures_do_not() -> None:
    found = ApplyHistoryBest(
        [pair(2e-3, factor=2), pair(1e-3, factor=8), pair(0, factor=16, error=4)]
    )
    assert factor_of(found.steps("llvm", CONV)) == 8 and len(found) == 1
    assert found.steps("llvm", json.dumps(["conv2d", 1, 32])) is None


def test_files_add_up(tmp_path: Path) -> None:
    for name, cost, factor in (("a.db", 2e-3, 2), ("b.json", 1e-3, 8)):
        item, result = pair(cost, factor=factor)
        save_records(tmp_path / name, [item], [result])
    assert factor_of(ApplyHistoryBest(tmp_path / "a.db").steps("llvm", CONV)) == 2
    both = ApplyHistoryBest([tmp_path / "a.db", tmp_path / "b.json"])
    assert factor_of(both.steps("llvm", CONV)) == 8
    both.load([pair(1e-4, factor=32)])
    assert factor_of(both.steps("llvm", CONV)) == 32


def test_only_the_first_lines_count(tmp_path: Path) -> None:
    pairs = [pair(2e-3, factor=2), pair(1e-3, factor=8)]
    assert factor_of(ApplyHistoryBest(pairs, n_lines=1).steps("llvm", CONV)) == 2


def test_the_same_target_comes_first_then_those_of_its_kind() -> None:
    pairs = [pair(1e-3, target="llvm -mcpu=skylake", factor=8), pair(2e-3, factor=2)]
    found = ApplyHistoryBest(pairs)
    assert factor_of(found.steps("llvm", CONV)) == 2
    assert factor_of(found.steps("llvm -mcpu=skylake", CONV)) == 8
    assert factor_of(found.steps("llvm -mcpu=znver3", CONV)) == 8
    assert found.steps("cuda", CONV) is None


def test_compatible_workloads_serve_if_asked() -> None:
    pairs = [pair(1e-3, factor=8)]
    larger = json.dumps(["conv2d", 4, 64])
    assert ApplyHistoryBest(pairs).steps("llvm", larger) is None
    found = ApplyHistoryBest(pairs, include_compatible=True)
    assert factor_of(found.steps("llvm", larger)) == 8
    assert found.steps("llvm", json.dumps(["conv2d", 1, 63])) is None


def test_contexts_nest() -> None:
    outer, inner = ApplyHistoryBest([pair(1e-3)]), ApplyHistoryBest([])
    seen: list[Any] = [DispatchContext.current]
    with outer:
        seen.append(DispatchContext.current)
        with inner:
            seen.append(DispatchContext.current)
        seen.append(ApplyHistoryBest.current)
    seen.append(DispatchContext.current)
    assert seen == [seen[0], outer, inner, outer, seen[0]]
    assert isinstance(seen[0], FallbackContext)


def test_states_are_asked_of_the_contexts_around() -> None:
    dag = ComputeDAG(matmul_auto_scheduler_test(8, 8, 8))
    key = dag.workload_key()
    state = dag.get_init_state()
    state.split(2, 0, [4])
    outer, inner = ApplyHistoryBest(None), ApplyHistoryBest([])
    outer.update("llvm", key, state)
    with outer, inner:
        assert DispatchContext.current is inner
        assert inner.query("llvm", key, True, dag) == state
        assert inner.query("llvm", key).transform_steps == state.rows
        assert inner.query("llvm", '["none"]') is None
        assert inner.query("cuda", key) is None


def test_missing_schedules_of_complex_workloads_are_told_once(caplog) -> None:
    context = FallbackContext()
    for _ in range(2):
        assert context.query("llvm", CONV, False) is None
    assert not caplog.records
    for _ in range(2):
        assert context.query("llvm", CONV, True) is None
    assert len(caplog.records) == 1 and CONV in caplog.text
    context.update("llvm", CONV, [("SP", 2, 0, 64, (16,), 1)])
    assert factor_of(context.query("llvm", CONV).rows) == 16


def test_what_has_no_record_is_sampled_for_those_who_ask() -> None:
    task = SearchTask(func=matmul_auto_scheduler_test, args=(16, 16, 16), target="llvm")
    context = ApplyHistoryBestOrSample(None, sample_simple_workloads=True)
    found = context.query("llvm", task.workload_key, False, task.compute_dag)
    schedule, args = task.compute_dag.apply_steps_from_state(found)
    assert "parallel" in str(found) or len(found.rows)
    assert len(args) == 3 and schedule is not None
    plain = ApplyHistoryBestOrSample(None)
    assert plain.query("llvm", task.workload_key, False) is None


def test_what_is_given_by_hand_comes_first() -> None:
    found = ApplyHistoryBest([pair(1e-3, factor=8)])
    found.update("llvm", CONV, [("SP", 2, 0, 64, (16,), 1)])
    assert factor_of(found.steps("llvm", CONV)) == 16


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TilewrightError, match="there is no file"):
        ApplyHistoryBest(tmp_path / "none.db")
    with pytest.raises(TilewrightError, match="pairs of MeasureInput"):
        ApplyHistoryBest([1, 2])
    bad = tmp_path / "bad.json"
    bad.write_text('{"i": 1}\n{"half')
    with pytest.warns(UserWarning, match="left out"):
        assert len(ApplyHistoryBest(bad)) == 0
