"""te.schedule: schedules, and questions about the graphs that they are made for.

Names resolve when first used (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_ANALYSIS = {
    "CreateReadGraph": "create_read_graph",
    "PostDFSOrder": "post_dfs_order",
    "ScanGetBody": "scan_get_body",
    "ScanFixPointAnalysis": "scan_fix_points",
}
_LOOPS = {
    "ScheduleOps": "schedule_ops",
    "SchedulePostProcToPrimFunc": "schedule_to_prim_func",
    "CreateAttachPath": "create_attach_path",
}
_RELATIONS = {
    "IterVarRelation": "Relation",
    "Split": "Split",
    "Fuse": "Fuse",
    "Singleton": "Singleton",
}
_INLINE = {
    "AutoInlineElemWise": "auto_inline_elemwise",
    "AutoInlineBroadcast": "auto_inline_broadcast",
    "AutoInlineInjective": "auto_inline_injective",
    "InferBound": "infer_bound",
}


def __getattr__(name: str) -> Any:
    if name in _ANALYSIS:
        value = getattr(import_module("tilewright.tensor.analysis"), _ANALYSIS[name])
    elif name in _RELATIONS:
        value = getattr(import_module("tilewright.schedule.relations"), _RELATIONS[name])
    elif name in _LOOPS:
        value = getattr(import_module("tilewright.lowering.schedule_ops"), _LOOPS[name])
    elif name in _INLINE:
        value = getattr(import_module("tilewright.schedule.auto_inline"), _INLINE[name])
    elif name == "SpecializedCondition":
        value = import_module("tilewright.tensor.specialize").SpecializedCondition
    else:
        try:
            value = getattr(import_module("tilewright.schedule.api"), name)
        except AttributeError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = value
    return value
