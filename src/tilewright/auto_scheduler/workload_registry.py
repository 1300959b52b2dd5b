"""`auto_scheduler.workload_registry`: workloads by name."""

from .workload import WORKLOAD_FUNC_REGISTRY as WORKLOAD_FUNC_REGISTRY
from .workload import deserialize_workload_registry_entry as deserialize_workload_registry_entry
from .workload import get_workload_name as get_workload_name
from .workload import load_workload_func_registry as load_workload_func_registry
from .workload import make_workload_key as make_workload_key
from .workload import register_workload as register_workload
from .workload import register_workload_tensors as register_workload_tensors
from .workload import save_workload_func_registry as save_workload_func_registry
from .workload import serialize_workload_registry_entry as serialize_workload_registry_entry
from .workload import workload_key_to_tensors as workload_key_to_tensors
