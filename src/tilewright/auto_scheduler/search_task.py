"""`auto_scheduler.search_task`: tasks, and how they are searched."""

from .hardware import HardwareParams as HardwareParams
from .search import auto_schedule as auto_schedule
from .task import SearchTask as SearchTask
from .task import TuningOptions as TuningOptions
from .task import create_task as create_task
from .task_inputs import TASK_INPUT_BUFFER_TABLE as TASK_INPUT_BUFFER_TABLE
from .task_inputs import get_task_input_buffer as get_task_input_buffer
from .task_inputs import register_task_input_buffer as register_task_input_buffer
