"""Operators as templates: `autotvm.task.topi_integration`."""

from ...template.topi_integration import TaskExtractEnv as TaskExtractEnv
from ...template.topi_integration import get_workload as get_workload
from ...template.topi_integration import register_topi_compute as register_topi_compute
from ...template.topi_integration import register_topi_schedule as register_topi_schedule
from ...template.workload import args_to_workload as args_to_workload
from ...template.workload import deserialize_args as deserialize_args
from ...template.workload import serialize_args as serialize_args
