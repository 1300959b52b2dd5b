"""Options of compilation and passes of the user's own (TVM's names)."""

from .driver.transform import PassContext as PassContext
from .driver.transform import PrimFuncPass as PrimFuncPass
from .driver.transform import prim_func_pass as prim_func_pass

__all__ = ["PassContext", "PrimFuncPass", "prim_func_pass"]
