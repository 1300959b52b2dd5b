"""te.hybrid.parser: scripts as operations."""

from ...tensor.hybrid.parser import Parser as HybridParser
from ...tensor.hybrid.script import source_to_op as source_to_op

__all__ = ["HybridParser", "source_to_op"]
