"""Zeros between elements, and elements moved between channels and space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const, const_int
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ..layouts import layout_parts
from ..transform import INJECTIVE, pad
from ..utils import get_const_int, simplify


def dilate(
    data: Tensor, strides: Sequence[Any], dilation_value: float = 0.0, name: str = "DilatedInput"
) -> Tensor:
    """`data` with strides[k] - 1 elements of `dilation_value` between neighbours of dimension k.
    Takes any type, which the result keeps. Raises TilewrightError where strides are not as many as
    the dimensions of data."""
    if len(strides) != data.ndim:
        raise TilewrightError(
            f"data dimension and strides size dismatch : {data.ndim} vs {len(strides)}"
        )
    shape = [simplify((d - 1) * s + 1) for d, s in zip(data.shape, strides)]

    def element(*i: Any) -> Any:
        places, hit = [], []
        for j, s in zip(i, strides):
            if isinstance(s, int) and s == 1:
                places.append(j)
            else:
                places.append(O.floordiv(j, s))
                hit.append(O.floormod(j, s).equal(0))
        if not hit:
            return data(*i)
        return O.if_then_else(O.all(*hit), data(*places), cast(data.dtype, dilation_value))

    result: Tensor = compute(shape, element, name, "injective,dilate")
    return result


def _places(data: Tensor, layout: str, what: str) -> tuple[int, int, int]:
    """Which dimensions are C, H and W."""
    if layout not in ("NCHW", "NHWC") or data.ndim != 4:
        raise TilewrightError(f"{what}: layout is NCHW or NHWC, got {layout!r} for {data!r}")
    return layout.index("C"), layout.index("H"), layout.index("W")


def depth_to_space(
    data: Tensor, block_size: int, layout: str = "NCHW", mode: str = "DCR"
) -> Tensor:
    """Channels as blocks of `block_size` rows and columns: the number in the block counts before
    the new channel ("DCR") or behind it ("CDR"). Block by block, (N, C / block_size^2, H *
    block_size, W * block_size) of NCHW. Takes any type, which the result keeps. As DepthToSpace of
    ONNX. Raises TilewrightError where mode is neither 'DCR' nor 'CDR', where layout is neither NCHW
    nor NHWC, or does not fit the data."""
    c, h, w = _places(data, layout, "depth_to_space")
    if mode not in ("DCR", "CDR"):
        raise TilewrightError(f"depth_to_space: mode is 'DCR' or 'CDR', got {mode!r}")
    b = block_size
    shape = list(data.shape)
    channels = simplify(data.shape[c] // (b * b))
    shape[c], shape[h], shape[w] = channels, data.shape[h] * b, data.shape[w] * b

    def element(*i: Any) -> Any:
        at = list(i)
        number = i[h] % b * b + i[w] % b
        at[c] = number * channels + i[c] if mode == "DCR" else i[c] * b * b + number
        at[h], at[w] = i[h] // b, i[w] // b
        return data(*at)

    result: Tensor = compute(shape, element, "depth_to_space", INJECTIVE)
    return result


def space_to_depth(data: Tensor, block_size: int, layout: str = "NCHW") -> Tensor:
    """Blocks of `block_size` rows and columns as channels, the number in the block counting before
    the channel. (N, C * block_size^2, H / block_size, W / block_size) of NCHW. Takes any type,
    which the result keeps. As SpaceToDepth of ONNX. Raises TilewrightError where layout is neither
    NCHW nor NHWC, or does not fit the data."""
    c, h, w = _places(data, layout, "space_to_depth")
    b = block_size
    shape, channels = list(data.shape), data.shape[c]
    shape[c] = channels * (b * b)
    shape[h], shape[w] = simplify(data.shape[h] // b), simplify(data.shape[w] // b)

    def element(*i: Any) -> Any:
        at = list(i)
        number = i[c] // channels
        at[c] = i[c] % channels
        at[h], at[w] = i[h] * b + number // b, i[w] * b + number % b
        return data(*at)

    result: Tensor = compute(shape, element, "space_to_depth", INJECTIVE)
    return result


def space_to_batch_nd(
    data: Tensor,
    block_shape: Sequence[int],
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    pad_value: float = 0.0,
) -> Tensor:
    """Blocks of the padded dimensions from the second on, of `block_shape`, as parts of the batch:
    (product of blocks * N, dimensions / blocks, rest). Takes any type, which the result keeps. As
    TensorFlow's tf.space_to_batch_nd. Raises TilewrightError where a padded extent does not divide
    into blocks, where the padding has not as many values as the tensor has dimensions."""
    rank = len(block_shape)
    rest = [0] * (data.ndim - 1 - rank)
    padded = data
    if any([*pad_before, *pad_after]):
        padded = pad(data, [0, *pad_before, *rest], [0, *pad_after, *rest], pad_value)
    n, *size = padded.shape
    wrong = [d for d, b in zip(size, block_shape) if (const_int(simplify(d)) or 0) % b]
    if wrong:
        raise TilewrightError(f"space_to_batch_nd: {wrong[0]} elements do not divide into blocks")
    blocks = 1
    for b in block_shape:
        blocks *= b
    shape = [n * blocks, *(simplify(d // b) for d, b in zip(size, block_shape)), *size[rank:]]

    def element(*i: Any) -> Any:
        number = i[0] // n
        offsets: list[Any] = []
        for b in reversed(block_shape):
            offsets.insert(0, number % b)
            number = number // b
        at = [j * b + o for j, b, o in zip(i[1:], block_shape, offsets)]
        return padded(i[0] % n, *at, *i[1 + rank :])

    result: Tensor = compute(shape, element, "space_to_batch_nd", INJECTIVE)
    return result


def batch_to_space_nd(
    data: Tensor,
    block_shape: Sequence[int],
    crop_begin_list: Sequence[int],
    crop_end_list: Sequence[int],
) -> Tensor:
    """What space_to_batch_nd makes, back; without so many elements in front and behind of each
    dimension. Takes any type, which the result keeps. As TensorFlow's tf.batch_to_space_nd."""
    rank = len(block_shape)
    blocks = 1
    for b in block_shape:
        blocks *= b
    n = simplify(data.shape[0] // blocks)
    crops = list(zip(crop_begin_list, crop_end_list))
    size = [
        simplify(d * b - low - high)
        for d, b, (low, high) in zip(data.shape[1:], block_shape, crops)
    ]

    def element(*i: Any) -> Any:
        number: Any = const(0)
        at = []
        for j, b, (low, _) in zip(i[1:], block_shape, crops):
            number = number * b + (j + low) % b
            at.append((j + low) // b)
        return data(number * n + i[0], *at, *i[1 + rank :])

    shape = [n, *size, *data.shape[1 + rank :]]
    result: Tensor = compute(shape, element, "batch_to_space_nd", INJECTIVE)
    return result


def upsampling(
    data: Tensor,
    scale_h: float,
    scale_w: float,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Sequence[Any] | None = None,
) -> Tensor:
    """Images (N, C, H, W) or of another layout, `scale_h` times as high and `scale_w` times as
    wide: "nearest_neighbor" or "bilinear". `output_shape`: the whole result's, where it is known.
    Takes any type, which the result keeps. Raises TilewrightError where `layout` is no layout:
    letters, each once, small ones after their extents."""
    mode = "align_corners" if align_corners else "asymmetric"
    return _upsampled(data, "HW", (scale_h, scale_w), layout, method, mode, output_shape)


def upsampling3d(
    data: Tensor,
    scale_d: float,
    scale_h: float,
    scale_w: float,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
    output_shape: Sequence[Any] | None = None,
) -> Tensor:
    """As upsampling, of (N, C, D, H, W), also `scale_d` times as deep, with `scale_h` and `scale_w`
    (times, too): "nearest_neighbor" or "trilinear". Takes any type, which the result keeps. Raises
    TilewrightError where `layout` is no layout: letters, each once, small ones after their
    extents."""
    scales, mode = (scale_d, scale_h, scale_w), coordinate_transformation_mode
    return _upsampled(data, "DHW", scales, layout, method, mode, output_shape)


def _upsampled(
    data: Tensor,
    letters: str,
    scales: Sequence[float],
    layout: str,
    method: str,
    mode: str,
    output_shape: Sequence[Any] | None,
) -> Tensor:
    from ..image.sizes import resize2d, resize3d

    names = [x for x, _ in layout_parts(layout)]
    at = [names.index(c) for c in letters]
    given = None if output_shape is None else [output_shape[d] for d in at]
    size = given or [_scaled(data.shape[d], s) for d, s in zip(at, scales)]
    resize = resize2d if len(letters) == 2 else resize3d
    roi = (0.0,) * (2 * len(letters))
    return resize(data, roi, size, layout, method, mode, output_shape=output_shape)


def _scaled(extent: Any, scale: Any) -> int:
    return round(get_const_int(extent) * float(getattr(scale, "value", scale)))
