# Made by `python -m tools.make_stubs`.

from tilewright.measure.result import MeasureErrorNo as MeasureErrorNo
from tilewright.template.context import ApplyConfig as ApplyConfig
from tilewright.template.context import ApplyFixedConfig as ApplyFixedConfig
from tilewright.template.context import ApplyHistoryBest as ApplyHistoryBest
from tilewright.template.context import ApplyHistoryBest as _ApplyHistoryBest
from tilewright.template.context import DispatchContext as DispatchContext
from tilewright.template.context import FallbackContext as FallbackContext
from tilewright.template.context import get_config as get_config
from tilewright.template.env import GLOBAL_SCOPE as GLOBAL_SCOPE
from tilewright.template.measure import LocalBuilder as LocalBuilder
from tilewright.template.measure import LocalRunner as LocalRunner
from tilewright.template.measure import measure_option as measure_option
from tilewright.template.record import MeasureInput as MeasureInput
from tilewright.template.record import MeasureResult as MeasureResult
from tilewright.template.space import ConfigEntity as ConfigEntity
from tilewright.template.space import ConfigSpace as ConfigSpace
from tilewright.template.space import FallbackConfigEntity as FallbackConfigEntity
from tilewright.template.task import template as template
from tilewright.template.topi_integration import register_topi_compute as register_topi_compute
from tilewright.template.topi_integration import register_topi_schedule as register_topi_schedule
from tilewright.autotvm import callback as callback
from tilewright.autotvm import env as env
from tilewright.autotvm import measure as measure
from tilewright.autotvm import record as record
from tilewright.autotvm import task as task
from tilewright.autotvm import tuner as tuner

apply_history_best = _ApplyHistoryBest
