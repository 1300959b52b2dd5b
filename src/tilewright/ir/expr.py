"""`tvm.ir.expr`: expressions, ranges, names of functions."""

from ..loopir.expr import PrimExpr as PrimExpr
from ..loopir.iter import Range as Range
from ..loopir.module import GlobalVar as GlobalVar
