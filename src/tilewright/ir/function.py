"""`tvm.ir.function`: functions."""

from ..loopir.attrs import CallingConv as CallingConv
from ..loopir.stmt import BaseFunc as BaseFunc
