"""Products of numbers of few bits, packed into words: one operation of a word takes many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.dtype import parse
from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.extents import dimension
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..utils import get_const_int, of_rank
from .utils import named
from .windows import windows


def binarize_pack(data: Tensor, axis: int | None = None, name: str = "PackedInput") -> Tensor:
    """Signs along `axis` (the last), 1 for what is not below zero, 32 in a uint32, the first in the
    highest bit. The shape is that of data, with 1/32 of the extent along the axis. Courbariaux et
    al., Binarized Neural Networks, 2016. Raises TilewrightError where the elements do not divide
    into words of 32, where `axis` is no integer, or no dimension of the tensor."""
    at = data.ndim - 1 if axis is None else dimension(axis, data.ndim)
    size = get_const_int(data.shape[at])
    if size % 32:
        raise TilewrightError(f"binarize_pack: {size} elements do not divide into words of 32")
    shape = [*data.shape[:at], const(size // 32), *data.shape[at + 1 :]]

    def element(*i: Any) -> Any:
        word: Any = const(0, "uint32")
        for k in range(32):
            sign = data(*i[:at], i[at] * 32 + k, *i[at + 1 :]) >= const(0, data.dtype)
            word = O.bitwise_or(O.shift_left(word, const(1, "uint32")), cast("uint32", sign))
        return word

    result: Tensor = compute(shape, element, name, "binarize_pack")
    return result


@of_rank(data=2, weight=2)
def binary_dense(data: Tensor, weight: Tensor) -> Tensor:
    """Products of numbers 1 and -1, packed by binarize_pack: data (M, K / 32), weight (N, K / 32).
    Returns (M, N) of float32. Courbariaux et al., Binarized Neural Networks, 2016."""
    m, words = data.shape
    n, _ = weight.shape
    k = reduce_axis((0, words), "k")

    def different(i: Any, j: Any) -> Any:
        ones = O.popcount(O.bitwise_xor(data(i, k), weight(j, k)))
        return reduce_sum(cast("float32", ones), axis=k)

    count: Tensor = compute((m, n), different, "binary_dense", "binary_dense")
    whole = cast("float32", words * 32)
    result: Tensor = compute(
        (m, n),
        lambda i, j: whole - count(i, j) * const(2, "float32"),
        "binary_dense_sum",
        "elemwise",
    )
    return result


def bitpack(
    data: Tensor,
    bits: int,
    pack_axis: int,
    bit_axis: int,
    pack_type: str,
    name: str = "QuantizeInput",
) -> Tensor:
    """Numbers of `bits` bits as planes of one bit each along a new dimension `bit_axis`, packed
    along dimension `pack_axis` into words, the first in the highest bit. Takes integers; words are
    of `pack_type`. Raises TilewrightError where the elements do not divide into words, where
    `bit_axis` is no integer, or no dimension of the tensor, and OperandError where `bits` is
    neither a number nor an expression."""
    lanes = parse(pack_type).bits
    size = get_const_int(data.shape[pack_axis])
    if size % lanes:
        raise TilewrightError(f"bitpack: {size} elements do not divide into words of {lanes}")
    rank = data.ndim + 1
    planes = dimension(bit_axis, rank)
    packed = [*data.shape[:pack_axis], const(size // lanes), *data.shape[pack_axis + 1 :]]
    shape = [*packed[:planes], const(bits), *packed[planes:]]

    def element(*i: Any) -> Any:
        plane, at = i[planes], [*i[:planes], *i[planes + 1 :]]
        word: Any = const(0, pack_type)
        for k in range(lanes):
            place = [*at[:pack_axis], at[pack_axis] * lanes + k, *at[pack_axis + 1 :]]
            value = cast(pack_type, data(*place))
            bit = O.bitwise_and(O.shift_right(value, cast(pack_type, plane)), const(1, pack_type))
            word = O.bitwise_or(O.shift_left(word, const(1, pack_type)), bit)
        return word

    result: Tensor = compute(shape, element, name, "bitpack")
    return result


def _count(x: Any, w: Any, shift: Any, unipolar: bool, dtype: str) -> Any:
    """What two words of planes contribute: numbers of places where both have ones; unipolar weights
    are 1 and -1, and where they have a zero is taken away."""
    both = cast(dtype, O.popcount(O.bitwise_and(x, w)))
    if unipolar:
        both = both - cast(dtype, O.popcount(O.bitwise_and(x, O.bitwise_not(w))))
    return O.shift_left(both, cast(dtype, shift))


def bitserial_dense(
    data: Tensor,
    weight: Tensor,
    data_bits: int,
    weight_bits: int,
    pack_dtype: str = "uint32",
    out_dtype: str = "int16",
    unipolar: bool = True,
) -> Tensor:
    """Products of numbers of few bits: data (M, K), weight (N, K). Bits of a `unipolar` weight are
    1 and -1, else 1 and 0. Returns (M, N) of `out_dtype`. Cowan et al., Automating Generation of
    Low Precision Deep Learning Operators, 2018 (arXiv:1810.11066). Raises TilewrightError where the
    elements do not divide into words, and OperandError where `data_bits` or `weight_bits` is
    neither a number nor an expression."""
    packed = bitpack(data, data_bits, 1, 1, pack_dtype)
    weights = weight if weight.ndim == 3 else bitpack(weight, weight_bits, 1, 1, pack_dtype)
    m, db, words = packed.shape
    n, wb, _ = weights.shape
    k = reduce_axis((0, words), "k")
    d, w = reduce_axis((0, db), "db"), reduce_axis((0, wb), "wb")

    def element(i: Any, j: Any) -> Any:
        term = _count(packed(i, d, k), weights(j, w, k), d.var + w.var, unipolar, out_dtype)
        return reduce_sum(term, axis=[k, d, w])

    result: Tensor = compute((m, n), element, "bitserial_dense", "bitserial_dense")
    return result


def _bitserial_conv2d_in(
    layout: str, at: tuple[Any, Any], axes: tuple[Any, Any], text: str
) -> Callable[..., Tensor]:
    """`at`: which dimensions of packed data are (N, bits, C, H, W), and of packed filters (F, bits,
    C, KH, KW); `axes`: along which dimensions channels are packed, and where bits then stand."""
    mine, theirs = at
    filters = layout.index("C")

    def convolved(
        data: Tensor,
        kernel: Tensor,
        stride: Any,
        padding: Any,
        activation_bits: int,
        weight_bits: int,
        pack_dtype: str = "uint32",
        out_dtype: str = "int16",
        unipolar: bool = True,
    ) -> Tensor:
        """Raises TilewrightError where the channels do not divide into words of pack_dtype, or
        `padding` is neither SAME, VALID nor one or two numbers for each dimension of space. Cowan
        et al., Automating Generation of Low Precision Deep Learning Operators, 2018
        (arXiv:1810.11066)."""
        packed = bitpack(data, activation_bits, axes[0][0], axes[0][1], pack_dtype)
        weights = kernel
        if kernel.ndim != 5:
            weights = bitpack(kernel, weight_bits, axes[1][0], axes[1][1], pack_dtype)
        window = [weights.shape[d] for d in theirs[3:]]
        names = ("ry", "rx")
        w = windows(packed, mine[3:], window, stride, padding, 1, names, "PaddedInput")
        rc = reduce_axis((0, packed.shape[mine[2]]), "rc")
        b1 = reduce_axis((0, packed.shape[mine[1]]), "b1")
        b2 = reduce_axis((0, weights.shape[theirs[1]]), "b2")

        def element(*i: Any) -> Any:
            index = dict(zip(mine, (i[0], b1, rc, *(i[layout.index(c)] for c in "HW"))))
            place = w.at([index[d] for d in range(5)])
            tap = dict(zip(theirs, (i[filters], b2, rc, *w.taps)))
            word, other = w.padded(*place), weights(*(tap[d] for d in range(5)))
            term = _count(word, other, b1.var + b2.var, unipolar, out_dtype)
            return reduce_sum(term, axis=[rc, *w.taps, b2, b1])

        sizes = dict(zip("NCHW", (packed.shape[0], weights.shape[theirs[0]], *w.extents)))
        tag = f"spatial_bitserial_conv_{layout.lower()}"
        shape = [sizes[c] for c in layout]
        result: Tensor = compute(shape, element, "bitserial_conv2d", tag)
        return result

    return named(convolved, f"bitserial_conv2d_{layout.lower()}", text)


bitserial_conv2d_nchw = _bitserial_conv2d_in(
    "NCHW",
    ((0, 2, 1, 3, 4), (0, 4, 1, 2, 3)),
    ((1, 2), (1, 4)),
    """Convolution of numbers of few bits: data (N, C, H, W), kernel (F, C, KH, KW), or packed, (F,
    C / word, KH, KW, bits). Returns (N, F, OH, OW) of `out_dtype`; see bitserial_dense.""",
)
bitserial_conv2d_nhwc = _bitserial_conv2d_in(
    "NHWC",
    ((0, 4, 3, 1, 2), (3, 4, 2, 0, 1)),
    ((3, 4), (2, 4)),
    """As bitserial_conv2d_nchw of data (N, H, W, C) and kernel (KH, KW, C, F), or packed, (KH, KW,
    C / word, F, bits). Returns (N, OH, OW, F).""",
)
