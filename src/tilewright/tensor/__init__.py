"""Tensor expressions: what to compute (public name: te)."""

from . import broadcast as broadcast  # first: tensors' operators need it, and it needs tensors
