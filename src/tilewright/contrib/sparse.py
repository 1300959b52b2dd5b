"""`tvm.contrib.sparse`: matrices of which only the elements that are not zero are kept (CSR)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import UsageError
from ..rt.array import NDArray
from ..rt.array import array as _array
from ..tensor.compute import placeholder as _placeholder

_INDEX = ("int32", "int64")


class CSRNDArray:
    """A matrix in compressed rows: `data`, the `indices` of their columns (int32 or int64), and
    `indptr`, where each row begins in both.

    arg1: a NumPy matrix, or a tuple (data, indices, indptr) of NDArrays; then `shape` is needed.
    Raises UsageError where arg1 is neither (data, indices, indptr) with a shape nor a matrix, or
    indices are not int32 or int64.
    """

    stype = "csr"

    def __init__(self, arg1: Any, device: Any = None, shape: Sequence[int] | None = None) -> None:
        if isinstance(arg1, tuple):
            if len(arg1) != 3 or shape is None:
                raise UsageError("CSRNDArray takes (data, indices, indptr) with a shape")
            self.data, self.indices, self.indptr = arg1
            self.shape = tuple(shape)
        elif isinstance(arg1, np.ndarray) and arg1.ndim == 2:
            rows, columns = np.nonzero(arg1)
            counts = np.bincount(rows, minlength=arg1.shape[0])
            self.data = _array(arg1[rows, columns], device)
            self.indices = _array(columns.astype("int32"), device)
            self.indptr = _array(np.concatenate([[0], np.cumsum(counts)]).astype("int32"), device)
            self.shape = arg1.shape
        else:
            raise UsageError(
                "Construct CSRNDArray with either a tuple (data, indices, indptr) or a matrix of "
                f"NumPy, can't handle type {type(arg1).__name__}"
            )
        for name in ("data", "indices", "indptr"):
            part = getattr(self, name)
            if not isinstance(part, NDArray):
                raise UsageError(f"{name} of a CSRNDArray is an NDArray, got {type(part).__name__}")
            if name != "data" and part.dtype not in _INDEX:
                raise UsageError(f"{name} of a CSRNDArray is int32 or int64, got {part.dtype}")
        self.dtype = self.data.dtype

    def numpy(self) -> np.ndarray[Any, Any]:
        """The whole matrix, zeros included."""
        full = np.zeros(self.shape, self.dtype)
        counts = np.diff(self.indptr.numpy())
        full[np.repeat(np.arange(len(counts)), counts), self.indices.numpy()] = self.data.numpy()
        return full

    asnumpy = numpy


def array(
    source_array: Any,
    device: Any = None,
    shape: Sequence[int] | None = None,
    stype: str = "csr",
) -> CSRNDArray:
    """A sparse matrix of a NumPy matrix, or of its parts; `stype` is "csr". Raises UsageError where
    arg1 is neither (data, indices, indptr) with a shape nor a matrix, or indices are not int32 or
    int64."""
    if stype != "csr":
        raise NotImplementedError(f"stype={stype} is not supported: compressed rows ('csr') are")
    return CSRNDArray(source_array, shape=shape, device=device)


class SparsePlaceholderOp:
    """What is known of a sparse input: its shape, dtype and name."""

    def __init__(self, shape: Sequence[Any], nonzeros: Any, dtype: str, name: str) -> None:
        self.shape = tuple(shape)
        self.nonzeros = nonzeros
        self.dtype = dtype
        self.name = name
        self.stype = "unknown"


class CSRPlaceholderOp(SparsePlaceholderOp):
    """A sparse input in compressed rows: three placeholders, `data`, `indices` and `indptr`. Raises
    TilewrightError where `dtype` is no type such as 'float32'."""

    def __init__(self, shape: Sequence[Any], nonzeros: Any, dtype: str, name: str) -> None:
        super().__init__(shape, nonzeros, dtype, name)
        self.stype = "csr"
        self.data = _placeholder((nonzeros,), dtype=dtype, name=f"{name}_data")
        self.indices = _placeholder((nonzeros,), dtype="int32", name=f"{name}_indices")
        self.indptr = _placeholder((self.shape[0] + 1,), dtype="int32", name=f"{name}_indptr")


def placeholder(
    shape: Any,
    nonzeros: Any = None,
    dtype: str | None = None,
    name: str = "placeholder",
    stype: str | None = None,
) -> CSRPlaceholderOp:
    """A sparse input of `nonzeros` elements (default: 0), float32 by default, in `stype` "csr"."""
    if stype not in (None, "csr"):
        raise NotImplementedError(f"stype={stype} is not supported: compressed rows ('csr') are")
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    return CSRPlaceholderOp(sizes, 0 if nonzeros is None else nonzeros, dtype or "float32", name)
