"""The auto-scheduler: finds schedules by search (public name: auto_scheduler).

Zheng et al., Ansor: Generating High-Performance Tensor Programs for Deep Learning, OSDI 2020.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_NAMES = {
    "ComputeDAG": "dag", "HardwareParams": "hardware", "SearchTask": "task",
    "TuningOptions": "task", "create_task": "task", "LayoutRewriteOption": "transform",
    "Rearranged": "transform", "apply_state": "transform", "auto_schedule": "search",
    "State": "state", "SketchPolicy": "policy", "PreloadCustomSketchRule": "sketch.custom",
    "PreloadMeasuredStates": "preload", "CostModel": "cost_model", "RandomModel": "cost_model",
    "XGBModel": "cost_model", "TaskScheduler": "task_scheduler",
    "register_workload": "workload", "make_workload_key": "workload",
    "register_workload_tensors": "workload", "workload_key_to_tensors": "workload",
    "get_workload_name": "workload",
    "PrintTableInfo": "scheduler_callbacks", "LogEstimatedLatency": "scheduler_callbacks",
    "MeasureInput": "measure", "MeasureResult": "measure", "MeasureErrorNo": "measure",
    "LocalBuilder": "measure", "LocalRunner": "measure", "ProgramMeasurer": "measure",
    "MeasureCallback": "measure",
    "RecordToFile": "records", "RecordReader": "records", "load_records": "records",
    "save_records": "records", "load_best_record": "records",
    "distill_record_file": "records", "dump_record_to_string": "records",
    "load_record_from_string": "records", "recover_measure_input": "recover",
    "ApplyHistoryBest": "history", "tune_tasks": "together",
}  # fmt: skip
_MODULES = ("loop_state",)
# of a room above, which users look for here
_ABOVE = {"extract_tasks": "tilewright.graph.tasks"}

if TYPE_CHECKING:
    from .dag import ComputeDAG as ComputeDAG
    from .policy import SketchPolicy as SketchPolicy
    from .search import auto_schedule as auto_schedule
    from .task import SearchTask as SearchTask
    from .task import TuningOptions as TuningOptions


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    module = _ABOVE.get(name) or f"{__name__}.{_NAMES.get(name)}"
    if name not in _NAMES and name not in _ABOVE:
        raise AttributeError(f"tilewright.auto_scheduler has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*_NAMES, *_MODULES, *_ABOVE))
