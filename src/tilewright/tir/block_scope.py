"""`tvm.tir.block_scope`: what belongs to TensorIR's blocks, refused by name."""

from ..loopir.blocks import BlockScope as BlockScope
from ..loopir.blocks import StmtSRef as StmtSRef
