"""te.hybrid: loops written in Python that run as they are, and compile as tensors' loops."""

from ...driver.hybrid_module import HybridModule as HybridModule
from ...driver.hybrid_module import build as build
from ...tensor.hybrid.script import script as script
from ...tensor.hybrid.script import source_to_op as source_to_op
from . import module as module
from . import parser as parser
from . import runtime as runtime
