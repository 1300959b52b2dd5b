"""Tensors made of known numbers, of shapes, or of others by simple rules: ranges, stacks, grids,
triangles, diagonals, masks."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from ..base.errors import TilewrightError
from ..loopir import op as O
from ..loopir.expr import FloatImm, IntImm, cast, const, convert
from ..tensor.broadcast import broadcast_shape, read_broadcast
from ..tensor.compute import compute
from ..tensor.extents import dimension
from ..tensor.tensor import Tensor
from .scatter import scatter_at
from .transform import INJECTIVE, check_joined, reshape
from .utils import AT_LEAST_2, get_const_int, of_rank, simplify


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: str = "float32") -> Tensor:
    """start, start + step, ... below `stop` (above it, with a step below zero), of one dimension;
    from 0 on with one bound alone. Returns (elements,) of `dtype`. Raises TilewrightError where
    step is 0, where `start` and `step` are vectors of different lengths, where `dtype` is no type
    such as 'float32', and OperandError where `start`, `step` or `stop` is neither a number nor an
    expression."""
    if stop is None:
        start, stop = 0, start
    numbers = [_number(x) for x in (start, stop, step)]
    if None not in numbers:
        first, last, width = (x or 0 for x in numbers)
        if width == 0:
            raise TilewrightError("arange: the step is zero")
        extent: Any = max(0, ceil((last - first) / width))
    elif isinstance(numbers[2], int) and numbers[2] > 0 and not _is_float(start, stop):
        extent = simplify(O.floordiv(convert(stop) - start + (numbers[2] - 1), numbers[2]))
    else:
        extent = cast(
            "int32", O.ceil(cast("float32", convert(stop) - start) / cast("float32", step))
        )
    start, step = cast(dtype, start), cast(dtype, step)
    result: Tensor = compute(
        (extent,), lambda i: start + step * cast(dtype, i), "T_arange", INJECTIVE
    )
    return result


def _is_float(*bounds: Any) -> bool:
    return any("float" in convert(x).dtype for x in bounds)


def _number(x: Any) -> Any:
    if isinstance(x, (int, float)):
        return x
    return x.value if isinstance(x, (IntImm, FloatImm)) else None


def stack(a: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors of one shape along a new dimension `axis`. Where types differ, the result has the one
    that arithmetic brings them to. Raises TilewrightError where `axis` is no integer, or no
    dimension of the tensor, where the tensors have not one shape."""
    rank = a[0].ndim + 1
    at = dimension(axis, rank)
    check_joined("stack", a, None)
    shape = [*a[0].shape[:at], const(len(a)), *a[0].shape[at:]]

    def element(*i: Any) -> Any:
        place = (*i[:at], *i[at + 1 :])
        value: Any = a[-1](*place)
        for k in reversed(range(len(a) - 1)):
            value = O.if_then_else(i[at].equal(k), a[k](*place), value)
        return value

    result: Tensor = compute(shape, element, "T_stack", INJECTIVE)
    return result


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """`a` with one dimension in reverse. Takes any type, which the result keeps. Raises
    TilewrightError where `axis` is no integer, or no dimension of the tensor."""
    at = dimension(axis, a.ndim)
    result: Tensor = compute(
        a.shape,
        lambda *i: a(*i[:at], a.shape[at] - 1 - i[at], *i[at + 1 :]),
        "T_flip",
        INJECTIVE,
    )
    return result


