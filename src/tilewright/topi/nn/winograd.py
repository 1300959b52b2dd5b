"""Winograd's minimal filtering: 3x3 convolutions of stride 1 with fewer products.

The image is cut into tiles of m x m outputs. With a = m + 2, a tile d of a x a inputs and a filter
g give the outputs A' [(G g G') * (B' d B)] A, where * is by elements and ' transposes: a * a
products instead of 9 * m * m: 16 for 36 (m = 2), 36 for 144 (m = 4), 64 for 324 (m = 6). Over
channels they are a * a products of matrices. Three operations, each a kernel: `winograd_input`
makes the transformed inputs, `winograd_product` multiplies, `winograd_output` makes the outputs;
filters are transformed ahead of time by `winograd_kernel`. Channels are blocked, as in
conv_nchwc.

Transforms are written out as sums of the terms that are not zero, one for each place in a tile, and
chosen by the place: schedules unroll it. The largest error over the largest output was 3e-7 for
direct convolutions of ResNet's sizes, 9e-7 for m = 2, 1e-5 for m = 4 and 2e-5 for m = 6.

Lavin, Gray: Fast Algorithms for Convolutional Neural Networks, CVPR 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import const, const_int
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..transform import pad
from .windows import conv_extent

TAPS = 3
ERRORS = {2: 2e-6, 4: 3e-5, 6: 8e-5}
"""By the outputs along a side of a tile, a bound of the error over the largest output."""
TILES = (2, 4)  # that networks use
DIRECT_RATE, RATE = 0.95, 0.8  # of the peak
MOVED_BYTE = 3.0
FILTER_BYTE = 5.2
WORTHWHILE = 0.85  # of the estimate for the direct convolution; the rest is for kernels' starts
LEAST = 1 << 20  # products of a convolution; of fewer, starting three kernels takes too long
WINDOW = "winograd_window"

Rows = Sequence[Sequence[float]]

POINTS: dict[int, tuple[str, ...]] = {
    3: ("0", "1", "-1"),
    5: ("0", "1", "-1", "2", "-2"),
    7: ("0", "1", "-1", "1/2", "-1/2", "3/2", "-3/2"),
}
_MORE_POINTS = ("0", "1", "-1", "2", "-2", "1/2", "-1/2", "3", "-3", "1/3", "-1/3")
"""Where polynomials are evaluated, infinity aside, by how many points are needed: as many as
outputs and taps, less 2. Those of tiles of 6 were the best of four sets: the
largest error over the largest output was 2.0e-5, with 2 in the place of 3/2 it was 2.8e-5."""


@dataclass(frozen=True)
class Transforms:
    """B', G and A' of Winograd's algorithm: a x a, a x 3 and m x a."""

    input: Rows
    filter: Rows
    output: Rows


@cache
def transforms(tile: int, taps: int = TAPS) -> Transforms:
    """Those for tiles of `tile` outputs along a side, by interpolation at POINTS (Toom, Cook)."""
    count = tile + taps - 2
    points = [Fraction(text) for text in POINTS.get(count, _MORE_POINTS[:count])]
    if len(points) < count:
        raise TilewrightError(f"Winograd's algorithm for {tile} outputs of {taps} taps: too many")
    inputs: list[list[Fraction]] = []
    filters: list[list[Fraction]] = []
    for n, at in enumerate(points):
        others = [*points[:n], *points[n + 1 :]]
        scale = prod((at - other for other in others), start=Fraction(1))
        sign = -1 if n == 0 and scale < 0 else 1
        inputs.append([sign * c for c in _expanded(others)] + [Fraction(0)])
        filters.append([sign * at**k / scale for k in range(taps)])
    inputs.append(_expanded(points))
    filters.append([Fraction(k == taps - 1) for k in range(taps)])
    outputs = [[*(at**k for at in points), Fraction(k == tile - 1)] for k in range(tile)]
    return Transforms(*map(_rounded, (inputs, filters, outputs)))


