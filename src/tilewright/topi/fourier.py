"""Fourier transforms: of whole lines, and of windows that slide over them."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

from ..base.errors import TilewrightError
from ..loopir import op as O
from ..loopir.expr import cast, const, const_int, convert
from ..tensor.axes import reduce_axis
from ..tensor.compute import compute
from ..tensor.reduce import sum as reduce_sum
from ..tensor.tensor import Tensor
from .elemwise import accumulator, unary


def _angle(row: Any, k: Any, n: Any, dtype: str) -> Any:
    """2 pi row k / n, of the remainder of row * k by n, so that nothing is lost of large ones."""
    turn = O.floormod(cast("int64", row) * cast("int64", k), cast("int64", n))
    return cast(dtype, turn) * const(2 * pi, dtype) / cast(dtype, n)


def stft(
    data: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    window: Tensor,
    normalized: bool,
    onesided: bool,
    output_shape: Sequence[Any],
) -> Tensor:
    """Fourier transforms of windows of data (batch, samples) or (samples,): window `f` begins at
    sample f * hop_length and is multiplied by `window` (win_length,).

    Returns `output_shape`, (batch, frequencies, windows, 2) or without batch, real and imaginary
    parts; divided by sqrt(n_fft) where `normalized`. How many frequencies there are, n_fft // 2 + 1
    if `onesided`, else n_fft, stands in the shape. Takes floats; the result has the type of `data`.
    As torch.stft of PyTorch has it. Raises UsageError where `win_length` is no integer.
    """
    dtype = data.dtype
    expected = n_fft // 2 + 1 if onesided else n_fft
    _check_rows(output_shape[-3], expected)
    k = reduce_axis((0, win_length), "k")

    def element(*i: Any) -> Any:
        *batch, row, frame, part = i
        value = data(*batch, frame * hop_length + k) * window(k)
        angle = _angle(row, k.var, win_length, dtype)
        wave = O.select(part.equal(0), O.cos(angle), -O.sin(angle))
        return reduce_sum(value * wave, axis=k)

    result: Tensor = compute(output_shape, element, "T_stft")
    if normalized:
        scale = const(n_fft**-0.5, dtype)
        return unary(lambda v: v * scale, result, "T_stft_scale")
    return result


def _check_rows(rows: Any, expected: int) -> None:
    found = const_int(convert(rows))
    if found is not None and found != expected:
        raise TilewrightError(f"stft: {expected} frequencies, but the output's shape has {found}")


def dft(re_data: Tensor, im_data: Tensor, inverse: Any) -> list[Tensor]:
    """The Fourier transform along the last dimension of complex numbers, as real and imaginary
    parts; the inverse one, which divides by their number, where `inverse`. Of narrow floats the
    sums are taken in float32. As numpy.fft of NumPy has it."""
    n = re_data.shape[-1]
    dtype = accumulator(re_data.dtype)
    sign = 1 if inverse else -1

    def part(imaginary: bool) -> Tensor:
        k = reduce_axis((0, n), "k")

        def element(*i: Any) -> Any:
            x, y = (cast(dtype, of(*i[:-1], k)) for of in (re_data, im_data))
            angle = _angle(i[-1], k.var, n, dtype)
            c, s = O.cos(angle), O.sin(angle) * sign
            return reduce_sum(x * s + y * c if imaginary else x * c - y * s, axis=k)

        total: Tensor = compute(re_data.shape, element, "T_dft")
        narrow = re_data.dtype
        count = cast(dtype, n if inverse else 1)
        return unary(lambda v: cast(narrow, v / count), total, "T_dft_scale")

    return [part(False), part(True)]