def repeat(a: Tensor, repeats: int, axis: int) -> Tensor:
    """Every element along an axis so many times in a row. The extent along the axis is `repeats`
    times as large. Takes any type, which the result keeps. Raises TilewrightError where `axis` is
    no integer, or no dimension of the tensor."""
    at = dimension(axis, a.ndim)
    shape = [*a.shape[:at], a.shape[at] * repeats, *a.shape[at + 1 :]]
    result: Tensor = compute(
        shape, lambda *i: a(*i[:at], i[at] // repeats, *i[at + 1 :]), "T_repeat", INJECTIVE
    )
    return result


def meshgrid(a_tuple: Sequence[Tensor], indexing: str) -> list[Tensor]:
    """Of each vector (or scalar) its numbers over the grid of all: "ij", or "xy" with the first two
    dimensions changed. Takes any type, which the result keeps. Raises TilewrightError where
    indexing is neither 'ij' nor 'xy'."""
    if indexing not in ("ij", "xy"):
        raise TilewrightError(f"meshgrid: indexing is 'ij' or 'xy', got {indexing!r}")
    places = list(range(len(a_tuple)))
    if indexing == "xy" and len(places) >= 2:
        places[:2] = [1, 0]
    sizes = [a.shape[0] if a.ndim else const(1) for a in a_tuple]
    shape = [sizes[k] for k in places]

    def grid(k: int) -> Tensor:
        a, at = a_tuple[k], places.index(k)
        result: Tensor = compute(
            shape, lambda *i: a(i[at]) if a.ndim else a(), "T_meshgrid", INJECTIVE
        )
        return result

    return [grid(k) for k in range(len(a_tuple))]


def expand_like(a: Tensor, shape_like: Tensor, axis: Sequence[int]) -> Tensor:
    """`a` with new dimensions `axis`, repeated to the shape of another tensor. The result has the
    type of `a`, which is any. Raises TilewrightError where `axis` does not hold integers that say
    which dimensions are new."""
    rank = shape_like.ndim
    new = {dimension(d, rank) for d in axis}
    if a.ndim == 1 and len(new) == rank:  # one number in a vector
        whole: Tensor = compute(shape_like.shape, lambda *i: a(0), "T_expand_like", INJECTIVE)
        return whole
    if len(new) + a.ndim != rank:
        raise TilewrightError(
            f"shape inconsistent when expand_like ({len(axis)}, {a.ndim}, {rank})"
        )
    kept = [d for d in range(rank) if d not in new]
    result: Tensor = compute(
        shape_like.shape, lambda *i: a(*(i[d] for d in kept)), "T_expand_like", INJECTIVE
    )
    return result


def shape(array: Tensor, dtype: str = "int32") -> Tensor:
    """The extents of a tensor as a tensor of one dimension. A tensor of `dtype`. Raises
    TilewrightError where `dtype` is no type such as 'float32'."""
    sizes = [cast(dtype, d) for d in array.shape]

    def element(i: Any) -> Any:
        value = const(0, dtype)
        for k, d in enumerate(sizes):
            value = O.if_then_else(i.equal(k), d, value)
        return value

    result: Tensor = compute((array.ndim,), element, "T_shape", INJECTIVE)
    return result


def ndarray_size(array: Tensor, dtype: str = "int32") -> Tensor:
    """The number of elements of a tensor, without dimensions. A tensor of `dtype`. Raises
    TilewrightError where `dtype` is the type of a handle, where `dtype` is no type such as
    'float32'."""
    total: Any = const(1, dtype)
    for d in array.shape:
        total = total * cast(dtype, d)
    result: Tensor = compute((), lambda: total, "T_ndarray_size", INJECTIVE)
    return result


def one_hot(
    indices: Tensor, on_value: Any, off_value: Any, depth: Any, axis: int, dtype: str
) -> Tensor:
    """`on_value` where the index along a new dimension `axis` of `depth` is that of `indices`, else
    `off_value`. A tensor of `dtype`. Raises TilewrightError where `axis` is no integer, or no
    dimension of the tensor, where `off_value` and `on_value` are vectors of different lengths,
    where `dtype` is no type such as 'float32', and OperandError where `off_value` or `on_value` is
    neither a number nor an expression."""
    at = dimension(axis, indices.ndim + 1)
    shape = [*indices.shape[:at], depth, *indices.shape[at:]]
    on, off = cast(dtype, on_value), cast(dtype, off_value)

    def element(*i: Any) -> Any:
        index = indices(*i[:at], *i[at + 1 :])
        return O.select(index.equal(cast(index.dtype, i[at])), on, off)

    result: Tensor = compute(shape, element, "T_one_hot", INJECTIVE)
    return result


def sequence_mask(
    data: Tensor, valid_length: Tensor, mask_value: float = 0, axis: int = 0
) -> Tensor:
    """`data` with `mask_value` from place valid_length[batch] on along `axis`, 0 or 1; the other of
    the first two dimensions is the batch. The result has the type of `data`, which is any. Raises
    TilewrightError where axis is neither 0 nor 1, or valid_length has not one dimension."""
    if axis not in (0, 1) or data.ndim < 2 or valid_length.ndim != 1:
        raise TilewrightError(f"sequence_mask: {data!r}, {valid_length!r}, axis {axis}: 0 or 1")

    def element(*i: Any) -> Any:
        length = valid_length(i[1 - axis])
        inside = cast(length.dtype, i[axis]) < length
        return O.if_then_else(inside, data(*i), cast(data.dtype, mask_value))

    result: Tensor = compute(data.shape, element, "T_sequence_mask", INJECTIVE)
    return result


def unravel_index(indices: Tensor, shape: Tensor) -> Tensor:
    """The indices in an array of `shape`, given in a tensor, of row-major numbers: a line for each
    dimension. Takes integers, whose type the result keeps. Raises UsageError where `shape` has an
    extent or a value that has to be constant and is not."""
    rank = get_const_int(shape.shape[0])

    def element(*i: Any) -> Any:
        flat: Any = indices(*i[1:])
        value = flat
        for d in reversed(range(rank)):
            size = cast(flat.dtype, shape(d))
            value = O.if_then_else(i[0].equal(d), O.indexmod(flat, size), value)
            flat = O.indexdiv(flat, size)
        return value

    result: Tensor = compute((rank, *indices.shape), element, "T_unravel", INJECTIVE)
    return result


def trilu(data: Tensor, k: Any, upper: bool) -> Tensor:
    """Of matrices in the last two dimensions the upper triangle, or the lower one, from (up to)
    diagonal `k` on: a number, an expression, or a tensor without dimensions. The rest is zero.
    Takes any type, which the result keeps. Raises TilewrightError where data has fewer than two
    dimensions."""
    if data.ndim < 2:
        raise TilewrightError(f"trilu: {data!r} has no two dimensions")

    def element(*i: Any) -> Any:
        diagonal = (
            k() if isinstance(k, Tensor) and not k.ndim else k[0] if isinstance(k, Tensor) else k
        )
        row, column = (cast("int64", j) for j in i[-2:])
        away = cast("int64", convert(diagonal))
        inside = column >= row + away if upper else column <= row + away
        return O.select(inside, data(*i), const(0, data.dtype))

    result: Tensor = compute(data.shape, element, "trilu", INJECTIVE)
    return result


def adv_index(data: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """data[indices[0], indices[1], ...] as in NumPy: tensors of integers, broadcast to one shape,
    for the first dimensions. An index below zero is not meant to occur. Raises TilewrightError
    where indices are more than the dimensions of data, where the shapes of `indices` do not
    broadcast."""
    together: tuple[Any, ...] = ()
    for x in indices:
        together = broadcast_shape(together, x.shape)
    rank = len(together)
    if len(indices) > data.ndim:
        raise TilewrightError(f"adv_index: {len(indices)} indices for {data!r}")

    def element(*i: Any) -> Any:
        at = [read_broadcast(x, i[:rank], together) for x in indices]
        return data(*at, *i[rank:])

    whole = [*together, *data.shape[len(indices) :]]
    result: Tensor = compute(whole, element, "advanced_index", INJECTIVE)
    return result


_ALIGN = ("LEFT_RIGHT", "LEFT_LEFT", "RIGHT_LEFT", "RIGHT_RIGHT")


@of_rank(data=AT_LEAST_2)
def matrix_set_diag(
    data: Tensor, diagonal: Tensor, k: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """`data`, matrices in the last two dimensions, with the diagonals `k` (or from k[0] to k[1])
    from `diagonal`: (..., length), or (..., diagonals, longest length), the last first, where
    `align` says at which end those above the main diagonal, and those below it, are filled up. The
    result has the type of `data`, which is any. Raises TilewrightError where align is unknown."""
    first, last = (k, k) if isinstance(k, int) else (k[0], k[-1])
    first, last = get_const_int(first), get_const_int(last)
    if align not in _ALIGN:
        raise TilewrightError(
            f"matrix_set_diag: align is one of {', '.join(_ALIGN)}, got {align!r}"
        )
    rows, columns = data.shape[-2:]
    above_right, below_right = (part == "RIGHT" for part in align.split("_"))
    several = first != last
    longest = diagonal.shape[-1]

    def length(d: Any) -> Any:
        return O.min(rows + O.min(d, 0), columns - O.max(d, 0))

    def element(*i: Any) -> Any:
        *head, y, x = i
        d = x - y
        place = O.min(y, x)  # along its diagonal
        if several:
            gap = longest - length(d)
            right = O.select(d >= 0, const(above_right), const(below_right))
            place = place + O.select(right, gap, const(0))
            value = diagonal(*head, last - d, place)
        else:
            value = diagonal(*head, place)
        inside = O.all(d >= first, d <= last)
        return O.if_then_else(inside, value, data(*i))

    result: Tensor = compute(data.shape, element, "matrix_set_diag", INJECTIVE)
    return result


_FEW = 8  # sparse elements, for each of which every element asks whether it is the one


def _base(output_shape: Sequence[Any], value: Any, dtype: str) -> Tensor:
    result: Tensor = compute(
        output_shape,
        lambda *i: cast(dtype, value() if isinstance(value, Tensor) else value),
        "T_default",
        INJECTIVE,
    )
    return result


def sparse_to_dense(
    sparse_indices: Tensor,
    output_shape: Sequence[Any],
    sparse_values: Tensor,
    default_value: Any = 0,
) -> Tensor:
    """A tensor of `output_shape` with sparse_values[k] at sparse_indices[k] (numbers, or a number
    for each dimension), and `default_value`, a number or a tensor without dimensions, elsewhere.
    The result has the type of `sparse_values`, which is any; indices are integers. Raises
    UsageError where `sparse_indices` has an extent or a value that has to be constant and is not,
    and TilewrightError where two extents are -1, or the shape has another number of elements."""
    scalar, many = sparse_indices.ndim == 0, sparse_indices.ndim == 2
    count = 1 if scalar else get_const_int(sparse_indices.shape[0])
    rank = len(output_shape)
    dtype = sparse_values.dtype
    if count > _FEW:
        base = _base(output_shape, default_value, dtype)
        places = sparse_indices if many else reshape(sparse_indices, (count, 1))
        return scatter_at(base, places, sparse_values, "update", -1)

    def element(*i: Any) -> Any:
        other = default_value() if isinstance(default_value, Tensor) else default_value
        value = cast(dtype, other)
        for n in range(count):
            at = [
                sparse_indices() if scalar else sparse_indices(n, d) if many else sparse_indices(n)
                for d in range(rank)
            ]
            here = O.all(const(True), *(p.equal(cast(p.dtype, j)) for p, j in zip(at, i)))
            new = sparse_values() if sparse_values.ndim == 0 else sparse_values(n)
            value = O.if_then_else(here, new, value)
        return value

    result: Tensor = compute(output_shape, element, "T_sparse_to_dense", INJECTIVE)
    return result


def eye(n: int, m: int | None = None, k: int = 0, dtype: str = "float32") -> Tensor:
    """A matrix of `n` x `m` (m: as n) with ones on diagonal `k`, and zeros elsewhere. Returns (n,
    m) of `dtype`. Raises TilewrightError where `dtype` is the type of a handle, where `dtype` is no
    type such as 'float32'."""
    one, zero = const(1, dtype), const(0, dtype)
    result: Tensor = compute(
        (n, n if m is None else m),
        lambda i, j: O.select((j - i).equal(k), one, zero),
        "T_eye",
        INJECTIVE,
    )
    return result
