"""`tvm.script.parser`: the readers of scripts, under the names of TVM's modules."""

from . import ir as ir
from . import tir as tir
from .entry import from_source as from_source
from .entry import from_source as parse
from .entry import ir_module as ir_module

__all__ = ["from_source", "ir", "ir_module", "parse", "tir"]
