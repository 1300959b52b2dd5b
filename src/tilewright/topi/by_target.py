"""Operators of topi.nn and others under the signatures that they have in TVM's modules of targets:
`topi.cuda.conv2d_nchw(data, kernel, strides, padding, dilation, out_dtype="float32")`, ..."""

from __future__ import annotations

from typing import Any

from ..base.errors import TilewrightError
from ..tensor.compute import compute
from ..tensor.tensor import Tensor
from .elemwise import left_shift as shift_left
from .elemwise import right_shift as shift_right
from .joined import joined
from .names import under
from .nn.bits import bitserial_conv2d_nhwc as bits_nhwc
from .nn.bits import bitserial_dense as bits_dense
from .nn.blocked_convs import conv2d_NCHWc as conv_blocked
from .nn.blocked_convs import conv2d_NCHWc_int8 as conv_blocked_int8
from .nn.conv_transpose import conv1d_transpose_ncw as transpose_ncw
from .nn.conv_transpose import conv2d_transpose_nchw as transpose_nchw
from .nn.conv_transpose import conv3d_transpose_ncdhw as transpose_ncdhw
from .nn.convs import conv
from .nn.convs import conv1d_ncw as conv_ncw
from .nn.convs import conv1d_nwc as conv_nwc
from .nn.convs import conv2d_nchw as conv_nchw
from .nn.convs import conv2d_nhwc as conv_nhwc
from .nn.convs import conv3d_ncdhw as conv_ncdhw
from .nn.convs import conv3d_ndhwc as conv_ndhwc
from .nn.convs import group_conv1d_ncw as group_ncw
from .nn.convs import group_conv1d_nwc as group_nwc
from .nn.convs import group_conv2d_nchw as group_nchw
from .nn.deformable import deformable_conv2d_nchw as deformable_nchw
from .nn.dense import batch_matmul as matmuls
from .nn.dense import dense as dense_layer
from .nn.dense import matmul
from .nn.depthwise import depthwise_conv2d_nchw as depthwise_nchw
from .nn.depthwise import depthwise_conv2d_NCHWc as depthwise_blocked
from .nn.depthwise import depthwise_conv2d_nhwc as depthwise_nhwc
from .nn.sparse import sparse_conv2d
from .nn.sparse import sparse_dense as sparse_layer
from .nn.winograd_convs import conv2d_winograd_nchw as winograd_nchw
from .nn.winograd_convs import conv2d_winograd_nhwc as winograd_nhwc
from .nn.winograd_convs import conv2d_winograd_of_height as winograd_ready

_CONV = "data kernel strides padding dilation"
_TRANSPOSE = "data kernel stride padding out_dtype output_padding"

left_shift, right_shift = (under(f, "x n") for f in (shift_left, shift_right))
concatenate = under(joined, "data", axis=0)

conv1d_ncw = under(conv_ncw, _CONV, out_dtype="float32")
conv1d_nwc = under(conv_nwc, _CONV, out_dtype="float32")
group_conv1d_ncw = under(group_ncw, f"{_CONV} groups", out_dtype="float32")
group_conv1d_nwc = under(group_nwc, f"{_CONV} groups", out_dtype="float32")
conv1d_transpose_ncw = under(transpose_ncw, _TRANSPOSE)

conv2d_nchw = under(conv_nchw, f"{_CONV} out_dtype")
conv2d_nchw_float = under(conv_nchw, _CONV, out_dtype="float32")
conv2d_nchw_stride = under(conv_nchw, "data kernel stride padding dilation", out_dtype="float32")
conv2d_nchw_int = under(conv_nchw, _CONV, out_dtype="int32")
conv2d_nhwc = under(conv_nhwc, f"{_CONV} out_dtype")
conv2d_nhwc_float = under(conv_nhwc, _CONV, out_dtype="float32")
conv2d_NCHWc = under(conv_blocked, f"{_CONV} layout out_layout out_dtype")
conv2d_NCHWc_float = under(conv_blocked, f"{_CONV} layout out_layout", out_dtype="float32")
conv2d_NCHWc_int8 = under(conv_blocked_int8, f"{_CONV} layout out_layout out_dtype")
conv2d_transpose_nchw = under(
    transpose_nchw, "data kernel strides padding out_dtype output_padding"
)
conv2d_transpose_nchw_stride = under(transpose_nchw, _TRANSPOSE)
conv2d_nchw_winograd = under(winograd_nchw, f"{_CONV} out_dtype")
conv2d_nchw_winograd_without_weight_transform = under(winograd_ready, f"{_CONV} out_dtype")
conv2d_nhwc_winograd_direct = under(winograd_nhwc, f"{_CONV} out_dtype")
group_conv2d_nchw = under(group_nchw, f"{_CONV} groups out_dtype")
group_conv2d_nchw_float = under(
    group_nchw, "data kernel stride padding dilation groups", out_dtype="float32"
)
deformable_conv2d_nchw = under(
    deformable_nchw, f"data offset {_CONV[5:]} deformable_groups groups out_dtype"
)

