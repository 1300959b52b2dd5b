"""Data of tasks' own: kept by name, written to files, found again, and what candidates run on."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import auto_scheduler as A
from tilewright import nd, te
from tilewright.auto_scheduler import search_task
from tilewright.auto_scheduler.measure import prepare_input_map, register_task_input_check_func
from tilewright.auto_scheduler.task_inputs import TASK_INPUT_CHECK_FUNC_REGISTRY, input_files
from tilewright.base.errors import TilewrightError


@A.register_workload("tests/task_inputs/take")
def take(n: int, m: int) -> Any:
    X = te.placeholder((n,), "int32", name="X")
    where = te.placeholder((m,), "int32", name="where")
    return [X, where, te.compute((m,), lambda i: X[where[i]], name="Y")]


def task_of(values: Any, **more: Any) -> Any:
    data = np.asarray(values, "int32")
    return A.SearchTask(
        func=take, args=(9, len(data)), target="llvm", task_inputs={"where": data}, **more
    )


@pytest.fixture(autouse=True)
def _own_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tilewright.auto_scheduler.task_inputs.TASK_INPUT_BUFFER_TABLE", {})
    monkeypatch.chdir(tmp_path)


def test_arrays_are_kept_unless_overwritten() -> None:
    first = task_of([1, 2])
    key = first.workload_key
    get = search_task.get_task_input_buffer
    assert first.task_input_names == ("where",)
    assert get(key, "where").numpy().tolist() == [1, 2]
    task_of([3, 4])
    assert get(key, "where").numpy().tolist() == [1, 2]
    task_of([3, 4], task_inputs_overwrite=True)
    assert get(key, "where").numpy().tolist() == [3, 4]
    with pytest.raises(TilewrightError, match="no task input 'other'"):
        get(key, "other")
    with pytest.raises(TilewrightError, match="a dict from names to arrays"):
        given: Any = 7
        A.SearchTask(func=take, args=(9, 2), target="llvm", task_inputs=given)


def test_arrays_are_found_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = task_of([5, 6, 7], task_inputs_save_to_file=True).workload_key
    assert [p.name for p in tmp_path.iterdir()] == ["where.3_int32.npy"]
    monkeypatch.setattr("tilewright.auto_scheduler.task_inputs.TASK_INPUT_BUFFER_TABLE", {})
    assert search_task.get_task_input_buffer(key, "where").numpy().tolist() == [5, 6, 7]


def test_candidates_run_on_them() -> None:
    """Indices at random are 0 or 1; 8 would be outside of a shorter array."""
    task = task_of([8, 0, 8])
    assert list(input_files(task)) == ["1"]
    item = A.MeasureInput(task, task.compute_dag.init_state)
    (built,) = A.LocalBuilder(timeout=60).build([item])
    assert built.error_no == 0 and os.path.exists(built.filename)
    runner = A.LocalRunner(timeout=60, min_repeat_ms=1, check_correctness=True)
    (result,) = runner.run([item], [built])
    assert result.error_no == 0, result
    wrong = A.SearchTask(
        func=take, args=(9, 2), target="llvm", task_inputs={"where": nd.array(np.zeros(2))}
    )
    with pytest.raises(TilewrightError, match="the task input 'where' is float"):
        A.LocalBuilder().build([A.MeasureInput(wrong, wrong.compute_dag.init_state)])


def test_they_travel_with_tasks_and_by_name_with_records(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of([4, 4])
    text = pickle.dumps(task)
    item = A.MeasureInput(task, task.compute_dag.init_state)
    line = A.dump_record_to_string(item, A.MeasureResult([0.5], 0, "", 1.0, 2))
    found = A.recover_measure_input(A.load_record_from_string(line)[0])
    assert found.task.task_input_names == ("where",)
    assert list(input_files(found.task)) == ["1"]
    monkeypatch.setattr("tilewright.auto_scheduler.task_inputs.TASK_INPUT_BUFFER_TABLE", {})
    moved = pickle.loads(text)
    data = search_task.get_task_input_buffer(moved.workload_key, "where")
    assert data.numpy().tolist() == [4, 4] and moved.func is None


def test_functions_find_special_inputs() -> None:
    tensors = take(9, 2)
    plain = te.placeholder((3,), name="placeholder")
    assert prepare_input_map([*tensors, plain]) == {tensors[0]: "X", tensors[1]: "where"}

    @register_task_input_check_func
    def special(args: Any) -> Any:
        return {args[0]: "renamed"}

    try:
        assert prepare_input_map([plain]) == {plain: "renamed"}
        with pytest.raises(TilewrightError, match="has been registered already"):
            register_task_input_check_func(special.__qualname__, lambda args: {})
        register_task_input_check_func(special.__qualname__, lambda args: {}, override=True)
        assert prepare_input_map([plain]) == {}
    finally:
        TASK_INPUT_CHECK_FUNC_REGISTRY.clear()
