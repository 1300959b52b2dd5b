"""Options of compilation and passes of the user's own (TVM's names)."""

from .driver.passes import Pass as Pass
from .driver.passes import PassInfo as PassInfo
from .driver.passes import PrimFuncPass as PrimFuncPass
from .driver.passes import Sequential as Sequential
from .driver.passes import module_pass as module_pass
from .driver.passes import prim_func_pass as prim_func_pass
from .driver.passes import simple_pass as _simple_pass
from .driver.transform import PassContext as PassContext


def PrintIR(header: str = "") -> Pass:
    """A pass that prints the program as it is."""

    def show(func: object, *_: object) -> object:
        print(f"{header}\n{func}" if header else func)
        return func

    return _simple_pass("PrintIR", show)()


__all__ = [
    "Pass",
    "PassContext",
    "PassInfo",
    "PrimFuncPass",
    "PrintIR",
    "Sequential",
    "module_pass",
    "prim_func_pass",
]
