"""`tvm.tir.expr`: the expressions."""

from ..loopir.expr import *  # noqa: F403
from ..loopir.expr_groups import *  # noqa: F403
from ..loopir.iter import CommReducer as CommReducer
from ..loopir.iter import IterVar as IterVar
from ..loopir.iter import ProducerLoad as ProducerLoad
from ..loopir.iter import Reduce as Reduce
