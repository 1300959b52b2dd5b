# Made by `python -m tools.make_stubs`.

from tilewright.loopir.buffer import Buffer as Buffer
from tilewright.loopir.iter import IterVar as IterVar
from tilewright.lowering.schedule_ops import create_attach_path as _create_attach_path
from tilewright.lowering.schedule_ops import schedule_ops as _schedule_ops
from tilewright.lowering.schedule_ops import schedule_to_prim_func as _schedule_to_prim_func
from tilewright.lowering.schedule_ops import verify_compact_buffer as _verify_compact_buffer
from tilewright.schedule.api import AXIS_SEPARATOR as AXIS_SEPARATOR
from tilewright.schedule.api import Schedule as Schedule
from tilewright.schedule.api import Stage as Stage
from tilewright.schedule.api import create_schedule as create_schedule
from tilewright.schedule.api import load_schedule as load_schedule
from tilewright.schedule.auto_inline import auto_inline_broadcast as _auto_inline_broadcast
from tilewright.schedule.auto_inline import auto_inline_elemwise as _auto_inline_elemwise
from tilewright.schedule.auto_inline import auto_inline_injective as _auto_inline_injective
from tilewright.schedule.auto_inline import infer_bound as _infer_bound
from tilewright.schedule.relations import Fuse as Fuse
from tilewright.schedule.relations import Relation as _Relation
from tilewright.schedule.relations import Singleton as Singleton
from tilewright.schedule.relations import Split as Split
from tilewright.tensor.analysis import create_read_graph as _create_read_graph
from tilewright.tensor.analysis import post_dfs_order as _post_dfs_order
from tilewright.tensor.analysis import scan_fix_points as _scan_fix_points
from tilewright.tensor.analysis import scan_get_body as _scan_get_body
from tilewright.tensor.specialize import SpecializedCondition as SpecializedCondition

CreateAttachPath = _create_attach_path
ScheduleOps = _schedule_ops
SchedulePostProcToPrimFunc = _schedule_to_prim_func
VerifyCompactBuffer = _verify_compact_buffer
AutoInlineBroadcast = _auto_inline_broadcast
AutoInlineElemWise = _auto_inline_elemwise
AutoInlineInjective = _auto_inline_injective
InferBound = _infer_bound
IterVarRelation = _Relation
CreateReadGraph = _create_read_graph
PostDFSOrder = _post_dfs_order
ScanFixPointAnalysis = _scan_fix_points
ScanGetBody = _scan_get_body
