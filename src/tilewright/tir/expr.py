"""`tvm.tir.expr`: the expressions."""

from ..loopir.expr import *  # noqa: F403
from ..loopir.expr_groups import *  # noqa: F403
from ..loopir.helpers import IntImmEnum as IntImmEnum
from ..loopir.helpers import div_ambiguity_error as div_ambiguity_error
from ..loopir.iter import CommReducer as CommReducer
from ..loopir.iter import IterVar as IterVar
from ..loopir.iter import ProducerLoad as ProducerLoad
from ..loopir.iter import Reduce as Reduce
