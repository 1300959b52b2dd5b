"""`tvm._ffi`: what programs reach for there, the registry of functions."""

from ..rt.packed import get_global_func as get_global_func
from ..rt.packed import list_global_func_names as list_global_func_names
from ..rt.packed import register_func as register_func
from ..rt.packed import remove_global_func as remove_global_func
from . import base as base
from . import registry as registry
from . import runtime_ctypes as runtime_ctypes
from .registry import _init_api as _init_api
from .registry import register_extension as register_extension
from .registry import register_object as register_object
