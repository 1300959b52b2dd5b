"""Sketch rules, one a file, and the walk that applies them."""
