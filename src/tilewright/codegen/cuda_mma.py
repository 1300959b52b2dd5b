"""Tensor cores in CUDA: WMMA fragments, mma, ldmatrix and asynchronous copies as inline PTX.

See the PTX ISA, "Warp-level Matrix Instructions" and "Data Movement and Conversion Instructions:
cp.async". No header is needed (mma.h is not part of what pip installs).
"""

from __future__ import annotations

_D = "__device__ __forceinline__"

MMA_PARTS: dict[str, str] = {}


def wmma_part(key: str) -> str:
    raise NotImplementedError
