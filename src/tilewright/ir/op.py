"""`tvm.ir.op`: operations and what is said of them."""

from ..loopir.effects import register_op_attr as register_op_attr
from ..loopir.expr import Op as Op
from ..loopir.intrin_rules import register_intrin_lowering as register_intrin_lowering
