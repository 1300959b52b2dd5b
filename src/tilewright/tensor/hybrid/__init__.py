"""Hybrid scripts: Python functions of loops that run as they are, and compile as tensors' loops."""
