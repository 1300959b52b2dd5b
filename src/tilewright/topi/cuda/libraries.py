"""Operators under the names of the libraries that TVM calls for them on GPUs, cuBLAS, cuDNN and
Thrust: kernels of our own compute the same. `workspace`, memory for a library, is not needed.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add
from typing import Any

from ...base.errors import TilewrightError
from ...loopir.expr import Add, Max, Min, Mul
from ...loopir.op import max_value, min_value
from ...tensor.axes import var
from ...tensor.tensor import Tensor
from ..names import under
from ..nn.convs import conv
from ..nn.dense import batch_matmul, dense, matmul
from ..nn.softmax import log_softmax, softmax
from ..sorting import sort, topk
from ..transform import reshape
from .lines import argsort, exclusive_scan, inclusive_scan, sort_by_key

batch_matmul_cublas = under(
    batch_matmul, "x y", out_shape=None, out_dtype=None, transpose_a=False, transpose_b=True
)
dense_cublas = under(dense, "data weight", bias=None, out_dtype=None)
matmul_cublas = under(
    matmul, "tensor_a tensor_b", bias=None, out_dtype=None, transpose_a=False, transpose_b=False
)
softmax_cudnn = under(softmax, "x", axis=-1)


def log_softmax_cudnn(x: Tensor, axis: int = -1) -> Tensor:
    """topi.nn.log_softmax of a matrix along its last dimension. Raises TilewrightError where x is
    no matrix, or axis not its last, where `axis` is no integer, or no dimension of the tensor."""
    if x.ndim != 2 or axis not in (-1, 1):
        raise TilewrightError(f"log_softmax_cudnn is of the rows of matrices, got {x!r}, {axis}")
    return log_softmax(x, axis)


_FILTERS = {"NCHW": "OIHW", "NHWC": "OHWI", "NCDHW": "OIDHW", "NDHWC": "ODHWI"}


def conv_cudnn(
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    layout: str,
    out_dtype: str | None,
) -> Tensor:
    """topi.nn.conv of images or volumes: data (N, C, ...) and kernel (F, C / groups, ...), or in
    `layout` NHWC or NDHWC (N, ..., C) and (F, ..., C / groups). Returns `out_dtype` (None: of
    data); TilewrightError for another layout."""
    if layout not in _FILTERS or len(layout) != data.ndim:
        raise TilewrightError(f"layout {layout!r} of {data!r}: channels are first or last")
    rest = (groups, layout, _FILTERS[layout], out_dtype)
    return conv(data, kernel, strides, padding, dilation, *rest)


_CONV = "data kernel strides padding dilation"
conv2d_cudnn = under(conv_cudnn, _CONV, groups=1, layout="NCHW", out_dtype="float32")
conv3d_cudnn = under(conv_cudnn, f"{_CONV} groups", layout="NCDHW", out_dtype="float32")


def sort_thrust(
    data: Tensor, axis: int = -1, is_ascend: int = 1, workspace: Tensor | None = None
) -> Tensor:
    """topi.sort."""
    return sort(data, axis, is_ascend)


def argsort_thrust(
    data: Tensor,
    axis: int = -1,
    is_ascend: int = 1,
    dtype: str = "float32",
    ret_type: str = "indices",
    workspace: Tensor | None = None,
) -> Any:
    """topi.cuda.argsort. Raises TilewrightError where ret_type is neither 'both' nor 'indices'."""
    return argsort(data, axis, is_ascend, dtype, ret_type)


def topk_thrust(
    data: Tensor,
    k: Any = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int64",
    workspace: Tensor | None = None,
) -> Any:
    """topi.topk. Raises OperandError where `k` is neither a number nor an expression, and
    TilewrightError where ret_type is unknown."""
    return topk(data, k, axis, ret_type, is_ascend, dtype)


def stable_sort_by_key_thrust(
    keys: Tensor, values: Tensor, for_scatter: bool = False, workspace: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Keys along the last axis from the smallest on, and the values that stand where they stood.
    With `for_scatter` keys of several dimensions are taken as one line."""
    if for_scatter:
        keys, values = reshape(keys, (-1,)), reshape(values, (-1,))
    return sort_by_key(keys, values, -1, 1)


def _neutral(binop: Callable[[Any, Any], Any], dtype: str) -> Any:
    """The element that changes none that it is joined with; TilewrightError where it is unknown."""
    one, other = var("a", dtype), var("b", dtype)
    found = type(binop(one, other))
    if found in (Max, Min):
        return min_value(dtype) if found is Max else max_value(dtype)
    if found not in (Add, Mul):
        raise TilewrightError(f"scan_thrust: {binop} is none of add, multiply, max and min")
    return 0 if found is Add else 1


def scan_thrust(
    data: Tensor,
    output_dtype: str,
    exclusive: bool = True,
    return_reduction: bool = False,
    binop: Callable[[Any, Any], Any] = add,
    workspace: Tensor | None = None,
) -> Any:
    """Of each line along the last axis what `binop`, a sum by default, makes of all elements before
    each, or up to each where not `exclusive`; with `return_reduction` also of each whole line.
    Raises TilewrightError where binop is none of add, multiply, max and min."""
    identity = _neutral(binop, output_dtype)
    if exclusive:
        return exclusive_scan(data, -1, return_reduction, output_dtype, binop, identity)
    found = inclusive_scan(data, -1, output_dtype, binop, identity)
    if not return_reduction:
        return found
    return found, exclusive_scan(data, -1, True, output_dtype, binop, identity)[1]
