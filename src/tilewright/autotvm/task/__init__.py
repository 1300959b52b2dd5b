"""Tasks, spaces and contexts: `autotvm.task`."""

from ...template.context import ApplyConfig as ApplyConfig
from ...template.context import ApplyFixedConfig as ApplyFixedConfig
from ...template.context import ApplyHistoryBest as ApplyHistoryBest
from ...template.context import DispatchContext as DispatchContext
from ...template.context import FallbackContext as FallbackContext
from ...template.context import get_config as get_config
from ...template.space import ConfigEntity as ConfigEntity
from ...template.space import ConfigSpace as ConfigSpace
from ...template.space import FallbackConfigEntity as FallbackConfigEntity
from ...template.task import Task as Task
from ...template.task import create as create
from ...template.task import template as template
from ...template.topi_integration import get_workload as get_workload
from ...template.topi_integration import register_topi_compute as register_topi_compute
from ...template.topi_integration import register_topi_schedule as register_topi_schedule
from ...template.workload import args_to_workload as args_to_workload
from ...template.workload import deserialize_args as deserialize_args
from ...template.workload import serialize_args as serialize_args
from . import dispatcher as dispatcher
from . import space as space
