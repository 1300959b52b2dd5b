"""`tvm.tir.stmt_functor`: walks and rewrites by functions."""

from ..loopir.define import renew_defs as renew_defs
from ..loopir.functor import ir_transform as ir_transform
from ..loopir.functor import post_order_visit as post_order_visit
from ..loopir.functor import pre_order_visit as pre_order_visit
from ..loopir.functor import substitute as substitute
