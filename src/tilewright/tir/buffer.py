"""`tvm.tir.buffer`: buffers."""

from ..loopir.buffer import *  # noqa: F403
from ..tensor.tensor import DataProducer as DataProducer
