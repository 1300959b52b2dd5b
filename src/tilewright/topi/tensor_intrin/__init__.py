"""Tensor intrinsics for matrix units: what `Stage.tensorize` takes.

`wmma`: fragments of a warp whose layout is the hardware's. `mma`: registers whose layout is known,
and which ldmatrix fills; from sm_80 on.
"""

from .mma import mma_gemm, mma_load, mma_store
from .wmma import wmma_fill, wmma_gemm, wmma_load, wmma_store

__all__ = [
    "mma_gemm",
    "mma_load",
    "mma_store",
    "wmma_fill",
    "wmma_gemm",
    "wmma_load",
    "wmma_store",
]
