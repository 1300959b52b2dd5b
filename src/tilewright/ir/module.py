"""`tvm.ir.module`: modules of functions."""

from ..loopir.stmt import GlobalVar as GlobalVar
from ..loopir.stmt import IRModule as IRModule
