"""The loop IR: expressions, statements, buffers, functions (public name: tir)."""

from . import expr as expr  # first: see operators.py
