"""Convolutions on channels in blocks under TVM's names, and changes between layouts."""

from __future__ import annotations

from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const, const_int
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ..elemwise import unary
from ..transform import pack_channels, unpack_channels
from ..utils import get_const_int, of_rank, simplify
from .blocked import conv_nchwc
from .depthwise import check_blocks
from .utils import get_pad_tuple, several

_FOUR = 4  # bytes that an instruction of a GPU multiplies and adds


def _in_blocks(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layouts: tuple[str, str],
    out_dtype: str | None,
) -> Tensor:
    check_blocks(layouts[0], data.shape[-1])
    check_blocks(layouts[1], kernel.shape[5])
    steps = several(dilation, 2)
    reach = [simplify((k - 1) * d + 1) for k, d in zip(kernel.shape[2:4], steps)]
    how = (several(stride, 2), list(get_pad_tuple(padding, reach)), steps, out_dtype)
    chunks, own = get_const_int(data.shape[1]), get_const_int(kernel.shape[1])
    if chunks % own:
        raise TilewrightError(f"convolution: blocks of {data!r} and {kernel!r} form no groups")
    return conv_nchwc(data, kernel, *how, chunks // own)


@of_rank(data=5)
def conv2d_NCHWc(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    out_dtype: str | None = "float32",
) -> Tensor:
    """data (N, C / b, H, W, b), kernel (F / f, C / groups / b, KH, KW, b, f); the layouts' blocks
    have to be the tensors'. Returns (N, F / f, OH, OW, f) of `out_dtype`. Raises TilewrightError
    where the blocks of `data` and `kernel` form no groups, where a layout has its channels in
    blocks of another size, where data and kernel have not the same channels, and UsageError where
    `data` or `kernel` has an extent or a value that has to be constant and is not."""
    how = (stride, padding, dilation, (layout, out_layout), out_dtype)
    return _in_blocks(data, kernel, *how)


def conv2d_NCHWc_int8(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    out_dtype: str = "int32",
    n_elems: int = 4,
) -> Tensor:
    """As conv2d_NCHWc, of bytes: kernel (F / f, C / groups / b, KH, KW, b / n_elems, f, n_elems),
    which instructions take that add up products of `n_elems` neighbours. Raises TilewrightError
    where kernel has not n_elems channels innermost, where the blocks of `data` and `kernel` form no
    groups, where a layout has its channels in blocks of another size, where data and kernel have
    not the same channels, and UsageError where `data` or `kernel` has an extent or a value that has
    to be constant and is not."""
    if kernel.ndim != 7 or const_int(kernel.shape[6]) != n_elems:
        raise TilewrightError(f"conv2d_NCHWc_int8: {kernel!r} has not {n_elems} channels innermost")
    how = (stride, padding, dilation, (layout, out_layout), out_dtype)
    return _in_blocks(data, kernel, *how)


def conv2d_NCHWc_by_four(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_dtype: str,
) -> Tensor:
    """Convolution of bytes in blocks of four channels, as instructions of GPUs take them: data (N,
    C, H, W) and kernel (F, C, KH, KW), or in blocks, (N, C / 4, H, W, 4) and (F / 4, C / 4, KH, KW,
    4, 4), filters before channels. Sums are int32. Returns (N, F / 4, OH, OW, 4) of `out_dtype`.
    Raises TilewrightError where layout has no blocks of four channels, where data and kernel do not
    form groups, where the blocks of `data` form no groups, and UsageError where `data` has an
    extent or a value that has to be constant and is not."""
    if layout not in ("NCHW", "NCHW4c"):
        raise TilewrightError(f"convolution of blocks of four channels in layout {layout!r}")
    return group_conv2d_NCHWc_int8(data, kernel, stride, padding, dilation, 1, out_dtype)


def group_conv2d_NCHWc_int8(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: str = "float32",
) -> Tensor:
    """As conv2d_NCHWc_by_four in groups: kernel (F, C / groups, KH, KW). Raises UsageError where
    `data` has an extent or a value that has to be constant and is not, and TilewrightError where
    data and kernel do not form groups, where the blocks of `data` form no groups, where a layout
    has its channels in blocks of another size, where data and kernel have not the same channels."""
    if data.ndim == 4:
        data = pack_channels(data, _FOUR)
    plain = kernel.ndim == 4
    outer = list(kernel.shape[:4])
    if plain:
        outer[:2] = [d // _FOUR for d in outer[:2]]

    def element(fo: Any, co: Any, y: Any, x: Any, _: Any, f: Any, c: Any) -> Any:
        if plain:
            return kernel(fo * _FOUR + f, co * _FOUR + c, y, x)
        return kernel(fo, co, y, x, f, c)

    shape = (*outer, 1, _FOUR, _FOUR)
    packed: Tensor = compute(shape, element, "packed_kernel", "injective")
    if get_const_int(data.shape[1]) != get_const_int(packed.shape[1]) * groups:
        raise TilewrightError(f"convolution: {data!r} and {kernel!r} do not form {groups} groups")
    how = (stride, padding, dilation, ("NCHW4c", "NCHW4c"), "int32")
    sums = _in_blocks(data, packed, *how)
    return unary(lambda v: cast(out_dtype, v), sums, "T_cast")


@of_rank(data=5, kernel=5)
def conv2d_NCHWc_OIHWo(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    out_dtype: str | None = "float32",
) -> Tensor:
    """data (N, C / b, H, W, b), kernel (F / f, C, KH, KW, f). Returns (N, F / f, OH, OW, f) of
    `out_dtype`. Raises TilewrightError where data and kernel have not the same channels, where the
    blocks of `data` form no groups, where a layout has its channels in blocks of another size, and
    UsageError where `data` has an extent or a value that has to be constant and is not."""
    _, blocks, _, _, lanes = data.shape
    chunks, channels, kh, kw, out_lanes = kernel.shape
    if const_int(simplify(blocks * lanes)) != const_int(channels):
        raise TilewrightError(f"convolution: {data!r} has not the channels of {kernel!r}")

    def element(fo: Any, co: Any, y: Any, x: Any, ci: Any, fi: Any) -> Any:
        return kernel(fo, co * lanes + ci, y, x, fi)

    shape = (chunks, blocks, kh, kw, lanes, out_lanes)
    packed: Tensor = compute(shape, element, "kernel_blocks", "injective")
    how = (stride, padding, dilation, (layout, out_layout), out_dtype)
    return _in_blocks(data, packed, *how)


def unpack_NCHWc_to_nchw(packed_out: Tensor, out_dtype: str) -> Tensor:
    """(N, C / b, H, W, b) to (N, C, H, W), of another type."""
    plain = unpack_channels(packed_out)
    result: Tensor = compute(
        plain.shape, lambda *i: cast(out_dtype, plain(*i)), "output_unpack", "injective"
    )
    return result


def conv2d_gemm_weight_transform(
    kernel: Tensor,
    tile_N: int,
    tile_K: int,
    use_scalable_vectors: bool = False,
    use_sme: bool = False,
) -> Tensor:
    """Filters (KH, KW, C, F) as a matrix (KH * KW * C, F) in tiles, turned around: (N tiles, K
    tiles, tile_N, tile_K); what tiles reach behind it is zero. Takes any type, which the result
    keeps. Raises TilewrightError where vectors of unknown length are asked for."""
    if use_scalable_vectors or use_sme:
        raise TilewrightError("vectors whose length is not known ahead are not generated here")
    kh, kw, c, f = (get_const_int(d) for d in kernel.shape)
    depth = kh * kw * c

    def element(x: Any, y: Any, z: Any, w: Any) -> Any:
        column, row = x * tile_N + z, y * tile_K + w
        value = kernel(row // c // kw, row // c % kw, row % c, column)
        inside = O.all(column < f, row < depth)
        exact = f % tile_N == 0 and depth % tile_K == 0
        return value if exact else O.if_then_else(inside, value, const(0, kernel.dtype))

    shape = (-(-f // tile_N), -(-depth // tile_K), tile_N, tile_K)
    result: Tensor = compute(shape, element, "weight_block_reshape", "injective")
    return result
