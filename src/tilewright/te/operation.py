"""te.operation: the functions that make operations."""

from ..driver.prim_func import create_prim_func as create_prim_func
from ..driver.prim_func import create_prim_func_from_outputs as create_prim_func_from_outputs
from ..driver.prim_func import create_relax_prim_func as create_relax_prim_func
from ..tensor.axes import const as const
from ..tensor.axes import reduce_axis as reduce_axis
from ..tensor.axes import size_var as size_var
from ..tensor.axes import thread_axis as thread_axis
from ..tensor.axes import var as var
from ..tensor.compute import compute as compute
from ..tensor.compute import placeholder as placeholder
from ..tensor.extern import extern as extern
from ..tensor.extern import extern_primfunc as extern_primfunc
from ..tensor.scan import scan as scan
