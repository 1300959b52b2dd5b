"""`tvm.ir.module`: modules of functions."""

from ..loopir.module import GlobalVar as GlobalVar
from ..loopir.module import IRModule as IRModule
