"""`tvm.tir.schedule`: TensorIR's schedules, which are refused by name."""

from ..loopir.blocks import BlockScope as BlockScope
from ..loopir.blocks import Schedule as Schedule
from ..loopir.blocks import ScheduleError as ScheduleError
from ..loopir.blocks import ScheduleState as ScheduleState
from ..loopir.blocks import StmtSRef as StmtSRef
