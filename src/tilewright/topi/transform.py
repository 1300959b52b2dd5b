"""Operations that move elements: reshape, transpose, concatenate, pad, layout changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import TilewrightError
from ..base.face import face
from ..loopir import op as O
from ..loopir.expr import PrimExpr, cast, const, const_int, convert
from ..tensor.compute import compute
from ..tensor.extents import dimension
from ..tensor.tensor import Tensor
from .tag import BROADCAST

INJECTIVE = "injective"

__getattr__, _ = face(
    __name__,
    {
        "topi.slices": "dynamic_strided_slice sliding_window split strided_set strided_slice",
        "topi.making": (
            "adv_index arange expand_like flip matrix_set_diag meshgrid ndarray_size one_hot "
            "repeat sequence_mask shape sparse_to_dense stack trilu unravel_index"
        ),
        "topi.layouts": "layout_transform",
        "topi.arrange": "reverse_sequence tile",
        "topi.elemwise": "where",
        "topi.scatter": "gather gather_nd invert_permutation",
        "topi.products": "tensordot",
        "topi.nn.dense": "matmul=plain_matmul",
    },
)
"""What else moves elements, under the name that TVM's users know: `tvm.topi.transform`."""


def _size(shape: Sequence[Any]) -> PrimExpr:
    size: PrimExpr = const(1)
    for d in shape:
        size = size * d
    return size


def reshape(a: Tensor, newshape: Sequence[Any]) -> Tensor:
    """The elements of a, in row-major order, with another shape; one extent may be -1. Takes any
    type, which the result keeps. Raises OperandError where `newshape` holds what is neither a
    number nor an expression, and TilewrightError where two extents are -1, or the shape has another
    number of elements."""
    shape = [convert(d) for d in newshape]
    unknown = [i for i, d in enumerate(shape) if const_int(d) == -1]
    if len(unknown) > 1:
        raise TilewrightError("reshape: at most one extent may be -1")
    if unknown:
        rest = _size([d for i, d in enumerate(shape) if i != unknown[0]])
        shape[unknown[0]] = _size(a.shape) // rest
    have, want = const_int(_size(a.shape)), const_int(_size(shape))
    if have is not None and want is not None and have != want:
        raise TilewrightError(
            f"reshape of {have} elements to {want}: {a!r} to ({', '.join(map(str, shape))})"
        )

    def element(*i: Any) -> PrimExpr:
        flat: PrimExpr = const(0)
        for index, extent in zip(i, shape):
            flat = flat * extent + index
        return a(*unravel(flat, a.shape))

    result: Tensor = compute(shape, element, "T_reshape", INJECTIVE)
    return result


def unravel(flat: PrimExpr, shape: Sequence[PrimExpr]) -> list[PrimExpr]:
    """The indices of the row-major element number `flat`; any, where there are no elements."""
    if any(const_int(d) == 0 for d in shape):
        return [const(0) for _ in shape]
    indices: list[PrimExpr] = []
    for extent in reversed(shape[1:]):
        indices.append(flat % extent)
        flat = flat // extent
    if shape:
        indices.append(flat)
    return list(reversed(indices))


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Dimension k of the result is dimension axes[k] of a (all reversed by default). Takes any
    type, which the result keeps. Raises TilewrightError where axes are no permutation of the
    dimensions."""
    order = list(axes) if axes is not None else list(reversed(range(a.ndim)))
    places = [dimension(d, a.ndim) for d in order]
    if sorted(places) != list(range(a.ndim)):
        raise TilewrightError(f"transpose: axes {order} are no permutation of {a.ndim} dimensions")

    def element(*i: Any) -> Any:
        back: list[Any] = [None] * a.ndim
        for k, d in enumerate(places):
            back[d] = i[k]
        return a(*back)

    result: Tensor = compute([a.shape[d] for d in places], element, "T_transpose", INJECTIVE)
    return result


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """New dimensions of extent 1 before dimension `axis`. Takes any type, which the result keeps.
    Raises TilewrightError where `axis` is no integer, or no dimension of the tensor."""
    at = dimension(axis, a.ndim + 1)
    shape = [*a.shape[:at], *[const(1)] * num_newaxis, *a.shape[at:]]

    def element(*i: Any) -> Any:
        return a(*i[:at], *i[at + num_newaxis :])

    result: Tensor = compute(shape, element, "T_expand_dims", INJECTIVE)
    return result


def squeeze(a: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Without the dimensions `axis` of extent 1 (all of extent 1 by default). Takes any type, which
    the result keeps. Raises TilewrightError where a dimension of axis is not of extent 1."""
    if axis is None:
        gone = {k for k, d in enumerate(a.shape) if const_int(d) == 1}
    else:
        gone = {dimension(d, a.ndim) for d in ([axis] if isinstance(axis, int) else axis)}
        long = [k for k in sorted(gone) if const_int(a.shape[k]) not in (1, None)]
        if long:
            raise TilewrightError(f"squeeze: dimension {long[0]} of {a!r} is not of extent 1")
    kept = [k for k in range(a.ndim) if k not in gone]

    def element(*i: Any) -> Any:
        full: list[Any] = [const(0)] * a.ndim
        for k, index in zip(kept, i):
            full[k] = index
        return a(*full)

    result: Tensor = compute([a.shape[k] for k in kept], element, "T_squeeze", INJECTIVE)
    return result