conv3d_ncdhw = under(conv_ncdhw, f"{_CONV} groups out_dtype")
conv3d_ndhwc = under(conv_ndhwc, f"{_CONV} groups out_dtype")
conv3d_ncdhw_float = under(conv_ncdhw, f"{_CONV} groups", out_dtype="float32")
conv3d_ndhwc_float = under(conv_ndhwc, f"{_CONV} groups", out_dtype="float32")
conv3d_transpose_ncdhw = under(
    transpose_ncdhw, "data kernel strides padding out_dtype output_padding"
)
conv3d_transpose_ncdhw_stride = under(transpose_ncdhw, _TRANSPOSE)

depthwise_conv2d_nchw = under(depthwise_nchw, f"{_CONV} out_dtype")
depthwise_conv2d_NCHWc = under(depthwise_blocked, f"{_CONV} layout out_layout", out_dtype=None)
depthwise_conv2d_nhwc = under(depthwise_nhwc, f"{_CONV} kernel_layout out_dtype")


def conv2d_hwnc_tensorcore(
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    in_dtype: str,
    out_dtype: str = "int32",
) -> Tensor:
    """data (H, W, N, C), kernel (KH, KW, F, C), or both in tiles, (H, W, N / m, C / k, m, k) and
    (KH, KW, F / n, C / k, n, k), of integers of 4 or 8 bits. Returns (OH, OW, N, F) of
    `out_dtype`. Raises TilewrightError where `data` or `kernel` is neither int4 nor int8."""
    for x in (data, kernel):
        if x.dtype not in ("int4", "uint4", "int8", "uint8"):
            raise TilewrightError(f"conv2d_hwnc_tensorcore is of int4 or int8, got {x!r}")
    rest = (strides, padding, dilation, 1, "HWNC", "HWOI", out_dtype)
    return conv(_untiled(data), _untiled(kernel), *rest)


def _untiled(x: Tensor) -> Tensor:
    """The last two dimensions of four, of which six hold tiles."""
    if x.ndim == 4:
        return x
    a, b, c, d, rows, columns = x.shape
    result: Tensor = compute(
        (a, b, c * rows, d * columns),
        lambda i, j, k, m: x(i, j, k // rows, m // columns, k % rows, m % columns),
        "untiled",
        "injective",
    )
    return result


def conv2d_nhwc_winograd_ready(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, out_dtype: str | None
) -> Tensor:
    """As conv2d_nchw_winograd_without_weight_transform, of data (N, H, W, C). Lavin and Gray, Fast
    Algorithms for Convolutional Neural Networks, CVPR 2016. Raises TilewrightError where the data
    has not four dimensions, the filters are not square, or stride or dilation is not 1."""
    return winograd_ready(data, kernel, strides, padding, dilation, out_dtype, "NHWC", "CF")


conv2d_nhwc_tensorcore = under(conv_nhwc, f"{_CONV} out_dtype")
conv3d_ndhwc_tensorcore = under(conv_ndhwc, f"{_CONV} groups out_dtype")

dense = under(dense_layer, "data weight", bias=None, out_dtype=None)
matmul_default = under(
    matmul, "tensor_a tensor_b", bias=None, out_dtype=None, transpose_a=False, transpose_b=False
)
batch_matmul = under(
    matmuls, "tensor_a tensor_b",
    out_shape=None, out_dtype=None, transpose_a=False, transpose_b=True,
)  # fmt: skip
batch_matmul_xy = under(
    matmuls, "x y", out_shape=None, out_dtype=None, transpose_a=False, transpose_b=True
)
bitserial_conv2d_nhwc = under(
    bits_nhwc,
    "data kernel stride padding activation_bits weight_bits pack_dtype out_dtype unipolar",
)
bitserial_dense = under(
    bits_dense, "data weight data_bits weight_bits pack_dtype out_dtype unipolar"
)
sparse_dense_tir = under(sparse_layer, "data w_data w_indices w_indptr")
sparse_dense = under(
    sparse_layer, "data weight_data weight_indices weight_indptr", sparse_lhs=False
)


def spconv2d_3x3_nhwc(
    data: Tensor, wdat: Tensor, wind: Tensor, wptr: Tensor, layout: str = "NHWC"
) -> Tensor:
    """`topi.nn.sparse_conv2d` by windows of 3 x 3. Raises TilewrightError where layout is neither
    NHWC nor NCHW, or kernel_size neither 1 nor 3."""
    return sparse_conv2d(data, wdat, wind, wptr, layout, 3)


def spconv2d_3x3_nchw(
    data: Tensor, wdat: Tensor, wind: Tensor, wptr: Tensor, layout: str = "NCHW"
) -> Tensor:
    """`topi.nn.sparse_conv2d` by windows of 3 x 3, of images by channels. Raises TilewrightError
    where layout is neither NHWC nor NCHW, or kernel_size neither 1 nor 3."""
    return sparse_conv2d(data, wdat, wind, wptr, layout, 3)
