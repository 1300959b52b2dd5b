"""te.hybrid.parser: scripts as operations."""

from ...tensor.hybrid.script import HybridParser as HybridParser
from ...tensor.hybrid.script import parse_python as parse_python
from ...tensor.hybrid.script import source_to_op as source_to_op

__all__ = ["HybridParser", "parse_python", "source_to_op"]
