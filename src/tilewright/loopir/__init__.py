"""The loop IR: expressions, statements, buffers, functions (public name: tir)."""

from . import expr as expr  # isort: skip  # first: see operators.py
from . import elementary as elementary  # the rows of all operations
from . import operations as operations
from . import printer as printer  # so that str(node) gives text
