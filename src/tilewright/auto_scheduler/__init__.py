"""The auto-scheduler: finds schedules by search (public name: auto_scheduler).

Zheng et al., Ansor: Generating High-Performance Tensor Programs for Deep Learning, OSDI 2020.
"""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "auto_scheduler.compute_dag": "get_shape_from_rewritten_layout",
        "auto_scheduler.dag": "ComputeDAG",
        "auto_scheduler.hardware": "HardwareParams",
        "auto_scheduler.task": "SearchTask TuningOptions create_task",
        "auto_scheduler.transform": "LayoutRewriteOption Rearranged apply_state",
        "auto_scheduler.search": "auto_schedule",
        "auto_scheduler.state": "State",
        "auto_scheduler.policy": "SketchPolicy",
        "auto_scheduler.sketch.custom": "PreloadCustomSketchRule",
        "auto_scheduler.preload": "PreloadMeasuredStates SearchCallback",
        "auto_scheduler.search_policy": "EmptyPolicy SearchPolicy",
        "auto_scheduler.cost_model": "CostModel PythonBasedModel RandomModel XGBModel",
        "auto_scheduler.task_scheduler": "TaskScheduler",
        "auto_scheduler.workload": (
            "register_workload make_workload_key register_workload_tensors "
            "workload_key_to_tensors get_workload_name"
        ),
        "auto_scheduler.scheduler_callbacks": "PrintTableInfo LogEstimatedLatency",
        "auto_scheduler.measure": (
            "MeasureInput MeasureResult MeasureErrorNo BuildResult LocalBuilder LocalRunner "
            "LocalRPCMeasureContext ProgramMeasurer MeasureCallback "
            "PythonBasedMeasureCallback register_task_input_check_func"
        ),
        "auto_scheduler.fleet": "DaskBuilder DaskRunner RPCRunner",
        "auto_scheduler.records": (
            "RecordToFile RecordReader load_records save_records load_best_record "
            "distill_record_file dump_record_to_string load_record_from_string"
        ),
        "auto_scheduler.recover": "recover_measure_input",
        "auto_scheduler.history": (
            "ApplyHistoryBest ApplyHistoryBestOrSample DispatchContext FallbackContext"
        ),
        "auto_scheduler.relay_integration": (
            "is_auto_scheduler_enabled remove_index_check rewrite_compute_body rewrite_tensor_shape"
        ),
        "auto_scheduler.together": "tune_tasks join_networks",
        "auto_scheduler.objectives": "LatencySum LatencyRequirement GeomeanSpeedup EarlyStopping",
        "graph.tasks": "extract_tasks",
    },
    modules=(
        "_ffi_api compute_dag cost_model dispatcher feature loop_state measure measure_record "
        "relay_integration search_policy search_task task_scheduler utils workload_registry"
    ),
)
