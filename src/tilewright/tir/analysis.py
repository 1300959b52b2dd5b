"""`tvm.tir.analysis`: questions about programs."""

from ..loopir.effects import is_pure as is_pure
from ..loopir.effects import side_effect as side_effect
from ..loopir.equal import structural_equal
from ..loopir.functor import undefined_vars as undefined_vars

expr_deep_equal = structural_equal
