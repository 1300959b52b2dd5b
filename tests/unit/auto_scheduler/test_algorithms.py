"""The choice of an algorithm as the first step of a state: applied, recorded, measured, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.unit.auto_scheduler.searches import task_of
from tilewright import auto_scheduler as A
from tilewright import te, topi
from tilewright.auto_scheduler.measure import describe_input
from tilewright.auto_scheduler.state import State
from tilewright.base.errors import ScheduleError, TilewrightError
from tilewright.interp.te_eval import te_eval
from tilewright.measure.reference import Problem, given

ALLOWED = {"algorithm_error": 1e-4}
AHEAD = A.LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED


def conv(size: int = 12, c: int = 16, f: int = 24, constant: bool = True) -> list[Any]:
    x, w = te.placeholder((1, size, size, c), name="x"), te.placeholder((3, 3, c, f), name="w")
    padded = topi.nn.pad(x, (0, 1, 1, 0), (0, 1, 1, 0))
    ry, rx, rc = te.reduce_axis((0, 3)), te.reduce_axis((0, 3)), te.reduce_axis((0, c))
    y = te.compute(
        (1, size, size, f),
        lambda b, i, j, o: te.sum(padded[b, i + ry, j + rx, rc] * w[ry, rx, rc, o], [ry, rx, rc]),
        name="y",
        attrs={"layout_free_placeholders": [w]} if constant else None,
    )
    return [x, w, y]


def winograd(task: A.SearchTask, tile: int = 4) -> State:
    (step,) = [a for a in task.compute_dag.algorithms(1e-3) if a.parameter == tile]
    return State.default(task, step)


@pytest.mark.parametrize("option", list(A.LayoutRewriteOption))
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("tile", [2, 4, 6])
def test_arguments_stay_what_they_are_but_for_constants(
    option: A.LayoutRewriteOption, constant: bool, tile: int
) -> None:
    tensors = conv(constant=constant)
    state = winograd(task_of(tensors), tile)
    schedule, args, changed = A.apply_state(state, option)
    rng = np.random.default_rng(1)
    given = [rng.standard_normal(tuple(map(int, t.shape))).astype("f4") for t in tensors[:-1]]
    (wanted,) = te_eval(tensors[-1], dict(zip(tensors, given)))
    assert [c.index for c in changed] == ([1] if constant and option == AHEAD else [])
    for one in changed:
        given[one.index] = one.apply(given[one.index])
    assert [a.shape for a in given] == [tuple(map(int, t.shape)) for t in args[:2]]
    out = tvm.nd.array(np.full_like(wanted, 7))
    tvm.build(schedule, args, "llvm")(*map(tvm.nd.array, given), out)
    assert np.abs(out.numpy() - wanted).max() <= state.algorithm_error * np.abs(wanted).max()
    computed = [s.op.name for s in schedule.stages if s.op.input_tensors]
    assert any("filter" in name for name in computed) != bool(changed)


def test_constants_of_another_shape_are_refused() -> None:
    _, _, (one,) = A.apply_state(winograd(task_of(conv())), AHEAD)
    with pytest.raises(TilewrightError, match=r"expected an array of shape \(3, 3, 16, 24\), got"):
        one.apply(np.zeros((3, 3, 24, 16), "f4"))


def test_a_state_with_an_algorithm_is_copied_and_recorded(tmp_path: Path) -> None:
    task = task_of(conv())
    state = winograd(task)
    assert state.rows[0][:2] == ("AL", "winograd")
    assert state.copy().rows == state.rows
    assert state.copy().schedule.as_python() == state.schedule.as_python()
    result = A.MeasureResult((1e-3,), 0, "", 0.1, 1.0)
    file = tmp_path / "records.json"
    A.save_records(str(file), [A.MeasureInput(task, state)], [result])
    assert task.best_state(str(file)).rows == state.rows


def test_a_step_that_does_not_fit_is_refused() -> None:
    task = task_of(conv())
    dag = task.compute_dag
    for row in (("AL", "winograd", 0, 4), ("AL", "winograd", 3, 5), ("AL", "fft", 3, 4)):
        with pytest.raises(ScheduleError, match="cannot be done by"):
            State.from_rows(dag, [row])
    good = winograd(task).rows[0]
    with pytest.raises(ScheduleError, match="first step"):
        State.from_rows(dag, [good, good])


def test_nothing_is_chosen_unless_an_error_is_allowed() -> None:
    task = task_of(conv(56, 64, 64), layout_rewrite_option=AHEAD)
    plain = A.SketchPolicy(task, None, verbose=0).best_unmeasured()
    chosen = A.SketchPolicy(task, None, params=ALLOWED, verbose=0).best_unmeasured()
    assert plain is not None
    assert chosen is not None
    assert not any(row[0] == "AL" for row in plain.rows)
    assert chosen.rows[0] == ("AL", "winograd", chosen.rows[0][2], 6)
    with pytest.raises(TilewrightError, match="share from 0 to 1"):
        A.SketchPolicy(task, None, params={"algorithm_error": 2}, verbose=0)


def test_a_search_measures_every_algorithm_first(tmp_path: Path) -> None:
    """With results checked against the computation as written."""
    file = tmp_path / "records.json"
    task = task_of(conv(), layout_rewrite_option=AHEAD)
    policy = A.SketchPolicy(task, A.RandomModel(0), ALLOWED, seed=0, verbose=0)
    runner = A.LocalRunner(number=1, repeat=1, min_repeat_ms=1)
    options = A.TuningOptions(
        num_measure_trials=5, num_measures_per_round=5, runner=runner, verbose=0,
        measure_callbacks=[A.RecordToFile(str(file))],
    )  # fmt: skip
    task.tune(options, search_policy=policy)
    first = [given.state.rows for given, _ in A.load_records(str(file))][:4]
    assert [rows[0][0] for rows in first] == ["DS", "AL", "AL", "AL"]
    again = A.SketchPolicy(
        task, A.RandomModel(0), ALLOWED, verbose=0,
        init_search_callbacks=[A.PreloadMeasuredStates(str(file))],
    )  # fmt: skip
    assert again.library.due(64) == []
    strict = A.SketchPolicy(
        task, A.RandomModel(0), verbose=0,
        init_search_callbacks=[A.PreloadMeasuredStates(str(file))],
    )  # fmt: skip
    assert strict.best_state is not None
    assert strict.best_state.algorithm_error == 0, "records may hold what is not allowed now"


def test_rounds_of_one_measure_every_default() -> None:
    task = task_of(conv(), layout_rewrite_option=AHEAD)
    policy = A.SketchPolicy(task, A.RandomModel(0), ALLOWED, seed=0, verbose=0)
    runner = A.LocalRunner(number=1, repeat=1, min_repeat_ms=1)
    with A.ProgramMeasurer("local", runner, [], 0) as measurer:
        steps = [policy.continue_search_one_round(1, measurer)[0][0].state.rows for _ in range(5)]
    assert [rows[0][0] for rows in steps[:4]] == ["DS", "AL", "AL", "AL"]
    assert all(len(rows) <= 2 for rows in steps[:4]) and len(steps[4]) > 2


@pytest.mark.parametrize("tile", [2, 4, 6])
def test_results_are_checked_against_the_computation_as_written(tile: int) -> None:
    """The filters that the candidate takes are those of the computation's."""
    task = task_of(conv(), layout_rewrite_option=AHEAD)
    item = A.MeasureInput(task, winograd(task, tile))
    program = describe_input(item, check=True)
    assert program["reference"]["error"] == item.state.algorithm_error > 0
    problem = Problem(program)
    x, filters, _ = given(program, problem)
    assert x is problem.data[0]
    assert filters.shape == ((tile + 2) ** 2, 16, 24)
    with A.ProgramMeasurer("local", A.LocalRunner(60, check_correctness=True), [], 0) as measurer:
        (result,) = measurer.measure(task, None, [item])
    assert result.error_no == 0, result.error_msg
