"""Tensor expressions: what to compute (public name: te)."""
