"""Winograd's algorithm (winograd.py) for convolutions of volumes with filters transformed ahead, in
two dimensions or in all three. Each dimension is transformed by a stage of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import TilewrightError
from ...loopir.expr import cast
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..transform import pad
from ..utils import get_const_int, of_rank
from .utils import get_pad_tuple3d, several
from .winograd import Rows, combined, tiles_of, transforms


def _transformed(
    source: Callable[..., Any], shape: Sequence[int], axis: int, rows: Rows, name: str
) -> Tensor:
    """Dimension `axis` of what `source` gives by indices, of `shape`, times a matrix."""
    after = [*shape[:axis], len(rows), *shape[axis + 1 :]]

    def element(*i: Any) -> Any:
        return combined(rows, i[axis], lambda k: source(*i[:axis], k, *i[axis + 1 :]))

    result: Tensor = compute(after, element, name, "injective")
    return result


@of_rank(data=5, kernel=5)
def conv3d_winograd_ncdhw_without_weight_transform(
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: str | None,
) -> Tensor:
    """data (N, C, D, H, W), kernel (a, a, a, C, F), whose dimensions are all transformed, or (a, a,
    KD, C, F), for tiles of 4 outputs, where the data has a multiple of 8 rows, else of 2: of a + 1
    - 4, or a + 1 - 2, taps. Returns (N, F, OD, OH, OW) of `out_dtype` (default: of data). Lavin and
    Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016. Raises TilewrightError where
    stride, dilation or groups is not 1, where `dilation` or `strides` has another number of values
    than there are dimensions of space, where the padding has not as many values as the tensor has
    dimensions, where `padding` is neither SAME, VALID nor one or two numbers for each dimension of
    space."""
    n, c, *sizes = (get_const_int(d) for d in data.shape)
    side, _, depth, _, filters = (get_const_int(d) for d in kernel.shape)
    if [*several(strides, 3), *several(dilation, 3), groups] != [1] * 7:
        raise TilewrightError("Winograd's convolutions have stride 1, dilation 1 and one group")
    tile = 4 if sizes[1] % 8 == 0 else 2
    taps, whole = side + 1 - tile, depth == side
    window = [taps if whole else depth, taps, taps]
    pads = get_pad_tuple3d(padding, window)
    before, behind = list(pads[:3]), list(pads[3:])
    out = [s + b + e - k + 1 for s, b, e, k in zip(sizes, before, behind, window)]
    rank = 3 if whole else 2
    tiles = [tiles_of(extent, tile) for extent in out[-rank:]]
    for d, count in zip(range(3 - rank, 3), tiles):
        behind[d] = count * tile + taps - 1 - sizes[d] - before[d]
    padded = pad(data, [0, 0, *before], [0, 0, *behind], 0.0, "data_pad")
    planes = [] if whole else [sizes[0] + before[0] + behind[0]]
    rule, dtype = transforms(tile, taps), out_dtype or data.dtype

    def taken(*i: Any) -> Any:
        inner, (image, *rest), channel = i[:rank], i[rank:-1], i[-1]
        places = [t * tile + e for t, e in zip(rest[len(planes) :], inner)]
        return cast(dtype, padded(image, channel, *rest[: len(planes)], *places))

    shape = [*[side] * rank, n, *planes, *tiles, c]
    moved: Any = taken
    for axis in range(rank):
        moved = _transformed(moved, shape, axis, rule.input, "winograd_input")
    product = _product(moved, kernel, (rank, depth), [*out[: 3 - rank], *tiles], dtype)
    back, shape = product, [get_const_int(d) for d in product.shape]
    for axis in range(rank):
        back = _transformed(back, shape, axis, rule.output, "winograd_output")
        shape[axis] = tile

    def element(image: Any, f: Any, *i: Any) -> Any:
        ends = i[3 - rank :]
        inner, outer = [j % tile for j in ends], [j // tile for j in ends]
        return back(*inner, image, *i[: 3 - rank], *outer, f)

    result: Tensor = compute((n, filters, *out), element, "conv3d_winograd", "injective")
    return result


def _product(
    moved: Tensor, kernel: Tensor, form: tuple[int, int], places: Sequence[int], dtype: str
) -> Tensor:
    """The products of transformed tiles and filters, over channels and the taps of a dimension that
    is not transformed; `form`: how many are, and those taps; `places`: planes and tiles."""
    rank, depth = form
    n, c = moved.shape[rank], moved.shape[-1]
    k = reduce_axis((0, c), "ci")
    step = [] if rank == 3 else [reduce_axis((0, depth), "rd")]

    def element(*i: Any) -> Any:
        inner, (image, *rest), f = i[:rank], i[rank:-1], i[-1]
        planes = [rest[0] + step[0]] if step else []
        value = moved(*inner, image, *planes, *rest[len(step) :], k)
        return reduce_sum(value * cast(dtype, kernel(*inner, *step, k, f)), axis=[*step, k])

    shape = (*kernel.shape[:rank], n, *places, kernel.shape[4])
    result: Tensor = compute(shape, element, "winograd_product")
    return result
