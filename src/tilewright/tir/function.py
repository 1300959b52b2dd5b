"""`tvm.tir.function`: functions and maps of indices."""

from ..arith.index_map import IndexMap as IndexMap
from ..loopir.blocks import TensorIntrin as TensorIntrin
from ..loopir.stmt import PrimFunc as PrimFunc
