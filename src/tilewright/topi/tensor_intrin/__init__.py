"""Tensor intrinsics for matrix units: what `Stage.tensorize` takes.

`wmma`: fragments of a warp whose layout is the hardware's.
"""

from .wmma import wmma_fill, wmma_gemm, wmma_load, wmma_store

__all__ = ["wmma_fill", "wmma_gemm", "wmma_load", "wmma_store"]
