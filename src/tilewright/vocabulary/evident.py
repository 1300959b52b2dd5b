"""What calls and attributes of TVM's give, where that is evident: classes by the names that make
their objects.

A class that is called gives an object of it, which needs no line here.
"""

from __future__ import annotations

from collections.abc import Mapping

_TENSOR, _STAGE, _SCHEDULE = "te.Tensor", "te.Stage", "te.Schedule"
_AXIS, _MODULE, _ARRAY, _DEVICE = "tir.IterVar", "runtime.Module", "nd.NDArray", "runtime.Device"
_SPACE = "autotvm.task.space.ConfigSpace"

CALLS: Mapping[str, str | tuple[str, ...]] = {
    "te.create_schedule": _SCHEDULE,
    "create_schedule": _SCHEDULE,
    "te.placeholder": _TENSOR,
    "te.compute": _TENSOR,
    "te.scan": _TENSOR,
    "te.extern": _TENSOR,
    "te.var": "tir.Var",
    "te.size_var": "tir.SizeVar",
    "te.reduce_axis": _AXIS,
    "te.thread_axis": _AXIS,
    "te.decl_tensor_intrin": "te.TensorIntrin",
    "te.Schedule.cache_read": _TENSOR,
    "te.Schedule.cache_write": _TENSOR,
    "te.Schedule.rfactor": _TENSOR,
    "te.Schedule.normalize": _SCHEDULE,
    "te.Stage.split": (_AXIS, _AXIS),
    "te.Stage.tile": (_AXIS, _AXIS, _AXIS, _AXIS),
    "te.Stage.fuse": _AXIS,
    "build": _MODULE,
    "driver.build": _MODULE,
    "driver.build_module.build": _MODULE,
    "runtime.load_module": _MODULE,
    "module.load": _MODULE,
    "lower": "ir.IRModule",
    "driver.lower": "ir.IRModule",
    "nd.array": _ARRAY,
    "nd.empty": _ARRAY,
    "runtime.ndarray.array": _ARRAY,
    "device": _DEVICE,
    "cpu": _DEVICE,
    "cuda": _DEVICE,
    "opencl": _DEVICE,
    "runtime.device": _DEVICE,
    "tir.ir_builder.create": "tir.ir_builder.IRBuilder",
    "tir.decl_buffer": "tir.Buffer",
    "target.cuda": "target.Target",
    "target.arm_cpu": "target.Target",
    "target.create": "target.Target",
    "target.Target.current": "target.Target",
    "autotvm.get_config": _SPACE,
    "autotvm.task.get_config": _SPACE,
    "autotvm.task.create": "autotvm.task.Task",
    "autotvm.task.task.create": "autotvm.task.Task",
    "autotvm.measure_option": "dict",
    "auto_scheduler.SearchTask.apply_best": (_SCHEDULE, "list"),
    "auto_scheduler.ComputeDAG.apply_steps_from_state": (_SCHEDULE, "list"),
}

ATTRIBUTES: Mapping[str, str] = {
    "te.Tensor.op": "te.Operation",
    "te.Stage.op": "te.Operation",
    "autotvm.task.Task.config_space": _SPACE,
    "auto_scheduler.SearchTask.compute_dag": "auto_scheduler.ComputeDAG",
    "auto_scheduler.ComputeDAG.init_state": "auto_scheduler.State",
}

ITEMS: Mapping[str, str] = {_SCHEDULE: _STAGE, "tir.ir_builder.IRBuilder": "tir.Buffer"}
"""What `x[...]` gives."""

_SCHEDULE_CLASSES = frozenset({"Schedule", "Stage", "SpecializedCondition"})
ELSEWHERE = frozenset({"dict", "list"})
"""Classes that are Python's own: what is done with their objects is no use of TVM."""


def called(path: str) -> str | tuple[str, ...] | None:
    """The class of what calling a name gives, or of each of several; None where that is not
    evident."""
    known = CALLS.get(path)
    if known is None and path.startswith("topi."):
        last = path.rpartition(".")[2]
        return _SCHEDULE if last.startswith("schedule_") else None
    if known is None and is_class(path):
        return path
    return known


def is_class(path: str) -> bool:
    """Whether a name is that of a class, by the way it is spelt."""
    home, _, last = path.rpartition(".")
    if home.endswith("_ffi_api") or (home == "te.schedule" and last not in _SCHEDULE_CLASSES):
        return False  # functions whose names are spelt as C++ spells them
    return last[:1].isupper() and not last.isupper()
