"""From a recorded measurement back to its task and state."""

from __future__ import annotations

from .measure import MeasureInput
from .records import RecordedState
from .state import State
from .task import SearchTask


def recover_measure_input(item: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """A recorded input with its SearchTask, whose workload has to be known here, and with
    `rebuild_state` its State."""
    old = item.task
    task = SearchTask(
        workload_key=old.workload_key,
        target=old.target,
        hardware_params=old.hardware_params,
        layout_rewrite_option=old.layout_rewrite_option,
        task_inputs=old.task_input_names,
    )
    rows = item.state.rows
    state = State.from_rows(task.compute_dag, rows) if rebuild_state else RecordedState(rows)
    return MeasureInput(task, state)