def _expanded(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of the polynomial with these roots, from the constant on."""
    found = [Fraction(1)]
    for root in roots:
        found = [
            low - root * high for low, high in zip([Fraction(0), *found], [*found, Fraction(0)])
        ]
    return found


def _rounded(rows: Sequence[Sequence[Fraction]]) -> Rows:
    return tuple(tuple(float(x) for x in row) for row in rows)


def winograd_kernel(kernel: np.ndarray[Any, Any], tile: int, block: int) -> np.ndarray[Any, Any]:
    """Filters (F, C, ..., 3, 3) to (a * a, F / block, C / block, ..., block, block), filters
    last. Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016."""
    rows = np.asarray(transforms(tile).filter)
    f, c, *depth, _, _ = kernel.shape
    d = prod(depth)
    blocks = kernel.reshape(f // block, block, c // block, block, d, TAPS * TAPS)
    taps = np.ascontiguousarray(blocks.transpose(5, 0, 2, 4, 3, 1)).reshape(TAPS * TAPS, -1)
    moved: np.ndarray[Any, Any] = np.kron(rows, rows).astype(kernel.dtype) @ taps
    return moved.reshape(-1, f // block, c // block, *depth, block, block)


def best_tile(
    images: int,
    size: tuple[int, int],
    channels: int,
    filters: int,
    tiles: Sequence[int] = TILES,
    ahead: bool = True,
    depth: int = 1,
    frames: float = 1.0,
) -> int:
    """The side of the tiles that make a convolution with `size` outputs fastest, 0 for none.
    `ahead`: whether filters are transformed ahead of time; `depth`: their taps in dimensions before
    the last two, of which an output sees `frames` in the mean, and padding in the place of others.

    Products become fewer, transforms and larger filters are added. A rough model of a CPU chooses,
    in products: what they cost at the rate of each kernel, a byte that transforms move, a byte of
    filters, which come from memory. Its numbers were measured on two cores with AVX-512 and 48 GB/s
    from memory. On two with AVX2 they chose the fastest of the three ways in 21 of 27 layers of
    networks, and at worst (13 x 13, 48 to 192 channels) one that took 2.1 times as long.
    """
    taps, product = TAPS * TAPS, channels * filters
    direct = images * prod(size) * product * taps * frames
    if direct < LEAST:
        return 0
    loads = FILTER_BYTE * 4 * product * depth  # of filters, by their places
    least, chosen = WORTHWHILE * (direct / DIRECT_RATE + loads * taps), 0
    for tile in tiles:
        places = (tile + TAPS - 1) ** 2
        columns = images * tiles_of(size[0], tile) * tiles_of(size[1], tile)
        moved = 4 * places * columns * (channels + filters)
        moved += 0 if ahead else 4 * (places + taps) * product * depth
        cost = places * columns * product * frames / RATE + MOVED_BYTE * moved
        cost += loads * places
        if cost < least:
            least, chosen = cost, tile
    return chosen


def tiles_of(size: int, tile: int) -> int:
    """Tiles along a side of `size` outputs; the last may be cut."""
    return -(-size // tile)


def winograd_input(data: Tensor, tile: int, padding: Sequence[int]) -> Tensor:
    """Transformed tiles (a * a, C / b, ..., N * TH * TW, b) of data (N, C / b, ..., H, W, b).

    `padding`: (top, left, bottom, right), of a convolution with (H + top + bottom - 2) rows and as
    many columns of outputs; `tile`: one of POINTS. The result has the type of `data`. Lavin and
    Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016. Raises TilewrightError where
    the padding has not as many values as the tensor has dimensions.
    """
    n, blocks, *depth, h, w, b = (_known(d) for d in data.shape)
    top, left, bottom, right = padding
    oh, ow = h + top + bottom - TAPS + 1, w + left + right - TAPS + 1
    th, tw = tiles_of(oh, tile), tiles_of(ow, tile)
    after = (th * tile + TAPS - 1 - h - top, tw * tile + TAPS - 1 - w - left)
    flat = [0] * (2 + len(depth))
    padded = pad(data, (*flat, top, left, 0), (*flat, *after, 0), 0.0, "winograd_pad")

    def element(outer: Any, t: Any, y: Any, x: Any, lane: Any) -> Any:
        row, column = t // tw % th * tile + y, t % tw * tile + x
        return padded(t // (th * tw), *outer, row, column, lane)

    return transformed_input(element, tile, (blocks, *depth), n * th * tw, b)


def transformed_input(
    element: Callable[..., Any],
    tile: int,
    outer: Sequence[int],
    tiles: int,
    lanes: int,
    count: int = TAPS,
) -> Tensor:
    """(a * a, *outer, tiles, lanes): the transforms of tiles that `element(outer, t, y, x, lane)`
    gives, a x a elements each, for filters of `count` taps."""
    shape = (*outer, tiles, tile + count - 1, lanes)
    rows = transforms(tile, count).input

    def of_tiles(i: Any, y: Any, x: Any, lane: Any) -> Any:
        return element(i[:-1], i[-1], y, x, lane)

    return _transformed(of_tiles, rows, tile + count - 1, shape, "winograd_input")


def transformed_filter(
    element: Callable[..., Any],
    tile: int,
    outer: Sequence[int],
    lanes: int,
    attrs: Any,
    count: int = TAPS,
) -> Tensor:
    """(a * a, *outer, lanes): the transforms of filters of which `element(outer, y, x, lane)` gives
    the elements, `count` in each direction."""
    shape, rows = (*outer, count, lanes), transforms(tile, count).filter
    return _transformed(element, rows, tile + count - 1, shape, "winograd_filter", attrs)


def _transformed(
    element: Callable[..., Any],
    rows: Rows,
    side: int,
    shape: Sequence[int],
    name: str,
    attrs: Any = None,
) -> Tensor:
    """(side * side, *outer, lanes): `rows` times the elements times the rows turned; `shape`:
    (*outer, columns of elements, lanes)."""
    *outer, columns, lanes = shape
    half = compute(
        (*outer, side, columns, lanes),
        lambda *i: combined(rows, i[-3], lambda y: element(i[:-3], y, i[-2], i[-1])),
        "winograd_rows",
        "winograd_rows",
        attrs,
    )
    result: Tensor = compute(
        (side * side, *outer, lanes),
        lambda p, *i: combined(rows, p % side, lambda x: half(*i[:-1], p // side, x, i[-1])),
        name,
        name,
    )
    return result


def winograd_product(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int] = (),
    padding: Sequence[int] = (),
    dilation: Sequence[int] = (),
) -> Tensor:
    """Products of data (P, C / b, ..., T, b) and kernel (P, F / f, C / b, ..., b, f): (P, F / f,
    ..., T, f). The dimensions in between are convolved: strides, padding in front of each, then
    behind each, and dilation are theirs. The result has the type of `data`. Lavin and Gray, Fast
    Algorithms for Convolutional Neural Networks, CVPR 2016. Raises TilewrightError where data and
    kernel do not fit each other, where the padding has not as many values as the tensor has
    dimensions."""
    places, blocks, *depth, tiles, b = data.shape
    places2, filters, blocks2, *window, b2, f = kernel.shape
    if [_known(d) for d in (places, blocks, b)] != [_known(d) for d in (places2, blocks2, b2)]:
        raise TilewrightError(f"winograd: tiles {data.shape} do not fit filters {kernel.shape}")
    rank = len(depth)
    before, after = padding[:rank], padding[rank:]
    padded = data
    if any(padding):
        padded = pad(data, [0, 0, *before, 0, 0], [0, 0, *after, 0, 0], 0.0, "depth_pad")
    every = zip(depth, window, strides, before, after, dilation)
    shape = (places, filters, *(conv_extent(*given) for given in every), tiles, f)
    co, ci = reduce_axis((0, blocks), "co"), reduce_axis((0, b), "ci")
    taps = [reduce_axis((0, k), f"r{d}") for d, k in enumerate(window)]

    def element(p: Any, k: Any, *i: Any) -> Any:
        *at, t, v = i
        frames = [j * s + r * d for j, s, r, d in zip(at, strides, taps, dilation)]
        return reduce_sum(
            padded(p, co, *frames, t, ci) * kernel(p, k, co, *taps, ci, v), axis=[*taps, co, ci]
        )

    result: Tensor = compute(shape, element, "winograd_product", "winograd_product")
    return result


def winograd_output(product: Tensor, tile: int, batch: int, size: Sequence[int]) -> Tensor:
    """Outputs (N, F / f, ..., OH, OW, f) of products (a * a, F / f, ..., N * TH * TW, f); `size`:
    OH, OW. The result has the type of `product`. Lavin and Gray, Fast Algorithms for Convolutional
    Neural Networks, CVPR 2016. Raises TilewrightError where product is not of the images' tiles."""
    places, filters, *depth, tiles, f = (_known(d) for d in product.shape)
    oh, ow = size
    th, tw = tiles_of(oh, tile), tiles_of(ow, tile)
    side = tile + TAPS - 1
    if places != side * side or tiles != batch * th * tw:
        raise TilewrightError(
            f"winograd: {product.shape} is not the product for {batch} images of {oh} x {ow}"
        )

    def place(b: Any, *i: Any) -> Any:
        *outer, y, x, v = i
        return outer, (b * th + y // tile) * tw + x // tile, y, x, v

    rank = len(depth)
    shape = (batch, filters, *depth, oh, ow, f)
    name = "winograd_output"
    return transformed_output(product, tile, shape, (2 + rank, 3 + rank), place, name)


def transformed_output(
    product: Tensor,
    tile: int,
    shape: Sequence[int],
    window: tuple[int, int],
    place: Callable[..., Any],
    name: str,
    attrs: Mapping[str, Any] | None = None,
    count: int = TAPS,
) -> Tensor:
    """Outputs of products (a * a, *outer, tiles, lanes). `place(*indices)` gives (outer, tile, y,
    x, lane) of an output; `window`: which of its axes are y and x; `count`: taps of filters."""
    _, *outer, tiles, lanes = (_known(d) for d in product.shape)
    rows, side = transforms(tile, count).output, tile + count - 1
    half = compute(
        (*outer, tiles, tile, side, lanes),
        lambda *i: combined(rows, i[-3], lambda p: product(p * side + i[-2], *i[:-3], i[-1])),
        "winograd_columns",
        "winograd_columns",
    )

    def element(*indices: Any) -> Any:
        k, t, y, x, lane = place(*indices)
        return combined(rows, x % tile, lambda q: half(*k, t, y % tile, q, lane))

    own = {**(attrs or {}), WINDOW: window}
    result: Tensor = compute(shape, element, name, "winograd_output", own)
    return result


def combined(rows: Rows, which: Any, value: Callable[[int], Any]) -> Any:
    """The sum that row `which` makes of values."""
    sums = [_sum(row, value) for row in rows]
    result = sums[-1]
    for n in reversed(range(len(sums) - 1)):
        result = O.if_then_else(which == n, sums[n], result)
    return result


def _sum(row: Sequence[float], value: Callable[[int], Any]) -> Any:
    total: Any = None
    for n, factor in enumerate(row):
        if factor:
            term = value(n)
            if total is None:
                total = term if factor == 1 else term * const(factor, term.dtype)
            elif abs(factor) == 1:
                total = total + term if factor > 0 else total - term
            else:
                total = total + term * const(factor, term.dtype)
    return total


def _known(extent: Any) -> int:
    known = const_int(extent)
    if known is None:
        raise TilewrightError(f"winograd: shapes have to be constant, got {extent}")
    return known
