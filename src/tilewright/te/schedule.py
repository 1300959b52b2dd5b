"""te.schedule: schedules, and questions about the graphs that they are made for."""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "schedule.api": "create_schedule load_schedule Schedule Stage AXIS_SEPARATOR",
        "tensor.analysis": (
            "CreateReadGraph=create_read_graph PostDFSOrder=post_dfs_order "
            "ScanGetBody=scan_get_body ScanFixPointAnalysis=scan_fix_points"
        ),
        "schedule.relations": "IterVarRelation=Relation Split Fuse Singleton",
        "lowering.schedule_ops": (
            "ScheduleOps=schedule_ops SchedulePostProcToPrimFunc=schedule_to_prim_func "
            "CreateAttachPath=create_attach_path VerifyCompactBuffer=verify_compact_buffer"
        ),
        "schedule.auto_inline": (
            "AutoInlineElemWise=auto_inline_elemwise AutoInlineBroadcast=auto_inline_broadcast "
            "AutoInlineInjective=auto_inline_injective InferBound=infer_bound"
        ),
        "tensor.specialize": "SpecializedCondition",
        "loopir.buffer": "Buffer",
        "loopir.iter": "IterVar",
    },
)
