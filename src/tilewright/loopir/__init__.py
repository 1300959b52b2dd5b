"""The loop IR: expressions, statements, buffers, functions (public name: tir)."""

from . import expr as expr  # isort: skip  # first: see operators.py
from . import op_exact as op_exact  # the rows of all operations
from . import op_float as op_float
from . import op_other as op_other
from . import print_whole as print_whole  # so that str(node) and node.script() give text
from . import printer as printer
