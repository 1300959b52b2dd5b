"""`tvm.ir.transform`: options of compilation and passes."""

from ..driver.passes import ModulePass as ModulePass
from ..driver.passes import Pass as Pass
from ..driver.passes import PassInfo as PassInfo
from ..driver.passes import PrimFuncPass as PrimFuncPass
from ..driver.passes import PrintIR as PrintIR
from ..driver.passes import Sequential as Sequential
from ..driver.passes import module_pass as module_pass
from ..driver.passes import prim_func_pass as prim_func_pass
from ..driver.transform import PassContext as PassContext

__all__ = [
    "ModulePass",
    "Pass",
    "PassContext",
    "PassInfo",
    "PrimFuncPass",
    "PrintIR",
    "Sequential",
    "module_pass",
    "prim_func_pass",
]