def flatten(x: Tensor, axis: int = 1) -> Tensor:
    """Two dimensions: those before `axis`, and the rest. Takes any type, which the result keeps."""
    head, tail = x.shape[:axis], x.shape[axis:]

    def element(i: Any, j: Any) -> Any:
        return x(*unravel(i, head), *unravel(j, tail))

    result: Tensor = compute((_size(head), _size(tail)), element, "T_flatten", INJECTIVE)
    return result


def check_joined(what: str, tensors: Sequence[Tensor], along: int | None) -> None:
    """TilewrightError unless the tensors have one shape, but for dimension `along`."""
    first = tensors[0]
    for t in tensors[1:]:
        pairs = zip(map(const_int, first.shape), map(const_int, t.shape))
        differ = [
            d for d, (a, b) in enumerate(pairs) if d != along and a != b and None not in (a, b)
        ]
        if differ or t.ndim != first.ndim:
            but = "" if along is None else f", but for dimension {along}"
            raise TilewrightError(
                f"{what} takes tensors of one shape{but}: got {first!r} and {t!r}"
            )


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors one after another along `axis`. The result has the shape of each but for `axis`,
    along which extents add up. Where types differ, the result has the one that arithmetic brings
    them to. Raises TilewrightError where `axis` is no integer, or no dimension of the tensor."""
    tensors = list(a_tuple)
    at = dimension(axis, tensors[0].ndim)
    check_joined("concatenate", tensors, at)
    total: PrimExpr = const(0)
    for t in tensors:
        total = total + t.shape[at]
    shape = [*tensors[0].shape[:at], total, *tensors[0].shape[at + 1 :]]

    def element(*i: Any) -> PrimExpr:
        bounds: list[PrimExpr] = []
        end: PrimExpr = const(0)
        for t in tensors:
            bounds.append(end)
            end = end + t.shape[at]
        last = len(tensors) - 1
        value: PrimExpr = tensors[last](*i[:at], i[at] - bounds[last], *i[at + 1 :])
        for t, start, stop in reversed(list(zip(tensors[:-1], bounds, bounds[1:]))):
            here = t(*i[:at], i[at] - start, *i[at + 1 :])
            value = O.if_then_else(i[at] < stop, here, value)
        return value

    result: Tensor = compute(shape, element, "T_concat", INJECTIVE)
    return result


def take(
    a: Tensor, indices: Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "clip"
) -> Tensor:
    """Slices of `a` along `axis` at integer `indices`, whose dimensions take the axis' place.

    Without an axis, `a` is one row. The first `batch_dims` dimensions are those of both. An index
    outside: "clip" takes the nearest one that exists, "wrap" counts around, "fast" does not look;
    "from_end" counts numbers below zero from the end, as NumPy, and clips the rest. Raises
    TilewrightError where mode is unknown, or batch_dims are more than axis, where `axis` is no
    integer, or no dimension of the tensor.
    """
    if mode not in ("clip", "wrap", "fast", "from_end"):
        raise TilewrightError(f"take: mode is clip, wrap, fast or from_end, got {mode!r}")
    at = 0 if axis is None else dimension(axis, a.ndim)
    batch = batch_dims if batch_dims >= 0 else batch_dims + indices.ndim
    if batch and (axis is None or batch > at):
        raise TilewrightError(f"take: {batch} batch dimensions, but axis is {axis}")
    rank = indices.ndim - batch
    whole = a.shape if axis is None else (a.shape[at],)

    def element(*i: Any) -> Any:
        place = index_within(indices(*i[:batch], *i[at : at + rank]), _size(whole), mode)
        return a(*i[:at], *unravel(place, whole), *i[at + rank :])

    behind = () if axis is None else a.shape[at + 1 :]
    shape = (*a.shape[:at], *indices.shape[batch:], *behind)
    result: Tensor = compute(shape, element, "T_take", INJECTIVE)
    return result


def index_within(place: Any, extent: PrimExpr, mode: str) -> PrimExpr:
    """An index that exists in a dimension."""
    if mode == "fast":
        return convert(place)
    size, zero = cast(place.dtype, extent), const(0, place.dtype)
    if mode == "wrap":
        wrapped: PrimExpr = O.truncmod(O.truncmod(place, size) + size, size)
        return wrapped
    if mode == "from_end" and not place.dtype.startswith("uint"):
        place = place + O.select(place < 0, size, zero)
    inside: PrimExpr = O.max(O.min(place, size - 1), zero)
    return inside


def broadcast_to(data: Tensor, shape: Sequence[Any]) -> Tensor:
    """`data` repeated along dimensions where its extent is 1 or that it lacks in front. Takes any
    type, which the result keeps. Raises TilewrightError where data does not broadcast to shape."""
    x = data
    ahead = len(shape) - x.ndim
    for have, want in zip(x.shape, shape[max(ahead, 0) :]):
        if ahead < 0 or const_int(have) not in (1, const_int(convert(want))):
            raise TilewrightError(f"broadcast_to: {x!r} does not fit shape {list(shape)}")

    def element(*i: Any) -> Any:
        return x(*[const(0) if const_int(d) == 1 else j for d, j in zip(x.shape, i[ahead:])])

    result: Tensor = compute(shape, element, "T_broadcast_to", BROADCAST)
    return result


def pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor:
    """`pad_before[k]` elements of `pad_value` in front of dimension k and `pad_after[k]` (as many,
    where it is left out) behind it. `attrs`: of the operation. Takes any type, which the result
    keeps. Raises TilewrightError where the padding has not as many values as the tensor has
    dimensions."""
    x, before, after = data, pad_before, pad_before if pad_after is None else pad_after
    if not len(before) == len(after) == x.ndim:
        raise TilewrightError(
            f"Input dimension and pad dimensions mismatch: {x!r}, {len(before)} before and "
            f"{len(after)} after"
        )
    shape = [d + b + a for d, b, a in zip(x.shape, before, after)]

    def element(*i: Any) -> Any:
        inside = []
        where = []
        for index, d, b, a in zip(i, x.shape, before, after):
            where.append(index - b if b else index)
            if b:
                inside.append(index >= b)
            if a:
                inside.append(index < d + b)
        if not inside:
            return x(*i)
        return O.if_then_else(O.all(*inside), x(*where), cast(x.dtype, pad_value))

    result: Tensor = compute(shape, element, name, "injective,pad", attrs)
    return result


def pack_channels(x: Tensor, block: int) -> Tensor:
    """(N, C, ...) to (N, C / block, ..., block); C must be divisible. Takes any type, which the
    result keeps."""
    n, c, *rest = x.shape

    def element(*i: Any) -> Any:
        return x(i[0], i[1] * block + i[-1], *i[2:-1])

    shape = (n, c // block, *rest, block)
    result: Tensor = compute(shape, element, "T_pack_channels", INJECTIVE)
    return result


def unpack_channels(x: Tensor, channels: int | None = None) -> Tensor:
    """(N, C, ..., block) to (N, C * block, ...), or to the first `channels` of them. Takes any
    type, which the result keeps."""
    n, c, *rest, block = x.shape

    def element(*i: Any) -> Any:
        return x(i[0], i[1] // block, *i[2:], i[1] % block)

    result: Tensor = compute(
        (n, channels or c * block, *rest), element, "T_unpack_channels", INJECTIVE
    )
    return result
