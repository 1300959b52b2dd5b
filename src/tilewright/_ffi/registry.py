"""`tvm._ffi.registry`: functions by name."""

from . import get_global_func as get_global_func
from . import list_global_func_names as list_global_func_names
from . import register_func as register_func
from . import remove_global_func as remove_global_func
