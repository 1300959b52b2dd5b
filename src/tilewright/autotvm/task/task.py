"""Templates and tasks: `autotvm.task.task`."""

from ...template.context import get_config as get_config
from ...template.task import FlopCalculationError as FlopCalculationError
from ...template.task import Task as Task
from ...template.task import TaskTemplate as TaskTemplate
from ...template.task import compute_flop as compute_flop
from ...template.task import create as create
from ...template.task import template as template
from ...template.workload import args_to_workload as args_to_workload
from ...template.workload import deserialize_args as deserialize_args
from ...template.workload import serialize_args as serialize_args
