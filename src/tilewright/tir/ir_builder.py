"""`tvm.tir.ir_builder`."""

from ..loopir.helpers import WithScope as WithScope
from ..loopir.ir_builder import BufferVar as BufferVar
from ..loopir.ir_builder import IRBuilder as IRBuilder
from ..loopir.ir_builder import create as create
