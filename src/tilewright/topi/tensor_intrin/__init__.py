"""Tensor intrinsics for matrix units: what `Stage.tensorize` takes.

`wmma`: fragments of a warp whose layout is the hardware's. `mma`: registers whose layout is known,
and which ldmatrix fills; from sm_80 on. `wgmma`: tiles in shared memory that warp groups
multiply, on sm_90a.
"""

from .mma import mma_gemm, mma_load, mma_store, round_to_tf32
from .warp_group_tile import WarpGroupTile
from .wgmma import wgmma_store, wgmma_tile
from .wmma import wmma_fill, wmma_gemm, wmma_load, wmma_store

__all__ = [
    "WarpGroupTile",
    "mma_gemm",
    "mma_load",
    "mma_store",
    "round_to_tf32",
    "wgmma_store",
    "wgmma_tile",
    "wmma_fill",
    "wmma_gemm",
    "wmma_load",
    "wmma_store",
]
