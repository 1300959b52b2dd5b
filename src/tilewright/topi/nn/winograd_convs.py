"""Winograd's convolutions (winograd.py) under TVM's names: square filters, stride 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.errors import TilewrightError
from ...loopir.expr import cast
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..transform import pad, transpose
from ..utils import const_matrix, get_const_int, of_rank
from .dilation import dilate
from .utils import FreeLayout, get_pad_tuple, named, several
from .winograd import (
    TAPS,
    tiles_of,
    transformed_filter,
    transformed_input,
    transformed_output,
    transforms,
)

_SMALL = 8  # rows of an image for which tiles of 4 would reach over the end


def winograd_transform_matrices(
    tile_size: int, kernel_size: int, out_dtype: str
) -> tuple[Tensor, Tensor, Tensor]:
    """A (a, m), B (a, a) and G (a, r) of Winograd's algorithm for m = `tile_size` outputs of r =
    `kernel_size` taps, a = m + r - 1: the outputs are A' [(G g G') * (B' d B)] A. Lavin and Gray,
    Fast Algorithms for Convolutional Neural Networks, CVPR 2016."""
    t = transforms(tile_size, kernel_size)
    a, b, g = (np.asarray(x, out_dtype) for x in (t.output, t.input, t.filter))
    return const_matrix(a.T, "A"), const_matrix(b.T, "B"), const_matrix(g, "G")


@of_rank(kernel=4)
def conv2d_winograd_weight_transform(kernel: Tensor, tile_size: int) -> Tensor:
    """Filters (F, C, K, K) transformed for tiles of `tile_size` outputs: (a, a, F, C). Takes
    numbers of any type, which the result keeps. Lavin and Gray, Fast Algorithms for Convolutional
    Neural Networks, CVPR 2016. Raises TilewrightError where the filters are not square."""
    return _transformed(kernel, tile_size, 2)


@of_rank(kernel=5)
def conv3d_winograd_weight_transform(kernel: Tensor, tile_size: int) -> Tensor:
    """Filters (F, C, D, K, K) transformed for tiles of `tile_size` outputs: of all three dimensions
    where they are alike and of 3 to 7 taps, (a, a, a, F, C), else of the last two, (a, a, D, F, C).
    Takes numbers of any type, which the result keeps. Lavin and Gray, Fast Algorithms for
    Convolutional Neural Networks, CVPR 2016."""
    depth, rows = (get_const_int(d) for d in kernel.shape[2:4])
    return _transformed(kernel, tile_size, 3 if depth == rows and 2 < depth < 8 else 2)


def _transformed(kernel: Tensor, tile: int, rank: int) -> Tensor:
    """The last `rank` dimensions of filters transformed, and in front; those before them follow,
    then filters and channels."""
    f, c, *window = (get_const_int(d) for d in kernel.shape)
    depth, taps = window[:-rank], window[-1]
    if window[-rank:] != [taps] * rank:
        raise TilewrightError(f"Winograd's filters are square, got {kernel!r}")
    matrix = const_matrix(np.asarray(transforms(tile, taps).filter, kernel.dtype), "G")
    axes = [reduce_axis((0, taps), f"r_k{d}") for d in "dhw"[-rank:]]

    def element(*i: Any) -> Any:
        rows, outer, (o, n) = i[:rank], i[rank:-2], i[-2:]
        value: Any = kernel(o, n, *outer, *axes)
        for row, axis in zip(rows, axes):
            value = value * matrix(row, axis)
        return reduce_sum(value, axis=axes)

    side = tile + taps - 1
    result: Tensor = compute((*[side] * rank, *depth, f, c), element, "transform_weight")
    return result


def _convolved(
    data: Tensor,
    weight: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None,
    pre_computed: bool,
    layout: str,
    free: FreeLayout | None = None,
    tile: int = 0,
    order: str = "",
) -> Tensor:
    """A convolution by Winograd's algorithm. Of filters that are transformed ahead, `tile`: outputs
    along a side of a tile, where they have other than TAPS taps; `order`: "CF" or "FC", which
    follows their places, by default CF for NCHW alone."""
    if data.ndim != 4:
        raise TilewrightError(f"Winograd's convolutions take images {layout}, got {data!r}")
    dtype = out_dtype or data.dtype
    of = ("OIHW" if layout == "NCHW" else "HWIO").index
    n, h, w, c = (get_const_int(data.shape[layout.index(d)]) for d in "NHWC")
    steps = several(dilation, 2)
    if not pre_computed and steps != [1, 1]:
        apart = dict(zip((of("H"), of("W")), steps))
        weight = dilate(weight, [apart.get(d, 1) for d in range(4)], name="dilated_filter")
        steps = [1, 1]
    laid = free.sizes if free is not None else None
    kernel = laid or [get_const_int(d) for d in weight.shape]
    ahead = kernel[0] + 1 - tile if tile else TAPS
    taps, wide = (ahead, ahead) if pre_computed else (kernel[of("H")], kernel[of("W")])
    if taps != wide or [*several(strides, 2), *steps] != [1] * 4:
        raise TilewrightError(
            "Winograd's convolutions have square filters and stride 1 (and filters transformed "
            "ahead dilation 1); topi.nn.conv2d takes all others"
        )
    pads = get_pad_tuple(padding, (taps, taps))
    oh, ow = h + pads[0] + pads[2] - taps + 1, w + pads[1] + pads[3] - taps + 1
    tile = kernel[0] - taps + 1 if pre_computed else _tile(taps, min(oh, ow))
    tiles = (tiles_of(oh, tile), tiles_of(ow, tile))
    moved = _moved(data, layout, (tile, taps), pads[:2], tiles, dtype)
    order = order or ("CF" if layout == "NCHW" else "FC")
    filters = kernel[2 + order.index("F") if pre_computed else of("O")]

    def tap(outer: Any, y: Any, x: Any, lane: Any) -> Any:
        own = (lane, outer[0], y, x) if layout == "NCHW" else (y, x, outer[0], lane)
        return cast(dtype, weight(*own))

    if pre_computed:
        ready = _ready_filter(weight, (kernel[0], c, filters), dtype, order, free)
    else:
        ready = transformed_filter(tap, tile, (c,), filters, None, taps)
    k = reduce_axis((0, c), "ci")
    product: Tensor = compute(
        (ready.shape[0], moved.shape[1], filters),
        lambda p, t, o: reduce_sum(moved(p, t, k) * ready(p, k, o), axis=k),
        "winograd_product",
    )

    def place(b: Any, y: Any, x: Any, o: Any) -> Any:
        return (), (b * tiles[0] + y // tile) * tiles[1] + x // tile, y, x, o

    how = (place, "conv2d_winograd", None, taps)
    result = transformed_output(product, tile, (n, oh, ow, filters), (1, 2), *how)
    return transpose(result, (0, 3, 1, 2)) if layout == "NCHW" else result


def _moved(
    data: Tensor,
    layout: str,
    sides: tuple[int, int],
    before: Sequence[int],
    tiles: tuple[int, int],
    dtype: str,
) -> Tensor:
    """The transformed tiles (a * a, N * TH * TW, C) of images, padded `before` their rows and
    columns; `sides`: outputs along a side of a tile, and taps."""
    at, (tile, taps), (th, tw) = layout.index, sides, tiles
    low, high = [0] * 4, [0] * 4
    for d, b, count in zip("HW", before, tiles):
        low[at(d)] = b
        high[at(d)] = count * tile + taps - 1 - get_const_int(data.shape[at(d)]) - b
    padded = pad(data, low, high, 0.0, "data_pad")

    def taken(outer: Any, t: Any, y: Any, x: Any, lane: Any) -> Any:
        rows, columns = t // tw % th * tile + y, t % tw * tile + x
        place = dict(zip("NHWC", (t // (th * tw), rows, columns, lane)))
        return cast(dtype, padded(*(place[d] for d in layout)))

    n, c = (get_const_int(data.shape[at(d)]) for d in "NC")
    return transformed_input(taken, tile, (), n * th * tw, c, taps)


def _tile(taps: int, size: int) -> int:
    """Outputs along a side of a tile: 4, where images are not small and transforms are exact enough
    (with more taps numbers of them differ by powers of more than 2)."""
    return 4 if size >= _SMALL and taps <= TAPS else 2


def _free(
    weight: Tensor, layout: str, pre_computed: bool, rewritten: str, original: Any
) -> FreeLayout:
    """Where transformed filters lie: those of NCHW have no layout of a search's."""
    told = rewritten if pre_computed and layout == "NHWC" else ""
    return FreeLayout(weight, told, original, "eps nu co ci")


def _ready_filter(
    weight: Tensor, sizes: Sequence[int], dtype: str, order: str, free: FreeLayout | None
) -> Tensor:
    """Filters transformed ahead, (a, a, C, F) or in order "FC" (a, a, F, C), as matrices (a * a, C,
    F), from where they lie."""
    side, c, filters = sizes
    source = weight
    if free is not None and free.sizes:
        laid: Tensor = compute(
            (side, side, filters, c),
            lambda eps, nu, co, ci: weight(eps, nu, co, ci),
            "filters_in_order",
            "injective",
            free.attrs,
        )
        source = free.read(laid)

    def element(p: Any, i: Any, o: Any) -> Any:
        at = (i, o) if order == "CF" else (o, i)
        return cast(dtype, source(p // side, p % side, *at))

    result: Tensor = compute((side * side, c, filters), element, "winograd_filter", "injective")
    return result


def conv2d_winograd_of_height(
    data: Tensor,
    weight: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None,
    layout: str = "NCHW",
    order: str = "",
) -> Tensor:
    """As conv2d_winograd_nchw of filters (a, a, C, F), or conv2d_winograd_nhwc of (a, a, F, C) (or
    in `order` "CF" too of (a, a, C, F)), that are transformed ahead for tiles of 4 outputs, where
    the data has a multiple of 8 rows, else of 2: of a + 1 - 4, or a + 1 - 2, taps. Lavin and Gray,
    Fast Algorithms for Convolutional Neural Networks, CVPR 2016. Raises TilewrightError where the
    data has not four dimensions, the filters are not square, or stride or dilation is not 1."""
    tile = 4 if get_const_int(data.shape[layout.index("H")]) % 8 == 0 else 2
    how = (strides, padding, dilation, out_dtype, True, layout, None, tile, order)
    return _convolved(data, weight, *how)


def _winograd_in(layout: str, text: str) -> Callable[..., Tensor]:
    def convolved(
        data: Tensor,
        weight: Tensor,
        strides: Any,
        padding: Any,
        dilation: Any,
        out_dtype: str | None,
        pre_computed: bool = False,
        auto_scheduler_rewritten_layout: str = "",
        meta_schedule_original_shape: Any = None,
    ) -> Tensor:
        """Raises TilewrightError where data has not four dimensions, the filters are not square, or
        a stride is not 1. Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR
        2016."""
        free = _free(
            weight,
            layout,
            pre_computed,
            auto_scheduler_rewritten_layout,
            meta_schedule_original_shape,
        )
        how = (strides, padding, dilation, out_dtype, pre_computed, layout, free)
        return _convolved(data, weight, *how)

    return named(convolved, f"conv2d_winograd_{layout.lower()}", text)


def _ready_winograd_in(layout: str) -> Callable[..., Tensor]:
    def convolved(
        data: Tensor,
        weight: Tensor,
        strides: Any,
        padding: Any,
        dilation: Any,
        out_dtype: str | None,
        auto_scheduler_rewritten_layout: str = "",
        meta_schedule_original_shape: Any = None,
    ) -> Tensor:
        """Raises TilewrightError where data has not four dimensions, the filters are not square, or
        a stride is not 1. Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR
        2016."""
        free = _free(
            weight, layout, True, auto_scheduler_rewritten_layout, meta_schedule_original_shape
        )
        how = (strides, padding, dilation, out_dtype, True, layout, free)
        return _convolved(data, weight, *how)

    name = f"conv2d_winograd_{layout.lower()}"
    text = f"As {name} of transformed filters of 3 x 3 taps."
    return named(convolved, f"{name}_without_weight_transform", text)


conv2d_winograd_nhwc = _winograd_in(
    "NHWC",
    """data (N, H, W, C), weight (K, K, C, F), or where `pre_computed` (a, a, F, C), transformed
    from 3 x 3. Returns (N, OH, OW, F) of `out_dtype` (default: of data).""",
)
conv2d_winograd_nchw = _winograd_in(
    "NCHW",
    """data (N, C, H, W), weight (F, C, K, K), or where `pre_computed` (a, a, C, F), transformed
    from 3 x 3. Returns (N, F, OH, OW) of `out_dtype` (default: of data).""",
)
conv2d_winograd_nhwc_without_weight_transform = _ready_winograd_in("NHWC")
conv2d_winograd_nchw_without_weight_transform = _ready_winograd_in("NCHW")
