"""Sparse matrices whose rows have multiples of a number of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import TilewrightError
from ...target.target import Target
from ..utils import get_const_int


def pad_sparse_matrix(matrix: Any, blocksize: int) -> Any:
    """A scipy.sparse.bsr_matrix as another one of the same elements, each of whose rows of blocks
    has a multiple of `blocksize` blocks: those that are added are zeros, at column 0, behind the
    others. TilewrightError for another matrix."""
    if getattr(matrix, "format", "") != "bsr":
        raise TilewrightError(f"pad_sparse_matrix takes a bsr_matrix, got {type(matrix).__name__}")
    counts = np.diff(matrix.indptr)
    more = -counts % blocksize
    ends = np.concatenate([matrix.indptr[:1], np.cumsum(counts + more)])
    indptr = ends.astype(matrix.indptr.dtype)
    # each block moves on by as many as are added to the rows before its own
    moved = np.arange(len(matrix.indices)) + np.repeat(indptr[:-1] - matrix.indptr[:-1], counts)
    indices = np.zeros(indptr[-1], matrix.indices.dtype)
    data = np.zeros((indptr[-1], *matrix.data.shape[1:]), matrix.data.dtype)
    indices[moved], data[moved] = matrix.indices, matrix.data
    return type(matrix)((data, indices, indptr), matrix.shape)


def is_valid_for_sparse_dense_padded(data: Any, weight_data: Any) -> bool:
    """Whether the target's warps are busy with data (M, K), an expression of a graph or a tensor,
    times the rows of a sparse matrix of elements, or blocks, `weight_data`: whether they are as
    many threads as K has blocks, at most. Raises UsageError where `weight_data` has an extent or a
    value that has to be constant and is not."""
    shape = getattr(data, "checked_type", data).shape
    block = get_const_int(weight_data.shape[1]) if len(weight_data.shape) > 1 else 1
    target: Any = Target.current(allow_none=False)
    return get_const_int(shape[1]) // block >= int(target.thread_warp_size)
